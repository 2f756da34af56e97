"""The options of `cao run`."""

from contextlib import chdir
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cli_agent_orchestrator.cli.main import COMMANDS, MOVED, cao
from cli_agent_orchestrator.cli.run import agent_options, report_command, run, task_options
from cli_agent_orchestrator.client.find import name_server
from cli_agent_orchestrator.errors import ConfigError, PromptError, UsageError
from cli_agent_orchestrator.providers import PROVIDERS
from cli_agent_orchestrator.runs.request import build_request
from cli_agent_orchestrator.settings.config import RunConfig
from cli_agent_orchestrator.settings.table import AGENTS, NEVER_BARE, SETTINGS, Setting, ValueKind
from cli_agent_orchestrator.settings.values import read_environment

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
    assert len([one for one in run.params if isinstance(one, click.Option)]) <= 22


def test_the_agents_that_are_listed_are_those_there_are() -> None:
    assert tuple(PROVIDERS) == AGENTS
    assert all(agent in (option("PROVIDER").help or "") for agent in PROVIDERS)


@pytest.mark.parametrize(
    ("typed", "meant"), [("rnu", "run"), ("atach", "attach"), ("demp", "demo")]
)
def test_a_mistyped_command_is_answered_with_the_one_that_was_meant(typed: str, meant: str) -> None:
    done = CliRunner().invoke(cao, [typed])
    assert done.exit_code == 2
    assert f"No such command '{typed}' (did you mean {meant}?)." in done.output


SAMPLES = {
    ValueKind.TEXT: "word",
    ValueKind.PATH: "here.json",
    ValueKind.URL: "http://127.0.0.1:1",
    ValueKind.FLAG: "1",
    ValueKind.CHOICE: "ask",
    ValueKind.COUNT: "7",
    ValueKind.SECONDS: "7",
    ValueKind.GATES: "tests=make test",
    ValueKind.PATHS: "tests/acceptance",
}
BAD = {
    ValueKind.TEXT: "no word",
    ValueKind.PATH: "a\x07b",
    ValueKind.URL: "nowhere",
    ValueKind.FLAG: "perhaps",
    ValueKind.CHOICE: "all",
    ValueKind.COUNT: "-1",
    ValueKind.SECONDS: "-1",
    ValueKind.GATES: "tests=",
    ValueKind.PATHS: "../tests",
}


def sample(setting: Setting, folder: Path) -> str:
    if setting.kind is ValueKind.CHOICE:
        return setting.choices[0]
    return {
        "WD": str(folder),
        "ROLE_PROVIDERS": "designer=codex",
        "PROMPT": "# Task\nmend it\n# Test\nit works",
        "PROMPT_FILE": str(folder / "task.md"),
    }.get(setting.name, SAMPLES[setting.kind])


def bare_name(setting: Setting) -> str:
    """Return the variable without its prefix, or with it where the other is not read."""
    return setting.variable if setting.name in NEVER_BARE else setting.name


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_is_read_with_its_prefix_which_wins(setting: Setting, tmp_path: Path) -> None:
    (tmp_path / "task.md").write_text("# Task\nmend it\n# Test\nit works\n", encoding="utf-8")
    with chdir(tmp_path):
        text = sample(setting, tmp_path)
        bare = build_request({}, {bare_name(setting): text})
        bad = {setting.variable: text, setting.name: "elsewhere"}
        prefixed = build_request({}, bad)
    assert bare.settings == prefixed.settings == {setting.name: text}
    assert prefixed.sources[setting.name] == "environment"


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_no_bare_name_is_read_by_other_commands(setting: Setting) -> None:
    environ = {setting.name: SAMPLES[setting.kind]}
    assert read_environment(environ, bare=False) == {}
    assert name_server(environ) is None


FREE_TEXT = ("PROMPT", "FLOW", "PROJECT_TEST_CMD", "WORKTREE_SETUP", "ROLE_PROVIDERS")


@pytest.mark.parametrize(
    "setting", [one for one in SETTINGS if one.name not in FREE_TEXT], ids=lambda one: one.name
)
def test_a_bad_value_is_named_as_it_was_given(setting: Setting, tmp_path: Path) -> None:
    bad = BAD[setting.kind]
    with chdir(tmp_path):
        with pytest.raises(ConfigError) as by_option:
            build_request({setting.name: bad}, {})
        with pytest.raises(ConfigError) as by_variable:
            build_request({}, {setting.variable: bad})
        with pytest.raises(ConfigError) as by_bare_name:
            build_request({}, {bare_name(setting): bad})
    assert by_option.value.variable == (setting.option or setting.variable)
    assert by_variable.value.variable == setting.variable
    assert by_bare_name.value.variable == bare_name(setting)


def test_a_variable_of_other_programs_is_not_taken_for_ours(tmp_path: Path) -> None:
    with chdir(tmp_path):
        assert build_request({}, {"WORKSPACE": "/var/lib/jenkins/shop"}).settings == {}


def test_a_bad_value_of_the_projects_file_is_named_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "cao.toml").write_text("max_rounds = 0\n", encoding="utf-8")
    with chdir(tmp_path), pytest.raises(ConfigError, match=r"max_rounds in cao\.toml is '0'"):
        build_request({}, {})


def test_no_default_is_shown_for_what_is_looked_for_if_it_is_not_given() -> None:
    assert "default" not in (option("API").help or "")
    assert RunConfig.from_env({}).api_given is False


@pytest.mark.parametrize("name", ["RESUME", "RECORDING"])
def test_a_flag_is_explained_without_the_numbers_of_its_variable(name: str) -> None:
    assert not any(letter.isdigit() for letter in option(name).help or "")


@pytest.mark.parametrize("task", ["here", "here.md", "gone.md", "~/gone", "./gone"])
def test_a_file_or_what_looks_like_a_path_is_the_file_of_the_task(
    task: str, tmp_path: Path
) -> None:
    (tmp_path / "here").touch()
    with chdir(tmp_path):
        assert task_options(task) == {"PROMPT_FILE": task}


@pytest.mark.parametrize(
    "task", ["Fix it.", "fix", "Mend src/reader.py", "# Task\nFix it.\n", "x" * 5000]
)
def test_any_other_text_is_the_task(task: str, tmp_path: Path) -> None:
    with chdir(tmp_path):
        assert task_options(task) == {"PROMPT": task}


@pytest.mark.parametrize("task", ["", " \n"])
def test_an_empty_task_is_refused(task: str) -> None:
    with pytest.raises(PromptError, match="the task is empty"):
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


@pytest.mark.parametrize("name", MOVED)
def test_a_name_that_has_moved_names_the_right_command(name: str) -> None:
    if name in COMMANDS:
        return
    done = CliRunner().invoke(cao, [name, "x"])
    assert isinstance(done.exception, UsageError)
    assert MOVED[name] in str(done.exception)
    assert MOVED[name].split()[1] in COMMANDS


def test_the_command_that_reports_on_a_run_is_one_that_works_from_here(tmp_path: Path) -> None:
    folder = tmp_path / "my project"
    folder.mkdir()
    here = RunConfig.from_env({"WD": str(folder)})
    elsewhere = RunConfig.from_env({"WD": str(folder), "STATE_FILE": "run.json"})
    assert report_command(here, here.wd) == "cao report"
    assert report_command(elsewhere, Path("/")) == (
        f"cao report --wd '{here.wd}' --state-file '{here.wd / 'run.json'}'"
    )


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
