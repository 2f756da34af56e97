"""Commands for the work of a run in a work tree: apply, pr, discard."""

import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import click

from ..errors import RunError, UsageError
from ..runs.deliver import Ended, apply_run, discard_run, end_all, ended_run, has_tree, request_run
from ..runs.record import RunRecord, RunStatus, read_record, short_name
from ..runs.restore import BETWEEN, DISCARDED_LABEL
from ..runs.view import RunView, choose_run, find_run, list_runs
from ..settings.config import state_folder
from ..settings.layout import REQUEST_FILE, run_folder
from ..work.delivery import MergeKind, MergeResult, PullRequest
from ..work.folder import START_LABEL
from .complete import complete_runs
from .connect import connected
from .interrupts import Interrupts
from .printable import one_line, printable
from .report import request_body
from .runs import MOST_ROWS, table

APPLYING = "cao: the work is brought to its end first. Ctrl-C again leaves it half done.\n"
MOST_FILES = 50
"""Files that a refusal names."""
MOVED = {
    MergeKind.FAST_FORWARDED: "{branch} is in {onto} now, at {commit}.",
    MergeKind.MERGED: "{branch} is merged into {onto}, as {commit}.",
    MergeKind.ALREADY_THERE: "{branch} is in {onto} already; nothing was changed.",
}


@click.command()
@click.argument("run", required=False, shell_complete=complete_runs)
def apply(run: str | None) -> None:
    """Bring the work of RUN, which is on a branch of its own, into the branch you work on.

    It fast-forwards or merges. What you have not committed stays as it is: if anything is in the
    way, or there would be conflicts, nothing is changed and the files are named.

    RUN is the ID that `cao runs` lists, the beginning of it, or its last letters. Leave it out for
    the one run of this folder whose work waits.

    Ends with 3 if nothing was applied because something is in the way, 2 if there is nothing to
    apply.

    \b
    cao apply k3f9
    """
    with _found(run, to_deliver=True) as ended:
        # Half of it would be of no use to anybody.
        with Interrupts(APPLYING):
            done = apply_run(ended)
        if done.kind is MergeKind.REFUSED:
            raise RunError(f"nothing was applied: {_refusal(done)}")
        onto = one_line(ended.saved.onto or "what is checked out")
        words = MOVED[done.kind].format(
            branch=ended.saved.branch, onto=onto, commit=done.commit[:12]
        )
    click.echo(words)
    for remark in done.remarks:
        click.echo(printable(remark))


@click.command()
@click.argument("run", required=False, shell_complete=complete_runs)
@click.option("--title", metavar="TEXT", default="", help="Its title; if not given, the task.")
@click.option("--draft", is_flag=True, help="Open it as a draft.")
def pr(run: str | None, title: str, draft: bool) -> None:
    """Push the branch of RUN, and open a pull request (a merge request at GitLab).

    `gh` or `glab` opens it if it is installed; otherwise it tells you what to type. Only this
    command pushes. What the request says is what `cao report RUN --pr` prints, and how the commit
    was judged.

    Ends with 3 if nothing was pushed (there is no remote, or it refused), 2 if there is nothing to
    push.

    \b
    cao pr k3f9
    cao pr k3f9 --draft --title "Keep digits in slugs"
    """
    with _found(run, to_deliver=True) as ended:
        page = request_body(ended.state_folder, ended.record.id)
        done = request_run(ended, title, draft=draft, page=page)
        folder = run_folder(ended.state_folder, ended.record.id)
        body = folder.read(REQUEST_FILE).decode(errors="replace")
    saved = ended.saved
    asked = RequestDraft(saved.branch, saved.onto, title or ended.record.task_line, body, draft)
    for line in request_words(done, asked):
        click.echo(printable(line))


@click.command()
@click.argument("run", required=False, shell_complete=complete_runs)
@click.option("--yes", is_flag=True, help="Do not ask.")
def discard(run: str | None, yes: bool) -> None:
    """Remove the work tree and the branch of RUN. A snapshot keeps what was in it.

    The agents of the run are ended first. Prompts, replies and the proof stay with the run: `cao
    report` has them. It asks first. Nothing is forced: a branch with commits of somebody else
    stays. One that `cao pr` has pushed stays at its remote.

    \b
    cao discard k3f9
    """
    with _found(run, to_deliver=False) as ended:
        click.echo(printable(f"To be removed: {ended.saved.folder}, {ended.saved.branch}"))
        if not yes:
            if not sys.stdin.isatty():
                raise UsageError("nothing was removed; add --yes if it is to go")
            click.confirm("Remove both?", abort=True)
        if ended.record.terminals:
            # They could not work on in a folder that is gone.
            folder = run_folder(ended.state_folder, ended.record.id)
            with connected(os.environ) as client:
                end_all(client, folder, ended.record)
            record = replace(ended.record, terminals={}, session_name="")
            ended = replace(ended, record=record)
        is_kept = discard_run(ended)
    top = ended.tree.worktree.repository.top
    for line in discard_words(ended.record, top, is_kept=is_kept):
        click.echo(printable(line))


