"""Events folded into the picture of a run."""

from dataclasses import replace
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.cli.picture import (
    MOST_REASONS,
    Doing,
    OpenQuestion,
    Picture,
    fold,
)
from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.events import (
    CheckBegan,
    CheckEnded,
    CheckOutput,
    EventKind,
    PauseAsked,
    Paused,
    RunEnded,
    RunEvent,
    RunOpened,
    ServerChosen,
    SettingChanged,
    Unpaused,
    Warned,
)
from tests.cli.run_events import (
    BEGAN,
    NOON,
    OPENED,
    PROVIDERS,
    RUN,
    STARTING,
    a_whole_run,
    ended,
    events,
    handoff,
    started,
    status,
    turn,
)


def seen(*happened: RunEvent) -> Picture:
    return reduce(fold, happened, Picture())


def doing(picture: Picture, role: str = "programmer") -> Doing:
    agent = picture.agent(role)
    assert agent is not None
    return agent.doing


WORKING = seen(OPENED, BEGAN, turn("programmer"))
ASKS = handoff(EventKind.WAITING_FOR_PERSON, "cao attach x", TerminalStatus.WAITING_USER_ANSWER)


def test_agents_that_are_started_are_counted() -> None:
    picture = seen(OPENED, STARTING, started("tester"), started("analyst"))
    assert (picture.started, len(picture.starting)) == (2, 5)
    assert doing(picture, "tester") is Doing.READY
    assert doing(picture, "programmer") is Doing.STARTING
    assert [agent.role for agent in picture.agents] == list(PROVIDERS)


def test_a_run_that_has_begun_starts_nobody_and_knows_its_rounds() -> None:
    picture = seen(OPENED, STARTING, started("tester"), BEGAN)
    assert picture.starting == ()
    assert {agent.doing for agent in picture.agents} == {Doing.READY}
    assert [agent.terminal_id for agent in picture.agents][-1] == "t-tester"
    assert (picture.max_rounds, picture.run) == (8, RUN)


def test_rounds_that_a_person_changes_are_known() -> None:
    picture = seen(OPENED, BEGAN, SettingChanged(NOON, "MAX_ROUNDS", "12", "8"))
    assert picture.max_rounds == 12
    assert fold(picture, SettingChanged(NOON, "MAX_FEEDBACK_LINES", "9", "30")).max_rounds == 12
    assert fold(picture, SettingChanged(NOON, "MAX_ROUNDS", "many", "12")).max_rounds == 12


def test_a_turn_says_who_where_and_since_when() -> None:
    picture = seen(OPENED, BEGAN, turn("analyst", 2, 3))
    assert (picture.present, picture.round, picture.cycle) == ("analyst", 2, 3)
    agent = picture.agent("analyst")
    assert agent is not None
    assert (agent.doing, agent.since) == (Doing.SENDING, NOON + 10)


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        (TerminalStatus.PROCESSING, Doing.WORKING),
        (TerminalStatus.IDLE, Doing.RESTING),
        (TerminalStatus.COMPLETED, Doing.RESTING),
        (TerminalStatus.WAITING_USER_ANSWER, Doing.ASKING),
        (TerminalStatus.ERROR, Doing.FAILING),
        (TerminalStatus.UNKNOWN, Doing.UNKNOWN),
    ],
)
def test_the_present_agent_does_what_its_status_says(told: TerminalStatus, shown: Doing) -> None:
    assert doing(fold(WORKING, status(told))) is shown


def test_what_is_told_of_others_is_not_the_present_agents() -> None:
    told = fold(WORKING, status(TerminalStatus.ERROR, "tester"))
    assert replace(told, last=WORKING.last) == WORKING


def test_an_ended_turn_leaves_outcome_and_time_and_nobody_at_work() -> None:
    picture = fold(WORKING, ended("programmer", "delivered", "summary received"))
    agent = picture.agent("programmer")
    assert agent is not None
    assert (agent.doing, agent.outcome, agent.worked) == (Doing.DONE, "delivered", 75.0)
    assert (picture.present, picture.reasons) == ("", ())


