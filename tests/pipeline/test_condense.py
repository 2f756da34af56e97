"""What of a reply is handed on."""

from collections.abc import Callable

import pytest

from cli_agent_orchestrator.pipeline.reply import (
    Excerpt,
    Output,
    excerpt_of,
    extract_handoff,
    extract_implementation,
    extract_review_notes,
    extract_test_evidence,
    first_point,
)
from tests.pipeline.samples import ANALYST_SUMMARY, PROGRAMMER_SUMMARY


def numbered(count: int, word: str = "line") -> str:
    return "\n".join(f"{word} {number}" for number in range(1, count + 1))


def test_review_notes_are_taken_from_their_label_on() -> None:
    """Scenario: Review notes condensation"""
    text = f"I looked.\nREVIEW_RESULT: REVISE\nREVIEW_NOTES:\n{numbered(50)}"
    assert extract_review_notes(text, 30) == f"REVIEW_NOTES:\n{numbered(29)}"
    assert extract_review_notes("\n" + numbered(50), 3) == numbered(3)


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        (
            f"I ran it.\n\nRESULT: FAIL\n\nSome talk.\n\nEVIDENCE:\n{numbered(50)}",
            f"RESULT: FAIL\nEVIDENCE:\n{numbered(28)}",
        ),
        (
            f"EVIDENCE:\n{numbered(50)}\n**RESULT: FAIL**\nbye",
            f"**RESULT: FAIL**\nEVIDENCE:\n{numbered(28)}",
        ),
        (
            "RESULT: PASS|FAIL\nRESULT: PASS\nEVIDENCE:\nx\nRESULT: FAIL",
            "RESULT: FAIL\nEVIDENCE:\nx",
        ),
        ("talk\nEVIDENCE:\nx", "EVIDENCE:\nx"),
    ],
)
def test_test_evidence_is_the_result_line_and_the_evidence(text: str, evidence: str) -> None:
    """Scenario: Test evidence condensation"""
    assert extract_test_evidence(text, 30) == evidence


@pytest.mark.parametrize(
    ("extract", "text", "taken"),
    [
        (
            extract_handoff,
            ANALYST_SUMMARY,
            "## 1. Artifact review\n- proposal.md: asks for empty lines.\n"
            "## 5. Explicit handoff\n- Change `parse` in parser.py.",
        ),
        (
            extract_implementation,
            PROGRAMMER_SUMMARY,
            "## Files changed\n- parser.py: skips empty lines\n"
            "## Behavior implemented\nEmpty lines are skipped.",
        ),
        # A list inside a numbered part does not end it.
        (
            extract_handoff,
            "4. Contracts\n1. none\n5. Explicit handoff\n1. do this\n2. then that\n6. Rest\n1. x",
            "5. Explicit handoff\n1. do this\n2. then that",
        ),
    ],
)
def test_the_next_agent_gets_the_parts_that_it_needs(
    extract: Callable[[str, int], str], text: str, taken: str
) -> None:
    assert extract(text, 40) == taken


@pytest.mark.parametrize(
    ("parts", "rest"),
    [
        ("Files changed:\n- a.py: one\nBehavior implemented:\n- b", "Validation:\n- c"),
        ("**Files changed**\n- a.py\n**Behavior implemented:**\n- b", "**Tests**\n- c"),
        ("**Changed files:** a.py\n**Implemented behavior:** b", "**Tests:** c"),
        ("1. Files changed\n- a.py: one\n2. Behavior implemented\n- b", "3. Validation\n- c"),
        ("- Files changed:\n  - a: one\n- Behavior implemented:\n  1. b", "- Validation:\n  - c"),
        ("- **Files changed**: a\n- **Behavior implemented**: b", "- **Validation**: c"),
        ("# Files changed\n### a.py\nNote: x\n# Behavior implemented\n- b", "# Tests\n- c"),
        ("## Files changed\n```\n# x\nTests:\n```\n## Behavior implemented\nb", "# Next\n- c"),
        ("Files changed: a.py\nBehavior implemented: b", "\n### c\nd"),
        ("Files changed:\nsee https://x\n10:30\nBehavior implemented:\n?:\nb", "Next: c"),
    ],
)
def test_a_part_ends_at_the_next_title_of_its_kind(parts: str, rest: str) -> None:
    assert extract_implementation(f"talk\n\n{parts}\n{rest}", 40) == parts


