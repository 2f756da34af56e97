"""Secrets on screens: over the ends of rows, in boxes and in colors; all else stays as it was."""

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.ansi import plain_text
from cli_agent_orchestrator.core.secrets import MASK, masked, masked_screen
from cli_agent_orchestrator.core.text import columns_of
from tests.core.test_masking import SECRETS

CAPTURED = Path(__file__).parents[1] / "providers" / "screens"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + "dBjftJeZ4CVP" * 12
PART = 4
"""So many letters of a secret, one after the other, do not stay."""
SECRET, OTHER = "§", "."
NAMED = [
    ("Authorization: Basic ", "dXNlcjpwYXNzd29yZDE="),
    ("authorization = 'ApiKey ", "a1b2c3d4e5f6a7b8"),
    ("x: Bearer ", "abcdefgh12345678"),
    ("password=", "hunter2hunter2"),
    ("db_password: ", "hunter2hunter2"),
    ("token: ", "abcdefgh12345678"),
    ("db_token: ", "abcdefgh12345678" * 5),
    ("Authorization: Token ", "abcdefgh12345678" * 5),
    ("API_KEY = ", "abcdefgh12345678"),
    ("x --token ", "abcdefgh12345678"),
    ("curl -s -u ada:", "q0Fb7xK2"),
]
WRITTEN = [("", secret) for secret in [*SECRETS, JWT]] + NAMED
FRAMES = {
    "nothing": ("{}", "{}"),
    "the marks of the scripted agent": ("│ {}", "┆ {}"),
    "an indent": ("● {}", "  {}"),
    "a box": ("│ {} │", "│ {} │"),
    "an indented box": ("  ┃ {} ┃", "  ┃ {} ┃"),
}


def rows_of(text: str, width: int, frame: str = "nothing") -> list[str]:
    """Return a text as a terminal, or an agent, wraps it."""
    first, next_one = FRAMES[frame]
    parts = [text[at : at + width] for at in range(0, len(text), width)]
    rows = [(next_one if at else first).format(part.ljust(width)) for at, part in enumerate(parts)]
    # tmux gives no blanks at the end of a row
    return [row.rstrip(" ") for row in rows]


def leaks(secret: str, shown: str) -> list[str]:
    """Return what can still be read of a secret."""
    parts = (secret[at : at + PART] for at in range(len(secret) - PART + 1))
    return [part for part in parts if part in shown]


def uncovered(secret: str, marks: list[str], shown: list[str]) -> list[str]:
    """Return what can still be read of a secret in rows that are marked where it stood."""
    cells = (
        now
        for row, marked in zip(shown, marks, strict=True)
        for now, mark in zip(row, marked, strict=False)
        if mark == SECRET
    )
    return [*leaks(secret, "\n".join(shown)), *(now for now in cells if now not in f"{MASK}* ")]


@given(
    st.sampled_from(WRITTEN),
    st.integers(PART, 130),
    st.integers(0, 130),
    st.sampled_from(["", " end", '" end']),
)
def test_of_a_secret_that_a_terminal_wraps_nothing_is_left(
    written: tuple[str, str], width: int, before: int, after: str
) -> None:
    name, secret = written
    said = ("see " * 40)[:before] + " " + name
    marks = rows_of(OTHER * len(said) + SECRET * len(secret) + OTHER * len(after), width)
    _, *shown = masked_screen(
        "\n".join(["─" * width, *rows_of(said + secret + after, width)])
    ).split("\n")
    assert uncovered(secret, marks, shown) == []


@given(
    st.sampled_from(WRITTEN),
    st.integers(24, 130),
    st.integers(0, 130),
    st.sampled_from(list(FRAMES)),
)
def test_nor_of_one_that_an_agent_wraps(
    written: tuple[str, str], width: int, before: int, frame: str
) -> None:
    name, secret = written
    said = ("see " * 40)[:before] + " " + name
    marks = rows_of(OTHER * len(said) + SECRET * len(secret), width, frame)
    rows = rows_of(said + secret, width, frame)
    _, *shown, _, _ = masked_screen("\n".join(["─" * (width + 4), *rows, "", "❯"])).split("\n")
    assert uncovered(secret, marks, shown) == []


