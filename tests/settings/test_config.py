"""The settings of a run and of a server, read and checked."""

import os
import re
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import ConfigError
from cli_agent_orchestrator.settings.config import (
    Condensation,
    HandoffRules,
    LoopRules,
    ProviderSettings,
    ReviewRules,
    RunConfig,
    ServerConfig,
)
from cli_agent_orchestrator.settings.layout import config_folder, state_folder
from cli_agent_orchestrator.settings.table import SETTINGS


def read(tmp_path: Path, **values: str) -> RunConfig:
    return RunConfig.from_env({"WD": str(tmp_path), **values})


def test_the_defaults_are_those_of_the_shell_script(tmp_path: Path) -> None:
    """Scenario: Default configuration matches shell script"""
    config = read(tmp_path)
    assert (config.rules.max_rounds, config.rules.max_review_cycles) == (8, 3)
    assert config.rules.review == ReviewRules(
        min_cycles=2, require_evidence=True, evidence_min_match=3
    )
    assert config.handoff.poll_seconds == 2
    assert config.handoff.response_timeout == 1800
    assert config.handoff.idle_grace == 30
    assert config.handoff.strict
    assert config.handoff.max_reminders == 1
    assert config.rules.condensation == Condensation(True, True, 30, True, True, 40)
    assert (config.api, config.api_given) == ("http://localhost:9889", False)
    assert config.provider == "codex"
    assert (config.prompt, config.prompt_file, config.project_test_cmd) == ("", None, "")
    assert config.resume is None
    assert not config.cleanup_on_exit
    assert config.recording
    assert config.warnings(4) == ()


def test_everything_can_be_set(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        API="https://example.org:99/",
        PROVIDER="claude_code",
        PROMPT="text",
        MAX_ROUNDS="4",
        POLL_SECONDS="0.25",
        MAX_REVIEW_CYCLES="5",
        MIN_REVIEW_CYCLES_BEFORE_APPROVAL="0",
        REQUIRE_REVIEW_EVIDENCE="no",
        REVIEW_EVIDENCE_MIN_MATCH="1",
        PROJECT_TEST_CMD=" make test ",
        RESUME="0",
        CONDENSE_EXPLORE_ON_REPEAT="false",
        CONDENSE_REVIEW_FEEDBACK="Off",
        MAX_FEEDBACK_LINES="7",
        CONDENSE_UPSTREAM_ON_REPEAT="0",
        CONDENSE_CROSS_PHASE="NO",
        MAX_CROSS_PHASE_LINES="9",
        CLEANUP_ON_EXIT="yes",
        RECORDING="off",
        RESPONSE_TIMEOUT="60",
        STRICT_FILE_HANDOFF="0",
        IDLE_GRACE_SECONDS="5",
        MAX_FILE_REMINDERS="0",
    )
    assert all(read(tmp_path, RESUME=word).resume for word in ("1", "true", "YES", "On"))
    assert (config.api, config.api_given) == ("https://example.org:99", True)
    assert config.provider == "claude_code"
    assert config.prompt == "text"
    assert "text" not in repr(config)
    assert config.project_test_cmd == "make test"
    assert config.resume is False
    assert config.cleanup_on_exit
    assert not config.recording
    assert config.rules == LoopRules(
        4, 5, ReviewRules(0, False, 1), Condensation(False, False, 7, False, False, 9)
    )
    assert config.handoff == HandoffRules(0.25, 60, 5, False, 0)


def test_an_empty_value_is_not_set(tmp_path: Path) -> None:
    empty = {setting.name: " \t" for setting in SETTINGS if setting.name != "WD"}
    assert read(tmp_path, **empty) == read(tmp_path)
    assert RunConfig.from_env({"WD": ""}).wd == Path.cwd().resolve()
    (tmp_path / "inner").mkdir()
    assert RunConfig.from_env({"WD": f"{tmp_path}/inner/.."}).wd == tmp_path.resolve()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("MAX_ROUNDS", "0", "a whole number of at least 1"),
        ("MAX_ROUNDS", "2.5", "a whole number of at least 1"),
        ("MIN_REVIEW_CYCLES_BEFORE_APPROVAL", "-1", "a whole number of at least 0"),
        ("POLL_SECONDS", "-1", "a number of seconds from 0 to 10000000"),
        ("RESPONSE_TIMEOUT", "inf", "a number of seconds from 0 to 10000000"),
        ("IDLE_GRACE_SECONDS", "10000001", "a number of seconds from 0 to 10000000"),
        ("RESUME", "maybe", "1/0, true/false, yes/no or on/off"),
        ("API", "localhost:9889", "the http or https address of a server"),
        ("API", "ftp://localhost", "the http or https address of a server"),
        ("API", "http://local host", "the http or https address of a server"),
        ("PROVIDER", "codex; rm", "the name of an agent"),
        ("TESTER_PROVIDER", "../x", "the name of an agent"),
        ("AGENT_PERMISSIONS", "root", "one of workspace, full, ask"),
        ("WD", "/no/such/folder", "a folder that exists"),
        ("WD", __file__, "a folder"),
        ("WD", "a\0b", "a path"),
        *(
            ("ROLE_PROVIDERS", text, "NAME=AGENT")
            for text in ("designer", "=codex", "designer=", "a=b=c", "a=../b")
        ),
        ("PROMPT_FILE", "~nobody-of-that-name/x", "a path"),
    ],
)
def test_a_bad_value_is_named_with_what_was_expected(
    tmp_path: Path, name: str, value: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        RunConfig.from_env({"WD": str(tmp_path), name: value})
    assert caught.value.variable == name
    assert str(caught.value).startswith(f"{name} is {value!r}, expected {expected}")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_access_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="read and write"):
        read(tmp_path)


