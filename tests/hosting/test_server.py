"""What a server hands on to the runs that it starts, and to the server that takes its place."""

import stat
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.sockets import ADDRESS_FILE
from cli_agent_orchestrator.hosting.server import environment_of_runs, own_server, port_left_in
from cli_agent_orchestrator.settings.config import ServerConfig
from tests.e2e.runs import free_port


def test_a_run_that_a_server_starts_names_no_server_and_no_task_of_its_own() -> None:
    config = ServerConfig.from_env(
        {
            "CAO_STATE_DIR": "/s",
            "CAO_PORT": "1234",
            "CAO_API": "http://localhost:1",
            "API": "http://localhost:2",
            "PROMPT": "another task",
            "WD": "/elsewhere",
            "CAO_CODEX_ARGS": "-m x",
            "PATH": "/bin",
        }
    )
    assert environment_of_runs(config) == {
        "CAO_STATE_DIR": "/s",
        "CAO_PORT": "1234",
        "CAO_CODEX_ARGS": "-m x",
        "PATH": "/bin",
    }


@pytest.mark.tmux
def test_the_server_that_takes_the_place_of_a_killed_one_takes_its_port_too(tmp_path: Path) -> None:
    """So an open page comes back, and whoever has named the port."""
    port = free_port()
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / ADDRESS_FILE).write_text(f"http://127.0.0.1:{port}", encoding="utf-8")
    environ = {
        "CAO_STATE_DIR": str(state),
        "CAO_CONFIG_DIR": str(tmp_path),
        "CAO_PORT": "0",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "TMUX_TMPDIR": str(tmp_path),
    }
    with own_server(environ) as (url, _):
        assert url == f"http://127.0.0.1:{port}"
        assert stat.S_IMODE((state / ADDRESS_FILE).stat().st_mode) == 0o600
    assert port_left_in(state) == 0
    for left in (b"", b"1", b"http://127.0.0.1:x", b"//[", b"\xff", b"\0"):
        (state / ADDRESS_FILE).write_bytes(left)
        assert port_left_in(state) == 0
