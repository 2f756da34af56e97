"""Draws docs/house.svg from the imports of the source: who is built upon whom.

Boxes are packages and single modules. Each stands one floor above the highest of those that it
imports, so every arrow leads downward; a circle of imports is an error. An arrow is left out where
others lead the same way through a box in between.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = "cli_agent_orchestrator"
SOURCE = ROOT / "src" / PACKAGE
PRIVATE = "_internal"
"""Where almost all of it is; the picture need not say so in every box."""
PICTURE = ROOT / "docs" / "house.svg"
WINGS = ("terminals/tmux",)
"""Packages inside of others that are boxes of their own."""

CHARACTER, PADDING, HEIGHT, GAP, FLOOR, MARGIN = 7.6, 12, 34, 22, 92, 24
SWEEPS = 8
STYLE = """\
  <style>
    .ground { fill: #ffffff; }
    .box { fill: #eef3fb; stroke: #4a6a9b; }
    .module { fill: #f7f7f4; stroke: #8a8a80; }
    .way { stroke: #6b7787; fill: none; marker-end: url(#tip); }
    text { font: 13px ui-monospace, monospace; fill: #1d2733; text-anchor: middle; }
  </style>
  <defs>
    <marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" \
orient="auto">
      <path d="M0 0 L8 4 L0 8 z" fill="#6b7787"/>
    </marker>
  </defs>"""

Graph = Mapping[str, frozenset[str]]
"""What each box imports."""


@dataclass(frozen=True, slots=True)
class Box:
    """A box in its place; `x` is its middle, `y` its upper edge."""

    name: str
    x: float
    y: float
    width: float


@cache
def read_graph(source: Path) -> Graph:
    """Return which part of the source imports which."""
    found: dict[str, set[str]] = {}
    for module in sorted(source.rglob("*.py")):
        part = part_of(inside(module.relative_to(source).with_suffix("").parts))
        parts = found.setdefault(part, set())
        tree = ast.parse(module.read_text(encoding="utf-8"))
        parts.update(part_of(words) for words in imported(tree, source))
    # What everybody takes from the package itself is its version.
    graph = {part: frozenset(parts - {part, "__init__"}) for part, parts in sorted(found.items())}
    joined = frozenset().union(*graph.values())
    return {part: parts for part, parts in graph.items() if parts or part in joined}


def inside(words: Sequence[str]) -> Sequence[str]:
    """Return the parts of a module's name without the one that says it is private."""
    return words[1:] if words[0] == PRIVATE else words


def part_of(words: Sequence[str]) -> str:
    """Return the box of a module, given the parts of its name below the package."""
    for wing in WINGS:
        if "/".join(words).startswith(wing):
            return wing
    return words[0]


def imported(tree: ast.AST, source: Path) -> Iterator[tuple[str, ...]]:
    """Yield the modules of ours that a module names in its imports, wherever they stand."""
    for node in ast.walk(tree):
        names: Iterable[str] = ()
        if isinstance(node, ast.Import):
            names = (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = (f"{node.module}.{alias.name}" for alias in node.names)
        for name in names:
            root, *words = name.split(".")
            if root == PACKAGE and words and is_module(source, words):
                yield tuple(inside(words))


def is_module(source: Path, words: Sequence[str]) -> bool:
    """Is there a module or package of that name, and not merely a name inside of one?"""
    place = source.joinpath(*words[: 2 if words[0] == PRIVATE else 1])
    return place.is_dir() or place.with_suffix(".py").is_file()


def floors_of(graph: Graph) -> dict[str, int]:
    """Return on which floor each box stands; raise CycleError if they stand upon each other."""
    floors: dict[str, int] = {}
    for part in TopologicalSorter(graph).static_order():
        floors[part] = 1 + max((floors[below] for below in graph[part]), default=-1)
    return floors


def arrows_of(graph: Graph) -> list[tuple[str, str]]:
    """Return the imports that do not follow from others."""
    below: dict[str, frozenset[str]] = {}
    for part in TopologicalSorter(graph).static_order():
        below[part] = graph[part].union(*(below[other] for other in graph[part]))
    return [
        (part, other)
        for part in sorted(graph)
        for other in sorted(graph[part])
        if not any(other in below[between] for between in graph[part])
    ]


def place(graph: Graph) -> dict[str, Box]:
    """Return every box in its place: floors from below, neighbors near what they import."""
    floors, arrows = floors_of(graph), arrows_of(graph)
    rows: list[list[str]] = [[] for _ in range(max(floors.values()) + 1)]
    for part in sorted(graph):
        rows[floors[part]].append(part)
    width = max(row_width(row) for row in rows)
    middles = {part: box.x for part, box in spread(rows, width).items()}
    for _ in range(SWEEPS):
        for row in rows:
            row.sort(key=lambda part: (wanted(part, arrows, middles), part))
        middles = {part: box.x for part, box in spread(rows, width).items()}
    return spread(rows, width)


def wanted(part: str, arrows: Sequence[tuple[str, str]], middles: Mapping[str, float]) -> float:
    """Return where a box would be nearest to those that it has arrows with."""
    near = [middles[end] for start, end in arrows if start == part]
    near += [middles[start] for start, end in arrows if end == part]
    return round(sum(near) / len(near), 3) if near else middles[part]


def spread(rows: Sequence[Sequence[str]], width: float) -> dict[str, Box]:
    """Return the boxes of each row side by side, the rows centered, the first one lowest."""
    boxes = {}
    for floor, row in enumerate(rows):
        x = MARGIN + (width - row_width(row)) / 2
        y = MARGIN + (len(rows) - 1 - floor) * FLOOR
        for part in row:
            size = box_width(part)
            boxes[part] = Box(part, x + size / 2, y, size)
            x += size + GAP
    return boxes


def row_width(row: Sequence[str]) -> float:
    return sum(map(box_width, row)) + GAP * (len(row) - 1)


def box_width(part: str) -> float:
    return len(part) * CHARACTER + 2 * PADDING


def draw(graph: Graph, packages: Iterable[str]) -> str:
    """Return the picture as text, the same for the same imports."""
    boxes, packages = place(graph), set(packages)
    width = max(box.x + box.width / 2 for box in boxes.values()) + MARGIN
    height = max(box.y for box in boxes.values()) + HEIGHT + MARGIN
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        "  <title>Which part of the package imports which</title>",
        STYLE,
        f'  <rect class="ground" width="{width:.0f}" height="{height:.0f}"/>',
        *(drawn_arrow(boxes[start], boxes[end]) for start, end in arrows_of(graph)),
        *(drawn_box(boxes[part], part in packages) for part in sorted(boxes)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def drawn_arrow(start: Box, end: Box) -> str:
    top, bottom = start.y + HEIGHT, end.y - 1
    bend = (bottom - top) / 2
    return (
        f'  <path class="way" d="M{start.x:.1f} {top:.1f} C{start.x:.1f} {top + bend:.1f} '
        f'{end.x:.1f} {bottom - bend:.1f} {end.x:.1f} {bottom:.1f}"/>'
    )


def drawn_box(box: Box, is_package: bool) -> str:
    kind, name = ("box", f"{box.name}/") if is_package else ("module", box.name)
    return (
        f'  <rect class="{kind}" x="{box.x - box.width / 2:.1f}" y="{box.y:.1f}" '
        f'width="{box.width:.1f}" height="{HEIGHT}" rx="5"/>'
        f'<text x="{box.x:.1f}" y="{box.y + 22:.1f}">{name}</text>'
    )


def is_package(part: str) -> bool:
    return (SOURCE / part).is_dir() or (SOURCE / PRIVATE / part).is_dir()


def house() -> str:
    """Return the picture of the source as it is now."""
    graph = read_graph(SOURCE)
    return draw(graph, (part for part in graph if is_package(part)))


if __name__ == "__main__":
    PICTURE.write_text(house(), encoding="utf-8")
