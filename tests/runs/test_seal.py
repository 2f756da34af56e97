"""A seal fits what this user saved at this place, and nothing else."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.runs.state_file import KEY_FILE, StateFile, UserSeals, _seal
from tests.pipeline.samples import new_state

PLACE = Path("/project/.tmp/state.json")


def test_it_fits_the_same_content_at_the_same_place_alone(tmp_path: Path) -> None:
    seal = UserSeals(tmp_path / "state")
    made = seal.make(PLACE, b"content")
    assert UserSeals(tmp_path / "state").fits(PLACE, b"content", made)
    assert not seal.fits(PLACE, b"other content", made)
    assert not seal.fits(Path("/elsewhere/state.json"), b"content", made)
    assert not seal.fits(PLACE, b"content", "")
    assert not seal.fits(PLACE, b"content", "\ud800")
    assert not UserSeals(tmp_path / "another user").fits(PLACE, b"content", made)


def test_checking_makes_no_key(tmp_path: Path) -> None:
    assert not UserSeals(tmp_path / "state").fits(PLACE, b"content", "00")
    assert not (tmp_path / "state").exists()


def test_only_its_owner_can_read_the_key(tmp_path: Path) -> None:
    UserSeals(tmp_path / "state").make(PLACE, b"content")
    assert (tmp_path / "state" / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert [path.name for path in (tmp_path / "state").iterdir()] == [KEY_FILE]


def test_two_runs_that_begin_at_once_have_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: UserSeals(tmp_path).make(PLACE, b"content"), range(50)))
    assert len(made) == 1


def test_without_a_key_nothing_fits_that_somebody_sealed_without_one(tmp_path: Path) -> None:
    forged = _seal(b"", PLACE, b"content")
    assert not UserSeals(tmp_path / "state").fits(PLACE, b"content", forged)


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_what_is_no_key_seals_nothing_and_fits_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / KEY_FILE).write_bytes(content)
    assert UserSeals(tmp_path).make(PLACE, b"content") == ""
    assert not UserSeals(tmp_path).fits(PLACE, b"content", "")


def test_a_folder_that_cannot_be_used_seals_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    seal = UserSeals(tmp_path / "file" / "state")
    assert seal.make(PLACE, b"content") == ""
    assert not seal.fits(PLACE, b"content", "00")


def test_a_saved_state_is_our_own_until_somebody_changes_it(tmp_path: Path) -> None:
    path = tmp_path / "state.json"

    def loaded(user: str) -> bool:
        file = StateFile(path, SystemClock(), seals=UserSeals(tmp_path / user))
        assert file.load_state() is not None
        return file.own

    StateFile(path, SystemClock(), seals=UserSeals(tmp_path / "me")).save_state(new_state())
    assert loaded("me")
    assert not loaded("you")
    path.write_text(path.read_text().replace("codex", "claude_code"))
    assert not loaded("me")
    StateFile(path, SystemClock()).save_state(new_state())
    assert not loaded("me")
