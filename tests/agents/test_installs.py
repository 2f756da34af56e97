"""Checking agent programs, without installing any."""

from pathlib import Path

import pytest

from tests.agents.installs import program_version


@pytest.mark.parametrize(
    ("text", "version"),
    [("echo agent-cli 1.22.333 '(Agent)'", "1.22.333"), ("echo 1.2.3\nexit 1", None), (None, None)],
)
def test_only_a_program_that_runs_has_a_version(
    tmp_path: Path, text: str | None, version: str | None
) -> None:
    program = tmp_path / "agent"
    if text is not None:
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    assert program_version(program) == version
