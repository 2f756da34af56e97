"""The report as one HTML file."""

import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.pipeline.findings import Findings
from cli_agent_orchestrator.pipeline.state import FinalStatus
from cli_agent_orchestrator.runs.record import RunRecord, RunStatus
from cli_agent_orchestrator.runs.registry import RunSummary
from cli_agent_orchestrator.runs.story import RunInFull, RunStory, TurnDetail
from cli_agent_orchestrator.show.report_html import PageWords, report_page
from cli_agent_orchestrator.usage.tokens import Tokens
from tests.cli.reports import REPORT
from tests.show.reading import Elements
from tests.show.test_diff import CHANGED, MORE
from tests.show.test_timeline import NOON, TURN
from tests.show.test_turn import DETAIL, tracked

RUN = "20261115-084037-k3f9"
TASK = "Mend the sum.\n\nIt is wrong for ten pieces."
GATE = replace(TURN, sequence=2, role="tests", provider="command", outcome="passed", reviewed=False)
STORY = RunStory(
    summary=RunSummary(RUN, "/w", "Mend the sum.", "loop", RunStatus.PASS, 2, "", NOON, NOON + 60),
    record=RunRecord(RUN, "/w", "/w/s.json", RUN, TASK, "Mend the sum.", NOON),
    turns=(TURN, GATE),
    changed={},
    findings={"programmer_review": Findings((tracked(True),)), "analyst_review": Findings()},
)
GATE_DETAIL = TurnDetail(GATE, None, "5 passed", None, None, None, None)
FULL = RunInFull(STORY, (DETAIL, GATE_DETAIL), CHANGED + MORE)
WORDS = PageWords(
    title="PASS after 2 rounds, proven",
    facts=[("Folder", "~/shop")],
    evidence_title="What the gate tests said",
    setbacks={"Round 1, tests, FAIL": "a fault"},
    notes={"programmer_review": "- mind the gap"},
    open_notes={"analyst_review, round 1": "- not said yet"},
    acts=["noon: a hint"],
    reproduce="cao run task.md",
    made="Made by cao 1.0.",
)
PAGE = report_page(REPORT, FULL, WORDS)


def test_it_has_everything() -> None:
    page = Elements(PAGE)
    assert page.is_closed
    for words in (
        WORDS.title,
        RUN,
        REPORT.task,
        "~/shop",
        "2 turns in 1 round: 1 delivered, 1 passed",
        "Round 1, tests, FAIL: a fault",
        REPORT.deeds.proof,
        REPORT.deeds.suspicions[0],
        REPORT.deeds.before[0],
        f"Not converging: {REPORT.deeds.circles[0]}",
        REPORT.deeds.repository[0],
        "Stopped: ",
        "What the gate tests said",
        REPORT.evidence,
        "Of programmer_review",
        "F1 ✗ open",
        "mind the gap",
        "Still open after the last cycle: analyst_review, round 1",
        "7 files +6 −5",
        "old name → new name",
        "1. analyst",
        "2. tests",
        "5 passed",
        "It is wrong for ten pieces.",
        "noon: a hint",
        "cao run task.md",
        "Made by cao 1.0.",
    ):
        assert words in page.written or words in PAGE, words
    assert "Of analyst_review" not in page.written, "it has found nothing"
    assert len(page.of("details", "turn-item")) == 2
    assert all("open" not in one for one in page.of("details", "turn-item"))


