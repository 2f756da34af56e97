"""What is said about the version of an agent, and about its login."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.cli.doctor import (
    Remark,
    remark_on_login,
    remarks_on_version,
    version_words,
)
from cli_agent_orchestrator.hosting.user import login_command
from cli_agent_orchestrator.providers import PROVIDERS
from cli_agent_orchestrator.providers.base import Provider

Version = tuple[int, ...]

TESTED: tuple[Version, ...] = ((0, 101, 0), (0, 166, 2), (0, 125, 3))

versions = st.lists(st.integers(0, 200), min_size=2, max_size=4).map(tuple)
tested_versions = st.lists(versions, min_size=1, max_size=5).map(tuple)


def said(version: Version, tested: tuple[Version, ...] = TESTED) -> str:
    """Return what is said about a version, empty if nothing."""
    return "\n".join(text for text, _ in remarks_on_version(version, tested))


@pytest.mark.parametrize(
    "version",
    [(0, 101, 0), (0, 101), (0, 110, 9), (0, 125, 3), (0, 166, 0), (0, 166, 2), (0, 166, 99)],
)
def test_nothing_is_said_about_a_version_among_those_that_were_tested(version: Version) -> None:
    assert said(version) == ""


@pytest.mark.parametrize("version", [(0, 167, 0), (0, 167), (0, 180, 0), (1, 0), (9, 0, 0, 1)])
def test_a_newer_version_is_said_to_be_newer(version: Version) -> None:
    assert said(version) == "newer than any that was tested (0.101.0 to 0.166.2)"


@pytest.mark.parametrize("version", [(0, 100, 9), (0, 100), (0, 5, 200), (0, 0)])
def test_an_older_version_is_said_to_be_older(version: Version) -> None:
    assert said(version) == "older than any that was tested (0.101.0 to 0.166.2)"


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ((1, 17, 99), "older than any that was tested (1.18.18)"),
        ((1, 18, 0), ""),
        ((1, 18, 18), ""),
        ((1, 18, 40), ""),
        ((1, 19, 0), "newer than any that was tested (1.18.18)"),
    ],
)
def test_a_single_version_that_was_tested_stands_for_its_series(
    version: Version, expected: str
) -> None:
    assert said(version, ((1, 18, 18),)) == expected


def test_a_version_that_cannot_be_read_may_be_any() -> None:
    assert said(()) == "version unknown; tested: 0.101.0 to 0.166.2"
    assert version_words(()) == "version unknown"


@pytest.mark.parametrize("version", [(), (1, 2), (99, 0, 0)])
def test_an_agent_of_which_none_was_tested_is_known_from_recordings(version: Version) -> None:
    [(text, advice)] = remarks_on_version(version, ())
    assert "no version of it was tested" in text
    assert "recordings" in text
    assert "signals" not in advice


@pytest.mark.parametrize("version", [(), (0, 50, 0), (0, 180, 0)])
def test_the_advice_says_what_becomes_of_an_unknown_screen(version: Version) -> None:
    [(_, advice)] = remarks_on_version(version, TESTED)
    assert "its own signals are read all the same" in advice
    assert "`unknown`, never as idle" in advice
    assert "--why" in advice


@given(versions, tested_versions)
def test_what_was_not_tested_is_noted_and_nothing_else(
    version: Version, tested: tuple[Version, ...]
) -> None:
    words = said(version, tested)
    if version[:2] > max(tested)[:2]:
        assert words.startswith("newer")
    elif min(tested) <= version or version[:2] == max(tested)[:2]:
        assert words == ""
    else:
        assert words.startswith("older") or version == min(tested)[: len(version)]


@given(versions, st.lists(versions, max_size=5).map(tuple))
def test_whatever_is_said_comes_with_advice(version: Version, tested: tuple[Version, ...]) -> None:
    remarks = list(remarks_on_version(version, tested))
    assert len(remarks) <= 1
    assert all(text and advice for text, advice in remarks)


@pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)
def test_nothing_is_said_about_the_versions_that_were_tested(provider: Provider) -> None:
    tested = provider.tested_versions
    assert [said(version, tested) for version in tested] == [""] * len(tested)


def test_the_way_to_log_in_is_a_command() -> None:
    assert login_command("codex", "/a b/codex") == "'/a b/codex' login"
    assert login_command("claude_code", "/bin/claude") == "/bin/claude auth login"


@pytest.mark.parametrize(
    ("logged_in", "expected"),
    [
        (None, ("it does not tell whether it is logged in", "")),
        (True, ("logged in", "")),
        (False, ("not logged in", "unless it works with a key of its own")),
    ],
)
def test_the_login_is_told_as_far_as_it_is_known(logged_in: bool | None, expected: Remark) -> None:
    assert remark_on_login(logged_in) == expected
