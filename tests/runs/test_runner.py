"""The loop, with agents that answer at once."""

import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import pytest

from cli_agent_orchestrator.core.clock import Clock
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.core.models import Delivery, TerminalStatus
from cli_agent_orchestrator.errors import (
    ApiUnreachable,
    HandoffError,
    HandoffTimeout,
    RunError,
    StateError,
    Stopped,
)
from cli_agent_orchestrator.events import (
    AskDeclined,
    CheckBegan,
    CheckEnded,
    EventKind,
    HandoffEvent,
    PauseAsked,
    Paused,
    ReviewSkipped,
    RunEvent,
    StopAsked,
    TurnBegan,
    TurnEnded,
    Unpaused,
    Warned,
)
from cli_agent_orchestrator.handoff.wait import AGAIN, Sent
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow
from cli_agent_orchestrator.pipeline.machine import unpause
from cli_agent_orchestrator.pipeline.prompts import EXPLORE_REFERENCE
from cli_agent_orchestrator.pipeline.state import Dispatch, FinalStatus, RunState, Turn
from cli_agent_orchestrator.pipeline.steering import (
    Ask,
    Heard,
    Hint,
    Pause,
    Set,
    Skip,
    Stop,
    Unpause,
    Wish,
)
from cli_agent_orchestrator.runs.agents import replace_terminals
from cli_agent_orchestrator.runs.loop import StoppedByPerson
from cli_agent_orchestrator.runs.screens import read_screen
from cli_agent_orchestrator.runs.state_file import StateFile
from cli_agent_orchestrator.runs.view import turns_of
from cli_agent_orchestrator.settings.config import Condensation, Limits, LoopRules, ReviewRules
from cli_agent_orchestrator.settings.layout import STATE_NAME, records_folder
from tests.handoff.fakes import FakeClock
from tests.pipeline.samples import FAIL, PASS, ROLES
from tests.runs.fakes import Asked, FakeServer, Rig, agree, response_path

NINE_TURNS = [
    *["analyst", "analyst_review"] * 2,
    *["programmer", "programmer_review"] * 2,
    "tester",
]
FIVE_TURNS = list(ROLES)
NOON = FakeClock().now()
SHORT = LoopRules(review=ReviewRules(min_cycles=1))


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


class Killed(BaseException):
    """Stands for the sudden end of the process: nobody catches it."""


def asked(wish: Wish, upto: int) -> Heard:
    """Return a wish as it is read from the control file."""
    return Heard(Ask(f"ask-{upto}", 0.0, wish), upto)


def kill_at(chosen: Callable[[RunEvent], bool]) -> Callable[[RunEvent], None]:
    def on_event(event: RunEvent) -> None:
        if chosen(event):
            raise Killed

    return on_event


class TestVerdicts:
    def test_a_pass_ends_the_run(self, rig: Rig) -> None:
        """Scenario: PASS exits with code 0"""
        state = rig.run(rig.begin())
        assert state.final_status is FinalStatus.PASS
        assert rig.saved().final_status is FinalStatus.PASS
        assert [role for role, _ in rig.server.turns()] == NINE_TURNS

    def test_a_fail_leads_to_another_round_with_the_evidence(self, rig: Rig) -> None:
        """Scenario: FAIL loops back to analyst"""
        rig.server.answer = fail_until(2)
        state = rig.run(rig.begin())
        assert (state.final_status, state.round) == (FinalStatus.PASS, 2)
        assert [role for role, number in rig.server.turns() if number == 2] == NINE_TURNS
        first_of_round_two = rig.server.prompts_to("analyst")[2]
        assert "- exit code 1" in first_of_round_two

    def test_after_the_last_round_the_run_has_failed(self, rig: Rig) -> None:
        """Scenario: MAX_ROUNDS exhausted exits with code 1"""
        rig.server.answer = fail_until(99)
        rig.rules = LoopRules(Limits(max_rounds=2))
        state = rig.run(rig.begin())
        assert (state.final_status, state.round) == (FinalStatus.FAIL, 2)
        assert rig.saved().final_status is FinalStatus.FAIL

    def test_a_lost_analysis_is_made_again(self, rig: Rig) -> None:
        """Scenario: Missing analyst output falls back to analyst phase"""
        state = replace(rig.begin(), phase="programmer")
        rig.run(state)
        assert rig.server.turns()[0] == ("analyst", 1)

    def test_used_up_cycles_are_told(self, rig: Rig) -> None:
        rig.server.answer = lambda asked: (
            "REVIEW_RESULT: REVISE\nREVIEW_NOTES:\n- no"
            if asked.role == "analyst_review"
            else agree(asked)
        )
        state = rig.run(rig.begin())
        assert state.final_status is FinalStatus.PASS
        ended = [event.outcome for event in rig.events if isinstance(event, TurnEnded)]
        assert any(outcome == "cycles_used_up" for outcome in ended)
        assert ended[-1] == "passed"


