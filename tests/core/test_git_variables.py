"""Which variables lead git to a repository, and that no program of a run is given them."""

import os
import subprocess

from cli_agent_orchestrator.core.programs import OF_ONE_REPOSITORY, without_repository


def test_all_that_git_itself_lists_are_known() -> None:
    listed = subprocess.run(
        ["git", "rev-parse", "--local-env-vars"], capture_output=True, text=True, check=True
    )
    names = listed.stdout.split()
    assert "GIT_DIR" in names
    assert set(names) <= OF_ONE_REPOSITORY


def test_they_are_left_out_and_nothing_else() -> None:
    other = {"GIT_AUTHOR_NAME": "Ada", "GIT_SSH_COMMAND": "ssh -4", "PATH": os.defpath}
    given = {**dict.fromkeys(OF_ONE_REPOSITORY, "/elsewhere"), **other}
    assert without_repository(given) == other
