"""What holds for every row of observations."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.handoff.wait import (
    Action,
    End,
    KeepWaiting,
    Observation,
    TurnEnd,
    Wait,
    advance,
)
from cli_agent_orchestrator.settings.config import HandoffRules

REST = (TerminalStatus.IDLE, TerminalStatus.COMPLETED)
STATUSES = st.sampled_from(TerminalStatus)
# Quarters of a second are exact as floats, so that a model may add them up in another order.
SECONDS = st.integers(1, 80).map(lambda n: n / 4)
RULES = st.builds(
    HandoffRules,
    poll_seconds=st.integers(1, 20).map(lambda n: n / 4),
    response_timeout=st.integers(0, 200).map(float),
    idle_grace=st.integers(0, 60).map(float),
    strict=st.booleans(),
)


@dataclass(frozen=True)
class Step:
    """What is seen so many seconds after the step before."""

    pause: float
    status: TerminalStatus | None
    response: str | None


def steps(statuses: st.SearchStrategy[TerminalStatus | None]) -> st.SearchStrategy[list[Step]]:
    response = st.sampled_from([None, None, None, "the reply"])
    return st.lists(st.builds(Step, SECONDS, statuses, response), max_size=60)


def observations(row: Sequence[Step]) -> list[Observation]:
    time, seen = 0.0, []
    for step in row:
        time += step.pause
        seen.append(Observation(time, step.status, step.response))
    return seen


def run(seen: Sequence[Observation], rules: HandoffRules) -> tuple[int, Action]:
    """Return how many observations were used and what came of the last."""
    wait = Wait.begin(0, rules)
    action: Action = KeepWaiting(0)
    for used, observation in enumerate(seen, 1):
        wait, action = advance(wait, observation, rules)
        if not isinstance(action, KeepWaiting):
            return used, action
    return len(seen), action


def model(seen: Sequence[Observation], rules: HandoffRules) -> tuple[int, End | None]:
    """Play the specification as one loop with loose variables; every request is answered."""
    agent_started = False
    idle_since: float | None = None
    waited_for_person = 0.0
    last_time, last_status = 0.0, TerminalStatus.UNKNOWN
    for used, now in enumerate(seen, 1):
        assert now.status is not None
        if last_status is TerminalStatus.WAITING_USER_ANSWER:
            waited_for_person += now.time - last_time
        last_time, last_status = now.time, now.status
        if now.status is TerminalStatus.ERROR:
            return used, End.ERROR
        if now.status in REST and now.response:
            return used, End.ACCEPTED
        if now.status not in REST:
            agent_started, idle_since = True, None
            asking = now.status is TerminalStatus.WAITING_USER_ANSWER
            if not asking and now.time - waited_for_person >= rules.response_timeout:
                return used, End.TIMEOUT
        elif not agent_started:
            if now.time >= rules.idle_grace:
                agent_started, idle_since = True, now.time
        else:
            idle_since = now.time if idle_since is None else idle_since
            if now.time - idle_since >= rules.idle_grace:
                return used, End.FILE_MISSING if rules.strict else End.WITHOUT_FILE
    return len(seen), None


@given(steps(STATUSES), RULES)
def test_the_machine_agrees_with_a_plain_loop(row: list[Step], rules: HandoffRules) -> None:
    seen = observations(row)
    used, action = run(seen, rules)
    assert (used, action.end if isinstance(action, TurnEnd) else None) == model(seen, rules)