class TestSaving:
    def test_the_state_is_saved_with_the_turn_in_flight_before_it_is_asked(self, rig: Rig) -> None:
        seen = []

        def look(asked: Asked) -> str:
            saved = rig.saved().progress.in_flight
            assert saved is not None
            seen.append((saved.turn.role, saved.sent, saved.id == asked.key))
            return agree(asked)

        rig.server.answer = look
        rig.run(rig.begin())
        assert seen == [(role, Sent.MAYBE, True) for role in NINE_TURNS]

    def test_every_reply_is_saved_before_the_next_prompt(self, rig: Rig) -> None:
        def look(asked: Asked) -> str:
            if asked.role == "tester":
                assert rig.saved().has_output("programmer_review")
            return agree(asked)

        rig.server.answer = look
        rig.run(rig.begin())

    def test_prompts_and_replies_are_archived_side_by_side(self, rig: Rig) -> None:
        state = rig.run(rig.begin())
        kept = rig.archived(state)
        assert list(kept)[:2] == ["001-analyst-prompt.md", "001-analyst.md"]
        assert kept["009-tester.md"] == PASS
        assert kept["009-tester-prompt.md"] == rig.server.prompts_to("tester")[0]
        assert len(kept) == 2 * len(NINE_TURNS)

    def test_its_events_tell_every_turn(self, rig: Rig) -> None:
        rig.run(rig.begin())
        turns = turns_of(rig.events)
        assert [turn.role for turn in turns] == [str(role) for role in NINE_TURNS]
        assert (turns[-1].outcome, turns[-1].reply_name) == ("passed", "009-tester.md")

    def test_a_response_that_lay_there_before_is_kept_as_stale(self, rig: Rig) -> None:
        state = rig.begin()
        old = rig.files(state).ensure_response_dir() / "analyst_summary.md"
        old.write_text("from another run", encoding="utf-8")
        final = rig.run(state)
        assert rig.archived(final)["001-analyst-stale.md"] == "from another run"

    def test_one_that_seems_to_be_new_does_not_count_though_the_run_is_killed_at_once(
        self, rig: Rig
    ) -> None:
        state = rig.begin()
        old = rig.files(state).ensure_response_dir() / "analyst_summary.md"
        old.write_text("from another run", encoding="utf-8")
        assert old.stat().st_mtime > rig.clock.now()
        rig.state_file = Deadly(rig.run_folder, rig.clock, after=2, written=True)
        with pytest.raises(Killed):
            rig.run(state)
        rig.state_file = StateFile(rig.run_folder, rig.clock)
        assert rig.saved().progress.in_flight is not None
        final = rig.run(rig.saved())
        assert rig.archived(final)["001-analyst-stale.md"] == "from another run"
        assert rig.server.prompts_to("analyst")

    def test_a_full_disk_stops_the_run_and_it_can_be_resumed(self, rig: Rig) -> None:
        state = rig.begin()
        rig.state_file = FullDisk(rig.run_folder, rig.clock, after=8)
        with pytest.raises(StateError, match="No space left"):
            rig.run(state)
        rig.state_file = StateFile(rig.run_folder, rig.clock)
        final = rig.run(rig.saved())
        assert final.final_status is FinalStatus.PASS
        assert [role for role, _ in rig.server.turns()] == NINE_TURNS

    def test_a_verdict_that_cannot_be_saved_is_not_told_as_one(self, rig: Rig) -> None:
        class NoVerdicts(StateFile):
            def save_state(self, state: RunState) -> None:
                if state.final_status is not FinalStatus.RUNNING:
                    raise StateError("the state cannot be saved: No space left on device")
                super().save_state(state)

        state = rig.begin()
        rig.rules = SHORT
        rig.state_file = NoVerdicts(rig.run_folder, rig.clock)
        with rig.runner(state) as runner:
            with pytest.raises(StateError):
                runner.run(state)
            assert runner.state.final_status is FinalStatus.RUNNING

    def test_why_a_run_ends_is_told_though_its_time_cannot_be_saved(self, rig: Rig) -> None:
        state = rig.begin()
        rig.server.answer = lambda asked: None
        rig.server.statuses[state.terminal_of("analyst")] = TerminalStatus.PROCESSING
        rig.state_file = FullDisk(rig.run_folder, rig.clock, after=3)
        with pytest.raises(HandoffTimeout):
            rig.run(state)


class TestStopping:
    def test_a_stop_leaves_a_saved_run_that_goes_on_at_the_same_turn(self, rig: Rig) -> None:
        """Scenario: SIGINT saves state"""
        state = rig.begin()
        rig.server.answer = lambda asked: None if asked.role == "programmer" else agree(asked)
        rig.server.statuses["programmer-1"] = TerminalStatus.PROCESSING
        with rig.runner(state) as runner:
            rig.mailbox.at(60, runner.stop)
            with pytest.raises(Stopped):
                runner.run(state)
        saved = rig.saved()
        assert saved.final_status is FinalStatus.RUNNING
        assert saved.progress.in_flight is not None
        assert (saved.progress.in_flight.turn.role, saved.progress.in_flight.sent) == (
            "programmer",
            Sent.YES,
        )
        finish(rig, "programmer-1")
        assert rig.run(saved).final_status is FinalStatus.PASS
        assert [role for role, _ in rig.server.turns()] == NINE_TURNS

    def test_a_stop_before_the_first_turn_asks_nobody(self, rig: Rig) -> None:
        state = rig.begin()
        with rig.runner(state) as runner:
            runner.stop()
            with pytest.raises(Stopped):
                runner.run(state)
        assert rig.server.asked == []
        assert rig.saved().final_status is FinalStatus.RUNNING


