"""Which server is used, and what a server is told that is not."""

import contextlib
import os
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli_agent_orchestrator.client.find import (
    Discovery,
    Named,
    _candidates,
    _get,
    announced_server,
    discover,
    is_still_ours,
    known_tokens,
    name_server,
)
from cli_agent_orchestrator.core.identity import Found, server_url
from cli_agent_orchestrator.errors import ApiUnreachable, ConfigError
from tests.e2e.runs import free_port
from tests.server.running import TOKEN, RunningApi, running_api
from tests.third_party import ThirdParty, listening, third_party

WAIT_SECONDS = 60.0
MUCH = 8 * 1024 * 1024


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text(TOKEN, encoding="utf-8")
    return tmp_path


@pytest.fixture
def environ(state: Path) -> dict[str, str]:
    return {"CAO_STATE_DIR": str(state)}


@pytest.fixture
def ours() -> Iterator[RunningApi]:
    with running_api() as api:
        yield api


@pytest.fixture
def stranger() -> Iterator[ThirdParty]:
    with third_party() as theirs:
        yield theirs


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def announce(state: Path, url: str, pid: int | None = None) -> None:
    (state / "server").write_text(f"{pid or os.getpid()} {url}", encoding="utf-8")


def look(environ: dict[str, str], port: int | None = None) -> Discovery:
    """Look for a server as a command does that names none; the usual port is a private one."""
    named = name_server(environ, bare=True)
    return discover(environ, named, default_port=port or free_port())


class TestNaming:
    def test_the_option_comes_first_then_cao_api_then_api_then_the_port(self) -> None:
        environ = {"CAO_API": "http://b:1", "API": "http://c:1/", "CAO_PORT": "7"}
        assert name_server(environ, "http://a:1") == Named("http://a:1", "--api")
        assert name_server(environ, "http://a:1", by="api=") == Named("http://a:1", "api=")
        assert name_server(environ) == Named("http://b:1", "CAO_API")
        del environ["CAO_API"]
        assert name_server(environ, bare=True) == Named("http://c:1", "API")
        assert name_server(environ) == Named("http://127.0.0.1:7", "CAO_PORT")
        environ["API"] = " "
        assert name_server(environ, "") == Named("http://127.0.0.1:7", "CAO_PORT")

    @pytest.mark.parametrize("port", ["", "0"])
    def test_no_port_or_any_port_names_nobody(self, port: str) -> None:
        assert name_server({"CAO_PORT": port}) is None
        assert name_server({}) is None

    @pytest.mark.parametrize("port", ["many", "-1", "65536", "99999"])
    def test_a_port_that_is_none_is_said(self, port: str) -> None:
        with pytest.raises(ConfigError, match=r"CAO_PORT.*from 0 to 65535"):
            name_server({"CAO_PORT": port})

    @pytest.mark.parametrize(
        ("host", "url"),
        [
            ("127.0.0.1", "http://127.0.0.1:7"),
            ("::1", "http://[::1]:7"),
            ("0.0.0.0", "http://127.0.0.1:7"),
            ("::", "http://[::1]:7"),
            ("10.1.2.3", "http://10.1.2.3:7"),
        ],
    )
    def test_an_address_is_one_that_can_be_reached(self, host: str, url: str) -> None:
        assert server_url(host, 7) == url
        assert name_server({"CAO_HOST": host, "CAO_PORT": "7"}) == Named(url, "CAO_PORT")


