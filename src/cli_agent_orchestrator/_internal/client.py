"""The verbs of the server over HTTP, for the synchronous half of the product.

The client works against any server with the common routes. What ours can do beyond them (messages
of any size, an event stream) is used only if the server says that it can.
"""

import contextlib
import ipaddress
import json
import logging
import socket
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import httpx_sse

from cli_agent_orchestrator._internal.config import DEFAULT_API, LAST_PORT
from cli_agent_orchestrator._internal.models import (
    AgentView,
    Delivery,
    Feature,
    OutputMode,
    TerminalEvent,
    TerminalStatus,
)
from cli_agent_orchestrator._internal.transport import TimedStream, TimedTransport
from cli_agent_orchestrator.errors import (
    ApiRefused,
    ApiUnreachable,
    BadMessage,
    ConfigError,
    UsageError,
    in_words,
    named_in_path,
)

# For a whole answer, not only for the next part of it: see `transport.py`.
QUICK = httpx.Timeout(30, connect=5, pool=5)
STARTING = httpx.Timeout(120, connect=5, pool=5)
"""Agents take their time to start."""
TYPING = httpx.Timeout(60, connect=5, pool=5)
FOLLOWING = httpx.Timeout(50, connect=5, pool=5)
"""Longer than three heartbeats of an event stream: after that it is dead."""

LONGEST_EVENT_ID = 200
"""A server of ours takes no longer one as a resume point."""
ENDING = 503
"""With `Retry-After`: nothing was done, because the server ends."""
LARGEST_ANSWER = 64 * 1024 * 1024
"""Bytes of an answer: the scrollback of a terminal is far below."""
LONGEST_ACTION = 200
LARGEST_EVENT = 1024 * 1024
"""Bytes of an event on the stream; ours have a few hundred."""
EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
QUERY_LIMIT = 64_000
"""Bytes of a message in the address; servers take 64 KiB for the whole head of a request."""

logger = logging.getLogger(__name__)

PLAIN = {"Accept-Encoding": "identity"}
"""What is packed may be much larger than it looks."""
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

# Any: JSON from a server that may not be ours.
Answer = dict[str, Any]


def is_loopback(url: str) -> bool:
    """Does an address lead to this very machine?"""
    try:
        host = httpx.URL(url).host
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except (httpx.InvalidURL, ValueError):
        return False