def test_a_folder_whose_path_is_not_utf8_is_refused_and_quoted(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"b\xffd")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes only text")
    with pytest.raises(ConfigError, match=r"d.*, expected a folder whose path is text in UTF-8"):
        read(folder)


def test_paths_are_meant_from_where_they_are_given(tmp_path: Path) -> None:
    wd = tmp_path.resolve()
    assert read(tmp_path).state_file == wd / ".tmp/orchestrator-loop-state.json"
    assert read(tmp_path, STATE_FILE="state/s.json").state_file == wd / "state/s.json"
    assert read(tmp_path, STATE_FILE="/elsewhere/s.json").state_file == Path("/elsewhere/s.json")
    assert read(tmp_path, PROMPT_FILE="task.md").prompt_file == Path.cwd() / "task.md"
    assert read(tmp_path, PROMPT_FILE="~/task.md").prompt_file == Path.home() / "task.md"


def test_roles_of_any_flow_can_have_an_agent_of_their_own(tmp_path: Path) -> None:
    config = read(
        tmp_path, ROLE_PROVIDERS="designer = kiro_cli, tester=q_cli,", TESTER_PROVIDER="codex"
    )
    assert config.providers == {"designer": "kiro_cli", "tester": "codex"}
    assert config.provider_of("critic") == "codex"


def test_rules_under_which_no_approval_counts_are_warned_of(tmp_path: Path) -> None:
    config = read(tmp_path, MIN_REVIEW_CYCLES_BEFORE_APPROVAL="4", REVIEW_EVIDENCE_MIN_MATCH="5")
    first, second = config.warnings(4)
    assert "MIN_REVIEW_CYCLES_BEFORE_APPROVAL (4) is above MAX_REVIEW_CYCLES (3)" in first
    assert "REVIEW_EVIDENCE_MIN_MATCH (5)" in second
    relaxed = read(tmp_path, REVIEW_EVIDENCE_MIN_MATCH="5", REQUIRE_REVIEW_EVIDENCE="0")
    assert relaxed.warnings(4) == ()
    assert len(config.warnings(None)) == 1


def test_the_server_has_defaults_of_its_own(tmp_path: Path) -> None:
    config = ServerConfig.from_env({"CAO_STATE_DIR": str(tmp_path), "HOME": "/home/x"})
    assert config.state_dir == tmp_path
    assert (config.host, config.port, config.permissions) == ("127.0.0.1", 9889, "workspace")
    assert config.start_seconds == 60
    assert config.provider("codex") == ProviderSettings()
    assert state_folder({"CAO_STATE_DIR": "~/s"}) == Path.home() / "s"
    assert config_folder({"CAO_CONFIG_DIR": "/c"}) == Path("/c")
    assert state_folder({}).name == config_folder({}).name == "cao"


def test_each_state_folder_has_its_own_tmux_server(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    sockets = {
        ServerConfig(state_dir=tmp_path / name, config_dir=tmp_path).tmux_socket
        for name in ("a", "b", "link/a")
    }
    assert len(sockets) == 2
    assert all(re.fullmatch(r"cao-[0-9a-f]{8}", socket) for socket in sockets)


def test_an_agent_can_be_adjusted_by_the_environment_and_the_users_file() -> None:
    user_file = {
        "providers": {
            "codex": {"command": "codex-old", "args": ["-m", "x"], "env": {"A": "b"}},
            "q_cli": {"args": ["--quiet"]},
        }
    }
    environ = {"CAO_CODEX_COMMAND": "codex-new", "CAO_CODEX_ARGS": "-m 'my model' $HOME"}
    config = ServerConfig.from_env(environ, user_file)
    assert config.provider("codex") == ProviderSettings(
        "codex-new", ("-m", "my model", "$HOME"), {"A": "b"}
    )
    assert config.provider("q_cli") == ProviderSettings(args=("--quiet",))


@pytest.mark.parametrize(
    ("environ", "table", "variable"),
    [
        ({"CAO_CODEX_ARGS": "'unclosed"}, {}, "CAO_CODEX_ARGS"),
        ({}, {"args": "text"}, "providers.codex.args"),
        ({}, {"args": [1]}, "providers.codex.args"),
        ({}, {"command": 5}, "providers.codex.command"),
        ({}, {"env": {"A": 1}}, "providers.codex.env"),
        ({}, {"env": []}, "providers.codex.env"),
    ],
)
def test_a_bad_adjustment_is_named(
    environ: dict[str, str], table: dict[str, object], variable: str
) -> None:
    config = ServerConfig.from_env(environ, {"providers": {"codex": table}})
    with pytest.raises(ConfigError) as caught:
        config.provider("codex")
    assert caught.value.variable == variable
    for tables in (5, {"codex": 5}):
        with pytest.raises(ConfigError, match="tables such as"):
            ServerConfig.from_env({}, {"providers": tables})


def test_permissions_are_one_of_three_words() -> None:
    assert ServerConfig.from_env({"AGENT_PERMISSIONS": " Full "}).permissions == "full"
    both = {"CAO_AGENT_PERMISSIONS": "ask", "AGENT_PERMISSIONS": "full"}
    assert ServerConfig.from_env(both).permissions == "ask"
    with pytest.raises(ConfigError, match="one of workspace, full, ask"):
        ServerConfig.from_env({"AGENT_PERMISSIONS": "all"})
