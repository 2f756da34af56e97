"""Turns over real HTTP, with real files under a real watch; the test plays the agent."""

import os
import queue
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.core.watch import REPORTS_CLOSE
from cli_agent_orchestrator.errors import Stopped
from cli_agent_orchestrator.events import EventKind, HandoffEvent
from cli_agent_orchestrator.handoff.files import ResponseFiles
from cli_agent_orchestrator.handoff.handoff import Handoff
from cli_agent_orchestrator.handoff.wait import Envelope, Reply
from cli_agent_orchestrator.settings.config import HandoffRules
from tests.handoff.fakes import NAMES
from tests.handoff.server import LIMIT, TERMINAL, SmallServer, Typed, small_server

# So long that a test which needs a poll does not end in time.
NEVER = 600.0
BY_EVENTS = HandoffRules(poll_seconds=NEVER, max_reminders=0)
BY_POLLING = HandoffRules(poll_seconds=0.05, max_reminders=0)


class Play:
    """A handoff in a thread of its own, and the other side of it."""

    def __init__(self, folder: Path, server: SmallServer, rules: HandoffRules) -> None:
        self.server = server
        self.files = ResponseFiles(folder, Folder(folder, ("kept",), private=True), NAMES)
        self.path = self.files.response_path_for("analyst")
        self.events: list[HandoffEvent] = []
        self._told: queue.SimpleQueue[HandoffEvent] = queue.SimpleQueue()
        self.client = ApiClient(server.url)
        self.handoff = Handoff(self.client, self.files, rules, self._hear)
        self._pool = ThreadPoolExecutor(1)

    def close(self) -> None:
        self.handoff.stop()
        self._pool.shutdown()
        self.handoff.close()
        self.client.close()

    def send(self, envelope: Envelope | None = None) -> Future[Reply]:
        return self._pool.submit(self.handoff.send_and_wait, TERMINAL, "analyst", "do it", envelope)

    def typed(self) -> Typed:
        return self.server.typed.get(timeout=LIMIT)

    def heard(self, kind: EventKind) -> HandoffEvent:
        """Wait until the handoff tells something of a kind."""
        while (event := self._told.get(timeout=LIMIT)).kind is not kind:
            pass
        return event

    def _hear(self, event: HandoffEvent) -> None:
        self.events.append(event)
        self._told.put(event)


