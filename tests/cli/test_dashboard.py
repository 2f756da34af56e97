"""The link that a server makes for a browser is checked before anybody opens it."""

import json

import pytest

from cli_agent_orchestrator.cli.dashboard import ask_for_link
from cli_agent_orchestrator.client.find import Found
from cli_agent_orchestrator.errors import UsageError
from tests.third_party import third_party

CODE = "b6Zk-_0123456789"


def asked_for_link(path: object) -> str:
    """Return what becomes of a link that a server answers with."""
    with third_party() as server:
        server.answers["/dashboard/links"] = 201, json.dumps({"path": path}).encode()
        return ask_for_link(Found(server.url, "named", token="token"))


@pytest.mark.parametrize(
    "path",
    [
        None,
        f"@evil.org/dashboard/sign-in#{CODE}",
        f"/dashboard/sign-in#{CODE}\n",
        f"/dashboard/sign-in#{CODE}\x1b]0;x\x07",
        f"/dashboard/sign-in#{CODE * 13}",
    ],
)
def test_nothing_but_a_link_of_ours_is_shown_or_opened(path: object) -> None:
    assert asked_for_link(f"/dashboard/sign-in#{CODE}") == f"/dashboard/sign-in#{CODE}"
    with pytest.raises(UsageError, match="is not yours"):
        asked_for_link(path)
