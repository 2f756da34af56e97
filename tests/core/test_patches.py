"""Patches on a page: bounded, and shown without becoming anything else."""

import pytest

from cli_agent_orchestrator.core.markdown import excerpt, harmless


def lines(count: int, mark: str = "+") -> str:
    return "".join(f"{mark}{number}\n" for number in range(count))


@pytest.mark.parametrize(
    ("patches", "shown"),
    [
        ([], ""),
        (["+a\n", "-b"], "+a\n-b"),
        ([lines(4)], "+0\n+1\n+2\n…\n… 1 more line: cao diff k3f9"),
        ([lines(3), lines(3, "-")], "+0\n+1\n+2\n-0\n-1\n…\n… 1 more line: cao diff k3f9"),
        ([lines(5), lines(3, "-")], "+0\n+1\n+2\n…\n-0\n-1\n…\n… 3 more lines: cao diff k3f9"),
    ],
)
def test_the_first_lines_are_shown_and_how_many_more_there_are(
    patches: list[str], shown: str
) -> None:
    assert excerpt(patches, 3, 5, "cao diff k3f9") == shown
    assert excerpt(patches, 3, 5, "") == shown.removesuffix(": cao diff k3f9")


def test_no_character_controls_anything_and_no_line_is_endless() -> None:
    text = "+\x1b[2J\r\n+\u202eevil\udc80\u2028\u2029\n+" + "x" * 400 + "\n+" + "y" * 299 + "\n"
    assert excerpt([text], 9, 9, "") == ("+�[2J�\n+�evil���\n+" + "x" * 299 + "…\n+" + "y" * 299)


def test_where_a_line_is_cut_no_part_of_a_secret_is_left() -> None:
    line = "x" * 270 + " https://ada:S81Correct-Horse-9@git.example/x.git"
    assert excerpt([f"+{line}\n"], 9, 9, "") == "+" + "x" * 270 + " https://ada:…"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("tests/test_a.py (3 → 2)", "tests/test_a.py (3 → 2)"),
        ("a/__init__.py", "`a/__init__.py`"),
        ("<b>.py", "`<b>.py`"),
        ("[a](b)", "`[a](b)`"),
        ("http://a", "`http://a`"),
        ("a`<b>`` c", "```a`<b>`` c```"),
        ("`a", "`` `a ``"),
        ("a\\", "`a\\`"),
    ],
)
def test_what_means_something_to_markdown_is_shown_as_code(text: str, shown: str) -> None:
    assert harmless(text) == shown
