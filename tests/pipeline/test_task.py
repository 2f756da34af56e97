"""The form of a task."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.errors import PromptError
from cli_agent_orchestrator.pipeline.task import (
    EXPECTED_FORM,
    MARKDOWN_FORM,
    PARTS,
    parse_task,
    settings_lines,
)
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
        ("# **Task**", "## _Acceptance criteria_"),
    ],
)
def test_a_task_may_have_headings_instead(task: str, test: str) -> None:
    parsed = parse_task(f"For me.\n\n{task}\n\n## Why\nBecause.\n{test}\nRun it.\n")
    assert parsed.explore_summary == "## Why\nBecause."
    assert parsed.scenario_test == "Run it."


@pytest.mark.parametrize("task", ["Task", "What to do", "Explore summary"])
@pytest.mark.parametrize(
    "test",
    [
        *("Test", "Tests", "How to test", "Scenario", "Scenario test", "Test scenario"),
        *("Acceptance", "Acceptance test", "Acceptance criteria"),
    ],
)
def test_a_heading_may_have_several_words(task: str, test: str) -> None:
    parsed = parse_task(f"# {task}\nDo it.\n# {test}\nRun it.\n")
    assert (parsed.explore_summary, parsed.scenario_test) == ("Do it.", "Run it.")


def test_without_a_heading_for_it_there_is_no_scenario() -> None:
    task = parse_task("# Task\nDo it.\n\n# Notes\nCarefully.\n")
    assert task.explore_summary == "Do it.\n\n# Notes\nCarefully."
    assert task.scenario_test == ""


@pytest.mark.parametrize(
    "quoted",
    [
        "```\n# Test\n```",
        "~~~md\n# Task\n~~~",
        "<!--\n# Test\n-->",
        "    # Test",
        "#Test",
        "####### Test",
        "> # Test",
        "Test",
        "# Test the parser",
    ],
)
def test_what_is_no_heading_does_not_count(quoted: str) -> None:
    assert parse_task(f"# Task\n{quoted}\n").explore_summary == quoted.strip()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("# Task\na\n## What to do\nb", "the heading of the task must stand there once, but it"),
        ("# Task\na\n# Test\nb\n# Scenario\nc", "the heading of the test must stand there once"),
        ("# Task\na\n# Test\nb\n# Scenario\nc", "it does in lines 3, 5"),
        ("---\n---\n# Task\na\n# Task\nb", "it does in lines 3, 5"),
        ("# Test\na\n# Task\nb", "`# Test` stands before `# Task`"),
        ("## Task\n\n", "there is nothing below `## Task`"),
        ("# Task\n# Test\na", "there is nothing below `# Task`"),
        (f"# Task\na\n{SCENARIO}\nb", f"both forms: line 3 is `{SCENARIO}`, line 1 is `# Task`"),
        (f"{EXPLORE}\na\n# Test\nb", f"both forms: line 1 is `{EXPLORE}`, line 3 is `# Test`"),
        (f"# Task\n```\n{EXPLORE}\na\n{SCENARIO}\nb\n```", "it mixes both forms: line 3"),
    ],
)
def test_headings_that_are_not_clear_are_refused(text: str, reason: str) -> None:
    with pytest.raises(PromptError) as caught:
        parse_task(text)
    assert reason in str(caught.value)


def test_a_task_with_stars_may_have_any_headings() -> None:
    task = parse_task(f"---\n# Task\n{EXPLORE}\n# Test\na\n{SCENARIO}\n# Task\nb\n")
    assert (task.explore_summary, task.scenario_test) == ("# Test\na", "# Task\nb")


def test_settings_above_a_task_are_no_part_of_it() -> None:
    text = "\ufeff---\nflow: pair\n# Task\n---\n# Task\nDo it.\n"
    assert settings_lines(text) == [(2, "flow: pair"), (3, "# Task")]
    assert parse_task(text).explore_summary == "Do it."


@pytest.mark.parametrize("text", ["# Task\n---\na: b\n---\n", f"---\na: b\n---\n{TASK_TEXT}"])
def test_settings_stand_at_the_very_top_of_a_task_with_headings(text: str) -> None:
    assert settings_lines(text) == []


def test_settings_without_an_end_are_refused() -> None:
    with pytest.raises(PromptError, match="line 1 of the task begins settings"):
        parse_task("---\nflow: pair\n# Task\nDo it.\n")


HEADINGS = [f"{'#' * level} {name}" for level in (1, 3, 6) for name in PARTS]
LINES = st.lists(
    st.one_of(
        st.sampled_from([EXPLORE, SCENARIO, "---", "```", "~~~", "<!--", "-->", "", *HEADINGS]),
        st.text(max_size=8),
    ),
    max_size=12,
)
TEXTS = LINES.map("\n".join)


@given(TEXTS)
def test_every_text_says_what_is_to_be_done_or_is_refused(text: str) -> None:
    try:
        task = parse_task(text)
    except PromptError:
        return
    assert task.text == text
    assert task.explore_summary.strip()
    assert task.scenario_test == task.scenario_test.strip()


@given(TEXTS, TEXTS)
def test_a_task_with_stars_is_split_at_its_stars_alone(before: str, after: str) -> None:
    before, after = (text.replace("*", "") + "\nx" for text in (before, after))
    task = parse_task(f"{EXPLORE}\n{before}\n{SCENARIO}\n{after}")
    plain = parse_task(f"{EXPLORE}\n.\n{SCENARIO}\n{after}")
    assert task.scenario_test == plain.scenario_test
    assert task.explore_summary.endswith("x")


def test_a_test_heading_with_nothing_below_counts_as_left_out() -> None:
    assert parse_task("# Task\na\n\n# Test\n \n").explore_summary == "a"
    empty, without = parse_task("# Task\na\n# Test\n"), parse_task("# Task\na\n")
    assert empty.scenario_test == without.scenario_test


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
