"""Reads JUnit XML. The test cases are counted; what the attributes of a suite say is not heeded."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from xml.parsers import expat

from .tally import LONGEST_LINE, Claim, TestCounts, believed, chosen, counts_of

JUNIT = "junit"
MOST_CHARACTERS = 64_000_000
DEEPEST = 100
FAILED = ("failure", "error")


class Reader:
    """Counts test cases while a document is parsed.

    A document type is refused: it could define entities that grow without end.
    """

    def __init__(self) -> None:
        self.passed = self.skipped = 0
        self.errors: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.case = self.result = self.message = ""

    def parse(self, xml: str) -> None:
        """Read a whole document, or raise ValueError or ExpatError."""
        parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._refuse
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.Parse(xml.encode("utf-8", "replace"), True)

    def _refuse(self, *_: object) -> None:
        raise ValueError

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        if not self.open and name not in {"testsuites", "testsuite"}:
            raise ValueError
        self.open.append(name)
        if len(self.open) > DEEPEST:
            raise ValueError
        if name == "testcase":
            group, test = attributes.get("classname", ""), attributes.get("name", "")
            self.case, self.result = ".".join(filter(None, (group, test))), ""
        elif name in FAILED and self.result != "failed":
            self.result, self.message = "failed", attributes.get("message", "")
        elif name == "skipped" and not self.result:
            self.result = "skipped"

    def _text(self, text: str) -> None:
        if self.open[-1] in FAILED and not self.message.strip():
            self.message = text[:LONGEST_LINE]

    def _end(self, tag: str) -> None:
        name = self.open.pop()
        # A suite can have an error of its own, outside of any test case.
        outside = name in FAILED and "testcase" not in self.open
        if name != "testcase" and not outside:
            return
        if self.result == "failed":
            error = self.message.strip().partition("\n")[0]
            self.errors.append((self.case or "a test without a name", error))
        elif self.result == "skipped":
            self.skipped += 1
        else:
            self.passed += 1
        self.case = self.result = self.message = ""


def read_junit(xml: str) -> TestCounts | None:
    """Return the counts of JUnit XML; None if it is not well formed, too long or something else."""
    if len(xml) > MOST_CHARACTERS:
        return None
    reader = Reader()
    try:
        reader.parse(xml.lstrip("\ufeff \t\r\n"))
    except (expat.ExpatError, ValueError):
        return None
    ran = (reader.passed, len(reader.errors), reader.skipped)
    return counts_of(JUNIT, ran, reader.errors)


TAP, NODE = "tap", "node"
VERSION = "TAP version 1"
# "not ok 2 - adds up # TODO later", "ok 3"
POINT_PATTERN = re.compile(r"( *)(not )?ok(?: (\d+))?(?: -)?(?: (\S.*))?")
DIRECTIVE_PATTERN = re.compile(r"#\s*(SKIP|TODO)", re.I)
PLAN_PATTERN = re.compile(r"1\.\.(\d{1,9})(?:\s.*)?")
SUBTEST = "# Subtest: "
LONGEST_GROUP = 100
# "# pass 3", "ℹ pass 3"
NODE_PATTERN = re.compile(r"[#ℹ] (tests|suites|pass|fail|cancelled|skipped|todo) (\d{1,9})")
NODE_KEYS = {"tests", "pass", "fail", "cancelled"}
# "✖ adds up (1.720853ms)", "✖ later (0.18ms) # TODO"
CROSS_PATTERN = re.compile(r"\s*✖ (.+) \(\d+(?:\.\d+)?ms\)( # .*)?")
# "  error: 'not fine'", "  error: |-", "      message: \"expected 3 to be 4\""
ERROR_PATTERN = re.compile(r" *(?:error|message): *(.*)")
SUITE = "type: 'suite'"


@dataclass(slots=True)
class Point:
    """One test point."""

    indent: int
    name: str
    ok: bool
    skipped: bool
    counted: bool = True
    suite: bool = False
    error: str = ""


@dataclass(slots=True)
class Document:
    """What a TAP document holds."""

    points: list[Point] = field(default_factory=list)
    planned: int | None = None
    bail: str | None = None


def read_tap(lines: Sequence[str]) -> list[TestCounts]:
    """Return the counts of each TAP document that is not Node's."""
    return [_count(part) for part in _documents(lines) if not _node_summaries(part)]


def read_node(lines: Sequence[str]) -> list[TestCounts]:
    """Return the counts of each run of Node's runner."""
    documents = [part for part in _documents(lines) if _node_summaries(part)]
    return [_read_node_tap(part) for part in documents] + _read_spec(lines)


def _read_node_tap(lines: Sequence[str]) -> TestCounts:
    """Return what Node's numbers say, or its test points if only they tell of a failure."""
    counts = chosen([counts for _, counts in _node_summaries(lines)])
    told = _count(lines)
    if told.failed and not counts.failed:
        return replace(told, runner=NODE)
    points = _parse(lines).points
    return _named(counts, [(p.name, p.error) for p in points if not (p.ok or p.skipped or p.suite)])


