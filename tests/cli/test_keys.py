"""Keys that are pressed in the live view: whatever bytes come, however they are cut."""

from dataclasses import replace
from functools import reduce
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.cli.picture import (
    Answer,
    Canvas,
    Keys,
    Picture,
    draw,
    fold,
    offers,
    press,
)
from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.events import EventKind, PauseAsked, Paused, RunEnded, RunEvent
from cli_agent_orchestrator.pipeline.steering import (
    LARGEST_HINT,
    Ask,
    Hint,
    Pause,
    Skip,
    Unpause,
    Wish,
    read_ask,
    to_line,
)
from tests.cli.run_events import BEGAN, NOON, OPENED, ended, events, handoff, turn

ARROWS = [b"\x1b[A", b"\x1b[1;5C", b"\x1bOB", b"\x1b[3~", b"\x1b[?1;2c", b"\x1b[ q", b"\x1bs"]
PASTE, PASTE_END = b"\x1b[200~", b"\x1b[201~"


def picture_of(*happened: RunEvent) -> Picture:
    return reduce(fold, [OPENED, BEGAN, *happened], Picture())


WORK = picture_of(turn("programmer"))
REVIEW = picture_of(turn("analyst_review"))


def pressed(
    *pieces: bytes, at: Picture = WORK, keys: Keys | None = None
) -> tuple[Keys, list[Wish | Answer]]:
    """Return what is left and what is wished after pieces were read, one after the other."""
    keys = keys or Keys()
    wishes: list[Wish | Answer] = []
    for piece in pieces:
        keys, more = press(keys, piece, at)
        wishes += more
    return keys, wishes


@pytest.mark.parametrize(
    ("at", "offered"),
    [
        (Picture(), {}),
        (picture_of(), {}),
        (WORK, {"a": "attach", "h": "hint", "p": "pause"}),
        (REVIEW, {"a": "attach", "h": "hint", "p": "pause", "s": "skip"}),
        (
            picture_of(turn("tester"), PauseAsked(NOON)),
            {"a": "attach", "h": "hint", "p": "resume"},
        ),
        (
            picture_of(turn("tester"), ended("tester", "failed"), Paused(NOON)),
            {"h": "hint", "p": "resume"},
        ),
        (
            picture_of(
                turn("programmer"),
                handoff(EventKind.WAITING_FOR_PERSON, "x", TerminalStatus.WAITING_USER_ANSWER),
            ),
            {"a": "attach", "h": "hint", "p": "pause"},
        ),
        (picture_of(turn("analyst_review"), RunEnded(NOON, "PASS", 1, 0)), {}),
        (replace(REVIEW, run=""), {"a": "attach"}),
    ],
)
def test_what_is_offered_is_what_keys_do(at: Picture, offered: dict[str, str]) -> None:
    assert offers(at) == offered
    wishes = {"pause": Pause(), "resume": Unpause(), "skip": Skip()}
    for key in map(chr, range(128)):
        word = offered.get(key, "")
        keys, wished = pressed(key.encode(), at=at)
        assert wished == ([wishes[word]] if word in wishes else [])
        assert (keys.line == "") == (word == "hint")
        assert keys.attach_to == (at.present if word == "attach" else "")


def test_the_command_to_attach_is_shown_until_another_key_is_pressed() -> None:
    keys, _ = pressed(b"a")
    assert keys.attach_to == "programmer"
    assert pressed(b"a", keys=keys) == (Keys(), [])
    assert pressed(b"x", keys=keys) == (Keys(), [])
    assert pressed(b"p", keys=keys) == (Keys(), [Pause()])


@pytest.mark.parametrize("enter", [b"\r", b"\n"])
def test_a_line_becomes_a_hint(enter: bytes) -> None:
    keys, wishes = pressed(b"h", b" Mind", " the größe".encode(), enter)
    assert (keys, wishes) == (Keys(), [Hint(None, "Mind the größe")])


@pytest.mark.parametrize("typed", [b"\r", b"  \r", b"abc\x7f\x7f\b\x7f\n", b"abc\x15\r"])
def test_an_empty_line_is_no_hint(typed: bytes) -> None:
    assert pressed(b"h" + typed) == (Keys(), [])


def test_letters_can_be_erased() -> None:
    assert pressed("hNaß\x7f\x7f\bMind\r".encode())[1] == [Hint(None, "Mind")]
    assert pressed(b"hMinf\x7fd\r")[1] == [Hint(None, "Mind")]
    assert pressed(b"hsomething\x15Mind\r")[1] == [Hint(None, "Mind")]


