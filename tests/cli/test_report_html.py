"""What the HTML report of a run says, and what it keeps to itself."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.secrets import masked
from cli_agent_orchestrator.runs.record import SavedSetting
from cli_agent_orchestrator.show.report_html import (
    ONLY_HERE,
    html_page,
    reproduction,
    run_for_others,
)
from cli_agent_orchestrator.show.turn import LONGEST_LINE
from tests.cli.reports import HOME, REPORT
from tests.show.reading import Elements
from tests.show.test_report_page import FULL, STORY
from tests.show.test_turn import DETAIL

KEY = "-----BEGIN PRIVATE KEY-----\n" + "MIIEow==\n" * 300 + "-----END PRIVATE KEY-----\n"


def test_it_says_what_the_report_says() -> None:
    page = Elements(html_page(REPORT, FULL, Path(HOME), "Made by cao.")).written
    for words in (
        "FAIL after 2 rounds, not proven",
        "programmer: codex, tester: claude_code",
        "cao/k3f9",
        "What the gate tests said",
        "Round 2, tester, FAIL: ",
        "Last notes of programmer_review",
        "Still open after the last cycle: analyst_review, round 1",
        ": a pause",
        "cao run task.md",
    ):
        assert words in page, words
    for words in ("Prompts and replies", "To resume", "Last notes of analyst_review"):
        assert words not in page, words


def test_of_the_facts_those_are_told_that_mean_something_elsewhere() -> None:
    page = html_page(REPORT, FULL, Path(HOME), "")
    facts = page.partition('<dl class="facts">')[2].partition("</dl>")[0]
    assert re.findall("<dt>([^<]*)</dt>", facts) == ["Folder", "Branch", "Agents", "Time"]


def test_screens_are_passed_on() -> None:
    page = html_page(REPORT, FULL, Path(HOME), "", {"tester": ["\x1b[1mx"]})
    assert "Step 1 of 1" in page


def test_every_text_of_a_run_is_cleaned() -> None:
    story = replace(STORY, record=replace(STORY.record, task="say it"))
    full = replace(FULL, story=story, details=(DETAIL,), patch="+x")
    clean = run_for_others(full, lambda text: f"<{text}>")
    (detail,) = clean.details
    assert (detail.reply, detail.prompt, detail.screen) == ("<it is done>", "<do it>", "<› done>")
    assert clean.story.record.task == "<say it>"
    assert clean.story.turns[0].role == "<analyst>"
    assert clean.patch == "<+x>"


def test_long_texts_are_cut_and_a_key_goes_as_a_whole() -> None:
    text = "a\n" * 100 + KEY + "b\n" * 1000
    detail = replace(DETAIL, reply=text, prompt=text, screen=KEY)
    (shown,) = run_for_others(replace(FULL, details=(detail,)), str).details
    assert shown.reply is not None
    assert shown.prompt is not None
    assert len(shown.reply.split("\n")) == 201
    assert len(shown.prompt.split("\n")) == 81
    long = replace(DETAIL, screen="a\n" * 100)
    (shown_long,) = run_for_others(replace(FULL, details=(long,)), str).details
    assert shown_long.screen == "\n".join(["a"] * 30 + ["… 40 lines are not shown …"] + ["a"] * 30)
    assert not any("MIIE" in (one or "") for one in (shown.reply, shown.prompt, shown.screen))
    task = "a\n" * 1000 + KEY
    told = replace(FULL, story=replace(STORY, record=replace(STORY.record, task=task)))
    assert "MIIE" not in run_for_others(told, str).story.record.task
    none = replace(DETAIL, reply=None, prompt=None, screen=None)
    assert run_for_others(replace(FULL, details=(none,)), str).details == (none,)


def shown_on_page(text: str) -> str:
    """Return what a page for others shows of a text: of the reply, the prompt and the task."""
    detail = replace(DETAIL, reply=text, prompt=text)
    story = replace(STORY, record=replace(STORY.record, task=text))
    full = run_for_others(replace(FULL, story=story, details=(detail,)), masked)
    page = html_page(REPORT, full, Path(HOME), "Made by cao.")
    return "\n".join(one for one in Elements(page).written.split("\n") if text[:9] in one)


@pytest.mark.parametrize(
    "said",
    [
        " git push https://ada:S81Correct-Horse-9Correct-Horse-9@git.example/x.git",
        " eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP",
        " AIza" + "S81c" * 8 + "xyz",
    ],
)
def test_where_a_line_is_cut_no_part_of_a_secret_is_shown(said: str) -> None:
    for at in (10, 20, 35, 50):
        line = "x" * (LONGEST_LINE - at) + said + " y" * 1000
        page = shown_on_page(line)
        for part in ("S81", "Horse", "zdWIi", "JIUzI1"):
            assert part not in page, at


@pytest.mark.parametrize("said", ["x" * 100, "password=hunter2", "https://a:b@c " * 8])
def test_how_many_characters_are_left_out_is_said_once_and_right(said: str) -> None:
    line = f"{said} {'a' * LONGEST_LINE}{'z' * 1081}"
    page = shown_on_page(line)
    left = len(said) + 1 + 1081
    assert page.count(f"a… {left:,} more characters") == 3
    assert page.count("more characters") == 3


def test_what_was_given_can_be_given_again() -> None:
    settings = {
        "MAX_ROUNDS": SavedSetting("3", "option"),
        "FLOW": SavedSetting("loop", "default"),
        "GATES": SavedSetting("tests=make test", "file"),
        **{name: SavedSetting("/home/ada", "option") for name in ONLY_HERE},
        "PROVIDER": SavedSetting("", "option"),
    }
    record = replace(STORY.record, settings=settings)
    assert reproduction(record) == (
        "# task.md holds the whole task\n"
        "CAO_GATES='tests=make test' \\\nCAO_MAX_ROUNDS=3 \\\ncao run task.md"
    )
    based = reproduction(replace(STORY.record, base="1b4f0e9851971998"))
    assert based == "git checkout 1b4f0e985197\n# task.md holds the whole task\ncao run task.md"


def test_what_says_nothing_elsewhere_is_known() -> None:
    assert {*ONLY_HERE} == {"WD", "STATE_FILE", "API", "PROMPT_FILE"}