def _documents(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the lines of each document: from its version on, or all lines if there is a plan."""
    starts = [number for number, line in enumerate(lines) if line.startswith(VERSION)]
    ends = [*starts[1:], len(lines)]
    first = lines[: starts[0]] if starts else lines
    if any(PLAN_PATTERN.fullmatch(line) for line in first):
        yield first
    for start, end in zip(starts, ends, strict=False):
        yield lines[start:end]


def _parse(lines: Sequence[str]) -> Document:
    document = Document()
    path: list[tuple[int, str]] = []
    yaml: int | None = None
    fresh = 0
    for line in lines:
        indent = len(line) - len(line.lstrip(" "))
        text = line[indent:]
        if yaml is not None and text and indent < yaml:
            yaml = None
        if yaml is not None:
            _note_detail(document.points, text)
            yaml = None if text == "..." else yaml
        elif text == "---" and document.points and indent > document.points[-1].indent:
            yaml = indent
        elif text.startswith(SUBTEST):
            group = text.removeprefix(SUBTEST)[:LONGEST_GROUP]
            path = [entry for entry in path if entry[0] < indent] + [(indent, group)]
        elif text == "}":
            fresh = len(document.points)
        elif match := POINT_PATTERN.fullmatch(line):
            point = _point(match, [name for depth, name in path if depth < indent])
            _note_parent(document.points, point, fresh, text.endswith("{"))
            document.points.append(point)
        else:
            _note_frame(document, line)
    return document


def _point(match: re.Match[str], groups: Sequence[str]) -> Point:
    text = match[4] or ""
    directive = DIRECTIVE_PATTERN.search(text)
    name = text[: directive.start()] if directive else text.partition(" # time=")[0]
    name = name.strip() or f"test {match[3] or ''}".strip()
    ok = match[2] is None
    return Point(len(match[1]), " > ".join([*groups, name]), ok, directive is not None)


def _note_parent(points: Sequence[Point], point: Point, fresh: int, opens: bool) -> None:
    """Do not count a point that sums up those below it; they stand before it, or after a `{`."""
    first = len(points)
    while first > fresh and points[first - 1].indent > point.indent:
        first -= 1
    children = points[first:]
    told = any(not child.ok and not child.skipped for child in children)
    point.counted = not (opens or (children and (point.ok or told)))


def _note_detail(points: Sequence[Point], text: str) -> None:
    """Take note of what the YAML block of a point says."""
    point = points[-1]
    point.suite = point.suite or text == SUITE
    if point.error in {"|-", "|", ">-", ">"} and text:
        point.error = text
    elif not point.error and (match := ERROR_PATTERN.fullmatch(text)):
        point.error = match[1].strip("'\"")


def _note_frame(document: Document, line: str) -> None:
    """Take note of a plan or a bail-out."""
    if plan := PLAN_PATTERN.fullmatch(line):
        document.planned = (document.planned or 0) + int(plan[1])
    elif line.startswith("Bail out!"):
        document.bail = line


def _count(lines: Sequence[str]) -> TestCounts:
    document = _parse(lines)
    counted = [point for point in document.points if point.counted]
    failed = [(p.name, p.error) for p in counted if not p.ok and not p.skipped]
    top = sum(point.indent == 0 for point in document.points)
    if document.planned is None and document.bail is None:
        failed.append(("the plan is missing", ""))
    elif document.planned is not None and top > document.planned:
        failed.append(("more tests than planned", ""))
    missing = max(document.planned - top, 0) if document.planned else 0
    if missing:
        failed.append((f"{missing} planned tests are missing", ""))
    if document.bail is not None:
        failed.append((document.bail, ""))
    passed = sum(point.ok and not point.skipped for point in counted)
    skipped = sum(point.skipped for point in counted)
    number = len(failed) + max(missing - 1, 0)
    return counts_of(TAP, (passed, number, skipped), failed)


def _node_summaries(lines: Sequence[str], mark: str = "#") -> list[tuple[int, TestCounts]]:
    """Return each block of Node's numbers with the number of its last line."""
    found: list[tuple[int, TestCounts]] = []
    numbers: dict[str, int] = {}
    for number, line in enumerate(lines):
        match = NODE_PATTERN.fullmatch(line) if line.startswith(mark) else None
        if match:
            numbers[match[1]] = int(match[2])
        elif line.startswith(f"{mark} duration_ms ") and numbers.keys() >= NODE_KEYS:
            ran = (
                numbers["pass"],
                numbers["fail"] + numbers["cancelled"],
                numbers.get("skipped", 0) + numbers.get("todo", 0),
            )
            found.append((number, counts_of(NODE, ran)))
            numbers = {}
    return found


def _read_spec(lines: Sequence[str]) -> list[TestCounts]:
    """Return the counts of each run with the spec reporter."""
    summaries = _node_summaries(lines, "ℹ")
    ends = [*(number for number, _ in summaries[1:]), len(lines)]
    claims: list[Claim] = []
    start = 0
    for (number, counts), end in zip(summaries, ends, strict=False):
        seen = sum(line.lstrip(" ").startswith("✔ ") for line in lines[start:number])
        claims.append(Claim(_named(counts, _crosses(lines[start:end])), seen))
        start = number
    return believed(claims)


def _crosses(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Return the tests that are listed as failing at the end, each with its first error."""
    start = next((n for n, line in enumerate(lines) if line == "✖ failing tests:"), 0)
    return [
        (match[1], next((below for below in lines[number + 1 : number + 3] if below.strip()), ""))
        for number, line in enumerate(lines[start:], start)
        if (match := CROSS_PATTERN.fullmatch(line)) and not match[2]
    ]


def _named(counts: TestCounts, failures: Sequence[tuple[str, str]]) -> TestCounts:
    ran = (counts.passed, counts.failed, counts.skipped)
    return counts_of(counts.runner, ran, failures if counts.failed else ())
