"""What is read from what a program says about its version."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cli_agent_orchestrator.providers.base import find_version

Version = tuple[int, ...]

versions = st.lists(st.integers(0, 200), min_size=2, max_size=4).map(tuple)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("codex-cli 0.166.0\n", (0, 166, 0)),
        ("2.1.105 (Claude Code)", (2, 1, 105)),
        ("v1.18.18-beta.2", (1, 18, 18)),
        ("version 7", ()),
        ("", ()),
    ],
)
def test_a_version_is_found_in_what_a_program_says(text: str, expected: Version) -> None:
    assert find_version(text) == expected


@given(st.text() | st.text("0123456789."))
@example("9" * 6000 + ".1")
def test_whatever_a_program_says_about_its_version_can_be_dealt_with(text: str) -> None:
    version = find_version(text)
    assert len(version) != 1


@given(versions)
def test_a_version_is_read_as_it_is_written(version: Version) -> None:
    assert find_version(f"agent {'.'.join(map(str, version))}") == version
