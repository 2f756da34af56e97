"""The calls that a session record of Codex tells of, and whose record it is.

Newer versions write a line for each call, before its tool runs:

    {"timestamp":"…","type":"token_usage_record","payload":{"response_id":"resp_3","usage":{
     "input_tokens":1003,"cached_input_tokens":503,"output_tokens":103,
     "reasoning_output_tokens":13,…},…}}

Older ones only say, again and again, what the session has taken so far. How much that has grown is
what the calls in between took; what is said of the last call alone is not always true.

    {"timestamp":"…","type":"event_msg","payload":{"type":"token_count","info":{
     "total_token_usage":{…the same fields…},"last_token_usage":{…}}}}

Newer versions write that too, but without a call in whose tool Codex was killed: from the first
line of the other kind on, those alone count. A sub-agent has a record of its own. The calls that
make up a title are in none.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .tokens import NONE_USED, Call, Tokens, fields_of, read_tokens, unix_time

MARKS = (b'"token_usage_record"', b'"token_count"', b'"session_meta"')
"""One of them is in every line of use: most are of none, and need not be read further."""


@dataclass(frozen=True, slots=True)
class Head:
    """Whose a record is, by its first line."""

    thread: str
    session: str
    """The thread that a person began, of which this is a part."""
    parent: str
    """The thread that started this one as its sub-agent; empty if none did."""
    is_own: bool
    """Is it the session of a person, and not of a sub-agent or of a program?"""
    is_forked: bool
    """Does it go on from a copy of another thread?"""


def read_head(line: bytes) -> Head | None:
    """Return whose a record is that begins with a line; None if it is no record."""
    match fields_of(line):
        case {"type": "session_meta", "payload": dict(told)} if isinstance(told.get("id"), str):
            return _head(told)
        case _:
            return None


def _head(told: dict[str, Any]) -> Head:
    source, parent = told.get("source"), told.get("parent_thread_id")
    match source:
        case {"subagent": {"thread_spawn": {"parent_thread_id": named}}}:
            parent = named
    session = told.get("session_id")
    return Head(
        thread=told["id"],
        session=session if isinstance(session, str) else told["id"],
        parent=parent if isinstance(parent, str) else "",
        is_own=not (isinstance(source, dict) or source in ("exec", "mcp")),
        is_forked=told.get("forked_from_id") is not None,
    )


def family_of(heads: Iterable[Head], sessions: Iterable[str]) -> set[str]:
    """Return those threads that belong to sessions: their own, and all sub-agents in them."""
    heads = list(heads)
    family = set(sessions)
    while True:
        new = {
            head.thread
            for head in heads
            if head.thread not in family and (head.session in family or head.parent in family)
        }
        if not new:
            return family
        family |= new


@dataclass(slots=True)
class _Reading:
    """What the lines of a record have told so far."""

    head: Head
    total: Tokens | None
    """What the session has taken; None if its beginning is that of another."""
    told: list[Call] = field(default_factory=list)
    grown: list[Call] = field(default_factory=list)

    def take(self, fields: dict[str, Any]) -> None:
        at = unix_time(fields.get("timestamp"))
        if at is None:
            return
        match fields:
            case {"type": "token_usage_record", "payload": {"response_id": str(name), **more}}:
                self.told.append(Call(name, at, _tokens(more.get("usage"))))
            case {
                "type": "event_msg",
                "payload": {"type": "token_count", "info": {"total_token_usage": usage}},
            } if not self.told:
                self._grow(at, _tokens(usage))

    def _grow(self, at: float, total: Tokens | None) -> None:
        before = self.total
        if total is None or total == before:
            return
        self.total = total
        if before is not None:
            name = f"{self.head.thread} {total.input} {total.output}"
            self.grown.append(Call(name, at, _growth(before, total)))


def read_calls(lines: Iterable[bytes]) -> list[Call] | None:
    """Return the calls that the lines of a whole record tell of; None if they cannot be counted."""
    reading: _Reading | None = None
    for line in lines:
        if not any(mark in line for mark in MARKS):
            continue
        if reading is not None:
            reading.take(fields_of(line))
        elif (head := read_head(line)) is not None:
            reading = _Reading(head, None if head.is_forked else NONE_USED)
    # Older versions copy what another thread has told, and nothing says where that ends.
    if reading is None or (reading.head.is_forked and reading.grown):
        return None
    return reading.grown + reading.told


def _tokens(usage: object) -> Tokens | None:
    if not isinstance(usage, dict):
        return None
    return read_tokens(
        usage.get("input_tokens"),
        usage.get("cached_input_tokens"),
        usage.get("output_tokens"),
        usage.get("reasoning_output_tokens"),
    )


def _growth(before: Tokens, after: Tokens) -> Tokens | None:
    """Return what came between two totals; None if the second does not go on from the first."""
    known = before.reasoning is not None and after.reasoning is not None
    reasoning = (after.reasoning or 0) - (before.reasoning or 0) if known else None
    return read_tokens(
        after.input - before.input,
        after.cached_input - before.cached_input,
        after.output - before.output,
        reasoning,
    )
