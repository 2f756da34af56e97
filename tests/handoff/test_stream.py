"""The status stream, on a source that breaks when it is told to."""

import queue
from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core.models import TerminalEvent, TerminalStatus
from cli_agent_orchestrator.errors import ApiError, ApiRefused, ApiUnreachable
from cli_agent_orchestrator.events import EventKind
from cli_agent_orchestrator.handoff.watch import (
    STEADY_SECONDS,
    Mailbox,
    StatusStream,
    WakeSignal,
    words_of,
)
from tests.handoff.fakes import FakeAgents, FakeClock, event_of

LIMIT = 60
BROKEN = ApiUnreachable("http://localhost/events", "reset", maybe_received=True)
END = object()


def event(number: int) -> TerminalEvent:
    return replace(event_of(TerminalStatus.IDLE), id=f"s-{number}")


class Source(FakeAgents):
    """Yields what is fed to it, in whichever connection is open."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.feed: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.connections: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.refusing = False
        """Are connections broken before they are open?"""

    def events(
        self, after: str | None = None, opened: Callable[[], None] | None = None
    ) -> Iterator[TerminalEvent]:
        self.connections.put(after)
        if opened is not None and not self.refusing:
            opened()
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
        self.clock = FakeClock()
        self.source = Source(self.clock)
        self.mailbox = Mailbox()
        self.stream = StatusStream(self.source, self.mailbox.post, self.clock)
        self.stream.start()

    def news(self) -> tuple[EventKind, str] | None:
        return self.stream.take_news(2.0)


@pytest.fixture
def listening() -> Iterator[Listening]:
    listening = Listening()
    yield listening
    listening.stream.close()


@pytest.mark.parametrize("end", [END, BROKEN], ids=["ended", "broken"])
def test_a_stream_that_ends_is_resumed_after_the_last_event_with_an_id(
    listening: Listening, end: object
) -> None:
    assert listening.source.connections.get(timeout=LIMIT) is None
    first, second, third = event(7), replace(event(8), id=""), event(9)
    for item in (first, second, end, third):
        listening.source.feed.put(item)
    assert listening.source.connections.get(timeout=LIMIT) == "s-7"
    posted = [listening.mailbox.wait(LIMIT) for _ in range(4)]
    assert posted == [first, second, WakeSignal(), third]


def test_a_stream_that_is_there_again_at_once_is_no_news(listening: Listening) -> None:
    listening.source.feed.put(BROKEN)
    listening.source.feed.put(event(1))
    assert listening.mailbox.wait(LIMIT) == WakeSignal()
    assert listening.mailbox.wait(LIMIT) == event(1)
    assert listening.news() is None


def test_a_lost_stream_is_told_once_and_so_is_its_return(listening: Listening) -> None:
    source, mailbox = listening.source, listening.mailbox
    source.connections.get(timeout=LIMIT)
    source.refusing = True
    for _ in range(2):
        source.feed.put(BROKEN)
        assert mailbox.wait(LIMIT) == WakeSignal()
        source.connections.get(timeout=LIMIT)
    assert listening.news() == (
        EventKind.STREAM_LOST,
        "the event stream is lost (the server does not answer); polling every 2 s",
    )
    assert listening.news() is None
    source.refusing = False
    source.feed.put(BROKEN)
    assert mailbox.wait(LIMIT) == WakeSignal()
    assert mailbox.wait(LIMIT) == WakeSignal()
    assert listening.news() == (EventKind.STREAM_BACK, "the event stream is back")
    assert listening.news() is None


def test_after_a_steady_connection_a_break_counts_as_the_first_one(listening: Listening) -> None:
    source, mailbox = listening.source, listening.mailbox
    source.connections.get(timeout=LIMIT)
    source.refusing = True
    source.feed.put(BROKEN)
    assert mailbox.wait(LIMIT) == WakeSignal()
    source.connections.get(timeout=LIMIT)
    listening.clock.time += STEADY_SECONDS
    source.feed.put(BROKEN)
    assert mailbox.wait(LIMIT) == WakeSignal()
    source.connections.get(timeout=LIMIT)
    assert listening.news() is None


def test_a_server_without_a_stream_is_not_asked_again_and_that_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    listening = Listening()
    listening.source.feed.put(ApiRefused("GET", "/events", 404, "not found"))
    listening.stream._thread.join(LIMIT)
    assert listening.source.connections.qsize() == 1
    news = listening.news()
    assert news is not None
    assert news[0] is EventKind.STREAM_LOST
    assert "(not found)" in news[1]
    assert "will be polled" in caplog.text
    listening.stream.close()


def test_closing_ends_a_pause_between_two_connections(listening: Listening) -> None:
    listening.source.feed.put(BROKEN)
    assert listening.mailbox.wait(LIMIT) == WakeSignal()
    listening.stream.close()
    assert not listening.stream._thread.is_alive()


@pytest.mark.parametrize(
    ("reason", "question"),
    [
        ("hook: PermissionRequest: May I run make?", "May I run make?"),
        ("hook: Notification: Claude needs\n your permission", "Claude needs your permission"),
        ("hook: wants to run: make test", "wants to run: make test"),
        ("hook: PermissionRequest: Go on?; the screen does not show it", "Go on?"),
        ("hook: PermissionRequest", ""),
        ("stream state: blocked", ""),
        ("screen: a question", ""),
        ("", ""),
    ],
)
def test_what_is_asked_is_what_the_agent_told(reason: str, question: str) -> None:
    assert words_of(reason) == question
