"""State folders that are not as they should be: what `cao server` says, and whom it lets in."""

import os
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import UsageError
from cli_agent_orchestrator.hosting.user import make_token
from cli_agent_orchestrator.settings.layout import check_state_folder
from tests.e2e.conftest import Machine

RUBBISH = (b"short", b"two words and some more", b"\xff\0" * 20, b"x" * 5000)


@pytest.mark.parametrize("found", [None, "", "\n"])
def test_a_token_is_made_once_and_belongs_to_its_owner_alone(
    tmp_path: Path, found: str | None
) -> None:
    state = tmp_path / "state"
    if found is not None:
        state.mkdir(mode=0o700)
        (state / "token").write_text(found)
    token = make_token(state)
    assert len(token) >= 32
    assert make_token(state) == token
    assert state.stat().st_mode & 0o777 == 0o700
    assert (state / "token").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        *((b"x" * 40, mode, "rm {}") for mode in (0o640, 0o602)),
        *((rubbish, 0o600, "holds no token") for rubbish in RUBBISH),
        (None, 0o600, "it is a symbolic link"),
    ],
)
def test_a_file_that_is_no_secret_token_is_named_and_not_quoted(
    tmp_path: Path, content: bytes | None, mode: int, words: str
) -> None:
    token = tmp_path / "token"
    if content is None:
        token.symlink_to(tmp_path / "elsewhere")
    else:
        token.write_bytes(content)
        token.chmod(mode)
    with pytest.raises(UsageError, match=words.format(token)) as caught:
        make_token(tmp_path)
    assert str(token) in str(caught.value)
    assert content is None or token.read_bytes() == content
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("mode", "words", "advice"),
    [
        (0o770, ("server", "--port", "0"), "can be written by others; fix it with: chmod go-w {}"),
        (0o770, ("ls",), "can be written by others; fix it with: chmod go-w {}"),
        (None, ("ls",), "is a symbolic link; set CAO_STATE_DIR"),
    ],
)
def test_a_state_folder_that_is_not_ours_alone_is_refused_by_server_and_client(
    machine: Machine, mode: int | None, words: tuple[str, ...], advice: str
) -> None:
    state = machine.home / "state"
    real = machine.home / "real" if mode is None else state
    real.mkdir()
    real.chmod(mode or 0o700)
    if mode is None:
        state.symlink_to(real)
    ended = machine.cao(*words, code=2)
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


@pytest.mark.tmux
@pytest.mark.parametrize("fault", ["no tmux", "token", "state", "terminals.sqlite3"])
def test_why_a_server_cannot_start_is_said_in_one_line(machine: Machine, fault: str) -> None:
    path, state = machine.env["PATH"], machine.home / "state"
    named = str(state)
    match fault:
        case "no tmux":
            machine.env["PATH"], named = str(machine.home), "tmux"
        case "token":
            (state / "token").mkdir(parents=True)
        case "state":
            state.write_text("")
        case _:
            state.mkdir()
            (state / fault).write_bytes(b"garbage, and a lot of it " * 100)
    ended = machine.cao("server", "--port", "0")
    machine.env["PATH"] = path
    assert ended.returncode in (2, 3)
    assert named in ended.stderr
    assert ended.stderr.count("\n") == 1
