"""Requests to one server, and its streams of events: what fails is an ApiError."""

import contextlib
import json
import socket
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import httpx_sse

from ..errors import ApiRefused, ApiUnreachable, ConfigError, UsageError, in_words, named_in_path
from ..settings.config import DEFAULT_API, LAST_PORT

QUICK = httpx.Timeout(30, connect=5, pool=5)
FOLLOWING = httpx.Timeout(50, connect=5, pool=5)
"""Longer than three heartbeats of an event stream: after that it is dead."""
LIMITS = httpx.Limits(max_connections=None, keepalive_expiry=4)
"""Unused connections are kept shorter than servers keep them, so that none is used that just
closed."""
ENDING = 503
"""With `Retry-After`: nothing was done, because the server ends."""
JSON = {"Content-Type": "application/json"}
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

# Any: JSON from a server that may not be ours.
Answer = dict[str, Any]


def socket_transport(path: Path) -> httpx.HTTPTransport:
    """Return the way to a server that listens on a Unix socket."""
    # Reading certificates takes time, and nothing is encrypted here.
    return httpx.HTTPTransport(uds=str(path), verify=False, limits=LIMITS)


class Connection:
    """The way to a server. May be used by several threads."""

    def __init__(
        self, base_url: str, token: str | None, transport: httpx.BaseTransport | None = None
    ) -> None:
        url = _checked(base_url)
        self.base_url = str(url).rstrip("/")
        self._streams: weakref.WeakSet[_Stream] = weakref.WeakSet()
        self._http = httpx.Client(
            base_url=self.base_url,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=QUICK,
            transport=transport or httpx.HTTPTransport(verify=url.scheme == "https", limits=LIMITS),
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
            response = self._http.request(method, path, timeout=timeout, **request)
        except httpx.HTTPError as error:
            raise self._unreachable(method, path, error) from error
        except (httpx.InvalidURL, UnicodeError) as error:
            raise _unusable(path, error) from None
        return _read(method, path, response)

    def follow(
        self, path: str, after: str = "", opened: Callable[[], None] | None = None
    ) -> Iterator[httpx_sse.ServerSentEvent]:
        """Yield the events of a stream, from the one with the id `after` on; see `close_streams`.

        A connection that breaks is an ApiUnreachable. `opened` is called once it is there.
        """
        stream = _Stream()
        self._streams.add(stream)
        return self._follow(path, stream, {"Last-Event-ID": after} if after else {}, opened)

    def _follow(
        self,
        path: str,
        stream: "_Stream",
        headers: Mapping[str, str],
        opened: Callable[[], None] | None,
    ) -> Iterator[httpx_sse.ServerSentEvent]:
        try:
            with httpx_sse.connect_sse(
                self._http, "GET", path, headers=headers, timeout=FOLLOWING
            ) as source:
                if source.response.status_code != 200:
                    source.response.read()
                    _read("GET", path, source.response)
                stream.attach(source.response)
                if opened is not None:
                    opened()
                if not stream.stopped:
                    yield from source.iter_sse()
        except httpx_sse.SSEError:
            raise ApiRefused("GET", path, 200, "the answer is no event stream") from None
        except httpx.HTTPError as error:
            if not stream.stopped:
                raise self._unreachable("GET", path, error) from error
        except (httpx.InvalidURL, UnicodeError) as error:
            raise _unusable(path, error) from None

    def close_streams(self) -> None:
        """End all streams, also those in which another thread waits."""
        for stream in list(self._streams):
            stream.stop()

    def close(self) -> None:
        self.close_streams()
        self._http.close()

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

    def __init__(self) -> None:
        self.stopped = False
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def attach(self, response: httpx.Response) -> None:
        network = response.extensions.get("network_stream")
        with self._lock:
            self._socket = network.get_extra_info("socket") if network is not None else None

    def stop(self) -> None:
        with self._lock:
            self.stopped = True
            if self._socket is not None:
                # Closing would not wake the reader; a shutdown does. It may be over already.
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)


def _checked(base_url: str) -> httpx.URL:
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
    return url


def segment(name: str) -> str:
    """Return a name as one part of a path, from which it cannot break out."""
    if name in ("", ".", ".."):
        raise UsageError(f"{name!r} is not the name of a terminal, session or run")
    return quote(name, safe="", errors="replace")


def _unusable(path: str, error: Exception) -> UsageError:
    kind, name, _ = named_in_path(path)
    return UsageError(f"{kind} {name[:100]!r} cannot be asked for: {error}")


# Any: JSON
def body_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a request with a JSON body is made of; fields that are None are left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    try:
        text = json.dumps(given, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"it cannot be sent: {error}") from None
    return {"content": text.encode("utf-8", "replace"), "headers": JSON}


def _read(method: str, path: str, response: httpx.Response) -> object:
    """Return the JSON of an answer; an error status is an ApiRefused.

    A server that is about to end has done nothing of what it was asked for.
    """
    try:
        answer = json.loads(response.content)
    except (ValueError, RecursionError):
        answer = None
    if not response.is_success:
        detail = answer.get("detail") if isinstance(answer, dict) else response.text[:500]
        if isinstance(detail, list):  # some servers send a list of problems
            detail = "; ".join(str(d.get("msg", d) if isinstance(d, dict) else d) for d in detail)
        text = "" if detail is None else str(detail)
        if response.status_code == ENDING and "Retry-After" in response.headers:
            server = str(response.url.join("/")).rstrip("/")
            request = f"{method} {path}"
            raise ApiUnreachable(server, text, maybe_received=False, request=request)
        raise ApiRefused(method, path, response.status_code, text)
    if answer is None:
        raise ApiRefused(method, path, response.status_code, "the answer is not JSON")
    return answer
