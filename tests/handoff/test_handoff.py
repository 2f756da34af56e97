"""A turn from the prompt to the reply, with time that is moved."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.core.models import FileChange, TerminalStatus
from cli_agent_orchestrator.errors import (
    ApiRefused,
    ApiUnreachable,
    HandoffTimeout,
    NoResponseFile,
    Stopped,
    TurnFailed,
)
from cli_agent_orchestrator.events import EventKind
from cli_agent_orchestrator.handoff.files import Response, ResponseFiles
from cli_agent_orchestrator.handoff.handoff import Handoff, World
from cli_agent_orchestrator.handoff.watch import WakeSignal
from tests.handoff.fakes import NAMES, RULES, TERMINAL, Stage, event_of, no_watch

IDLE = TerminalStatus.IDLE
COMPLETED = TerminalStatus.COMPLETED
PROCESSING = TerminalStatus.PROCESSING
WAITING = TerminalStatus.WAITING_USER_ANSWER

AWAY = ApiUnreachable("http://localhost:9889", "connection refused", maybe_received=False)


class TestReactingToEvents:
    def test_a_told_rest_ends_the_turn_between_two_polls(self, stage: Stage) -> None:
        stage.status(0, PROCESSING)
        stage.file(10.1, "reply")
        stage.status(10.3, COMPLETED, told=True)
        assert stage.wait() == "reply"
        assert stage.elapsed == pytest.approx(10.3)

    @pytest.mark.parametrize("status", [IDLE, TerminalStatus.ERROR])
    def test_a_told_end_is_checked_before_it_counts(
        self, stage: Stage, status: TerminalStatus
    ) -> None:
        stage.status(0, PROCESSING)
        stage.file(10.1, "first version")
        stage.mailbox.at(10.3, lambda: stage.mailbox.post(event_of(status)))
        stage.file(50, "second version")
        stage.status(51, IDLE, told=True)
        assert stage.wait() == "second version"

    @pytest.mark.parametrize("kind", ["status", "snapshot"])
    def test_work_too_short_to_be_asked_for_is_seen_all_the_same(
        self, stage: Stage, kind: str
    ) -> None:
        stage.mailbox.at(1.0, lambda: stage.mailbox.post(event_of(PROCESSING, kind=kind)))
        stage.status(1.1, IDLE, told=True)
        with pytest.raises(NoResponseFile, match="--missing take"):
            stage.wait()
        assert stage.elapsed == pytest.approx(1.1 + RULES.idle_grace)

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
            stage.wait()
        is_over = terminal.get("alive") is False
        assert ("Send it the prompt again:" in str(caught.value)) is not is_over
        assert f"Go on with a new agent:   {caught.value.to_resume}" in str(caught.value)
        assert caught.value.to_resume.endswith(" --replace-terminals")

    def test_the_end_of_the_stream_makes_it_ask(self, stage: Stage) -> None:
        stage.status(0, PROCESSING)
        stage.file(2.1, "reply")
        stage.status(2.2, IDLE)
        stage.mailbox.at(2.5, lambda: stage.mailbox.post(WakeSignal()))
        assert stage.wait() == "reply"
        assert stage.elapsed == 2.5

    def test_a_slow_writer_does_not_make_it_ask_for_every_line(self, stage: Stage) -> None:
        stage.status(0, PROCESSING)
        for line in range(1000):
            stage.mailbox.at(4 + line / 1000, lambda: stage.tell(FileChange.WRITING))
        stage.finish(5.5)
        assert stage.wait() == "reply"
        assert stage.agents.asked < 10

    def test_signals_from_before_the_prompt_are_forgotten(self, stage: Stage) -> None:
        stage.mailbox.post(event_of(PROCESSING))
        with pytest.raises(NoResponseFile):
            stage.send()
        assert stage.elapsed == 2 * RULES.idle_grace

    def test_a_file_closed_while_the_prompt_is_being_sent_is_complete(self, stage: Stage) -> None:
        stage.agents.on_send = lambda: stage.write("at once")
        assert stage.send() == "at once"
        assert stage.elapsed == 0

    def test_what_it_said_of_its_error_is_kept_if_the_screen_says_less(self, stage: Stage) -> None:
        failed = TerminalStatus.ERROR
        limit = event_of(failed, "hook: StopFailure: You've hit your usage limit")
        stage.status(0, PROCESSING)
        stage.mailbox.at(8, lambda: stage.mailbox.post(limit))
        stage.status(9, failed, told=True, why="screen: looks error")
        with pytest.raises(TurnFailed, match="You've hit your usage limit"):
            stage.wait()

    def test_an_agent_that_goes_on_by_itself_after_a_limit_is_named_and_waited_for(
        self, stage: Stage
    ) -> None:
        limit = event_of(PROCESSING, wakes="12:30pm")
        stage.status(0, PROCESSING)
        for seconds in (8, 9):
            stage.mailbox.at(seconds, lambda: stage.mailbox.post(limit))
        with pytest.raises(HandoffTimeout, match=r"usage limit lasts until 12:30pm\n"):
            stage.wait()
        assert stage.elapsed == RULES.response_timeout
        (told,) = stage.told(EventKind.WARNING)
        assert "12:30pm" in told


class TestIncompleteFiles:
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
        stage.handoff = Handoff(stage.agents, stage.files, RULES, stage.events.append, world)
        stage.status(0, PROCESSING)
        stage.status(1, COMPLETED)
        stage.file(1, "first")
        assert stage.wait() == "the second version"

    def test_a_mended_file_is_told_of(self, stage: Stage) -> None:
        stage.mailbox.at(1, lambda: stage.path.write_bytes(b"caf\xe9"))
        stage.mailbox.at(1, lambda: stage.tell(FileChange.CLOSED))
        assert stage.wait() == "caf\N{REPLACEMENT CHARACTER}"
        assert len(stage.told(EventKind.WARNING)) == 1
        assert "not UTF-8" in stage.told(EventKind.WARNING)[0]


SEEN = "screen: looks waiting user answer"
ASKED = "hook: PermissionRequest: Go on?"


class TestWaitingForAPerson:
    @pytest.mark.parametrize(("why", "told_after"), [(ASKED, 0.1), ("", 0.6)])
    def test_it_is_told_at_once_and_goes_on_by_itself(
        self, stage: Stage, why: str, told_after: float
    ) -> None:
        stage.status(0, PROCESSING)
        stage.status(10.5, WAITING, told=True, why=why)
        stage.mailbox.at(
            10.5 + told_after, lambda: heard.append(len(stage.told(EventKind.WAITING_FOR_PERSON)))
        )
        heard: list[int] = []
        stage.status(2_000, PROCESSING, told=True)
        stage.finish(2_010)
        assert stage.wait() == "reply"
        assert heard == [1]
        assert stage.told(EventKind.WAITING_FOR_PERSON) == [f"cao attach {TERMINAL}"]

    @pytest.mark.parametrize(
        ("told", "asked"),
        [
            # The screen came before the hooks, which tell of the message, too.
            (
                [(10, WAITING, SEEN), (10.01, PROCESSING, "hook: X"), (10.02, WAITING, ASKED)],
                ["Go on?"],
            ),
            ([(10, WAITING, SEEN), (10.4, WAITING, ASKED)], ["Go on?"]),
            ([(10, WAITING, ASKED), (20, PROCESSING, ""), (30, WAITING, SEEN)], ["Go on?", ""]),
        ],
    )
    def test_a_question_is_told_once_with_its_words_if_they_can_be_waited_for(
        self, stage: Stage, told: list[tuple[float, TerminalStatus, str]], asked: list[str]
    ) -> None:
        stage.status(0, PROCESSING)
        for seconds, status, why in told:
            stage.status(seconds, status, told=True, why=why)
        stage.status(40, PROCESSING, told=True)
        stage.finish(61)
        assert stage.wait() == "reply"
        assert questions(stage) == asked

    @pytest.mark.parametrize("shown", ["", "Trust all hooks?\n  t  trust all"])
    def test_a_question_that_keeps_the_prompt_from_being_sent_is_told_as_it_is_shown(
        self, stage: Stage, shown: str
    ) -> None:
        asks = ApiRefused("POST", "/input", 409, "the agent asks a question")
        stage.agents.question = {"text": shown} if shown else None
        stage.agents.refusals = [asks] * 20
        stage.status(0, WAITING)
        stage.file(90, "reply")
        stage.status(90, IDLE)
        assert stage.send() == "reply"
        [told] = [one for one in stage.events if one.kind is EventKind.WAITING_FOR_PERSON]
        first = next(one for one in stage.events if one.status is WAITING)
        assert (told.text, told.question) == (f"cao attach {TERMINAL}", shown)
        assert told.at - first.at <= 1

    def test_a_sign_in_that_is_asked_for_in_the_turn_ends_it_with_what_to_do(
        self, stage: Stage
    ) -> None:
        stage.agents.question = {"text": "1. Sign in", "advice": "run `codex login` once"}
        stage.status(0, PROCESSING)
        stage.status(10, WAITING, told=True, why=SEEN)
        with pytest.raises(TurnFailed, match="run `codex login` once") as failed:
            stage.wait()
        assert failed.value.to_resume.endswith(" --replace-terminals")
        assert stage.elapsed < 12
        assert questions(stage) == []


def questions(stage: Stage) -> list[str]:
    kind = EventKind.WAITING_FOR_PERSON
    return [event.question for event in stage.events if event.kind is kind]


class TestServerAway:
    @pytest.fixture
    def lenient(self, tmp_path: Path) -> Stage:
        """Return a stage on which the last output does, and soon has to."""
        stage = Stage(tmp_path, replace(RULES, strict=False))
        stage.status(0, PROCESSING)
        stage.status(2, IDLE)
        return stage

    def test_a_minute_without_the_server_is_survived_and_told(self, stage: Stage) -> None:
        stage.status(0, PROCESSING)
        stage.mailbox.at(5, lambda: setattr(stage.agents, "down", AWAY))
        stage.mailbox.at(65, lambda: setattr(stage.agents, "down", None))
        stage.finish(90)
        assert stage.wait() == "reply"
        assert len(stage.told(EventKind.WARNING)) == 1
        assert stage.statuses() == [PROCESSING, PROCESSING, IDLE]
        back = [event for event in stage.events if event.status is PROCESSING][1]
        assert 65 <= back.at - stage.events[0].at <= 75

    def test_the_last_output_is_asked_for_again_and_mended(self, lenient: Stage) -> None:
        lenient.agents.output_refusals = [AWAY, AWAY]
        lenient.agents.output = "half \ud83d"
        assert lenient.wait() == "half ?"


class TestStopping:
    def test_a_stop_ends_the_attempts_to_send(self, stage: Stage) -> None:
        stage.agents.refusals = [AWAY] * 1000
        stage.mailbox.at(3, stage.handoff.stop)
        with pytest.raises(Stopped):
            stage.send()
        assert stage.elapsed == 3


def test_the_story_of_a_turn_is_told_in_order(stage: Stage) -> None:
    stage.status(1, PROCESSING, told=True)
    stage.file(4, "reply")
    stage.status(5, COMPLETED, told=True)
    stage.send()
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


def test_what_the_agent_does_is_reported_when_it_is_news(stage: Stage) -> None:
    stage.status(0, PROCESSING)
    reads = event_of(PROCESSING, kind="action", action="Read: a.py")
    for second, event in enumerate(
        (
            reads,
            reads,
            replace(reads, terminal_id="another", action="Bash: make"),
            event_of(WAITING, kind="another kind", action="Bash: ls"),
            replace(reads, action=""),
        ),
        1,
    ):
        stage.mailbox.at(second, partial(stage.mailbox.post, event))
    stage.finish(6)
    assert stage.wait() == "reply"
    assert stage.told(EventKind.ACTION) == ["Read: a.py", ""]
    assert stage.statuses() == [PROCESSING, IDLE]


def test_a_terminal_that_is_removed_is_asked_about_at_once(stage: Stage) -> None:
    gone = ApiRefused("GET", "/terminals", 404, "no terminal")
    stage.status(0, PROCESSING)
    stage.mailbox.at(5, lambda: setattr(stage.agents, "down", gone))
    stage.mailbox.at(5, lambda: stage.mailbox.post(event_of(PROCESSING, kind="removed")))
    with pytest.raises(ApiRefused, match="no terminal"):
        stage.wait()
    assert stage.elapsed == 5
