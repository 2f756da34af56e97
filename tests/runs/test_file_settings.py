"""The settings file: which one is read, and what a project's own cannot say."""

from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import ConfigError, UsageError
from cli_agent_orchestrator.runs.request import check_project_file, read_all_settings
from cli_agent_orchestrator.settings.config import RunConfig
from cli_agent_orchestrator.settings.gates import Gate


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


@pytest.mark.parametrize("file", ["cao.toml", "mine.toml"])
def test_a_file_can_name_gates(tmp_path: Path, file: str) -> None:
    text = '[gates]\ntests = "make test"\n[gates.e2e]\nrun = "make e2e"\nclean = true\n'
    (tmp_path / file).write_text(text, encoding="utf-8")
    named = str(tmp_path / file) if file == "mine.toml" else None
    settings = read_all_settings({"WD": str(tmp_path)}, {}, named)
    assert RunConfig.from_env(settings).gates == (
        Gate("tests", "make test"),
        Gate("e2e", "make e2e", clean=True),
    )


@pytest.mark.parametrize("flow", ["/tmp/mine.toml", "../mine.toml", "mine.toml", "~/x/y"])
def test_a_project_names_a_flow_only_by_its_name(tmp_path: Path, flow: str) -> None:
    (tmp_path / "cao.toml").write_text(f'flow = "{flow}"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"flow in cao\.toml .*the name of a flow"):
        read_all_settings({"WD": str(tmp_path)}, {}, None)
