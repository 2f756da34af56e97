"""Requests to one server, and its streams of events: what fails is an ApiError.

Answers come from a server that may not be ours: none is unpacked, and none goes on without end.
"""

import contextlib
import json
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

import httpcore
import httpx
import httpx_sse

from ..errors import (
    ApiRefused,
    ApiUnreachable,
    BadMessage,
    ConfigError,
    UsageError,
    in_words,
    named_in_path,
)
from ..settings.config import DEFAULT_API, LAST_PORT

IDLE_CONNECTION_SECONDS = 4
"""Shorter than servers keep an unused connection, so that none is used that just closed."""
WRITE_SIZE = 64 * 1024


class TimedStream(httpcore.NetworkStream):
    """A connection on which a whole request and its answer take no longer than one read may."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream
        self._begun: float | None = None
        self._answered = True

    def follow(self) -> None:
        """Let this answer go on without end; only each read is limited."""
        self._begun = None

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self._answered:
            self._answered = False
            self._begun = time.monotonic()
        for start in range(0, len(buffer), WRITE_SIZE):
            left = self._left(timeout, httpcore.WriteTimeout)
            self._stream.write(buffer[start : start + WRITE_SIZE], left)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._answered = True
        return self._stream.read(max_bytes, self._left(timeout, httpcore.ReadTimeout))

    def _left(self, timeout: float | None, error: type[httpcore.TimeoutException]) -> float | None:
        if timeout is None or self._begun is None:
            return timeout
        left = self._begun + timeout - time.monotonic()
        if left <= 0:
            raise error(f"the whole answer was not there after {timeout:g} s")
        return left

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        return TimedStream(self._stream.start_tls(ssl_context, server_hostname, timeout))

    # Any: whatever httpcore knows of a connection
    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class TimedBackend(httpcore.SyncBackend):
    """Makes such connections."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        stream = super().connect_tcp(host, port, timeout, local_address, socket_options)
        return TimedStream(stream)


class TimedTransport(httpx.HTTPTransport):
    """httpx's own transport, over such connections."""

    def __init__(self) -> None:
        # Not by the inherited constructor: it reads all certificates, which http does not need.
        # No proxy and no .netrc: the token goes to the server and nowhere else.
        self._pool = httpcore.ConnectionPool(
            max_connections=None,
            keepalive_expiry=IDLE_CONNECTION_SECONDS,
            network_backend=TimedBackend(),
        )


# For a whole answer, not only for the next part of it: see `transport.py`.
QUICK = httpx.Timeout(30, connect=5, pool=5)
FOLLOWING = httpx.Timeout(50, connect=5, pool=5)
"""Longer than three heartbeats of an event stream: after that it is dead."""

ENDING = 503
"""With `Retry-After`: nothing was done, because the server ends."""
LARGEST_ANSWER = 64 * 1024 * 1024
"""Bytes of an answer: the scrollback of a terminal is far below."""
LARGEST_EVENT = 1024 * 1024
"""Bytes of an event on the stream; ours have a few hundred."""
EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")

PLAIN = {"Accept-Encoding": "identity"}
"""What is packed may be much larger than it looks."""
JSON = {"Content-Type": "application/json"}
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

# Any: JSON from a server that may not be ours.
Answer = dict[str, Any]


