"""The parts of the report word for word: whoever changes one says so here.

python -m tests.show.test_golden_parts    # writes them anew, to be looked at in the diff
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from cli_agent_orchestrator.pipeline.findings import FindingAnswer
from cli_agent_orchestrator.pipeline.state import FinalStatus
from cli_agent_orchestrator.runs.story import EvidenceGroup, TurnDetail
from cli_agent_orchestrator.runs.turns import RunTurn
from cli_agent_orchestrator.show.diff import FilePatch, Hunk, patches_html, read_patch
from cli_agent_orchestrator.show.report_html import report_page
from cli_agent_orchestrator.show.timeline import timeline
from cli_agent_orchestrator.show.turn import turn_html
from cli_agent_orchestrator.usage.tokens import Tokens
from tests.cli.reports import REPORT
from tests.show.test_diff import CHANGED, MORE
from tests.show.test_report_page import FULL, GATE, WORDS
from tests.show.test_timeline import NOON, TURN
from tests.show.test_turn import DETAIL, tracked

GOLDEN = Path(__file__).with_name("golden_parts.json")
LONG = FilePatch("a", "a", "", hunks=(Hunk("", 0, 1, ("+" + "x" * 1003, "+b\r", "+c")),))


def parts() -> Iterator[tuple[str, str]]:
    files = read_patch(CHANGED + MORE)
    yield "diff", patches_html(files)
    yield "diff with buttons", patches_html(files[:3], commentable=True)
    yield "diff with a long line", patches_html([LONG])
    yield "diff of nothing", patches_html([])
    yield from _timelines()
    yield from _turns()
    yield from _reports()


def _timelines() -> Iterator[tuple[str, str]]:
    yield "timeline", timeline(_rounds(3, 90.0), NOON)
    at_work = replace(TURN, outcome="", ended=None)
    yield "timeline at work", timeline([*_rounds(1, 9.0), at_work], NOON + 30)
    yield "timeline of no time", timeline([replace(TURN, seconds=0.0)], NOON)
    yield (
        "timeline of very short rounds",
        timeline([replace(TURN, seconds=0.0), *_rounds(2, 0.0)], NOON),
    )
    yield "timeline of many turns", timeline(_rounds(20, 9.0), NOON)
    names = ("n" * 20, "n" * 21)
    yield "timeline of long names", timeline([replace(TURN, role=name) for name in names], NOON)


def _rounds(count: int, longest: float) -> list[RunTurn]:
    turns = (TURN, replace(TURN, role="tester", outcome="sent_back", seconds=longest), GATE)
    return [replace(one, round=1 + n) for n in range(count) for one in turns]


def _turns() -> Iterator[tuple[str, str]]:
    groups = (EvidenceGroup("tests", True), EvidenceGroup("risk", False))
    unfixed, fixed = FindingAnswer.UNFIXED, FindingAnswer.FIXED
    findings = (tracked(True, unfixed), tracked(False), tracked(False, unfixed, fixed))
    nowhere = replace(findings[0], finding=replace(findings[0].finding, where=""))
    yield "turn", turn_html(replace(DETAIL, evidence=groups, findings=(*findings, nowhere)))
    yield "turn with little", turn_html(TurnDetail(TURN, "", "", "", "", (), Tokens(5, 0, 3, None)))
    yield "turn with nothing", turn_html(TurnDetail(GATE, None, None, None, None, None, None))
    at_work = replace(TURN, outcome="", provider="", detail="", ended=None)
    yield "turn at work", turn_html(TurnDetail(at_work, "do it", None, None, None, None, None))


def _reports() -> Iterator[tuple[str, str]]:
    steps = {"tester": ["\x1b[1mno\x1b[0m\nx", "yes"]}
    passed = replace(REPORT, status=FinalStatus.PASS)
    yield "report", _body(report_page(passed, FULL, WORDS, steps))
    one_file = replace(FULL, details=(DETAIL, replace(DETAIL, usage=None)), patch=CHANGED)
    yield "report of a file", _body(report_page(REPORT, one_file, WORDS))


def _body(page: str) -> str:
    """Return a page without its stylesheet and the number that stands for it."""
    start, _, rest = page.partition("<style>")
    return start.partition("sha256-")[0] + rest.partition("</style>")[2]


def test_every_part_is_as_it_was_written_down() -> None:
    now, known = dict(parts()), json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert now.keys() == known.keys()
    for name, part in now.items():
        assert part.split("\n") == known[name], f"{name}: see the top of this file"


if __name__ == "__main__":
    written = {name: part.split("\n") for name, part in parts()}
    text = json.dumps(written, indent=1, ensure_ascii=False)
    GOLDEN.write_text(text + "\n", encoding="utf-8")
