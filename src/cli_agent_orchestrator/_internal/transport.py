"""How requests reach a server: an answer takes no longer than it may, however slowly it comes.

httpx limits each read. Who sends a byte now and then would be listened to without end.
"""

import ssl
import time
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

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
