"""Gates as text, as a table, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.errors import ConfigError
from cli_agent_orchestrator.settings.gates import (
    Gate,
    When,
    gates_text,
    gates_toml,
    read_gates,
    read_gates_table,
    without_quotes,
)

COMMANDS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1)
GATES = st.builds(
    Gate,
    name=st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True).filter(lambda n: n != "proof"),
    run=COMMANDS,
    when=st.sampled_from([tuple(When), (When.BASE,), (When.AFTER_PROGRAMMER, When.AFTER_TESTER)]),
    seconds=st.sampled_from([0.0, 1.5, 600.0]),
    clean=st.booleans(),
    setup=st.one_of(st.just(""), COMMANDS),
    sandbox=st.booleans(),
    allow_base_failures=st.booleans(),
    junit=st.sampled_from(["", "junit.xml", "reports/a b.xml"]),
)


@pytest.mark.parametrize(
    ("text", "gates"),
    [
        ("tests='make test'", "tests=make test"),
        ('tests="make test"', "tests=make test"),
        ("'make test'", "make test"),
        ("tests=make test", "tests=make test"),
        ("tests=pytest -k 'a b'", "tests=pytest -k 'a b'"),
        ("tests='unclosed", "tests='unclosed"),
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
        ("CI=1 make test", (Gate("tests", "CI=1 make test"),)),
        ("lint=ruff check .", (Gate("lint", "ruff check ."),)),
        ("unit= a=1 sh x \n\n e2e=b", (Gate("unit", "a=1 sh x"), Gate("e2e", "b"))),
        (
            '{"name": "e2e", "run": "x", "when": ["after_tester", "base"], "seconds": 3}',
            (Gate("e2e", "x", (When.BASE, When.AFTER_TESTER), 3.0),),
        ),
        ('{"name": "a", "run": "x", "seconds": 0.5}', (Gate("a", "x", seconds=0.5),)),
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
        ('{"name": "a", "run": "x", "seconds": true}', "expected a number"),
        ('{"name": "a", "run": "x", "seconds": -1}', "expected a number of seconds"),
        ('{"name": "a", "run": "x", "setup": 7}', "expected a text"),
        ('{"name": "a", "run": "x", "when": []}', "a list of: base, after_programmer"),
        ('{"name": "a", "run": "x", "when": ["never"]}', "a list of"),
        ('{"name": "a", "run": "x", "when": ["base", "base"]}', "a list of"),
        *(
            (f'{{"name": "a", "run": "x", "junit": "{path}"}}', "a file below the folder")
            for path in ("/etc/x", "../x", "a//x", "a/./x", "a/../x", "x/", "a\\u001bx")
        ),
        ('{"name": "a"', "NAME=COMMAND"),
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
        ConfigError, match=r"a key of gates\.tests in cao\.toml is 'clen', expected clean \("
    ):
        read_gates_table({"tests": {"run": "x", "clen": True}}, " in cao.toml")


@given(st.lists(GATES, max_size=4, unique_by=lambda gate: gate.name))
def test_the_text_of_gates_is_those_gates(gates: list[Gate]) -> None:
    assert read_gates(gates_text(tuple(gates))) == tuple(gates)


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
