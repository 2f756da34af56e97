"""One run in a folder at a time, and who holds it."""

from pathlib import Path

import pytest

from cli_agent_orchestrator.core.models import EXIT_USAGE, exit_code_of
from cli_agent_orchestrator.errors import RunLocked, StateError
from cli_agent_orchestrator.runs.record import keeping_runs_out


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
