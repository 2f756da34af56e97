"""Codex's status: the scenarios of the specification, and what may never change it."""

import re
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.providers.codex import (
    ACTIVE_WORK_UI_PATTERN,
    USER_PREFIX_PATTERN,
    detect_status,
    footer_row,
    split_cells,
    title_status,
)
from tests.providers.samples import (
    COMPLETED,
    ERROR,
    IDLE,
    PROCESSING,
    UNKNOWN,
    WAITING,
    prose,
)

COMPOSER = "›\n  100% context left\n"
PLACEHOLDER_COMPOSER = "› Ask Codex to do anything\n\n  gpt-5.1-codex default · /home/me/app\n"
DIALOG = (
    "  Would you like to run the following command?\n\n  $ make test\n\n"
    "› 1. Yes, proceed (y)\n  2. No, and tell Codex what to do differently (esc)\n\n"
    "  Press enter to confirm or esc to cancel\n"
)

SIGNS = [
    "• Working (3s • esc to interrupt)",
    "◦ Working (3s • esc to interrupt)",
    "esc to interrupt",
    "• Exploring",
    "└ Read notes.txt",
    "■ stream disconnected before completion",
    "■ Conversation interrupted",
    "› 1. Yes, proceed (y)",
    "  2. No",
    "Press enter to confirm or esc to cancel",
    "enter to submit answer",
    "› Fix it",
    "›",
    "100% context left",
    "? for shortcuts",
    ">_ OpenAI Codex (v0.166.0)",
    "Error: it was running, working and executing",
    "",
]
PROSE = prose(SIGNS)
ENDINGS = {
    COMPLETED: "\n" + PLACEHOLDER_COMPOSER,
    PROCESSING: "\n• Working (12s • esc to interrupt)\n\n" + PLACEHOLDER_COMPOSER,
    WAITING: "\n\n" + DIALOG,
    ERROR: "\n■ unexpected status 401 Unauthorized\n\n" + PLACEHOLDER_COMPOSER,
    IDLE: "\n■ Conversation interrupted - tell the model what to do differently. Hit `/feedback`\n"
    "to report the issue.\n\n" + PLACEHOLDER_COMPOSER,
}


@pytest.mark.parametrize(
    "narrative",
    [
        "• I will stop running commands now.",
        "I will stop running commands now.",
        "• The service is working, the job was executing.\n\n  Thinking and processing are over.",
    ],
)
def test_narrative_keyword_does_not_block_idle_detection(narrative: str) -> None:
    """Scenario: Narrative keyword does not block idle detection"""
    assert detect_status(f"› Tell me\n\n{narrative}\n\n{COMPOSER}").at_rest


@pytest.mark.parametrize(
    "work",
    [
        "• Working (3s • esc to interrupt)",
        "◦ Working (1m 02s • esc to interrupt)",
        "• Working (1s • esc to interrupt) · 1 background terminal running · /ps to view",
        "• Reconnecting... 2/5 (8s • esc to interrupt)\n  └ Stream disconnected",
        "• Working (0s • esc to interrupt)\n  ↳ a message that waits",
        "(12s • esc to interrupt)",
        "esc to interrupt",
        "• Working\nesc to interrupt",
        "• Thinking (esc to interrupt)",
        "• Exploring",
        "• Exploring\n  └ Read slow.fifo\n    Search x in src",
        "◦ Exploring\n  └ Read slow.fifo",
        "• Exploring the source tree",
        "• Exploring...",
        "• Exploring\n  └ Read a.py\n\n• A word in between.",
    ],
)
@pytest.mark.parametrize("composer", [COMPOSER, PLACEHOLDER_COMPOSER])
def test_active_work_ui_correctly_blocks_idle_detection(work: str, composer: str) -> None:
    """Scenario: Active work UI correctly blocks idle detection"""
    assert detect_status(f"› Fix it\n\n{work}\n\n{composer}") is PROCESSING
    assert detect_status(f"{work}\n{composer}") is PROCESSING


def test_work_below_the_idle_prompt_of_a_previous_turn_is_processing() -> None:
    """Scenario: Active work UI correctly blocks idle detection"""
    assert detect_status(f"{COMPOSER}\n› Fix it\n• Exploring\n  └ Read x\n") is PROCESSING


@pytest.mark.parametrize("narrative", ["", "• "])
def test_narrative_exploring_does_not_block_idle_detection(narrative: str) -> None:
    """Scenario: Narrative "exploring" does not block idle detection"""
    screen = f"› Look\n\n{narrative}I was exploring the codebase.\n\n{COMPOSER}"
    assert detect_status(screen).at_rest
    assert not re.search(ACTIVE_WORK_UI_PATTERN, screen, re.MULTILINE)


