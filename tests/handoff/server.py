"""A small real HTTP server with one terminal, which a test plays by hand.

As `plain` it knows only the common routes; otherwise it tells its features, streams events and
knows messages by their key, as ours does. It can go away and come back at the same address.
"""

import json
import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cli_agent_orchestrator.core.models import TerminalStatus

TERMINAL = "a1b2c3d4"
LIMIT = 60.0


@dataclass(frozen=True, slots=True)
class Typed:
    """A message as it was typed into the terminal."""

    message: str
    key: str | None


class Web(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, server: "SmallServer", port: int) -> None:
        self.small = server
        self.connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: connections are broken on purpose."""


class SmallServer:
    """One terminal behind HTTP."""

    def __init__(self, plain: bool) -> None:
        self.plain = plain
        self.typed: queue.SimpleQueue[Typed] = queue.SimpleQueue()
        self.swallow_answers = 0
        """How many of the next messages get no answer, although they are typed."""
        self.change = threading.Condition()
        self.asked = 0
        """How often the status was asked for."""
        self.listeners = 0
        self._keys: set[str] = set()
        self._history: list[TerminalStatus | bytes] = [TerminalStatus.IDLE]
        """Statuses, and whatever else the stream has said."""
        self.streamed = 0
        """How many entries of the history a listener has been sent."""
        self.away_streams = False
        """Is a listener told to come again later?"""
        self._web: Web | None = None
        # Holds the port while the server is away, so that nobody else gets it.
        self._placeholder = socket.socket()
        self._placeholder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._placeholder.bind(("127.0.0.1", 0))
        self.port: int = self._placeholder.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def come(self) -> None:
        self._web = Web(self, self.port)
        threading.Thread(target=self._web.serve_forever, args=(0.01,), daemon=True).start()

    def go(self) -> None:
        """Close the door, and break every connection."""
        web, self._web = self._web, None
        if web is None:
            return
        web.shutdown()
        web.server_close()
        with self.change:
            self.change.notify_all()
        _break(web.connections)

    def close(self) -> None:
        self.go()
        self._placeholder.close()

    def is_open(self, web: Web) -> bool:
        return self._web is web

    @property
    def status(self) -> TerminalStatus:
        return next(s for s in reversed(self._history) if isinstance(s, TerminalStatus))

    def become(self, status: TerminalStatus) -> None:
        with self.change:
            self._history.append(status)
            self.change.notify_all()

    def say(self, text: bytes) -> None:
        """Let the stream say something that is no status, and wait until it has."""
        with self.change:
            self._history.append(text)
            self.change.notify_all()
            everything = len(self._history)
            assert self.change.wait_for(lambda: self.streamed >= everything, LIMIT)

    def note_streamed(self, number: int) -> None:
        with self.change:
            self.streamed = number + 1
            self.change.notify_all()

    def hang_up(self) -> None:
        """Break every connection, but keep the door open."""
        assert self._web is not None
        _break(self._web.connections)

    def note_question(self) -> None:
        with self.change:
            self.asked += 1
            self.change.notify_all()

    def wait_for_questions(self, count: int) -> None:
        """Wait until the status has been asked for so many more times."""
        with self.change:
            enough = self.asked + count
            assert self.change.wait_for(lambda: self.asked >= enough, LIMIT)

    def wait_for_listener(self) -> None:
        with self.change:
            assert self.change.wait_for(lambda: self.listeners > 0, LIMIT)

    def type(self, message: str, key: str | None) -> None:
        if not self.plain and key is not None:
            if key in self._keys:
                return
            self._keys.add(key)
        self.typed.put(Typed(message, key))

    def history_from(self, number: int, web: Web) -> Iterator[tuple[int, TerminalStatus | bytes]]:
        """Yield what happened with its numbers, and wait for more until the server goes."""
        while self.is_open(web):
            with self.change:
                if number >= len(self._history):
                    self.change.wait(0.5)
                    continue
                status = self._history[number]
            yield number, status
            number += 1

    @property
    def last_number(self) -> int:
        return len(self._history) - 1


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Web

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        with suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        small = self.server.small
        path = urlsplit(self.path).path
        if path == "/health" and not small.plain:
            features = ["input-body", "events", "explain"]
            self._answer(200, {"status": "ok", "features": features})
        elif path == f"/terminals/{TERMINAL}":
            self._answer(200, {"id": TERMINAL, "status": small.status.value})
            small.note_question()
        elif path == f"/terminals/{TERMINAL}/output":
            self._answer(200, {"output": "last words", "mode": "last"})
        elif path == "/events" and not small.plain:
            if small.away_streams:
                self._answer(503, {"detail": "not now"})
            else:
                self._stream()
        else:
            self._answer(404, {"detail": "no such thing"})

    def do_POST(self) -> None:
        small = self.server.small
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        assert url.path == f"/terminals/{TERMINAL}/input"
        message = parse_qs(url.query)["message"][0] if small.plain else json.loads(body)["message"]
        small.type(message, self.headers.get("Idempotency-Key"))
        if small.swallow_answers:
            small.swallow_answers -= 1
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        more = {} if small.plain else {"confirmed": True, "detail": "took it"}
        self._answer(200, {"success": True, **more})

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self) -> None:
        small = self.server.small
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        with small.change:
            small.listeners += 1
            small.change.notify_all()
        try:
            for number, status in small.history_from(self._first_number(), self.server):
                self.wfile.write(_chunk(number, status))
                small.note_streamed(number)
        finally:
            with small.change:
                small.listeners -= 1

    def _first_number(self) -> int:
        after = self.headers.get("Last-Event-ID")
        return self.server.small.last_number if after is None else int(after) + 1


def _break(connections: set[socket.socket]) -> None:
    for connection in list(connections):
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def _chunk(number: int, entry: TerminalStatus | bytes) -> bytes:
    if isinstance(entry, bytes):
        return entry
    data = {"terminal_id": TERMINAL, "status": entry.value, "at": 0}
    return f"id: {number}\nevent: status\ndata: {json.dumps(data)}\n\n".encode()


@contextmanager
def small_server(plain: bool) -> Iterator[SmallServer]:
    server = SmallServer(plain)
    server.come()
    try:
        yield server
    finally:
        server.close()