def test_a_new_round_begins_with_agents_that_are_ready() -> None:
    done: list[RunEvent] = [turn("tester"), ended("tester", "failed")]
    assert doing(seen(OPENED, BEGAN, *done, turn("analyst")), "tester") is Doing.DONE
    assert doing(seen(OPENED, BEGAN, *done, turn("analyst", 2)), "tester") is Doing.READY


def test_an_agent_whose_turn_was_left_is_ready_again() -> None:
    assert doing(fold(WORKING, turn("tester"))) is Doing.READY
    assert doing(fold(WORKING, RunEnded(NOON, "RUNNING", 1, 130))) is Doing.READY


@pytest.mark.parametrize("outcome", ["sent_back", "cycles_used_up", "failed", "rounds_used_up"])
def test_what_led_to_more_work_is_kept_with_its_reason(outcome: str) -> None:
    picture = seen(OPENED, BEGAN, ended("analyst_review", outcome, "REVISE", "No tests"))
    (reason,) = picture.reasons
    assert reason.startswith("1.1 analyst_review ")
    assert reason.endswith(": No tests")


def test_a_tester_that_fails_has_no_cycle() -> None:
    assert seen(OPENED, BEGAN, ended("tester", "failed", "FAIL")).reasons == (
        "round 1, tester FAIL",
    )


def test_reasons_do_not_grow_without_end() -> None:
    picture = seen(*[ended("tester", "failed", str(n)) for n in range(MOST_REASONS + 3)])
    assert len(picture.reasons) == MOST_REASONS
    assert picture.reasons[-1].endswith(f" {MOST_REASONS + 2}")


def test_a_gate_is_shown_as_a_command_with_what_it_runs() -> None:
    began = CheckBegan(NOON + 30, "gate", 2, 9, "make test")
    picture = seen(OPENED, BEGAN, began)
    assert (picture.present, picture.action, picture.round) == ("gate", "make test", 2)
    assert picture.agents[-1].provider == "command"
    assert doing(picture, "gate") is Doing.WORKING
    picture = fold(picture, CheckOutput(NOON + 31, "other", 2, 8, "nothing"))
    assert picture.action == "make test"
    picture = fold(picture, CheckOutput(NOON + 31, "gate", 2, 9, "3 of 7"))
    assert picture.action == "3 of 7"
    over = fold(picture, CheckEnded(NOON, "gate", 2, 9, "failed", "FAIL: exit code 1", 7.0, "x"))
    assert (over.present, over.action) == ("", "")
    assert over.reasons == ("round 2, gate FAIL: exit code 1",)


def test_a_delay_lasts_until_something_else_happens() -> None:
    delayed = replace(handoff(EventKind.DELAYED, "busy"), since=NOON)
    picture = fold(fold(WORKING, delayed), status(TerminalStatus.PROCESSING))
    assert picture.delay == (NOON, "busy")
    assert fold(picture, handoff(EventKind.DISPATCHED)).delay is None


def test_a_question_is_there_until_the_agent_does_something_else() -> None:
    asked = fold(WORKING, ASKS)
    assert asked.question == OpenQuestion(NOON + 20, "cao attach x")
    assert doing(asked) is Doing.ASKING
    still = fold(asked, status(TerminalStatus.WAITING_USER_ANSWER))
    assert still.question == asked.question
    assert fold(still, status(TerminalStatus.PROCESSING)).question is None


def test_what_the_agent_does_is_shown_until_its_turn_is_over() -> None:
    acts = fold(WORKING, handoff(EventKind.ACTION, "Bash: make test"))
    assert acts.action == "Bash: make test"
    assert fold(acts, handoff(EventKind.ACTION, "")).action == ""
    assert fold(acts, ended("programmer", "delivered")).action == ""


