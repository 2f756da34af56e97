"""Makes figures of what was measured, and docs/accuracy.md of the figures."""

from collections.abc import Iterable, Iterator, Sequence

from bench.figures import percentile
from bench.usage import machine_facts
from tests.agents.accuracy.measure import Measurement, TurnResult
from tests.agents.accuracy.score import Mistake
from tests.providers.test_drift import AGENTS as DRAWN
from tests.providers.test_drift import SEEDS, drawings, find_faults

# What is kept of one agent and its modes: rows of the tables, and what is not as it must be.
Figures = dict[str, list[str]]

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
DRIFT = "## Drift"

HEAD = """\
# How accurate is the status?

Made by `make accuracy`: real agents in real terminals, in turns of every kind. Only the model is a
stub, which knows when each answer begins and ends. What the server reported is compared with that,
and what the screen alone says (no signals, no title).

- **false finished / idle / failed**: turns in which the agent was said to be at rest although it
  worked or asked, or whose end was told wrongly. Not a moment is allowed; the screen alone has half
  a second after a message.
- **false working**: said to work when it asked, or again after its end was told.
- **missed waiting**: it asked a person something, and that was not told or taken back too early.
- **false waiting**: said to ask when it did not, or still 2.5 seconds after the answer.
- **missed end**: the end of a turn was not told within 20 seconds.
- **delay**: from the model's last byte, its question or the key that stopped a turn to the event;
  of a start from the command to the input box.
- **sending**: messages that did not arrive once and exactly, or whose arrival was not confirmed.

On an idle machine the end of a turn must be known within 100 ms (p50) and 300 ms (p99) of the
model's last byte, where the agent reports it. Turns with the user's Stop hook do not count: Claude
Code's screen alone ends them; 2.1.105 does not report such a hook, and misses the limits. Nothing
false or missed is allowed. Some figures are older.
"""

WILD_NOTE = """\
Sub-agents, background work, hooks, a person's own prompts and commands, small windows. The server
has a second to see what a person types. Where Claude Code continues after background work, the turn
ends with that; in Codex such work belongs to no turn."""

PROMPTS_NOTE = """\
Each must reach the model once, byte for byte: quotes, line ends, tabs, backslashes, Chinese, emoji.
(Claude Code makes a pasted tab four spaces; 2.1.105 breaks other letters and gets ASCII alone.)"""

DRIFT_NOTE = """\
Captured screens as a later version may draw them: other words, languages, signs, colors, borders,
rows. Wrong: work read as an end, rest as work, a draft nobody typed."""


