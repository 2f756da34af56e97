"""An address with https: a server that cannot prove its name gets no token."""

import http.server
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.errors import ApiUnreachable

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


class Listening(http.server.BaseHTTPRequestHandler):
    """Notes what it is asked."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_error(500)


@pytest.fixture
def impostor(tmp_path: Path) -> Iterator[tuple[int, list[str]]]:
    """A server with a certificate that it made itself, and what it was asked."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make, *name, *files], capture_output=True, check=True)
    asked: list[str] = []
    handler = type("Noting", (Listening,), {"asked": asked})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_address[1], asked
        server.shutdown()
        thread.join()


def test_who_vouches_for_himself_is_not_talked_to(impostor: tuple[int, list[str]]) -> None:
    port, asked = impostor
    with (
        ApiClient(f"https://localhost:{port}", token="secret") as client,
        pytest.raises(ApiUnreachable, match="certificate") as caught,
    ):
        client.health()
    assert not caught.value.maybe_received
    assert asked == []
