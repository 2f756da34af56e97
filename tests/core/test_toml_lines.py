"""On which line of a TOML file something stands."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.codec import Path, find_line

TEXT = """\
# a comment with [brackets] and key = "value"
title = "one" # another

[roles.tester]
profile = 'a = "b"'
sees = [
    { title = "# no comment", show = "task" }, # one
    # two
    { title = "]", show = 'x', "of" = ["a",
              "b"] },

]
text = \"\"\"
[[stages]]
name = "no stage"
\"\"\"
after = 3.14

[[stages]]
name = "first"
[[stages]]
name = "second"
[stages.inner]
deep.er = 1979-05-27 07:32:00
[roles."odd name".evidence]
risk = ["one",
  "two"]
inline = { a = { b = 1 }, c = [ { d = 2 } ] }
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("title",), 2),
        (("roles",), 1),
        (("roles", "tester"), 4),
        (("roles", "tester", "profile"), 5),
        (("roles", "tester", "sees"), 6),
        (("roles", "tester", "sees", 0), 7),
        (("roles", "tester", "sees", 0, "show"), 7),
        (("roles", "tester", "sees", 1), 9),
        (("roles", "tester", "sees", 1, "of"), 9),
        (("roles", "tester", "sees", 1, "of", 1), 10),
        (("roles", "tester", "sees", 1, "missing"), 9),
        (("roles", "tester", "text"), 13),
        (("roles", "tester", "after"), 17),
        (("stages",), 19),
        (("stages", 0), 19),
        (("stages", 0, "name"), 20),
        (("stages", 1), 21),
        (("stages", 1, "name"), 22),
        (("stages", 1, "inner", "deep"), 24),
        (("stages", 1, "inner", "deep", "er"), 24),
        (("stages", 7, "name"), 19),
        (("roles", "odd name", "evidence", "risk", 1), 27),
        (("roles", "odd name", "evidence", "inline", "c", 0, "d"), 28),
        (("nothing",), 1),
    ],
)
def test_everything_is_found_where_it_stands(path: Path, line: int) -> None:
    tomllib.loads(TEXT)
    assert find_line(TEXT, path) == line


class Writer:
    """Writes TOML in many ways and notes where everything stands."""

    def __init__(self, data: st.DataObject) -> None:
        self._draw = data.draw
        self.lines = [""]
        self.places: dict[Path, int] = {}

    def write(self, text: str) -> None:
        first, *others = text.split("\n")
        self.lines[-1] += first
        self.lines += others

    def here(self, path: Path) -> None:
        self.places[path] = len(self.lines)

    def value(self, path: Path, depth: int) -> None:
        kind = self._draw(st.sampled_from(["text", "list", "table"] if depth else ["text"]))
        if kind == "text":
            self.write(self._draw(SCALARS))
        elif kind == "list":
            self.items(path, depth)
        else:
            self.pairs(path, depth)

    def items(self, path: Path, depth: int) -> None:
        self.write("[")
        for number in range(self._draw(st.integers(0, 3))):
            self.write(self._draw(st.sampled_from(["", "\n  ", " # a [ comment\n", "\n\n"])))
            self.here((*path, number))
            self.value((*path, number), depth - 1)
            self.write(",")
        self.write("]")

    def pairs(self, path: Path, depth: int) -> None:
        self.write("{")
        for number, key in enumerate(self._draw(KEYS)):
            self.write(", " if number else " ")
            self.pair((*path, key), depth - 1)
        self.write(" }")

    def pair(self, path: Path, depth: int) -> None:
        self.here(path)
        self.write(f"{path[-1]} = ")
        self.value(path, depth)

    def table(self, path: Path, many: bool) -> None:
        self.here(path)
        name = ".".join(str(part) for part in path if isinstance(part, str))
        self.write(f"[[{name}]]\n" if many else f"[{name}]\n")
        for key in self._draw(KEYS):
            self.pair((*path, key), 2)
            self.write(self._draw(st.sampled_from(["\n", " # [x]\n", "\n\n# y = 1\n"])))


KEYS = st.lists(st.sampled_from(["a", "b", "key-1", "c_d"]), unique=True, max_size=3)
SCALARS = st.sampled_from(
    ['"x"', "'[{='", '"\\"]"', "3.5", "true", "-1", '"""a\n# b = 1\n"""', "'''\n[x]\n'''", '"#"']
)


@given(st.data())
def test_whatever_is_written_is_found_where_it_stands(data: st.DataObject) -> None:
    writer = Writer(data)
    for number in range(data.draw(st.integers(0, 2))):
        writer.table(("tables", number), many=True)
    for name in data.draw(st.lists(st.sampled_from(["one", "two"]), unique=True)):
        writer.table((name, "inner"), many=False)
    text = "\n".join(writer.lines)
    tomllib.loads(text)
    assert {path: find_line(text, path) for path in writer.places} == writer.places


@given(st.text(st.sampled_from("[]{}=,.\n\"'# ab"), max_size=30))
def test_no_text_makes_it_fail(text: str) -> None:
    assert find_line(text, ("a", "b")) >= 1


def test_a_table_on_several_lines_is_read_too() -> None:
    # As later versions of TOML allow it.
    assert find_line("a = {\n  b = 1,\n  c = 2,\n}\nd = 3\n", ("a", "c")) == 3
    assert find_line("a = {\n  b = 1,\n  c = 2,\n}\nd = 3\n", ("d",)) == 5
