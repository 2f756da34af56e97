"""Tokens of calls to a model: one meaning whatever agent made them, no call counted twice."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeGuard

MOST_TOKENS = 10**12
"""Of one call; what claims more is no count."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """What one call took, or several."""

    input: int
    """All that the model was given."""
    cached_input: int
    """The part of it that was read from a cache."""
    output: int
    """All that the model made."""
    reasoning: int | None
    """The part of it that was reasoning; None if the agent does not tell it."""

    def __add__(self, other: "Tokens") -> "Tokens":
        known = self.reasoning is not None and other.reasoning is not None
        return Tokens(
            self.input + other.input,
            self.cached_input + other.cached_input,
            self.output + other.output,
            (self.reasoning or 0) + (other.reasoning or 0) if known else None,
        )


NONE_USED = Tokens(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Call:
    """One call to a model, as a record tells it."""

    id: str
    """The same wherever the call is told of again, and that of no other call."""
    at: float
    """When it was written down, in unix time."""
    tokens: Tokens | None
    """None if the record does not say it in a way that is known."""


def read_tokens(given: object, cached: object, made: object, reasoning: object) -> Tokens | None:
    """Return the tokens that a record names; None if that cannot be what they are."""
    if not (is_count(given) and is_count(cached) and is_count(made)):
        return None
    if not (reasoning is None or is_count(reasoning)):
        return None
    if cached > given or (reasoning or 0) > made:
        return None
    return Tokens(given, cached, made, reasoning)


def is_count(value: object) -> TypeGuard[int]:
    """Is this a number of tokens?"""
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


def fields_of(line: bytes) -> dict[str, Any]:  # Any: whatever JSON holds
    """Return the JSON object on a line; an empty one if there is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


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
