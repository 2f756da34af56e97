"""Turns over real HTTP, with real files under a real watch; the test plays the agent."""

import json
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.client.client import ApiClient, socket_transport
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.core.sockets import FOLDER, LASTING
from cli_agent_orchestrator.core.watch import REPORTS_CLOSE
from cli_agent_orchestrator.events import EventKind, HandoffEvent
from cli_agent_orchestrator.handoff.files import ResponseFiles
from cli_agent_orchestrator.handoff.handoff import Handoff, World
from cli_agent_orchestrator.handoff.wait import Envelope, Reply
from cli_agent_orchestrator.settings.config import HandoffRules
from tests.handoff.fakes import NAMES, TERMINAL
from tests.server.running import TOKEN, RunningApi, running_api
from tests.third_party import third_party

LIMIT = 60.0
# So long that a test which needs a poll does not end in time.
RULES = HandoffRules(poll_seconds=600, max_reminders=0)


class Play:
    """A handoff in a thread of its own, and what it reports."""

    def __init__(self, folder: Path, client: ApiClient, rules: HandoffRules) -> None:
        files = ResponseFiles(folder, Folder(folder, ("kept",), private=True), NAMES)
        self.path = files.response_path_for("analyst")
        self.handoff = Handoff(client, files, rules, lambda event: self._told.put(event), World())
        self._client = client
        self._told: queue.SimpleQueue[HandoffEvent] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(1)

    def close(self) -> None:
        self.handoff.stop()
        self._pool.shutdown()
        self.handoff.close()
        self._client.close()

    def send(self, terminal_id: str = TERMINAL) -> Future[Reply]:
        envelope = Envelope("turn-1", 1)
        return self._pool.submit(
            self.handoff.send_and_wait, terminal_id, "analyst", "do it", envelope, lambda _: None
        )

    def heard(self, kind: EventKind, status: TerminalStatus | None = None) -> HandoffEvent:
        """Wait until the handoff reports something of a kind."""
        while True:
            event = self._told.get(timeout=LIMIT)
            if (event.kind, event.status) == (kind, status):
                return event


Start = Callable[[ApiClient, HandoffRules], Play]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def start_one(client: ApiClient, rules: HandoffRules) -> Play:
            play = Play(tmp_path, client, rules)
            stack.callback(play.close)
            return play

        yield start_one
    assert "status-stream" not in [thread.name for thread in threading.enumerate()]


@pytest.fixture
def server() -> Iterator[RunningApi]:
    with running_api() as api:
        api.service.add(TERMINAL)
        yield api


def become(server: RunningApi, status: TerminalStatus) -> None:
    server.call(lambda: server.service.change(TERMINAL, status))


@pytest.mark.skipif(not REPORTS_CLOSE, reason="this system tells only of touches")
def test_file_and_rest_are_noticed_without_any_poll_and_no_file_before_it_is_closed(
    server: RunningApi, start: Start
) -> None:
    play = start(ApiClient(server.url, token=TOKEN), RULES)
    reply = play.send()
    play.heard(EventKind.DISPATCHED)
    assert [sent.message for sent in server.service.sent] == ["do it"]
    server.wait_until(lambda: server.service.listeners == 1)
    become(server, TerminalStatus.PROCESSING)
    with play.path.open("w") as file:
        file.write("first half, ")
        file.flush()
        become(server, TerminalStatus.COMPLETED)
        play.heard(EventKind.STATUS, TerminalStatus.COMPLETED)
        assert not reply.done()
        file.write("second half")
    assert reply.result(LIMIT).text == "first half, second half"


def test_a_server_that_goes_away_and_comes_back_is_heard_again(start: Start) -> None:
    with TemporaryDirectory() as folder:
        state = Path(folder)
        with running_api(state=state) as server:
            server.service.add(TERMINAL)
            transport = socket_transport(state / FOLDER / LASTING)
            play = start(ApiClient(transport=transport), RULES)
            reply = play.send()
            server.wait_until(lambda: server.service.listeners == 1)
            become(server, TerminalStatus.PROCESSING)
            play.heard(EventKind.STATUS, TerminalStatus.PROCESSING)
        play.path.write_text("written in silence")
        with running_api(state=state) as server:
            server.service.add(TERMINAL)
            assert reply.result(LIMIT).text == "written in silence"


def test_a_stream_that_is_lost_is_told_and_the_server_is_polled(start: Start) -> None:
    with third_party() as theirs:
        features = json.dumps({"status": "ok", "features": ["events"]}).encode()
        theirs.answers["/health"] = (200, features)
        play = start(ApiClient(theirs.url), replace(RULES, poll_seconds=0.05))
        reply = play.send("0badcafe")
        assert "polling every 0.05 s" in play.heard(EventKind.STREAM_LOST).text
        theirs.status = "processing"
        play.heard(EventKind.STATUS, TerminalStatus.PROCESSING)
        play.path.write_text("the reply")
        theirs.status = "completed"
        assert reply.result(LIMIT).text == "the reply"
