"""A prompt is sent again only when that is safe."""

from contextlib import suppress
from itertools import pairwise
from pathlib import Path

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
from cli_agent_orchestrator.handoff.handoff import (
    SendFailure,
    deliver,
    judge_failure,
)
from cli_agent_orchestrator.handoff.watch import TurnAgent, TurnReporter, TurnWatch
from tests.handoff.fakes import TERMINAL, FakeClock, Stage

NOT_REACHED = ApiUnreachable("http://localhost", "refused", maybe_received=False)
NO_ANSWER = ApiUnreachable("http://localhost", "timed out", maybe_received=True)
BUSY = ApiRefused("POST", "/input", 409, "the agent is busy")
BROKEN = ApiRefused("POST", "/input", 500, "oops")
UNKNOWN_TERMINAL = ApiRefused("POST", "/input", 404, "no terminal")

AGENT = TurnAgent(TERMINAL, "analyst")
MESSAGE = ("do it", "key-1")


@pytest.mark.parametrize(
    ("error", "plain", "with_keys"),
    [
        (NOT_REACHED, SendFailure.AGAIN, SendFailure.AGAIN),
        (NO_ANSWER, SendFailure.UNCERTAIN, SendFailure.AGAIN),
        (BROKEN, SendFailure.UNCERTAIN, SendFailure.AGAIN),
        (BUSY, SendFailure.BUSY, SendFailure.BUSY),
        (UNKNOWN_TERMINAL, SendFailure.FINAL, SendFailure.FINAL),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_second_attempt_needs_certainty_or_a_key(
    error: ApiError, plain: SendFailure, with_keys: SendFailure
) -> None:
    assert judge_failure(error, knows_keys=False) is plain
    assert judge_failure(error, knows_keys=True) is with_keys


class PatientWatch(TurnWatch):
    """A watch on whose turn nothing happens but that time passes."""

    pauses: list[float]
    time: FakeClock

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.time.time += seconds


class Post:
    """A message, its server and how time passes between attempts."""

    def __init__(self, folder: Path) -> None:
        stage = Stage(folder)
        self.clock, self.agents, self.events = stage.clock, stage.agents, stage.events
        reporter = TurnReporter(AGENT, self.events.append, self.clock)
        self.watch = PatientWatch(
            AGENT, self.agents, stage.files, lambda _: None, reporter, self.clock, 0.3
        )
        self.pauses = self.watch.pauses = []
        self.watch.time = self.clock

    def deliver(self, *, knows_keys: bool) -> Delivery:
        return deliver(self.watch, self.agents, self.clock, *MESSAGE, knows_keys)

    @property
    def statuses(self) -> list[TerminalStatus | None]:
        return [event.status for event in self.events if event.kind is EventKind.STATUS]

    @property
    def delays(self) -> list[tuple[float, str]]:
        """How long the delays that were told had lasted, and why."""
        return [
            (event.at - (event.since or 0), event.text)
            for event in self.events
            if event.kind is EventKind.DELAYED
        ]


@pytest.fixture
def post(tmp_path: Path) -> Post:
    return Post(tmp_path)


def test_a_message_is_sent_once_under_its_key(post: Post) -> None:
    result = post.deliver(knows_keys=True)
    assert result.confirmed
    assert [(sent.message, sent.key) for sent in post.agents.sent] == [("do it", "key-1")]
    assert post.pauses == []


def test_a_server_that_is_not_there_is_tried_again(post: Post) -> None:
    post.agents.refusals = [NOT_REACHED] * 3
    assert post.deliver(knows_keys=False).confirmed
    assert len(post.agents.sent) == 1
    assert post.pauses == [0.25, 0.5, 1]


def test_a_server_that_does_not_come_back_is_given_up_after_five_minutes(post: Post) -> None:
    post.agents.down = NOT_REACHED
    with pytest.raises(HandoffError) as raised:
        post.deliver(knows_keys=False)
    assert 300 <= sum(post.pauses) <= 310
    assert "the server does not answer\n  First: check that the server is" in str(raised.value)


def test_a_message_that_may_have_arrived_is_not_sent_again_without_keys(post: Post) -> None:
    post.agents.refusals = [NO_ANSWER]
    result = post.deliver(knows_keys=False)
    assert not result.confirmed
    assert "timed out" in result.detail
    assert post.agents.attempts == 1


def test_a_message_that_may_have_arrived_is_sent_again_under_the_same_key(post: Post) -> None:
    post.agents.refusals = [NO_ANSWER, BROKEN]
    assert post.deliver(knows_keys=True).confirmed
    assert post.agents.attempts == 3
    assert [sent.key for sent in post.agents.sent] == ["key-1"]


def test_a_server_of_ours_that_cannot_confirm_leaves_it_uncertain(post: Post) -> None:
    post.agents.delivery = Delivery(False, "no sign of it")
    assert not post.deliver(knows_keys=True).confirmed


def test_a_server_that_never_confirms_is_believed(post: Post) -> None:
    post.agents.delivery = Delivery(False, "does not say")
    assert post.deliver(knows_keys=False).confirmed


def test_a_busy_terminal_gets_it_when_it_is_free(post: Post) -> None:
    post.agents.status = TerminalStatus.PROCESSING
    post.agents.refusals = [BUSY] * 10
    assert post.deliver(knows_keys=False).confirmed
    assert max(post.pauses) == 2
    assert post.statuses == [TerminalStatus.PROCESSING]


def test_a_terminal_that_stays_busy_is_an_error_in_the_end(post: Post) -> None:
    post.agents.status = TerminalStatus.PROCESSING
    post.agents.refusals = [BUSY] * 1000
    with pytest.raises(HandoffError) as raised:
        post.deliver(knows_keys=True)
    assert 300 <= sum(post.pauses) <= 302
    assert str(raised.value).endswith(
        "the agent is busy\n  First: look at it with `cao attach a1b2c3d4`\n  Then:  cao resume"
    )
    assert "409" not in str(raised.value)


def test_a_delivery_that_takes_a_moment_is_not_worth_telling(post: Post) -> None:
    post.agents.refusals = [BUSY] * 3
    post.deliver(knows_keys=True)
    assert post.delays == []


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (BUSY, "the agent is busy; look at it with `cao attach a1b2c3d4`"),
        (NOT_REACHED, "the server does not answer; check that the server is running"),
        (BROKEN, "oops; check the server"),
    ],
)
def test_a_delayed_delivery_says_why_and_for_how_long_but_not_at_each_attempt(
    post: Post, error: ApiError, words: str
) -> None:
    post.agents.refusals = [error] * 60
    with suppress(HandoffError):
        post.deliver(knows_keys=True)
    waited = [seconds for seconds, _ in post.delays]
    assert 2 <= waited[0] < 4
    assert 3 <= len(waited) <= 6
    assert all(later >= 3 * sooner for sooner, later in pairwise(waited))
    assert all(words in text and "/input" not in text for _, text in post.delays)