def discard_words(record: RunRecord, top: Path, *, is_kept: bool) -> Iterator[str]:
    """Yield what was removed, how it is had back, and what stays."""
    run = short_name(record.id)
    yield "Removed."
    if is_kept:
        # Git leaves out what is beside the folder in which it is run.
        git = shlex.join(["git", "-C", str(top), "apply"])
        yield "A snapshot keeps what was in it. To have it back among your files:"
        yield f"  cao diff {run} {START_LABEL}{BETWEEN}{DISCARDED_LABEL} --raw | {git}"
    if record.tree is not None and record.tree.pushed:
        remote, branch = record.tree.pushed, record.tree.branch
        git = shlex.join(["git", "-C", str(top), "push", remote, "--delete", branch])
        yield f"The branch that was pushed to {remote} stays there. To delete it:\n  {git}"


@dataclass(frozen=True, slots=True)
class RequestDraft:
    """What a request was to be."""

    branch: str
    onto: str
    title: str
    body: str
    draft: bool


def request_words(done: PullRequest, asked: RequestDraft) -> Iterator[str]:
    """Yield what was done for a request, and all that is needed to open one that is not yet."""
    yield f"Pushed {asked.branch} to {done.remote}: git push {done.remote} {asked.branch}"
    if done.url:
        yield done.url
        return
    if done.said:
        yield done.said
    draft = " draft" if asked.draft else ""
    if done.to_type:
        yield f"No{draft} request is open yet. Open it with:\n  {done.to_type}"
        yield f"Or on the page of {done.remote}: a new{draft} request"
    else:
        yield f"No{draft} request is open yet: neither gh nor glab is there for {done.remote}."
        yield f"Open it on the page of {done.remote}: a new{draft} request"
    yield f"  from {asked.branch} into {asked.onto}"
    yield f"  title: {one_line(asked.title)}"
    yield "  text:"
    yield from (f"    {line}".rstrip() for line in asked.body.rstrip("\n").split("\n"))


def choose_waiting(
    runs: Sequence[RunView], waiting: Sequence[RunView], here: Path, now: float
) -> RunView:
    """Return the run whose work is meant if none is named: the one here whose work waits.

    If no work waits here it is the last run: what is wrong with that is said when it is opened.
    """
    own = [run for run in waiting if run.works_in(here)]
    if len(own) == 1:
        return own[0]
    if not runs or (not own and any(run.works_in(here) for run in runs)):
        return choose_run(runs, None, here)
    if not waiting:
        raise UsageError("there is no run of this folder, and no work of any other waits")
    head = "the work of several runs waits here" if own else "no work of a run in this folder waits"
    rows = table((own or waiting)[:MOST_ROWS], here, now)
    raise UsageError("\n  ".join([f"{head}; name one of these:", *rows]))


def _waits(state: Path, run: RunView) -> bool:
    """Does the work of a run wait, on its branch or in its work tree alone?"""
    record = read_record(run_folder(state, run.id)) if run.project and not run.is_live else None
    if record is None or record.tree is None or record.tree.delivered:
        return False
    return bool(run.waiting) or has_tree(state, record)


@contextmanager
def _found(name: str | None, *, to_deliver: bool) -> Iterator[Ended]:
    """Hold the run that is named, else the one whose work waits; only what passed is delivered."""
    state, here = state_folder(os.environ), Path.cwd().resolve()
    if name:
        found = find_run(state, name, here)
    else:
        runs = list_runs(state)
        waiting = [run for run in runs if _waits(state, run)]
        if to_deliver:
            waiting = [run for run in waiting if run.status is RunStatus.PASS]
        found = choose_waiting(runs, waiting, here, time.time())
    with ended_run(state, found.id, os.environ) as ended:
        yield ended


def _refusal(done: MergeResult) -> str:
    files = done.files
    more = len(files) - MOST_FILES
    rest = [f"and {more} more"] if more > 0 else []
    named = [one_line(name) for name in files[:MOST_FILES]]
    return "\n  ".join([printable(done.reason), *named, *rest])
