"""The HTTP half of a stub: serves a wire format, drives its frames, keeps the ledger."""

import itertools
import json
import re
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, TypeVar

from .ledger import Ledger, Meter, Turn
from .script import (
    TOOL_CALLS,
    Cut,
    Fail,
    Hold,
    Limit,
    Pause,
    Refuse,
    Request,
    Responder,
    Step,
    Text,
    Think,
    script_from_markers,
)

# JSON as it comes from an agent: its shape is the agent's, so nothing narrower is true.
Json = dict[str, Any]
Said = TypeVar("Said", bound="Frame | Json")


@dataclass(frozen=True, slots=True)
class Frame:
    """One server-sent event."""

    event: str
    """Its name; empty for an API whose events have none."""
    data: Json

    def encode(self) -> bytes:
        name = f"event: {self.event}\n" if self.event else ""
        return f"{name}data: {json.dumps(self.data)}\n\n".encode()


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole response that is no stream."""

    status: int
    body: Json
    headers: Mapping[str, str] = field(default_factory=dict)


def paced(step: Text | Think, said: Callable[[str], Said]) -> Iterator[Said | Pause]:
    """Yield a text in pieces, with silences in between that make up its seconds."""
    words = re.findall(r"\S+\s*|\s+", step.text)
    wanted = max(20, int(step.seconds * 10))
    size = max(1, -(-len(words) // wanted))
    pieces = ["".join(words[start : start + size]) for start in range(0, len(words), size)]
    for piece in pieces:
        yield said(piece)
        if step.seconds:
            yield Pause(step.seconds / len(pieces))


def text_of(item: Json, key: str = "content", between: str = "") -> str:
    """Return the text of a message, which may be in parts."""
    content = item.get(key) or ""
    if isinstance(content, str):
        return content
    return between.join(part.get("text", "") for part in content)


class Stub(ABC):
    """A model server on loopback: `with OpenAIStub() as stub:` serves until the block is left.

    A subclass is one API, as pure data in and out. Scripts come from the markers in the prompt
    unless a responder is given.
    """

    def __init__(self, responder: Responder = script_from_markers) -> None:
        self.responder = responder
        self.ledger = Ledger()
        self.meter = Meter()
        self.headers: dict[str, str] = {}
        """What the head of every answer has besides: how much of an account is used up."""
        self.side_seconds = 0.0
        """How long requests of the agent's own take."""
        self.closed = threading.Event()
        self.numbers = itertools.count(1)
        self._gates: dict[str, threading.Event] = {}
        self._lock = threading.Lock()
        handler = type("StubHandler", (_Handler,), {"stub": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @abstractmethod
    def read(self, path: str, headers: Mapping[str, str], body: Json) -> Request | None:
        """Return what is asked, None if it is no call of the model."""

    @abstractmethod
    def other(self, path: str) -> Reply:
        """Return the answer to a call that is none of the model."""

    @abstractmethod
    def refusal(self, step: Refuse | Limit) -> Reply:
        """Return the error response of a step."""

    @abstractmethod
    def stream(
        self, request: Request, steps: tuple[Step, ...]
    ) -> Iterator[Frame | Pause | Hold | Cut]:
        """Yield the response as events, with its silences and its sudden end."""

    def whole(self, request: Request, steps: tuple[Step, ...]) -> Reply:
        """Return the same response in one piece, for agents that ask for it."""
        raise NotImplementedError

    def side_answer(self) -> tuple[Step, ...]:
        """Return the answer to a request of the agent's own: a title."""
        return (Text("A session"),)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self.closed.set()
            for gate in self._gates.values():
                gate.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        if error is None and self._server.faults:
            raise self._server.faults[0]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def turns(self) -> list[Turn]:
        return self.ledger.turns

    @property
    def prompts(self) -> list[str]:
        return self.ledger.prompts

    def gate(self, name: str) -> threading.Event:
        """Return the gate of this name; a closed stub has only open ones."""
        with self._lock:
            gate = self._gates.setdefault(name, threading.Event())
            if self.closed.is_set():
                gate.set()
            return gate

    def release(self, name: str) -> None:
        """Release the answers that are held by this name, now and from now on."""
        self.gate(name).set()

    def wait_for_finish(self, count: int, timeout: float = 60.0) -> Turn:
        """Return the turn of this number, counted from 1, once its last byte is sent."""
        self.ledger.wait_for(
            lambda ledger: len(ledger.turns) >= count and bool(ledger.turns[count - 1].finished),
            timeout,
        )
        return self.turns[count - 1]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self.faults: list[BaseException] = []

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep what went wrong for the test, except that agents may hang up at any time."""
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError):
            self.faults.append(error)


class _Handler(BaseHTTPRequestHandler):
    stub: Stub
    handed_over = 0.0
    """When the newest piece was about to be sent: the agent cannot have it before."""
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing: the ledger is the record."""

    def do_GET(self) -> None:
        self._send_reply(self.stub.other(self.path))

    do_HEAD = do_GET

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = self.stub.read(self.path, headers, body)
        if request is None:
            self._send_reply(self.stub.other(self.path))
        elif request.side:
            aside = self.stub.ledger.record_aside()
            self._wait_through((Pause(self.stub.side_seconds),))
            self._send_steps(request, self.stub.side_answer())
            self.stub.ledger.sent_aside(aside, self.handed_over)
        else:
            self._send_turn(request)

    def _send_turn(self, request: Request) -> None:
        turn = self.stub.ledger.record(request, self.stub.responder)
        # An agent without tools reads commands from the answer.
        steps = turn.script.part(request.outputs) if request.tools else turn.script.steps
        for place, step in enumerate(steps):
            if isinstance(step, Limit) or (isinstance(step, Refuse) and _refuses(step, turn)):
                self._wait_through(steps[:place])
                self.stub.ledger.refuse(turn)
                self._send_reply(self.stub.refusal(step))
                self.stub.ledger.sent(turn, self.handed_over, final=False)
                return
        try:
            whole = self._send_steps(request, steps)
        except ConnectionError:
            whole = False
        calls_tool = bool(request.tools) and any(isinstance(step, TOOL_CALLS) for step in steps)
        self.stub.ledger.sent(turn, self.handed_over, final=whole and not calls_tool)

    def _send_steps(self, request: Request, steps: tuple[Step, ...]) -> bool:
        """Send a response; return whether it is a whole one."""
        if not request.streaming:
            return self._send_whole(request, steps)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        for name, value in self.stub.headers.items():
            self.send_header(name, value)
        self.end_headers()
        for item in self.stub.stream(request, steps):
            if isinstance(item, Cut):
                self._hang_up()
                return False
            if isinstance(item, Frame):
                self.handed_over = time.monotonic()
                self._send_chunk(item.encode())
            else:
                self._wait_through((item,))
        self._send_chunk(b"")
        return not any(isinstance(step, Fail) for step in steps)

    def _send_whole(self, request: Request, steps: tuple[Step, ...]) -> bool:
        """Send a response in one piece: agents ask so when a stream has failed them."""
        self._wait_through(steps)
        if any(isinstance(step, Cut) for step in steps):
            self._hang_up()
            return False
        if any(isinstance(step, Fail) for step in steps):
            self._send_reply(self.stub.refusal(Refuse(500)))
            return False
        self._send_reply(self.stub.whole(request, steps))
        return True

    def _hang_up(self) -> None:
        self.handed_over = time.monotonic()
        self.close_connection = True

    def _wait_through(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            if isinstance(step, Pause):
                self.stub.closed.wait(step.seconds)
            elif isinstance(step, Hold):
                self.stub.gate(step.name).wait()

    def _send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _send_reply(self, reply: Reply) -> None:
        body = json.dumps(reply.body).encode()
        self.handed_over = time.monotonic()
        self.send_response(reply.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
            self.wfile.flush()


def _refuses(step: Refuse, turn: Turn) -> bool:
    return step.times is None or turn.refusals < step.times
