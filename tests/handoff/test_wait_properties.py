"""What holds for every row of observations."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import assume, given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.clock import GIVE_UP_SECONDS
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
ANSWERS = st.one_of(st.none(), STATUSES)
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


@given(steps(ANSWERS), RULES)
def test_a_response_is_accepted_at_rest_and_then_alone(
    row: list[Step], rules: HandoffRules
) -> None:
    seen = observations(row)
    used, action = run(seen, rules)
    if isinstance(action, TurnEnd) and action.end is End.ACCEPTED:
        assert seen[used - 1].status in REST
        assert seen[used - 1].response == action.text
    assert not any(o.status in REST and o.response for o in seen[: used - 1])


@given(steps(ANSWERS), RULES)
def test_the_next_look_is_in_the_future_and_soon(row: list[Step], rules: HandoffRules) -> None:
    wait = Wait.begin(0, rules)
    for seen in observations(row):
        wait, action = advance(wait, seen, rules)
        if not isinstance(action, KeepWaiting):
            break
        longest = 10 if seen.status is None else rules.poll_seconds
        assert seen.time < action.by <= seen.time + longest or rules.idle_grace == 0


@given(st.lists(ANSWERS, min_size=1, max_size=8), steps(ANSWERS), RULES)
def test_every_wait_ends(
    cycle: list[TerminalStatus | None], row: list[Step], rules: HandoffRules
) -> None:
    """Unless a person is waited for: whatever happens, if looks follow each other as asked."""
    assume(TerminalStatus.WAITING_USER_ANSWER not in cycle)
    wait = Wait.begin(0, rules)
    time = 0.0
    for seen in observations(row):
        time = seen.time
        wait, action = advance(wait, seen, rules)
        if not isinstance(action, KeepWaiting):
            return
    # Silence may keep the clock of the grace from running, but not the looks from happening.
    for count in range(100_000):
        wait, action = advance(wait, Observation(time, cycle[count % len(cycle)], None), rules)
        if not isinstance(action, KeepWaiting):
            return
        time = max(action.by, time + 0.01)
    raise AssertionError(f"no end after {time} s")


@given(st.integers(1, 10), RULES)
def test_silence_ends_after_five_minutes(pause: int, rules: HandoffRules) -> None:
    row = [Step(pause, None, None)] * int(GIVE_UP_SECONDS / pause + 2)
    seen = observations(row)
    used, _ = run(seen, rules)
    assert used < len(seen) or seen[-1].time - seen[0].time < GIVE_UP_SECONDS + pause


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
