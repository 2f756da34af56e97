"""What a server hands on to the runs that it starts, and to the server that takes its place."""

import stat
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.sockets import ADDRESS_FILE
from cli_agent_orchestrator.hosting.server import environment_of_runs, own_server
from cli_agent_orchestrator.settings.config import ServerConfig


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
def test_the_address_of_a_server_is_there_for_the_user_alone_while_it_runs(tmp_path: Path) -> None:
    state = tmp_path / "state"
    environ = {
        "CAO_STATE_DIR": str(state),
        "CAO_CONFIG_DIR": str(tmp_path),
        "CAO_PORT": "0",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "TMUX_TMPDIR": str(tmp_path),
    }
    with own_server(environ) as (url, _):
        assert (state / ADDRESS_FILE).read_text() == url
        assert stat.S_IMODE((state / ADDRESS_FILE).stat().st_mode) == 0o600
    assert not (state / ADDRESS_FILE).exists()
