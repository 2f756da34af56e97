"""The script language: what it means, and what a bad script is told."""

from collections.abc import Mapping
from typing import Any

import pytest

from cli_agent_orchestrator.core.codec import toml_value
from cli_agent_orchestrator.errors import UsageError
from cli_agent_orchestrator.scripted_agent.script import (
    Misbehavior,
    Rule,
    Script,
    Write,
    parse_script,
)

# Any: each of the type of its field
SETTINGS: dict[str, Any] = {
    "title": False,
    "events": False,
    "start_delay": 2,
    "start_crash": 4,
    "startup_dialog": "person",
}
BAD: dict[str, Any] = {
    **dict.fromkeys(("hang", "ignore_file", "reopen", "mislead"), True),
    **{"crash": 3, "pieces": 4, "late_file": 1.5, "flicker": 2},
    **{"pause": 0, "error": "usage limit", "ask": "run it", "swallow_enter": 1, "lines": 100000},
}
RULE = """
[[rule]]
role = ["tester", "analyst"]
turn = 1
round = [1, 2]
cycle = 3
contains = "basket"
seconds = 0.5
run = [["make", "test"], ["true"]]
write = [{ path = "a.py", content = "" }, { path = "b/c.py", old = "x", new = "y" }]
answer = "RESULT: {result}"

[rule.misbehave]
"""


def toml(values: Mapping[str, object]) -> str:
    return "".join(f"{key} = {toml_value(value)}\n" for key, value in values.items())


def test_every_setting_is_read() -> None:
    assert set(SETTINGS) == set(Script._fields) - {"name", "rule"}
    assert set(BAD) == set(Misbehavior._fields)
    text = toml(SETTINGS) + RULE + toml(BAD) + "\n[[rule]]\n"
    rule = Rule(
        *(["tester", "analyst"], [1], [1, 2], [3], "basket", 0.5, [["make", "test"], ["true"]]),
        (Write("a.py", ""), Write("b/c.py", None, "x", "y")),
        "RESULT: {result}",
        Misbehavior(**BAD),
    )
    assert parse_script(text, "x.toml") == Script("x.toml", **SETTINGS, rule=[rule, Rule()])


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("title = 1", "x.toml: title is 1, expected true or false"),
        ("start_delay = -1", "x.toml: start_delay is -1, expected a number of seconds from 0 to"),
        ("start_crash = 256", "x.toml: start_crash is 256, expected an exit code from 0 to 255"),
        ("startup_dialog = 'x'", "x.toml: startup_dialog is 'x', expected one of none, pass, per"),
        ("delay = 1", "x.toml: there is no setting 'delay'; there are: title, events,"),
        ("rule = [1]", "x.toml: rule 1 is 1, expected a table"),
        ("[[rule]]\n[[rule]]\nrole = ''", "x.toml: rule 2: role is '', expected a text that is"),
        ("[[rule]]\nturn = [1, 0]", "x.toml: rule 1: turn is [1, 0], expected a whole number of"),
        ("[[rule]]\nrun = ['make']", "x.toml: rule 1: run is ['make'], expected commands as ar"),
        ("[[rule]]\nwrite = [{}]", "x.toml: rule 1: write 1: path is missing"),
        (
            "[[rule]]\nwrite = [{path = 'a', content = '', old = 'b'}]",
            "x.toml: rule 1: write 1: expected either content, or old and new",
        ),
        ("[[rule]]\nmisbehave = ['hang']", "x.toml: rule 1: misbehave is ['hang'], expected a t"),
        ("[[rule]]\nmisbehave = {crash = 3.5}", "x.toml: rule 1: misbehave: crash is 3.5, expec"),
    ],
)
def test_a_bad_script_is_told_the_place(text: str, place: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_script(text, "x.toml")
    assert place in str(caught.value)
