"""The form of a task."""

import pytest

from cli_agent_orchestrator.errors import PromptError
from cli_agent_orchestrator.pipeline.task import EXPECTED_FORM, parse_task
from tests.pipeline.samples import TASK_TEXT

EXPLORE = "*** ORIGINAL EXPLORE SUMMARY ***"
SCENARIO = "*** SCENARIO TEST ***"


def test_a_task_has_two_parts() -> None:
    task = parse_task(TASK_TEXT)
    assert task.explore_summary == "Make the parser accept empty lines."
    assert task.scenario_test == "Run `parse empty.txt` and expect exit code 0."
    assert task.text == TASK_TEXT


@pytest.mark.parametrize(
    "text",
    [
        TASK_TEXT.replace("\n", "\r\n"),
        TASK_TEXT.replace("\n", "\r"),
        "\ufeff" + TASK_TEXT,
        "# A note for people\n\n" + TASK_TEXT,
        TASK_TEXT.replace(EXPLORE, f"  {EXPLORE}\t"),
        TASK_TEXT.strip(),
    ],
)
def test_line_ends_marks_and_a_preface_do_not_matter(text: str) -> None:
    task = parse_task(text)
    assert task.explore_summary == "Make the parser accept empty lines."
    assert task.scenario_test == "Run `parse empty.txt` and expect exit code 0."


def test_a_body_keeps_its_inner_form() -> None:
    task = parse_task(f"{EXPLORE}\n\n- a\n\n  - {{b}} $c\n\n{SCENARIO}\n```\nrun\n```\n")
    assert task.explore_summary == "- a\n\n  - {b} $c"
    assert task.scenario_test == "```\nrun\n```"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", f"the line `{EXPLORE}` is missing"),
        ("do something", f"the line `{EXPLORE}` is missing"),
        (f"{EXPLORE}\na", f"the line `{SCENARIO}` is missing"),
        (f"{SCENARIO}\na", f"the line `{EXPLORE}` is missing"),
        (f"see {EXPLORE}\na\n{SCENARIO}\nb", f"the line `{EXPLORE}` is missing"),
        (f"{SCENARIO}\nb\n{EXPLORE}\na", f"`{SCENARIO}` stands before `{EXPLORE}`"),
        (f"{EXPLORE}\na\n{EXPLORE}\n{SCENARIO}\nb", f"`{EXPLORE}` must stand there once"),
        (f"{EXPLORE}\na\n{SCENARIO}\nb\n{SCENARIO}\nc", "it does in lines 3, 5"),
        (f"{EXPLORE}\n \n{SCENARIO}\nb", f"there is nothing below `{EXPLORE}`"),
        (f"{EXPLORE}\na\n{SCENARIO}\n\t\n", f"there is nothing below `{SCENARIO}`"),
    ],
)
def test_another_form_is_refused_and_the_expected_one_shown(text: str, reason: str) -> None:
    with pytest.raises(PromptError) as caught:
        parse_task(text)
    assert reason in str(caught.value)
    assert EXPECTED_FORM in str(caught.value)


def test_the_form_that_is_shown_is_a_task() -> None:
    assert parse_task(EXPECTED_FORM).scenario_test


def test_a_task_that_no_agent_could_be_told_is_refused() -> None:
    with pytest.raises(PromptError, match="at most 2097152"):
        parse_task(f"{EXPLORE}\n{'é' * 1_100_000}\n{SCENARIO}\nrun\n")