class TestResuming:
    @pytest.mark.slow
    @pytest.mark.parametrize("ours", [True, False], ids=["our server", "a server without keys"])
    def test_a_run_killed_at_any_event_ends_the_same(self, tmp_path: Path, ours: bool) -> None:
        """Every event of a run is a place to be killed at; so is every save."""
        features = FakeServer().features_named if ours else frozenset[str]()
        number = 0
        while True:
            folder = tmp_path / str(number)
            folder.mkdir()
            rig = Rig(folder, FakeServer(features_named=features))
            rig.rules = SHORT
            left = number
            killed = False

            def count(_: RunEvent) -> None:
                nonlocal left, killed
                left -= 1
                if left < 0 and not killed:
                    killed = True
                    raise Killed

            state = rig.begin()
            try:
                state = rig.run(state, count)
            except Killed:
                state = rig.run(rig.saved())
            assert state.final_status is FinalStatus.PASS
            assert [role for role, _ in rig.server.turns()] == FIVE_TURNS
            kept = rig.archived(state)
            assert len(kept) == 2 * len(FIVE_TURNS), sorted(kept)
            if not killed:
                break
            number += 1
        assert number > 4 * len(FIVE_TURNS)

    def test_a_first_save_that_fails_is_the_error_that_is_told(self, rig: Rig) -> None:
        state = rig.begin()
        (rig.run_folder.path / STATE_NAME).mkdir(parents=True)
        with rig.runner(state) as runner:
            with pytest.raises(StateError, match="cannot be saved"):
                runner.run(state)
            assert runner.state == state

    @pytest.mark.slow
    @pytest.mark.parametrize("written", [True, False], ids=["after the save", "before the save"])
    def test_a_run_killed_at_any_save_ends_the_same(self, tmp_path: Path, written: bool) -> None:
        for number in range(1, 3 * len(FIVE_TURNS)):
            folder = tmp_path / str(number)
            folder.mkdir()
            rig = Rig(folder)
            rig.rules = SHORT
            state = rig.begin()
            rig.state_file.save_state(state)
            rig.state_file = Deadly(rig.run_folder, rig.clock, after=number, written=written)
            with pytest.raises(Killed):
                rig.run(state)
            rig.state_file = StateFile(rig.run_folder, rig.clock)
            state = rig.run(rig.saved())
            assert state.final_status is FinalStatus.PASS
            assert [role for role, _ in rig.server.turns()] == FIVE_TURNS
            told = [turn.role for turn in turns_of(rig.events)]
            assert told == [str(role) for role in FIVE_TURNS]

    def test_the_words_of_a_turn_in_flight_stay_the_same_under_other_settings(
        self, rig: Rig
    ) -> None:
        state = rig.begin()
        with pytest.raises(Killed):
            rig.run(state, kill_at(lambda event: is_kind(event, EventKind.DISPATCHED)))
        saved = rig.saved()
        assert saved.progress.in_flight is not None
        unsure = replace(saved.progress.in_flight, sent=Sent.MAYBE)
        rig.rules = LoopRules(condensation=Condensation(explore_on_repeat=False))
        rig.test_command = "make check"
        response_path(rig.server.asked[0].message).unlink()
        rig.handoff_rules = replace(rig.handoff_rules, strict=False)
        rig.run(replace(saved, progress=replace(saved.progress, in_flight=unsure)))
        assert len(rig.server.prompts_to("analyst")) == 2

    def test_a_reply_that_was_archived_is_recorded_without_its_agent(self, rig: Rig) -> None:
        state = rig.begin()
        with pytest.raises(Killed):
            rig.run(state, kill_at(lambda event: is_kind(event, EventKind.ACCEPTED)))
        rig.server.exit_terminal("system_analyst-1")
        saved = rig.saved()
        with rig.runner(saved) as runner:
            recorded = runner.record_archived_reply(saved)
        assert recorded.has_output("analyst")
        assert rig.saved() == replace(recorded, updated_at=rig.saved().updated_at)
        mended = replace_terminals(rig.server, recorded, {"analyst": "codex"})
        rig.run(mended)
        assert [role for role, _ in rig.server.turns()] == NINE_TURNS
        assert EXPLORE_REFERENCE not in rig.server.prompts_to("analyst")[1]

    def test_what_is_not_archived_is_not_recorded(self, rig: Rig) -> None:
        state = rig.begin()
        with rig.runner(state) as runner:
            assert runner.record_archived_reply(state) is state
        with pytest.raises(Killed):
            rig.run(state, kill_at(lambda event: isinstance(event, TurnBegan)))
        with rig.runner(rig.saved()) as runner:
            assert runner.record_archived_reply(rig.saved()) == rig.saved()

    def test_one_that_was_to_be_asked_again_when_the_run_was_killed_still_is(
        self, rig: Rig
    ) -> None:
        state = rig.begin()
        rig.server.answer = lambda asked: None
        with pytest.raises(Killed):
            rig.run(state, kill_at(lambda event: is_kind(event, EventKind.DISPATCHED)))
        analyst = state.terminal_of("analyst")
        rig.server.statuses[analyst] = TerminalStatus.ERROR
        with pytest.raises(Killed):
            rig.run(rig.saved(), kill_at(lambda event: is_kind(event, EventKind.ASKED_AGAIN)))
        rig.server.statuses.clear()
        rig.server.answer = agree
        assert rig.run(rig.saved()).final_status is FinalStatus.PASS
        first, again = rig.server.prompts_to("analyst")[:2]
        assert again == AGAIN + first

    @pytest.mark.parametrize(
        ("saved", "archived", "number"), [(0, 0, 1), (7, 0, 8), (0, 7, 8), (7, 9, 10)]
    )
    def test_a_turn_gets_a_number_that_none_had_before(
        self, rig: Rig, saved: int, archived: int, number: int
    ) -> None:
        """An agent may have emptied the archive; a state that was put back may be older than it."""
        state = rig.begin()
        state = replace(state, progress=replace(state.progress, sequence=saved))
        if archived:
            rig.files(state).archive_text("analyst-prompt", archived, "of another turn")
        with pytest.raises(Killed):
            rig.run(state, kill_at(lambda event: isinstance(event, TurnBegan)))
        in_flight = rig.saved().progress.in_flight
        assert in_flight is not None
        assert in_flight.sequence == number

    def test_a_reply_to_another_turn_is_not_recorded(self, rig: Rig) -> None:
        state = rig.begin()
        of_round_two = Dispatch(Turn("analyst", 2, 1), "key", 3, 0.0)
        state = replace(state, progress=replace(state.progress, in_flight=of_round_two))
        rig.files(state).archive_text("analyst", 3, agree(Asked("", "analyst", "", None)))
        with rig.runner(state) as runner:
            assert runner.record_archived_reply(state) is state

    def test_the_key_of_another_turn_is_not_used(self, rig: Rig) -> None:
        state = rig.begin()
        of_round_two = Dispatch(Turn("analyst", 2, 1), "key", 3, 0.0, Sent.YES)
        progress = replace(state.progress, in_flight=of_round_two, sequence=3)
        rig.run(replace(state, progress=progress))
        assert rig.server.turns()[0] == ("analyst", 1)
        assert "key" not in [asked.key for asked in rig.server.asked]

    def test_a_replaced_agent_is_told_everything_again(self, rig: Rig) -> None:
        state = rig.begin()

        def second_review(event: RunEvent) -> bool:
            return isinstance(event, TurnBegan) and event.role == "programmer" and event.cycle == 2

        with pytest.raises(Killed):
            rig.run(state, kill_at(second_review))
        rig.server.exit_terminal("programmer-1")
        mended = replace_terminals(rig.server, rig.saved(), {"programmer": "codex"})
        final = rig.run(mended)
        assert final.final_status is FinalStatus.PASS
        first, again = rig.server.prompts_to("programmer")
        assert "Make the parser accept empty lines." in first
        assert "Make the parser accept empty lines." in again
        assert "Change `parse` in parser.py." in again


