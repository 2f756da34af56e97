"""The status stream, on a source that breaks when it is told to."""

import queue
from collections.abc import Iterator

import pytest

from cli_agent_orchestrator.errors import ApiError, ApiRefused, ApiUnreachable
from cli_agent_orchestrator.handoff.mailbox import QueueMailbox, StatusSignal, WakeSignal
from cli_agent_orchestrator.handoff.stream import StatusStream
from cli_agent_orchestrator.models import TerminalEvent, TerminalStatus

LIMIT = 30
BROKEN = ApiUnreachable("http://localhost/events", "reset", maybe_received=True)
END = object()


def event(
    number: int, status: TerminalStatus = TerminalStatus.IDLE, kind: str = "status"
) -> TerminalEvent:
    return TerminalEvent(f"s-{number}", kind, "a1", "cao-x", status, "", 0.0)


class Source:
    """Yields what is fed to it, in whichever connection is open."""

    def __init__(self) -> None:
        self.feed: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.connections: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def events(self, after: str | None = None) -> Iterator[TerminalEvent]:
        self.connections.put(after)
        while True:
            item = self.feed.get(timeout=LIMIT)
            if isinstance(item, ApiError):
                raise item
            if not isinstance(item, TerminalEvent):
                return
            yield item

    def close_events(self) -> None:
        self.feed.put(END)


class Listening:
    """A stream that listens to a source and posts into a mailbox."""

    def __init__(self) -> None:
        self.source = Source()
        self.mailbox = QueueMailbox()
        self.stream = StatusStream(self.source, self.mailbox.post)
        self.stream.start()


@pytest.fixture
def listening() -> Iterator[Listening]:
    listening = Listening()
    yield listening
    listening.stream.close()


def test_a_status_is_posted(listening: Listening) -> None:
    listening.source.feed.put(event(1, TerminalStatus.PROCESSING))
    assert listening.mailbox.wait(LIMIT) == StatusSignal("a1", TerminalStatus.PROCESSING)


def test_a_snapshot_counts_as_a_status(listening: Listening) -> None:
    listening.source.feed.put(event(1, TerminalStatus.COMPLETED, kind="snapshot"))
    assert listening.mailbox.wait(LIMIT) == StatusSignal("a1", TerminalStatus.COMPLETED)


def test_a_removed_terminal_is_a_reason_to_look(listening: Listening) -> None:
    listening.source.feed.put(event(1, kind="removed"))
    assert listening.mailbox.wait(LIMIT) == WakeSignal()


@pytest.mark.parametrize("end", [END, BROKEN], ids=["ended", "broken"])
def test_a_stream_that_ends_is_resumed_after_the_last_event(
    listening: Listening, end: object
) -> None:
    assert listening.source.connections.get(timeout=LIMIT) is None
    listening.source.feed.put(event(7))
    listening.source.feed.put(end)
    listening.source.feed.put(event(8, TerminalStatus.COMPLETED))
    assert listening.source.connections.get(timeout=LIMIT) == "s-7"
    posted = [listening.mailbox.wait(LIMIT) for _ in range(3)]
    assert posted == [
        StatusSignal("a1", TerminalStatus.IDLE),
        WakeSignal(),
        StatusSignal("a1", TerminalStatus.COMPLETED),
    ]


def test_a_server_without_a_stream_is_not_asked_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    listening = Listening()
    listening.source.feed.put(ApiRefused("GET", "/events", 404, "not found"))
    listening.stream._thread.join(LIMIT)
    assert listening.source.connections.qsize() == 1
    assert "will be polled" in caplog.text
    listening.stream.close()


def test_closing_ends_a_pause_between_two_connections(listening: Listening) -> None:
    listening.source.feed.put(BROKEN)
    assert listening.mailbox.wait(LIMIT) == WakeSignal()
    listening.stream.close()
    assert not listening.stream._thread.is_alive()
