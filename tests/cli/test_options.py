"""The options of `cao run` and the four levels a setting can come from."""

from contextlib import chdir
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cli_agent_orchestrator.cli.main import cao
from cli_agent_orchestrator.cli.run import (
    build_request,
    check_project_file,
    read_all_settings,
    report_command,
    run,
    task_options,
)
from cli_agent_orchestrator.discovery import name_server
from cli_agent_orchestrator.errors import ConfigError, UsageError
from cli_agent_orchestrator.providers import PROVIDERS
from cli_agent_orchestrator.run_config import RunConfig
from cli_agent_orchestrator.runs.conductor import RunRequest
from cli_agent_orchestrator.settings import AGENTS, SETTINGS, Kind, Setting, read_environment

DOCUMENTATION = (Path(__file__).parents[2] / "docs" / "run.md").read_text(encoding="utf-8")


def option(name: str) -> click.Option:
    (found,) = [p for p in run.params if p.name == name and isinstance(p, click.Option)]
    return found


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_has_an_option_that_names_its_variable(setting: Setting) -> None:
    found = option(setting.name)
    assert setting.option in found.opts
    assert f"{setting.variable}]" in (found.help or "")
    assert bool(found.secondary_opts) == (setting.kind is Kind.FLAG)


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
    Kind.TEXT: "word",
    Kind.PATH: "here.json",
    Kind.URL: "http://127.0.0.1:1",
    Kind.FLAG: "1",
    Kind.CHOICE: "ask",
    Kind.COUNT: "7",
    Kind.SECONDS: "7",
}
BAD = {
    Kind.TEXT: "no word",
    Kind.PATH: "a\x07b",
    Kind.URL: "nowhere",
    Kind.FLAG: "perhaps",
    Kind.CHOICE: "all",
    Kind.COUNT: "-1",
    Kind.SECONDS: "-1",
}


def sample(setting: Setting, folder: Path) -> str:
    return {
        "WD": str(folder),
        "ROLE_PROVIDERS": "designer=codex",
        "PROMPT": "# Task\nmend it\n# Test\nit works",
        "PROMPT_FILE": str(folder / "task.md"),
    }.get(setting.name, SAMPLES[setting.kind])


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_is_read_with_its_prefix_which_wins(setting: Setting, tmp_path: Path) -> None:
    (tmp_path / "task.md").write_text("# Task\nmend it\n# Test\nit works\n", encoding="utf-8")
    with chdir(tmp_path):
        text = sample(setting, tmp_path)
        bare = build_request({}, {setting.name: text}, None, False)
        bad = {setting.variable: text, setting.name: "elsewhere"}
        prefixed = build_request({}, bad, None, False)
    assert bare.settings == prefixed.settings == {setting.name: text}
    assert prefixed.sources[setting.name] == "environment"


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_no_bare_name_is_read_by_other_commands(setting: Setting) -> None:
    environ = {setting.name: SAMPLES[setting.kind]}
    assert read_environment(environ, bare=False) == {}
    assert name_server(environ) is None


FREE_TEXT = ("PROMPT", "FLOW", "GATE", "PROJECT_TEST_CMD", "ROLE_PROVIDERS")


@pytest.mark.parametrize(
    "setting", [one for one in SETTINGS if one.name not in FREE_TEXT], ids=lambda one: one.name
)
def test_a_bad_value_is_named_as_it_was_given(setting: Setting, tmp_path: Path) -> None:
    bad = BAD[setting.kind]
    with chdir(tmp_path):
        with pytest.raises(ConfigError) as by_option:
            build_request({setting.name: bad}, {}, None, False)
        with pytest.raises(ConfigError) as by_variable:
            build_request({}, {setting.variable: bad}, None, False)
        with pytest.raises(ConfigError) as by_bare_name:
            build_request({}, {setting.name: bad}, None, False)
    assert by_option.value.variable == setting.option
    assert by_variable.value.variable == setting.variable
    assert by_bare_name.value.variable == setting.name


def test_a_bad_value_of_the_projects_file_is_named_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "cao.toml").write_text("max_rounds = 0\n", encoding="utf-8")
    with chdir(tmp_path), pytest.raises(ConfigError, match=r"max_rounds in cao\.toml is '0'"):
        build_request({}, {}, None, False)


def test_no_default_is_shown_for_what_is_looked_for_if_it_is_not_given() -> None:
    assert "default" not in (option("API").help or "")
    assert RunConfig.from_env({}).api_given is False


@pytest.mark.parametrize("name", ["RESUME", "STRICT_FILE_HANDOFF"])
def test_a_flag_is_explained_without_the_numbers_of_its_variable(name: str) -> None:
    assert not any(letter.isdigit() for letter in option(name).help or "")


def test_an_option_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "cao.toml").write_text(
        "max_rounds = 5\nmax_review_cycles = 6\npoll_seconds = 7\n", encoding="utf-8"
    )
    settings = read_all_settings(
        {"MAX_ROUNDS": "1", "WD": str(tmp_path)}, {"MAX_ROUNDS": "2", "POLL_SECONDS": "3"}, None
    )
    assert settings["MAX_ROUNDS"] == "1"
    assert settings["POLL_SECONDS"] == "3"
    assert settings["MAX_REVIEW_CYCLES"] == "6"


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


def test_a_named_file_is_read_instead_of_the_projects_own(tmp_path: Path) -> None:
    (tmp_path / "cao.toml").write_text("max_rounds = 5\n", encoding="utf-8")
    (tmp_path / "other.toml").write_text("poll_seconds = 1\n", encoding="utf-8")
    settings = read_all_settings({"WD": str(tmp_path)}, {}, str(tmp_path / "other.toml"))
    assert settings == {"WD": str(tmp_path), "POLL_SECONDS": "1"}