def test_escape_cancels_a_line_when_nothing_follows_it() -> None:
    keys, _ = pressed(b"hMind\x1b")
    assert keys.is_escaping
    assert keys.line == "Mind"
    assert pressed(b"", keys=keys) == (Keys(), [])
    assert pressed(b"\x1b", keys=keys)[0] == Keys(unread=b"\x1b")
    assert not Keys(unread=b"\xc3").is_escaping


@pytest.mark.parametrize("arrow", ARROWS)
def test_arrow_keys_and_their_like_do_nothing(arrow: bytes) -> None:
    assert pressed(arrow, at=REVIEW) == (Keys(), [])
    assert pressed(b"hMi" + arrow + b"nd\r")[1] == [Hint(None, "Mind")]
    for cut in range(1, len(arrow)):
        keys, _ = pressed(b"hMi" + arrow[:cut])
        assert keys.is_escaping
        assert pressed(arrow[cut:] + b"nd\r", keys=keys)[1] == [Hint(None, "Mind")]


def test_what_is_pasted_presses_no_key() -> None:
    assert pressed(PASTE + b"p s\rh\r" + PASTE_END, at=REVIEW) == (Keys(), [])
    assert pressed(PASTE + b"p" + PASTE_END + b"p")[1] == [Pause()]


def test_a_pasted_text_is_one_line() -> None:
    pasted = PASTE + "one\r\ntwo\tthree\u2028four\np".encode() + PASTE_END
    keys, wishes = pressed(b"h" + pasted)
    assert (keys, wishes) == (Keys(line="one  two three four p"), [])
    assert pressed(b"\r", keys=keys)[1] == [Hint(None, "one  two three four p")]


def test_a_long_text_is_cut_to_the_largest_hint() -> None:
    (wish,) = pressed(b"h", *[b"x" * 4096] * 3, b"y\r")[1]
    assert wish == Hint(None, "x" * LARGEST_HINT)


def test_control_characters_are_dropped() -> None:
    controls = bytes(number for number in range(32) if chr(number) not in "\b\t\n\r\x15\x1b")
    assert pressed(b"hM" + controls + "\x9bind\r".encode())[1] == [Hint(None, "Mind")]
    assert pressed(b"hM\xff\xc0\x80ind\r")[1] == [Hint(None, "Mind")]


def test_a_hint_that_comes_too_late_is_none() -> None:
    keys, _ = pressed(b"hMind")
    over = picture_of(turn("programmer"), RunEnded(NOON, "PASS", 1, 0))
    assert pressed(b"\r", at=over, keys=keys) == (Keys(), [])


typing = st.lists(
    st.binary(max_size=6)
    | st.sampled_from([*ARROWS, PASTE, PASTE_END, b"h", b"p", b"s", b"\r", b"\x1b", b"\x1b[1"])
    | st.text(max_size=6).map(lambda text: text.encode(errors="ignore")),
    max_size=12,
).map(b"".join)


@given(typing, st.lists(st.integers(0, 80), max_size=8))
def test_how_it_is_cut_does_not_matter(data: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[a:b] for a, b in pairwise(places) if a < b]
    assert pressed(*pieces, at=REVIEW) == pressed(*filter(None, [data]), at=REVIEW)


@given(st.lists(typing, max_size=5), st.lists(events, max_size=6))
def test_whatever_is_pressed_each_wish_can_be_asked(
    pieces: list[bytes], happened: list[RunEvent]
) -> None:
    keys, wishes = pressed(*pieces, at=reduce(fold, happened, REVIEW))
    for wish in wishes:
        assert not isinstance(wish, Answer), "no choice is known"
        ask = Ask("1", 1.0, wish)
        assert read_ask(to_line(ask)) == ask
    assert len(keys.unread) < 50
    assert "\x1b" not in (keys.line or "")


def test_the_keys_of_a_question_answer_it() -> None:
    asks = handoff(EventKind.WAITING_FOR_PERSON, "x", TerminalStatus.WAITING_USER_ANSWER)
    asked = picture_of(turn("programmer"), asks)
    assert asked.question is not None
    choices = {"1": "Yes", "p": "No", "Escape": "Cancel"}
    known = replace(asked, question=replace(asked.question, choices=choices))
    assert pressed(b"1", b"p", b"h", at=known)[1] == [Answer("1"), Answer("p")]
    assert pressed(PASTE, b"1", PASTE_END, at=known)[1] == []
    assert pressed(b"1", at=asked)[1] == []
    rows = [row.plain for row in draw(known, Canvas(80, 24, NOON + 70), Keys())]
    assert "  1 Yes · p No" in rows
    assert rows[-1] == "  a attach · h hint"
