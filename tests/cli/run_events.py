"""Events of runs for tests: one after the other, or any at all."""

from hypothesis import strategies as st

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.events import (
    AgentsStarting,
    AgentStarted,
    CheckBegan,
    CheckEnded,
    CheckOutput,
    EventKind,
    FilesChanged,
    HandoffEvent,
    NotConverging,
    PauseAsked,
    Paused,
    RunBegan,
    RunEnded,
    RunEvent,
    RunOpened,
    ServerChosen,
    SettingChanged,
    TurnBegan,
    TurnEnded,
    Unpaused,
    Warned,
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


def turn(role: str, number: int = 1, cycle: int = 1, at: float = NOON + 10) -> TurnBegan:
    provider, terminal = PROVIDERS[role], TERMINALS[role]
    return TurnBegan(at, role, number, cycle, 4, terminal, provider, reviewed=role != "tester")


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


def ended(role: str, outcome: str, detail: str = "", reason: str = "") -> TurnEnded:
    reviewed = role != "tester"
    at, archive = NOON + 60, "/p/.tmp/a/004.md"
    return TurnEnded(at, role, 1, 1, 4, outcome, detail, 75.0, archive, reviewed, reason)


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


texts = st.text(max_size=200) | st.sampled_from(
    ["", "\x1b[2J", "a\nb\tc", "日本語" * 40, "e\u0301"]
)
roles = st.sampled_from([*PROVIDERS, "gate"]) | st.text(min_size=1, max_size=100)
times = st.floats(-1e15, 1e15)
counts = st.integers(0, 10**15 - 1)
tables = st.dictionaries(roles, texts, max_size=6)
outcomes = st.sampled_from(["delivered", "approved", "sent_back", "failed", "passed"]) | texts
events: st.SearchStrategy[RunEvent] = st.one_of(
    st.builds(RunOpened, times, texts, texts, st.booleans(), texts),
    st.builds(ServerChosen, times, texts, texts, st.booleans()),
    st.builds(AgentsStarting, times, tables),
    st.builds(AgentStarted, times, roles, texts),
    st.builds(
        RunBegan,
        at=times,
        session_name=texts,
        terminals=tables,
        providers=tables,
        archive=texts,
        max_rounds=counts,
        reviewers=st.lists(roles, max_size=3).map(tuple),
    ),
    st.builds(TurnBegan, times, roles, counts, counts, counts, texts, texts, st.booleans()),
    st.builds(
        HandoffEvent,
        times,
        st.sampled_from(EventKind),
        texts,
        roles,
        texts,
        st.none() | st.sampled_from(TerminalStatus),
        st.none() | times,
        until=st.none() | times,
    ),
    st.builds(
        TurnEnded,
        times,
        roles,
        counts,
        counts,
        counts,
        outcomes,
        texts,
        times,
        texts,
        st.booleans(),
        texts,
        verdict=texts,
        why=texts,
    ),
    st.builds(
        CheckBegan,
        *(times, roles, counts, counts, texts),
        st.sampled_from(["base", "after_programmer", "after_tester"]),
        texts,
    ),
    st.builds(FilesChanged, times, roles, counts, counts, st.tuples(texts), counts, counts, counts),
    st.builds(NotConverging, times, texts),
    st.builds(CheckOutput, times, roles, counts, counts, texts),
    st.builds(CheckEnded, times, roles, counts, counts, outcomes, texts, times, texts, why=texts),
    st.builds(PauseAsked, times),
    st.builds(SettingChanged, times, st.just("MAX_ROUNDS") | texts, texts, texts),
    st.builds(Paused, times),
    st.builds(Unpaused, times),
    st.builds(Warned, times, texts, texts),
    st.builds(
        RunEnded,
        times,
        texts,
        counts,
        counts,
        proof=texts,
        proven=st.booleans(),
        gaps=texts,
        look_at=texts,
        before=texts,
        to_resume=texts,
        error=texts,
    ),
)