class TestTheEnd:
    def test_the_status_stream_is_closed(self, rig: Rig) -> None:
        closed: list[bool] = []

        class Telling(FakeServer):
            def close_events(self) -> None:
                closed.append(True)

        rig.server = Telling(features_named=frozenset({"events", "input-body"}))
        rig.rules = SHORT
        assert rig.run(rig.begin()).final_status is FinalStatus.PASS
        assert closed


class TestBadDays:
    def test_a_server_that_is_away_for_a_minute_is_waited_for(self, rig: Rig) -> None:
        state = rig.begin()
        away = ApiUnreachable("http://localhost:9889", "refused", maybe_received=False)

        def vanish(asked: Asked) -> str:
            if asked.role == "programmer" and rig.server.down is None:
                rig.server.down = away
                rig.mailbox.at(rig.clock.time - 1000 + 60, come_back)
            return agree(asked)

        def come_back() -> None:
            rig.server.down = None

        rig.server.answer = vanish
        assert rig.run(state).final_status is FinalStatus.PASS
        assert [role for role, _ in rig.server.turns()] == NINE_TURNS
        assert any(is_kind(event, EventKind.WARNING) for event in rig.events)

    def test_an_agent_in_error_stops_a_run_that_can_be_resumed(self, rig: Rig) -> None:
        state = rig.begin()
        rig.server.statuses["tester-1"] = TerminalStatus.ERROR
        with pytest.raises(HandoffError, match="error state"):
            rig.run(state)
        rig.server.statuses.clear()
        assert rig.run(rig.saved()).final_status is FinalStatus.PASS
        assert [role for role, _ in rig.server.turns()] == NINE_TURNS

    def test_a_failed_turn_is_asked_again_though_its_error_is_gone_from_the_screen(
        self, rig: Rig
    ) -> None:
        state = rig.begin()
        rig.server.statuses["tester-1"] = TerminalStatus.ERROR
        rig.server.answer = lambda asked: None if asked.role == "tester" else agree(asked)
        with pytest.raises(HandoffError, match="error state"):
            rig.run(state)
        rig.server.statuses.clear()
        rig.server.answer = agree
        assert rig.run(rig.saved()).final_status is FinalStatus.PASS
        first, again = rig.server.prompts_to("tester")
        assert again == AGAIN + first

    def test_that_a_turn_failed_says_nothing_if_its_prompt_was_not_seen_to_arrive(
        self, tmp_path: Path
    ) -> None:
        class Unsure(FakeServer):
            def send_input(
                self, terminal_id: str, message: str, *, idempotency_key: str | None = None
            ) -> Delivery:
                super().send_input(terminal_id, message, idempotency_key=idempotency_key)
                return Delivery(False, "nothing was seen")

        rig = Rig(tmp_path, Unsure(answer=lambda _: None))
        state = rig.begin()
        rig.server.statuses["system_analyst-1"] = TerminalStatus.ERROR
        with pytest.raises(HandoffError, match="error state"):
            rig.run(state)
        in_flight = rig.saved().progress.in_flight
        assert in_flight is not None
        assert in_flight.sent is Sent.MAYBE

    @pytest.mark.parametrize(
        "verdict",
        [
            "RESULT: PASS\r\nEVIDENCE:\r\n- ok\r\n",
            "\ufeffRESULT: PASS\nEVIDENCE:\n- ok",
            "RESULT: PASS\0\nEVIDENCE:\n\0- ok",
            "**RESULT: PASS**\nEVIDENCE:\n- ok",
            "result: pass\nevidence:\n- ok",
            "RESULT: FAIL\n(first try)\n\nRESULT: PASS\nEVIDENCE:\n- ok",
            "```\nRESULT: FAIL\n```\nRESULT: PASS\nEVIDENCE:\n- ok",
            "RESULT: PASS\nEVIDENCE:\n" + "- a long line of evidence\n" * 80_000,
        ],
        ids=["CRLF", "BOM", "NUL", "bold", "lower case", "both senses", "in a fence", "2 MB"],
    )
    def test_odd_forms_of_a_pass_are_read(self, rig: Rig, verdict: str) -> None:
        rig.server.answer = lambda asked: verdict if asked.role == "tester" else agree(asked)
        assert rig.run(rig.begin()).final_status is FinalStatus.PASS

    @pytest.mark.parametrize(
        "verdict",
        [
            "```\nRESULT: PASS\n```\nRESULT: FAIL\nEVIDENCE:\n- no",
            "RESULT: PASS\n\nRESULT: FAIL",
            "It went well.",
        ],
        ids=["in a fence", "both senses", "none"],
    )
    def test_odd_forms_of_a_fail_are_no_pass(self, rig: Rig, verdict: str) -> None:
        rig.rules = LoopRules(Limits(max_rounds=1))
        rig.server.answer = lambda asked: verdict if asked.role == "tester" else agree(asked)
        assert rig.run(rig.begin()).final_status is FinalStatus.FAIL