def test_a_named_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_all_settings({}, {}, str(tmp_path / "none.toml"))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"STATE_FILE": "/etc/passwd"}, "state_file"),
        ({"STATE_FILE": "../other/state.json"}, "state_file"),
        ({"WD": "/"}, "wd"),
        ({"PROMPT_FILE": "/etc/shadow"}, "prompt_file"),
        ({"API": "http://evil.example:9889"}, "api"),
        ({"AGENT_PERMISSIONS": "full"}, "agent_permissions"),
        ({"AGENT_PERMISSIONS": " FULL "}, "agent_permissions"),
        ({"AGENT_PERMISSIONS": "workspace"}, "agent_permissions"),
    ],
)
def test_a_cloned_project_cannot_reach_out_of_its_folder(
    tmp_path: Path, settings: dict[str, str], named: str
) -> None:
    with pytest.raises(ConfigError, match=f"{named} in cao.toml"):
        check_project_file(settings, tmp_path)


@pytest.mark.parametrize(
    "value",
    [
        *(
            ".git/config",
            "task.md",
            "cao.toml",
            "package.json",
            ".tmp",
            ".tmp/run",
            "state/run.json",
        ),
        *(".tmp/../package.json", ".tmp/.json", "link/run.json", ".tmp/away/run.json", "."),
    ],
)
def test_a_cloned_project_cannot_name_another_file_of_its_own_as_the_state(
    tmp_path: Path, value: str
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".tmp").mkdir()
    (tmp_path / "link").symlink_to(".git")
    (tmp_path / ".tmp" / "away").symlink_to("../.git")
    with pytest.raises(ConfigError, match=r"state_file in cao\.toml.*a \.json file below \.tmp"):
        check_project_file({"STATE_FILE": value}, tmp_path)


def test_a_project_may_set_what_stays_inside(tmp_path: Path) -> None:
    check_project_file(
        {
            "STATE_FILE": ".tmp/state/run.json",
            "PROMPT_FILE": str(tmp_path / "task.md"),
            "API": "http://localhost:9889",
            "MAX_ROUNDS": "2",
            "AGENT_PERMISSIONS": "ask",
        },
        tmp_path,
    )


@pytest.mark.parametrize(
    ("options", "environ", "named"),
    [
        ({"AGENT_PERMISSIONS": "full"}, {}, False),
        ({}, {"AGENT_PERMISSIONS": "full"}, False),
        ({}, {}, True),
    ],
)
def test_only_the_user_allows_agents_everything(
    tmp_path: Path, options: dict[str, str], environ: dict[str, str], named: bool
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('agent_permissions = "full"\n', encoding="utf-8")
    settings = read_all_settings(
        {**options, "WD": str(tmp_path)}, environ, str(file) if named else None
    )
    assert RunConfig.from_env(settings).permissions == "full"
    assert option("AGENT_PERMISSIONS").opts == ["--permissions"]


def test_the_command_that_reports_on_a_run_is_one_that_works_from_here(tmp_path: Path) -> None:
    folder = tmp_path / "my project"
    folder.mkdir()
    here = RunConfig.from_env({"WD": str(folder)})
    elsewhere = RunConfig.from_env({"WD": str(folder), "STATE_FILE": "run.json"})
    assert report_command(here, here.wd) == "cao report"
    assert report_command(elsewhere, Path("/")) == (
        f"cao report --wd '{here.wd}' --state-file '{here.wd / 'run.json'}'"
    )


def test_agents_are_chosen_for_all_roles_or_for_some(tmp_path: Path) -> None:
    def chosen(role: str, **settings: str) -> str:
        config = RunConfig.from_env({"WD": str(tmp_path), **settings})
        return RunRequest(config, settings).chosen_provider(role)

    assert chosen("tester") == ""
    assert chosen("tester", TESTER_PROVIDER="codex") == "codex"
    assert chosen("analyst", TESTER_PROVIDER="codex") == ""
    both = {"PROVIDER": "scripted", "ANALYST_PROVIDER": "codex"}
    assert (chosen("analyst", **both), chosen("designer", **both)) == ("codex", "scripted")


@pytest.mark.parametrize("file", ["cao.toml", "mine.toml"])
def test_no_file_can_name_the_command_of_a_gate(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_text('gate = "rm -rf /"\n', encoding="utf-8")
    named = str(tmp_path / file) if file == "mine.toml" else None
    with pytest.raises(ConfigError, match=r"gate in .*--gate"):
        read_all_settings({"WD": str(tmp_path)}, {}, named)


@pytest.mark.parametrize("flow", ["/tmp/mine.toml", "../mine.toml", "mine.toml", "~/x/y"])
def test_a_project_names_a_flow_only_by_its_name(tmp_path: Path, flow: str) -> None:
    (tmp_path / "cao.toml").write_text(f'flow = "{flow}"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"flow in cao\.toml .*the name of a flow"):
        read_all_settings({"WD": str(tmp_path)}, {}, None)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_stands_in_the_documentation_as_it_is(setting: Setting) -> None:
    (row,) = [
        line for line in DOCUMENTATION.splitlines() if line.startswith(f"| `{setting.variable}`")
    ]
    assert f"`{setting.option}`" in row
    assert setting.help in row
    default = {"1": "on", "0": "off"} if setting.kind is Kind.FLAG else {}
    shown = default.get(setting.default, setting.default) or "–"
    assert row.split(" | ")[2].strip("`") == shown
