"""How Claude Code's screen is taken apart: the input box, and the cells above it."""

import pytest

from cli_agent_orchestrator.providers.claude_screen import (
    Box,
    Cell,
    Kind,
    conversation,
    find_box,
    is_dialog,
    is_transcript,
    last_turn,
    split_cells,
)

RULE = "─" * 20
DRAFT = "❯\xa0draft"
RESULT = "  ⎿ \xa0done"


@pytest.mark.parametrize(
    ("kind", "lines", "is_tool"),
    [
        (Kind.ANSWER, ("● Bash(make)", RESULT), True),
        (Kind.ANSWER, ("● Bash(make)", "  more of it", RESULT), True),
        (Kind.ANSWER, ("● Bash(make)", "  ⎿  done", "", "  text"), True),
        (Kind.ANSWER, ("● It prints this:", "", RESULT), False),
        (Kind.ANSWER, ("● Just words", "  and more"), False),
        (Kind.ANSWER, (RESULT,), False),
        (Kind.ANSWER, ("● Just a word",), False),
        (Kind.USER, ("❯ /model", RESULT), False),
    ],
)
def test_a_tool_is_told_from_words_by_the_result_right_below_it(
    kind: Kind, lines: tuple[str, ...], is_tool: bool
) -> None:
    assert Cell(kind, lines).is_tool is is_tool


def test_a_cell_is_one_paragraph_without_an_empty_line_inside() -> None:
    assert Cell(Kind.ANSWER, ("● one", "  more", "")).is_one_paragraph
    assert Cell(Kind.ANSWER, ("● one", "", "")).is_one_paragraph
    assert not Cell(Kind.ANSWER, ("● one", "", "  two")).is_one_paragraph


@pytest.mark.parametrize(
    ("lines", "box"),
    [
        ([RULE, DRAFT, RULE], Box(1, 2)),
        (["text", RULE, DRAFT, "  more of it", RULE, "footer"], Box(2, 4)),
        (["╭────╮", "│\xa0>\xa0draft │", "╰────╯"], Box(1, 2)),
        ([RULE, "!\xa0ls", RULE], Box(1, 2)),
        ([RULE, DRAFT, RULE, "text", RULE, DRAFT, RULE], Box(5, 6)),
        ([RULE, DRAFT, RULE, RULE], Box(1, 2)),
        ([DRAFT, RULE], None),
        (["text", DRAFT, RULE], None),
        ([RULE, "text", RULE], None),
        ([RULE, "❯ sent", RULE], None),
        ([RULE, DRAFT], None),
        ([RULE, DRAFT, "text"], None),
        ([RULE], None),
        ([], None),
    ],
)
def test_the_input_box_is_a_draft_between_two_rules(lines: list[str], box: Box | None) -> None:
    assert find_box(lines) == box


@pytest.mark.parametrize(
    ("lines", "asks"),
    [
        ([" ❯ 1. Yes", "   2. No"], True),
        (["│ ❯ 1. Yes  │"], True),
        (["text", " Esc to cancel · Tab to amend"], True),
        (["text", " Enter to select", "", "x"], True),
        (["text", " Enter to select", "a", "b"], False),
        ([" ❯ 1. Yes", *"abcdefghi"], True),
        ([" ❯ 1. Yes", *"abcdefghij"], False),
        ([" ❯ 1. Yes", RULE, DRAFT, RULE], False),
        (["text"], False),
    ],
)
def test_a_question_stands_at_the_end_in_the_place_of_the_box(lines: list[str], asks: bool) -> None:
    assert is_dialog(lines) is asks


def kinds(*lines: str) -> list[Kind]:
    return [cell.kind for cell in split_cells(lines)]


def test_a_conversation_is_taken_apart_by_the_marks_at_its_edge() -> None:
    lines = ["  the rest", "❯ Go", "  and do it", "", "● Done.", "", "✻ Churned for 5s", "✽ Going…"]
    assert split_cells(lines) == [
        Cell(Kind.REST, ("  the rest",)),
        Cell(Kind.USER, ("❯ Go", "  and do it", "")),
        Cell(Kind.ANSWER, ("● Done.", "")),
        Cell(Kind.DONE, ("✻ Churned for 5s",)),
        Cell(Kind.SPINNER, ("✽ Going…",)),
    ]
    assert kinds("", "", "● x") == [Kind.ANSWER]


def test_a_notice_counts_below_a_message_a_notice_or_nothing() -> None:
    assert kinds("❯ Go", RESULT, RESULT) == [Kind.USER, Kind.NOTICE, Kind.NOTICE]
    assert kinds("● x", "", RESULT) == [Kind.ANSWER, Kind.NOTICE]
    assert kinds("● x", RESULT) == [Kind.ANSWER]
    assert kinds("banner", RESULT) == [Kind.OTHER, Kind.NOTICE]


def test_the_hint_right_above_the_box_is_no_part_of_the_conversation() -> None:
    hint = " " * 10 + "◐ medium · /effort"
    lines = ["● x", "  y", RULE, DRAFT, RULE]
    assert conversation(lines, Box(3, 4)) == [Cell(Kind.ANSWER, ("● x", "  y"))]
    lines[1] = hint
    assert conversation(lines, Box(3, 4)) == [Cell(Kind.ANSWER, ("● x",))]
    assert conversation(["● x", hint], None) == [Cell(Kind.ANSWER, ("● x", hint))]
    assert conversation([RULE, DRAFT, RULE, hint], Box(1, 2)) == []


def test_a_transcript_is_a_conversation_up_to_its_last_rule() -> None:
    lines = ["● x", RULE, "● y", RULE, "  Showing detailed transcript · ctrl+o to toggle"]
    assert conversation(lines, None)[-1] == Cell(Kind.ANSWER, ("● y",))


def test_a_transcript_is_known_by_one_of_its_last_two_rows() -> None:
    footer = "  Showing detailed transcript · ctrl+o to toggle"
    assert is_transcript(["● x", footer])
    assert is_transcript(["● x", footer, "  100%", ""])
    assert not is_transcript(["● x", footer, "  y", "  z"])


def test_the_last_turn_is_what_stands_below_the_last_message() -> None:
    first, second = Cell(Kind.USER, ("❯ a",)), Cell(Kind.USER, ("❯ b",))
    answer, other = Cell(Kind.ANSWER, ("● a",)), Cell(Kind.ANSWER, ("● b",))
    assert last_turn([first, answer, second, other]) == [other]
    assert last_turn([first, answer, second]) == []
    assert last_turn([answer, other]) == [answer, other]
