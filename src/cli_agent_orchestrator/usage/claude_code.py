"""The calls that a session record of Claude Code tells of.

A call has a line for each part of its answer, all with the same `message.id` and the same usage:

    {"type":"assistant","timestamp":"…","message":{"id":"msg_…","model":"…","usage":{
     "input_tokens":12,"cache_creation_input_tokens":102,"cache_read_input_tokens":1002,
     "output_tokens":202,"output_tokens_details":{"thinking_tokens":0}}}}

The three kinds of input exclude each other. A sub-agent has such a record of its own. The calls
that shorten a conversation are in none.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from .tokens import Call, Tokens, fields_of, is_count, read_tokens, unix_time

MARK = b'"usage"'
"""In every line that may tell of a call: most do not, and need not be read further."""


def read_calls(lines: Iterable[bytes]) -> Iterator[Call]:
    """Yield the calls that lines of a record tell of, some of them several times."""
    for line in lines:
        if MARK in line and (call := _call(fields_of(line))) is not None:
            yield call


def _call(fields: dict[str, Any]) -> Call | None:
    match fields:
        case {"isApiErrorMessage": True} | {"message": {"model": "<synthetic>"}}:
            # Claude Code has made it itself, in the place of an answer.
            return None
        case {"type": "assistant", "message": {"id": str(name), "usage": usage}}:
            at = unix_time(fields.get("timestamp"))
            return None if at is None else Call(name, at, _tokens(usage))
        case _:
            return None


def _tokens(usage: object) -> Tokens | None:
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
