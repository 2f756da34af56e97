"""How much agents have used, from their own records: no call is counted twice.

All of it is pure. Tokens have one meaning, whatever agent used them. The calls that shorten a
conversation or make up its title are in no record.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TypeGuard

from msgspec import Struct

from ..core.codec import object_of
from ..core.models import Tokens

MOST_TOKENS = 10**12


NONE_USED = Tokens(0, 0, 0, 0)


class Call(Struct, frozen=True):
    id: str
    """The same wherever the call is told of again, and that of no other call."""
    at: float
    tokens: Tokens | None


def read_tokens(given: object, cached: object, made: object, reasoning: object) -> Tokens | None:
    if not (is_count(given) and is_count(cached) and is_count(made)):
        return None
    if not (reasoning is None or is_count(reasoning)):
        return None
    if cached > given or (reasoning or 0) > made:
        return None
    return Tokens(given, cached, made, reasoning)


def is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= MOST_TOKENS


def sum_between(calls: Iterable[Call], since: float, until: float) -> Tokens | None:
    """Return what the calls took that began to be told in a stretch of time.

    None if there are none, if one of them does not say it, and if they say that they took nothing:
    there is no such call, but there are model servers that do not tell.
    """
    total = NONE_USED
    for call in _each_once(calls):
        if not since <= call.at < until:
            continue
        if call.tokens is None:
            return None
        total += call.tokens
    return total if total.input + total.output else None


def _each_once(calls: Iterable[Call]) -> Iterable[Call]:
    """Return each call once: from when it was first told of, with the most it was told to take.

    A copy of a conversation tells of its calls again, and a line that was written while a call went
    on says less than the last one.
    """
    found: dict[str, Call] = {}
    for call in calls:
        known = found.get(call.id)
        if known is None:
            found[call.id] = call
        else:
            tokens = max(known.tokens, call.tokens, key=_rank)
            found[call.id] = Call(call.id, min(known.at, call.at), tokens)
    return found.values()


def _rank(tokens: Tokens | None) -> tuple[int, ...]:
    if tokens is None:
        return ()
    reasoning = -1 if tokens.reasoning is None else tokens.reasoning
    return (tokens.output, tokens.input, reasoning, tokens.cached_input)


def unix_time(stamp: object) -> float | None:
    """Return when a line was written; None if it does not say that for all places on earth."""
    # 2026-11-15T06:34:26.123Z
    if not isinstance(stamp, str):
        return None
    try:
        at = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return None if at.tzinfo is None else at.timestamp()


CLAUDE_MARK = b'"usage"'
"""In every line that may tell of a call: most do not, and need not be read further."""


def claude_calls(lines: Iterable[bytes]) -> Iterator[Call]:
    """Yield the calls that lines of a record of Claude Code tell of, some several times.

    A call has a line for each part of its answer, all with the same `message.id` and usage:

        {"type":"assistant","timestamp":"…","message":{"id":"msg_…","model":"…","usage":{
         "input_tokens":12,"cache_creation_input_tokens":102,"cache_read_input_tokens":1002,
         "output_tokens":202,"output_tokens_details":{"thinking_tokens":0}}}}

    The three kinds of input exclude each other. A sub-agent has such a record of its own.
    """
    for line in lines:
        fields = object_of(line) if CLAUDE_MARK in line else {}
        match fields:
            case {"isApiErrorMessage": True} | {"message": {"model": "<synthetic>"}}:
                # Claude Code has made it itself, in the place of an answer.
                continue
            case {"type": "assistant", "message": {"id": str(name), "usage": usage}}:
                if (at := unix_time(fields.get("timestamp"))) is not None:
                    yield Call(name, at, _claude_tokens(usage))


def _claude_tokens(usage: object) -> Tokens | None:
    if not isinstance(usage, dict):
        return None
    # An account without a cache may not name it.
    written = usage.get("cache_creation_input_tokens") or 0
    cached = usage.get("cache_read_input_tokens") or 0
    fresh = usage.get("input_tokens")
    if not (is_count(fresh) and is_count(written) and is_count(cached)):
        return None
    details = usage.get("output_tokens_details")
    thinking = details.get("thinking_tokens") if isinstance(details, dict) else None
    return read_tokens(fresh + written + cached, cached, usage.get("output_tokens"), thinking)


CODEX_MARKS = (b'"token_usage_record"', b'"token_count"', b'"session_meta"')
"""One of them is in every line of use: most are of none, and need not be read further."""


class Head(Struct, frozen=True):
    thread: str
    session: str
    """The thread that a person began, of which this is a part."""
    parent: str
    """The thread that started this one as its sub-agent; empty if none did."""
    is_own: bool
    """Is it the session of a person, and not of a sub-agent or of a program?"""
    is_forked: bool


def read_head(line: bytes) -> Head | None:
    match object_of(line):
        case {"type": "session_meta", "payload": {"id": str(thread)} as told}:
            pass
        case _:
            return None
    source, parent = told.get("source"), told.get("parent_thread_id")
    match source:
        case {"subagent": {"thread_spawn": {"parent_thread_id": named}}}:
            parent = named
    session = told.get("session_id")
    return Head(
        thread=thread,
        session=session if isinstance(session, str) else thread,
        parent=parent if isinstance(parent, str) else "",
        is_own=not (isinstance(source, dict) or source in ("exec", "mcp")),
        is_forked=told.get("forked_from_id") is not None,
    )


def family_of(heads: Iterable[Head], sessions: Iterable[str]) -> set[str]:
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


def codex_calls(lines: Iterable[bytes]) -> list[Call] | None:
    """Return the calls that the lines of a record of Codex tell of, None if that is unknown.

    Newer versions write a line for each call, before its tool runs:

        {"timestamp":"…","type":"token_usage_record","payload":{"response_id":"resp_3","usage":{
         "input_tokens":1003,"cached_input_tokens":503,"output_tokens":103,
         "reasoning_output_tokens":13,…},…}}

    Older ones only say, again and again, what the session has taken so far. How much that has grown
    is what the calls in between took; what is said of the last call alone is not always true.

        {"timestamp":"…","type":"event_msg","payload":{"type":"token_count","info":{
         "total_token_usage":{…the same fields…},"last_token_usage":{…}}}}

    Newer versions write that too, but without a call in whose tool Codex was killed: from the first
    line of the other kind on, those alone count. A sub-agent has a record of its own.
    """
    head: Head | None = None
    total: Tokens | None = None
    told: list[Call] = []
    grown: list[Call] = []
    for line in lines:
        if not any(mark in line for mark in CODEX_MARKS):
            continue
        if head is None:
            head = read_head(line)
            # None if the beginning of the session is that of another.
            total = None if head is None or head.is_forked else NONE_USED
            continue
        fields = object_of(line)
        at = unix_time(fields.get("timestamp"))
        if at is None:
            continue
        match fields:
            case {"type": "token_usage_record", "payload": {"response_id": str(name), **more}}:
                told.append(Call(name, at, _codex_tokens(more.get("usage"))))
            case {
                "type": "event_msg",
                "payload": {"type": "token_count", "info": {"total_token_usage": usage}},
            } if not told:
                before, now = total, _codex_tokens(usage)
                if now is None or now == before:
                    continue
                total = now
                if before is not None:
                    name = f"{head.thread} {now.input} {now.output}"
                    grown.append(Call(name, at, _growth(before, now)))
    # Older versions copy what another thread has told, and nothing says where that ends.
    if head is None or (head.is_forked and grown):
        return None
    return grown + told


def _codex_tokens(usage: object) -> Tokens | None:
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
