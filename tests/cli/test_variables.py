"""A mistyped variable is noticed."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import cli_agent_orchestrator
from cli_agent_orchestrator.cli.run import KNOWN, remarks_on_variables, run

SOURCE = Path(cli_agent_orchestrator.__file__).parent
NO_VARIABLES = {"CAO_RESPONSE_END", "CAO_COMPLETE"}


def test_every_variable_that_is_named_in_the_source_is_known() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    named = set(re.findall(r"\bCAO_[A-Z]+(?:_[A-Z]+)*\b", text)) - NO_VARIABLES
    assert {"CAO_TOKEN", "CAO_DEBUG"} <= named
    assert not named - KNOWN


def test_one_that_is_not_is_named_with_the_one_that_was_probably_meant() -> None:
    said = remarks_on_variables({"CAO_MAX_ROUND": "3", "CAO_CODEX_ARG": "-m x"})
    assert said == [
        "CAO_CODEX_ARG is set, but cao does not know it (did you mean CAO_CODEX_ARGS?)",
        "CAO_MAX_ROUND is set, but cao does not know it (did you mean CAO_MAX_ROUNDS?)",
    ]


def test_what_is_empty_or_nobodys_business_is_passed_over() -> None:
    assert (
        remarks_on_variables({"CAO_MAX_ROUND": " ", "CACAO": "1", "CAO_CODEX_COMMAND": "x"}) == []
    )


def test_a_name_cannot_write_lines_of_its_own() -> None:
    (said,) = remarks_on_variables({"CAO_\x1b[2J\nXYZZY": "1"})
    assert said.isprintable()
    assert said.endswith(" is set, but cao does not know it")


def test_a_run_says_it_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAO_MAX_ROUND", "3")
    done = CliRunner().invoke(run, ["--wd", str(tmp_path / "nowhere")])
    assert done.stderr.count("did you mean CAO_MAX_ROUNDS?") == 1
    assert done.stdout == ""
