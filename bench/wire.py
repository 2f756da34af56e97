"""The server's HTTP without a library in between, so that only the server is measured."""

import json
import socket
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode

from bench.machine import PROFILE, PROVIDER, Machine, Server
from cli_agent_orchestrator.core.models import TerminalStatus

PATIENCE = 60.0

# Any: JSON of the server.
Answer = dict[str, Any]


class Wire:
    """One connection to the server that is kept open."""

    def __init__(self, server: Server) -> None:
        self._http = HTTPConnection(server.host, server.port, timeout=PATIENCE)
        self._headers = {"Authorization": f"Bearer {server.token}"}

    def ask(self, method: str, path: str, body: Answer | None = None) -> Answer:
        """Return the answer to one request; one that is refused ends the measure."""
        headers, content = self._headers, None
        if body is not None:
            headers = {**headers, "Content-Type": "application/json"}
            content = json.dumps(body).encode()
        self._http.request(method, path, content, headers)
        response = self._http.getresponse()
        answer = json.loads(response.read())
        if response.status >= 400:
            raise RuntimeError(f"{method} {path}: {response.status} {answer}")
        assert isinstance(answer, dict)
        return answer

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def new_terminal_path(machine: Machine, session: str | None = None) -> str:
    """Return what to POST to for a new terminal, in a session of its own if none is given."""
    query = urlencode(
        {"provider": PROVIDER, "agent_profile": PROFILE, "working_directory": str(machine.work)}
    )
    return f"/sessions?{query}" if session is None else f"/sessions/{session}/terminals?{query}"


class EventStream:
    """The status stream, read as it comes."""

    def __init__(self, server: Server) -> None:
        self._socket = socket.create_connection((server.host, server.port), PATIENCE)
        request = (
            f"GET /events HTTP/1.1\r\nHost: {server.host}:{server.port}\r\n"
            f"Authorization: Bearer {server.token}\r\n\r\n"
        )
        self._socket.sendall(request.encode())
        self._events = self._read()

    def wait_for(self, terminal_id: str, status: TerminalStatus) -> float:
        """Return the monotonic time at which the stream told that a terminal has a status."""
        for event in self._events:
            if event["kind"] == "snapshot":
                continue
            if event["terminal_id"] == terminal_id and event["status"] == status:
                return time.monotonic()
        raise RuntimeError("the status stream ended")

    def _read(self) -> Iterator[Answer]:
        rest = b""
        while data := self._socket.recv(65536):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if line.startswith(b"data:"):
                    yield json.loads(line.removeprefix(b"data:"))

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> "EventStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
