"""How an agent's reply is read: clean lines, fences, labels."""

import pytest

from cli_agent_orchestrator.pipeline.reply import (
    find_label,
    has_label,
    split_lines,
    unfenced,
)


@pytest.mark.parametrize(
    ("text", "lines"),
    [("\n \n  a\n\nb  \n\t\n", ["  a", "", "b  "]), ("one", ["one"]), (" \r\n ", [])],
)
def test_lines_begin_and_end_with_text(text: str, lines: list[str]) -> None:
    assert split_lines(text) == lines


def outside(text: str) -> str:
    return "".join(line for _, line in unfenced(text.split("\n")) if len(line) == 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n```\nb\n```\nc", "ac"),
        ("a\n```python title=x\nb\n```\nc", "ac"),
        ("a\n~~~\nb\n```\nc\n~~~\nd", "ad"),
        ("a\n````\nb\n```\nc\n`````\nd", "ad"),
        ("a\n  - ```sh\n    b\n    ```\nc", "ac"),
        ("a\n1. ~~~\nb\n~~~\nc", "ac"),
        ("a\n```\nb\n``` not an end\nc\n```\nd", "ad"),
        ("a\n```inline``` code\nb", "ab"),
        ("a\n``\nb", "ab"),
        ("a\n```\nb\nc", "a"),
    ],
)
def test_fenced_code_is_told_from_the_rest(text: str, expected: str) -> None:
    assert outside(text) == expected


@pytest.mark.parametrize(
    "line",
    [
        "REVIEW_NOTES:",
        "review_notes: all is well",
        "## REVIEW_NOTES:",
        "## REVIEW_NOTES",
        "**REVIEW_NOTES:** all is well",
        "**REVIEW_NOTES**: all is well",
        "__REVIEW_NOTES__",
        "  - REVIEW_NOTES :",
        "2. REVIEW_NOTES:",
    ],
)
def test_a_label_may_stand_in_markdown(line: str) -> None:
    assert has_label(line, "REVIEW_NOTES")


@pytest.mark.parametrize(
    "line",
    [
        "My REVIEW_NOTES: here",
        "REVIEW_NOTES are below",
        "REVIEW_NOTES: <your notes>",
        "REVIEW_NOTESX:",
        "> REVIEW_NOTES:",
        "`REVIEW_NOTES:`",
        "",
    ],
)
def test_other_lines_carry_no_label(line: str) -> None:
    assert not has_label(line, "REVIEW_NOTES")


def test_the_first_label_outside_code_is_found_and_one_in_code_if_there_is_no_other() -> None:
    lines = ["```", "EVIDENCE:", "```", "text", "EVIDENCE:", "EVIDENCE:"]
    assert find_label(lines, "EVIDENCE") == 4
    assert find_label(lines[:3], "EVIDENCE") == 1
    assert find_label(["text"], "EVIDENCE") is None
