"""The pages word for word: whoever changes one says so here.

python -m tests.page.test_golden_pages    # writes them anew, to be looked at in the diff
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from cli_agent_orchestrator.core.models import (
    Choice,
    Evidence,
    Explanation,
    Question,
    TerminalStatus,
)
from cli_agent_orchestrator.events import FilesChanged, PauseAsked
from cli_agent_orchestrator.page.all_runs import RunRow, all_runs
from cli_agent_orchestrator.page.asking import AskedBy
from cli_agent_orchestrator.page.context import Page
from cli_agent_orchestrator.page.new_run import FlowOffered, new_run
from cli_agent_orchestrator.page.one_agent import AgentSeen, one_agent, replay_html, scrollback_html
from cli_agent_orchestrator.page.one_run import RunView, one_run, with_notice
from cli_agent_orchestrator.page.words import RunTokens
from cli_agent_orchestrator.pipeline.findings import Finding, FindingAnswer, Findings, Tracked
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow
from cli_agent_orchestrator.runs.record import RunStatus
from cli_agent_orchestrator.runs.turns import RunTurn
from cli_agent_orchestrator.show.markup import Markup
from cli_agent_orchestrator.usage.tokens import Tokens
from tests.page.view_data import NOON, a_run, a_story, a_terminal, a_turn

GOLDEN = Path(__file__).with_name("golden_pages.json")
FOUND = Findings(
    (
        Tracked(Finding("F1", True, "a.py:3", "wrong sum"), 1, 1),
        Tracked(Finding("F2", False, "", "a name"), 1, 1, (FindingAnswer.FIXED,)),
    )
)
ASKED = AskedBy("p1", Question("Run: make clean?", (Choice("1", "Yes"), Choice("2", "No")), "f0"))
OPEN_ASKED = AskedBy("p1", Question("", (), "f1"))
TOKENS = RunTokens(Tokens(48_200, 39_000, 12_100, None), is_whole=False)
PASSED = {"status": RunStatus.PASS, "ended": NOON - 7200, "role": "", "waiting": "cao/fix"}
BROKEN = {"status": RunStatus.INTERRUPTED, "role": "", "terminals": {}}
WHY = Explanation(
    TerminalStatus.PROCESSING,
    "the title shows a spinner",
    (
        Evidence("title", TerminalStatus.PROCESSING, "⠋ shop", NOON - 90),
        Evidence("screen", None, "", NOON),
    ),
)


def pages() -> Iterator[tuple[str, Page]]:
    """Yield pages of every kind, each with a name."""
    rows = [
        RunRow(a_run(id="20261115-084037-aaaa", asking="programmer"), 8, "Run: make clean?"),
        RunRow(a_run(id="20261115-084037-abaa", asking="programmer", project="/home/ada/mine")),
        RunRow(a_run(id="20261115-084037-bbbb", circling="F1 is open.")),
        RunRow(a_run(id="20261115-084037-cccc", **BROKEN)),
        RunRow(a_run(id="20261115-084037-dddd", task="", wd="/"), 8, "", TOKENS),
        RunRow(a_run(id="20261115-084037-eeee", **PASSED)),
    ]
    yield "no runs", all_runs([], 0, NOON)
    yield "runs", all_runs(rows, 2, NOON)
    yield "one run", all_runs(rows[-1:], 1, NOON)
    flows = [FlowOffered("loop", "five"), FlowOffered("x", "")]
    yield "new", new_run(["/home/ada/shop"], flows, ["claude_code", "scripted"])
    yield from _run_pages()
    yield from _agent_pages()


def _run_pages() -> Iterator[tuple[str, Page]]:
    here = {"analyst": a_terminal(alive=False), "programmer": a_terminal(action="Bash: make")}
    changed = {1: FilesChanged(NOON, "analyst", 1, 1, ("a",), 2, 3, 1, allowed=False)}
    working = a_story(
        changed=changed, acts=(PauseAsked(NOON),), warnings=("one", "two"), turns=_turns()
    )
    working = replace(working, findings={"analyst_review": FOUND})
    review = a_turn(2, role="analyst_review", outcome="", ended=None)
    asking = a_story(
        a_run(asking="programmer", role="analyst_review"),
        question="May I?",
        turns=(a_turn(1), review),
    )
    passed = a_story(
        a_run(**PASSED), proof="proven: 2 tests", course=packaged_flow("solo").stages, turns=()
    )
    yield "working", one_run(RunView(working, here, None, TOKENS), NOON)
    yield "asking", one_run(RunView(asking, here, ASKED), NOON)
    yield "asking elsewhere", one_run(RunView(asking), NOON)
    yield "passed", one_run(RunView(passed), NOON)
    gone = one_run(RunView(a_story(a_run(**BROKEN), course=())), NOON)
    yield "gone", with_notice(gone, "It is gone.")
    yield "circling", one_run(RunView(a_story(a_run(circling="F1 is open."))), NOON)


def _turns() -> tuple[RunTurn, ...]:
    return (
        a_turn(1),
        a_turn(2, role="tests", provider="command", reviewed=False, outcome="failed", why="1 of 5"),
        a_turn(3, role="programmer", outcome="", ended=None),
    )


def _agent_pages() -> Iterator[tuple[str, Page]]:
    run = a_run()
    live = AgentSeen(run, "programmer", a_terminal(permissions="workspace", action="Bash"), "a\nb")
    asks = AgentSeen(run, "programmer", a_terminal(), "a", WHY, ASKED, last_turn=3)
    yield "agent", one_agent(live, NOON)
    yield "agent asks", one_agent(asks, NOON)
    yield (
        "agent asks anything",
        one_agent(AgentSeen(run, "analyst", a_terminal(), asked=OPEN_ASKED), NOON),
    )
    elsewhere = AgentSeen(run, "programmer", api="http://127.0.0.1:1")
    yield "agent elsewhere", one_agent(elsewhere, NOON)
    ended = a_run(**PASSED, terminals={})
    yield "agent ended", one_agent(AgentSeen(ended, "tester", None, "x", is_recorded=True), NOON)


def pieces() -> Iterator[tuple[str, Markup]]:
    yield "scrollback", scrollback_html("a\nb")
    yield "no scrollback", scrollback_html("")
    yield "replay", replay_html([Markup("a")], (30, 100), "/dashboard/runs/r/replay/x", 12.34)


def written_down() -> dict[str, dict[str, str]]:
    """Return all pages as they are now."""
    found = {
        name: {
            "title": page.title,
            **{f"{part.into} > {part.id}": part.html for part in page.parts},
        }
        for name, page in pages()
    }
    return {**found, "pieces": {name: str(html) for name, html in pieces()}}


def test_every_page_is_as_it_was_written_down() -> None:
    now, known = written_down(), json.loads(GOLDEN.read_text(encoding="utf-8"))

    assert now.keys() == known.keys()
    for name, page in now.items():
        assert page == known[name], f"{name}: see the top of this file"


if __name__ == "__main__":
    text = json.dumps(written_down(), indent=1, ensure_ascii=False)
    GOLDEN.write_text(text + "\n", encoding="utf-8")
