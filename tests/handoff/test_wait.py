"""The rules of the wait, one by one."""

from dataclasses import replace

import pytest

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.handoff.wait import (
    Accept,
    Action,
    Fail,
    FallBackToOutput,
    FileMissing,
    FolderLost,
    GiveUp,
    KeepWaiting,
    Observation,
    TimeOut,
    Wait,
    advance,
    file_missing_in,
)
from cli_agent_orchestrator.settings.config import HandoffRules

IDLE = TerminalStatus.IDLE
COMPLETED = TerminalStatus.COMPLETED
PROCESSING = TerminalStatus.PROCESSING
WAITING = TerminalStatus.WAITING_USER_ANSWER
UNKNOWN = TerminalStatus.UNKNOWN
ERROR = TerminalStatus.ERROR

RULES = HandoffRules(poll_seconds=2, response_timeout=100, idle_grace=30, strict=True)

Seen = tuple[float, TerminalStatus | None] | tuple[float, TerminalStatus | None, str]


def after(*seen: Seen, rules: HandoffRules = RULES) -> tuple[Wait, Action]:
    """Return what comes of a row of observations; all but the last must mean to look again."""
    wait = Wait.begin(0, rules)
    action: Action = KeepWaiting(0)
    for time, status, *response in seen:
        assert isinstance(action, KeepWaiting), f"the wait was over before {time}"
        wait, action = advance(wait, Observation(time, status, *response or (None,)), rules)
    return wait, action


def test_an_error_fails_even_if_the_file_is_there() -> None:
    _, action = after((1, ERROR, "text"))
    assert isinstance(action, Fail)


@pytest.mark.parametrize("status", [IDLE, COMPLETED])
def test_a_file_at_rest_is_accepted_at_the_first_look(status: TerminalStatus) -> None:
    assert after((0, status, "text"))[1] == Accept("text")


@pytest.mark.parametrize("status", [PROCESSING, WAITING, UNKNOWN, None])
def test_a_file_is_not_accepted_before_the_agent_is_at_rest(status: TerminalStatus | None) -> None:
    assert isinstance(after((1, status, "text"))[1], KeepWaiting)


def test_a_file_is_accepted_even_after_the_timeout_if_the_agent_came_to_rest() -> None:
    assert after((1, PROCESSING), (150, IDLE, "text"))[1] == Accept("text")


def without_folder(status: TerminalStatus | None, response: str | None = None) -> Action:
    seen = Observation(1, status, response, folder_gone=True)
    return advance(Wait.begin(0, RULES, old_error=True), seen, RULES)[1]


@pytest.mark.parametrize("status", [IDLE, COMPLETED, ERROR])
def test_the_turn_of_an_agent_whose_folder_is_gone_ends_at_once(status: TerminalStatus) -> None:
    assert without_folder(status) == FolderLost()


@pytest.mark.parametrize("status", [PROCESSING, WAITING, UNKNOWN, None])
def test_but_not_before_it_is_at_rest(status: TerminalStatus | None) -> None:
    assert isinstance(without_folder(status), KeepWaiting)


def test_nor_if_its_response_was_read_before_that() -> None:
    assert without_folder(IDLE, "text") == Accept("text")


def test_the_next_look_is_at_most_one_poll_away() -> None:
    assert after((10, PROCESSING))[1] == KeepWaiting(12)
    assert after((10, IDLE))[1] == KeepWaiting(12)
    assert after((10, WAITING))[1] == KeepWaiting(12)


@pytest.mark.parametrize(
    ("seen", "by"),
    [
        ([(29.0, IDLE)], 30),
        ([(1.0, PROCESSING), (5.0, IDLE), (34.0, IDLE)], 35),
        ([(99.0, PROCESSING)], 100),
    ],
    ids=["guard", "grace", "timeout"],
)
def test_the_next_look_is_no_later_than_what_it_is_for(seen: list[Seen], by: float) -> None:
    assert after(*seen)[1] == KeepWaiting(by)


def test_looking_without_a_pause_is_not_possible() -> None:
    action = after((10, PROCESSING), rules=replace(RULES, poll_seconds=0))[1]
    assert isinstance(action, KeepWaiting)
    assert action.by > 10


def test_the_guard_is_released_once_and_with_a_warning() -> None:
    wait, action = after((0, IDLE), (30, IDLE))
    assert isinstance(action, KeepWaiting)
    assert action.warning
    assert wait.released
    assert not wait.started
    assert after((0, IDLE), (30, IDLE), (31, IDLE))[1] == KeepWaiting(33)


def test_the_grace_begins_when_the_guard_is_released() -> None:
    assert after((0, IDLE), (30, IDLE), (59.9, IDLE))[1] == KeepWaiting(60)
    assert after((0, IDLE), (30, IDLE), (60, IDLE))[1] == FileMissing(30)


def test_without_strictness_the_output_does() -> None:
    rules = replace(RULES, strict=False)
    assert after((1, PROCESSING), (2, IDLE), (32, IDLE), rules=rules)[1] == FallBackToOutput()


def test_idle_and_completed_are_one_rest() -> None:
    assert after((1, PROCESSING), (2, IDLE), (20, COMPLETED), (32, IDLE))[1] == FileMissing(30)


@pytest.mark.parametrize("status", [PROCESSING, WAITING, UNKNOWN])
def test_every_other_status_starts_the_grace_again(status: TerminalStatus) -> None:
    assert after((1, PROCESSING), (2, IDLE), (31, status), (32, IDLE))[1] == KeepWaiting(34)