@pytest.mark.parametrize(
    "header", ["Authorization:\n  Basic ", "Authorization: Basic\n  ", "x --token\n  "]
)
def test_a_wrap_between_words_is_one_too(header: str) -> None:
    shown = masked_screen(f"of the header that was sent: {header}{'a1b2c3d4e5f6' * 3}")
    assert leaks("a1b2c3d4e5f6", shown) == []
    assert shown.endswith(MASK)


@pytest.mark.parametrize("secret", ["AKIAIOSFODNN7EXAMPLE", "AIza" + "x" * 35, "ghp_" + "a1" * 18])
def test_words_at_the_ends_of_rows_hide_no_secret_between_them(secret: str) -> None:
    half = len(secret) // 2
    shown = masked_screen(f"{'-' * half}is\n  {secret[:half]}\n  {secret[half:]}\n  also")
    assert leaks(secret, shown) == []


def test_colors_and_layout_of_the_rest_stay() -> None:
    secret = "ghp_" + "a1B2" * 9
    shown = masked_screen(
        f"\x1b[31m│ see {secret[:10]}\x1b[32m{secret[10:24]} │\n"
        f"│ \x1b[1m{secret[24:]} \x1b[0mis │\n\x1b[0;4mend"
    )
    assert [plain_text(line) for line in shown.split("\n")] == [
        "│ see (masked)                 │",
        "│ (masked)         is │",
        "end",
    ]
    assert "\x1b[0;31m│ see (masked)" in shown
    assert "\x1b[0;1;32m(masked)" in shown
    assert "\x1b[0;4mend" in shown


def test_a_short_secret_or_one_with_colors_moves_nothing_either() -> None:
    assert masked_screen("\x1b[31mghp_\x1b[0ma1B2c3D4 x") == "\x1b[0;31m(masked)    \x1b[0m x"
    assert masked_screen("│ https://ada:pw@host │") == "│ https://ada:**@host │"
    nothing = "\x1b[31mred\nstill \x1b[0m \n\n"
    assert masked_screen(nothing) == nothing


def test_a_key_in_a_box_leaves_the_box() -> None:
    box = "│ -----BEGIN PRIVATE KEY----- │\n│ MIIEow==                    │\n│ q0Fb/x+q0Fb │\n└──┘"
    assert masked_screen(box).split("\n") == [
        "│ -----BEGIN PRIVATE KEY----- │",
        "│ (masked)                    │",
        "│ (masked)    │",
        "└──┘",
    ]


@pytest.mark.parametrize(
    "code",
    [
        "  token: str\n  user_id_1 = 3\n  password: string\n  x1y2z3 = 4",
        f"  token: str\n  user_id_12345 {'is long ' * 8}",
        f"│ token: str{' ' * 40}│\n│ user_id_12345 = 3{' ' * 33}│",
    ],
)
def test_rows_that_are_not_full_are_read_one_by_one(code: str) -> None:
    code = f"{'─' * 80}\n{code.rstrip()}"
    assert masked_screen(code) == code


def test_rows_that_are_put_together_make_no_secret_of_what_agents_show() -> None:
    masked_row = cache(masked)  # most rows are in many captures
    for screen in sorted(CAPTURED.rglob("*.txt")):
        rows = "\n".join(map(masked_row, screen.read_text().split("\n")))
        assert masked_screen(rows) == rows, screen


def test_letters_that_take_two_columns_fill_a_row() -> None:
    secret = "ghp_" + "a1B2" * 9
    upper = "漢" * 30 + " " + secret[:19]
    assert columns_of(upper) == 80
    assert leaks(secret, masked_screen(f"{upper}\n{secret[19:]}")) == []