def test_a_missing_file_is_counted_down_until_the_agent_works_or_the_file_comes() -> None:
    awaited = replace(handoff(EventKind.FILE_AWAITED, "the run stops"), until=NOON + 50)
    waits = fold(WORKING, awaited)
    assert waits.countdown == (NOON + 50, "the run stops")
    assert fold(waits, status(TerminalStatus.COMPLETED)).countdown == waits.countdown
    for over in (
        status(TerminalStatus.PROCESSING),
        handoff(EventKind.FILE_SEEN),
        handoff(EventKind.REMINDED),
        ended("programmer", "delivered"),
    ):
        assert fold(waits, over).countdown is None
    assert fold(WORKING, replace(awaited, until=None)).countdown is None


def test_a_pause_is_there_until_it_is_lifted_or_a_turn_begins() -> None:
    paused = seen(OPENED, BEGAN, Paused(NOON + 9))
    assert paused.paused == NOON + 9
    assert fold(paused, Unpaused(NOON + 10)).paused is None
    assert fold(paused, turn("tester")).paused is None


def test_a_pause_is_asked_for_before_it_begins() -> None:
    asked = fold(WORKING, PauseAsked(NOON + 30))
    assert (asked.pausing, asked.paused) == (True, None)
    paused = fold(asked, Paused(NOON + 40))
    assert (paused.pausing, paused.paused) == (False, NOON + 40)
    lifted = fold(fold(asked, Unpaused(NOON + 35)), turn("tester"))
    assert (lifted.pausing, lifted.paused) == (False, None)


def test_a_server_that_was_named_is_named_in_commands() -> None:
    chosen = ServerChosen(NOON, "http://localhost:1", "named", named=True)
    assert seen(OPENED, chosen).attach_prefix == "CAO_API=http://localhost:1 "
    assert seen(OPENED, replace(chosen, named=False)).attach_prefix == ""


def test_a_resumed_run_keeps_its_reasons_and_counts_on() -> None:
    before = [*a_whole_run(), RunEnded(NOON + 100, "RUNNING", 1, 130)]
    picture = seen(*before, RunOpened(NOON + 5000, RUN, "/p", resumed=True))
    assert len(picture.reasons) == 1
    assert (picture.final_status, picture.present) == ("", "")
    finished = {agent.role for agent in seen(*before).agents if agent.doing is Doing.DONE}
    picture = fold(picture, replace(BEGAN, resumed=True))
    assert {agent.role for agent in picture.agents if agent.doing is Doing.DONE} == finished
    assert picture.total(NOON + 5010) == 110.0


def test_a_killed_run_that_is_resumed_counts_to_the_last_that_was_told() -> None:
    picture = seen(
        OPENED, Warned(NOON + 40, "odd"), RunOpened(NOON + 5000, RUN, "/p", resumed=True)
    )
    assert picture.total(NOON + 5000) == 40.0


def test_the_time_counts_from_the_first_event_if_no_beginning_was_told() -> None:
    assert seen(BEGAN).total(NOON + 8) == 3.0
    assert Picture().total(NOON) == 0.0


@given(st.lists(events, max_size=12))
def test_any_events_in_any_order_make_a_picture(happened: list[RunEvent]) -> None:
    picture = seen(*happened)
    roles = [agent.role for agent in picture.agents]
    assert len(roles) == len(set(roles))
    assert picture.started <= len(picture.starting)
    assert picture.present == "" or picture.present in roles
    assert picture.total(NOON) >= 0
    if not picture.present:
        assert (picture.action, picture.delay, picture.question) == ("", None, None)


def test_an_approval_that_comes_too_early_speaks_against_nothing() -> None:
    early = replace(ended("analyst_review", "sent_back", "REVISE", ""), early=True)
    picture = seen(OPENED, BEGAN, turn("analyst_review"), early)
    agent = picture.agent("analyst_review")
    assert agent is not None
    assert (agent.outcome, picture.reasons) == ("approved, second look follows", ())
