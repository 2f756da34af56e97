"""An address with https: a server that cannot prove its name gets no token."""

import shutil
import socket
import ssl
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.errors import ApiUnreachable


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_who_vouches_for_himself_is_not_talked_to(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make, *name, *files], capture_output=True, check=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    heard: list[bytes] = []

    def listen() -> None:
        with suppress(OSError), listener, listener.accept()[0] as connection:
            heard.append(context.wrap_socket(connection, server_side=True).recv(100))

    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    thread = threading.Thread(target=listen)
    thread.start()
    with (
        ApiClient(f"https://localhost:{port}", token="secret") as client,
        pytest.raises(ApiUnreachable, match="certificate") as caught,
    ):
        client.health()
    thread.join()
    assert not caught.value.maybe_received
    assert heard in ([], [b""])
