"""The picture of the house is drawn from its imports, and is up to date."""

import itertools
import runpy
from graphlib import CycleError
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "house.svg"
# Any: the names of a script
HOUSE: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "draw_house.py"))
Graph = dict[str, frozenset[str]]


@pytest.fixture(scope="module")
def graph() -> Graph:
    read: Graph = HOUSE["read_graph"](HOUSE["SOURCE"])
    return read


def test_the_picture_is_up_to_date() -> None:
    stale = "docs/house.svg is not what the imports say: run `make picture`"
    assert PICTURE.read_text(encoding="utf-8") == HOUSE["house"](), stale


def test_the_picture_is_the_same_each_time() -> None:
    assert HOUSE["house"]() == HOUSE["house"]()


def test_no_part_imports_another_in_a_circle_or_upward(graph: Graph) -> None:
    floors = HOUSE["floors_of"](graph)  # or a CycleError names the circle
    assert all(floors[part] > floors[below] for part, parts in graph.items() for below in parts)


def test_every_arrow_leads_downward(graph: Graph) -> None:
    boxes = HOUSE["place"](graph)
    for start, end in HOUSE["arrows_of"](graph):
        assert boxes[start].y + HOUSE["HEIGHT"] < boxes[end].y


def test_no_box_covers_another(graph: Graph) -> None:
    boxes = sorted(HOUSE["place"](graph).values(), key=lambda box: (box.y, box.x))
    for left, right in itertools.pairwise(boxes):
        assert left.y != right.y or left.x + left.width / 2 < right.x - right.width / 2


def test_a_circle_is_an_error() -> None:
    with pytest.raises(CycleError):
        HOUSE["draw"]({"a": frozenset({"b"}), "b": frozenset({"a"})}, ())


def test_an_import_that_follows_from_others_is_no_arrow() -> None:
    graph = {"a": frozenset({"b", "c"}), "b": frozenset({"c"}), "c": frozenset()}
    assert HOUSE["arrows_of"](graph) == [("a", "b"), ("b", "c")]


def test_the_halves_meet_in_no_import(graph: Graph) -> None:
    server, pipeline = {"api", "terminals", "terminals/tmux"}, {"handoff", "pipeline", "runs"}
    for part in server:
        assert not graph[part] & pipeline
    for part in pipeline:
        assert not graph[part] & server
