"""The settings at the top of a task."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.errors import PromptError
from cli_agent_orchestrator.pipeline.task import parse_task, read_front_matter
from cli_agent_orchestrator.settings.config import RunConfig
from cli_agent_orchestrator.settings.table import BY_NAME, IN_TASK

BODY = "# Task\nDo it.\n"


def task(*lines: str) -> str:
    return "\n".join(["---", *lines, "---", BODY])


def read(*lines: str) -> dict[str, str]:
    return read_front_matter(task(*lines), "task.md")


def test_both_ways_of_writing_a_setting_will_do() -> None:
    assert read(
        "# settings of this task",
        "",
        'flow = "pair"',
        "max_rounds: 3  # no more",
        "Max-Review-Cycles=2",
        "require_review_evidence: no",
        "provider = 'claude_code' # all",
        "role_providers: designer=kiro_cli, tester=codex",
        "response_timeout: 60.5",
    ) == {
        "FLOW": "pair",
        "MAX_ROUNDS": "3",
        "MAX_REVIEW_CYCLES": "2",
        "REQUIRE_REVIEW_EVIDENCE": "no",
        "PROVIDER": "claude_code",
        "ROLE_PROVIDERS": "designer=kiro_cli, tester=codex",
        "RESPONSE_TIMEOUT": "60.5",
    }


def test_a_task_without_settings_has_none() -> None:
    assert read_front_matter(BODY, "task.md") == {}
    assert read() == {}


@pytest.mark.parametrize("name", [*BY_NAME])
def test_a_task_names_no_command_server_path_or_permission(name: str) -> None:
    forbidden = {
        *("GATES", "PROJECT_TEST_CMD", "AGENT_PERMISSIONS", "WD", "STATE_FILE", "API"),
        *("PROMPT", "PROMPT_FILE", "RESUME", "MISSING", "WORKSPACE", "WORKTREE_SETUP"),
        *("HELD_BACK", "PROOF", "READONLY_ROLES", "REVIEW_BOUND", "STALL"),
    }
    assert set(IN_TASK) == set(BY_NAME) - forbidden
    key = {"WORKSPACE": "worktree", "WORKTREE_SETUP": "setup"}.get(name, name.lower())
    if name in forbidden:
        with pytest.raises(PromptError, match=f"line 2: a task cannot set {key};"):
            read(f"{key}: x")
    else:
        assert read(f"{name.lower()}: ") == {name: ""}


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("title: Fix it", "there is no setting title; expected one of provider, "),
        ("max_round: 3", "there is no setting max_round; expected max_rounds"),
        ("gates: make test", "a task cannot set gates; set it yourself, with --gate or CAO_GATES"),
        ("require_evidence: 1", "require_review_evidence or review_evidence_min_match"),
        ("permissions: full", "there is no setting permissions; expected "),
        ("max_rounds: many", "max_rounds is 'many'; expected a whole number, at least 1"),
        ("max_rounds: 0", "max_rounds is '0'; expected a whole number, at least 1"),
        ("require_review_evidence: perhaps", "expected true or false"),
        ("response_timeout: -1", "expected a number of seconds"),
        ("flow: ../mine.toml", "expected the name of a flow; a file only by --flow or CAO_FLOW"),
        ("provider: rm -rf", "expected the name of an agent, such as codex or claude_code"),
        ("tester_provider: a b", "expected the name of an agent, such as codex or claude_code"),
        ("role_providers: tester", "expected NAME=AGENT, separated by commas"),
        ('flow: "pair', "is no text in quotation marks"),
        ('flow: "pair" x', "is no text in quotation marks"),
        ("flow", "'flow' is no setting; expected a line such as `max_rounds: 3`"),
        ("  flow: pair", "'flow: pair' is no setting"),
        ("- flow: pair", "'- flow: pair' is no setting"),
    ],
)
def test_a_fault_is_named_with_file_and_line(line: str, fault: str) -> None:
    with pytest.raises(PromptError) as caught:
        read("", line)
    assert str(caught.value).startswith("task.md, line 3: ")
    assert fault in str(caught.value)


def test_a_setting_stands_there_once() -> None:
    with pytest.raises(PromptError, match=r"task\.md, line 3: flow is set twice.* it once"):
        read("flow: pair", "FLOW = solo")


def test_a_quoted_value_cannot_be_more_than_a_value() -> None:
    with pytest.raises(PromptError, match="is no text"):
        read('flow: "a"\\nprovider = "b"')


KEYS = st.sampled_from([name.lower() for name in BY_NAME])
VALUES = st.one_of(st.integers().map(str), st.sampled_from(["true", "off", "pair", "codex", '"x"']))
LINES = st.one_of(
    st.builds("{}{}{}".format, KEYS, st.sampled_from([": ", " = "]), VALUES), st.text(max_size=12)
)


@given(st.lists(LINES, max_size=5))
def test_what_a_task_may_set_makes_a_run_that_can_be_had(lines: list[str]) -> None:
    text = task(*lines)
    try:
        found = read_front_matter(text, "task.md")
    except PromptError:
        return
    assert set(found) <= set(IN_TASK)
    assert RunConfig.from_env(found)
    assert parse_task(text).explore_summary.endswith("Do it.")