SUMMARY = (
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
PROMPT = ("agent", "prompts", "not delivered", "Enter pressed again", "p50 / p99 ms")
DRIFT_HEAD = ("agent", "captures", "drawings", "wrong")
TURNS = ("state", "turn", "turns", "wrong", "delay p50 / p99 ms", "wrong by screen")


def page(plain: Iterable[Figures], wild: Iterable[Figures], drift: Iterable[Figures]) -> str:
    """Return the page of all figures."""
    plain = list(plain)
    lines = [HEAD, ALL, "", *_table(SUMMARY, plain, "summary"), ALL_WILD, "", WILD_NOTE, ""]
    lines += _table(SUMMARY, wild, "summary")
    lines += [PROMPTS, "", PROMPTS_NOTE, "", *_table(PROMPT, plain, "prompts")]
    lines += [DRIFT, "", DRIFT_NOTE, "", *_table(DRIFT_HEAD, drift, "drift")]
    return "\n".join(lines).rstrip() + "\n"


def drift_figures() -> Figures:
    """Return what was read wrongly in captured screens that were drawn anew."""
    rows = []
    for agent in DRAWN:
        screens, wrong = len(drawings(agent)), len(find_faults(agent, SEEDS))
        rows.append(_row(agent, screens, f"{screens * len(SEEDS):,}", wrong))
    return {"drift": rows}


def figures(name: str, found: Measurement) -> Figures:
    """Return what was found about one agent in one version."""
    machine = ", ".join(f"{fact} {value}" for fact, value in machine_facts().items())
    return {
        "summary": list(_summary(name, found)),
        "prompts": list(_prompts(name, found)),
        "turns": [f"Measured on {machine}.", *_head(TURNS), *_kinds(found.turns)],
        "lacking": list(shortcomings(name, found)),
    }


def shortcomings(name: str, found: Measurement) -> Iterator[str]:
    """Yield what is not as it must be, in a sentence each."""
    for mistake in MUST_NOT_BE:
        if wrong := _count(found.turns, "signals", mistake):
            yield f"{name}: {mistake} in {wrong} turns"
    if troubles := sum(bool(turn.trouble) for turn in found.turns):
        yield f"{name}: {troubles} turns could not be measured"
    if lost := sum(bool(turn.sending) for turn in found.turns):
        yield f"{name}: {lost} messages of turns not delivered once and exactly"
    if lost := sum(bool(prompt.failure) for prompt in found.prompts):
        yield f"{name}: {lost} of {len(found.prompts)} prompts not delivered"
    delays = _delays(_ended_by_model(found.turns), "signals")
    for percent, limit in ((50, P50_LIMIT), (99, P99_LIMIT)):
        if delays and (delay := percentile(delays, percent)) > limit:
            yield f"{name}: end of a turn known after {_ms(delay)} ms (p{percent})"


def _summary(name: str, found: Measurement) -> Iterator[str]:
    # The turns that a model took part in.
    turns = [turn for turn in found.turns if turn.state not in NOT_TURNS]
    for source, by in (("signals", "**signals**"), ("screen", "screen alone")):
        own = source == "signals"
        yield _row(
            name if own else "",
            by,
            f"{len(turns):,}" if own else "",
            f"{found.screens:,}" if own else "",
            _count(turns, source, Mistake.FALSE_FINISHED),
            _count(turns, source, Mistake.FALSE_IDLE, Mistake.FALSE_FAILED),
            _count(turns, source, Mistake.FALSE_WORKING),
            _count(turns, source, Mistake.FALSE_WAITING),
            _count(turns, source, Mistake.MISSED_WAITING),
            _count(turns, source, Mistake.MISSED_END),
            _both(_delays(_ended_by_model(turns), source)),
            _both(_delays(turns, source, "asked_delay")),
            sum(bool(turn.sending) for turn in turns) if own else "",
        )


def _prompts(name: str, found: Measurement) -> Iterator[str]:
    if found.prompts:
        again = sum(prompt.presses > 1 for prompt in found.prompts)
        failed = sum(bool(prompt.failure) for prompt in found.prompts)
        seconds = [prompt.seconds for prompt in found.prompts]
        yield _row(name, len(found.prompts), failed, again, _both(seconds))


def _kinds(found: Sequence[TurnResult]) -> Iterator[str]:
    for state, kind in sorted({(turn.state, turn.kind) for turn in found}):
        turns = [turn for turn in found if (turn.state, turn.kind) == (state, kind)]
        yield _row(
            state,
            kind,
            len(turns),
            _mistakes(turns, "signals"),
            _both(_delays(turns, "signals")),
            "" if state in NOT_TURNS else _mistakes(turns, "screen"),
        )


def _mistakes(turns: Sequence[TurnResult], source: str) -> str:
    """Return how many turns were told wrongly, and how."""
    wrong = _count(turns, source, *Mistake)
    counts = {mistake: _count(turns, source, mistake) for mistake in Mistake}
    how = ", ".join(f"{mistake} {count}" for mistake, count in counts.items() if count)
    troubles = sum(bool(turn.trouble) for turn in turns)
    not_measured = f"; not measured {troubles}" if troubles else ""
    return (f"{wrong}: {how}" if wrong else "0") + not_measured


def _ended_by_model(turns: Iterable[TurnResult]) -> list[TurnResult]:
    """Return the turns that end with the model's last byte."""
    return [turn for turn in turns if turn.state not in (*NOT_TURNS, *NOT_TOLD)]


def _count(turns: Iterable[TurnResult], source: str, *mistakes: Mistake) -> int:
    return sum(bool(getattr(turn, source).mistakes & {*mistakes}) for turn in turns)


def _delays(turns: Iterable[TurnResult], source: str, name: str = "delay") -> list[float]:
    delays = [getattr(getattr(turn, source), name) for turn in turns]
    return [delay for delay in delays if delay is not None]


def _both(seconds: Sequence[float]) -> str:
    if not seconds:
        return "–"
    return f"{_ms(percentile(seconds, 50))} / {_ms(percentile(seconds, 99))}"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.0f}"


def _table(head: Sequence[str], found: Iterable[Figures], name: str) -> Iterator[str]:
    yield from _head(head)
    for one in found:
        yield from one[name]
    yield ""


def _head(names: Sequence[str]) -> Iterator[str]:
    yield _row(*names)
    yield "|" + "---|" * len(names)


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"