def test_a_sentence_that_begins_with_exploring_is_narrative() -> None:
    """Scenario: Narrative "exploring" does not block idle detection"""
    assert detect_status(f"› Look\n\n• Exploring it was fun.\n\n{COMPOSER}") is COMPLETED


def test_user_prefix_pattern_does_not_match_across_newlines() -> None:
    """Scenario: USER_PREFIX_PATTERN does not match across newlines"""
    assert not re.search(USER_PREFIX_PATTERN, "›\n100% context left\n", re.MULTILINE)
    assert re.search(USER_PREFIX_PATTERN, "hello\n› Reply with READY\n", re.MULTILINE)
    assert re.search(USER_PREFIX_PATTERN, "›\tReply with READY\n", re.MULTILINE)


def test_standalone_chevron_prompt_is_not_misdetected_as_user_input() -> None:
    """Scenario: Standalone chevron prompt not misdetected as user input"""
    assert detect_status("• READY\n\n›\n100% context left\n") is COMPLETED
    assert detect_status(">_ OpenAI Codex (v0.104.0)\n\n›\n100% context left\n") is IDLE


@pytest.mark.parametrize("answer", ["• READY", "READY"])
def test_standalone_chevron_with_prior_assistant_produces_completed(answer: str) -> None:
    """Scenario: Standalone chevron with prior assistant produces completed"""
    screen = f"› Reply with READY\n{answer}\n›\n\n  ? for shortcuts   100% context left\n"
    assert detect_status(screen) is COMPLETED


def test_the_patterns_are_plain_strings_with_the_parts_that_are_promised() -> None:
    assert "esc to interrupt" in ACTIVE_WORK_UI_PATTERN
    assert r"•\s+Exploring\b" in ACTIVE_WORK_UI_PATTERN
    assert r"›[ \t]+\S" in USER_PREFIX_PATTERN


@pytest.mark.parametrize(
    "screen",
    [
        "› Fix it\n",
        "› Fix it\n  and test it\n",
        "› Fix it\n\n• I will look at it.\n",
        "• Ran make\n  └ ok\n",
        "╭───╮\n│ >_ OpenAI Codex (v0.125.0) │\n╰───╯\n",
        "■ something failed\n",
    ],
)
def test_codex_without_a_composer_and_a_sign_of_work_is_unknown(screen: str) -> None:
    assert detect_status(screen) is UNKNOWN


def test_a_message_without_a_reply_is_idle() -> None:
    assert detect_status(f"› Fix it\n\n⚠ A warning\n\n{COMPOSER}") is IDLE


def test_text_without_a_mark_is_a_reply_only_below_a_message() -> None:
    assert detect_status(f"Some line of the start\n\n{COMPOSER}") is IDLE


def test_an_answer_whose_head_has_scrolled_away_is_completed() -> None:
    assert detect_status(f"  the end of a long answer\n\n{COMPOSER}") is COMPLETED


def test_a_banner_below_a_warning_or_alone_is_no_answer() -> None:
    banner = "  >_ OpenAI Codex (v0.166.0)\n     /home/me/app\n\n  Tip: sleep well.\n\n"
    assert detect_status(banner + PLACEHOLDER_COMPOSER) is IDLE
    assert detect_status("WARNING: proceeding\n\n" + banner + PLACEHOLDER_COMPOSER) is IDLE
    assert detect_status("WARNING: a\n  b\n\n" + banner + PLACEHOLDER_COMPOSER) is IDLE


def test_a_question_with_no_options_to_choose_from_waits() -> None:
    screen = "› Ask me\n\n  Which name?\n\n  › Type it\n\n  enter to submit answer | esc to quit\n"
    assert detect_status(screen) is WAITING


@pytest.mark.parametrize(
    "screen",
    [
        "• Working (5s • esc to interrupt)\n\n  ? for shortcuts\n",
        "› do it\n\n• Working (5s • esc to interrupt)\n\n  ? for shortcuts    100% context left\n",
        "Working (5s • esc to interrupt)\n  ? for shortcuts\n",
        "Working (5s • esc to interrupt)\n\n? for shortcuts\n",
    ],
)
def test_work_above_a_footer_without_a_composer_is_processing(screen: str) -> None:
    assert detect_status(screen) is PROCESSING


