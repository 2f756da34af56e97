"""Which server is used, and what a server is told that is not."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.client.find import Found, Named, find_server, name_server
from cli_agent_orchestrator.core.sockets import (
    ADDRESS_FILE,
    FOLDER,
    LASTING,
    LONGEST_PATH,
    PASSING,
    find_socket,
    listening,
    server_url,
)
from cli_agent_orchestrator.errors import ApiUnreachable, ConfigError, UsageError
from tests.e2e.runs import free_port
from tests.server.running import RunningApi, running_api
from tests.third_party import ThirdParty


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"CAO_STATE_DIR": str(tmp_path)}


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[RunningApi]:
    with running_api(state=tmp_path) as api:
        yield api


class TestNaming:
    def test_the_option_comes_first_then_cao_api_then_api(self) -> None:
        environ = {"CAO_API": "http://b:1", "API": "http://c:1/", "CAO_PORT": "7"}
        assert name_server(environ, "http://a:1") == Named("http://a:1", "--api")
        assert name_server(environ, "http://a:1", by="api=") == Named("http://a:1", "api=")
        assert name_server(environ) == Named("http://b:1", "CAO_API")
        del environ["CAO_API"]
        assert name_server(environ, bare=True) == Named("http://c:1", "API")
        environ["API"] = " "
        # nor does a port name anybody
        assert name_server(environ, "", bare=True) is None

    @pytest.mark.parametrize(
        ("host", "url"),
        [("::1", "http://[::1]:7"), ("0.0.0.0", "http://127.0.0.1:7"), ("::", "http://[::1]:7")],
    )
    def test_an_address_is_one_that_can_be_reached(self, host: str, url: str) -> None:
        assert server_url(host, 7) == url


class TestNamed:
    @pytest.mark.parametrize("by", ["CAO_API", "cao.toml"])
    def test_one_that_is_not_there_is_an_error_that_names_who_named_it(
        self, environ: dict[str, str], ours: RunningApi, by: str
    ) -> None:
        url = f"http://127.0.0.1:{free_port()}"
        with pytest.raises(ApiUnreachable) as caught:
            find_server(environ, Named(url, by))
        assert caught.value.url == f"{url} (named by {by})"
        with pytest.raises(ConfigError) as bad:
            find_server(environ, Named("localhost", by))
        assert bad.value.variable == by

    @pytest.mark.parametrize(("by", "token"), [("CAO_API", "given"), ("the saved run", None)])
    def test_a_token_that_the_user_gave_goes_where_the_user_said_after_it_was_found(
        self, environ: dict[str, str], theirs: ThirdParty, by: str, token: str | None
    ) -> None:
        theirs.answers["/health"] = (404, b"not json")
        environ["CAO_TOKEN"] = "given"
        found = find_server(environ, Named(theirs.url, by))
        assert found == Found(theirs.url, f"named by {by}", token=token)
        assert {(one.path, one.authorization) for one in theirs.asked} == {("/health", None)}

    @pytest.mark.parametrize("token", ["two\nlines", "caf\u00e9", "\x00"])
    def test_a_token_that_is_none_is_an_error_that_hides_it(
        self, environ: dict[str, str], theirs: ThirdParty, token: str
    ) -> None:
        environ["CAO_TOKEN"] = token
        with pytest.raises(ConfigError) as caught:
            find_server(environ, Named(theirs.url, "CAO_API"))
        assert caught.value.variable == "CAO_TOKEN"
        assert token not in str(caught.value)

    def test_a_stranger_that_only_a_project_names_is_refused(
        self, environ: dict[str, str], theirs: ThirdParty
    ) -> None:
        environ["CAO_TOKEN"] = "given"
        with pytest.raises(ConfigError) as caught:
            find_server(environ, Named(theirs.url, "cao.toml"))
        assert f"CAO_API={theirs.url}" in str(caught.value)
        assert {one.authorization for one in theirs.asked} == {None}

    @pytest.mark.parametrize(("by", "host"), [("CAO_API", "127.0.0.1"), ("cao.toml", "localhost")])
    def test_the_users_own_is_reached_over_its_socket(
        self, environ: dict[str, str], ours: RunningApi, tmp_path: Path, by: str, host: str
    ) -> None:
        environ["CAO_TOKEN"] = "of another server"
        found = find_server(environ, Named(f"http://{host}:{ours.port}", by))
        path = find_socket(tmp_path, LASTING)
        assert found == Found(ours.url, f"named by {by}", path)


class TestOwn:
    def test_it_is_found_where_it_listens_and_asks_for_no_token(
        self, environ: dict[str, str], tmp_path: Path
    ) -> None:
        assert find_server(environ) is None
        # One that was killed leaves both.
        (tmp_path / FOLDER).mkdir(mode=0o700)
        with socket.socket(socket.AF_UNIX) as dead, chdir(tmp_path):
            dead.bind(f"{FOLDER}/{LASTING}")
        (tmp_path / ADDRESS_FILE).write_text(f"http://127.0.0.1:{free_port()}")
        assert find_server(environ) is None
        with running_api(state=tmp_path) as ours:
            found = find_server(environ, lasting=True)
            assert found is not None
            assert (found.url, found.token) == (ours.url, None)
            with ApiClient(found.url, transport=found.transport) as client:
                assert client.list_sessions() == []

    def test_that_of_a_short_command_is_none_that_lasts(
        self, environ: dict[str, str], tmp_path: Path
    ) -> None:
        with running_api(state=tmp_path, lasting=False):
            assert find_server(environ, lasting=True) is None
            found = find_server(environ)
            assert found is not None
            assert found.socket == find_socket(tmp_path, PASSING)

    def test_a_state_folder_of_others_is_refused(
        self, environ: dict[str, str], tmp_path: Path
    ) -> None:
        tmp_path.chmod(0o777)
        with pytest.raises(UsageError):
            find_server(environ)


class TestSockets:
    def test_where_the_path_is_too_long_they_are_elsewhere(self, tmp_path: Path) -> None:
        runtime = tmp_path / "r"
        runtime.mkdir(mode=0o700)
        state = tmp_path / ("x" * LONGEST_PATH)
        state.mkdir(mode=0o700)
        environ = {"XDG_RUNTIME_DIR": str(runtime)}
        for _ in range(2):
            with listening(state, LASTING, environ) as listener:
                path = find_socket(state, LASTING)
                assert path is not None
                assert path.parent.parent == runtime
                assert listener.getsockname() == str(path)
                assert path.parent.stat().st_mode & 0o777 == 0o700
            assert find_socket(state, LASTING) is None
            assert list(runtime.iterdir()) == []

    def test_a_folder_elsewhere_that_is_gone_or_of_others_is_not_used(self, tmp_path: Path) -> None:
        elsewhere = tmp_path / "elsewhere"
        (tmp_path / FOLDER).symlink_to(elsewhere)
        assert find_socket(tmp_path, LASTING) is None
        elsewhere.mkdir(mode=0o755)
        with socket.socket(socket.AF_UNIX) as theirs, chdir(elsewhere):
            theirs.bind(LASTING)
            assert find_socket(tmp_path, LASTING) is None
            with listening(tmp_path, LASTING, {}):
                path = find_socket(tmp_path, LASTING)
                assert path is not None
                assert path.parent != elsewhere


def test_a_server_that_does_nothing_is_not_used(environ: dict[str, str], tmp_path: Path) -> None:
    """It may be stopped; a connection to it can be opened all the same."""
    listen = (
        "import sys, pathlib\n"
        "from cli_agent_orchestrator.core.sockets import LASTING, listening\n"
        "with listening(pathlib.Path(sys.argv[1]), LASTING, {}):\n"
        "    print(flush=True)\n"
        "    input()\n"
    )
    words = [sys.executable, "-c", listen, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as silent:
        assert silent.stdout is not None
        silent.stdout.readline()
        silent.send_signal(signal.SIGSTOP)
        try:
            assert find_server(environ) is None
        finally:
            silent.send_signal(signal.SIGCONT)
            silent.communicate(b"\n")