class TestNamed:
    @pytest.mark.parametrize("variable", ["CAO_API", "API"])
    def test_one_that_is_not_there_is_an_error_that_says_who_named_it(
        self, environ: dict[str, str], state: Path, ours: RunningApi, variable: str
    ) -> None:
        announce(state, ours.url)
        environ[variable] = f"http://127.0.0.1:{free_port()}"
        with pytest.raises(ApiUnreachable, match=f"named by {variable}") as caught:
            look(environ, ours.port)
        assert environ[variable] in str(caught.value)

    def test_a_port_where_nobody_is_is_an_error_too(
        self, environ: dict[str, str], state: Path, ours: RunningApi
    ) -> None:
        announce(state, ours.url)
        environ["CAO_PORT"] = str(free_port())
        with pytest.raises(ApiUnreachable, match="named by CAO_PORT"):
            look(environ, ours.port)

    def test_an_address_that_is_none_is_said_with_who_named_it(
        self, environ: dict[str, str]
    ) -> None:
        environ["CAO_API"] = "localhost"
        with pytest.raises(ConfigError, match="CAO_API"):
            look(environ)

    def test_a_strangers_is_used_and_not_sent_our_token(
        self, environ: dict[str, str], stranger: ThirdParty
    ) -> None:
        environ["CAO_API"] = stranger.url
        assert look(environ).found == Found(stranger.url, None, "named by CAO_API", named=True)
        assert {asked.path for asked in stranger.asked} == {"/health", "/identity"}
        assert_kept_secret(stranger)

    def test_our_own_is_sent_the_token_that_it_proved_to_know(
        self, environ: dict[str, str], ours: RunningApi
    ) -> None:
        environ["CAO_API"] = f"http://localhost:{ours.port}"
        # By number: the name may lead to somebody else the next time.
        assert look(environ).found == Found(
            ours.url, TOKEN, "named by CAO_API", named=True, proved=True
        )

    def test_a_token_that_the_user_gave_goes_to_the_server_that_the_user_named(
        self, environ: dict[str, str], stranger: ThirdParty
    ) -> None:
        environ |= {"CAO_API": stranger.url, "CAO_TOKEN": "given"}
        assert look(environ).found == Found(stranger.url, "given", "named by CAO_API", named=True)

    def test_it_does_not_go_to_one_that_only_a_saved_run_names(
        self, environ: dict[str, str], stranger: ThirdParty
    ) -> None:
        environ["CAO_TOKEN"] = TOKEN
        found = discover(environ, Named(stranger.url, "the saved run")).found
        assert found == Found(stranger.url, None, "named by the saved run", named=True)
        assert_kept_secret(stranger)

    def test_a_stranger_that_only_a_project_names_is_refused(
        self, environ: dict[str, str], stranger: ThirdParty
    ) -> None:
        environ["CAO_TOKEN"] = TOKEN
        with pytest.raises(ConfigError, match="proves to be yours") as caught:
            discover(environ, Named(stranger.url, "cao.toml"))
        assert f"CAO_API={stranger.url}" in str(caught.value)
        assert_kept_secret(stranger)

    def test_our_own_may_be_named_by_a_project(
        self, environ: dict[str, str], ours: RunningApi
    ) -> None:
        environ["CAO_TOKEN"] = TOKEN
        proved = discover(environ, Named(ours.url, "cao.toml")).found
        assert proved is not None
        assert proved.token == TOKEN

    def test_a_server_without_health_is_there_all_the_same(
        self, environ: dict[str, str], stranger: ThirdParty
    ) -> None:
        stranger.answers["/health"] = (404, b"not json")
        environ["CAO_API"] = stranger.url
        assert look(environ).found is not None


class TestFound:
    def test_nobody_there_is_nobody_found(self, environ: dict[str, str]) -> None:
        assert look(environ) == Discovery(None)

    def test_the_server_of_the_state_folder_is_found_at_any_port(
        self, environ: dict[str, str], state: Path, ours: RunningApi
    ) -> None:
        announce(state, ours.url)
        assert look(environ) == Discovery(
            Found(ours.url, TOKEN, "of your state folder", proved=True)
        )

    def test_a_server_at_the_usual_port_is_found(
        self, environ: dict[str, str], ours: RunningApi
    ) -> None:
        found = look(environ, ours.port).found
        assert found == Found(ours.url, TOKEN, "at the usual port", proved=True)

    def test_one_that_asks_for_no_token_is_found_too(
        self, environ: dict[str, str], state: Path
    ) -> None:
        with running_api(token=None, identity=TOKEN) as open_to_all:
            announce(state, open_to_all.url)
            assert look(environ).found == Found(
                open_to_all.url, TOKEN, "of your state folder", proved=True
            )

    def test_one_that_knows_the_token_that_the_user_gave_is_found(
        self, tmp_path: Path, ours: RunningApi
    ) -> None:
        environ = {"CAO_STATE_DIR": str(tmp_path), "CAO_TOKEN": TOKEN}
        found = look(environ, ours.port).found
        assert found == Found(ours.url, TOKEN, "at the usual port", proved=True)

    def test_one_of_the_state_folder_is_found_whatever_other_token_the_user_gave(
        self, environ: dict[str, str], state: Path, ours: RunningApi
    ) -> None:
        announce(state, ours.url)
        environ["CAO_TOKEN"] = "of another server"
        assert look(environ).found == Found(ours.url, TOKEN, "of your state folder", proved=True)

    def test_where_any_port_will_do_there_is_no_usual_one(
        self, environ: dict[str, str], ours: RunningApi
    ) -> None:
        environ["CAO_PORT"] = "0"
        assert look(environ, ours.port) == Discovery(None)

    def test_proof_can_be_asked_for_again(self, ours: RunningApi, stranger: ThirdParty) -> None:
        assert is_still_ours(Found(ours.url, TOKEN, ""))
        assert not is_still_ours(Found(ours.url, "another token", ""))
        assert not is_still_ours(Found(ours.url, None, ""))
        assert not is_still_ours(Found(stranger.url, TOKEN, ""))
        assert not is_still_ours(Found(f"http://127.0.0.1:{free_port()}", TOKEN, ""))
        assert_kept_secret(stranger)


