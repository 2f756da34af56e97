"""Commands about what a run did to the files: diff, restore, undo."""

import os
import re
import shlex
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
from ..runs.moments import (
    BETWEEN,
    Span,
    find_moment,
    find_span,
    has_moment,
    last_of_run,
    name_of,
    others_of,
)
from ..runs.record import short_name
from ..runs.registry import choose_run, list_runs, runs_that_fit
from ..runs.restore import BroughtBack, Kept, WayBack, has_snapshots, opened_to_go_back, read_kept
from ..runs.view import RunView
from ..settings.config import state_folder
from ..settings.layout import STATE_FILE, run_folder
from ..work.folder import START_LABEL
from ..work.left_out import LeftOut
from ..work.snapshots import Snapshot
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
    kept, word = _choose(words, to_look=True)
    old, new = _span(kept, word)
    if earlier := others_of(kept.taken, word, new):
        click.echo(_head(new, earlier, kept.record.id), err=True)
    patch = kept.snapshots.diff(old.commit, new.commit, stat=stat)
    if not patch:
        click.echo(f"No file changed between {name_of(old)} and {name_of(new)}.", err=True)
    elif raw:
        click.echo(patch, nl=False)
    else:
        for line in printable(patch.decode(errors="replace")).removesuffix("\n").split("\n"):
            click.echo(line if stat else _colored(line))


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN] [TURN]", shell_complete=complete_runs)
@click.option("--yes", is_flag=True, help="Do not ask.")
def restore(words: tuple[str, ...], yes: bool) -> None:
    """Bring the files of RUN's folder back to what they were after TURN, or at the run's end.

    It shows what it would do and asks first. What is there now is kept, so that this can be undone;
    HEAD, index and stash stay as they are, and so do ignored files. RUN and TURN are as in
    `cao diff`, but a run of another folder has to be named; one that is at work has to be stopped
    before.

    \b
    cao restore programmer
    cao restore k3f9 7
    cao restore k3f9 start
    """
    kept, word = _choose(words)
    word = word or str(last_of_run(kept.taken).sequence)
    if BETWEEN in word:
        raise UsageError(_listed("say which state of the files you want back, by its number", kept))
    if not has_moment(kept.taken, word):
        raise UsageError(_listed(f"there is no snapshot for {word!r}", kept))
    _go_back(kept, word, yes)


@click.command()
@click.argument("run", required=False, shell_complete=complete_runs)
@click.option("--yes", is_flag=True, help="Do not ask.")
def undo(run: str | None, yes: bool) -> None:
    """Bring the files of RUN's folder back to what they were at its start.

    As `cao restore RUN start`: it shows what it would do and asks first, and can itself be undone.
    What changed after the run's last turn goes back, too, and is named, with the command that takes
    back nothing but what the run did.
    What you had not committed when the run began is there again. Work that is committed stays: it
    says which `git revert` takes it out of your branch, or that `cao discard` removes its own.

    \b
    cao undo
    cao undo k3f9
    """
    runs, here = list_runs(state_folder(os.environ)), Path.cwd().resolve()
    found = choose_run(runs, run, here) if run else _usual(runs, here)
    kept = _kept(found)
    refuse_committed(kept.record, os.environ)
    _go_back(kept, START_LABEL, yes)


def _span(kept: Kept, word: str) -> Span:
    try:
        return find_span(kept.taken, word)
    except NotFound as error:
        raise UsageError(_listed(f"there is no snapshot for {error.name!r}", kept)) from None


def _head(new: Snapshot, earlier: Sequence[Snapshot], run: str) -> str:
    """Say which of several turns is shown, and how the one before is seen."""
    turns = len(earlier) + 1
    older = f"cao diff {short_name(run)} {earlier[-1].sequence}"
    return (
        f"Turn {new.sequence} is the last of {turns} of {one_line(new.label)}; "
        f"for the one before: {older}"
    )


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


def _choose(words: Sequence[str], *, to_look: bool = False) -> tuple[Kept, str]:
    """Return the snapshots of the run that is meant, and the word for some of them.

    One word alone means a run if it cannot mean a turn of the run of this folder.
    """
    if len(words) > MOST_WORDS:
        raise UsageError("expected at most RUN and TURN; see --help")
    runs, here = list_runs(state_folder(os.environ)), Path.cwd().resolve()
    if len(words) == MOST_WORDS:
        return _kept(choose_run(runs, words[0], here)), words[1]
    word = words[0] if words else ""
    if word and runs_that_fit(runs, word) and not _is_turn_here(runs, word, here):
        return _kept(choose_run(runs, word, here)), ""
    found = _usual(runs, here, to_look=to_look)
    say_if_elsewhere(found, here)
    return _kept(found), word


