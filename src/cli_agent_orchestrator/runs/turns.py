"""The turns of a run, from its events; what was said in them, from its archive.

The command of a gate counts as a turn, as it does in the journal: of its name, by no agent.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from ..core.files import Folder
from ..core.models import LATEST_TIME
from ..errors import StateError, UsageError
from ..events import CheckBegan, CheckEnded, RunEnded, RunEvent, RunOpened, TurnBegan, TurnEnded
from ..handoff.files import decode_response
from ..settings.layout import JOURNAL_FILE, PROMPT_LABEL, archive_folder, kept_archive, kept_name
from .record import RunRecord

COMMAND = "command"
"""What a gate has where a turn has its agent, and where its reply came from."""
PERSON = "person"
"""Where there is no reply, as a person did not want to wait for it."""


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """A turn that has ended."""

    sequence: int
    role: str
    round: int
    cycle: int
    provider: str
    began: float
    """Unix time."""
    ended: float
    worked: float
    """Seconds; without those in which a person was waited for, or the run was stopped."""
    outcome: str
    """What the reply led to, in words."""
    reply: str
    """The file's name in the archive; empty if there is none."""
    source: str
    """Where the reply came from: file, output, archive, person, or the command of a gate."""
    reviewed: bool = True
    """Did it belong to a cycle of author and reviewer?"""
    word: str = ""
    """The outcome as a word; empty, as are the next two, if an earlier version wrote it."""
    verdict: str = ""
    """The outcome in words, without what follows from it."""
    why: str = ""
    """What stands behind the verdict, without its own word."""


def turn_record(ended: TurnEnded, began: float, provider: str, source: str) -> TurnRecord:
    """Return the record of an agent's turn."""
    return TurnRecord(
        sequence=ended.sequence,
        role=ended.role,
        round=ended.round,
        cycle=ended.cycle,
        provider=provider,
        began=began,
        ended=ended.at,
        worked=ended.seconds,
        outcome=ended.detail,
        reply=PurePath(ended.archive).name,
        source=source,
        reviewed=ended.reviewed,
        word=ended.outcome,
        verdict=ended.verdict,
        why=ended.why,
    )


def gate_record(ended: CheckEnded) -> TurnRecord:
    """Return the record of a gate."""
    return TurnRecord(
        sequence=ended.sequence,
        role=ended.gate,
        round=ended.round,
        cycle=1,
        provider=COMMAND,
        began=ended.at - ended.seconds,
        ended=ended.at,
        worked=ended.seconds,
        outcome=ended.detail,
        reply=PurePath(ended.archive).name,
        source=COMMAND,
        reviewed=False,
        word=ended.outcome,
        verdict=ended.verdict,
        why=ended.why,
    )


class Journal:
    """The turns of one run, in its archive folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.path = folder.path / JOURNAL_FILE

    def write(self, record: TurnRecord) -> None:
        """Add a turn, on a line of its own: a full disk may have cut off the one before."""
        start = b"" if self._text()[-1:] in ("", "\n") else b"\n"
        line = start + json.dumps(asdict(record)).encode() + b"\n"
        try:
            with self._folder.append(JOURNAL_FILE) as file:
                file.write(line)
        except OSError as error:
            raise StateError(
                f"the turn cannot be written to {self.path}: {error.strerror}. The reply is kept; "
                "make room or give access, and resume"
            ) from error

    def read(self) -> list[TurnRecord]:
        """Return the turns in their order; lines that cannot be read are left out."""
        found: dict[int, TurnRecord] = {}
        for line in self._text().splitlines():
            if (record := _read(line)) is not None:
                found[record.sequence] = record
        return [found[sequence] for sequence in sorted(found)]

    def _text(self) -> str:
        try:
            return self._folder.read(JOURNAL_FILE).decode(errors="replace")
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise StateError(f"{self.path} cannot be read: {error.strerror}") from error


def _read(line: str) -> TurnRecord | None:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return _record(data) if isinstance(data, dict) else None


def _record(data: Mapping[str, Any]) -> TurnRecord | None:
    """Return the record that JSON data describes, or None if something is missing or odd."""
    try:
        return TurnRecord(
            sequence=int(_within(data["sequence"])),
            role=str(data["role"]),
            round=int(_within(data["round"])),
            cycle=int(_within(data["cycle"])),
            provider=str(data["provider"]),
            began=_within(data["began"]),
            ended=_within(data["ended"]),
            worked=_within(data.get("worked", float(data["ended"]) - float(data["began"]))),
            outcome=str(data["outcome"]),
            reply=str(data["reply"]),
            source=str(data["source"]),
            # Earlier versions did not say it; there the tester alone had no reviewer.
            reviewed=bool(data.get("reviewed", data["role"] != "tester")),
            word=str(data.get("word", "")),
            verdict=str(data.get("verdict", "")),
            why=str(data.get("why", "")),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


# Any: JSON of any form
def _within(value: Any) -> float:
    """Return a number that a time can be; raise ValueError if it is out of range."""
    number = float(value)
    if not -LATEST_TIME <= number <= LATEST_TIME:
        raise ValueError(value)
    return number


# analyst_review
ROLE_PATTERN = r"[a-z][a-z0-9_-]{0,60}"


@dataclass(frozen=True, slots=True)
class RunTurn:
    """A turn, or the command of a gate, as the events tell it."""

    sequence: int
    """Its number in the run, under which prompt and reply are kept."""
    role: str
    """Of a gate its name."""
    round: int
    cycle: int
    provider: str
    """Of a gate `command`."""
    terminal_id: str
    began: float
    """Unix time."""
    ended: float | None = None
    """None as long as it is under way; one without an outcome was broken off then."""
    seconds: float = 0.0
    """How long the agent worked."""
    outcome: str = ""
    """As a word; empty as long as there is no reply."""
    detail: str = ""
    """The same for people."""
    reviewed: bool = True
    """Does a review follow, or is it one?"""
    verdict: str = ""
    """As its event has it."""
    why: str = ""
    reason: str = ""
    """The first point against the work in the agent's own words; empty if there is none."""

    @property
    def reply_name(self) -> str:
        """Name the reply in the archive."""
        return kept_name(self.sequence, self.role)


