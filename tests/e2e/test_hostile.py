"""State folders that are not as they should be: what `cao server` says, and whom it lets in."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import UsageError
from cli_agent_orchestrator.hosting.user import make_token
from cli_agent_orchestrator.settings.config import check_state_folder
from tests.e2e.conftest import Machine


def test_a_token_is_made_once_and_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    token = make_token(tmp_path / "state")
    assert len(token) >= 32
    assert make_token(tmp_path / "state") == token
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "state" / "token").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_token_that_others_may_know_is_refused(tmp_path: Path, mode: int) -> None:
    make_token(tmp_path)
    (tmp_path / "token").chmod(mode)
    with pytest.raises(UsageError, match=f"rm {tmp_path / 'token'}"):
        make_token(tmp_path)
    (tmp_path / "token").unlink()
    assert make_token(tmp_path)


def test_a_token_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "token").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="it is a symbolic link"):
        make_token(tmp_path / "state")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("rest", ["", "\n", " "])
def test_an_empty_token_file_gets_a_token(tmp_path: Path, rest: str) -> None:
    (tmp_path / "token").write_text(rest)
    token = make_token(tmp_path)
    assert len(token) >= 32
    assert make_token(tmp_path) == token
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "content", [b"short", b"two words and some more", b"\xff\0" * 20, b"x" * 5000]
)
def test_a_token_file_without_a_token_is_named_and_not_quoted(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(UsageError, match="holds no token") as caught:
        make_token(tmp_path)
    assert str(tmp_path / "token") in str(caught.value)
    assert (tmp_path / "token").read_bytes() == content


def _token_is_a_folder(state: Path) -> None:
    (state / "token").mkdir(parents=True)


def _state_is_a_file(state: Path) -> None:
    state.write_text("")


def _store_is_garbage(state: Path) -> None:
    state.mkdir()
    (state / "terminals.sqlite3").write_bytes(b"garbage, and a lot of it " * 100)


def _others_may_write(state: Path) -> None:
    state.mkdir()
    state.chmod(0o770)


def _leads_elsewhere(state: Path) -> None:
    state.with_name("real").mkdir(mode=0o700)
    state.symlink_to(state.with_name("real"))


@pytest.mark.parametrize(
    ("spoil", "advice"),
    [
        (_others_may_write, "can be written by others; fix it with: chmod go-w {}"),
        (_leads_elsewhere, "is a symbolic link; set CAO_STATE_DIR"),
    ],
)
@pytest.mark.parametrize(
    "words", [("server", "--port", "0"), ("server", "--port", "0", "--no-auth"), ("ls",)]
)
def test_a_state_folder_that_is_not_ours_alone_is_refused_by_server_and_client(
    machine: Machine, words: tuple[str, ...], spoil: Callable[[Path], None], advice: str
) -> None:
    state = machine.home / "state"
    spoil(state)
    ended = machine.cao(*words)
    assert ended.returncode == 2
    assert f"the state folder {state} {advice.format(state)}" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert list(state.iterdir()) == []


def test_a_state_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = Path("/")
    if os.geteuid() == 0:
        folder = tmp_path / "state"
        folder.mkdir()
        os.chown(folder, 12345, -1)
    with pytest.raises(UsageError, match="belongs to another user"):
        check_state_folder(folder)


def test_a_state_folder_need_not_exist_yet(tmp_path: Path) -> None:
    check_state_folder(tmp_path / "none")


@pytest.mark.tmux
@pytest.mark.parametrize("spoil", [_token_is_a_folder, _state_is_a_file, _store_is_garbage])
def test_a_spoiled_state_folder_is_said_in_one_line(
    machine: Machine, spoil: Callable[[Path], None]
) -> None:
    spoil(machine.home / "state")
    ended = machine.cao("server", "--port", "0")
    assert ended.returncode in (2, 3)
    assert str(machine.home / "state") in ended.stderr
    assert ended.stderr.count("\n") == 1
