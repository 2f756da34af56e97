"""A server by somebody else: it has the common routes and nothing of ours."""

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes
    authorization: str | None
    host: str | None


@dataclass
class ThirdParty:
    """What the server was asked, and the odd things it may answer."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    status: object = "idle"
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """By path: an answer to give instead of the usual one."""

    def answer(self, asked: Asked) -> tuple[int, bytes]:
        self.asked.append(asked)
        if asked.path in self.answers:
            return self.answers[asked.path]
        code, content = self._usual(asked)
        return code, json.dumps(content).encode()

    def _usual(self, asked: Asked) -> tuple[int, object]:
        terminal = {"id": "0badcafe", "session_name": "cao-theirs", "status": self.status}
        match asked.method, asked.path.strip("/").split("/"):
            case "GET", ["health"]:
                return 200, {"status": "ok", "service": "theirs"}
            case "POST", ["sessions"] | ["sessions", _, "terminals"]:
                return 201, terminal
            case "GET", ["terminals", "0badcafe"]:
                return 200, terminal
            case "GET", ["terminals", "0badcafe", "output"]:
                return 200, {"output": "their answer", "mode": asked.query["mode"]}
            case ("POST", ["terminals", "0badcafe", "input" | "exit"]) | (
                "DELETE",
                ["terminals", "0badcafe"],
            ):
                return 200, {"success": True}
        return 404, {"detail": "Not Found"}


@contextlib.contextmanager
def third_party(port: int = 0, own: ThirdParty | None = None) -> Iterator[ThirdParty]:
    """Run the server until the block is left."""
    state = own or ThirdParty()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            address = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(address.query).items()}
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            token = self.headers.get("Authorization")
            asked = Asked(self.command, address.path, query, body, token, self.headers.get("Host"))
            code, content = state.answer(asked)
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = handle_any

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
