"""The client that a command is given."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from cli_agent_orchestrator.cli.connect import connected
from cli_agent_orchestrator.errors import ApiUnreachable
from tests.api.running import TOKEN, running_api
from tests.third_party import third_party


def test_who_takes_the_port_after_the_proof_is_sent_neither_token_nor_message(
    tmp_path: Path,
) -> None:
    (tmp_path / "token").write_text(TOKEN, encoding="utf-8")
    environ = {"CAO_STATE_DIR": str(tmp_path)}
    with ExitStack() as stack:
        ours = stack.enter_context(running_api())
        with connected(environ, default_port=ours.port) as client:
            stack.close()
            with third_party(ours.port) as thief, pytest.raises(ApiUnreachable):
                client.send_input("0badcafe", "a secret")
    assert {asked.path for asked in thief.asked} == {"/identity"}
    assert {asked.authorization for asked in thief.asked} == {None}
