"""The options of `cao run`."""

from pathlib import Path

import click
import pytest

from cli_agent_orchestrator.cli.run import report_command, run, task_options
from cli_agent_orchestrator.errors import UsageError
from cli_agent_orchestrator.run_config import RunConfig
from cli_agent_orchestrator.settings import SETTINGS, Kind, Setting

DOCUMENTATION = (Path(__file__).parents[2] / "docs" / "run.md").read_text(encoding="utf-8")


def option(name: str) -> click.Option:
    (found,) = [p for p in run.params if p.name == name and isinstance(p, click.Option)]
    return found


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_has_an_option_that_names_its_variable(setting: Setting) -> None:
    found = option(setting.name)
    assert setting.option in found.opts
    assert setting.name in (found.help or "")
    assert bool(found.secondary_opts) == (setting.kind is Kind.FLAG)


def test_no_default_is_shown_for_what_is_looked_for_if_it_is_not_given() -> None:
    assert "default" not in (option("API").help or "")
    assert RunConfig.from_env({}).api_given is False


@pytest.mark.parametrize("name", ["RESUME", "STRICT_FILE_HANDOFF"])
def test_a_flag_is_explained_without_the_numbers_of_its_variable(name: str) -> None:
    assert not any(letter.isdigit() for letter in option(name).help or "")


def test_what_agents_may_do_has_a_short_option() -> None:
    assert option("AGENT_PERMISSIONS").opts == ["--permissions"]


@pytest.mark.parametrize(
    ("task", "message", "options"),
    [
        ("task.md", "do it", {}),
        ("task.md", None, {"PROMPT": "do it"}),
        ("task.md", None, {"PROMPT_FILE": "other.md"}),
        (None, "do it", {"PROMPT": "do it"}),
        (None, "do it", {"PROMPT_FILE": "other.md"}),
        ("task.md", "", {}),
    ],
)
def test_the_task_is_named_once(
    task: str | None, message: str | None, options: dict[str, str]
) -> None:
    with pytest.raises(UsageError, match="name the task once"):
        task_options(task, message, options)


def test_a_task_may_be_a_file_or_a_line_or_said_elsewhere() -> None:
    assert task_options("task.md", None, {"PROMPT": ""}) == {"PROMPT_FILE": "task.md"}
    assert task_options(None, "Do it.", {}) == {"PROMPT": "# Task\n\nDo it.\n"}
    assert task_options(None, None, {"PROMPT": "a", "PROMPT_FILE": "b"}) == {}


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
    (row,) = [line for line in DOCUMENTATION.splitlines() if line.startswith(f"| `{setting.name}`")]
    assert f"`{setting.option}`" in row
    assert setting.help in row
    default = {"1": "on", "0": "off"} if setting.kind is Kind.FLAG else {}
    shown = default.get(setting.default, setting.default) or "–"
    assert row.split(" | ")[2].strip("`") == shown