class FullDisk(StateFile):
    """A state file that cannot be written any more after some saves."""

    def __init__(self, run: Folder, clock: Clock, after: int) -> None:
        super().__init__(run, clock)
        self._left = after

    def save_state(self, state: RunState) -> None:
        self._left -= 1
        if self._left < 0:
            raise StateError("the state cannot be saved: No space left on device")
        super().save_state(state)


class Deadly(StateFile):
    """A state file at whose n-th save the process dies, before or after the file is there."""

    def __init__(self, run: Folder, clock: Clock, after: int, written: bool) -> None:
        super().__init__(run, clock)
        self._left = after
        self._written = written

    def save_state(self, state: RunState) -> None:
        self._left -= 1
        if self._left == 0 and not self._written:
            raise Killed
        super().save_state(state)
        if self._left == 0:
            raise Killed


def is_kind(event: RunEvent, kind: EventKind) -> bool:
    return isinstance(event, HandoffEvent) and event.kind is kind


def fail_until(last: int) -> Callable[[Asked], str]:
    def answer(asked: Asked) -> str:
        failing = asked.role == "tester" and f"ROUND: {last}" not in asked.message
        return FAIL if failing else agree(asked)

    return answer


def finish(rig: Rig, terminal_id: str) -> None:
    """Let an agent that was at work write its file and come to rest."""
    (asked,) = [asked for asked in rig.server.asked if asked.terminal_id == terminal_id]
    response_path(asked.message).write_text(agree(asked), encoding="utf-8")
    rig.server.statuses.clear()
    rig.server.answer = agree


class TestTime:
    """What counts as work: an agent that needs 30 s, whatever else happens meanwhile."""

    def slow_analyst(self, rig: Rig, busy: TerminalStatus) -> Callable[[], None]:
        """Let the first analyst not answer until what is returned is called."""
        answers: list[Callable[[], None]] = []

        def finish(asked: Asked) -> None:
            response_path(asked.message).write_text(agree(asked), encoding="utf-8")
            rig.server.statuses.clear()

        def answer(asked: Asked) -> str | None:
            if answers:
                return agree(asked)
            answers.append(lambda: finish(asked))
            rig.server.statuses[asked.terminal_id] = busy
            return None

        rig.server.answer = answer
        return lambda: answers[0]()

    def test_the_time_a_person_was_waited_for_is_no_work(self, rig: Rig) -> None:
        finish = self.slow_analyst(rig, TerminalStatus.PROCESSING)
        state = rig.begin()
        analyst = state.terminal_of("analyst")
        statuses = rig.server.statuses
        rig.mailbox.at(10, lambda: statuses.update({analyst: TerminalStatus.WAITING_USER_ANSWER}))
        rig.mailbox.at(1010, lambda: statuses.update({analyst: TerminalStatus.PROCESSING}))
        rig.mailbox.at(1030, finish)
        rig.run(state)
        record = turns_of(rig.events)[0]
        assert record.ended is not None
        assert record.ended - record.began >= 1030
        assert 25 <= record.seconds <= 40
        told = next(event for event in rig.events if isinstance(event, TurnEnded))
        assert told.seconds == record.seconds

    def test_the_time_the_run_was_stopped_is_no_work(self, rig: Rig) -> None:
        finish = self.slow_analyst(rig, TerminalStatus.PROCESSING)
        state = rig.begin()
        with rig.runner(state) as runner:
            rig.mailbox.at(20, runner.stop)
            with pytest.raises(Stopped):
                runner.run(state)
        rig.clock.time += 1000
        rig.mailbox.at(1030, finish)
        rig.run(rig.saved())
        record = turns_of(rig.events)[0]
        assert record.ended is not None
        assert record.ended - record.began >= 1030
        assert 25 <= record.seconds <= 40

    def test_work_before_an_error_counts_on(self, rig: Rig) -> None:
        finish = self.slow_analyst(rig, TerminalStatus.PROCESSING)
        rig.handoff_rules = replace(rig.handoff_rules, response_timeout=20)
        state = rig.begin()
        with pytest.raises(HandoffTimeout):
            rig.run(state)
        rig.clock.time += 1000
        rig.mailbox.at(1030, finish)
        rig.run(rig.saved())
        assert 25 <= turns_of(rig.events)[0].seconds <= 40