def _usual(runs: Sequence[RunView], here: Path, *, to_look: bool = False) -> RunView:
    """Return the run that is meant if none is named; one without snapshots only if all are."""
    state = state_folder(os.environ)
    if not any(run.works_in(here) for run in runs):
        _refuse_unlisted(find_project(here, Path.home()) or here)
    kept = [run for run in runs if run.is_live or has_snapshots(run_folder(state, run.id))]
    chosen = kept if any(run.works_in(here) for run in kept) else runs
    return choose_run(chosen, None, here, to_look=to_look)


def _refuse_unlisted(folder: Path) -> None:
    """Raise if a run is saved in a folder of which there is nothing else."""
    if os.path.lexists(folder / STATE_FILE):
        raise RunError(UNLISTED)


def _is_turn_here(runs: Sequence[RunView], word: str, here: Path) -> bool:
    try:
        return has_moment(_kept(_usual(runs, here)).taken, word)
    except OrchestratorError:
        return False


def _kept(run: RunView) -> Kept:
    return read_kept(run_folder(state_folder(os.environ), run.id), os.environ)


def _go_back(kept: Kept, word: str, yes: bool) -> None:
    target = find_moment(kept.taken, word)
    with opened_to_go_back(kept, SystemClock()) as going:
        if going.made_readable:
            click.echo("Made readable for you again, so that it can be kept:")
            for line in _named(going.made_readable):
                click.echo(line)
        way = going.plan(target)
        if not (way.restored or way.removed):
            click.echo(f"Nothing to do: the files are as they were at {name_of(target)}.")
            for line in _left_alone(going.odd_files()):
                click.echo(line)
            return
        for line in _lines(kept, way):
            click.echo(line)
        if not yes and not _agrees():
            click.echo("Nothing was changed.")
            return
        done = going.go(target)
    for line in _outcome(kept, done):
        click.echo(line)


def _lines(kept: Kept, way: WayBack) -> Iterator[str]:
    yield f"{one_line(kept.record.wd)}, back to {name_of(way.target)} of {kept.record.id}:"
    if way.restored:
        yield f"  brings back {_files(len(way.restored))}:"
        yield from _named(way.restored)
    if way.removed:
        yield f"  removes {_files(len(way.removed))}, made since then:"
        yield from _named(way.removed)
    if way.changed_since:
        yield f"  ! undoes {_files(len(way.changed_since))} that changed after the run's last turn:"
        yield from _named(way.changed_since)
        if way.target.label == START_LABEL:
            # Git leaves out what is beside the folder in which it is run.
            git = shlex.join(["git", "-C", kept.record.top or kept.record.wd, "apply", "-R"])
            only = f"cao diff {short_name(kept.record.id)} --raw | {one_line(git)}"
            yield f"    to keep these, and take back only what the run did: {only}"


def _outcome(kept: Kept, done: BroughtBack) -> Iterator[str]:
    yield from _left_alone(done.left_alone)
    yield f"Done: {_files(len(done.paths))}. To undo this: cao restore {kept.record.id} {done.kept}"
    tree = kept.record.tree
    if tree is not None and tree.has_work:
        yield f"The branch {tree.branch} still has what was committed: `cao apply` brings that."


def _left_alone(left: Sequence[LeftOut]) -> Iterator[str]:
    if left:
        yield "Left alone, since no snapshot has what is there now:"
        yield from _named([f"{one.path} ({one.reason})" for one in left])


def _agrees() -> bool:
    if not sys.stdin.isatty():
        raise UsageError("nothing was changed; add --yes if all of this is meant")
    return click.confirm("Do this?")


def _named(paths: Sequence[str]) -> Iterator[str]:
    yield from (f"    {one_line(path)}" for path in paths[:MOST_NAMED])
    if len(paths) > MOST_NAMED:
        yield f"    and {len(paths) - MOST_NAMED} more"


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"


def _colored(line: str) -> str:
    """Return a line of a patch in its color; where there is no terminal, click leaves it out."""
    for pattern, color in STYLES:
        if re.match(pattern, line):
            return click.style(line, color, bold=color is None or None)
    return line
