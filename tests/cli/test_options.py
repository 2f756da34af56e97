"""The options of `cao run`."""

from contextlib import chdir
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cli_agent_orchestrator.cli.main import COMMANDS, MOVED, cao
from cli_agent_orchestrator.cli.run import agent_options, run, task_options
from cli_agent_orchestrator.errors import ConfigError, PromptError, UsageError
from cli_agent_orchestrator.runs.request import build_request
from cli_agent_orchestrator.settings.table import (
    AGENTS,
    BY_NAME,
    NEVER_BARE,
    SETTINGS,
    Setting,
    ValueKind,
)
from tests.providers.samples import PROVIDERS

DOCUMENTATION = (Path(__file__).parents[2] / "docs" / "run.md").read_text(encoding="utf-8")


def option(name: str) -> click.Option:
    (found,) = [p for p in run.params if p.name == name and isinstance(p, click.Option)]
    return found


def test_options_name_their_variables_and_are_few() -> None:
    with_option = [one for one in SETTINGS if one.option not in ("", "--agent")]
    for setting in with_option:
        found = option(setting.name)
        assert setting.option in found.opts
        assert setting.variable in (found.help or "")
        is_switch = setting.kind is ValueKind.FLAG or setting.name == "WORKSPACE"
        assert bool(found.secondary_opts) == is_switch
        # Without it, those of a run that passed are ended.
        said = setting.default and setting.name not in ("CLEANUP_ON_EXIT", "WORKSPACE")
        assert ("[default: " in (found.help or "")) == bool(said)
    assert len([one for one in run.params if isinstance(one, click.Option)]) <= 22


def test_the_agents_that_are_listed_are_those_there_are() -> None:
    assert tuple(PROVIDERS) == AGENTS
    assert all(agent in (option("PROVIDER").help or "") for agent in PROVIDERS)


def test_a_mistyped_command_is_answered_with_the_one_that_was_meant() -> None:
    done = CliRunner().invoke(cao, ["atach"])
    assert done.exit_code == 2
    assert "No such command 'atach' (did you mean attach?)." in done.output


VALUES = {
    # a setting of each kind: a good value and a bad one
    "PROVIDER": ("codex", "no word"),
    "STATE_FILE": ("here.json", "a\x07b"),
    "API": ("http://127.0.0.1:1", "nowhere"),
    "RESUME": ("1", "perhaps"),
    "MISSING": ("ask", "all"),
    "MAX_ROUNDS": ("7", "-1"),
    "RESPONSE_TIMEOUT": ("7", "-1"),
    "GATES": ("tests=make test", "tests="),
    "HELD_BACK": ("tests/acceptance", "../tests"),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_bad_value_is_named_as_it_was_given(name: str, tmp_path: Path) -> None:
    setting, (good, bad) = BY_NAME[name], VALUES[name]
    bare = setting.variable if name in NEVER_BARE else name
    with chdir(tmp_path):
        assert build_request({}, {bare: good}).settings == {name: good}
        for options, environ, named in (
            ({name: bad}, {}, setting.option or setting.variable),
            ({}, {setting.variable: bad}, setting.variable),
            ({}, {bare: bad}, bare),
        ):
            with pytest.raises(ConfigError) as refused:
                build_request(options, environ)
            assert refused.value.variable == named


def test_a_variable_of_other_programs_is_not_taken_for_ours(tmp_path: Path) -> None:
    with chdir(tmp_path):
        assert build_request({}, {"WORKSPACE": "/var/lib/jenkins/shop"}).settings == {}


@pytest.mark.parametrize(
    ("task", "setting"),
    [
        *[(task, "PROMPT_FILE") for task in ("here", "here.md", "gone.md", "~/gone", "./gone")],
        *[(task, "PROMPT") for task in ("Fix it.", "fix", "Mend src/reader.py")],
        *[(task, "PROMPT") for task in ("# Task\nFix it.\n", "x" * 5000)],
    ],
)
def test_a_file_or_what_looks_like_a_path_is_the_file_of_the_task(
    task: str, setting: str, tmp_path: Path
) -> None:
    (tmp_path / "here").touch()
    with chdir(tmp_path):
        assert task_options(task) == {setting: task}


@pytest.mark.parametrize("task", ["", " \n"])
def test_an_empty_task_is_refused(task: str) -> None:
    with pytest.raises(PromptError):
        task_options(task)


def test_an_agent_is_given_to_a_role() -> None:
    assert agent_options(["tester=codex", "designer = q_cli", "critic=codex"]) == {
        "TESTER_PROVIDER": "codex",
        "ROLE_PROVIDERS": "designer=q_cli,critic=codex",
    }


@pytest.mark.parametrize("word", ["codex", "tester=", "=codex"])
def test_what_gives_no_agent_to_a_role_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match="--agent"):
        agent_options([word])


@pytest.mark.parametrize("name", sorted({*MOVED} - {*COMMANDS}))
def test_a_name_that_has_moved_names_the_right_command(name: str) -> None:
    done = CliRunner().invoke(cao, [name, "x"])
    assert isinstance(done.exception, UsageError)
    assert MOVED[name] in str(done.exception)
    assert MOVED[name].split()[1] in COMMANDS


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_stands_in_the_documentation_as_it_is(setting: Setting) -> None:
    (row,) = [
        line for line in DOCUMENTATION.splitlines() if line.startswith(f"| `{setting.variable}`")
    ]
    assert f"`{setting.option}`" in row if setting.option else " | – | " in row
    assert setting.help in row
    default = {"1": "on", "0": "off"} if setting.kind is ValueKind.FLAG else {}
    shown = default.get(setting.default, setting.default) or "–"
    assert row.split(" | ")[2].strip("`") == shown
