"""A prompt is sent again only when that is safe."""

from itertools import pairwise

import pytest

from cli_agent_orchestrator.core.models import Delivery, TerminalStatus
from cli_agent_orchestrator.errors import (
    ApiError,
    ApiRefused,
    ApiUnreachable,
    HandoffError,
    TurnFailed,
)
from cli_agent_orchestrator.events import EventKind
from cli_agent_orchestrator.handoff.handoff import deliver
from cli_agent_orchestrator.handoff.watch import TurnAgent, TurnWatch
from tests.handoff.fakes import TERMINAL, Stage

NOT_REACHED = ApiUnreachable("http://localhost", "refused", maybe_received=False)
NO_ANSWER = ApiUnreachable("http://localhost", "timed out", maybe_received=True)
BUSY = ApiRefused("POST", "/input", 409, "the agent is busy")
BROKEN = ApiRefused("POST", "/input", 500, "oops")

AGENT = TurnAgent(TERMINAL, "analyst")


def post(stage: Stage, *, knows_keys: bool = True) -> Delivery:
    """Deliver a message while nothing happens but that time passes."""
    watch = TurnWatch(
        AGENT,
        stage.agents,
        stage.files,
        lambda until: stage.mailbox.wait(until - stage.clock.time),
        stage.events.append,
        stage.clock,
        0.3,
    )
    return deliver(watch, stage.agents, stage.clock, "do it", "key-1", knows_keys)


def delays(stage: Stage) -> list[tuple[float, str]]:
    """Return how long the delays that were told had lasted, and why."""
    return [
        (event.at - (event.since or 0), event.text)
        for event in stage.events
        if event.kind is EventKind.DELAYED
    ]


@pytest.mark.parametrize(
    ("error", "after", "asked"), [(NOT_REACHED, 35.75, 0), (BUSY, 11.75, 8)], ids=["away", "busy"]
)
def test_where_it_did_not_arrive_it_is_sent_again_ever_later(
    stage: Stage, error: ApiError, after: float, asked: int
) -> None:
    stage.agents.refusals = [error] * 8
    assert post(stage, knows_keys=False).confirmed
    assert len(stage.agents.sent) == 1
    assert (stage.elapsed, stage.agents.asked) == (after, asked)


@pytest.mark.parametrize("error", [NO_ANSWER, BROKEN])
def test_a_message_that_may_have_arrived_is_not_sent_again_without_keys(
    stage: Stage, error: ApiError
) -> None:
    stage.agents.refusals = [error]
    result = post(stage, knows_keys=False)
    assert (result.confirmed, result.detail) == (False, str(error))
    assert stage.agents.attempts == 1


def test_a_message_that_may_have_arrived_is_sent_again_under_the_same_key(stage: Stage) -> None:
    stage.agents.refusals = [NO_ANSWER, BROKEN]
    assert post(stage).confirmed
    assert stage.agents.attempts == 3
    assert [sent.key for sent in stage.agents.sent] == ["key-1"]


@pytest.mark.parametrize(
    ("error", "why", "remedy"),
    [
        (BUSY, "the agent is busy", "look at it with `cao attach a1b2c3d4`"),
        (NOT_REACHED, "the server does not answer", "check that the server is running"),
        (BROKEN, "oops", "check the server"),
    ],
    ids=["busy", "away", "broken"],
)
def test_it_is_given_up_after_five_minutes_and_the_delay_is_told_now_and_then(
    stage: Stage, error: ApiError, why: str, remedy: str
) -> None:
    stage.agents.status = TerminalStatus.PROCESSING
    stage.agents.refusals = [error] * 1000
    with pytest.raises(HandoffError) as raised:
        post(stage)
    assert 300 <= stage.elapsed <= 310
    assert f"{why}\n  First: {remedy}" in str(raised.value)
    assert str(raised.value).endswith("\n  Then:  cao resume")
    waited = [seconds for seconds, _ in delays(stage)]
    assert 2 <= waited[0] < 4
    assert 3 <= len(waited) <= 6
    assert all(later >= 3 * sooner for sooner, later in pairwise(waited))
    assert all(text.startswith(f"{why}; {remedy}") for _, text in delays(stage))


@pytest.mark.parametrize("status", [TerminalStatus.IDLE, TerminalStatus.UNKNOWN])
def test_an_agent_that_refuses_at_rest_while_nothing_changes_stops_the_run(
    stage: Stage, status: TerminalStatus
) -> None:
    stage.agents.status = status
    stage.agents.refusals = [BUSY] * 1000
    with pytest.raises(HandoffError, match="the agent is busy"):
        post(stage)
    assert 30 <= stage.elapsed <= 33
    # What it refuses for changes: a person types.
    typed = [ApiRefused("POST", "/input", 409, f"there is text: {n}") for n in range(1000)]
    stage.agents.refusals = [*typed]
    began = stage.elapsed
    with pytest.raises(HandoffError, match="there is text"):
        post(stage)
    assert stage.elapsed - began >= 300


def test_a_terminal_that_waits_for_a_person_is_waited_for(stage: Stage) -> None:
    stage.agents.status = TerminalStatus.WAITING_USER_ANSWER
    stage.agents.refusals = [BUSY] * 1000
    assert post(stage).confirmed
    assert stage.elapsed > 1000
    assert delays(stage) == []


def test_a_busy_terminal_may_become_silent(stage: Stage) -> None:
    stage.agents.refusals = [BUSY]
    stage.agents.status_refusals = [NO_ANSWER]
    assert post(stage).confirmed
    assert stage.statuses() == []


def test_a_terminal_in_error_takes_nothing(stage: Stage) -> None:
    stage.agents.status = TerminalStatus.ERROR
    stage.agents.refusals = [BUSY]
    with pytest.raises(HandoffError, match="error state"):
        post(stage)


def test_what_time_does_not_heal_is_an_error_at_once(stage: Stage) -> None:
    stage.agents.refusals = [
        ApiRefused("POST", "/input", 422, "it asks: sign in"),
        ApiRefused("POST", "/input", 404, "no terminal"),
    ]
    with pytest.raises(TurnFailed, match="sign in") as failed:
        post(stage)
    assert failed.value.to_resume == AGENT.resume_anew
    with pytest.raises(ApiRefused, match="no terminal"):
        post(stage)
    assert stage.elapsed == 0
