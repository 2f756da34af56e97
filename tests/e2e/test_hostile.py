"""State folders that are not as they should be: what `cao server` says, and whom it lets in."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cli_agent_orchestrator.cli.environment import make_token
from cli_agent_orchestrator.errors import UsageError
from tests.e2e.conftest import Machine


def test_a_token_is_made_once_and_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    token = make_token(tmp_path / "state")
    assert len(token) >= 32
    (tmp_path / "state" / "token").chmod(0o644)
    assert make_token(tmp_path / "state") == token
    assert (tmp_path / "state" / "token").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("rest", ["", "\n", " "])
def test_an_empty_token_file_gets_a_token(tmp_path: Path, rest: str) -> None:
    (tmp_path / "token").write_text(rest)
    token = make_token(tmp_path)
    assert len(token) >= 32
    assert make_token(tmp_path) == token


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
