"""A turn from the prompt to the reply, with time that is moved."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cli_agent_orchestrator.core.files import LARGEST_TEXT, Folder
from cli_agent_orchestrator.core.models import FileChange, TerminalStatus
from cli_agent_orchestrator.core.watch import OnChange
from cli_agent_orchestrator.errors import (
    ApiRefused,
    ApiUnreachable,
    HandoffError,
    NoResponseFile,
    Stopped,
    TurnFailed,
)
from cli_agent_orchestrator.events import EventKind
from cli_agent_orchestrator.handoff.files import Response, ResponseFiles
from cli_agent_orchestrator.handoff.handoff import Handoff, World
from cli_agent_orchestrator.handoff.wait import Envelope, Sent
from cli_agent_orchestrator.handoff.watch import ActionSignal, StatusSignal, WakeSignal
from tests.handoff.fakes import NAMES, RULES, TERMINAL, Stage, no_watch

IDLE = TerminalStatus.IDLE
COMPLETED = TerminalStatus.COMPLETED
PROCESSING = TerminalStatus.PROCESSING
WAITING = TerminalStatus.WAITING_USER_ANSWER

AWAY = ApiUnreachable("http://localhost:9889", "connection refused", maybe_received=False)


def wait(stage: Stage) -> str:
    return stage.handoff.wait_for_response_file(TERMINAL, stage.role).text


def send(stage: Stage, envelope: Envelope | None = None) -> str:
    return stage.handoff.send_and_wait(TERMINAL, stage.role, "do it", envelope).text


class TestReactingToEvents:
    def test_a_told_rest_ends_the_turn_between_two_polls(self, stage: Stage) -> None:
        stage.status(0, PROCESSING)
        stage.file(10.1, "reply")
        stage.status(10.3, COMPLETED, told=True)
        assert wait(stage) == "reply"
        assert stage.elapsed == pytest.approx(10.3)

    def test_a_told_rest_is_checked_before_it_counts(self, stage: Stage) -> None:
        stage.status(0, PROCESSING)
        stage.file(10.1, "first version")
        stage.mailbox.at(10.3, lambda: stage.mailbox.post(StatusSignal(TERMINAL, IDLE)))
        stage.file(50, "second version")
        stage.status(51, IDLE, told=True)
        assert wait(stage) == "second version"

    def test_a_told_error_is_checked_before_it_counts(self, stage: Stage) -> None:
        error = StatusSignal(TERMINAL, TerminalStatus.ERROR)
        stage.status(0, PROCESSING)
        stage.mailbox.at(10.3, lambda: stage.mailbox.post(error))
        stage.file(50, "reply")
        stage.status(51, IDLE, told=True)
        assert wait(stage) == "reply"

    def test_work_too_short_to_be_asked_for_is_seen_all_the_same(self, stage: Stage) -> None:
        stage.mailbox.at(1.0, lambda: stage.mailbox.post(StatusSignal(TERMINAL, PROCESSING)))
        stage.status(1.1, IDLE, told=True)
        with pytest.raises(NoResponseFile, match="--missing take"):
            wait(stage)
        assert stage.elapsed == pytest.approx(1.1 + RULES.idle_grace)

    def test_what_the_agent_says_of_its_error_is_passed_on(self, stage: Stage) -> None:
        failed = TerminalStatus.ERROR
        told = StatusSignal(TERMINAL, failed, "hook: StopFailure: You've hit your usage limit")
        stage.status(0, PROCESSING)
        stage.status(8, failed)
        stage.mailbox.at(8, lambda: stage.mailbox.post(told))
        with pytest.raises(TurnFailed, match=r"error state \(“You've hit your usage limit”\)"):
            wait(stage)

    @pytest.mark.parametrize(
        ("terminal", "told"),
        [
            ({"alive": False, "exit_code": 3}, ": its program has ended with exit code 3"),
            ({"alive": False, "exit_code": None}, ": its program has ended"),
            ({"alive": True, "exit_code": None}, ""),
            ({}, ""),
        ],
    )
    def test_of_an_agent_that_has_ended_its_exit_code_is_told(
        self, stage: Stage, terminal: dict[str, Any], told: str
    ) -> None:
        stage.agents.terminal = terminal
        stage.status(0, PROCESSING)
        stage.status(8, TerminalStatus.ERROR)
        with pytest.raises(TurnFailed, match=f"error state{told}\n  Look at it: ") as caught:
            wait(stage)
        is_over = terminal.get("alive") is False
        assert ("Send it the prompt again:" in str(caught.value)) is not is_over
        assert f"Go on with a new agent:   {caught.value.to_resume}" in str(caught.value)
        assert caught.value.to_resume.endswith(" --replace-terminals")

    def test_what_it_said_of_its_error_is_kept_if_the_screen_says_less(self, stage: Stage) -> None:
        failed = TerminalStatus.ERROR
        told = StatusSignal(TERMINAL, failed, "hook: StopFailure: You've hit your usage limit")
        stage.status(0, PROCESSING)
        stage.mailbox.at(8, lambda: stage.mailbox.post(told))
        stage.status(9, failed, told=True, why="screen: looks error")
        with pytest.raises(TurnFailed, match="You've hit your usage limit"):
            wait(stage)

    def test_what_happens_to_other_terminals_is_ignored(self, stage: Stage) -> None:
        stage.mailbox.at(1, lambda: stage.mailbox.post(StatusSignal("other", PROCESSING)))
        stage.mailbox.at(2, lambda: stage.mailbox.post(StatusSignal("other", IDLE)))
        with pytest.raises(NoResponseFile):
            wait(stage)
        assert stage.elapsed == 2 * RULES.idle_grace

    def test_the_end_of_the_stream_makes_it_ask(self, stage: Stage) -> None:
        stage.status(0, PROCESSING)
        stage.file(2.1, "reply")
        stage.status(2.2, IDLE)
        stage.mailbox.at(2.5, lambda: stage.mailbox.post(WakeSignal()))
        assert wait(stage) == "reply"
        assert stage.elapsed == 2.5

    def test_without_any_event_it_polls(self, stage: Stage) -> None:
        stage.status(0, PROCESSING)
        stage.mailbox.at(9, lambda: stage.path.write_text("reply"))
        stage.status(9, COMPLETED)
        assert wait(stage) == "reply"
        assert 9 < stage.elapsed <= 9 + 3 * RULES.poll_seconds

    def test_a_slow_writer_does_not_make_it_ask_for_every_line(self, stage: Stage) -> None:
        stage.status(0, PROCESSING)
        for line in range(1000):
            stage.mailbox.at(4 + line / 1000, lambda: stage.tell(FileChange.WRITING))
        stage.file(5.5, "reply")
        stage.status(5.6, IDLE, told=True)
        assert wait(stage) == "reply"
        assert stage.agents.asked < 10

    def test_signals_from_before_the_prompt_are_forgotten(self, stage: Stage) -> None:
        stage.mailbox.post(StatusSignal(TERMINAL, PROCESSING))
        with pytest.raises(NoResponseFile):
            send(stage)
        assert stage.elapsed == 2 * RULES.idle_grace

    def test_a_file_closed_while_the_prompt_is_being_sent_is_complete(self, stage: Stage) -> None:
        stage.agents.on_send = lambda: stage.write("at once")
        assert send(stage) == "at once"
        assert stage.elapsed == 0


class TestIncompleteFiles:
    def test_half_a_file_is_not_a_reply(self, stage: Stage) -> None:
        def write_half() -> None:
            stage.path.write_text("half")
            stage.tell(FileChange.WRITING)

        stage.mailbox.at(1, write_half)
        stage.file(8, "half and half")
        assert wait(stage) == "half and half"
        assert stage.elapsed == 8

    def test_a_file_that_grows_unnoticed_is_not_a_reply(self, stage: Stage) -> None:
        for second in range(1, 20):
            stage.mailbox.at(second, partial(stage.path.write_text, "x" * second))
        assert wait(stage) == "x" * 19
        assert stage.elapsed >= 19 + RULES.poll_seconds

    def test_a_file_that_is_written_while_it_is_read_is_read_again(
        self, stage: Stage, tmp_path: Path
    ) -> None:
        class Overtaken(ResponseFiles):
            """Response files of an agent that writes once more as soon as it is read."""

            def read(self, role: str) -> Response | None:
                found = super().read(role)
                if found is not None and found.text == "first":
                    stage.path.write_text("the second version")
                return found

        stage.files = Overtaken(tmp_path, Folder(tmp_path, ("kept",), private=True), NAMES)
        world = World(stage.clock, stage.mailbox, no_watch)
        stage.handoff = Handoff(stage.agents, stage.files, RULES, world=world)
        stage.status(0, PROCESSING)
        stage.status(1, COMPLETED)
        stage.file(1, "first")
        assert wait(stage) == "the second version"

    def test_a_blank_file_is_not_a_reply(self, stage: Stage) -> None:
        stage.file(1, " \n")
        stage.file(3, "text")
        assert wait(stage) == "text"

    def test_a_file_that_is_there_already_is_taken_when_it_stays_the_same(
        self, stage: Stage
    ) -> None:
        stage.path.write_text("from before")
        assert wait(stage) == "from before"
        assert stage.elapsed == RULES.poll_seconds

    def test_a_link_in_place_of_the_file_is_refused(self, stage: Stage, tmp_path: Path) -> None:
        stage.status(0, PROCESSING)
        stage.mailbox.at(3, lambda: stage.path.symlink_to(tmp_path / "elsewhere"))
        with pytest.raises(HandoffError, match="symbolic link"):
            wait(stage)

    def test_a_mended_file_is_told_of(self, stage: Stage) -> None:
        stage.mailbox.at(1, lambda: stage.path.write_bytes(b"caf\xe9"))
        stage.mailbox.at(1, lambda: stage.tell(FileChange.CLOSED))
        assert wait(stage) == "caf\N{REPLACEMENT CHARACTER}"
        assert len(stage.told(EventKind.WARNING)) == 1
        assert "not UTF-8" in stage.told(EventKind.WARNING)[0]


ASKED = "hook: PermissionRequest: Go on?"


class TestWaitingForAPerson:
    @pytest.mark.parametrize(("why", "told_after"), [(ASKED, 0.1), ("", 0.6)])
    def test_it_is_told_at_once_and_goes_on_by_itself(
        self, stage: Stage, why: str, told_after: float
    ) -> None:
        stage.status(0, PROCESSING)
        stage.status(10.5, WAITING, told=True, why=why)
        stage.mailbox.at(
            10.5 + told_after,
            lambda: heard.append(len(stage.told(EventKind.WAITING_FOR_PERSON))),
        )
        heard: list[int] = []
        stage.status(5_000, PROCESSING, told=True)
        stage.file(5_100, "reply")
        stage.status(5_101, IDLE, told=True)
        assert wait(stage) == "reply"
        assert heard == [1]
        assert stage.told(EventKind.WAITING_FOR_PERSON) == [f"cao attach {TERMINAL}"]

    def test_a_question_that_is_seen_before_it_is_heard_is_told_once_with_its_words(
        self, stage: Stage
    ) -> None:
        """The screen came before the hooks, which tell of the message, too."""
        stage.status(0, PROCESSING)
        stage.status(10, WAITING, told=True, why="screen: looks waiting user answer")
        stage.status(10.01, PROCESSING, told=True, why="hook: UserPromptSubmit")
        stage.status(10.02, WAITING, told=True, why=ASKED)
        stage.status(60, PROCESSING, told=True)
        stage.file(61, "reply")
        stage.status(61, IDLE, told=True)
        assert wait(stage) == "reply"
        assert questions(stage) == ["Go on?"]

    def test_words_that_come_later_are_told_as_long_as_they_can_be_waited_for(
        self, stage: Stage
    ) -> None:
        stage.status(0, PROCESSING)
        stage.status(10, WAITING, told=True, why="screen: looks waiting user answer")
        stage.status(10.4, WAITING, told=True, why=ASKED)
        stage.status(20, PROCESSING, told=True)
        stage.status(30, WAITING, told=True, why="screen: looks waiting user answer")
        stage.status(40, PROCESSING, told=True)
        stage.file(61, "reply")
        stage.status(61, IDLE, told=True)
        assert wait(stage) == "reply"
        assert questions(stage) == ["Go on?", ""]

    def test_what_the_server_adds_is_no_part_of_the_question(self, stage: Stage) -> None:
        why = "hook: PermissionRequest: May I push?; the screen does not show it"
        stage.status(0, PROCESSING)
        stage.status(10, WAITING, told=True, why=why)
        stage.status(20, PROCESSING, told=True)
        stage.file(30, "reply")
        stage.status(30, IDLE, told=True)
        assert wait(stage) == "reply"
        assert questions(stage) == ["May I push?"]

    def test_what_another_agent_asks_is_not_its_question(self, stage: Stage) -> None:
        other = StatusSignal("another", WAITING, "hook: PermissionRequest: May I push?")
        stage.status(0, PROCESSING)
        stage.mailbox.at(10, lambda: stage.mailbox.post(other))
        stage.status(10.1, WAITING, told=True, why="screen: looks waiting user answer")
        stage.status(20, PROCESSING, told=True)
        stage.file(30, "reply")
        stage.status(30, IDLE, told=True)
        assert wait(stage) == "reply"
        assert questions(stage) == [""]

    def test_a_question_that_keeps_the_prompt_from_being_sent_is_told_without_words(
        self, stage: Stage
    ) -> None:
        asks = ApiRefused("POST", "/input", 409, "the agent asks a question")
        stage.agents.refusals = [asks] * 20
        stage.status(0, WAITING)
        stage.file(90, "reply")
        stage.status(90, IDLE)
        assert stage.handoff.send_and_wait(TERMINAL, stage.role, "do it").text == "reply"
        [told] = [one for one in stage.events if one.kind is EventKind.WAITING_FOR_PERSON]
        first = next(one for one in stage.events if one.status is WAITING)
        assert (told.text, told.question) == (f"cao attach {TERMINAL}", "")
        assert told.at - first.at <= 1


def questions(stage: Stage) -> list[str]:
    kind = EventKind.WAITING_FOR_PERSON
    return [event.question for event in stage.events if event.kind is kind]


class TestServerAway:
    def test_a_minute_without_the_server_is_survived(self, stage: Stage) -> None:
        stage.status(0, PROCESSING)
        stage.mailbox.at(5, lambda: setattr(stage.agents, "down", AWAY))
        stage.file(30, "reply")
        stage.status(31, IDLE)
        stage.mailbox.at(65, lambda: setattr(stage.agents, "down", None))
        assert wait(stage) == "reply"
        assert 65 <= stage.elapsed <= 75
        assert len(stage.told(EventKind.WARNING)) == 1
        assert stage.statuses() == [PROCESSING, IDLE]

    def test_that_it_is_back_is_told_though_the_agent_does_the_same(self, stage: Stage) -> None:
        stage.status(0, PROCESSING)
        stage.mailbox.at(5, lambda: setattr(stage.agents, "down", AWAY))
        stage.mailbox.at(15, lambda: setattr(stage.agents, "down", None))
        stage.file(60, "reply")
        stage.status(60, IDLE, told=True)
        assert wait(stage) == "reply"
        assert stage.statuses() == [PROCESSING, PROCESSING, IDLE]

    def test_five_minutes_without_the_server_end_the_wait(self, stage: Stage) -> None:
        stage.status(0, PROCESSING)
        stage.mailbox.at(5, lambda: setattr(stage.agents, "down", AWAY))
        with pytest.raises(ApiUnreachable):
            wait(stage)
        assert 305 <= stage.elapsed <= 308

    def test_a_fault_of_the_server_is_like_no_answer(self, stage: Stage) -> None:
        stage.status(0, PROCESSING)
        fault = ApiRefused("GET", "/terminals", 503, "tmux does not answer")
        stage.mailbox.at(5, lambda: setattr(stage.agents, "down", fault))
        stage.mailbox.at(60, lambda: setattr(stage.agents, "down", None))
        stage.file(61, "reply")
        stage.status(61, IDLE)
        assert wait(stage) == "reply"

    def test_a_terminal_that_is_gone_ends_the_wait(self, stage: Stage) -> None:
        stage.status(0, PROCESSING)
        gone = ApiRefused("GET", "/terminals", 404, "no terminal")
        stage.mailbox.at(5, lambda: setattr(stage.agents, "down", gone))
        with pytest.raises(ApiRefused, match="no terminal"):
            wait(stage)
        assert stage.elapsed <= 5 + RULES.poll_seconds

    def test_a_server_that_is_away_when_the_prompt_is_due_gets_it_later(self, stage: Stage) -> None:
        stage.agents.down = AWAY
        stage.mailbox.at(40, lambda: setattr(stage.agents, "down", None))
        stage.agents.on_send = lambda: stage.write("reply")
        assert send(stage) == "reply"
        assert len(stage.agents.sent) == 1

    def test_the_last_output_is_asked_for_again(self, tmp_path: Path) -> None:
        stage = Stage(tmp_path, replace(RULES, strict=False))
        stage.status(0, PROCESSING)
        stage.status(2, IDLE)
        stage.agents.output_refusals = [AWAY, AWAY]
        assert wait(stage) == "what the screen says"

    def test_half_a_character_in_the_last_output_is_replaced(self, tmp_path: Path) -> None:
        stage = Stage(tmp_path, replace(RULES, strict=False))
        stage.status(0, PROCESSING)
        stage.status(2, IDLE)
        stage.agents.output = "half \ud83d"
        assert wait(stage) == "half ?"

    def test_a_last_output_that_no_state_could_hold_is_refused(self, tmp_path: Path) -> None:
        stage = Stage(tmp_path, replace(RULES, strict=False))
        stage.status(0, PROCESSING)
        stage.status(2, IDLE)
        stage.agents.output = "x" * LARGEST_TEXT
        with pytest.raises(HandoffError, match=r"the last output of analyst .* more than 4 MB"):
            wait(stage)


class TestStopping:
    def test_a_stop_ends_the_wait_at_once(self, stage: Stage) -> None:
        stage.status(0, PROCESSING)
        stage.mailbox.at(7.25, stage.handoff.stop)
        with pytest.raises(Stopped):
            wait(stage)
        assert stage.elapsed == 7.25

    def test_after_a_stop_nothing_is_sent(self, stage: Stage) -> None:
        stage.handoff.stop()
        with pytest.raises(Stopped):
            send(stage)
        assert stage.agents.attempts == 0

    def test_a_stop_ends_the_attempts_to_send(self, stage: Stage) -> None:
        stage.agents.refusals = [AWAY] * 1000
        stage.mailbox.at(3, stage.handoff.stop)
        with pytest.raises(Stopped):
            send(stage)
        assert stage.elapsed == 3

    def test_a_turn_that_was_stopped_can_be_taken_up_again(
        self, stage: Stage, tmp_path: Path
    ) -> None:
        stage.status(0, PROCESSING)
        stage.mailbox.at(3, stage.handoff.stop)
        with pytest.raises(Stopped):
            send(stage, Envelope("turn-1", 1))
        later = Stage(tmp_path)
        later.path.write_text("reply")
        assert send(later, Envelope("turn-1", 1, sent=Sent.YES)) == "reply"


def test_the_story_of_a_turn_is_told_in_order(stage: Stage) -> None:
    stage.status(1, PROCESSING, told=True)
    stage.file(4, "reply")
    stage.status(5, COMPLETED, told=True)
    send(stage)
    assert [event.kind for event in stage.events] == [
        EventKind.DISPATCHED,
        EventKind.STATUS,
        EventKind.STATUS,
        EventKind.FILE_SEEN,
        EventKind.STATUS,
        EventKind.ACCEPTED,
    ]
    assert {(event.terminal_id, event.role) for event in stage.events} == {(TERMINAL, "analyst")}
    assert [round(event.at - stage.events[0].at) for event in stage.events] == [0, 0, 1, 4, 5, 5]


def test_turns_follow_each_other(stage: Stage) -> None:
    for number in (1, 2, 3):
        stage.agents.on_send = partial(stage.write, f"reply {number}")
        assert send(stage) == f"reply {number}"
    names = sorted(path.name for path in stage.files.kept.path.iterdir())
    assert names == ["001-analyst.md", "002-analyst.md", "003-analyst.md"]


def test_each_turn_of_an_agent_is_watched_over_anew(stage: Stage) -> None:
    watched: list[Path] = []

    @contextmanager
    def watch(path: Path, on_change: OnChange) -> Iterator[None]:
        watched.append(path)
        yield

    world = World(stage.clock, stage.mailbox, watch)
    with Handoff(stage.agents, stage.files, RULES, world=world) as handoff:
        for text in ("first", "second"):
            stage.agents.on_send = partial(stage.write, text)
            assert handoff.send_and_wait(TERMINAL, stage.role, "do it").text == text
    assert watched == [stage.path, stage.path]


def test_a_handoff_can_be_opened_and_closed_without_a_turn(stage: Stage) -> None:
    with stage.handoff as handoff:
        assert handoff is stage.handoff
    stage.handoff.close()


class TestReportingActions:
    def test_what_the_agent_does_is_reported_when_it_is_news(self, stage: Stage) -> None:
        stage.status(0, PROCESSING)
        for second, terminal, action in (
            (1, TERMINAL, "Read: a.py"),
            (2, TERMINAL, "Read: a.py"),
            (3, "another", "Bash: make"),
            (4, TERMINAL, ""),
        ):
            signal = ActionSignal(terminal, action)
            stage.mailbox.at(second, partial(stage.mailbox.post, signal))
        stage.file(5, "reply")
        stage.status(6, COMPLETED, told=True)
        assert wait(stage) == "reply"
        assert stage.told(EventKind.ACTION) == ["Read: a.py", ""]
