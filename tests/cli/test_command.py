"""Commands that are shown work as they are shown."""

import shlex
from pathlib import Path

import pytest

from cli_agent_orchestrator.cli.imports import own_command

PYTHON = "/usr/bin/python3"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    script = tmp_path / "own bin" / "cao"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n", encoding="utf-8")
    script.chmod(0o755)
    return script


def test_a_program_on_the_path_is_called_by_its_name(script: Path, tmp_path: Path) -> None:
    assert own_command(str(script), PYTHON, str(script.parent)) == "cao"
    links = tmp_path / "links"
    links.mkdir()
    (links / "cao").symlink_to(script)
    assert own_command(str(script), PYTHON, str(links)) == "cao"


def test_one_that_is_not_on_the_path_is_called_by_where_it_is(script: Path, tmp_path: Path) -> None:
    (tmp_path / "cao").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "cao").chmod(0o755)
    for path in ("", str(tmp_path)):
        assert shlex.split(own_command(str(script), PYTHON, path)) == [str(script)]


def test_a_module_is_run_by_the_same_python() -> None:
    words = own_command("/lib/cli_agent_orchestrator/__main__.py", "/my python", None)
    assert shlex.split(words) == ["/my python", "-m", "cli_agent_orchestrator"]