class Connection:
    """The way to a server. May be used by several threads."""

    def __init__(
        self, base_url: str, token: str | None, transport: httpx.BaseTransport | None
    ) -> None:
        self.base_url = _checked(base_url)
        self._streams: weakref.WeakSet[_Stream] = weakref.WeakSet()
        self._http = httpx.Client(
            base_url=self.base_url,
            headers=PLAIN | ({"Authorization": f"Bearer {token}"} if token else {}),
            timeout=QUICK,
            transport=transport or TimedTransport(),
            # No proxy and no .netrc: the token goes to the server and nowhere else.
            trust_env=False,
        )

    def ask_object(
        self, method: str, path: str, timeout: httpx.Timeout = QUICK, **request: Any
    ) -> Answer:
        answer = self.ask(method, path, timeout, **request)
        if not isinstance(answer, dict):
            raise ApiRefused(method, path, 200, "the answer is not a JSON object")
        return answer

    def ask_list(self, path: str) -> list[Answer]:
        answer = self.ask("GET", path)
        if not isinstance(answer, list):
            raise ApiRefused("GET", path, 200, "the answer is not a list")
        return answer

    # Any: what httpx takes
    def ask(self, method: str, path: str, timeout: httpx.Timeout = QUICK, **request: Any) -> object:
        """Send a request and return the JSON of its answer."""
        try:
            with self._http.stream(method, path, timeout=timeout, **request) as response:
                return _read(method, path, response)
        except httpx.HTTPError as error:
            raise self._unreachable(method, path, error) from error
        except (httpx.InvalidURL, UnicodeError) as error:
            raise _unusable(path, error) from None

    def follow(
        self, path: str, after: str = "", opened: Callable[[], None] | None = None
    ) -> Iterator[httpx_sse.ServerSentEvent]:
        """Yield the events of a stream, from the one with the id `after` on; see `close_streams`.

        A connection that breaks is an ApiUnreachable. `opened` is called once it is there.
        """
        stream = _Stream(opened)
        self._streams.add(stream)
        return self._follow(path, stream, {"Last-Event-ID": after} if after else {})

    def close_streams(self) -> None:
        """End all streams, also those in which another thread waits."""
        for stream in list(self._streams):
            stream.stop()

    def close(self) -> None:
        self.close_streams()
        self._http.close()

    def _follow(
        self, path: str, stream: "_Stream", headers: Mapping[str, str]
    ) -> Iterator[httpx_sse.ServerSentEvent]:
        try:
            with httpx_sse.connect_sse(
                self._http, "GET", path, headers=headers, timeout=FOLLOWING
            ) as source:
                if source.response.status_code != 200:
                    _read("GET", path, source.response)
                _check_plain("GET", path, source.response)
                source.response.stream = _Bounded(source.response.stream, path)
                stream.attach(source.response)
                if not stream.stopped:
                    yield from source.iter_sse()
        except httpx_sse.SSEError:
            raise ApiRefused("GET", path, 200, "the answer is no event stream") from None
        except httpx.HTTPError as error:
            if not stream.stopped:
                raise self._unreachable("GET", path, error) from error
        except (httpx.InvalidURL, UnicodeError) as error:
            raise _unusable(path, error) from None

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

    def __init__(self, stream: httpx.SyncByteStream | httpx.AsyncByteStream, path: str) -> None:
        assert isinstance(stream, httpx.SyncByteStream), "the client is a synchronous one"
        self._stream = stream
        self._path = path

    def __iter__(self) -> Iterator[bytes]:
        size, tail = 0, b""
        for part in self._stream:
            seen = tail + part
            end = max(seen.rfind(mark) for mark in EVENT_ENDS)
            size = size + len(part) if end < 0 else len(seen) - end
            if size > LARGEST_EVENT:
                text = f"an event has more than {LARGEST_EVENT >> 20} MB"
                raise ApiRefused("GET", self._path, 200, text)
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


def segment(name: str) -> str:
    """Return a name as one part of a path, from which it cannot break out."""
    with contextlib.suppress(UnicodeEncodeError):
        if name not in ("", ".", ".."):
            return quote(name, safe="")
    raise UsageError(f"{name!r} is not the name of a terminal, session or run")


def _unusable(path: str, error: Exception) -> UsageError:
    kind, name, _ = named_in_path(path)
    return UsageError(f"{kind} {name[:100]!r} cannot be asked for: {error}")


# Any: JSON
def body_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a request with a JSON body is made of; fields that are None are left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    try:
        content = json.dumps(given, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise BadMessage("a text holds half a character and cannot be sent") from None
    except (TypeError, ValueError) as error:
        raise UsageError(f"it cannot be sent: {error}") from None
    return {"content": content, "headers": JSON}


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