@dataclass(frozen=True, slots=True)
class TurnTexts:
    """What was said in a turn; None if it is not there."""

    prompt: str | None
    reply: str | None


def turns_of(events: Iterable[RunEvent], *, is_live: bool = True) -> list[RunTurn]:
    """Return the turns in their order; one that was begun again is one turn.

    The last one may be under way, unless the run has ended since, or is not live any more.
    """
    turns: dict[int, RunTurn] = {}
    under_way: TurnBegan | CheckBegan | None = None
    last = 0.0
    for event in events:
        match event:
            case TurnBegan() | CheckBegan():
                _break_off(turns, under_way, last)
                turns[event.sequence] = _begun(turns.get(event.sequence), event)
                under_way = event
            case TurnEnded() | CheckEnded():
                turns[event.sequence] = _ended(turns.get(event.sequence), event)
                under_way = None
            case RunOpened() | RunEnded():
                # A run that was killed has not told its end.
                _break_off(turns, under_way, event.at if isinstance(event, RunEnded) else last)
                under_way = None
        last = event.at
    if not is_live:
        _break_off(turns, under_way, last)
    return [turns[sequence] for sequence in sorted(turns)]


def _break_off(
    turns: dict[int, RunTurn], under_way: TurnBegan | CheckBegan | None, at: float
) -> None:
    if under_way is not None:
        turn = turns[under_way.sequence]
        worked = turn.seconds + max(at - under_way.at, 0.0)
        turns[under_way.sequence] = replace(turn, ended=at, seconds=worked)


def _begun(before: RunTurn | None, event: TurnBegan | CheckBegan) -> RunTurn:
    if isinstance(event, CheckBegan):
        return _check(event)
    return RunTurn(
        sequence=event.sequence,
        role=event.role,
        round=event.round,
        cycle=event.cycle,
        provider=event.provider,
        terminal_id=event.terminal_id,
        began=before.began if before else event.at,
        seconds=before.seconds if before else 0.0,
        reviewed=event.reviewed,
    )


def _check(event: CheckBegan | CheckEnded) -> RunTurn:
    return RunTurn(
        event.sequence, event.gate, event.round, 1, COMMAND, "", event.at, reviewed=False
    )


def _ended(turn: RunTurn | None, event: TurnEnded | CheckEnded) -> RunTurn:
    # One that was archived by a run that was killed has an end alone.
    match event:
        case CheckEnded():
            turn = turn or _check(event)
        case TurnEnded():
            turn = turn or RunTurn(
                event.sequence,
                event.role,
                event.round,
                event.cycle,
                "",
                "",
                event.at,
                reviewed=event.reviewed,
            )
    return replace(
        turn,
        ended=event.at,
        seconds=event.seconds,
        outcome=event.outcome,
        detail=event.detail,
        verdict=event.verdict,
        why=event.why,
        reason=event.reason if isinstance(event, TurnEnded) else "",
    )


def archive_of(folder: Folder, record: RunRecord) -> Folder:
    """Return where prompts and replies of a run are: in its own folder if its work tree is gone."""
    if record.tree is not None and not os.path.lexists(record.tree.folder):
        return kept_archive(folder)
    return archive_folder(Path(record.wd), record.archive)


def read_turn(folder: Folder, record: RunRecord, turn: RunTurn) -> TurnTexts:
    """Return what was said in a turn of a run; nothing outside of its archive is read."""
    try:
        archive = archive_of(folder, record)
    except UsageError:
        return TurnTexts(None, None)
    prompt = _kept(archive, turn.sequence, turn.role, PROMPT_LABEL)
    return TurnTexts(prompt, read_reply(archive, turn.sequence, turn.role))


def read_reply(archive: Folder, sequence: int, role: str) -> str | None:
    """Return what was answered in a turn; None if it is not there."""
    return _kept(archive, sequence, role)


def _kept(archive: Folder, sequence: int, role: str, label: str = "") -> str | None:
    """Return a kept text; a journal or an event that others wrote names nothing but a role."""
    if not re.fullmatch(ROLE_PATTERN, role):
        return None
    return _text(archive, kept_name(sequence, role, label))


def _text(folder: Folder, name: str) -> str | None:
    try:
        return decode_response(folder.read(name)).text
    except (OSError, ValueError):
        return None
