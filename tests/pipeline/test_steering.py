"""How a request is written and read, what it changes in a run, and what is told of it."""

import json

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.events import (
    AskDeclined,
    HintTaken,
    PauseAsked,
    QuestionAnswered,
    ReviewSkipped,
    SettingChanged,
    Steered,
    StopAsked,
    Unpaused,
)
from cli_agent_orchestrator.pipeline.machine import Done, next_step, record_reply
from cli_agent_orchestrator.pipeline.machine import Pause as PauseStep
from cli_agent_orchestrator.pipeline.reply import Output
from cli_agent_orchestrator.pipeline.requests import (
    LARGEST_HINT,
    LARGEST_WORD,
    Answered,
    Hint,
    Pause,
    Request,
    SentRequest,
    Set,
    Skip,
    Stop,
    Unpause,
    read_line,
    read_lines,
    to_line,
)
from cli_agent_orchestrator.pipeline.state import (
    MOST_ACTS,
    MOST_HINTS,
    Dispatch,
    FinalStatus,
    KeptHint,
    RunState,
    Turn,
    drop_hints,
    hints_for,
    note_act,
)
from cli_agent_orchestrator.pipeline.steering import (
    NO_REVIEW,
    PAUSED_ALREADY,
    PAUSES_ALREADY,
    TOO_OLD,
    grant,
)
from cli_agent_orchestrator.settings.config import LoopRules
from cli_agent_orchestrator.settings.table import CHANGEABLE_NAMES
from tests.pipeline.samples import new_state

AT = 50.0


def asked(wanted: Request, at: float = 40.0) -> SentRequest:
    return SentRequest("ask-1", at, wanted)


def reviewing() -> RunState:
    """Return a run in which the analysis is to be reviewed."""
    state = new_state()
    turn = next_step(state)
    assert isinstance(turn, Turn)
    state, _ = record_reply(state, turn, Output("an analysis"), LoopRules())
    return state


def acts(state: RunState) -> list[str]:
    return [act.words for act in state.progress.acts]


def declined(state: RunState, wanted: Request, why: str, since: float = 0.0) -> None:
    after, event = grant(state, asked(wanted), AT, since)
    assert after == state
    assert isinstance(event, AskDeclined)
    assert why in event.text
    assert event.ask == "ask-1"


class TestPause:
    def test_it_holds_before_the_next_step_until_it_is_lifted(self) -> None:
        after, event = grant(new_state(), asked(Pause()), AT)
        assert event == PauseAsked(AT, "ask-1")
        assert next_step(after) == PauseStep()
        lifted, event = grant(after, asked(Unpause()), AT)
        assert event == Unpaused(AT, "ask-1")
        assert next_step(lifted) == next_step(new_state())
        assert acts(lifted) == ["pause after the present turn", "resumed"]
        declined(lifted, Unpause(), "the run is not paused")

    def test_two_are_one(self) -> None:
        declined(new_state().progressed(paused=True), Pause(), PAUSES_ALREADY)
        after, event = grant(new_state().progressed(paused=True), asked(Pause()), AT, holding=True)
        assert after == new_state().progressed(paused=True)
        assert event == AskDeclined(AT, "pause", PAUSED_ALREADY, "ask-1")


