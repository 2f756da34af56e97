"""Saved values as JSON, what becomes of damaged ones, and TOML from anybody."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cli_agent_orchestrator.core import codec
from cli_agent_orchestrator.core.codec import MOST_DOTS, read_toml, toml_value


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class Whole:
    id: str
    colour: Colour = Colour.RED
    names: frozenset[str] = frozenset()
    parts: tuple[Part, ...] = ()
    by_name: Mapping[str, Part] = field(default_factory=dict)
    first: Part | None = None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("red"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("text", ["é\u2028\x00", "\ud800"])
def test_a_value_is_the_same_after_it_was_saved(text: str, indent: int | None) -> None:
    part = Part(text, 7)
    value = Whole(text, Colour.RED, frozenset((text, "")), (part, part), {text: part}, part)
    data = codec.encode(value, indent)
    assert data.isascii()
    assert codec.decode(Whole, data) == value


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ({"colour": "blue"}, Whole("x")),
        ({"later": 1, "parts": 7}, Whole("x")),
        ({"parts": [{"name": "a", "size": "9"}, {"size": 1}]}, Whole("x", parts=(Part("a"),))),
        ({"by_name": {"a": {"name": 1}}}, Whole("x")),
        ({"names": ["a", 5]}, Whole("x", names=frozenset("a"))),
        ({"first": {"size": 3}}, Whole("x")),
    ],
)
def test_a_damaged_field_has_its_default(damage: dict[str, object], expected: Whole) -> None:
    assert codec.decode(Whole, codec.encode({"id": "x", **damage})) == expected


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b"{}", b'{"id": 1}', b"[" * 100_000, b"\xff", b"NaN"]
)
def test_what_cannot_be_repaired_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever the reader says
        codec.decode(Whole, data)


def test_a_needed_field_is_not_repaired() -> None:
    with pytest.raises(ValueError, match="blue"):
        codec.decode(Whole, b'{"id": "x", "colour": "blue"}', needed=("colour",))


@given(st.dictionaries(st.sampled_from(["colour", "names", "parts", "by_name", "first"]), JSON))
def test_no_damage_to_the_rest_keeps_a_value_from_being_read(damage: dict[str, object]) -> None:
    assert codec.repaired(Whole, {"id": "x", **damage}).id == "x"


def test_a_key_that_would_take_hours_is_refused() -> None:
    with pytest.raises(ValueError, match="at line 2"):
        read_toml("a = 1\n" + ".".join("a" * 500_000) + " = 1\n")


def test_brackets_without_end_are_refused() -> None:
    with pytest.raises(ValueError, match="Too many brackets"):
        read_toml("a = " + "[" * 100_000)


def test_dots_that_people_write_are_read() -> None:
    text = "." * MOST_DOTS
    assert read_toml(f'a.b = "{text[1:]}"') == {"a": {"b": text[1:]}}


@given(st.one_of(st.text(), st.booleans(), st.lists(st.text())))
@example('\x7f\x00\x1b"\\\n')
def test_what_is_written_is_read_again(value: object) -> None:
    assert read_toml(f"key = {toml_value(value)}") == {"key": value}