def assert_kept_secret(stranger: ThirdParty) -> None:
    """A stranger was sent nothing but a challenge, or asked for his health."""
    for asked in stranger.asked:
        assert asked.method == "GET"
        assert asked.authorization is None
        assert asked.body == b""
        assert set(asked.query) <= {"challenge"}
        assert TOKEN not in str(asked)


class TestStrangers:
    def test_a_stranger_at_the_usual_port_is_left_alone_and_that_is_said(
        self, environ: dict[str, str], stranger: ThirdParty
    ) -> None:
        discovery = look(environ, port_of(stranger.url))
        assert discovery.found is None
        assert f"CAO_API={stranger.url}" in discovery.remarks[0]
        assert [asked.path for asked in stranger.asked] == ["/identity"]
        assert_kept_secret(stranger)

    def test_a_stranger_who_took_the_port_of_our_server_is_left_alone(
        self, environ: dict[str, str], state: Path, stranger: ThirdParty, ours: RunningApi
    ) -> None:
        announce(state, stranger.url)
        discovery = look(environ, ours.port)
        assert discovery.found == Found(ours.url, TOKEN, "at the usual port", proved=True)
        assert "of your state folder" in discovery.remarks[0]
        assert_kept_secret(stranger)

    def test_another_users_server_of_our_own_kind_is_left_alone(
        self, environ: dict[str, str]
    ) -> None:
        with running_api(token=None, identity="another user's token") as theirs:
            assert look(environ, theirs.port).found is None
        with running_api(token=None) as without_any:
            assert look(environ, without_any.port).found is None

    def test_an_answer_that_was_heard_before_proves_nothing(self, environ: dict[str, str]) -> None:
        heard: list[bytes] = []

        def listen(connection: socket.socket) -> None:
            heard.append(connection.recv(1000).partition(b" HTTP")[0])

        with listening(listen) as port:
            look(environ, port)
            look(environ, port)
        first, second = heard
        assert b"challenge=" in first
        assert first != second

    def test_an_answer_that_was_fetched_from_our_server_proves_nothing(
        self, environ: dict[str, str], ours: RunningApi
    ) -> None:
        with relaying(ours.url) as thief:
            assert look(environ, port_of(thief)).found is None
            environ["CAO_API"] = thief
            found = look(environ).found
            assert found is not None
            assert found.token is None

    def test_not_even_from_our_server_at_the_same_port_of_another_address(
        self, environ: dict[str, str], ours: RunningApi
    ) -> None:
        try:
            socket.create_server(("127.0.0.2", 0)).close()
        except OSError:
            pytest.skip("this machine has one loopback address only")
        with relaying(ours.url, ("127.0.0.2", ours.port)) as thief:
            environ["CAO_HOST"] = "127.0.0.2"
            assert thief == f"http://127.0.0.2:{ours.port}"
            assert look(environ, ours.port).found is None

    @pytest.mark.parametrize(
        "answer",
        [
            b"",
            b"{}",
            b"[]",
            b'"x"',
            b'{"identity": null}',
            b'{"identity": ["x"]}',
            b'{"identity": "\xff"}',
            b"[" * 10_000,
            b"x" * 1_000_000,
        ],
        ids=lambda answer: str(answer[:20]),
    )
    def test_an_odd_answer_proves_nothing(
        self, environ: dict[str, str], stranger: ThirdParty, answer: bytes
    ) -> None:
        stranger.answers["/identity"] = (200, answer)
        assert look(environ, port_of(stranger.url)).found is None

    def test_one_who_hangs_up_proves_nothing(self, environ: dict[str, str]) -> None:
        with listening(lambda connection: None) as port:
            assert look(environ, port).found is None

    def test_one_who_says_nothing_is_not_waited_for_any_longer_than_is_said(
        self, environ: dict[str, str]
    ) -> None:
        def be_silent(connection: socket.socket) -> None:
            while connection.recv(1000):
                pass

        with listening(be_silent) as port:
            discovery = look(environ, port)
        assert discovery.found is None
        assert f"http://127.0.0.1:{port}" in discovery.remarks[0]
        assert "it did not answer within 1 s" in discovery.remarks[0]
        assert len(discovery.remarks) == 1

    @pytest.mark.parametrize(
        ("told", "host", "seconds"),
        [(False, "127.0.0.1", 1), (False, "192.0.2.1", 5), (True, "127.0.0.1", 5)],
        ids=["usual port", "another machine", "state folder"],
    )
    def test_only_a_stranger_on_this_machine_is_given_up_soon(
        self, environ: dict[str, str], told: bool, host: str, seconds: int
    ) -> None:
        environ["CAO_HOST"] = host
        if told:
            announce(Path(environ["CAO_STATE_DIR"]), f"http://{host}:1")
        first = next(_candidates(environ, 1))
        assert first.url == f"http://{host}:1"
        assert first.seconds == seconds

    def test_one_who_answers_without_end_is_not_listened_to_for_long(
        self, environ: dict[str, str]
    ) -> None:
        def babble(connection: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection.sendall(b"x" * 1000)

        with listening(babble) as port:
            assert look(environ, port).found is None

    def test_nor_can_one_send_any_more_than_an_answer_has(self) -> None:
        sent: list[int] = []

        def babble(connection: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while sum(sent) < MUCH:
                    sent.append(connection.send(b"x" * 1000))

        with facing(babble) as connection:
            _get(connection, "/identity", "localhost", time.monotonic() + WAIT_SECONDS)
        # What the system has taken of it and nobody reads is far less than that.
        assert sum(sent) < MUCH

    def test_one_who_falls_silent_in_mid_answer_has_only_what_is_left_of_the_time(self) -> None:
        given_up = threading.Event()

        def fall_silent(connection: socket.socket) -> None:
            connection.sendall(b"HTTP/1.0 200 OK")
            given_up.wait(WAIT_SECONDS)

        with facing(fall_silent) as connection:
            with pytest.raises(TimeoutError):
                _get(connection, "/identity", "localhost", time.monotonic() + 0.1)
            given_up.set()


@contextlib.contextmanager
def facing(stranger: Callable[[socket.socket], None]) -> Iterator[socket.socket]:
    """Yield a connection at whose other end is a stranger."""
    ours, theirs = socket.socketpair()

    def act() -> None:
        with theirs:
            stranger(theirs)

    thread = threading.Thread(target=act)
    thread.start()
    try:
        with ours:
            yield ours
    finally:
        thread.join()


@contextlib.contextmanager
def relaying(target: str, address: tuple[str, int] = ("127.0.0.1", 0)) -> Iterator[str]:
    """Run a thief who passes every challenge on to our server, and its answer back."""

    def relay(connection: socket.socket) -> None:
        path = connection.recv(10_000).split()[1].decode("ascii")
        with urllib.request.urlopen(f"{target}{path}", timeout=WAIT_SECONDS) as answer:
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + answer.read())

    with listening(relay, address) as port:
        yield f"http://{address[0]}:{port}"


class TestStateFolder:
    def test_a_server_that_has_ended_is_not_announced_any_more(
        self, environ: dict[str, str], state: Path, stranger: ThirdParty
    ) -> None:
        ended = subprocess.Popen(["true"])
        ended.wait()
        announce(state, stranger.url, ended.pid)
        assert announced_server(environ) is None
        assert look(environ) == Discovery(None)
        assert stranger.asked == []

    @pytest.mark.parametrize(
        "text", ["", "1", "x http://127.0.0.1:9", "9" * 40 + " http://x", "1 a b c"]
    )
    def test_a_damaged_file_announces_nobody(
        self, environ: dict[str, str], state: Path, text: str
    ) -> None:
        (state / "server").write_text(text, encoding="utf-8")
        assert announced_server(environ) is None

    @pytest.mark.parametrize(
        "url",
        ["https://127.0.0.1:9", "nonsense", "http://[::1", "http://", "http://127.0.0.1:99999"],
    )
    def test_an_address_that_cannot_be_asked_is_said(
        self, environ: dict[str, str], state: Path, url: str
    ) -> None:
        announce(state, url)
        discovery = look(environ)
        assert discovery.found is None
        assert url in discovery.remarks[0]

    def test_no_file_and_an_empty_one_mean_no_token(self, tmp_path: Path) -> None:
        environ = {"CAO_STATE_DIR": str(tmp_path)}
        assert list(known_tokens(environ)) == []
        (tmp_path / "token").write_text("\n", encoding="utf-8")
        assert list(known_tokens(environ)) == []

    def test_a_token_that_the_user_gave_comes_first(self, environ: dict[str, str]) -> None:
        environ["CAO_TOKEN"] = "given"
        assert list(known_tokens(environ)) == ["given", TOKEN]

    @pytest.mark.parametrize("token", ["two\nlines", "caf\u00e9", "\x00"])
    def test_a_token_that_is_none_is_a_clear_error_that_hides_it(self, token: str) -> None:
        with pytest.raises(ConfigError, match="CAO_TOKEN") as caught:
            list(known_tokens({"CAO_TOKEN": token}))
        assert token not in str(caught.value)
