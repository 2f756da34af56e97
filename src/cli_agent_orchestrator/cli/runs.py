"""Commands about runs: runs, watch."""

import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from msgspec.structs import replace

from ..core.models import DRY_RUN, is_dry
from ..core.text import age, one_line, printable
from ..errors import EXIT_ERROR
from ..runs.record import short_name
from ..runs.view import RunView, find_run, list_runs, listed_json, read_run
from ..settings.layout import run_folder, state_folder
from .complete import complete_runs
from .imports import current_folder, terminal_width

MOST_ROWS = 20
LONGEST_FOLDER, SHORTEST_FOLDER = 20, 8
"""Characters of a folder in a terminal: its end."""
FOLDED_FIRST = ("ROUND", "AGE", "FOLDER")
HEADINGS = ("ID", "STATUS", "ROUND", "AGE", "FOLDER", "TASK")
KILLED = """\
The run was interrupted: its process is gone, its agents may still be there.
Resume it with: cao resume {id}"""
NOT_SAVED = """\
The run was interrupted before its first turn, and nothing of it is saved.
Start it anew, with the command that began it."""


@click.command()
@click.option("--all", "show_all", is_flag=True, help=f"List all runs, not the last {MOST_ROWS}.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def runs(show_all: bool, as_json: bool) -> None:
    """List runs: those of this folder first, then all others, the newest first.

    \b
    running      its process is at work; ROUND is the round it is in
    asks you     one of its agents asks something: `cao answer`, `cao attach`
    paused       it waits until `cao resume`
    interrupted  its process was killed; `cao resume` resumes it
    not begun    it was ended before its first turn; there is nothing to resume
    gone         what was saved of it is not there any more
    PASS, FAIL   its verdict; DRY RUN if the built-in agent took part
    stopped      a person stopped it (Ctrl-C, `cao stop`); `cao resume` resumes it
    error        an error stopped it: `cao report ID`, then `cao resume ID`
    applied      its work is in your branch; its work tree may be gone since
    discarded    its work tree was removed, and its work with it

    Other commands take a run by its ID, the beginning of it, or its last letters.
    """
    found = list_runs(state_folder(os.environ))
    here = current_folder()
    found.sort(key=lambda run: not run.works_in(here))
    shown = found if show_all or as_json else found[:MOST_ROWS]
    if as_json:
        click.echo(json.dumps([listed_json(run) for run in shown], indent=2))
    elif not found:
        click.echo("No runs yet. Start one with: cao run task.md")
    else:
        click.echo("\n".join(table(shown, here, time.time(), terminal_width())))
        for run in shown:
            if run.waiting:
                from .narration import delivery_words

                for line in delivery_words(run.waiting, run.id):
                    click.echo(line)
        if len(shown) < len(found):
            click.echo(f"{len(found) - len(shown)} more: cao runs --all")


def table(
    found: Sequence[RunView], here: Path, now: float, width: int | None = None
) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [HEADINGS, *(_row(run, here, now) for run in found)]
    if width is None:
        yield from aligned(rows)
        return
    # Of a folder its end is shown. To make room for the task, ids become their last letters, by
    # which runs can be named too; then columns go. Any usual terminal has 12 letters of it.
    least = min(12, max(len(row[-1]) for row in rows))
    last_part = max(len(row[-2].rpartition("/")[2]) for row in rows)
    rows = [(*row[:-2], end_of(row[-2], max(LONGEST_FOLDER, last_part)), row[-1]) for row in rows]
    if room_for_last(rows, width) < least:
        rows = [(short_name(row[0]), *row[1:]) for row in rows]
    yield from aligned(folded(rows, FOLDED_FIRST, width, least), width)


def aligned(rows: Sequence[tuple[str, ...]], width: int | None = None) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for *cells, last in rows:
        padded = (cell.ljust(most) for cell, most in zip(cells, widths, strict=True))
        line = f"{'  '.join(padded)}  {last}".rstrip()
        yield line if width is None or len(line) <= width else f"{line[: width - 1]}…"


def folded(
    rows: Sequence[tuple[str, ...]], names: Sequence[str], width: int, least: int
) -> list[tuple[str, ...]]:
    """Return rows without as many of the named columns as the last one needs room."""
    found = [*rows]
    for name in names:
        if room_for_last(found, width) >= least:
            break
        kept = [column for column, heading in enumerate(found[0]) if heading != name]
        found = [tuple(row[column] for column in kept) for row in found]
    return found


def room_for_last(rows: Sequence[tuple[str, ...]], width: int) -> int:
    before = range(len(rows[0]) - 1)
    return width - sum(max(len(row[column]) for row in rows) + 2 for column in before)


def _row(run: RunView, here: Path, now: float) -> tuple[str, ...]:
    place = run.project or run.wd
    folder = "." if place == str(here) else one_line(place) or "-"
    if run.machine not in ("", platform.node()):
        folder = f"{one_line(run.machine)}:{folder}"
    started = age(now - run.started) if run.started else "-"
    dry = f" ({DRY_RUN})" if run.status.is_verdict and is_dry(run.providers.values()) else ""
    return (
        run.id,
        f"{run.words}{dry}",
        str(run.round or "-"),
        started,
        folder,
        one_line(run.task_line),
    )


def end_of(text: str, most: int) -> str:
    return text if len(text) <= most else f"…{text[1 - most :]}"


@click.command()
@click.argument("run", required=False, shell_complete=complete_runs)
@click.option("--json", "as_json", is_flag=True, help="Print the events as JSON, a line each.")
def watch(run: str | None, as_json: bool) -> None:
    """Follow RUN as it goes on: all that has happened so far, then each thing as it happens.

    RUN is as in `cao report`; the last row shows the keys that steer it. Ctrl-C stops watching and
    leaves the run alone. Ends with the run, and with its exit code, as `cao run` does.

    \b
    cao watch k3f9
    """
    from ..events import RunEnded
    from ..runs.service import Follower
    from .interrupts import Interrupts
    from .run import choose_view

    found = run_to_look_at(run)
    state = state_folder(os.environ)
    folder = Path(found.project or found.wd)
    view = choose_view(folder, as_json, state_folder=state)
    follower = Follower(run_folder(state, found.id))
    last = None
    with Interrupts(notice="") as interrupts, view:
        interrupts.when_noted(follower.stop)
        for last in follower:
            if isinstance(last, RunEnded) and not (found.is_live or found.has_agents):
                # Its agents have been ended since.
                view.tell(replace(last, session_left=""))
            else:
                view.tell(last)
    if interrupts.noted is not None:
        left = "You have stopped watching; the run goes on. Come back with: cao watch"
        click.echo(f"{left} {found.id}", err=True)
        sys.exit(interrupts.exit_code)
    if isinstance(last, RunEnded):
        if last.reason and last.exit_code == EXIT_ERROR:
            click.echo(f"cao: {printable(last.reason)}", err=True)
        sys.exit(last.exit_code)
    now = read_run(run_folder(state, found.id))
    if now.status.is_verdict:
        sys.exit(now.exit_code)
    for line in killed_words(now):
        click.echo(line, err=True)
    sys.exit(EXIT_ERROR)


def run_to_look_at(name: str | None) -> RunView:
    here = current_folder()
    found = find_run(state_folder(os.environ), name, here, "look")
    if not name:
        say_if_elsewhere(found, here)
    return found


def say_if_elsewhere(run: RunView, here: Path) -> None:
    if not run.works_in(here):
        click.echo(f"There is no run in this folder; this is {one_line(run.label)}.", err=True)


def killed_words(run: RunView) -> Iterator[str]:
    if not run.unsaved:
        yield KILLED.format(id=run.id)
        return
    yield NOT_SAVED
    if run.has_agents:
        yield f"  End the agents it left: cao stop {run.id}"
    if run.project and not run.discarded:
        yield f"  Remove its work tree:   cao discard {run.id}"
