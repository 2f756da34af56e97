"""The table of settings, the levels they come from, and the settings file."""

import tomllib
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import ConfigError, UsageError
from cli_agent_orchestrator.settings.config import RunConfig
from cli_agent_orchestrator.settings.table import BY_KEY, SETTINGS
from cli_agent_orchestrator.settings.values import (
    find_sources,
    flatten_settings,
    merge_settings,
    read_change,
    read_settings_file,
)

SPECIFIED = {
    # the table of the requirements: what a variable is when it is not set
    # (API: what is looked for then; the server of `RunConfig.api` is but the usual one)
    "API": "", "PROVIDER": "codex", "WD": "", "PROMPT": "", "PROMPT_FILE": "",
    "MAX_ROUNDS": "8", "POLL_SECONDS": "2", "MAX_REVIEW_CYCLES": "3",
    "MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "2", "REQUIRE_REVIEW_EVIDENCE": "1",
    "REVIEW_EVIDENCE_MIN_MATCH": "3", "PROJECT_TEST_CMD": "", "RESUME": "",
    "CONDENSE_EXPLORE_ON_REPEAT": "1", "CONDENSE_REVIEW_FEEDBACK": "1", "MAX_FEEDBACK_LINES": "30",
    "CONDENSE_UPSTREAM_ON_REPEAT": "1", "CONDENSE_CROSS_PHASE": "1", "MAX_CROSS_PHASE_LINES": "40",
    "STATE_FILE": "", "CLEANUP_ON_EXIT": "0", "RESPONSE_TIMEOUT": "1800",
    "STRICT_FILE_HANDOFF": "1", "IDLE_GRACE_SECONDS": "30", "MAX_FILE_REMINDERS": "1",
    "ANALYST_PROVIDER": "", "ANALYST_REVIEW_PROVIDER": "", "PROGRAMMER_PROVIDER": "",
    "PROGRAMMER_REVIEW_PROVIDER": "", "TESTER_PROVIDER": "", "AGENT_PERMISSIONS": "",
    "ROLE_PROVIDERS": "", "FLOW": "loop", "GATES": "", "GATE_TIMEOUT": "1800",
    "MISSING": "", "PROOF": "report", "READONLY_ROLES": "warn", "REVIEW_BOUND": "show",
    "STALL": "warn", "WORKSPACE": "folder", "WORKTREE_SETUP": "", "HELD_BACK": "",
    "RECORDING": "1",
}  # fmt: skip


def test_the_table_has_every_variable_with_its_default() -> None:
    assert {setting.name: setting.default for setting in SETTINGS} == SPECIFIED


def test_every_setting_has_a_key_an_option_and_a_sentence() -> None:
    assert BY_KEY["max_rounds"].option == "--max-rounds"
    for setting in SETTINGS:
        assert setting.help.endswith(".")
        assert setting.help[0].isupper() or setting.help[0].isdigit()


def test_option_wins_over_environment_over_file() -> None:
    merged = merge_settings(
        {"MAX_ROUNDS": "1", "WD": None, "PROVIDER": ""},
        {"MAX_ROUNDS": "2", "MAX_REVIEW_CYCLES": "2", "POLL_SECONDS": " ", "HOME": "/root"},
        {"MAX_ROUNDS": "3", "MAX_REVIEW_CYCLES": "3", "POLL_SECONDS": "3", "PROVIDER": "q_cli"},
    )
    assert merged == {
        "MAX_ROUNDS": "1",
        "MAX_REVIEW_CYCLES": "2",
        "POLL_SECONDS": "3",
        "PROVIDER": "q_cli",
    }


def test_it_is_known_which_level_a_setting_comes_from() -> None:
    sources = find_sources(
        option={"MAX_ROUNDS": "1", "WD": None},
        environment={"MAX_ROUNDS": "2", "MAX_REVIEW_CYCLES": "2", "HOME": "/root"},
        task={"MAX_REVIEW_CYCLES": "3", "PROVIDER": "codex"},
        file={"POLL_SECONDS": "4", "ANALYST_PROVIDER": "q_cli"},
    )
    assert sources == {
        "MAX_ROUNDS": "option",
        "MAX_REVIEW_CYCLES": "environment",
        "PROVIDER": "task",
        "POLL_SECONDS": "file",
    }


def test_one_agent_for_all_silences_agents_of_lower_levels() -> None:
    file = {"PROVIDER": "codex", "ANALYST_PROVIDER": "claude_code"}
    assert merge_settings({"PROVIDER": "scripted"}, {}, file) == {"PROVIDER": "scripted"}
    assert merge_settings({}, {"PROVIDER": "scripted"}, file) == {"PROVIDER": "scripted"}
    assert merge_settings({}, {}, file) == file
    assert merge_settings({"ANALYST_PROVIDER": "q_cli"}, {}, file) == {
        **file,
        "ANALYST_PROVIDER": "q_cli",
    }


def test_a_task_silences_other_tasks_of_lower_levels() -> None:
    both = {"PROMPT": "low", "PROMPT_FILE": "low.md"}
    assert merge_settings({"PROMPT": "high"}, both, both) == {"PROMPT": "high"}
    assert merge_settings({"PROMPT_FILE": "high.md"}, both, {}) == {"PROMPT_FILE": "high.md"}
    assert merge_settings({}, both, {}) == both


