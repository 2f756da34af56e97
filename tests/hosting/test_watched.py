"""Whether the user looks at the agents of a session, asked of a real tmux."""

import os
import pty
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_agent_orchestrator.hosting.environment import is_watched
from cli_agent_orchestrator.settings.config import tmux_socket

pytestmark = pytest.mark.tmux
SESSION = "cao-20261115-084037-k3f9"


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    own = {name: text for name, text in os.environ.items() if not name.startswith("TMUX")}
    environ = {**own, "CAO_STATE_DIR": str(tmp_path), "TERM": "xterm"}
    tmux = ["tmux", "-L", tmux_socket(tmp_path), "-f", "/dev/null"]
    subprocess.run(
        [*tmux, "new-session", "-d", "-s", SESSION, "sleep 600"], env=environ, check=True
    )
    yield environ
    subprocess.run([*tmux, "kill-server"], env=environ, check=True)


def test_an_agent_is_watched_while_the_user_is_attached_to_it(
    environ: dict[str, str], tmp_path: Path
) -> None:
    assert not is_watched(SESSION, environ)
    assert is_watched("cao-of-another-server", environ), "it may be watched elsewhere"
    ours, theirs = pty.openpty()
    words = ["tmux", "-L", tmux_socket(tmp_path), "attach", "-t", f"={SESSION}"]
    client = subprocess.Popen(words, env=environ, stdin=theirs, stdout=theirs, stderr=theirs)
    try:
        deadline = time.monotonic() + 60
        while not is_watched(SESSION, environ):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        client.terminate()
        client.wait(60)
        os.close(ours)
        os.close(theirs)
