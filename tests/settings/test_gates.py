"""Gates as text, as a table, and back; which of a project's own commands may be run."""

from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import ConfigError, StateError, UsageError
from cli_agent_orchestrator.settings.gates import (
    TRUST_FILE,
    Allowed,
    Gate,
    Trust,
    When,
    check_consent,
    commands_text,
    gates_text,
    gates_toml,
    read_gates,
    read_gates_table,
    without_quotes,
)


@pytest.mark.parametrize(
    ("text", "gates"),
    [
        ('tests="make test"', "tests=make test"),
        ("'make test'", "make test"),
        ("tests=pytest -k 'a b'", "tests=pytest -k 'a b'"),
        ('{"name":"e2e","run":"x"}', '{"name":"e2e","run":"x"}'),
        ("a='b c'\nd='e f'", "a=b c\nd=e f"),
        ("", ""),
    ],
)
def test_quotes_around_a_gate_are_for_the_shell(text: str, gates: str) -> None:
    assert without_quotes(text) == gates


@pytest.mark.parametrize(
    ("text", "gates"),
    [
        ("", ()),
        ("make test", (Gate("tests", "make test"),)),
        ("lint=ruff check .", (Gate("lint", "ruff check ."),)),
        ("unit= a=1 sh x \n\n e2e=b", (Gate("unit", "a=1 sh x"), Gate("e2e", "b"))),
        (
            '{"name": "e2e", "run": "x", "when": ["base", "after_tester"], "seconds": 3}',
            (Gate("e2e", "x", (When.BASE, When.AFTER_TESTER), 3.0),),
        ),
    ],
)
def test_a_line_is_a_gate(text: str, gates: tuple[Gate, ...]) -> None:
    assert read_gates(text) == gates


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tests=", "NAME=COMMAND"),
        ("make test\nmake lint", "another name for one of the gates called 'tests'"),
        ("proof=true", "not proof"),
        ('{"name": "A", "run": "x"}', "small letters"),
        ('{"name": "a", "run": "x", "often": true}', "a key of GATES is 'often', expected one of"),
        ('{"name": "a", "run": "x", "clean": 1}', "clean of GATES is 1, expected true or false"),
        ('{"name": "a", "run": "x", "seconds": -1}', "expected a number of seconds"),
        ('{"name": "a", "run": "x", "setup": 7}', "expected a text"),
        ('{"name": "a", "run": "x", "when": []}', "a list of: base, after_programmer"),
        ('{"name": "a", "run": "x", "when": "base"}', "a list of"),
        ('{"name": "a", "run": "x", "when": ["lunch"]}', "a list of"),
        *(
            (f'{{"name": "a", "run": "x", "junit": "{path}"}}', "a file below the folder")
            for path in ("/etc/x", "../x", "a/./x", "x/")
        ),
        ('{"name": "a", "run": "x", "junit": "a\\u001bx"}', "without control characters"),
        ("[" * 100_000, None),
        ("a=x\x1b[2J", "without control characters"),
        ("\n".join(f"g{n}=x" for n in range(21)), "at most 20"),
    ],
)
def test_what_is_no_gate_is_named(text: str, words: str | None) -> None:
    with pytest.raises(ConfigError, match=words and words.replace("(", r"\(")):
        read_gates(text)


def test_a_table_names_them() -> None:
    table = {"tests": "make test", "e2e": {"run": "x", "clean": True, "setup": "npm ci"}}
    assert read_gates(read_gates_table(table, " in cao.toml")) == (
        Gate("tests", "make test"),
        Gate("e2e", "x", clean=True, setup="npm ci"),
    )
    with pytest.raises(ConfigError, match=r"gates\.tests in cao\.toml is 7, expected a command"):
        read_gates_table({"tests": 7}, " in cao.toml")
    with pytest.raises(
        ConfigError, match=r"a key of gates\.tests in cao\.toml is 'clen', .*did you mean clean"
    ):
        read_gates_table({"tests": {"run": "x", "clen": True}}, " in cao.toml")


def test_the_text_of_gates_is_those_gates() -> None:
    plain, json = Gate("tests", "a=1 make 'é'"), Gate("e2e", 'say "x"', junit="reports/a b.xml")
    usual = (When.AFTER_PROGRAMMER, When.AFTER_TESTER)
    full = Gate("full", "x", usual, 1.5, True, "npm ci", True, True)
    assert read_gates(gates_text((plain, json, full))) == (plain, json, full)


def test_gates_are_shown_with_what_is_set_and_nothing_else() -> None:
    e2e = Gate("e2e", 'say "x"', when=(When.BASE,), seconds=60.0, clean=True)
    assert [*gates_toml((Gate("tests", "make test"), e2e))] == [
        'tests = "make test"',
        "[gates.e2e]",
        '  run = "say \\"x\\""',
        '  when = ["base"]',
        "  seconds = 60.0",
        "  clean = true",
    ]


SHOP, ELSEWHERE = Path("/home/ada/shop"), Path("/home/ada/shop2")


def test_just_what_was_allowed_is_allowed(tmp_path: Path) -> None:
    trust = Trust(tmp_path)
    assert not trust.allows(SHOP, "tests=make test")
    trust.allow(SHOP, "tests=make test", 5.0)
    assert Trust(tmp_path).allows(SHOP, "tests=make test")
    assert not trust.allows(SHOP, "tests=make test; rm -r x")
    assert not trust.allows(ELSEWHERE, "tests=make test")
    assert trust.all() == (Allowed(str(SHOP), "tests=make test", 5.0),)


def test_every_yes_of_a_folder_counts_until_all_are_revoked(tmp_path: Path) -> None:
    trust = Trust(tmp_path)
    for folder, commands, at in ((ELSEWHERE, "a", 1.0), (SHOP, "a", 2.0), (SHOP, "b", 3.0)):
        trust.allow(folder, commands, at)
    trust.allow(SHOP, "a", 4.0)
    told = [(one.commands, one.at) for one in trust.all() if one.folder == str(SHOP)]
    assert told == [("b", 3.0), ("a", 4.0)]
    assert trust.revoke(SHOP)
    assert not trust.revoke(SHOP)
    assert [one.folder for one in trust.all()] == [str(ELSEWHERE)]


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
    gates = 'tests=make test\n{"name": "lint", "run": "make lint", "sandbox": true}'
    assert commands_text({}) == ""
    assert commands_text({"GATES": gates}) == gates
    commands = commands_text({"GATES": gates, "WORKTREE_SETUP": "npm ci"})
    with pytest.raises(UsageError) as error:
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