@pytest.mark.parametrize(
    ("item", "is_title"),
    [
        ("1. there is a risk of loss", True),
        ("1. there is a risk of that loss", False),
        ("1. Risks: there is one of that loss", True),
        ("- There is a risk of loss: x", True),
        ("- There is a risk of that loss: x", False),
    ],
)
def test_a_list_item_of_more_than_six_words_is_no_title(item: str, is_title: bool) -> None:
    taken = extract_handoff(f"{item}\n2. Handoff\n- x", 40)
    assert taken == (f"{item}\n2. Handoff\n- x" if is_title else "2. Handoff\n- x")


@pytest.mark.parametrize("kind", ["## {}", "**{}**", "{}:", "1. {}", "- {}:"])
def test_what_stands_beyond_a_hundred_characters_is_not_looked_at(kind: str) -> None:
    """A title is found by its first 100 characters, so that a huge line costs nothing."""
    shown = "x" * (92 - len(kind.format("")))
    for words, is_title in ((f"{shown} handoff", True), (f"{shown}x handoff", False)):
        text = f"talk\n{kind.format(words)}\nstep"
        assert extract_handoff(text, 40) == (text.removeprefix("talk\n") if is_title else text)


@pytest.mark.parametrize(
    "text",
    [
        f"talk\nFiles changed:\n{numbered(9)}",
        f"talk\nBehavior implemented:\n{numbered(9)}",
        numbered(9),
        f"```\nFiles changed:\nBehavior implemented:\n```\n{numbered(9)}",
    ],
)
def test_a_missing_part_falls_back_to_the_head(text: str) -> None:
    assert extract_implementation(text, 4) == "\n".join(text.split("\n")[:4])


def test_parts_that_are_too_long_share_the_lines() -> None:
    artifacts, handoff = numbered(50, "artifact"), numbered(50, "step")
    text = f"## Artifacts\n{artifacts}\n## Risks\n- one\n## Handoff\n{handoff}"
    # The first part that is wanted gets the line that is left.
    artifacts, handoff = numbered(3, "artifact"), numbered(4, "step")
    assert extract_handoff(text, 11) == (
        f"## Artifacts\n{artifacts}\n## Risks\n- one\n## Handoff\n{handoff}"
    )


def test_an_excerpt_tells_what_it_leaves_out() -> None:
    output = Output(f"\n{numbered(50)}\n\n", "/p/003-analyst.md")
    assert excerpt_of(output, numbered(30)) == Excerpt(numbered(30), 20, "/p/003-analyst.md")
    assert excerpt_of(output, output.text).left_out == 0
    assert excerpt_of(Output("a"), "a\nb\nc").left_out == 0
    assert excerpt_of(Output("a"), "a") == Excerpt("a")


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("REVIEW_NOTES:\n\n- **Rounding** is wrong in `total`", "Rounding is wrong in `total`"),
        ("**REVIEW_NOTES:** the tests lack a case\nmore", "the tests lack a case"),
        ("RESULT: FAIL\nEVIDENCE: 1) `make test`  fails", "`make test` fails"),
        ("EVIDENCE:\n```\n$ make\n```\nIt does not build", "It does not build"),
        ("__init__.py is empty", "__init__.py is empty"),
        ("RESULTS differ", "RESULTS differ"),
        ("RESULT: FAIL", ""),
        ("", ""),
    ],
)
def test_the_first_point_is_told_without_its_marks(text: str, point: str) -> None:
    assert first_point(text) == point


@pytest.mark.parametrize(
    "nothing",
    ["F", "..F.E", ".s.xu.", "..F.. [ 40%]\n.....   [100%]", "=======", "- ----", "F\n======"],
)
def test_a_line_of_mere_progress_is_no_point(nothing: str) -> None:
    assert first_point(f"EVIDENCE:\n{nothing}\nFAIL: test_a (t.T.test_a)") == (
        "FAIL: test_a (t.T.test_a)"
    )
    assert first_point(f"EVIDENCE:\n{nothing}") == ""


def test_a_long_point_ends_with_a_whole_word() -> None:
    start = "a" * 190
    assert first_point(f"- {start} /home/ada/shop/a.py is wrong") == start
    assert first_point(f"{start} password=hunter2") == start
    assert first_point(f"{start} it is so.") == f"{start} it is so."
    assert first_point(f"{start} it is not so") == f"{start} it is not"
    assert first_point("y" * 300) == "y" * 200


def test_no_part_of_a_secret_is_a_first_point() -> None:
    said = "a " * 90 + "password: 'correct horse battery staple correct horse battery'"
    assert first_point(said).endswith("a password: '")