class TestScreens:
    def test_what_an_agent_shows_is_kept_before_the_end_of_its_turn_is_told(self, rig: Rig) -> None:
        rig.rules = SHORT
        seen = []

        def look(event: RunEvent) -> None:
            if isinstance(event, TurnEnded):
                seen.append(read_screen(rig.run_folder, event.sequence, event.role))

        state = rig.begin()
        rig.run(state, look)
        agents = [state.terminal_of(role) for role in FIVE_TURNS]
        assert seen == [f"{agent} after {n} messages" for n, agent in enumerate(agents, 1)]

    def test_it_is_noted_where_each_agent_keeps_its_records(self, rig: Rig) -> None:
        rig.rules = SHORT
        state = rig.begin()
        rig.run(state)
        agents = sorted({state.terminal_of(role) for role in FIVE_TURNS})
        notes = records_folder(rig.run_folder)
        assert sorted(notes.names()) == [f"{agent}.json" for agent in agents]

    def test_what_cannot_be_seen_is_no_trouble(self, rig: Rig) -> None:
        rig.server.unseen = ApiUnreachable("http://x", "gone", maybe_received=True)
        assert rig.run(rig.begin()).final_status is FinalStatus.PASS
        assert read_screen(rig.run_folder, 1, "analyst") is None

    def test_a_reply_of_an_earlier_day_has_no_screen_of_today(self, rig: Rig) -> None:
        state = rig.begin()
        with pytest.raises(Killed):
            rig.run(state, kill_at(lambda event: is_kind(event, EventKind.ACCEPTED)))
        with rig.runner(state) as runner:
            recorded = runner.record_archived_reply(rig.saved())
        assert recorded.has_output("analyst")
        assert read_screen(rig.run_folder, 1, "analyst") is None


class TestGates:
    """Flows in which a command decides."""

    @pytest.fixture
    def solo(self, rig: Rig) -> Rig:
        rig.flow = packaged_flow("solo")
        return rig

    def test_a_passing_command_ends_the_run(self, solo: Rig) -> None:
        solo.gate = "echo 3 passed"
        state = solo.run(solo.begin())
        assert state.final_status is FinalStatus.PASS
        assert [role for role, _ in solo.server.turns()] == ["programmer"]
        assert solo.archived(state)["002-gate.md"] == (
            "RESULT: PASS\nCOMMAND: echo 3 passed\nEXIT_CODE: 0\nEVIDENCE:\n3 passed\n"
        )
        last = turns_of(solo.events)[-1]
        assert (last.role, last.is_gate, last.detail) == ("gate", True, "PASS")
        began, ended = (e for e in solo.events if isinstance(e, CheckBegan | CheckEnded))
        assert isinstance(began, CheckBegan)
        assert isinstance(ended, CheckEnded)
        assert (began.command, ended.outcome) == ("echo 3 passed", "passed")
        assert solo.saved().final_status is FinalStatus.PASS

    def test_a_failing_command_is_the_next_rounds_evidence(self, solo: Rig) -> None:
        solo.gate = "echo 1 failed; test -e mended"

        def mend(asked: Asked) -> str:
            if "ROUND: 2" in asked.message:
                (solo.folder / "mended").touch()
            return agree(asked)

        solo.server.answer = mend
        state = solo.run(solo.begin())
        assert (state.final_status, state.round) == (FinalStatus.PASS, 2)
        assert "It wrote:\n1 failed\n=== end of WHY" in solo.server.prompts_to("programmer")[1]

    def test_a_command_that_never_passes_fails_the_run(self, solo: Rig) -> None:
        solo.gate = "exit 4"
        state = solo.run(solo.begin())
        assert (state.final_status, state.round) == (FinalStatus.FAIL, 3)

    def test_a_stopped_command_is_run_again(self, solo: Rig) -> None:
        solo.gate = "echo begun > begun; test -e go || sleep 600"
        os.mkfifo(solo.folder / "begun")
        state = solo.begin()
        with solo.runner(state) as runner:

            def stop() -> None:
                (solo.folder / "begun").read_text(encoding="utf-8")
                runner.stop()

            stopper = threading.Thread(target=stop)
            stopper.start()
            with pytest.raises(Stopped):
                runner.run(state)
            stopper.join()
        (solo.folder / "begun").unlink()
        (solo.folder / "go").touch()
        assert solo.run(solo.saved()).final_status is FinalStatus.PASS
        assert len(solo.server.asked) == 1

    def test_what_people_ask_for_does_not_wait_for_the_command(self, solo: Rig) -> None:
        solo.gate = "echo begun > begun; sleep 600"
        os.mkfifo(solo.folder / "begun")
        state = solo.begin()
        told: SimpleQueue[RunEvent] = SimpleQueue()

        def ask() -> None:
            (solo.folder / "begun").read_text(encoding="utf-8")
            # Often, since the first may well come before the wait begins.
            for number in range(20):
                runner.hear(asked(Unpause() if number % 2 else Pause(), number))
                while not isinstance(told.get(), PauseAsked | Unpaused):
                    pass
            runner.hear(asked(Stop(), 20))

        asker = threading.Thread(target=ask)
        with solo.runner(state, told.put) as runner:
            asker.start()
            with pytest.raises(StoppedByPerson):
                runner.run(state)
        asker.join()
        assert solo.saved().progress.sequence == 1, "the command has not ended"

    def test_without_a_command_the_run_stops_and_can_be_resumed(self, solo: Rig) -> None:
        state = solo.begin()
        with pytest.raises(RunError, match="has a gate, gate, and there is no command"):
            solo.run(state)
        solo.gate = "true"
        saved = solo.saved()
        settings = solo.config().settings
        saved = replace(saved, progress=replace(saved.progress, settings=settings))
        assert solo.run(saved).final_status is FinalStatus.PASS

    def test_a_command_that_is_not_there_stops_the_run_before_any_turn(self, solo: Rig) -> None:
        state = solo.begin(GATES="tests=no-such-command-at-all")
        with pytest.raises(RunError, match=r"the gate tests cannot be run .* no such command"):
            solo.run(state)
        assert solo.server.asked == []

    def test_a_gate_that_is_too_slow_on_the_base_is_told_and_the_run_goes_on(
        self, solo: Rig
    ) -> None:
        command = "test -e began && exit; touch began; exec sleep 1000"
        line = json.dumps({"name": "tests", "run": command, "seconds": 0.3})
        assert solo.run(solo.begin(GATES=line)).final_status is FinalStatus.PASS
        (told,) = [one.text for one in solo.events if isinstance(one, Warned)]
        assert told.startswith("the gate tests did not end within 0.3 s before the first turn")

    def test_a_pair_has_its_review_before_the_gate(self, rig: Rig) -> None:
        rig.flow = packaged_flow("pair")
        rig.gate = "true"
        assert rig.run(rig.begin()).final_status is FinalStatus.PASS
        assert [role for role, _ in rig.server.turns()] == ["programmer", "programmer_review"] * 2


