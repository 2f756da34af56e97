"""Commands about the work of a run: diff, undo, and of a work tree apply, pr, discard."""

import os
import re
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import click
from msgspec.structs import replace

from ..core.text import one_line, plural, printable
from ..errors import NotFound, OrchestratorError, UsageError
from ..runs.deliver import (
    Ended,
    apply_run,
    discard_run,
    end_all,
    ended_run,
    has_tree,
    refuse_committed,
    request_run,
)
from ..runs.record import RunStatus, short_name
from ..runs.restore import (
    BETWEEN,
    DISCARDED_LABEL,
    Kept,
    WayBack,
    find_moment,
    find_span,
    go_back,
    name_of,
    opened_to_go_back,
    plan_way_back,
    read_kept,
)
from ..runs.view import Purpose, RunView, choose_run, find_run, list_runs, runs_that_fit
from ..settings.layout import REQUEST_FILE, SNAPSHOTS_FOLDER, run_folder, state_folder
from ..work.delivery import PullRequest
from ..work.folder import START_LABEL
from ..work.snapshots import has_snapshots
from .complete import complete_runs
from .imports import confirm, current_folder
from .interrupts import Interrupts
from .report import request_body
from .runs import MOST_ROWS, say_if_elsewhere, table
from .terminals import connected

MOST_NAMED = 20
STYLES = (
    # how a line of a patch begins, and its color; the first that fits counts
    (r"diff |index |\+\+\+ |--- |(new|deleted|old) |rename |similarity |Binary ", None),
    (r"@@", "cyan"),
    (r"\+", "green"),
    (r"-", "red"),
)


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN] [TURN|A..B]", shell_complete=complete_runs)
@click.option("--stat", is_flag=True, help="Only which files, and how many lines.")
@click.option("--raw", is_flag=True, help="As it is, control characters and all: for `git apply`.")
def diff(words: tuple[str, ...], stat: bool, raw: bool) -> None:
    """Show what RUN changed in the files, from its start to its end, or what one TURN changed.

    TURN is its number, a role or gate (its last turn), or `start`; A..B is from after one turn to
    after another. RUN is as in `cao report`. What you had not committed when the run began is no
    part of it.

    \b
    cao diff programmer
    cao diff k3f9 3..7
    cao diff --raw | git -C "$(git rev-parse --show-toplevel)" apply -R
    """
    kept, word = _choose(words)
    try:
        old, new = find_span(kept.taken, word)
    except NotFound as error:
        raise UsageError(_listed(f"there is no snapshot for {error.name!r}", kept)) from None
    earlier = [one for one in kept.taken[: kept.taken.index(new)] if one.label == word]
    if earlier and word != START_LABEL:
        label, older = one_line(new.label), earlier[-1].sequence
        click.echo(
            f"Turn {new.sequence} is the last of {len(earlier) + 1} of {label}; for the one "
            f"before: cao diff {short_name(kept.record.id)} {older}",
            err=True,
        )
    patch = kept.snapshots.diff(old.tree, new.tree, stat=stat)
    if not patch:
        click.echo(f"No file changed between {name_of(old)} and {name_of(new)}.", err=True)
    elif raw:
        click.echo(patch, nl=False)
    else:
        for line in printable(patch.decode(errors="replace")).removesuffix("\n").split("\n"):
            click.echo(line if stat else _colored(line))