class ApiClient:
    """A server's terminals. May be used by several threads."""

    def __init__(
        self,
        base_url: str = DEFAULT_API,
        *,
        provider: str = "codex",
        working_directory: str | None = None,
        token: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`provider` and `working_directory` are those of new terminals."""
        self.base_url = _checked(base_url)
        self._provider = provider
        self._working_directory = working_directory
        self.permissions = ""
        """What new terminals may do without asking; empty: what the server says."""
        self.run_index: int | None = None
        """The number of the run that new terminals belong to, if they belong to one."""
        self._features: frozenset[str] | None = None
        self._streams: weakref.WeakSet[_Stream] = weakref.WeakSet()
        self._http = httpx.Client(
            base_url=self.base_url,
            headers=PLAIN | ({"Authorization": f"Bearer {token}"} if token else {}),
            timeout=QUICK,
            transport=transport or TimedTransport(),
            # No proxy and no .netrc: the token goes to the server and nowhere else.
            trust_env=False,
        )

    def health(self) -> Answer:
        """Return what the server says about itself."""
        return self._object("GET", "/health")

    def features(self) -> frozenset[str]:
        """Return what the server can do beyond the common routes; asks only once."""
        if self._features is None:
            try:
                named = self.health().get("features")
            except ApiRefused:
                named = None
            self._features = frozenset(map(str, named)) if isinstance(named, list) else frozenset()
        return self._features

    def create_session(
        self,
        agent_profile: str,
        *,
        provider: str | None = None,
        session_name: str | None = None,
        role: str | None = None,
    ) -> Answer:
        """Start an agent in a new session; the answer has `id` and `session_name`."""
        params = self._new_terminal(agent_profile, provider, role)
        if session_name is not None:
            params["session_name"] = session_name
        return self._object("POST", "/sessions", STARTING, params=params)

    def create_terminal(
        self,
        session_name: str,
        agent_profile: str,
        *,
        provider: str | None = None,
        role: str | None = None,
    ) -> Answer:
        """Start an agent in a session that is there."""
        path = f"/sessions/{_segment(session_name)}/terminals"
        params = self._new_terminal(agent_profile, provider, role)
        return self._object("POST", path, STARTING, params=params)

    def list_sessions(self) -> list[Answer]:
        return self._list("/sessions")

    def list_terminals(self, session_name: str) -> list[Answer]:
        return self._list(f"/sessions/{_segment(session_name)}/terminals")

    def get_session(self, session_name: str) -> Answer:
        return self._object("GET", f"/sessions/{_segment(session_name)}")

    def delete_session(self, session_name: str) -> None:
        self._ask("DELETE", f"/sessions/{_segment(session_name)}")

    def get_terminal(self, terminal_id: str) -> Answer:
        return self._object("GET", f"/terminals/{_segment(terminal_id)}")

    def get_status(self, terminal_id: str) -> TerminalStatus:
        """Return what the agent is doing; a word we do not know counts as UNKNOWN."""
        return _status(self.get_terminal(terminal_id).get("status"))

    def send_input(
        self, terminal_id: str, message: str, *, idempotency_key: str | None = None
    ) -> Delivery:
        """Type a message into a terminal and submit it.

        With a key, a server of ours types it only once, however often it is asked to.
        """
        path = f"/terminals/{_segment(terminal_id)}/input"
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        content = self._message_content(message)
        return _delivery(self._object("POST", path, TYPING, headers=headers, **content))

    def get_working_directory(self, terminal_id: str) -> Answer:
        """Return where the agent works, as `working_directory`."""
        return self._object("GET", f"/terminals/{_segment(terminal_id)}/working-directory")

    def press_key(self, terminal_id: str, key: str) -> None:
        self._ask("POST", f"/terminals/{_segment(terminal_id)}/key", params={"key": key})

    def answer_question(self, run: str, key: str, role: str | None = None) -> Answer:
        """Answer what an agent of a run asks; the answer has `heard` and `text`."""
        path = f"/runs/{_segment(run)}/answer"
        return self._object("POST", path, json={"text": key, "role": role})

    def get_output(self, terminal_id: str, mode: str = OutputMode.FULL) -> str:
        path = f"/terminals/{_segment(terminal_id)}/output"
        return str(self._object("GET", path, params={"mode": str(mode)}).get("output") or "")

    def get_view(self, terminal_id: str) -> AgentView:
        """Return what the agent shows, and where it keeps its own records."""
        path = f"/terminals/{_segment(terminal_id)}/output"
        answer = self._object("GET", path, params={"mode": str(OutputMode.SCREEN)})
        named = answer.get("records")
        records = named if isinstance(named, list) else []
        return AgentView(
            str(answer.get("output") or ""),
            tuple(record for record in records if isinstance(record, str)),
        )

    def get_last_output(self, terminal_id: str) -> str:
        """Return the agent's last answer."""
        return self.get_output(terminal_id, OutputMode.LAST)

    def explain(self, terminal_id: str) -> Answer:
        """Return why the terminal has its status."""
        return self._object("GET", f"/terminals/{_segment(terminal_id)}/explain")

    def exit_terminal(self, terminal_id: str) -> None:
        """Ask the agent to quit."""
        self._ask("POST", f"/terminals/{_segment(terminal_id)}/exit")

    def delete_terminal(self, terminal_id: str) -> None:
        """End the agent."""
        self._ask("DELETE", f"/terminals/{_segment(terminal_id)}")

    def events(
        self, after: str | None = None, opened: Callable[[], None] | None = None
    ) -> Iterator[TerminalEvent]:
        """Yield what happens to terminals, from the event `after` on if the server still has it.

        Ends when the server ends it, or when `close_events` is called from another thread. A
        connection that breaks is an ApiUnreachable; connecting again is up to the caller, who is
        told by `opened` that it is there. What cannot be read is left out.
        """
        stream = _Stream(opened)
        self._streams.add(stream)
        return self._follow(stream, {"Last-Event-ID": after} if after else {})

    def close_events(self) -> None:
        """End all iterators over events, also those in which another thread waits."""
        for stream in list(self._streams):
            stream.stop()

    def close(self) -> None:
        self.close_events()
        self._http.close()

    def __enter__(self) -> "ApiClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _new_terminal(
        self, agent_profile: str, provider: str | None, role: str | None
    ) -> dict[str, str]:
        params = {"provider": provider or self._provider, "agent_profile": agent_profile}
        if self._working_directory is not None:
            params["working_directory"] = self._working_directory
        if self.permissions:
            params["permissions"] = self.permissions
        if self.run_index is not None:
            params["run_index"] = str(self.run_index)
        if role and Feature.ROLES in self.features():
            params["role"] = role
        return params

    def _message_content(self, message: str) -> dict[str, dict[str, str]]:
        """Return where the message goes: into the body if the server reads it there."""
        try:
            size = len(urlencode({"message": message}))
        except UnicodeEncodeError:
            raise BadMessage("the message holds half a character and cannot be sent") from None
        if Feature.INPUT_BODY in self.features():
            return {"json": {"message": message}}
        if size > QUERY_LIMIT:
            raise UsageError(
                f"the message takes {size} bytes in an address, and the server at {self.base_url} "
                f"takes messages only there, up to {QUERY_LIMIT}: shorten it, or use `cao server`"
            )
        return {"params": {"message": message}}

    def _follow(self, stream: "_Stream", headers: dict[str, str]) -> Iterator[TerminalEvent]:
        try:
            with httpx_sse.connect_sse(
                self._http, "GET", "/events", headers=headers, timeout=FOLLOWING
            ) as source:
                if source.response.status_code != 200:
                    _read("GET", "/events", source.response)
                _check_plain("GET", "/events", source.response)
                source.response.stream = _Bounded(source.response.stream)
                stream.attach(source.response)
                if not stream.stopped:
                    yield from _readable(source.iter_sse())
        except httpx_sse.SSEError:
            raise ApiRefused("GET", "/events", 200, "the answer is no event stream") from None
        except httpx.HTTPError as error:
            if not stream.stopped:
                raise self._unreachable("GET", "/events", error) from error

    def _object(
        self, method: str, path: str, timeout: httpx.Timeout = QUICK, **request: Any
    ) -> Answer:
        answer = self._ask(method, path, timeout, **request)
        if not isinstance(answer, dict):
            raise ApiRefused(method, path, 200, "the answer is not a JSON object")
        return answer

    def _list(self, path: str) -> list[Answer]:
        answer = self._ask("GET", path)
        if not isinstance(answer, list):
            raise ApiRefused("GET", path, 200, "the answer is not a list")
        return answer

    def _ask(
        self, method: str, path: str, timeout: httpx.Timeout = QUICK, **request: Any
    ) -> object:
        try:
            with self._http.stream(method, path, timeout=timeout, **request) as response:
                return _read(method, path, response)
        except httpx.HTTPError as error:
            raise self._unreachable(method, path, error) from error
        except (httpx.InvalidURL, UnicodeError) as error:
            kind, name, _ = named_in_path(path)
            raise UsageError(f"{kind} {name[:100]!r} cannot be asked for: {error}") from None

    def _unreachable(self, method: str, path: str, error: httpx.HTTPError) -> ApiUnreachable:
        # Never the whole address: it may hold the message.
        reason = in_words(error) or type(error).__name__
        if isinstance(error, NEVER_SENT):
            reason += "; is the server running? `cao server` starts one"
        return ApiUnreachable(
            self.base_url,
            reason,
            maybe_received=not isinstance(error, NEVER_SENT),
            request=f"{method} {path}",
        )


