"""Which commands of a project's own file may be run."""

from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import NotAllowed, StateError
from cli_agent_orchestrator.settings.gates import (
    TRUST_FILE,
    Allowed,
    Trust,
    check_consent,
    commands_text,
)

SHOP, ELSEWHERE = Path("/home/ada/shop"), Path("/home/ada/shop2")


def test_just_what_was_allowed_is_allowed(tmp_path: Path) -> None:
    trust = Trust(tmp_path)
    assert not trust.allows(SHOP, "tests=make test")
    trust.allow(SHOP, "tests=make test", 5.0)
    assert Trust(tmp_path).allows(SHOP, "tests=make test")
    assert not trust.allows(SHOP, "tests=make test; rm -r x")
    assert not trust.allows(ELSEWHERE, "tests=make test")
    assert trust.all() == (Allowed(str(SHOP), "tests=make test", 5.0),)


def test_the_last_few_yeses_of_a_folder_count(tmp_path: Path) -> None:
    trust = Trust(tmp_path)
    trust.allow(ELSEWHERE, "a", 1.0)
    for at, commands in enumerate("abcdef"):
        trust.allow(SHOP, commands, float(at))
    assert not trust.allows(SHOP, "a")
    assert all(trust.allows(SHOP, commands) for commands in "bcdef")
    assert trust.allows(ELSEWHERE, "a")
    trust.allow(SHOP, "b", 9.0)
    trust.allow(SHOP, "g", 10.0)
    told = [(one.commands, one.at) for one in trust.all() if one.folder == str(SHOP)]
    assert told == [("d", 3.0), ("e", 4.0), ("f", 5.0), ("b", 9.0), ("g", 10.0)]
    assert trust.revoke(SHOP)
    assert [one.folder for one in trust.all()] == [str(ELSEWHERE)]


def test_it_can_be_taken_back(tmp_path: Path) -> None:
    trust = Trust(tmp_path)
    trust.allow(SHOP, "a", 1.0)
    assert not trust.revoke(ELSEWHERE)
    assert trust.revoke(SHOP)
    assert not trust.allows(SHOP, "a")


@pytest.mark.parametrize(
    "text",
    ["", "[", "[]", "7", '{"allowed": 7}', '{"allowed": [7, {"folder": 1, "commands": "a"}]}'],
)
def test_what_cannot_be_read_allows_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / TRUST_FILE).write_text(text, encoding="utf-8")
    assert Trust(tmp_path).all() == ()


def test_nobody_else_can_read_or_lead_it_elsewhere(tmp_path: Path) -> None:
    Trust(tmp_path).allow(SHOP, "a", 1.0)
    assert (tmp_path / TRUST_FILE).stat().st_mode & 0o777 == 0o600
    (tmp_path / TRUST_FILE).unlink()
    (tmp_path / TRUST_FILE).symlink_to(tmp_path / "other")
    with pytest.raises(StateError, match="cannot be written"):
        Trust(tmp_path).allow(SHOP, "a", 1.0)


def test_the_refusal_shows_the_commands(tmp_path: Path) -> None:
    commands = (
        'tests=make test\n{"name": "lint", "run": "make lint", "sandbox": true}\n'
        "setup of a work tree: npm ci"
    )
    with pytest.raises(NotAllowed) as error:
        check_consent(Trust(tmp_path), SHOP, commands)
    assert str(error.value).split("\n")[:-1] == [
        "cao.toml in /home/ada/shop wants these commands to be run:",
        '  tests = "make test"',
        "  [gates.lint]",
        '    run = "make lint"',
        "    sandbox = true",
        "  setup of a work tree: npm ci",
    ]
    check_consent(Trust(tmp_path), SHOP, "")


def test_all_commands_of_a_project_are_shown() -> None:
    assert commands_text({}) == ""
    assert commands_text({"GATES": "tests=make test"}) == "tests=make test"
    both = {"GATES": "tests=make test", "WORKTREE_SETUP": "npm ci"}
    assert commands_text(both) == "tests=make test\nsetup of a work tree: npm ci"
