"""How many tokens a turn took: counted on demand, from the agent's own records.

During a run it is only noted which records its agents have. They are in the user's own folders, but
an agent can put anything there: no link is followed, only regular files are read, up to a limit. A
count that cannot be complete is unknown, never too small.
"""

import errno
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from io import BufferedReader
from pathlib import Path

from ..core.files import Folder
from ..core.models import Tokens
from ..settings.layout import records_folder, records_name
from ..usage.tokens import Call, Head, claude_calls, codex_calls, family_of, read_head, sum_between
from .view import Turn

# 9f3c2a7b
TERMINAL_PATTERN = r"[0-9A-Za-z_-]{1,100}"
# /home/ada/.codex/sessions/2026/11/17/rollout-2026-11-17T12-00-33-01a1….jsonl
CODEX_PATTERN = r"(?P<root>/.*)/(?P<day>\d{4}/\d\d/\d\d)/rollout-[^/]+\.jsonl"
LATE_SECONDS = 60.0
"""So long after the end of its run, calls of an agent still count."""
CLOCK_SECONDS = 2.0
"""How coarse the time of a file may be."""
LARGEST_NOTE = 64 * 1024
LARGEST_RECORDS = 256 * 1024 * 1024
"""Bytes of all records that are read for one turn."""
MOST_FILES = 500
"""Whose first lines are read."""
LinesOf = Callable[[Folder, str], Iterator[bytes]]


def note_records(run: Folder, terminal_id: str, records: Sequence[str]) -> None:
    if not re.fullmatch(TERMINAL_PATTERN, terminal_id):
        return
    known = _noted(run, terminal_id)
    new = [record for record in records if record not in known]
    if new:
        data = json.dumps({"records": known + new}).encode()
        records_folder(run).replace(records_name(terminal_id), data, lasting=False)


def usage_of_turns(
    run: Folder, turns: Sequence[Turn], run_ended: float | None, largest: int = LARGEST_RECORDS
) -> dict[int, Tokens]:
    """Return what each turn took, where that is known; the records of an agent are read once.

    The calls of an agent belong to a turn from its prompt to the agent's next one.
    """
    by_agent: dict[tuple[str, str], list[Turn]] = {}
    for turn in turns:
        by_agent.setdefault((turn.terminal_id, turn.provider), []).append(turn)
    found: dict[int, Tokens] = {}
    for own in by_agent.values():
        began, provider, terminal_id = own[0].began, own[0].provider, own[0].terminal_id
        calls: Sequence[Call] = ()
        if provider in COUNTERS and re.fullmatch(TERMINAL_PATTERN, terminal_id):
            records = [Path(record) for record in _noted(run, terminal_id)]
            with suppress(OSError, ValueError):
                counted = COUNTERS[provider](records, began - CLOCK_SECONDS, _lines_up_to(largest))
                calls = list(counted or ())
        end = math.inf if run_ended is None else run_ended + LATE_SECONDS
        for turn, until in zip(own, [*(one.began for one in own[1:]), end], strict=True):
            used = sum_between(calls, turn.began, until)
            if used is not None:
                found[turn.sequence] = used
    return found


def _noted(run: Folder, terminal_id: str) -> list[str]:
    try:
        data = records_folder(run).read(records_name(terminal_id), LARGEST_NOTE)
        records = json.loads(data)["records"]
        return [record for record in records if Path(record).is_absolute()]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []


def _lines_up_to(largest: int) -> LinesOf:
    left = largest

    def lines(folder: Folder, name: str) -> Iterator[bytes]:
        nonlocal left
        # It is a raw file, though its type does not say so.
        with BufferedReader(folder.open_to_read(name)) as file:  # type: ignore[type-var]
            while line := file.readline(left + 1):
                left -= len(line)
                if left < 0:
                    raise OSError(errno.EFBIG, "the records of the agent are too large")
                if line.endswith(b"\n"):
                    yield line[:-1]

    return lines


def _count_claude_code(
    records: Sequence[Path], since: float, lines: LinesOf
) -> Iterable[Call] | None:
    calls: list[Call] = []
    for record in records:
        calls += claude_calls(lines(Folder(record.parent), record.name))
        subagents = Folder(record.parent, (record.stem, "subagents"))
        for name in _changed(subagents, "agent-", since):
            calls += claude_calls(lines(subagents, name))
    return calls


def _count_codex(records: Sequence[Path], since: float, lines: LinesOf) -> Iterable[Call] | None:
    def head_of(record: Path) -> Head | None:
        return read_head(next(lines(Folder(record.parent), record.name), b""))

    heads = {record: head_of(record) for record in records}
    if None in heads.values():
        return None
    own = {head.thread for head in heads.values() if head is not None and head.is_own}
    for record in _beside(records, since):
        if len(heads) > MOST_FILES:
            return None
        heads[record] = head_of(record)
    family = family_of(filter(None, heads.values()), own)
    calls: list[Call] = []
    for record, head in heads.items():
        if head is not None and head.thread in family:
            found = codex_calls(lines(Folder(record.parent), record.name))
            if found is None:
                return None
            calls += found
    return calls


def _beside(records: Sequence[Path], since: float) -> Iterator[Path]:
    """Yield the files of Codex that have changed since the day of its first record."""
    first_days: dict[Path, str] = {}
    for record in records:
        if found := re.fullmatch(CODEX_PATTERN, str(record)):
            root = Path(found["root"])
            first_days[root] = min(found["day"], first_days.get(root, found["day"]))
    for root, first in first_days.items():
        # 2026, 2026/11, 2026/11/17
        folders = [Folder(root)]
        for place in range(3):
            known = "/".join(first.split("/")[: place + 1])
            folders = [
                Folder(root, (*folder.parts, name))
                for folder in folders
                for name in sorted(folder.names())
                if name.isdecimal() and "/".join((*folder.parts, name)) >= known
            ]
        for day in folders:
            for name in _changed(day, "rollout-", since):
                yield day.path / name


def _changed(folder: Folder, prefix: str, since: float) -> Iterator[str]:
    for name in sorted(folder.names()):
        if name.startswith(prefix) and name.endswith(".jsonl"):
            status = folder.status(name)
            if status is not None and status.st_mtime >= since:
                yield name


COUNTERS: dict[str, Callable[[Sequence[Path], float, LinesOf], Iterable[Call] | None]] = {
    "claude_code": _count_claude_code,
    "codex": _count_codex,
}
