"""The id, the number and the lock of a run."""

from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import EXIT_USAGE, RunLocked, StateError, exit_code_of
from cli_agent_orchestrator.runs.record import (
    is_run_id,
    keeping_runs_out,
    run_index,
    short_name,
)


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "..", "k3f9", "../20261115-084037-k3f9", "20261115-084037-k3f9/..",
        "20261115-084037-K3F9", "20261115-084037-k3f9\n", "20261115-084037-", "/etc",
        "２０２６1115-084037-k3f9", "20261115-084037-k3f9\0", ".new-20261115-084037-k3f9",
    ],
)  # fmt: skip
def test_nothing_else_is_an_id(text: str) -> None:
    assert not is_run_id(text)


@pytest.mark.parametrize(
    ("run", "name"),
    [
        ("20261115-084037-k3f9", "k3f9"),
        ("20261115-084037-2026", "20261115-084037-2026"),
        ("20261115-084037-beef", "20261115-084037-beef"),
        ("20250131-120000-2", "20250131-120000-2"),
        ("20250131-120000", "20250131-120000"),
        ("", ""),
    ],
)
def test_people_call_a_run_by_its_last_letters_if_these_are_clear(run: str, name: str) -> None:
    assert short_name(run) == name


def test_each_run_has_the_smallest_free_number(tmp_path: Path) -> None:
    with run_index(tmp_path) as first:
        with run_index(tmp_path) as second, run_index(tmp_path) as third:
            assert (first, second, third) == (0, 1, 2)
        with run_index(tmp_path) as again:
            assert again == 1
    # Without a folder for it there is one all the same.
    (tmp_path / "file").touch()
    with run_index(tmp_path / "file") as number:
        assert number == 0


@pytest.mark.parametrize("run", ["20261115-084037-k3f9", ""])
def test_the_run_that_is_at_work_is_named(tmp_path: Path, run: str) -> None:
    with (
        keeping_runs_out(tmp_path),
        pytest.raises(RunLocked) as raised,
        keeping_runs_out(tmp_path, lambda: run),
    ):
        pass
    assert str(tmp_path) in str(raised.value)
    assert f"`cao watch {run}".strip() in str(raised.value)
    assert f"`cao stop {run}".strip() in str(raised.value)
    assert exit_code_of(raised.value) == EXIT_USAGE
    with keeping_runs_out(tmp_path):
        assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_locked_is_said(tmp_path: Path) -> None:
    with pytest.raises(StateError), keeping_runs_out(tmp_path / "none"):
        pass
