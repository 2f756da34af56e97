"""The journal of a run: one line of JSON for each turn that has ended.

It lies beside the replies it tells of, and is what a report is made from. A turn is written down
before the state is saved, so a killed run may write one twice; the later line counts.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any

from cli_agent_orchestrator._internal.layout import JOURNAL_FILE
from cli_agent_orchestrator._internal.models import LATEST_TIME
from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator.errors import StateError
from cli_agent_orchestrator.events import CheckEnded, TurnEnded

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