def test_a_settings_file_has_native_values(tmp_path: Path) -> None:
    path = tmp_path / "cao.toml"
    path.write_text(
        "max_rounds = 4\npoll_seconds = 0.5\ncleanup_on_exit = true\nresume = false\n"
        'provider = "claude_code"\nprompt_file = "task.md"\nstate_file = "s.json"\nprompt = ""\n'
        'wd = "~/project"\n',
        encoding="utf-8-sig",
    )
    assert read_settings_file(path) == {
        "MAX_ROUNDS": "4",
        "POLL_SECONDS": "0.5",
        "CLEANUP_ON_EXIT": "true",
        "RESUME": "false",
        "PROVIDER": "claude_code",
        "PROMPT_FILE": str(tmp_path / "task.md"),
        "STATE_FILE": "s.json",
        "PROMPT": "",
        "WD": "~/project",
    }


def test_a_truth_value_is_no_number(tmp_path: Path) -> None:
    values = flatten_settings({"max_rounds": True}, tmp_path / "cao.toml")
    with pytest.raises(ConfigError, match="MAX_ROUNDS is 'true'"):
        RunConfig.from_env(values)


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


@pytest.mark.parametrize("value", [[1], {"a": 1}, tomllib.loads("d = 2025-01-31")["d"]])
def test_a_value_of_another_kind_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=r"max_rounds in cao\.toml is .* expected text, a number"):
        flatten_settings({"max_rounds": value}, Path("cao.toml"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"max_rounds = ", "is not a TOML file"),
        (b"\xff\xfea", "is not a TOML file"),
        (b"a = " + b"[" * 100_000, "is not a TOML file"),
        (b"a = 1\na = 2", "is not a TOML file"),
    ],
)
def test_a_settings_file_of_another_form_is_refused(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "cao.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=reason):
        read_settings_file(path)


HUGE = "0x" + "f" * 5000


@pytest.mark.parametrize("key", ["max_rounds", "poll_seconds", "wd", "prompt", "color"])
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (HUGE, "'a number of 20000 bits'"),
        (f"-{2**64}", "'a number of 65 bits'"),
        (f"[{HUGE}]", "'a list'"),
        (f"{{ a = {HUGE} }}", "'a table'"),
    ],
    ids=["huge", "large", "list", "table"],
)
def test_a_huge_number_is_refused_without_being_printed(
    tmp_path: Path, key: str, value: str, shown: str
) -> None:
    path = tmp_path / "cao.toml"
    path.write_text(f"{key} = {value}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_settings_file(path)
    assert str(caught.value).startswith(f"{key} in cao.toml is {shown}, expected ")


def test_the_deepest_table_is_refused_without_being_printed(tmp_path: Path) -> None:
    path = tmp_path / "cao.toml"
    path.write_text(f"[{'.'.join('a' * 9000)}]\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"a in cao\.toml is 'a table'|is not a TOML file"):
        read_settings_file(path)


def test_a_settings_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_settings_file(tmp_path / "cao.toml")


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
    with pytest.raises(ConfigError, match="held_back in cao"):
        flatten_settings({"held_back": [path]}, Path("/p/cao.toml"))


@pytest.mark.parametrize("value", [["a", 7], ["a,b"], [""], [["a"]], {"a": "b"}])
def test_what_is_no_list_of_paths_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="held_back"):
        RunConfig.from_env(flatten_settings({"held_back": value}, Path("/p/cao.toml")))


def test_there_are_not_any_number_of_paths() -> None:
    with pytest.raises(ConfigError, match="at most 100"):
        RunConfig.from_env({"HELD_BACK": "\n".join(map(str, range(101)))})


def test_a_work_tree_is_a_truth_value_and_its_setup_a_key() -> None:
    table = {"worktree": True, "setup": "npm ci"}
    assert flatten_settings(table, Path("/p/cao.toml")) == {
        "WORKSPACE": "worktree",
        "WORKTREE_SETUP": "npm ci",
    }
    assert flatten_settings({"worktree": False}, Path("cao.toml")) == {"WORKSPACE": "folder"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("worktree", value) for value in ("yes", 7, {"setup": "npm ci"})),
        ("workspace", "worktree"),
        ("worktree_setup", "npm ci"),
    ],
)
def test_earlier_forms_of_them_are_refused(key: str, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        flatten_settings({key: value}, Path("/p/cao.toml"))
    assert caught.value.variable == f"{key} in cao.toml"
    assert {"workspace": "worktree = true", "worktree_setup": "setup ="}.get(key, "true") in (
        caught.value.expected
    )


@pytest.mark.parametrize("name", ["MAX_ROUNDS", "max-rounds", "CAO_MAX_ROUNDS", "max_rounds"])
def test_a_setting_is_changed_by_any_of_its_names(name: str) -> None:
    assert read_change(name, "012") == ("MAX_ROUNDS", "12")


@pytest.mark.parametrize("name", ["MAX_ROUNDS\n", " max_rounds", "max_round\u017f", "MAX ROUNDS"])
def test_a_setting_is_not_changed_by_a_name_that_only_resembles_it(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be changed in a run"):
        read_change(name, "12")
