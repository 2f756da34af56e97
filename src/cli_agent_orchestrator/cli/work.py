"""Commands about what a run did to the files: diff, undo."""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import click

from ..core.clock import SystemClock
from ..errors import NotFound, OrchestratorError, RunError, UsageError
from ..events import FilesChanged
from ..runs.deliver import refuse_committed
from ..runs.event_log import read_events
from ..runs.record import short_name
from ..runs.restore import (
    BETWEEN,
    Kept,
    WayBack,
    find_moment,
    find_span,
    name_of,
    opened_to_go_back,
    read_kept,
)
from ..runs.view import RunView, choose_run, list_runs, runs_that_fit
from ..settings.config import state_folder
from ..settings.layout import SNAPSHOTS_FOLDER, STATE_FILE, run_folder
from ..work.folder import START_LABEL
from ..work.snapshots import Snapshot, has_snapshots
from .complete import complete_runs
from .printable import one_line, printable
from .project import find_project
from .runs import say_if_elsewhere

MOST_NAMED = 20
UNLISTED = (
    "the run of this folder is not in your list of runs, as that of `cao demo` never is: there are "
    "no snapshots of its files; `cao report` shows what is known of it"
)
MOST_WORDS = 2
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
    after another. RUN is the ID that `cao runs` lists, the beginning of it, or its last letters;
    leave it out for the run of this folder, or the only one there is. What you had not committed
    when the run began is no part of it.

    Characters that would control your terminal are shown as �, unless --raw is given.

    \b
    cao diff
    cao diff k3f9 --stat
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
    if earlier and word not in (START_LABEL, str(new.sequence)):
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
    HEAD, index and stash stay as they are, and so do ignored files. Files that you changed yourself
    since, or while no agent was at work, stay as they are and are named; --all takes them back,
    too. Files that go through a filter (Git LFS) are left alone.

    RUN and TURN are as in `cao diff`; a run that is at work has to be stopped before. Work that is
    committed stays: it says which `git revert` takes it out of your branch, or that `cao discard`
    removes its own.

    \b
    cao undo
    cao undo k3f9
    cao undo k3f9 --to programmer
    cao undo --to 7
    """
    runs, here = list_runs(state_folder(os.environ)), Path.cwd().resolve()
    kept = _kept(choose_run(runs, run, here) if run else _usual(runs, here))
    if turn == START_LABEL:
        refuse_committed(kept.record, os.environ)
    if BETWEEN in turn:
        raise UsageError(_listed("name one state of the files, by its number", kept))
    try:
        target = find_moment(kept.taken, turn)
    except NotFound:
        raise UsageError(_listed(f"there is no snapshot for {turn!r}", kept)) from None
    with opened_to_go_back(kept, SystemClock()) as going:
        way = going.plan(target, everything=everything)
        for line in _plan_lines(kept, way):
            click.echo(line)
        if not (way.restored or way.removed):
            click.echo(f"Nothing to do: the run's files are as they were at {name_of(target)}.")
            return
        if not yes:
            if not sys.stdin.isatty():
                raise UsageError("nothing was changed; add --yes if all of this is meant")
            if not click.confirm("Do this?"):
                click.echo("Nothing was changed.")
                return
        number, done = going.go(way)
    run_id, tree = kept.record.id, kept.record.tree
    click.echo(f"Done: {_files(len(done))}. To undo this: cao undo {run_id} --to {number} --all")
    if tree is not None and tree.has_work:
        click.echo(f"The branch {tree.branch} still has what was committed: `cao apply` brings it.")


def _plan_lines(kept: Kept, way: WayBack) -> Iterator[str]:
    if way.restored or way.removed:
        yield f"{one_line(kept.record.wd)}, back to {name_of(way.target)} of {kept.record.id}:"
    if way.head_moved:
        yield f"  ! HEAD was {one_line(way.head_moved)} now: commits stay, only files change"
    for text, paths in (
        (f"  brings back {_files(len(way.restored))}:", way.restored),
        (f"  removes {_files(len(way.removed))}, made since then:", way.removed),
        (
            f"  leaves {_files(len(way.yours))} that you changed (--all takes it back, too):",
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
    """Return a problem with all snapshots below it."""
    changed = {
        event.sequence: _files(event.count)
        for event in read_events(kept.folder)
        if isinstance(event, FilesChanged)
    }
    return "\n  ".join([f"{problem}; there are:", *moment_lines(kept.taken, changed)])


def moment_lines(taken: Sequence[Snapshot], changed: Mapping[int, str]) -> Iterator[str]:
    """Yield a line for each snapshot: its number, who, when, and what was changed in that turn."""
    width = max(len(one_line(one.label)) for one in taken)
    for one in taken:
        when = f"{datetime.fromtimestamp(one.at):%H:%M:%S}"
        files = f"  changed {changed[one.sequence]}" if one.sequence in changed else ""
        yield f"{one.sequence:>3}  {one_line(one.label):<{width}}  {when}{files}".rstrip()


def _choose(words: Sequence[str]) -> tuple[Kept, str]:
    """Return the snapshots of the run that is meant, and the word for some of them.

    One word alone means a run if it cannot mean a turn of the run of this folder.
    """
    if len(words) > MOST_WORDS:
        raise UsageError("expected at most RUN and TURN; see --help")
    runs, here = list_runs(state_folder(os.environ)), Path.cwd().resolve()
    if len(words) == MOST_WORDS:
        return _kept(choose_run(runs, words[0], here)), words[1]
    word = words[0] if words else ""
    if word and runs_that_fit(runs, word):
        try:
            find_moment(_kept(_usual(runs, here)).taken, word)
        except OrchestratorError:
            return _kept(choose_run(runs, word, here)), ""
    found = _usual(runs, here, to_look=True)
    say_if_elsewhere(found, here)
    return _kept(found), word


def _usual(runs: Sequence[RunView], here: Path, *, to_look: bool = False) -> RunView:
    """Return the run that is meant if none is named; one without snapshots only if all are."""
    state = state_folder(os.environ)
    if not any(run.works_in(here) for run in runs):
        folder = find_project(here, Path.home()) or here
        if os.path.lexists(folder / STATE_FILE):
            raise RunError(UNLISTED)

    def is_kept(run: RunView) -> bool:
        return run.is_live or has_snapshots(run_folder(state, run.id).path / SNAPSHOTS_FOLDER)

    kept = [run for run in runs if is_kept(run)]
    chosen = kept if any(run.works_in(here) for run in kept) else runs
    return choose_run(chosen, None, here, to_look=to_look)


def _kept(run: RunView) -> Kept:
    return read_kept(run_folder(state_folder(os.environ), run.id), os.environ)


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"


def _colored(line: str) -> str:
    """Return a line of a patch in its color; where there is no terminal, click leaves it out."""
    for pattern, color in STYLES:
        if re.match(pattern, line):
            return click.style(line, color, bold=color is None or None)
    return line
