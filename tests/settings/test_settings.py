"""The levels that settings come from, and the settings file."""

from datetime import date
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import ConfigError, UsageError
from cli_agent_orchestrator.settings.config import RunConfig
from cli_agent_orchestrator.settings.values import (
    find_sources,
    flatten_settings,
    merge_settings,
    read_change,
    read_settings_file,
)


def test_option_wins_over_environment_over_file() -> None:
    levels: tuple[dict[str, str | None], ...] = (
        {"MAX_ROUNDS": "1", "WD": None, "PROVIDER": ""},
        {"MAX_ROUNDS": "2", "MAX_REVIEW_CYCLES": "2", "POLL_SECONDS": " ", "HOME": "/root"},
        {"MAX_ROUNDS": "3", "MAX_REVIEW_CYCLES": "3", "POLL_SECONDS": "3", "PROVIDER": "q_cli"},
    )
    merged = merge_settings(*levels)
    assert merged == {
        "MAX_ROUNDS": "1",
        "MAX_REVIEW_CYCLES": "2",
        "POLL_SECONDS": "3",
        "PROVIDER": "q_cli",
    }
    assert list(find_sources(a=levels[0], b=levels[1], c=levels[2]).values()) == [*"abcc"]


def test_an_agent_for_all_or_a_task_silences_others_of_lower_levels() -> None:
    file = {"PROVIDER": "codex", "ANALYST_PROVIDER": "claude_code"}
    assert merge_settings({"PROVIDER": "scripted"}, {}, file) == {"PROVIDER": "scripted"}
    assert merge_settings({}, {"PROVIDER": "scripted"}, file) == {"PROVIDER": "scripted"}
    assert merge_settings({}, {}, file) == file
    own = {"ANALYST_PROVIDER": "q_cli"}
    assert merge_settings(own, {}, file) == {**file, **own}
    both = {"PROMPT": "low", "PROMPT_FILE": "low.md"}
    assert merge_settings({"PROMPT": "high"}, both, both) == {"PROMPT": "high"}
    assert merge_settings({"PROMPT_FILE": "high.md"}, both, {}) == {"PROMPT_FILE": "high.md"}
    assert merge_settings({}, both, {}) == both


def test_a_settings_file_has_native_values(tmp_path: Path) -> None:
    path = tmp_path / "cao.toml"
    path.write_text(
        "max_rounds = 4\npoll_seconds = 0.5\ncleanup_on_exit = true\nresume = false\n"
        'prompt_file = "task.md"\nstate_file = "s.json"\nprompt = ""\nwd = "~/project"\n',
        encoding="utf-8-sig",
    )
    assert read_settings_file(path) == {
        **{"MAX_ROUNDS": "4", "POLL_SECONDS": "0.5", "CLEANUP_ON_EXIT": "true", "RESUME": "false"},
        **{"PROMPT_FILE": str(tmp_path / "task.md"), "STATE_FILE": "s.json", "PROMPT": ""},
        "WD": "~/project",
    }


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("max_round", "did you mean max_rounds"),
        ("MAX_ROUNDS", "did you mean max_rounds"),
        ("max-rounds", "did you mean max_rounds"),
        ("color", "a known setting: prompt_file, prompt, wd"),
        ("providers", "never in a project"),
    ],
)
def test_an_unknown_key_is_refused_with_a_hint(key: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        flatten_settings({"wd": "x", key: 4}, Path("cao.toml"))
    assert str(caught.value).startswith(f"{key} in cao.toml is 4, expected a known setting")
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"max_rounds = ", b"\xff\xfea", b"a = " + b"[" * 100_000, b"a = 1\na = 2"]
)
def test_a_settings_file_of_another_form_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cao.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is not a TOML file"):
        read_settings_file(path)


def test_a_file_that_is_not_there_or_has_values_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_settings_file(tmp_path / "cao.toml")
    for value in (date(2025, 1, 31), [1], {"a": 1}):
        with pytest.raises(ConfigError, match="expected text, a number, true or false"):
            flatten_settings({"max_rounds": value}, Path("cao.toml"))


def test_paths_are_a_list_or_a_text_and_become_the_same() -> None:
    table = {"held_back": ["tests/acceptance/", "./scenario.md"]}
    file = flatten_settings(table, Path("/p/cao.toml"))
    for given in (file, {"HELD_BACK": "tests/acceptance , scenario.md\n"}):
        config = RunConfig.from_env(given)
        assert config.held_back == ("tests/acceptance", "scenario.md")
        assert config.settings["HELD_BACK"] == "tests/acceptance\nscenario.md"
    assert RunConfig.from_env(flatten_settings({"held_back": []}, Path("/p/x"))).held_back == ()


ODD_PATHS = [
    *("/etc/passwd", "../x", "a/../b", ".", "./", "/", ".git", "a/.GIT/config", ".tmp/x"),
    *("a\x1bb", "a\u202eb", "a\udcffb"),
]


@pytest.mark.parametrize("path", ODD_PATHS)
def test_a_path_that_is_none_of_the_projects_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="HELD_BACK"):
        RunConfig.from_env({"HELD_BACK": f"tests,{path}"})


@pytest.mark.parametrize(
    "value", [["a", 7], [*map(str, range(101))], ["a,b"], ["../x"], [""], [["a"]], {"a": "b"}]
)
def test_what_is_no_list_of_paths_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=r"(?i)held_back"):
        RunConfig.from_env(flatten_settings({"held_back": value}, Path("/p/cao.toml")))


def test_a_work_tree_is_a_truth_value_and_its_setup_a_key() -> None:
    table = {"worktree": True, "setup": "npm ci"}
    assert flatten_settings(table, Path("/p/cao.toml")) == {
        "WORKSPACE": "worktree",
        "WORKTREE_SETUP": "npm ci",
    }
    assert flatten_settings({"worktree": False}, Path("cao.toml")) == {"WORKSPACE": "folder"}
    for value in ("yes", 7, {"setup": "npm ci"}):
        with pytest.raises(ConfigError, match="expected true or false"):
            flatten_settings({"worktree": value}, Path("cao.toml"))


def test_a_setting_is_changed_by_any_of_its_names_and_by_none_that_resembles_it() -> None:
    for name in ("MAX_ROUNDS", "max-rounds", "CAO_MAX_ROUNDS", "max_rounds"):
        assert read_change(name, "012") == ("MAX_ROUNDS", "12")
    for name in ("MAX_ROUNDS\n", " max_rounds", "max_round\u017f", "MAX ROUNDS"):
        with pytest.raises(UsageError, match="cannot be changed in a run"):
            read_change(name, "12")
