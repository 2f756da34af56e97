"""Reads JUnit XML. The test cases are counted; what the attributes of a suite say is not heeded."""

from xml.parsers import expat

from cli_agent_orchestrator._internal.pipeline.runners.tally import (
    LONGEST_LINE,
    TestCounts,
    counts_of,
)

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
