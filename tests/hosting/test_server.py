"""What a server hands on to the runs that it starts."""

from cli_agent_orchestrator._internal.config import ServerConfig
from cli_agent_orchestrator._internal.hosting.server import environment_of_runs


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
        "CAO_PORT": "0",
        "CAO_CODEX_ARGS": "-m x",
        "PATH": "/bin",
    }