class TestHint:
    @pytest.mark.parametrize("role", ["analyst", "tester"])
    def test_it_waits_for_the_next_prompt_of_its_role(self, role: str) -> None:
        after, event = grant(new_state(), asked(Hint(role, "Mind the tabs.")), AT)
        assert event == HintTaken(AT, role, "Mind the tabs.", "ask-1")
        assert [hint.text for hint in hints_for(after, role)] == ["Mind the tabs."]
        assert hints_for(after, "programmer") == ()
        assert drop_hints(after, "programmer") == after
        assert hints_for(drop_hints(after, role), role) == ()
        assert acts(after) == [f"hint for {role}: Mind the tabs."]

    def test_without_a_role_it_is_for_whoever_is_next(self) -> None:
        after, _ = grant(new_state(), asked(Hint(None, "x")), AT)
        assert hints_for(after, "tester") == hints_for(after, "analyst") != ()
        assert drop_hints(after, "tester").progress.hints == ()
        assert acts(after) == ["hint for the next prompt: x"]

    def test_where_it_is_told_of_it_is_one_short_line(self) -> None:
        after, event = grant(new_state(), asked(Hint(None, "a\nPASS after 1 round\n" * 99)), AT)
        assert isinstance(event, HintTaken)
        assert len(event.words) < 250
        assert "\n" not in event.words
        assert acts(after) == [event.words]
        assert after.progress.hints[0].text.count("\n") == 198

    def test_the_flow_must_have_the_role(self) -> None:
        declined(new_state(), Hint("gardener", "x"), "analyst, analyst_review")

    def test_there_may_be_so_many_and_no_more(self) -> None:
        state = new_state()
        for number in range(MOST_HINTS):
            state, event = grant(state, asked(Hint(None, str(number))), AT)
            assert isinstance(event, HintTaken)
        declined(state, Hint("tester", "one more"), f"{MOST_HINTS} hints")


def test_a_setting_is_changed_and_what_it_was_is_told() -> None:
    after, event = grant(new_state(), asked(Set("max-rounds", "012")), AT)
    assert event == SettingChanged(AT, "MAX_ROUNDS", "12", "8", "ask-1")
    assert after.progress.settings["MAX_ROUNDS"] == "12"
    again, event = grant(after, asked(Set("CAO_MAX_ROUNDS", "3")), AT)
    assert event == SettingChanged(AT, "MAX_ROUNDS", "3", "12", "ask-1")
    assert acts(again) == ["max_rounds is 12 now; it was 8", "max_rounds is 3 now; it was 12"]


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("gate", "1", "max_rounds"),
        ("x", "1", "max_rounds"),
        ("max_rounds", "0", "whole number of at least 1"),
    ],
)
def test_another_setting_and_a_bad_value_are_declined(name: str, value: str, why: str) -> None:
    declined(new_state(), Set(name, value), why)


def test_nothing_that_runs_a_command_or_names_a_place_can_change() -> None:
    harmful = {"GATES", "WORKSPACE", "WORKTREE_SETUP", "WD", "STATE_FILE", "API"}
    assert (harmful | {"AGENT_PERMISSIONS", "PROJECT_TEST_CMD"}).isdisjoint(CHANGEABLE_NAMES)


REVIEW = Turn("analyst_review", 1, 1)


@pytest.mark.parametrize(
    ("wanted", "event", "due"),
    [
        (Stop(), StopAsked(AT, "ask-1"), REVIEW),
        (Answered("programmer", "Yes"), QuestionAnswered(AT, "programmer", "Yes", "ask-1"), REVIEW),
        (Hint(None, "x"), HintTaken(AT, "", "x", "ask-1"), REVIEW),
        (Set("max_rounds", "3"), SettingChanged(AT, "MAX_ROUNDS", "3", "8", "ask-1"), REVIEW),
        (
            Skip(),
            ReviewSkipped(AT, "analyst_review", 1, 1, "ask-1", "a2"),
            Turn("programmer", 1, 1, True),
        ),
    ],
)
def test_a_request_is_reported_and_remembered_and_what_waits_for_it_outlasts_a_crash(
    wanted: Request, event: Steered, due: Turn
) -> None:
    after, told = grant(reviewing(), asked(wanted), AT)
    assert (told, next_step(after)) == (event, due)
    assert acts(after) == [event.words]
    if isinstance(wanted, Stop | Skip):
        declined(reviewing(), wanted, TOO_OLD, since=40.5)
    else:
        assert grant(reviewing(), asked(wanted), AT, since=40.5) == (after, event)