class _Stream:
    """A handle by which one thread ends the read another one waits in."""

    def __init__(self, opened: Callable[[], None] | None) -> None:
        self.stopped = False
        self._opened = opened
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def attach(self, response: httpx.Response) -> None:
        network = response.extensions.get("network_stream")
        if isinstance(network, TimedStream):
            network.follow()
        with self._lock:
            self._socket = network.get_extra_info("socket") if network is not None else None
        if self._opened is not None:
            self._opened()

    def stop(self) -> None:
        with self._lock:
            self.stopped = True
            if self._socket is not None:
                # Closing would not wake the reader; a shutdown does. It may be over already.
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)


class _Bounded(httpx.SyncByteStream):
    """A stream of events, none of which may go on without end: each is kept until it is whole."""

    def __init__(self, stream: httpx.SyncByteStream | httpx.AsyncByteStream) -> None:
        assert isinstance(stream, httpx.SyncByteStream), "the client is a synchronous one"
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        size, tail = 0, b""
        for part in self._stream:
            seen = tail + part
            end = max(seen.rfind(mark) for mark in EVENT_ENDS)
            size = size + len(part) if end < 0 else len(seen) - end
            if size > LARGEST_EVENT:
                text = f"an event has more than {LARGEST_EVENT >> 20} MB"
                raise ApiRefused("GET", "/events", 200, text)
            # An end may come in two parts.
            tail = seen[-3:]
            yield part

    def close(self) -> None:
        self._stream.close()


