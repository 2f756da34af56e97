"""Runs as processes of their own."""

import sys
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import RunError
from cli_agent_orchestrator.runs.launch import Launcher, LaunchRequest


def test_a_folder_that_is_gone_is_told_as_such(tmp_path: Path) -> None:
    launcher = Launcher((sys.executable, "-c", "pass"), {})
    with pytest.raises(RunError, match=r"gone: No such file or directory"):
        launcher.launch(LaunchRequest({}), tmp_path / "gone")
