"""Events of runs for tests: one after the other, or any at all."""

from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

from hypothesis import strategies as st
from msgspec import structs

from cli_agent_orchestrator.cli.picture import Picture
from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.events import (
    AgentsStarting,
    AgentStarted,
    EventKind,
    HandoffEvent,
    RunBegan,
    RunEvent,
    RunOpened,
    ServerChosen,
    TurnBegan,
    TurnEnded,
)

NOON = 1_700_000_000.0
RUN = "20261115-084037-k3f9"
PROVIDERS = {
    "analyst": "codex",
    "analyst_review": "claude_code",
    "programmer": "codex",
    "programmer_review": "claude_code",
    "tester": "codex",
}
REVIEWERS = ("analyst_review", "programmer_review")
TERMINALS = {role: f"t-{role}" for role in PROVIDERS}
OPENED = RunOpened(NOON, RUN, "/p")
STARTING = AgentsStarting(NOON, PROVIDERS)
BEGAN = RunBegan(
    NOON + 5, "cao-1", TERMINALS, PROVIDERS, "/p/.tmp/a", max_rounds=8, reviewers=REVIEWERS
)


def started(role: str, at: float = NOON + 3) -> AgentStarted:
    return AgentStarted(at, role, TERMINALS[role])


def sequence(role: str, number: int, cycle: int) -> int:
    return 100 * number + 10 * cycle + [*PROVIDERS].index(role)


def turn(role: str, number: int = 1, cycle: int = 1, at: float = NOON + 10) -> TurnBegan:
    which = sequence(role, number, cycle)
    provider, terminal = PROVIDERS[role], TERMINALS[role]
    return TurnBegan(at, role, number, cycle, which, terminal, provider, reviewed=role != "tester")


def handoff(
    kind: EventKind,
    text: str = "",
    status: TerminalStatus | None = None,
    role: str = "programmer",
    at: float = NOON + 20,
) -> HandoffEvent:
    return HandoffEvent(at, kind, TERMINALS[role], role, text, status)


def status(value: TerminalStatus, role: str = "programmer") -> HandoffEvent:
    return handoff(EventKind.STATUS, status=value, role=role)


def ended(
    role: str, outcome: str, detail: str = "", reason: str = "", number: int = 1, cycle: int = 1
) -> TurnEnded:
    which, reviewed = sequence(role, number, cycle), role != "tester"
    at, archive = NOON + 60, "/p/.tmp/a/004.md"
    return TurnEnded(
        at, role, number, cycle, which, outcome, detail, 75.0, archive, reviewed, reason
    )


def a_whole_run() -> list[RunEvent]:
    """Return the events of a run that is in the middle of its second cycle."""
    return [
        OPENED,
        ServerChosen(NOON, "http://localhost:1", "yours"),
        STARTING,
        *(started(role) for role in PROVIDERS),
        BEGAN,
        turn("analyst"),
        ended("analyst", "delivered", "summary received"),
        turn("analyst_review"),
        ended("analyst_review", "sent_back", "REVISE; cycle 2 follows", "No word about rounding"),
        turn("analyst", cycle=2),
        status(TerminalStatus.PROCESSING, "analyst"),
    ]


def picture_of(*happened: RunEvent) -> Picture:
    picture = Picture()
    for event in happened:
        picture.add(event)
    return picture


texts = st.text(max_size=200) | st.sampled_from(
    ["", "\x1b[2J", "a\nb\tc", "日本語" * 40, "e\u0301"]
)
roles = st.sampled_from([*PROVIDERS, "gate"]) | st.text(min_size=1, max_size=100)
times = st.floats(-1e15, 1e15)
OF_FIELD: dict[str, st.SearchStrategy[Any]] = {
    "seq": st.just(0),
    "role": roles,
    "gate": roles,
    "outcome": st.sampled_from(["delivered", "approved", "sent_back", "failed", "passed"]) | texts,
    "when": st.sampled_from(["base", "after_programmer", "after_tester"]),
    "name": st.just("MAX_ROUNDS") | texts,
}
OF_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    str: texts,
    int: st.integers(0, 10**15 - 1),
    float: times,
    bool: st.booleans(),
    EventKind: st.sampled_from(EventKind),
    TerminalStatus | None: st.none() | st.sampled_from(TerminalStatus),
    float | None: st.none() | times,
    Mapping[str, str]: st.dictionaries(roles, texts, max_size=6),
    tuple[str, ...]: st.lists(roles, max_size=3).map(tuple),
}


def any_of(kind: type[RunEvent]) -> st.SearchStrategy[RunEvent]:
    hints = get_type_hints(kind)
    names = [field.name for field in structs.fields(kind)]
    fields = {name: OF_FIELD.get(name, OF_TYPE[hints[name]]) for name in names}
    return st.builds(kind, **fields)


events = st.one_of([any_of(kind) for kind in get_args(RunEvent)])
