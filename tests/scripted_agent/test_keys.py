"""Bytes become keys, and keys become a message."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.scripted_agent.console import PASTE_END, PASTE_START, Input, KeyReader


@pytest.mark.parametrize(
    ("data", "inputs"),
    [
        (b"\r", [Input("enter")]),
        (b"\x7f\x08", [Input("backspace"), Input("backspace")]),
        (b"\x15\x03\x04", [Input("clear"), Input("ctrl-c"), Input("ctrl-d")]),
        (b"\x1b[A\x1bOB", [Input("arrow"), Input("arrow")]),
        (b"\x1b[1;5C\x1b[15~x", [Input("typed", "x")]),
        (b"\x00\x01", []),
        (
            b"a\nb\t",
            [Input("typed", "a"), Input("typed", "\n"), Input("typed", "b"), Input("typed", "\t")],
        ),
        ("grüße 漢字\r".encode(), [Input("typed", "grüße 漢字"), Input("enter")]),
        (b"\x1bx", [Input("escape"), Input("typed", "x")]),
        (b"\x1b[\x01", [Input("escape"), Input("typed", "[")]),
        (b"\xff\r", [Input("typed", "\udcff"), Input("enter")]),
        (b"\xc3\r", [Input("typed", "\udcc3"), Input("enter")]),
    ],
)
def test_bytes_are_keys(data: bytes, inputs: list[Input]) -> None:
    assert KeyReader().feed(data) == inputs


@pytest.mark.parametrize(("data", "keys"), [(b"\x1b", [Input("escape")]), (b"\x1b[1;", [])])
def test_a_sequence_that_is_cut_off_is_decided_later(data: bytes, keys: list[Input]) -> None:
    reader = KeyReader()
    assert reader.feed(data) == []
    assert reader.undecided
    assert reader.decide() == keys
    assert not reader.undecided


@given(st.binary(max_size=60), st.lists(st.integers(0, 120), max_size=8))
def test_a_paste_is_kept_byte_for_byte_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    data = data.replace(b"\x1b", b"\x1b[A\r\n")
    whole = b"x" + PASTE_START + data + PASTE_END + b"\x1b[B\r"
    reader = KeyReader()
    places = sorted({0, *(cut for cut in cuts if cut < len(whole)), len(whole)})
    inputs: list[Input] = []
    for start, end in pairwise(places):
        inputs += reader.feed(whole[start:end])
    assert inputs == [
        Input("typed", "x"),
        Input("pasted", data.decode("utf-8", "surrogateescape")),
        Input("arrow"),
        Input("enter"),
    ]
    assert inputs[1].text.encode("utf-8", "surrogateescape") == data
