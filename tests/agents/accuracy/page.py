"""Makes docs/accuracy.md of what was measured."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench.figures import percentile
from tests.agents.accuracy.score import Mistake

# One turn or prompt as it was saved; made by `dataclasses.asdict`.
Saved = dict[str, Any]

FALSE_REST = (Mistake.FALSE_FINISHED, Mistake.FALSE_IDLE, Mistake.FALSE_FAILED)
MUST_NOT_BE = (*FALSE_REST, Mistake.FALSE_WAITING, Mistake.MISSED_WAITING, Mistake.MISSED_END)
NOT_TURNS = ("starting", "exited")
NOT_TOLD = ("interrupted", "compaction", "Stop hook that objects")
"""States whose end is not the model's last byte, or not told by the agent: where a hook of the
user's may object, Claude Code tells that it wants to stop, and its screen alone that it did."""
P50_LIMIT, P99_LIMIT = 0.100, 0.300
"""Seconds after the model's last byte within which the end of a turn is to be known."""
ALL, ALL_WILD = "## All agents", "## All agents as people use them"
PROMPTS = "## Prompts of 1 byte to 200 KB"
WILD = " as people use it"

HEAD = """\
# How accurate is the status?

Made by `make accuracy`. Real agent programs in real terminals, driven through turns of every kind;
only the model is a stub, and it knows when each answer begins and ends. What the server told about
every turn is compared with that, beside it what the screen alone says (no signals, no title), as
read by the same code from every screen the server saw.

- **false finished / idle / failed**: turns during which the agent was said to be at rest although
  it worked or asked, or whose end was told wrongly. Not a moment of it is allowed; the screen alone
  has half a second after a message was sent.
- **false working**: said to work when it asked, or again after its end was told.
- **missed waiting**: it asked a person something, and that was not told or taken back too early.
- **false waiting**: said to ask when it did not, or still 2.5 seconds after the answer.
- **missed end**: the end of a turn was not told within 20 seconds.
- **delay**: from the model's last byte, its question or the key that stopped a turn to the event;
  of a start from the command to the input box.
- **sending**: messages that did not arrive once and exactly, or whose arrival was not confirmed.

On a machine that does nothing else, the end of a turn is to be known within 100 ms (p50) and 300 ms
(p99) of the model's last byte, where the agent tells it. Where a Stop hook of the user's may
object, Claude Code tells that it wants to stop, and its screen alone that it did: that mode is not
counted in the figure for all turns. Version 2.1.105 does not say whether there is such a hook, so
the screen is waited for in all its turns, and the limits are not reached there. Nothing false and
nothing missed is allowed on any machine. What was not measured anew by the newest `make accuracy`
stands as it was found before.
"""

WILD_NOTE = """\
Sub-agents, work in the background, hooks, a person's own prompts and commands, small windows. The
server is not told what a person types: it has a second to see it. Claude Code goes on by itself
when work in the background is over, so that is the end of the turn; in Codex such work belongs to
no turn. Each mode is measured where an agent has it."""

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
    prompts: Sequence[Saved] = ()
    wild: bool = False
    """Was it used as people do, or turn by turn?"""

    @property
    def name(self) -> str:
        return f"{self.agent} {self.version}"

    @property
    def heading(self) -> str:
        return f"## {self.name}{WILD if self.wild else ''}"

    @property
    def measured(self) -> list[Saved]:
        """The turns that a model took part in."""
        return [turn for turn in self.turns if turn["state"] not in NOT_TURNS]


def page(found: Sequence[Saw]) -> str:
    """Return a page of what was found."""
    plain = [saw for saw in found if not saw.wild]
    wild = [saw for saw in found if saw.wild]
    lines = [HEAD, ALL, "", *_summary(plain), "", ALL_WILD, "", WILD_NOTE, "", *_summary(wild), ""]
    lines += [PROMPTS, "", PROMPTS_NOTE, "", *_prompts(plain), ""]
    for saw in found:
        lines += [saw.heading, "", f"Measured on {saw.machine}.", "", *_kinds(saw), ""]
    return "\n".join(lines).rstrip() + "\n"