class TestPauses:
    def test_a_pause_holds_after_the_present_turn_until_it_is_lifted(self, rig: Rig) -> None:
        state = rig.begin()
        asked_when_paused: list[int] = []

        def hear(event: RunEvent) -> None:
            rig.events.append(event)
            if isinstance(event, TurnBegan) and event.sequence == 1:
                runner.hear(asked(Pause(), 10))
                runner.hear(asked(Pause(), 20))
            if isinstance(event, Paused):
                asked_when_paused.append(len(rig.server.asked))
                assert rig.saved().progress.paused
                runner.hear(asked(Unpause(), 30))

        with rig.runner(state, hear) as runner:
            final = runner.run(state)
        assert final.final_status is FinalStatus.PASS
        assert asked_when_paused == [1]
        assert sum(isinstance(event, Unpaused) for event in rig.events) == 1
        assert not rig.saved().progress.paused

    def test_a_paused_run_can_be_stopped_and_stays_paused(self, rig: Rig) -> None:
        state = rig.begin()

        def hear(event: RunEvent) -> None:
            if isinstance(event, Paused):
                runner.stop()

        with rig.runner(state, hear) as runner:
            runner.hear(asked(Pause(), 10))
            with pytest.raises(Stopped):
                runner.run(state)
        assert rig.server.asked == []
        assert rig.saved().progress.paused
        assert rig.run(unpause(rig.saved())).final_status is FinalStatus.PASS