def _checked(base_url: str) -> str:
    expected = f"an address such as {DEFAULT_API}"
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        raise ConfigError("API", base_url, expected) from None
    if url.userinfo:
        raise ConfigError("API", "(not shown)", f"{expected}, without user and password")
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
        raise ConfigError("API", base_url, expected)
    if url.port is not None and not 0 < url.port <= LAST_PORT:
        raise ConfigError("API", base_url, f"{expected}, with a port from 1 to {LAST_PORT}")
    return str(url).rstrip("/")


def _segment(name: str) -> str:
    """Return a name as one part of a path, from which it cannot break out."""
    with contextlib.suppress(UnicodeEncodeError):
        if name not in ("", ".", ".."):
            return quote(name, safe="")
    raise UsageError(f"{name!r} is not the name of a terminal or session")


def _read(method: str, path: str, response: httpx.Response) -> object:
    """Return the JSON of an answer; an error status is an ApiRefused.

    A server that is about to end has done nothing of what it was asked for.
    """
    body = _body(method, path, response)
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if not response.is_success:
        detail = _text(answer.get("detail") if isinstance(answer, dict) else _beginning(body))
        if response.status_code == ENDING and "Retry-After" in response.headers:
            server = str(response.url.join("/")).rstrip("/")
            request = f"{method} {path}"
            raise ApiUnreachable(server, detail, maybe_received=False, request=request)
        raise ApiRefused(method, path, response.status_code, detail)
    if answer is None:
        raise ApiRefused(method, path, response.status_code, "the answer is not JSON")
    return answer


def _body(method: str, path: str, response: httpx.Response) -> bytes:
    """Return the body of an answer, as far as it comes; it may have no end."""
    _check_plain(method, path, response)
    parts: list[bytes] = []
    size = 0
    for part in response.iter_bytes():
        parts.append(part)
        size += len(part)
        if size > LARGEST_ANSWER:
            text = f"the answer has more than {LARGEST_ANSWER >> 20} MB"
            raise ApiRefused(method, path, response.status_code, text)
    return b"".join(parts)


def _check_plain(method: str, path: str, response: httpx.Response) -> None:
    packing = response.headers.get("Content-Encoding", "identity")
    if packing.lower() != "identity":
        text = f"the answer is compressed ({packing[:20]}), which was not asked for"
        raise ApiRefused(method, path, response.status_code, text)


def _beginning(body: bytes) -> str:
    return body[:500].decode("utf-8", "replace")


def _text(detail: object) -> str:
    """Return the detail of an error for people; some servers send a list of problems."""
    if isinstance(detail, list):
        return "; ".join(str(d.get("msg", d)) if isinstance(d, dict) else str(d) for d in detail)
    return "" if detail is None else str(detail)


def _status(word: object) -> TerminalStatus:
    try:
        return TerminalStatus(str(word))
    except ValueError:
        return TerminalStatus.UNKNOWN


def _delivery(answer: Answer) -> Delivery:
    if "confirmed" not in answer:
        took = "took" if answer.get("success") else "did not take"
        return Delivery(False, f"the server {took} the message and does not say what came of it")
    return Delivery(
        confirmed=answer["confirmed"] is True,
        detail=str(answer.get("detail", "")),
        enter_presses=_count(answer.get("enter_presses")),
        removed_characters=_count(answer.get("removed_characters")),
    )


def _count(number: object) -> int:
    return number if isinstance(number, int) else 0


def _readable(stream: Iterator[httpx_sse.ServerSentEvent]) -> Iterator[TerminalEvent]:
    """Yield the events among what a server sends, whatever else it sends.

    What has no data is none: a sign of life looks like that, once an event has had an id.
    """
    complained = False
    for sse in stream:
        event = _event(sse) if sse.data else None
        if event is not None:
            yield event
        elif sse.data and not complained:
            complained = True
            logger.warning("an event that cannot be read is left out: %.200r", sse.data[:200])


def _event(sse: httpx_sse.ServerSentEvent) -> TerminalEvent | None:
    try:
        fields = json.loads(sse.data)
        return TerminalEvent(
            id=sse.id if _can_be_sent_back(sse.id) else "",
            kind=sse.event,
            terminal_id=str(fields["terminal_id"]),
            session_name=str(fields.get("session_name", "")),
            status=_status(fields.get("status")),
            reason=str(fields.get("reason", "")),
            at=float(fields.get("at", 0)),
            alive=fields.get("alive") is not False,
            exit_code=fields.get("exit_code"),
            action=str(fields.get("action", ""))[:LONGEST_ACTION],
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def _can_be_sent_back(event_id: str) -> bool:
    return event_id.isascii() and event_id.isprintable() and len(event_id) <= LONGEST_EVENT_ID
