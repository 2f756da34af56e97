"""What people ask of a run, as lines of its control file."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.errors import UsageError
from cli_agent_orchestrator.pipeline.steering import (
    LARGEST_HINT,
    LARGEST_LINE,
    LARGEST_WORD,
    Answered,
    Ask,
    Heard,
    Hint,
    Pause,
    Set,
    Skip,
    Stop,
    Unpause,
    Wish,
    demand_wish,
    read_ask,
    read_asks,
    to_line,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50).filter(str.strip)
wishes: st.SearchStrategy[Wish] = st.one_of(
    st.sampled_from([Pause(), Unpause(), Stop(), Skip()]),
    st.builds(Skip, texts, st.integers(1, 99), st.integers(1, 99)),
    st.builds(Hint, st.none() | texts, texts),
    st.builds(Set, texts, texts),
    st.builds(Answered, texts, texts),
)
asks = st.builds(Ask, st.uuids().map(str), st.floats(0, 1e11), wishes)
GOOD = Ask("a1", 12.5, Pause())
LINE = to_line(GOOD).encode() + b"\n"


def data_of(ask: Ask, **changes: object) -> str:
    return json.dumps({**json.loads(to_line(ask)), **changes})


@pytest.mark.hypothesis
@given(asks)
def test_what_is_written_is_read(ask: Ask) -> None:
    assert read_ask(to_line(ask)) == ask
    assert "\n" not in to_line(ask)


@pytest.mark.parametrize(
    ("wish", "do"),
    [
        (Pause(), "pause"),
        (Unpause(), "resume"),
        (Stop(), "stop"),
        (Skip(), "skip"),
        (Skip("r", 1, 2), "skip"),
        (Hint(None, "x"), "hint"),
        (Set("a", "b"), "set"),
        (Answered("a", "b"), "answered"),
    ],
)
def test_the_words_are_those_of_the_commands(wish: Wish, do: str) -> None:
    assert json.loads(to_line(Ask("a", 0, wish)))["do"] == do


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"pause",
        b"[]",
        b'"pause"',
        b"\xff\xfe",
        b"{" * 100_000,
        b'{"do": "pause"}',
        b'{"id": "a", "do": "pause"}',
        b'{"at": 1, "do": "pause"}',
        data_of(GOOD, do="explode"),
        data_of(GOOD, do=None),
        data_of(GOOD, do=["pause"]),
        data_of(GOOD, id=""),
        data_of(GOOD, id="../x"),
        data_of(GOOD, id="a" * 65),
        data_of(GOOD, id=7),
        data_of(GOOD, at="now"),
        data_of(GOOD, at=True),
        data_of(GOOD, at=-1),
        data_of(GOOD, at=1e12),
        data_of(GOOD, at=float("nan")),
        data_of(GOOD, do="hint"),
        data_of(GOOD, do="hint", text=" \n"),
        data_of(GOOD, do="hint", text=5),
        data_of(GOOD, do="hint", text="x" * (LARGEST_HINT + 1)),
        data_of(GOOD, do="hint", text="\ud800"),
        data_of(GOOD, do="hint", text="x", role=""),
        data_of(GOOD, do="hint", text="x", role=5),
        data_of(GOOD, do="hint", text="x", role="r" * (LARGEST_WORD + 1)),
        data_of(GOOD, do="skip", role="analyst_review"),
        data_of(GOOD, do="skip", role="analyst_review", round=1),
        data_of(GOOD, do="skip", role="", round=1, cycle=1),
        data_of(GOOD, do="skip", role="analyst_review", round="1", cycle=1),
        data_of(GOOD, do="skip", role="analyst_review", round=True, cycle=1),
        data_of(GOOD, do="skip", role="analyst_review", round=1, cycle=0),
        data_of(GOOD, do="answered", role="programmer"),
        data_of(GOOD, do="answered", text="Yes"),
        data_of(GOOD, do="answered", role="programmer", text="x" * (LARGEST_WORD + 1)),
        data_of(GOOD, do="set", name="max_rounds"),
        data_of(GOOD, do="set", value="3"),
        data_of(GOOD, do="set", name="max_rounds", value=3),
        data_of(GOOD, do="set", name="max_rounds", value=" "),
        data_of(GOOD, do="set", name="max_rounds", value="3" * (LARGEST_WORD + 1)),
        data_of(GOOD, more="x" * LARGEST_LINE),
    ],
)
def test_what_is_not_exactly_an_ask_is_none(line: str | bytes) -> None:
    assert read_ask(line) is None


def test_the_largest_hint_fits_into_a_line_whatever_it_is_made_of() -> None:
    ask = Ask("a1", 1.0, Hint(None, "\U0001f600" * (LARGEST_HINT // 2)))
    assert read_ask(to_line(ask)) == ask


class TestLines:
    def test_whole_lines_are_read_with_where_they_end(self) -> None:
        other = Ask("b2", 13.0, Skip())
        data = LINE + to_line(other).encode() + b"\n"
        assert read_asks(data, 100) == [
            Heard(GOOD, 100 + len(LINE)),
            Heard(other, 100 + len(data)),
        ]

    @pytest.mark.parametrize("rest", [b"", b"x", LINE[:-1], b"x" * LARGEST_LINE])
    def test_the_beginning_of_a_line_waits_for_its_end(self, rest: bytes) -> None:
        assert read_asks(LINE + rest, 0) == [Heard(GOOD, len(LINE))]
        assert read_asks(rest, 0) == []

    def test_one_that_is_longer_than_any_ask_is_not_waited_for(self) -> None:
        rest = b"x" * (LARGEST_LINE + 1)
        assert read_asks(rest, 5) == [Heard(None, 5 + len(rest))]

    def test_rubbish_in_a_row_counts_as_one(self) -> None:
        data = b"a\nb\n\n" + LINE + b"c\r" + LINE
        assert read_asks(data, 0) == [
            Heard(None, 5),
            Heard(GOOD, 5 + len(LINE)),
            Heard(None, len(data)),
        ]

    @pytest.mark.hypothesis
    @given(st.binary(max_size=200), st.integers(0, 1000), st.integers(0, 200))
    def test_in_pieces_the_same_is_read_as_at_once(self, data: bytes, start: int, cut: int) -> None:
        data = data.replace(b"x", LINE)
        first = read_asks(data[:cut], start)
        done = first[-1].upto - start if first else 0
        rest = read_asks(data[done:], start + done)
        whole = [heard.ask for heard in read_asks(data, start) if heard.ask]
        assert [heard.ask for heard in [*first, *rest] if heard.ask] == whole


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"do": "hint", "text": ""}, "text that is not empty"),
        ({"do": "hint", "text": "x" * 10_000}, f"{LARGEST_HINT} characters"),
        ({"do": "hint", "text": "gr\udcf6n"}, "the text is not UTF-8"),
        ({"do": "hint", "role": "\udcf6", "text": "x"}, "the role is not UTF-8"),
        ({"do": "set", "name": "max_rounds"}, "name and a value"),
        ({"do": "dance"}, "pause, resume, stop, skip, hint, set"),
        ({}, "pause, resume"),
    ],
)
def test_what_is_wrong_with_a_wish_is_said(data: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        demand_wish(data)


def test_a_wish_that_can_be_is_returned() -> None:
    assert demand_wish({"do": "hint", "role": None, "text": "x"}) == Hint(None, "x")