class TestAsks:
    def test_a_hint_is_in_the_next_prompt_of_its_role_and_in_no_other(self, rig: Rig) -> None:
        state = rig.begin()
        with rig.runner(state) as runner:
            runner.hear(asked(Hint("programmer", "Mind the tabs."), 10))
            runner.run(state)
        told = [one.role for one in rig.server.asked if "HINT FROM A PERSON" in one.message]
        assert told == ["programmer"]
        assert rig.saved().progress.hints == ()
        assert rig.saved().progress.heard == 10
        assert [act.words for act in rig.saved().progress.acts] == [
            "hint for programmer: Mind the tabs."
        ]

    def test_a_hint_without_a_role_is_in_the_next_prompt(self, rig: Rig) -> None:
        state = rig.begin()

        def hear(event: RunEvent) -> None:
            if isinstance(event, TurnEnded) and event.sequence == 1:
                runner.hear(asked(Hint(None, "Mind the tabs."), 10))

        with rig.runner(state, hear) as runner:
            runner.run(state)
        told = [one.role for one in rig.server.asked if "Mind the tabs." in one.message]
        assert told == ["analyst_review"]
        assert rig.saved().progress.hints == ()
        prompt = rig.archived(rig.saved())["002-analyst_review-prompt.md"]
        assert "=== HINT FROM A PERSON ===\nMind the tabs.\n=== end of HINT" in prompt

    def test_a_killed_run_tells_the_hint_once(self, rig: Rig) -> None:
        state = rig.begin()
        ended = kill_at(lambda event: isinstance(event, TurnBegan) and event.role == "programmer")
        with rig.runner(state, ended) as runner:
            runner.hear(asked(Hint("programmer", "Mind the tabs."), 10))
            with pytest.raises(Killed):
                runner.run(state)
        rig.run(rig.saved())
        told = [one.role for one in rig.server.asked if "Mind the tabs." in one.message]
        assert told == ["programmer"]

    def test_a_review_that_is_waited_for_can_be_skipped(self, rig: Rig) -> None:
        state = rig.begin()

        def answer(one: Asked) -> str | None:
            if one.role != "analyst_review":
                return agree(one)
            runner.hear(asked(Skip(), 10))
            return None

        rig.server.answer = answer
        with rig.runner(state) as runner:
            final = runner.run(state)
        assert final.final_status is FinalStatus.PASS
        assert [role for role, _ in rig.server.turns()][:3] == [
            "analyst", "analyst_review", "programmer",
        ]  # fmt: skip
        skipped = [event for event in rig.events if isinstance(event, ReviewSkipped)]
        assert [(event.role, event.cycle) for event in skipped] == [("analyst_review", 1)]
        ended = [event for event in rig.events if isinstance(event, TurnEnded)]
        assert (ended[1].outcome, ended[1].archive) == ("skipped", "")
        assert rig.saved().progress.heard == 10

    @pytest.mark.parametrize("role", [None, "analyst_review"])
    def test_a_hint_that_a_skipped_review_had_goes_to_the_next_prompt(
        self, rig: Rig, role: str | None
    ) -> None:
        state = rig.begin()

        def answer(one: Asked) -> str | None:
            if one.role != "analyst_review":
                return agree(one)
            runner.hear(asked(Skip(), 20))
            return None

        def hear(event: RunEvent) -> None:
            if isinstance(event, TurnEnded) and event.sequence == 1:
                runner.hear(asked(Hint(role, "Mind the tabs."), 10))

        rig.server.answer = answer
        with rig.runner(state, hear) as runner:
            runner.run(state)
        told = [one.role for one in rig.server.asked if "Mind the tabs." in one.message]
        assert told == ["analyst_review", *(["programmer"] if role is None else [])]
        waits = [hint.role for hint in rig.saved().progress.hints]
        assert waits == ([] if role is None else ["analyst_review"])

    def test_what_is_asked_between_two_looks_is_heeded_at_once(self, rig: Rig) -> None:
        state = rig.begin()
        reviewer = state.terminal_of("analyst_review")

        def answer(one: Asked) -> str | None:
            return None if one.role == "analyst_review" else agree(one)

        rig.server.answer = answer
        rig.server.statuses[reviewer] = TerminalStatus.PROCESSING
        rig.mailbox.at(100.25, lambda: runner.hear(asked(Skip(), 10)))
        rig.mailbox.at(100.5, lambda: runner.hear(asked(Stop(), 20)))
        with rig.runner(state) as runner, pytest.raises(StoppedByPerson):
            runner.run(state)
        heeded = [event for event in rig.events if isinstance(event, ReviewSkipped | StopAsked)]
        assert [event.at - NOON for event in heeded] == [100.25, 100.5]

    def test_without_a_review_that_is_said(self, rig: Rig) -> None:
        state = rig.begin()
        with rig.runner(state) as runner:
            runner.hear(asked(Skip(), 10))
            runner.run(state)
        (declined,) = [event for event in rig.events if isinstance(event, AskDeclined)]
        assert declined.text == "no review is under way or due"
        assert [role for role, _ in rig.server.turns()] == NINE_TURNS

    def test_a_setting_counts_from_the_next_turn_on_and_is_saved(self, rig: Rig) -> None:
        state = rig.begin()
        with rig.runner(state) as runner:
            runner.hear(asked(Set("min-review-cycles-before-approval", "1"), 10))
            runner.run(state)
        assert [role for role, _ in rig.server.turns()] == FIVE_TURNS
        assert rig.saved().progress.settings["MIN_REVIEW_CYCLES_BEFORE_APPROVAL"] == "1"

    def test_a_time_limit_can_be_changed(self, rig: Rig) -> None:
        state = rig.begin()
        rig.server.answer = lambda _: None
        rig.server.statuses["system_analyst-1"] = TerminalStatus.PROCESSING
        began = rig.clock.time
        with rig.runner(state) as runner:
            runner.hear(asked(Set("response_timeout", "60"), 10))
            with pytest.raises(HandoffTimeout):
                runner.run(state)
        assert rig.clock.time < began + 120

    def test_a_setting_that_cannot_change_is_refused_with_those_that_can(self, rig: Rig) -> None:
        state = rig.begin()
        with rig.runner(state) as runner:
            runner.hear(asked(Set("gates", "rm -r x"), 10))
            runner.run(state)
        (declined,) = [event for event in rig.events if isinstance(event, AskDeclined)]
        assert "max_rounds" in declined.text

    def test_a_stop_ends_the_run_where_it_is(self, rig: Rig) -> None:
        state = rig.begin()

        def answer(one: Asked) -> str | None:
            if one.role != "programmer":
                return agree(one)
            runner.hear(asked(Stop(), 10))
            return None

        rig.server.answer = answer
        with rig.runner(state) as runner, pytest.raises(StoppedByPerson):
            runner.run(state)
        saved = rig.saved()
        assert saved.progress.heard == 10
        assert saved.progress.in_flight is not None
        assert [type(event) for event in rig.events][-1] is StopAsked

    def test_a_stop_ends_a_pause(self, rig: Rig) -> None:
        state = rig.begin()

        def hear(event: RunEvent) -> None:
            if isinstance(event, Paused):
                runner.hear(asked(Stop(), 20))

        with rig.runner(state, hear) as runner:
            runner.hear(asked(Pause(), 10))
            with pytest.raises(StoppedByPerson):
                runner.run(state)
        assert rig.server.asked == []

    def test_what_is_no_ask_is_passed_over_for_good(self, rig: Rig) -> None:
        state = rig.begin()
        with rig.runner(state) as runner:
            runner.hear(Heard(None, 77))
            runner.run(state)
        assert rig.saved().progress.heard == 77


class TestKeeping:
    """That a prompt was sent is saved by the run itself, whoever listens."""

    def test_a_listener_that_fails_does_not_keep_it_from_being_saved(self, rig: Rig) -> None:
        state = rig.begin()
        with pytest.raises(Killed):
            rig.run(state, kill_at(lambda event: is_kind(event, EventKind.DISPATCHED)))
        in_flight = rig.saved().progress.in_flight
        assert in_flight is not None
        assert in_flight.sent is Sent.YES
