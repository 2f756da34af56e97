"""The loop, with agents that answer at once."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core.models import Delivery, TerminalStatus
from cli_agent_orchestrator.errors import (
    HandoffError,
    HandoffTimeout,
    RunError,
    StateError,
    Stopped,
)
from cli_agent_orchestrator.events import (
    AskDeclined,
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
from cli_agent_orchestrator.pipeline.prompts import EXPLORE_REFERENCE
from cli_agent_orchestrator.pipeline.requests import (
    Hint,
    Pause,
    Request,
    SentRequest,
    Set,
    Skip,
    Stop,
    Unpause,
)
from cli_agent_orchestrator.pipeline.state import Dispatch, FinalStatus, RunState, Turn
from cli_agent_orchestrator.runs.agents import replace_terminals
from cli_agent_orchestrator.runs.loop import StoppedByPerson
from cli_agent_orchestrator.runs.recorder import StateFile
from cli_agent_orchestrator.settings.config import Condensation, LoopRules, ReviewRules
from tests.handoff.fakes import FakeClock
from tests.pipeline.samples import FAIL, PASS, ROLES
from tests.runs.fakes import Asked, FakeServer, Rig, agree, response_path
from tests.runs.views import turns_of

NINE_TURNS = [
    *["analyst", "analyst_review"] * 2,
    *["programmer", "programmer_review"] * 2,
    "tester",
]
FIVE_TURNS = list(ROLES)
NOON = FakeClock().now()
SHORT = LoopRules(review=ReviewRules(min_cycles=1))


FULL = StateError("the state cannot be saved: No space left on device")


class Killed(BaseException):
    """Stands for the sudden end of the process: nobody catches it."""


def asked(request: Request, end: int) -> tuple[SentRequest, int]:
    """Return a request as it is read from the control file."""
    return SentRequest(f"ask-{end}", 0.0, request), end


def kill_at(chosen: Callable[[RunEvent], bool]) -> Callable[[RunEvent], None]:
    def on_event(event: RunEvent) -> None:
        if chosen(event):
            raise Killed

    return on_event


class TestVerdicts:
    def test_a_pass_ends_the_run_of_which_all_is_saved_before_the_next_step(self, rig: Rig) -> None:
        """Scenario: PASS exits with code 0"""
        seen = []

        def look(asked: Asked) -> str:
            saved = rig.saved()
            in_flight = saved.progress.in_flight
            assert in_flight is not None
            seen.append((in_flight.turn.role, in_flight.sent, in_flight.id == asked.key))
            assert asked.role != "tester" or saved.has_output("programmer_review")
            return agree(asked)

        rig.server.answer = look
        state = rig.run(rig.begin())
        assert state.final_status is FinalStatus.PASS
        assert rig.saved().final_status is FinalStatus.PASS
        assert [role for role, _ in rig.server.turns()] == NINE_TURNS
        assert seen == [(role, Sent.MAYBE, True) for role in NINE_TURNS]
        kept = rig.archived(state)
        assert list(kept)[:2] == ["001-analyst-prompt.md", "001-analyst.md"]
        assert kept["009-tester.md"] == PASS
        assert kept["009-tester-prompt.md"] == rig.server.prompts_to("tester")[0]
        assert len(kept) == 2 * len(NINE_TURNS)

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
        rig.rules = LoopRules(max_rounds=2)
        state = rig.run(rig.begin())
        assert (state.final_status, state.round) == (FinalStatus.FAIL, 2)
        assert rig.saved().final_status is FinalStatus.FAIL

    def test_a_lost_analysis_is_made_again(self, rig: Rig) -> None:
        """Scenario: Missing analyst output falls back to analyst phase"""
        state = replace(rig.begin(), phase="programmer")
        rig.run(state)
        assert rig.server.turns()[0] == ("analyst", 1)


class TestSaving:
    def test_one_that_seems_to_be_new_does_not_count_though_the_run_is_killed_at_once(
        self, rig: Rig
    ) -> None:
        state = rig.begin()
        old = rig.files(state).ensure_response_dir() / "analyst_summary.md"
        old.write_text("from another run", encoding="utf-8")
        assert old.stat().st_mtime > rig.clock.now()
        rig.state_file = Breaking(rig, 2, Killed(), written=True)
        with pytest.raises(Killed):
            rig.run(state)
        rig.state_file = StateFile(rig.run_folder, rig.clock)
        assert rig.saved().progress.in_flight is not None
        final = rig.run(rig.saved())
        assert rig.archived(final)["001-analyst-stale.md"] == "from another run"
        assert rig.server.prompts_to("analyst")

    @pytest.mark.parametrize("after", [0, 1, 8, 3 * len(FIVE_TURNS)])
    def test_a_full_disk_stops_the_run_and_it_can_be_resumed(self, rig: Rig, after: int) -> None:
        state = rig.begin()
        rig.rules = SHORT
        rig.state_file.save_state(state)
        rig.state_file = Breaking(rig, after + 1, FULL)
        with rig.runner(state) as runner:
            with pytest.raises(StateError, match="No space left"):
                runner.run(state)
            # What cannot be saved is not told: not even a verdict.
            assert replace(runner.state, updated_at="") == replace(rig.saved(), updated_at="")
        rig.state_file = StateFile(rig.run_folder, rig.clock)
        final = rig.run(rig.saved())
        assert final.final_status is FinalStatus.PASS
        assert [role for role, _ in rig.server.turns()] == FIVE_TURNS

    def test_why_a_run_ends_is_told_though_its_time_cannot_be_saved(self, rig: Rig) -> None:
        state = rig.begin()
        rig.server.answer = lambda asked: None
        rig.server.statuses[state.terminal_of("analyst")] = TerminalStatus.PROCESSING
        rig.state_file = Breaking(rig, 4, FULL)
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
            rig.state_file = Breaking(rig, number, Killed(), written=written)
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

    def test_what_is_not_archived_or_of_another_turn_is_not_recorded(self, rig: Rig) -> None:
        state = rig.begin()
        of_round_two = Dispatch(Turn("analyst", 2, 1), "key", 3, 0.0)
        other = replace(state, progress=replace(state.progress, in_flight=of_round_two))
        rig.files(state).archive_text("analyst", 3, agree(Asked("", "analyst", "", None)))
        with rig.runner(state) as runner:
            assert runner.record_archived_reply(state) is state
            assert runner.record_archived_reply(other) is other
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

    def test_the_key_of_another_turn_is_not_used(self, rig: Rig) -> None:
        state = rig.begin()
        of_round_two = Dispatch(Turn("analyst", 2, 1), "key", 3, 0.0, Sent.YES)
        progress = replace(state.progress, in_flight=of_round_two, sequence=3)
        rig.run(replace(state, progress=progress))
        assert rig.server.turns()[0] == ("analyst", 1)
        assert "key" not in [asked.key for asked in rig.server.asked]


class TestBadDays:
    @pytest.mark.parametrize("answers", [True, False])
    def test_an_agent_in_error_stops_a_run_that_can_be_resumed(
        self, rig: Rig, answers: bool
    ) -> None:
        """Its turn is asked again if it has no reply, though the error is gone from the screen."""
        state = rig.begin()
        rig.server.statuses["tester-1"] = TerminalStatus.ERROR
        rig.server.answer = lambda one: agree(one) if answers or one.role != "tester" else None
        with pytest.raises(HandoffError, match="error state"):
            rig.run(state)
        rig.server.statuses.clear()
        rig.server.answer = agree
        assert rig.run(rig.saved()).final_status is FinalStatus.PASS
        first, *again = rig.server.prompts_to("tester")
        assert again == ([] if answers else [AGAIN + first])

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


class Breaking(StateFile):
    """A state file at whose n-th save, and at all later ones, something is raised.

    Before the file is there, or after it was `written`.
    """

    def __init__(self, rig: Rig, at: int, error: BaseException, *, written: bool = False) -> None:
        super().__init__(rig.run_folder, rig.clock)
        self._left, self._error, self._written = at, error, written

    def save_state(self, state: RunState) -> None:
        self._left -= 1
        if self._left <= 0 and not self._written:
            raise self._error
        super().save_state(state)
        if self._left <= 0:
            raise self._error


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

    def slow_analyst(self, rig: Rig) -> Callable[[], None]:
        """Let the first analyst not answer until what is returned is called."""
        answers: list[Callable[[], None]] = []

        def finish(asked: Asked) -> None:
            response_path(asked.message).write_text(agree(asked), encoding="utf-8")
            rig.server.statuses.clear()

        def answer(asked: Asked) -> str | None:
            if answers:
                return agree(asked)
            answers.append(lambda: finish(asked))
            rig.server.statuses[asked.terminal_id] = TerminalStatus.PROCESSING
            return None

        rig.server.answer = answer
        return lambda: answers[0]()

    def test_the_time_a_person_was_waited_for_is_no_work(self, rig: Rig) -> None:
        finish = self.slow_analyst(rig)
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

    def test_the_time_the_run_was_stopped_is_no_work_but_that_before_counts(self, rig: Rig) -> None:
        finish = self.slow_analyst(rig)
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


def test_the_end_that_a_killed_run_had_not_told_is_told_when_it_goes_on(rig: Rig) -> None:
    def kill(event: RunEvent) -> None:
        if isinstance(event, TurnEnded):
            raise SystemExit

    rig.rules = SHORT
    with pytest.raises(SystemExit):
        rig.run(rig.begin(), kill)
    assert rig.run(rig.saved()).final_status is FinalStatus.PASS
    assert [one.sequence for one in rig.events if isinstance(one, TurnEnded)] == [1, 2, 3, 4, 5]


class TestGates:
    """Flows in which a command decides."""

    @pytest.fixture
    def solo(self, rig: Rig) -> Rig:
        rig.flow = packaged_flow("solo")
        return rig

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
                runner.hear(*asked(Unpause() if number % 2 else Pause(), number))
                while not isinstance(told.get(), PauseAsked | Unpaused):
                    pass
            runner.hear(*asked(Stop(), 20))

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


class TestPauses:
    def test_a_pause_holds_after_the_present_turn_until_it_is_lifted(self, rig: Rig) -> None:
        state = rig.begin()
        asked_when_paused: list[int] = []

        def hear(event: RunEvent) -> None:
            rig.events.append(event)
            if isinstance(event, TurnBegan) and event.sequence == 1:
                runner.hear(*asked(Pause(), 10))
                runner.hear(*asked(Pause(), 20))
            if isinstance(event, Paused):
                asked_when_paused.append(len(rig.server.asked))
                assert rig.saved().progress.paused
                runner.hear(*asked(Unpause(), 30))

        with rig.runner(state, hear) as runner:
            final = runner.run(state)
        assert final.final_status is FinalStatus.PASS
        assert asked_when_paused == [1]
        assert sum(isinstance(event, Unpaused) for event in rig.events) == 1
        assert not rig.saved().progress.paused

    @pytest.mark.parametrize("by_person", [True, False])
    def test_a_paused_run_can_be_stopped_and_stays_paused(self, rig: Rig, by_person: bool) -> None:
        state = rig.begin()

        def hear(event: RunEvent) -> None:
            if isinstance(event, Paused) and by_person:
                runner.hear(*asked(Stop(), 20))
            elif isinstance(event, Paused):
                runner.stop()

        with rig.runner(state, hear) as runner:
            runner.hear(*asked(Pause(), 10))
            with pytest.raises(StoppedByPerson if by_person else Stopped):
                runner.run(state)
        assert rig.server.asked == []
        assert rig.saved().progress.paused
        assert rig.run(rig.saved().progressed(paused=False)).final_status is FinalStatus.PASS


class TestAsks:
    def test_a_hint_is_in_the_next_prompt_of_its_role_and_in_no_other(self, rig: Rig) -> None:
        state = rig.begin()
        with rig.runner(state) as runner:
            runner.hear(*asked(Hint("programmer", "Mind the tabs."), 10))
            runner.hear(*asked(Skip(), 20))
            runner.run(state)
        told = [one.role for one in rig.server.asked if "HINT FROM A PERSON" in one.message]
        assert told == ["programmer"]
        progress = rig.saved().progress
        assert [act.words for act in progress.acts] == ["hint for programmer: Mind the tabs."]
        # Without a review none is skipped.
        (declined,) = [event for event in rig.events if isinstance(event, AskDeclined)]
        assert declined.text == "no review is under way or due"
        assert [role for role, _ in rig.server.turns()] == NINE_TURNS
        assert (progress.hints, progress.heard) == ((), 20)

    def test_a_killed_run_tells_the_hint_once(self, rig: Rig) -> None:
        state = rig.begin()
        ended = kill_at(lambda event: isinstance(event, TurnBegan) and event.role == "programmer")
        with rig.runner(state, ended) as runner:
            runner.hear(*asked(Hint("programmer", "Mind the tabs."), 10))
            with pytest.raises(Killed):
                runner.run(state)
        rig.run(rig.saved())
        told = [one.role for one in rig.server.asked if "Mind the tabs." in one.message]
        assert told == ["programmer"]

    def test_what_is_asked_between_two_looks_is_heeded_at_once(self, rig: Rig) -> None:
        state = rig.begin()
        reviewer = state.terminal_of("analyst_review")

        def answer(one: Asked) -> str | None:
            return None if one.role == "analyst_review" else agree(one)

        rig.server.answer = answer
        rig.server.statuses[reviewer] = TerminalStatus.PROCESSING
        rig.mailbox.at(100.25, lambda: runner.hear(*asked(Skip(), 10)))
        rig.mailbox.at(100.5, lambda: runner.hear(*asked(Stop(), 20)))
        with rig.runner(state) as runner, pytest.raises(StoppedByPerson):
            runner.run(state)
        heeded = [event for event in rig.events if isinstance(event, ReviewSkipped | StopAsked)]
        assert [event.at - NOON for event in heeded] == [100.25, 100.5]

    def test_a_time_limit_can_be_changed(self, rig: Rig) -> None:
        state = rig.begin()
        rig.server.answer = lambda _: None
        rig.server.statuses["system_analyst-1"] = TerminalStatus.PROCESSING
        began = rig.clock.time
        with rig.runner(state) as runner:
            runner.hear(*asked(Set("response_timeout", "60"), 10))
            with pytest.raises(HandoffTimeout):
                runner.run(state)
        assert rig.clock.time < began + 120
