"""Keys that are pressed in the live view: whatever bytes come, however they are cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.cli.picture import Canvas, Keys, Picture, draw, offers, press
from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.events import EventKind, PauseAsked, Paused, RunEnded, RunEvent
from cli_agent_orchestrator.pipeline.requests import (
    LARGEST_HINT,
    Hint,
    Pause,
    Request,
    SentRequest,
    Skip,
    Unpause,
    read_line,
    to_line,
)
from tests.cli.run_events import BEGAN, NOON, OPENED, ended, events, handoff, picture_of, turn

ARROWS = [b"\x1b[A", b"\x1b[1;5C", b"\x1bOB", b"\x1b[3~", b"\x1b[?1;2c", b"\x1b[ q", b"\x1bs"]
CONTROLS = bytes(number for number in range(32) if chr(number) not in "\b\t\n\r\x15\x1b")
PASTE, PASTE_END = b"\x1b[200~", b"\x1b[201~"


def begun(*happened: RunEvent) -> Picture:
    return picture_of(OPENED, BEGAN, *happened)


ASKS = handoff(EventKind.WAITING_FOR_PERSON, "x", TerminalStatus.WAITING_USER_ANSWER)
WORK = begun(turn("programmer"))
REVIEW = begun(turn("analyst_review"))


def pressed(
    *pieces: bytes, at: Picture = WORK, keys: Keys | None = None
) -> tuple[Keys, list[Request | str]]:
    """Return what is left and what is wished after pieces were read, one after the other."""
    keys = keys or Keys()
    requests: list[Request | str] = []
    for piece in pieces:
        keys, more = press(keys, piece, at)
        requests += more
    return keys, requests


@pytest.mark.parametrize(
    ("at", "offered"),
    [
        (Picture(), {}),
        (begun(), {}),
        (WORK, {"a": "attach", "h": "hint", "p": "pause"}),
        (REVIEW, {"a": "attach", "h": "hint", "p": "pause", "s": "skip"}),
        (begun(turn("tester"), PauseAsked(NOON)), {"a": "attach", "h": "hint", "p": "resume"}),
        (
            begun(turn("tester"), ended("tester", "failed"), Paused(NOON)),
            {"h": "hint", "p": "resume"},
        ),
        (begun(turn("programmer"), ASKS), {"a": "attach", "h": "hint", "p": "pause"}),
        (begun(turn("analyst_review"), RunEnded(NOON, "PASS", 1, 0)), {}),
        (picture_of(BEGAN, turn("analyst_review")), {"a": "attach"}),
    ],
)
def test_what_is_offered_is_what_keys_do(at: Picture, offered: dict[str, str]) -> None:
    assert offers(at) == offered
    requests = {"pause": Pause(), "resume": Unpause(), "skip": Skip()}
    for key in map(chr, range(128)):
        word = offered.get(key, "")
        keys, wished = pressed(key.encode(), at=at)
        assert wished == ([requests[word]] if word in requests else [])
        assert (keys.line == "") == (word == "hint")
        assert (keys.attach_to != "") == (word == "attach")


def test_the_command_to_attach_is_shown_until_another_key_is_pressed() -> None:
    keys, _ = pressed(b"a")
    assert keys.attach_to == "programmer"
    assert pressed(b"a", keys=keys) == (Keys(), [])
    assert pressed(b"x", keys=keys) == (Keys(), [])
    assert pressed(b"p", keys=keys) == (Keys(), [Pause()])


@pytest.mark.parametrize(
    ("pieces", "hint"),
    [
        ([b"h", b" Mind", " the größe".encode(), b"\r"], "Mind the größe"),
        (["hNaß\x7f\x7f\bMind\n".encode()], "Mind"),
        ([b"hMinf\x7fd\r"], "Mind"),
        ([b"hsomething\x15Mind\r"], "Mind"),
        ([b"hM" + CONTROLS + "\x9bind\r".encode()], "Mind"),
        ([b"hM\xff\xc0\x80ind\r"], "Mind"),
        ([b"h", *[b"x" * 4096] * 3, b"y\r"], "x" * LARGEST_HINT),
        ([b"h  \r"], ""),
        ([b"habc\x7f\x7f\b\x7f\n"], ""),
        ([b"habc\x15\r"], ""),
    ],
)
def test_a_line_becomes_a_hint_unless_it_is_empty(pieces: list[bytes], hint: str) -> None:
    assert pressed(*pieces) == (Keys(), [Hint(None, hint)] if hint else [])


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


def test_a_pasted_text_is_one_line_and_comes_too_late_when_all_is_over() -> None:
    pasted = PASTE + "one\r\ntwo\tthree\u2028four\np".encode() + PASTE_END
    keys, requests = pressed(b"h" + pasted)
    assert (keys, requests) == (Keys(line="one  two three four p"), [])
    assert pressed(b"\r", keys=keys)[1] == [Hint(None, "one  two three four p")]
    over = begun(turn("programmer"), RunEnded(NOON, "PASS", 1, 0))
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
    keys, requests = pressed(*pieces, at=begun(turn("analyst_review"), *happened))
    for request in requests:
        assert not isinstance(request, str), "no choice is known"
        ask = SentRequest("1", 1.0, request)
        assert read_line(to_line(ask)) == ask
    assert len(keys.unread) < 50
    assert "\x1b" not in (keys.line or "")


def test_the_keys_of_a_question_answer_it() -> None:
    asked = begun(turn("programmer"), ASKS)
    assert pressed(b"1", at=asked)[1] == []
    assert asked.now is not None
    assert asked.now.question is not None
    asked.now.question.choices = {"1": "Yes", "p": "No", "Escape": "Cancel"}
    assert pressed(b"1", b"p", b"h", at=asked)[1] == ["1", "p"]
    assert pressed(PASTE, b"1", PASTE_END, at=asked)[1] == []
    rows = [row.plain for row in draw(asked, Canvas(80, 24, NOON + 70), Keys())]
    assert "  1 Yes · p No" in rows
    assert rows[-1] == "  a attach · h hint"
