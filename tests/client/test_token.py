"""Which token is found, and who gets it."""

import os
import subprocess
from pathlib import Path

import httpx
import pytest

from cli_agent_orchestrator.client import ApiClient, find_server, find_token, is_loopback
from cli_agent_orchestrator.errors import (
    ApiRefused,
    ConfigError,
)
from tests.third_party import ThirdParty


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "token").write_text("from-file\n")
    (tmp_path / "server").write_text(f"{os.getpid()} http://127.0.0.1:9889")
    return {"CAO_STATE_DIR": str(tmp_path)}


@pytest.mark.parametrize(
    "url",
    ["http://localhost:9889", "http://127.0.0.1:9889", "http://[::1]:9889"],
)
def test_our_own_server_gets_the_token_of_the_file(environ: dict[str, str], url: str) -> None:
    assert find_token(environ, url) == "from-file"


@pytest.mark.parametrize(
    "url",
    [
        "http://evil.example",
        "http://localhost.evil.example",
        "http://10.0.0.1",
        "http://[::2]",
        "",
    ],
)
def test_another_host_never_gets_it(environ: dict[str, str], url: str) -> None:
    assert find_token(environ, url) is None


@pytest.mark.parametrize("url", ["http://localhost:9890", "http://127.0.0.1"])
def test_another_program_on_this_machine_never_gets_it(environ: dict[str, str], url: str) -> None:
    assert find_token(environ, url) is None


def test_a_program_that_took_the_port_of_a_dead_server_does_not_get_it(
    environ: dict[str, str], tmp_path: Path
) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / "server").write_text(f"{ended.pid} http://127.0.0.1:9889")
    assert find_server(environ) is None
    assert find_token(environ) is None


@pytest.mark.parametrize("text", ["", "1", "x http://127.0.0.1:9889", "9" * 40 + " http://x"])
def test_a_damaged_address_file_means_no_server(
    environ: dict[str, str], tmp_path: Path, text: str
) -> None:
    (tmp_path / "server").write_text(text)
    assert find_server(environ) is None


def test_a_token_given_by_the_user_comes_first(environ: dict[str, str]) -> None:
    environ["CAO_TOKEN"] = "given"
    assert find_token(environ) == "given"
    assert find_token(environ, "https://build.example") == "given"


def test_no_file_means_no_token(tmp_path: Path) -> None:
    assert find_token({"CAO_STATE_DIR": str(tmp_path / "none")}) is None


def test_an_empty_file_means_no_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    (tmp_path / "server").write_text(f"{os.getpid()} http://127.0.0.1:9889")
    assert find_token({"CAO_STATE_DIR": str(tmp_path)}) is None


@pytest.mark.parametrize("token", ["two\nlines", "caf\u00e9", "\x00"])
def test_a_token_that_is_none_is_a_clear_error_that_hides_it(token: str) -> None:
    with pytest.raises(ConfigError, match="CAO_TOKEN") as caught:
        find_token({"CAO_TOKEN": token})
    assert token not in str(caught.value)


def test_the_token_goes_with_every_request(theirs: ThirdParty) -> None:
    with ApiClient(theirs.url, token="t0ken") as client:
        client.health()
        client.get_terminal("0badcafe")
    assert {asked.authorization for asked in theirs.asked} == {"Bearer t0ken"}


def test_the_token_does_not_follow_a_redirection(theirs: ThirdParty) -> None:
    seen: list[str] = []

    def redirect(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.host)
        return httpx.Response(307, headers={"Location": "http://evil.example/"})

    with (
        ApiClient(token="t0ken", transport=httpx.MockTransport(redirect)) as client,
        pytest.raises(ApiRefused),
    ):
        client.get_terminal("a1b2c3d4")
    assert seen == ["localhost"]


def test_a_strange_address_is_not_this_machine() -> None:
    assert not is_loopback("http://[::1")
