"""The form of a task, and the settings at its top."""

import pytest

from cli_agent_orchestrator.errors import PromptError
from cli_agent_orchestrator.pipeline.task import (
    EXPECTED_FORM,
    MARKDOWN_FORM,
    parse_task,
    read_front_matter,
)
from cli_agent_orchestrator.settings.table import BY_NAME, IN_TASK
from tests.pipeline.samples import TASK_TEXT

EXPLORE = "*** ORIGINAL EXPLORE SUMMARY ***"
SCENARIO = "*** SCENARIO TEST ***"


@pytest.mark.parametrize(
    "text",
    [
        TASK_TEXT,
        TASK_TEXT.replace("\n", "\r\n"),
        TASK_TEXT.replace("\n", "\r"),
        "# A note for people\n\n" + TASK_TEXT,
        TASK_TEXT.replace(EXPLORE, f"  {EXPLORE}\t"),
        "```\n" + TASK_TEXT,
    ],
    ids=["plain", "CRLF", "CR", "a preface", "spaces", "a fence"],
)
def test_a_task_has_two_parts_whatever_stands_around_them(text: str) -> None:
    task = parse_task(text)
    assert task.explore_summary == "Make the parser accept empty lines."
    assert task.scenario_test == "Run `parse empty.txt` and expect exit code 0."
    assert task.text == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{EXPLORE}\na", f"the line `{SCENARIO}` is missing"),
        (f"{SCENARIO}\na", f"the line `{EXPLORE}` is missing"),
        (f"see {EXPLORE}\na\n{SCENARIO}\nb", f"the line `{EXPLORE}` is missing"),
        (f"{SCENARIO}\nb\n{EXPLORE}\na", f"`{SCENARIO}` stands before `{EXPLORE}`"),
        (f"{EXPLORE}\na\n{EXPLORE}\n{SCENARIO}\nb", f"`{EXPLORE}` must stand there once"),
        (f"{EXPLORE}\na\n{SCENARIO}\nb\n{SCENARIO}\nc", "it does in lines 3, 5"),
        (f"{EXPLORE}\n \n{SCENARIO}\nb", f"there is nothing below `{EXPLORE}`"),
        (f"{EXPLORE}\na\n{SCENARIO}\n\t\n", f"there is nothing below `{SCENARIO}`"),
        ("# Task\na\n## What to do\nb", "the heading of the task must stand there once, but it"),
        ("# Task\na\n# Test\nb\n# Scenario\nc", "heading of the test must stand there once"),
        ("---\n---\n# Task\na\n# Task\nb", "it does in lines 3, 5"),
        ("# Test\na\n# Task\nb", "`# Test` stands before `# Task`"),
        ("## Task\n\n", "there is nothing below `## Task`"),
        ("# Task\n# Test\na", "there is nothing below `# Task`"),
        (f"{EXPLORE}\na\n# Test\nb", f"the line `{SCENARIO}` is missing"),
    ],
)
def test_another_form_is_refused_and_the_expected_one_shown(text: str, reason: str) -> None:
    with pytest.raises(PromptError) as caught:
        parse_task(text)
    assert reason in str(caught.value)
    assert str(caught.value).index(MARKDOWN_FORM) < str(caught.value).index(EXPECTED_FORM)


@pytest.mark.parametrize("form", [EXPECTED_FORM, MARKDOWN_FORM])
def test_the_form_that_is_shown_is_a_task(form: str) -> None:
    task = parse_task(form)
    assert task.explore_summary.startswith("What is to be done")
    assert task.scenario_test.startswith("What the tester does")


def test_a_task_that_no_agent_could_be_told_is_refused() -> None:
    with pytest.raises(PromptError, match="at most 2097152"):
        parse_task(f"{EXPLORE}\n{'é' * 1_100_000}\n{SCENARIO}\nrun\n")


@pytest.mark.parametrize(
    ("task", "test"),
    [
        ("# Task", "# Test"),
        ("## Task", "###### Scenario"),
        ("# what  to do", "# ACCEPTANCE"),
        ("   # Task ##", "#\tTests:"),
        ("# Explore summary", "# How to test"),
        ("# Task", "# Acceptance criteria"),
    ],
)
def test_a_task_may_have_headings_instead(task: str, test: str) -> None:
    parsed = parse_task(f"For me.\n\n{task}\n\n## Why\nBecause.\n{test}\nRun it.\n")
    assert parsed.explore_summary == "## Why\nBecause."
    assert parsed.scenario_test == "Run it."


