"""Makes docs/accuracy.md of what was measured."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench.figures import percentile
from tests.agents.accuracy.score import Mistake

# One turn or prompt as it was saved; made by `dataclasses.asdict`.
Saved = dict[str, Any]

FALSE_REST = (Mistake.FALSE_FINISHED, Mistake.FALSE_IDLE, Mistake.FALSE_FAILED)
NOT_TURNS = ("starting", "exited")
P50_LIMIT, P99_LIMIT = 0.150, 0.500
"""Seconds after the model's last byte within which the end of a turn is to be known."""

HEAD = """\
# How true is the status?

Made by `make accuracy`. Real agent programs in real terminals, driven through turns of every kind;
only the model is a stub, and it knows when each answer begins and ends. What the server told about
every turn is compared with that, beside it what the screen alone says (no signals, no title), as
read by the same code from every screen the server saw.

- **false finished / idle / failed**: turns during which the agent was said to be at rest although
  it worked or asked, or whose end was told wrongly. Not a moment of it is allowed; the screen alone
  has half a second after a message was sent.
- **false working**: said to work when it asked, or again after its end was told.
- **missed waiting**: it asked a person something, and that was not told or taken back too early.
- **missed end**: the end of a turn was not told within 20 seconds.
- **delay**: from the model's last byte, its question or the key that stopped a turn to the event;
  of a start from the command to the input box.
- **sending**: messages that did not arrive once and exactly, or whose arrival was not confirmed.
"""

PROMPTS_NOTE = """\
Each must reach the model once, byte for byte: quotes, line ends, tabs, backslashes, Chinese, emoji.
(Claude Code itself makes four spaces of a pasted tab. Its version 2.1.105 breaks letters that are
not ASCII where it reads a long paste in two pieces: it gets ASCII alone.)"""


@dataclass(frozen=True, slots=True)
class Saw:
    """What was found about one agent in one version."""

    agent: str
    version: str
    machine: str
    screens: int
    turns: Sequence[Saved]
    prompts: Sequence[Saved]

    @property
    def name(self) -> str:
        return f"{self.agent} {self.version}"

    @property
    def measured(self) -> list[Saved]:
        """The turns that a model took part in."""
        return [turn for turn in self.turns if turn["state"] not in NOT_TURNS]


def page(found: Sequence[Saw]) -> str:
    """Return the whole page."""
    lines = [HEAD, *_summary(found), "", *_prompts(found), ""]
    for saw in found:
        lines += [f"## {saw.name}", "", f"Measured on {saw.machine}.", "", *_kinds(saw), ""]
    return "\n".join(lines).rstrip() + "\n"


def shortcomings(found: Iterable[Saw]) -> Iterator[str]:
    """Yield what is not as it must be, in a sentence each."""
    for saw in found:
        for mistake in (*FALSE_REST, Mistake.MISSED_WAITING, Mistake.MISSED_END):
            if wrong := _count(saw.turns, "signals", mistake):
                yield f"{saw.name}: {mistake} in {wrong} turns"
        if troubles := sum(bool(turn["trouble"]) for turn in saw.turns):
            yield f"{saw.name}: {troubles} turns could not be measured"
        if lost := sum(bool(turn["sending"]) for turn in saw.turns):
            yield f"{saw.name}: {lost} messages of turns not delivered once and exactly"
        if lost := sum(bool(prompt["failure"]) for prompt in saw.prompts):
            yield f"{saw.name}: {lost} of {len(saw.prompts)} prompts not delivered"
        delays = _delays(_ended_by_model(saw), "signals")
        for percent, limit in ((50, P50_LIMIT), (99, P99_LIMIT)):
            if delays and (delay := percentile(delays, percent)) > limit:
                yield f"{saw.name}: end of a turn known after {_ms(delay)} ms (p{percent})"


def _summary(found: Iterable[Saw]) -> Iterator[str]:
    yield "## All agents"
    yield ""
    yield from _head(
        "agent",
        "told by",
        "turns",
        "screens",
        "false finished",
        "false idle or failed",
        "false working",
        "missed waiting",
        "missed end",
        "end of a turn p50 / p99 ms",
        "question p50 / p99 ms",
        "sending",
    )
    for saw in found:
        turns = saw.measured
        for source, name in (("signals", "**signals**"), ("screen", "screen alone")):
            own = source == "signals"
            yield _row(
                saw.name if own else "",
                name,
                f"{len(turns):,}" if own else "",
                f"{saw.screens:,}" if own else "",
                _count(turns, source, Mistake.FALSE_FINISHED),
                _count(turns, source, Mistake.FALSE_IDLE, Mistake.FALSE_FAILED),
                _count(turns, source, Mistake.FALSE_WORKING),
                _count(turns, source, Mistake.MISSED_WAITING),
                _count(turns, source, Mistake.MISSED_END),
                _both(_delays(_ended_by_model(saw), source)),
                _both(_delays(turns, source, "asked_delay")),
                sum(bool(turn["sending"]) for turn in turns) if own else "",
            )


def _prompts(found: Iterable[Saw]) -> Iterator[str]:
    yield "## Prompts of 1 byte to 200 KB"
    yield ""
    yield PROMPTS_NOTE
    yield ""
    yield from _head("agent", "prompts", "not delivered", "Enter pressed again", "p50 / p99 ms")
    for saw in found:
        if saw.prompts:
            again = sum(prompt["presses"] > 1 for prompt in saw.prompts)
            failed = sum(bool(prompt["failure"]) for prompt in saw.prompts)
            seconds = [prompt["seconds"] for prompt in saw.prompts]
            yield _row(saw.name, len(saw.prompts), failed, again, _both(seconds))


def _kinds(saw: Saw) -> Iterator[str]:
    yield from _head("state", "turn", "turns", "wrong", "delay p50 / p99 ms", "wrong by screen")
    for state, kind in sorted({(turn["state"], turn["kind"]) for turn in saw.turns}):
        turns = [turn for turn in saw.turns if (turn["state"], turn["kind"]) == (state, kind)]
        yield _row(
            state,
            kind,
            len(turns),
            _mistakes(turns, "signals"),
            _both(_delays(turns, "signals")),
            "" if state in NOT_TURNS else _mistakes(turns, "screen"),
        )


def _mistakes(turns: Sequence[Saved], source: str) -> str:
    """Return how many turns were told wrongly, and how."""
    wrong = sum(bool(turn[source]["mistakes"]) for turn in turns)
    counts = {mistake: _count(turns, source, mistake) for mistake in Mistake}
    how = ", ".join(f"{mistake} {count}" for mistake, count in counts.items() if count)
    troubles = sum(bool(turn["trouble"]) for turn in turns)
    not_measured = f"; not measured {troubles}" if troubles else ""
    return (f"{wrong}: {how}" if wrong else "0") + not_measured


def _ended_by_model(saw: Saw) -> list[Saved]:
    """Return the turns that end with the model's last byte."""
    return [turn for turn in saw.measured if turn["state"] != "interrupted"]


def _count(turns: Iterable[Saved], source: str, *mistakes: Mistake) -> int:
    return sum(any(mistake in turn[source]["mistakes"] for mistake in mistakes) for turn in turns)


def _delays(turns: Iterable[Saved], source: str, name: str = "delay") -> list[float]:
    return [turn[source][name] for turn in turns if turn[source][name] is not None]


def _both(seconds: Sequence[float]) -> str:
    if not seconds:
        return "–"
    return f"{_ms(percentile(seconds, 50))} / {_ms(percentile(seconds, 99))}"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.0f}"


def _head(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield "|" + "---|" * len(names)


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"