@pytest.mark.parametrize("status", [PROCESSING, WAITING, UNKNOWN])
def test_every_status_but_rest_shows_that_the_agent_has_begun(status: TerminalStatus) -> None:
    assert after((1, status), (2, IDLE), (32, IDLE))[1] == FileMissing(30)


@pytest.mark.parametrize("status", [PROCESSING, UNKNOWN])
def test_an_agent_not_at_rest_times_out(status: TerminalStatus) -> None:
    assert after((1, PROCESSING), (100, status))[1] == TimeOut(100)


def test_an_agent_at_rest_has_its_grace_even_beyond_the_timeout() -> None:
    assert after((1, PROCESSING), (90, IDLE), (110, IDLE))[1] == KeepWaiting(112)
    assert after((1, PROCESSING), (90, IDLE), (120, IDLE))[1] == FileMissing(30)


def test_a_person_may_take_any_time() -> None:
    assert after((1, PROCESSING), (10, WAITING), (100_000, WAITING))[1] == KeepWaiting(100_002)


def test_the_time_a_person_takes_does_not_count() -> None:
    answered: list[Seen] = [(10, PROCESSING), (20, WAITING), (520, PROCESSING)]
    assert after(*answered, (599, PROCESSING))[1] == KeepWaiting(600)
    assert after(*answered, (600, PROCESSING))[1] == TimeOut(100)


def test_a_question_goes_on_while_the_server_is_silent() -> None:
    silent: list[Seen] = [(20, WAITING), (30, None), (60, None), (120, PROCESSING)]
    assert after(*silent, (199, PROCESSING))[1] == KeepWaiting(200)
    assert after(*silent, (200, PROCESSING))[1] == TimeOut(100)


def test_without_an_answer_it_asks_again_ever_later() -> None:
    assert after((10, None))[1] == KeepWaiting(10.25)
    assert after((10, None), (10.25, None))[1] == KeepWaiting(10.75)
    assert after((10, None), (10.25, PROCESSING), (12, None))[1] == KeepWaiting(12.25)


def test_five_minutes_without_an_answer_are_enough() -> None:
    assert after((10, None), (309, None))[1] == KeepWaiting(309.5)
    assert after((10, None), (309.9, None))[1] == KeepWaiting(310)
    assert after((10, None), (310, None))[1] == GiveUp(300)


def test_an_answer_begins_the_five_minutes_anew() -> None:
    assert after((10, None), (50, PROCESSING), (52, None), (320, None))[1] == KeepWaiting(320.5)


def test_time_without_an_answer_is_not_rest() -> None:
    away: list[Seen] = [(1, PROCESSING), (2, IDLE), (4, None), (64, IDLE)]
    assert after(*away)[1] == KeepWaiting(66)
    assert after(*away, (91.9, IDLE))[1] == KeepWaiting(92)
    assert after(*away, (92, IDLE))[1] == FileMissing(30)


def test_silence_shows_nothing_about_the_agent() -> None:
    wait, action = after((1, None), (40, IDLE))
    assert not wait.started
    assert isinstance(action, KeepWaiting)
    assert action.warning


def test_no_grace_at_all_misses_the_file_at_once() -> None:
    rules = replace(RULES, idle_grace=0)
    assert after((1, PROCESSING), (2, IDLE), rules=rules)[1] == FileMissing(0)


def test_the_same_observation_twice_gives_the_same_answer() -> None:
    wait = Wait.begin(0, RULES)
    seen = Observation(5, IDLE, None)
    assert advance(wait, seen, RULES) == advance(wait, seen, RULES)


class TestAPromptForAnAgentThatHadFailed:
    """Its error is the old one until it was seen to do something, or the grace is over."""

    def after(self, *seen: Seen) -> Action:
        wait = Wait.begin(0, RULES, old_error=True)
        action: Action = KeepWaiting(0)
        for time, status, *_ in seen:
            assert isinstance(action, KeepWaiting), f"the wait was over before {time}"
            wait, action = advance(wait, Observation(time, status, None), RULES)
        return action

    def test_the_old_error_is_looked_at_again_until_the_grace_is_over(self) -> None:
        assert self.after((10, ERROR)) == KeepWaiting(12)
        assert self.after((29, ERROR)) == KeepWaiting(30)

    def test_an_error_that_outlasts_the_grace_counts(self) -> None:
        assert isinstance(self.after((10, ERROR), (30, ERROR)), Fail)

    def test_an_error_after_any_work_is_a_new_one(self) -> None:
        assert isinstance(self.after((1, ERROR), (2, PROCESSING), (3, ERROR)), Fail)


@pytest.mark.parametrize(
    ("seen", "left"),
    [
        ([(1, PROCESSING)], None),
        ([(1, PROCESSING), (2, IDLE)], None),
        ([(1, PROCESSING), (2, IDLE), (7, IDLE)], 25),
        ([(1, PROCESSING), (2, IDLE), (7, IDLE), (8, None)], None),
        ([(1, PROCESSING), (2, IDLE), (7, IDLE), (8, PROCESSING)], None),
        ([(1, IDLE), (7, IDLE)], None),
    ],
)
def test_it_is_known_when_a_file_will_count_as_missing(seen: list[Seen], left: int | None) -> None:
    assert file_missing_in(after(*seen)[0], RULES) == left
