"""Choosing and checking agent programs, without installing any."""

from pathlib import Path

import pytest

from tests.agents.installs import nearest_releases, program_version

RELEASES = ["0.9.0", "0.99.0", "0.100.0", "0.101.0", "0.102.0", "0.110.0"]


@pytest.mark.parametrize(
    ("wanted", "first"), [("0.101.0", "0.100.0"), ("0.108.0", "0.102.0"), ("2.0.0", "0.110.0")]
)
def test_the_nearest_release_is_the_fewest_releases_away(wanted: str, first: str) -> None:
    assert nearest_releases(wanted, RELEASES)[0] == first


def test_releases_are_ordered_as_numbers() -> None:
    assert nearest_releases("0.98.0", RELEASES)[:2] == ["0.9.0", "0.99.0"]


def test_a_program_tells_its_version(tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_text("#!/bin/sh\necho agent-cli 1.22.333 '(Agent)'\n")
    program.chmod(0o755)
    assert program_version(program) == "1.22.333"


def test_a_program_that_fails_has_no_version(tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_text("#!/bin/sh\necho 1.2.3\nexit 1\n")
    program.chmod(0o755)
    assert program_version(program) is None


def test_a_missing_program_has_no_version(tmp_path: Path) -> None:
    assert program_version(tmp_path / "agent") is None
