"""What tmux says about panes: the formats that are asked for, and their answers as values.

Fields are joined by colons. Everything before the last field is a number, an id of tmux or ours, or
a session name, and none of these can hold a colon; the last field is the free one (a window's name,
a program's title) and takes the rest of the line. tmux lets no control character into either.
"""

import re
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cli_agent_orchestrator._internal.terminals.tmux.protocol import Answer, command

HUB_SESSION = "cao-hub"
"""The session that every terminal's window is linked into: tmux reports output of one alone."""

TAG_PATTERN = r"[A-Za-z0-9_-]+"

PANE_FORMAT = ":".join(
    (
        "#{pane_id}",
        "#{window_id}",
        "#{pane_pid}",
        "#{pane_dead}",
        "#{pane_dead_status}",
        "#{pane_dead_signal}",
        "#{@cao_raw}",
        "#{@cao_id}",
        "#{session_name}",
        "#{window_name}",
    )
)
STATE_FORMAT = ":".join(
    (
        "#{pane_id}",
        "#{pane_dead}",
        "#{pane_dead_status}",
        "#{pane_dead_signal}",
        "#{pane_in_mode}",
        "#{pane_title}",
    )
)

LIST_COST = 3
"""Asking for the state of one pane costs tmux as much as listing this many."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a terminal in characters."""

    columns: int
    rows: int


@dataclass(frozen=True, slots=True)
class Command:
    """A program to run in a terminal, without a shell."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    """The whole environment of the program; tmux adds TERM, TMUX and the like."""


@dataclass(frozen=True, slots=True)
class PaneInfo:
    """One terminal as tmux keeps it."""

    pane: str
    window: str
    session: str
    name: str
    tag: str
    """Our own id of it, given when the window was opened."""
    pid: int | None
    """None for a program that has ended, where tmux forgets it (3.8)."""
    dead: bool
    exit_code: int | None
    """How the program ended; a signal counts as 128 + its number."""
    raw_output: bool = False


@dataclass(frozen=True, slots=True)
class PaneScreen:
    """What a terminal shows."""

    pane: str
    text: str
    title: str
    in_mode: bool
    """Is it in copy mode, which eats keys?"""


@dataclass(frozen=True, slots=True)
class Look:
    """A screen together with the life signs that were read in the same moment."""

    body: tuple[bytes, ...]
    title: str
    in_mode: bool
    dead: bool
    exit_code: int | None

    def shows_the_same(self, other: "Look") -> bool:
        return (self.body, self.title, self.in_mode) == (other.body, other.title, other.in_mode)

    def screen(self, pane: str) -> PaneScreen:
        text = b"\n".join(self.body).decode("utf-8", "replace")
        return PaneScreen(pane, text, self.title, self.in_mode)


def list_line() -> str:
    """Return the command that lists all panes."""
    return command("list-panes", "-a", "-F", PANE_FORMAT)


def parse_panes(lines: Iterable[bytes]) -> list[PaneInfo]:
    """Return the panes that carry a tag, each once.

    A pane that is linked into the hub is listed there too: its other session is the real one.
    """
    found: dict[str, PaneInfo] = {}
    for line in lines:
        info = parse_pane(line)
        if info is None or not info.tag:
            continue
        known = found.get(info.pane)
        if known is None or known.session == HUB_SESSION:
            found[info.pane] = info
    return list(found.values())


def windows_outside_hub(lines: Iterable[bytes]) -> list[str]:
    """Return the windows of tagged panes that are not linked into the hub."""
    listed = [info for line in lines if (info := parse_pane(line)) is not None and info.tag]
    inside = {info.window for info in listed if info.session == HUB_SESSION}
    return list(dict.fromkeys(info.window for info in listed if info.window not in inside))


def parse_pane(line: bytes) -> PaneInfo | None:
    """Return the pane that a line in PANE_FORMAT describes, None if it is not in that format."""
    fields = line.decode("utf-8", "replace").split(":", 9)
    if len(fields) < 10 or not (fields[2].isdecimal() or fields[2] == ""):
        return None
    pane, window, pid, dead, status, killed_by, raw, tag, session, name = fields
    code = exit_code(status, killed_by)
    return PaneInfo(
        pane=pane,
        window=window,
        session=session,
        name=name,
        tag=tag if re.fullmatch(TAG_PATTERN, tag) else "",
        pid=int(pid) if pid else None,
        dead=_has_ended(dead, code) or not pid,
        exit_code=code,
        raw_output=raw == "1",
    )


def look_lines(panes: Sequence[str], among: int) -> list[str]:
    """Return the commands that read these panes: first their states, then their screens.

    `among` is how many panes there are in all: the states of a good part of them are had cheaper
    by one list of everything. Their order means that no screen is older than its state.
    """
    return [*_state_lines(panes, among), *(command("capture-pane", "-p", "-t", p) for p in panes)]


def _state_lines(panes: Sequence[str], among: int) -> Iterator[str]:
    if len(panes) * LIST_COST >= among > LIST_COST:
        yield command("list-panes", "-s", "-t", f"={HUB_SESSION}", "-F", STATE_FORMAT)
    else:
        for pane in panes:
            yield command("display-message", "-p", "-t", pane, STATE_FORMAT)


def parse_looks(panes: Sequence[str], answers: Sequence[Answer]) -> dict[str, Look]:
    """Return what `look_lines` was answered; panes that are not there are left out."""
    states, bodies = answers[: len(answers) - len(panes)], answers[len(answers) - len(panes) :]
    lines = (line for state in states if state.ok for line in state.lines)
    # display-message answers for a pane that does not exist, too, with empty fields.
    heads = {line.partition(b":")[0]: line for line in lines}
    return {
        pane: _parse_look(head, body.lines)
        for pane, body in zip(panes, bodies, strict=True)
        if body.ok and (head := heads.get(pane.encode()))
    }


def _parse_look(head: bytes, body: tuple[bytes, ...]) -> Look:
    _, dead, status, killed_by, mode, title = head.decode("utf-8", "replace").split(":", 5)
    code = exit_code(status, killed_by)
    return Look(body, title, in_mode=mode not in ("", "0"), dead=dead == "1", exit_code=code)


def exit_code(status: str, killed_by: str) -> int | None:
    """Return the exit code from tmux's two fields, None while it is not known.

    >>> exit_code("3", ""), exit_code("", "9"), exit_code("", "TERM"), exit_code("", "")
    (3, 137, 143, None)
    """
    if status.isdecimal():
        return int(status)
    if killed_by.isdecimal():
        return 128 + int(killed_by)
    try:
        return 128 + signal.Signals[f"SIG{killed_by}"].value
    except KeyError:
        return None


def _has_ended(dead: str, code: int | None) -> bool:
    # While a child of the program holds the terminal open, tmux knows the exit code of the program
    # but does not call the pane dead.
    return dead == "1" or code is not None
