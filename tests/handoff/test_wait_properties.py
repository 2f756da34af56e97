"""The machine of a wait against the specification, played as one loop."""

from collections.abc import Sequence
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.handoff.wait import End, Observation, TurnEnd, Wait, advance
from cli_agent_orchestrator.settings.config import HandoffRules

REST = (TerminalStatus.IDLE, TerminalStatus.COMPLETED)
# Quarters of a second are exact as floats, so that a model may add them up in another order.
SECONDS = st.integers(1, 80).map(lambda n: n / 4)
REPLIES = st.sampled_from([None, None, None, "the reply"])
STEPS = st.lists(st.tuples(SECONDS, st.sampled_from(TerminalStatus), REPLIES), max_size=60)
RULES = st.builds(
    HandoffRules,
    poll_seconds=st.integers(1, 20).map(lambda n: n / 4),
    response_timeout=st.integers(0, 200).map(float),
    idle_grace=st.integers(0, 60).map(float),
    strict=st.booleans(),
)


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


@given(STEPS, RULES)
def test_the_machine_agrees_with_a_plain_loop(
    steps: list[tuple[float, TerminalStatus, str | None]], rules: HandoffRules
) -> None:
    times = accumulate(pause for pause, _, _ in steps)
    row = [Observation(at, *step[1:]) for at, step in zip(times, steps, strict=True)]
    wait = Wait.begin(0, rules)
    found: tuple[int, End | None] = len(row), None
    for used, seen in enumerate(row, 1):
        wait, action = advance(wait, seen, rules)
        if isinstance(action, TurnEnd):
            found = used, action.end
            break
    assert found == model(row, rules)
