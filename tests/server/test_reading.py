"""What is wrong with a request is said in one line: where and what, and never the value."""

from enum import StrEnum
from typing import Annotated

import msgspec
import pytest
from msgspec import Meta, Struct

from cli_agent_orchestrator.server.operations import describe

SECRET = "secret"


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"
    GREEN = "green"


class Nested(Struct):
    color: Color


class Given(Struct):
    name: Annotated[str, Meta(max_length=3)]
    color: Annotated[Color | None, Meta(description="any")] = None
    count: Annotated[int, Meta(ge=0)] = 0
    parts: dict[str, Nested] = {}


def problem(**given: object) -> str:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(given, Given, strict=False)
    return describe("query", Given, str(caught.value))


def test_a_missing_field_is_named() -> None:
    assert problem() == "query.name: Field required"


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"name": SECRET}, "query.name: Expected `str` of length <= 3"),
        ({"count": SECRET}, "query.count: Expected `int`, got `str`"),
        ({"count": "-1"}, "query.count: Expected `int` >= 0"),
        ({"color": SECRET}, "query.color: Expected 'red', 'blue' or 'green'"),
        ({"color": f"{SECRET} - at `$.name`"}, "query.color: Expected 'red', 'blue' or 'green'"),
        ({"color": f"{SECRET}\n"}, "query.color: Expected 'red', 'blue' or 'green'"),
        ({"parts": {SECRET: 5}}, "query.parts[...]: Expected `object`, got `int`"),
        ({"parts": {"x": {"color": SECRET}}}, "query.parts[...].color: Expected another value"),
    ],
)
def test_a_wrong_field_is_named_with_what_it_should_be(
    wrong: dict[str, object], expected: str
) -> None:
    assert problem(**{"name": "ada", **wrong}) == expected


def test_what_has_no_field_is_named_by_its_place() -> None:
    assert describe("body", Given, "Input data was truncated") == "body: Input data was truncated"
