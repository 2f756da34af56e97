"""One run in a folder at a time, and who holds it."""

from pathlib import Path

import pytest

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.core.models import EXIT_USAGE, exit_code_of
from cli_agent_orchestrator.errors import RunLocked, StateError
from cli_agent_orchestrator.runs.record import run_lock
from cli_agent_orchestrator.settings.layout import OWNER_FILE


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path, (".tmp",))
    folder.make()
    return folder


def test_the_note_of_its_owner_goes_with_the_lock(folder: Folder) -> None:
    with run_lock(folder, SystemClock()):
        assert folder.names() == [OWNER_FILE]
    assert folder.names() == []
    with run_lock(folder, SystemClock()):
        pass


@pytest.mark.parametrize("note", [b"", b"[]", b"{}", b'{"pid": "x", "since": 1e99}', b"\xff"])
def test_a_damaged_note_does_not_hide_that_the_folder_is_taken(folder: Folder, note: bytes) -> None:
    with run_lock(folder, SystemClock()):
        folder.replace(OWNER_FILE, note)
        with (
            pytest.raises(RunLocked, match="its process is not known"),
            run_lock(folder, SystemClock()),
        ):
            pass


@pytest.mark.parametrize(
    ("run", "commands"),
    [
        (
            "20261115-084037-k3f9",
            ("cao watch 20261115-084037-k3f9", "cao stop 20261115-084037-k3f9"),
        ),
        ("", ("cao watch", "cao stop")),
    ],
)
def test_the_run_that_is_at_work_is_named(
    folder: Folder, run: str, commands: tuple[str, str]
) -> None:
    with (
        run_lock(folder, SystemClock()),
        pytest.raises(RunLocked) as raised,
        run_lock(folder, SystemClock(), lambda: run),
    ):
        pass
    watch, stop = commands
    said = str(raised.value)
    assert f"Follow it with `{watch}`, end it with `{stop}`" in said
    assert said.startswith(f"another run works in {folder.root}: {run}{', ' if run else ''}process")
    assert exit_code_of(raised.value) == EXIT_USAGE


def test_a_note_that_cannot_be_written_is_said_and_the_lock_given_back(folder: Folder) -> None:
    (folder.path / OWNER_FILE).mkdir()
    said = f"{OWNER_FILE} cannot be written"
    with pytest.raises(StateError, match=said), run_lock(folder, SystemClock()):
        pass
    (folder.path / OWNER_FILE).rmdir()
    with run_lock(folder, SystemClock()):
        pass