class Stage:
    """Opens servers and plays, and closes them all."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack

    def play(self, rules: HandoffRules, plain: bool) -> Play:
        server = self._stack.enter_context(small_server(plain))
        play = Play(self._folder, server, rules)
        self._stack.callback(play.close)
        return play


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield Stage(tmp_path, stack)
    assert "status-stream" not in [thread.name for thread in threading.enumerate()]


@pytest.fixture
def by_events(stage: Stage) -> Play:
    if not REPORTS_CLOSE:
        pytest.skip("this system tells only of touches")
    return stage.play(BY_EVENTS, plain=False)


@pytest.fixture
def by_polling(stage: Stage) -> Play:
    return stage.play(BY_POLLING, plain=True)


def test_file_and_rest_are_noticed_without_any_poll(by_events: Play) -> None:
    reply = by_events.send()
    assert by_events.typed().message == "do it"
    by_events.server.wait_for_listener()
    by_events.server.become(TerminalStatus.PROCESSING)
    by_events.path.write_text("the reply")
    by_events.server.become(TerminalStatus.COMPLETED)
    assert reply.result(LIMIT).text == "the reply"


def test_a_file_after_the_rest_is_noticed_without_any_poll(by_events: Play) -> None:
    reply = by_events.send()
    by_events.typed()
    by_events.server.wait_for_listener()
    by_events.server.become(TerminalStatus.PROCESSING)
    by_events.server.become(TerminalStatus.COMPLETED)
    draft = by_events.path.with_name("draft.md")
    draft.write_text("moved in")
    draft.rename(by_events.path)
    assert reply.result(LIMIT).text == "moved in"


def test_many_turns_follow_each_other_without_any_poll(by_events: Play) -> None:
    for number in range(10):
        reply = by_events.send()
        by_events.typed()
        by_events.server.wait_for_listener()
        by_events.server.become(TerminalStatus.PROCESSING)
        by_events.path.write_text(f"reply {number}")
        by_events.server.become(TerminalStatus.COMPLETED)
        assert reply.result(LIMIT).text == f"reply {number}"
    assert len(list(by_events.files.kept.path.iterdir())) == 10


def test_a_turn_that_is_silent_for_many_heartbeats_is_still_on_the_stream(by_events: Play) -> None:
    reply = by_events.send()
    by_events.typed()
    by_events.server.wait_for_listener()
    by_events.server.become(TerminalStatus.PROCESSING)
    by_events.heard(EventKind.STATUS)
    for _ in range(3):
        by_events.server.say(b": ping\n\n")
    # By polling, none of this would be noticed in time.
    by_events.server.become(TerminalStatus.WAITING_USER_ANSWER)
    by_events.heard(EventKind.WAITING_FOR_PERSON)
    by_events.path.write_text("the reply")
    by_events.server.become(TerminalStatus.COMPLETED)
    assert reply.result(LIMIT).text == "the reply"
    assert by_events.server.listeners == 1


@pytest.mark.parametrize(
    "odd",
    [
        b"data: what is this\n\n",
        b"event: status\ndata: {}\n\n",
        b'event: mood\ndata: {"terminal_id": "a1b2c3d4", "mood": "fine"}\n\n',
        b"\xff\xfe\n\n",
        b"id: \x01\ndata: {}\n\n",
        b"retry: never\n\n",
    ],
)
def test_unknown_things_on_the_stream_change_nothing(by_events: Play, odd: bytes) -> None:
    reply = by_events.send()
    by_events.typed()
    by_events.server.wait_for_listener()
    by_events.server.become(TerminalStatus.PROCESSING)
    by_events.server.say(odd)
    by_events.path.write_text("the reply")
    by_events.server.become(TerminalStatus.COMPLETED)
    assert reply.result(LIMIT).text == "the reply"
    assert TerminalStatus.UNKNOWN not in {event.status for event in by_events.events}
    assert by_events.server.listeners == 1


def test_a_stream_that_is_lost_is_told_and_so_is_its_return(stage: Stage) -> None:
    play = stage.play(BY_POLLING, plain=False)
    reply = play.send()
    play.typed()
    play.server.wait_for_listener()
    play.server.become(TerminalStatus.PROCESSING)
    play.server.away_streams = True
    play.server.hang_up()
    assert "polling every 0.05 s" in play.heard(EventKind.STREAM_LOST).text
    play.server.away_streams = False
    play.heard(EventKind.STREAM_BACK)
    play.path.write_text("the reply")
    play.server.become(TerminalStatus.COMPLETED)
    assert reply.result(LIMIT).text == "the reply"


def test_a_server_with_the_common_routes_alone_is_polled(by_polling: Play) -> None:
    reply = by_polling.send()
    assert by_polling.typed().message == "do it"
    by_polling.server.become(TerminalStatus.PROCESSING)
    by_polling.server.wait_for_questions(3)
    by_polling.path.write_text("the reply")
    by_polling.server.become(TerminalStatus.COMPLETED)
    assert reply.result(LIMIT).text == "the reply"
    assert [event.text for event in by_polling.events if event.kind is EventKind.WARNING] == []


@pytest.mark.skipif(not REPORTS_CLOSE, reason="only a pause tells that nobody writes any more")
def test_a_file_still_open_is_not_taken_however_often_it_is_looked_at(stage: Stage) -> None:
    play = stage.play(replace(BY_POLLING, poll_seconds=0.02), plain=True)
    reply = play.send()
    play.typed()
    with play.path.open("w") as file:
        file.write("first half, ")
        file.flush()
        play.server.wait_for_questions(40)
        assert not reply.done()
        file.write("second half")
    assert reply.result(LIMIT).text == "first half, second half"


def test_two_megabytes_arrive_whole(by_polling: Play) -> None:
    text = "a long line of a long answer\n" * 72_000
    reply = by_polling.send()
    by_polling.typed()
    by_polling.path.write_text(text)
    assert reply.result(LIMIT).text == text


def test_a_server_that_goes_away_and_comes_back_is_heard_again(by_events: Play) -> None:
    reply = by_events.send()
    by_events.typed()
    by_events.server.wait_for_listener()
    by_events.server.become(TerminalStatus.PROCESSING)
    by_events.server.go()
    by_events.path.write_text("written in silence")
    by_events.server.become(TerminalStatus.COMPLETED)
    by_events.server.come()
    assert reply.result(LIMIT).text == "written in silence"


def test_a_polled_server_that_goes_away_and_comes_back_is_asked_again(by_polling: Play) -> None:
    silent = threading.Event()
    told = by_polling.events.append

    def listen(event: HandoffEvent) -> None:
        told(event)
        if event.kind is EventKind.WARNING:
            silent.set()

    by_polling.handoff = Handoff(by_polling.client, by_polling.files, BY_POLLING, listen)
    reply = by_polling.send()
    by_polling.typed()
    by_polling.server.become(TerminalStatus.PROCESSING)
    by_polling.server.wait_for_questions(1)
    by_polling.server.go()
    assert silent.wait(LIMIT)
    by_polling.path.write_text("written in silence")
    by_polling.server.become(TerminalStatus.COMPLETED)
    by_polling.server.come()
    assert reply.result(LIMIT).text == "written in silence"


def test_a_prompt_without_an_answer_is_typed_once_by_a_server_that_knows_keys(
    by_events: Play,
) -> None:
    by_events.server.swallow_answers = 2
    reply = by_events.send(Envelope("turn-1", 1))
    assert by_events.typed() == Typed("do it", "turn-1")
    by_events.path.write_text("the reply")
    assert reply.result(LIMIT).text == "the reply"
    assert by_events.server.swallow_answers == 0
    assert by_events.server.typed.empty()


def test_a_stop_from_another_thread_ends_the_wait(by_events: Play) -> None:
    reply = by_events.send()
    by_events.typed()
    by_events.server.wait_for_listener()
    by_events.handoff.stop()
    with pytest.raises(Stopped):
        reply.result(LIMIT)


def test_a_stop_from_a_signal_handler_ends_the_wait(by_events: Play) -> None:
    by_events.server.become(TerminalStatus.PROCESSING)
    before = signal.signal(signal.SIGUSR1, lambda *_: by_events.handoff.stop())

    def interrupt() -> None:
        by_events.server.wait_for_listener()
        os.kill(os.getpid(), signal.SIGUSR1)

    asked = threading.Thread(target=interrupt)
    try:
        asked.start()
        with pytest.raises(Stopped):
            by_events.handoff.wait_for_response_file(TERMINAL, "analyst")
    finally:
        asked.join()
        signal.signal(signal.SIGUSR1, before)