@pytest.mark.parametrize(
    "quoted",
    [
        "```\n# Test\n```",
        f"```\n{EXPLORE}\na\n{SCENARIO}\nb\n```",
        "<!--\n# Test\n-->",
        "    # Test",
        "#Test",
        "> # Test",
        "# Test the parser",
    ],
)
def test_what_is_no_heading_does_not_count(quoted: str) -> None:
    assert parse_task(f"# Task\n{quoted}\n").explore_summary == quoted.strip()


def test_a_task_with_stars_may_have_any_headings() -> None:
    task = parse_task(f"---\n# Task\n{EXPLORE}\n# Test\na\n{SCENARIO}\n# Task\nb\n")
    assert (task.explore_summary, task.scenario_test) == ("# Test\na", "# Task\nb")


def test_settings_above_a_task_are_no_part_of_it() -> None:
    text = "\ufeff---\nflow: pair\n# Task\n---\n# Task\nDo it.\n"
    assert parse_task(text).explore_summary == "Do it."


def test_settings_without_an_end_are_refused() -> None:
    with pytest.raises(PromptError, match="line 1 of the task begins settings"):
        parse_task("---\nflow: pair\n# Task\nDo it.\n")


@pytest.mark.parametrize(
    ("text", "explore", "scenario"),
    [
        ("Fix it.", "Fix it.", ""),
        ("\nFix it.\n\nAll of it.\n", "Fix it.\n\nAll of it.", ""),
        ("# Parser\nFix it.\n# Test\nLook.", "# Parser\nFix it.", "Look."),
        ("---\nflow: solo\n---\n\nFix it.", "Fix it.", ""),
        ("```\n# Task\n```", "```\n# Task\n```", ""),
    ],
)
def test_headings_may_be_left_out(text: str, explore: str, scenario: str) -> None:
    task = parse_task(text)
    assert (task.explore_summary, task.scenario_test) == (explore, scenario)


@pytest.mark.parametrize("text", ["", " \n\t", "# Test\na", "---\nflow: solo\n---\n"])
def test_an_empty_task_is_refused(text: str) -> None:
    with pytest.raises(PromptError, match="the task is empty"):
        parse_task(text)


BODY = "# Task\nDo it.\n"


def with_settings(*lines: str) -> str:
    return "\n".join(["---", *lines, "---", BODY])


def read(*lines: str) -> dict[str, str]:
    return read_front_matter(with_settings(*lines), "task.md")


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


def test_a_task_names_no_command_server_path_or_permission() -> None:
    forbidden = {
        *("GATES", "PROJECT_TEST_CMD", "AGENT_PERMISSIONS", "WD", "STATE_FILE", "API"),
        *("PROMPT", "PROMPT_FILE", "RESUME", "MISSING", "WORKSPACE", "WORKTREE_SETUP"),
        *("HELD_BACK", "PROOF", "READONLY_ROLES", "REVIEW_BOUND", "STALL"),
    }
    assert set(IN_TASK) == set(BY_NAME) - forbidden
    for name in IN_TASK:
        assert read(f"{name.lower()}: ") == {name: ""}
    for name in forbidden:
        key = BY_NAME[name].key
        with pytest.raises(PromptError, match=f"line 2: a task cannot set {key};"):
            read(f"{key}: x")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("title: Fix it", "there is no setting title; expected one of provider, "),
        ("max_round: 3", "there is no setting max_round; expected max_rounds"),
        ("gates: make test", "a task cannot set gates; set it yourself, with --gate or CAO_GATES"),
        ("require_evidence: 1", "require_review_evidence or review_evidence_min_match"),
        ("max_rounds: 0", "max_rounds is '0'; expected a whole number of at least 1"),
        ("require_review_evidence: perhaps", "expected 1/0, true/false"),
        ("response_timeout: -1", "expected a number of seconds"),
        ("flow: ../mine.toml", "expected the name of a flow; a file only by --flow or CAO_FLOW"),
        ("provider: rm -rf", "expected the name of an agent, such as codex or claude_code"),
        ("role_providers: tester", "expected NAME=AGENT, separated by commas"),
        ('flow: "pair', "is no text in quotation marks"),
        ("flow", "'flow' is no setting; expected a line such as `max_rounds: 3`"),
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