@click.command()
@click.argument("run", required=False, shell_complete=complete_runs)
@click.option(
    "--to", "turn", metavar="TURN", default=START_LABEL, help="Only what came after TURN."
)
@click.option("--all", "everything", is_flag=True, help="Also what you changed yourself.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def undo(run: str | None, turn: str, everything: bool, yes: bool) -> None:
    """Take back what RUN did to the files, all of it or what came after TURN.

    It shows what it would do and asks first. What is there now is kept, so that this can be undone;
    HEAD, index, stash and ignored files stay as they are. Files that you changed yourself are
    named; --all takes them back, too.

    RUN and TURN are as in `cao diff`; a run that is at work has to be stopped before. Work that is
    committed stays: it says which `git revert` takes it out of your branch.

    \b
    cao undo k3f9
    cao undo --to programmer
    """
    runs, here = list_runs(state_folder(os.environ)), current_folder()
    kept = _kept(choose_run(runs, run, here) if run else _usual(runs, here))
    if turn == START_LABEL:
        refuse_committed(kept.record, os.environ)
    if BETWEEN in turn:
        raise UsageError(_listed("name one state of the files, by its number", kept))
    try:
        target = find_moment(kept.taken, turn)
    except NotFound:
        raise UsageError(_listed(f"there is no snapshot for {turn!r}", kept)) from None
    with opened_to_go_back(kept) as snapshots:
        way = plan_way_back(kept, snapshots, target, everything=everything)
        for line in _plan_lines(kept, way):
            click.echo(line)
        if not (way.restored or way.removed):
            if way.yours:
                click.echo(f"Nothing to do: all else is as it was at {name_of(target)}.")
            else:
                click.echo(f"Nothing to do: the run's files are as they were at {name_of(target)}.")
            return
        if not yes and not confirm("Do this?", "changed"):
            return
        number, done = go_back(kept, snapshots, way)
    run_id, tree = kept.record.id, kept.record.tree
    click.echo(
        f"Done: {plural(len(done), 'file')}. To undo this: cao undo {run_id} --to {number} --all"
    )
    if tree is not None and tree.has_work:
        click.echo(f"The branch {tree.branch} still has what was committed: `cao apply` brings it.")


def _plan_lines(kept: Kept, way: WayBack) -> Iterator[str]:
    if way.restored or way.removed:
        yield f"{one_line(kept.record.wd)}, back to {name_of(way.target)} of {kept.record.id}:"
    if way.head_moved:
        yield f"  ! HEAD was {one_line(way.head_moved)} now: commits stay, only files change"
    for text, paths in (
        (f"  brings back {plural(len(way.restored), 'file')}:", way.restored),
        (f"  removes {plural(len(way.removed), 'file')}, made since then:", way.removed),
        (
            f"  leaves {plural(len(way.yours), 'file')} that you changed "
            "(--all takes it back, too):",
            way.yours,
        ),
        (
            "  leaves alone what no snapshot has as it belongs there:",
            [f"{one.path} ({one.reason})" for one in way.left_alone],
        ),
    ):
        if paths:
            yield text
            yield from (f"    {one_line(path)}" for path in paths[:MOST_NAMED])
        if len(paths) > MOST_NAMED:
            yield f"    and {len(paths) - MOST_NAMED} more"


def _listed(problem: str, kept: Kept) -> str:
    width = max(len(one_line(one.label)) for one in kept.taken)
    lines = [f"{problem}; there are:"]
    for one in kept.taken:
        when = f"{datetime.fromtimestamp(one.at):%H:%M:%S}"
        lines.append(f"{one.sequence:>3}  {one_line(one.label):<{width}}  {when}")
    return "\n  ".join(lines)


def _choose(words: Sequence[str]) -> tuple[Kept, str]:
    """Return the snapshots of a run, and the word for some of them.

    One word alone means a run if it cannot mean a turn of the run of this folder.
    """
    if len(words) > 2:
        raise UsageError("expected at most RUN and TURN; see --help")
    runs, here = list_runs(state_folder(os.environ)), current_folder()
    if len(words) == 2:
        return _kept(choose_run(runs, words[0], here)), words[1]
    word = words[0] if words else ""
    if word and runs_that_fit(runs, word):
        try:
            find_moment(_kept(_usual(runs, here)).taken, word)
        except OrchestratorError:
            return _kept(choose_run(runs, word, here)), ""
    found = _usual(runs, here, "look")
    say_if_elsewhere(found, here)
    return _kept(found), word


def _usual(runs: Sequence[RunView], here: Path, to: Purpose = "act") -> RunView:
    """Return the run that is meant if none is named; one without snapshots only if all are."""
    state = state_folder(os.environ)

    def is_kept(run: RunView) -> bool:
        return run.is_live or has_snapshots(run_folder(state, run.id).path / SNAPSHOTS_FOLDER)

    kept = [run for run in runs if is_kept(run)]
    chosen = kept if any(run.works_in(here) for run in kept) else runs
    return choose_run(chosen, None, here, to)


def _kept(run: RunView) -> Kept:
    return read_kept(run_folder(state_folder(os.environ), run.id), os.environ)


def _colored(line: str) -> str:
    for pattern, color in STYLES:
        if re.match(pattern, line):
            return click.style(line, color, bold=color is None or None)
    return line


APPLYING = "cao: the work is brought to its end first. Ctrl-C again leaves it half done.\n"
MOVED = {
    "fast-forwarded": "{branch} is in {onto} now, at {commit}.",
    "merged": "{branch} is merged into {onto}, as {commit}.",
    "already there": "{branch} is in {onto} already; nothing was changed.",
}


@click.command()
@click.argument("run", required=False, shell_complete=complete_runs)
def apply(run: str | None) -> None:
    """Bring the work of RUN, which is on a branch of its own, into the branch you work on.

    It fast-forwards or merges. What you have not committed stays as it is: if anything is in the
    way, or there would be conflicts, nothing is changed and the files are named. RUN is as in `cao
    report`; leave it out for the one run of this folder whose work waits.

    Ends with 3 if nothing was applied because something is in the way, 2 if there is nothing to
    apply.

    \b
    cao apply k3f9
    """
    with _found(run, to_deliver=True) as ended:
        with Interrupts(APPLYING):
            done = apply_run(ended)
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

    `gh` or `glab` opens it if it is installed; otherwise it tells you what to type. It says what
    `cao report RUN --pr` prints. RUN is as in `cao apply`.

    Ends with 3 if nothing was pushed (there is no remote, or it refused), 2 if there is nothing to
    push.

    \b
    cao pr k3f9 --draft --title "Keep digits in slugs"
    """
    with _found(run, to_deliver=True) as ended:
        page = request_body(ended.state_folder, ended.record.id)
        done = request_run(ended, title, draft=draft, page=page)
        folder = run_folder(ended.state_folder, ended.record.id)
        body = folder.read(REQUEST_FILE).decode(errors="replace")
    saved = ended.saved
    title = title or ended.record.task_line
    for line in request_words(done, saved.branch, saved.onto, title, body, draft=draft):
        click.echo(printable(line))


@click.command()
@click.argument("run", required=False, shell_complete=complete_runs)
@click.option("--yes", is_flag=True, help="Do not ask.")
def discard(run: str | None, yes: bool) -> None:
    """Remove the work tree and the branch of RUN. A snapshot keeps what was in it.

    It asks first, and ends the agents of the run. Prompts, replies and the proof stay with the run.
    Nothing is forced: a branch with commits of somebody else stays. RUN is as in `cao apply`.

    \b
    cao discard k3f9
    """
    with _found(run, to_deliver=False) as ended:
        click.echo(printable(f"To be removed: {ended.saved.folder}, {ended.saved.branch}"))
        if not yes and not confirm("Remove both?", "removed"):
            raise click.Abort
        if ended.record.terminals:
            # They could not work on in a folder that is gone.
            folder = run_folder(ended.state_folder, ended.record.id)
            with connected(os.environ) as client:
                end_all(client, folder, ended.record)
            record = replace(ended.record, terminals={}, session_name="")
            ended = replace(ended, record=record)
        is_kept = discard_run(ended)
    name, saved, top = short_name(ended.record.id), ended.saved, str(ended.tree.repository.top)
    click.echo("Removed.")
    if is_kept:
        # Git leaves out what is beside the folder in which it is run.
        git = shlex.join(["git", "-C", top, "apply"])
        back = f"cao diff {name} {START_LABEL}{BETWEEN}{DISCARDED_LABEL} --raw | {git}"
        click.echo("A snapshot keeps what was in it. To have it back among your files:")
        click.echo(printable(f"  {back}"))
    if saved.pushed:
        git = shlex.join(["git", "-C", top, "push", saved.pushed, "--delete", saved.branch])
        text = f"The branch that was pushed to {saved.pushed} stays there. To delete it:"
        click.echo(printable(f"{text}\n  {git}"))


def request_words(
    done: PullRequest, branch: str, onto: str, title: str, body: str, *, draft: bool
) -> Iterator[str]:
    yield f"Pushed {branch} to {done.remote}: git push {done.remote} {branch}"
    if done.url:
        yield done.url
        return
    if done.said:
        yield done.said
    a_draft = " draft" if draft else ""
    yield f"No{a_draft} request is open yet."
    if done.to_type:
        yield f"Open it with:\n  {done.to_type}"
    yield f"Open it on the page of {done.remote}: a new{a_draft} request"
    yield f"  from {branch} into {onto}"
    yield f"  title: {one_line(title)}"
    yield "  text:"
    yield from (f"    {line}".rstrip() for line in body.rstrip("\n").split("\n"))


def choose_waiting(
    runs: Sequence[RunView], waiting: Sequence[RunView], here: Path, now: float
) -> RunView:
    """Return the one run here whose work waits, else the last run, which says why it cannot."""
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


@contextmanager
def _found(name: str | None, *, to_deliver: bool) -> Iterator[Ended]:
    """Hold the run that is named, else the one whose work waits; only what passed is delivered."""
    state, here = state_folder(os.environ), current_folder()
    if name:
        found = find_run(state, name, here)
    else:
        runs = list_runs(state)
        waiting = [run for run in runs if not run.is_live and (run.waiting or has_tree(state, run))]
        if to_deliver:
            waiting = [run for run in waiting if run.status is RunStatus.PASS]
            # One that changed no file has a tree, too.
            waiting = [run for run in waiting if run.waiting] or waiting
        found = choose_waiting(runs, waiting, here, time.time())
    with ended_run(state, found.id, os.environ) as ended:
        yield ended