def test_every_link_leads_to_a_part_of_the_page() -> None:
    page = Elements(PAGE)
    ids = [attributes["id"] for _, attributes in page.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [one["href"] or "" for one in page.of("a")]
    assert links
    assert {link[1:] for link in links} <= {*ids}
    assert all(link.startswith("#") for link in links)
    sections = [one["id"] for one in page.of("section") if "id" in one]
    assert [link[1:] for link in links] == sections
    assert sections == [
        *("look-first", "course", "proof", "findings", "changes", "turns", "effort", "people"),
        *("task", "reproduce"),
    ]


def test_it_allows_nothing_but_its_own_stylesheet() -> None:
    page = Elements(PAGE)
    assert page.names.isdisjoint({"script", "link", "img", "iframe", "form", "button", "object"})
    assert not any("style" in attributes for _, attributes in page.found)
    assert "url(" not in PAGE
    assert "@import" not in PAGE
    (css,) = re.findall("(?s)<style>(.*?)</style>", PAGE)
    digest = b64encode(sha256(css.encode()).digest()).decode()
    (rules,) = [one["content"] for one in page.of("meta") if "http-equiv" in one]
    assert rules == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def test_how_it_stands_has_a_color_of_its_own() -> None:
    for status, kind in (("PASS", "good"), ("FAIL", "bad"), ("RUNNING", "now")):
        page = Elements(report_page(replace(REPORT, status=FinalStatus(status)), FULL, WORDS))
        assert page.of("div", f"verdict-{kind}")


def test_a_run_that_passed_says_below_that_it_did_not_converge_for_a_while() -> None:
    page = report_page(replace(REPORT, status=FinalStatus.PASS), FULL, WORDS)
    assert "Not converging" not in page
    assert REPORT.deeds.circles[0] in page.partition("Where it did not converge for a while")[2]


def test_what_is_not_there_has_no_heading() -> None:
    bare = replace(STORY, turns=(), findings={}, record=replace(STORY.record, task=""))
    words = replace(WORDS, setbacks={}, notes={}, open_notes={}, acts=[])
    found = replace(REPORT, deeds=type(REPORT.deeds)(), evidence="", reason="")
    page = Elements(report_page(found, RunInFull(bare), words))
    assert [one["id"] for one in page.of("section")] == ["reproduce"]
    assert len(page.of("a")) == 1


def test_screens_are_shown_with_their_colors() -> None:
    assert ".f208{" not in PAGE.replace(" ", "")
    steps = {"tester": ["\x1b[38;5;208mno\x1b[0m", "yes"]}
    with_steps = report_page(REPORT, FULL, WORDS, steps)
    page = Elements(with_steps)
    assert "Step 1 of 2" in page.written
    assert page.of("span", "f208")
    assert "f208" in with_steps.partition("</style>")[0]


def rows(details: tuple[TurnDetail, ...]) -> list[str]:
    page = report_page(REPORT, replace(FULL, details=details), WORDS)
    (table,) = re.findall("(?s)<tbody>(.*?)</tbody>", page)
    return [re.sub("<[^>]+>", "|", row).strip("|") for row in table.split("</tr>") if row]


def test_time_and_tokens_are_summed_by_role() -> None:
    unknown = replace(DETAIL, usage=None)
    twice = replace(DETAIL, usage=Tokens(800, 0, 20, None))
    known = rows((DETAIL, twice, GATE_DETAIL))
    assert known == [
        "analyst||codex||2||18.0 s||2,000 in (1,000 cached), 50 out",
        "tests||command||1||9.0 s",
        "all||||3||27.0 s||2,000 in (1,000 cached), 50 out",
    ]
    assert rows((DETAIL, unknown))[0].endswith("30 out (10 reasoning) (of 1 of 2 turns)")
    assert rows((unknown,))[0].endswith("not known")


@given(st.text(), st.text())
def test_nothing_that_was_said_becomes_markup(said: str, other: str) -> None:
    found = replace(REPORT, task=said, evidence=other, reason=said)
    words = replace(WORDS, title=said, notes={said: other}, setbacks={other: said}, reproduce=said)
    details = (replace(DETAIL, reply=said, prompt=other, screen=said, patch=other),)
    page = Elements(report_page(found, replace(FULL, details=details, patch=said), words))
    assert page.is_closed
    assert page.names.isdisjoint({"script", "link", "img", "iframe", "form", "button", "object"})
    assert {one["href"] for one in page.of("a")} <= {
        f"#{one['id']}" for one in page.of("section") if "id" in one
    }