def parted(text: str) -> tuple[str, str]:
    """Return the summary, which users read, and the tables of each agent."""
    at = next(iter(re.finditer(r"^## [a-z_]+ \d", text, re.MULTILINE)), None)
    return (text[: at.start()].rstrip() + "\n", text[at.start() :]) if at else (text, "")


def merged(old: str, new: str, names: Sequence[str]) -> str:
    """Return a new page with what only an old one has: agents that were not measured anew."""
    before, now = _sections(old), _sections(new)
    lines = now[""]
    for heading in (ALL, ALL_WILD, PROMPTS):
        head, rows = _table(now[heading])
        rows = _table(before.get(heading, []))[1] | rows
        lines += [heading, *head, *(row for name in names for row in rows.get(name, [])), ""]
    for name in names:
        for heading in (f"## {name}", f"## {name}{WILD}"):
            if section := now.get(heading) or before.get(heading):
                lines += [heading, *section]
    return "\n".join(lines).rstrip() + "\n"


def _sections(text: str) -> dict[str, list[str]]:
    """Return the lines under each heading, and those before the first one."""
    sections: dict[str, list[str]] = {"": []}
    heading = ""
    for line in text.splitlines():
        if line.startswith("## "):
            heading = line
            sections[heading] = []
        else:
            sections[heading].append(line)
    return {name: [*_stripped(lines), ""] for name, lines in sections.items()}


def _stripped(lines: Sequence[str]) -> list[str]:
    kept = list(lines)
    while kept and not kept[-1]:
        kept.pop()
    return kept


def _table(lines: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Return what stands above the rows of a table, and the rows of each agent."""
    ruler = next((place for place, line in enumerate(lines) if line.startswith("|---")), -1)
    rows: dict[str, list[str]] = {}
    name = ""
    for line in _stripped(lines[ruler + 1 :]):
        name = line.split("|")[1].strip() or name
        rows.setdefault(name, []).append(line)
    return list(lines[: ruler + 1]), rows


def shortcomings(found: Iterable[Saw]) -> Iterator[str]:
    """Yield what is not as it must be, in a sentence each."""
    for saw in found:
        for mistake in MUST_NOT_BE:
            if wrong := _count(saw.turns, "signals", mistake):
                yield f"{saw.heading[3:]}: {mistake} in {wrong} turns"
        if troubles := sum(bool(turn["trouble"]) for turn in saw.turns):
            yield f"{saw.heading[3:]}: {troubles} turns could not be measured"
        if lost := sum(bool(turn["sending"]) for turn in saw.turns):
            yield f"{saw.heading[3:]}: {lost} messages of turns not delivered once and exactly"
        if lost := sum(bool(prompt["failure"]) for prompt in saw.prompts):
            yield f"{saw.heading[3:]}: {lost} of {len(saw.prompts)} prompts not delivered"
        delays = _delays(_ended_by_model(saw), "signals")
        for percent, limit in ((50, P50_LIMIT), (99, P99_LIMIT)):
            if delays and (delay := percentile(delays, percent)) > limit:
                yield f"{saw.heading[3:]}: end of a turn known after {_ms(delay)} ms (p{percent})"


def _summary(found: Iterable[Saw]) -> Iterator[str]:
    yield from _head(
        "agent",
        "told by",
        "turns",
        "screens",
        "false finished",
        "false idle or failed",
        "false working",
        "false waiting",
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
                _count(turns, source, Mistake.FALSE_WAITING),
                _count(turns, source, Mistake.MISSED_WAITING),
                _count(turns, source, Mistake.MISSED_END),
                _both(_delays(_ended_by_model(saw), source)),
                _both(_delays(turns, source, "asked_delay")),
                sum(bool(turn["sending"]) for turn in turns) if own else "",
            )


def _prompts(found: Iterable[Saw]) -> Iterator[str]:
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
    return [turn for turn in saw.measured if turn["state"] not in NOT_TOLD]


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