def test_another_reason_for_a_delay_is_told_at_once(post: Post) -> None:
    post.agents.refusals = [*[BUSY] * 5, NOT_REACHED, NOT_REACHED]
    post.deliver(knows_keys=True)
    assert [text.split(";")[0] for _, text in post.delays] == [
        "the agent is busy",
        "the server does not answer",
    ]


def test_a_second_message_that_is_delayed_is_told_anew(post: Post) -> None:
    post.agents.refusals = [BUSY] * 30
    post.deliver(knows_keys=True)
    told = len(post.delays)
    post.agents.refusals = [BUSY] * 10
    post.deliver(knows_keys=True)
    assert len(post.delays) > told


def test_a_terminal_that_waits_for_a_person_is_waited_for(post: Post) -> None:
    post.agents.status = TerminalStatus.WAITING_USER_ANSWER
    post.agents.refusals = [BUSY] * 1000
    assert post.deliver(knows_keys=True).confirmed
    assert sum(post.pauses) > 1000
    assert post.delays == []


def test_a_busy_terminal_may_become_silent(post: Post) -> None:
    post.agents.refusals = [BUSY]
    post.agents.status_refusals = [NO_ANSWER]
    assert post.deliver(knows_keys=False).confirmed
    assert post.statuses == []


def test_a_terminal_in_error_takes_nothing(post: Post) -> None:
    post.agents.status = TerminalStatus.ERROR
    post.agents.refusals = [BUSY]
    with pytest.raises(HandoffError, match="error state"):
        post.deliver(knows_keys=True)


def test_an_agent_that_has_to_be_signed_in_ends_the_turn_at_once(post: Post) -> None:
    post.agents.refusals = [ApiRefused("POST", "/input", 422, "it asks: sign in")]
    with pytest.raises(TurnFailed, match="sign in") as failed:
        post.deliver(knows_keys=True)
    assert failed.value.to_resume == AGENT.resume_anew
    assert post.pauses == []


def test_a_terminal_that_is_not_there_is_an_error_at_once(post: Post) -> None:
    post.agents.refusals = [UNKNOWN_TERMINAL]
    with pytest.raises(ApiRefused, match="no terminal"):
        post.deliver(knows_keys=True)
    assert post.pauses == []