class TestSkip:
    @pytest.mark.parametrize(
        ("role", "number", "cycle"),
        [("analyst_review", 1, 2), ("analyst_review", 2, 1), ("programmer_review", 1, 1)],
    )
    def test_no_other_review_is_skipped_than_the_one_that_is_meant(
        self, role: str, number: int, cycle: int
    ) -> None:
        why = f"the review of round {number}, cycle {cycle} by {role} is over; nothing was skipped"
        for state in (reviewing(), new_state()):
            declined(state, Skip(role, number, cycle), why)

    @pytest.mark.parametrize(("cycle", "told"), [(1, ["told", "waits"]), (2, ["waits"])])
    def test_the_hints_of_its_prompt_wait_again(self, cycle: int, told: list[str]) -> None:
        sent = Dispatch(
            Turn("analyst_review", 1, cycle, True), "d", 2, hints=(KeptHint("", "told"),)
        )
        state, waiting = reviewing(), (KeptHint("", "waits"),)
        state = state.progressed(in_flight=sent, hints=waiting)
        after, _ = grant(state, asked(Skip()), AT)
        assert [hint.text for hint in hints_for(after, "programmer")] == told

    def test_without_a_review_nothing_is_skipped(self) -> None:
        declined(new_state(), Skip(), NO_REVIEW)
        over = replace(new_state(), final_status=FinalStatus.PASS)
        assert next_step(over) == Done(FinalStatus.PASS)
        declined(over, Skip(), NO_REVIEW)


@pytest.mark.parametrize("wanted", [Pause(), Unpause()])
def test_a_pause_for_an_earlier_moment_does_not_count_after_a_resume(wanted: Request) -> None:
    declined(new_state().progressed(paused=True), wanted, TOO_OLD, since=40.5)


def test_of_many_acts_the_last_are_remembered() -> None:
    state = new_state()
    for number in range(MOST_ACTS + 3):
        state = note_act(state, AT, str(number))
    assert len(state.progress.acts) == MOST_ACTS
    assert acts(state)[-1] == str(MOST_ACTS + 2)


GOOD = SentRequest("a1", 12.5, Pause())
LINE = to_line(GOOD).encode() + b"\n"


def data_of(ask: SentRequest, **changes: object) -> str:
    return json.dumps({**json.loads(to_line(ask)), **changes})


@pytest.mark.parametrize(
    "wanted",
    [
        *(Pause(), Unpause(), Stop(), Skip(), Skip("tester", 1, 99), Set("max_rounds", "3")),
        *(Hint(None, "é\n\u2028"), Hint("tester", "x"), Answered("tester", "Yes")),
    ],
)
def test_what_is_written_is_read(wanted: Request) -> None:
    ask = asked(wanted)
    assert read_line(to_line(ask)) == ask
    assert "\n" not in to_line(ask)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{" * 100_000,
        b'{"do": "pause"}',
        data_of(GOOD, do="explode"),
        data_of(GOOD, id=""),
        data_of(GOOD, id="a" * 65),
        data_of(GOOD, at=1e12),
        data_of(GOOD, at=float("nan")),
        data_of(GOOD, do="hint", text=" \n"),
        data_of(GOOD, do="hint", text="x" * (LARGEST_HINT + 1)),
        data_of(GOOD, do="hint", text="\ud800"),
        data_of(GOOD, do="hint", text="x", role=""),
        data_of(GOOD, do="skip", role="analyst_review"),
        data_of(GOOD, do="skip", role="analyst_review", round=True, cycle=1),
        data_of(GOOD, do="skip", role="analyst_review", round=1, cycle=0),
        data_of(GOOD, do="answered", role="programmer", text="x" * (LARGEST_WORD + 1)),
        data_of(GOOD, do="set", name="max_rounds", value=3),
    ],
)
def test_what_is_not_exactly_an_ask_is_none(line: str | bytes) -> None:
    assert read_line(line) is None


def test_the_largest_hint_fits_into_a_line_whatever_it_is_made_of() -> None:
    ask = SentRequest("a1", 1.0, Hint(None, "\U0001f600" * (LARGEST_HINT // 2)))
    assert read_line(to_line(ask)) == ask


def test_whole_lines_are_read_with_where_they_end_and_rubbish_is_passed_over() -> None:
    data = b"a\n\nb\n" + LINE + LINE + b"c\r" + LINE + LINE[:-1]
    ends = (105 + len(LINE), 105 + 2 * len(LINE))
    assert read_lines(data, 100) == [(GOOD, end) for end in ends]