@pytest.mark.parametrize("width", range(20, 61, 5))
def test_a_question_waits_also_when_its_hint_is_broken_into_rows(width: int) -> None:
    hint = textwrap.wrap("tab to add notes | enter to submit answer | esc to interrupt", width)
    rows = "\n".join(f"  {row}" for row in hint)
    asked = f"  Which one?\n\n  › 1. Red\n    2. Blue\n\n{rows}\n"
    assert detect_status(asked) is WAITING


@pytest.mark.parametrize(
    "text", ["\n  or press enter to\n  confirm", " press enter to confirm now"]
)
def test_an_answer_that_speaks_of_enter_asks_nothing(text: str) -> None:
    rows = "  one\n  two\n  three\n  four"
    assert detect_status(f"› 1. Go\n\n• Look:\n{rows}{text}\n  five\n") is UNKNOWN


def test_an_exploration_is_over_when_something_is_said_after_it() -> None:
    def status(turn: str) -> TerminalStatus:
        return detect_status(f"› Go\n\n{turn}\n\n{COMPOSER}")

    assert status("• I look.\n\n• Exploring the tree") is PROCESSING
    assert status("• Exploring the tree\n\n• Done.") is COMPLETED
    assert status("• Exploring the tree\n  It is big.") is COMPLETED
    assert status("• Exploring\n  It is big.") is COMPLETED


def test_a_row_that_is_indented_by_one_column_is_no_cell_of_its_own() -> None:
    [cell] = split_cells(["• Said.", " ■ more"])
    assert cell.lines == ("• Said.", " ■ more")


def test_a_footer_may_have_several_rows() -> None:
    assert detect_status("• Done.\n\n› Ask\n\n  gpt-5.1-codex\n  tab to queue\n") is COMPLETED


def test_a_draft_that_looks_like_an_option_is_no_dialog() -> None:
    assert detect_status("› 1. Fix it\n\n  ? for shortcuts   100% context left\n") is IDLE


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("⠹ Working", PROCESSING),
        ("⠹ my-project", PROCESSING),
        ("Starting", PROCESSING),
        ("[ ! ] Action Required", WAITING),
        ("[ . ] Action Required | my-project", WAITING),
        ("Ready", IDLE),
        ("my-project", None),
        ("", None),
    ],
)
def test_the_title_tells_busy_waiting_and_at_rest(
    title: str, expected: TerminalStatus | None
) -> None:
    assert title_status(title) is expected


def test_a_busy_title_tells_what_a_streaming_screen_hides() -> None:
    screen = f"› Tell me\n\n• The first lines\n\n{COMPOSER}"
    assert detect_status(screen, "Ready") is COMPLETED
    assert detect_status(screen, "⠹ Working") is PROCESSING


def test_a_dialog_counts_more_than_a_busy_title() -> None:
    assert detect_status(DIALOG, "⠹ Working") is WAITING


def test_a_title_that_asks_counts_more_than_the_screen() -> None:
    assert detect_status(COMPOSER, "[ ! ] Action Required") is WAITING


@given(before=PROSE, last=PROSE)
def test_no_prose_changes_the_status(before: list[str], last: list[str]) -> None:
    screen = "› Explain\n\n• It is like this.\n"
    for line in [*before, "", *last]:
        screen += f"  {line}\n"
    for status, ending in ENDINGS.items():
        assert detect_status(screen + ending) is status


@given(before=PROSE, last=PROSE)
def test_no_quoting_message_of_the_user_changes_the_status(
    before: list[str], last: list[str]
) -> None:
    screen = "› Explain this:\n"
    for line in [*before, *last]:
        screen += f"  {line}\n"
    assert detect_status(f"{screen}\n• It is clear.\n\n{PLACEHOLDER_COMPOSER}") is COMPLETED


@given(below=st.text(), gap=st.text("\t ", max_size=3))
def test_a_lone_chevron_never_is_user_input(below: str, gap: str) -> None:
    match = re.search(USER_PREFIX_PATTERN, f"›{gap}\n{below}", re.MULTILINE)
    assert match is None or match.start() > 0


@pytest.mark.parametrize(
    ("lines", "row"),
    [
        (["", "› a", "  b"], 3),
        (["", "› a", "  b", "", "  x"], 4),
        (["", "› a", "  ? for shortcuts"], 2),
        (["", "› a", "", "  model · /home/me", "  ? for shortcuts"], 3),
        (["", "› a", "", "  b", "", "  model · /home/me", "  ? for shortcuts"], 5),
        (["", "› a", "", "", "  x"], 4),
        (["", "› a"], 2),
    ],
)
def test_a_footer_stands_below_the_composer_of_codex_or_nowhere(lines: list[str], row: int) -> None:
    assert footer_row(lines, 1) == row
