"""The prompts of the specs' flow, word for word: whoever changes one says so here."""

import json
from collections.abc import Iterator
from hashlib import sha256
from itertools import product
from pathlib import Path, PurePosixPath

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.pipeline.prompts import Briefing, build_prompt
from cli_agent_orchestrator.pipeline.reply import Excerpt, Output
from cli_agent_orchestrator.pipeline.state import OpenNotes, RunState, Turn
from cli_agent_orchestrator.pipeline.task import parse_task
from cli_agent_orchestrator.settings.config import Condensation
from tests.pipeline.samples import (
    ANALYST_SUMMARY,
    PROGRAMMER_SUMMARY,
    ROLES,
    TASK_TEXT,
    TERMINALS,
    approval,
    new_state,
)

GOLDEN = Path(__file__).parent / "golden_prompts.json"
CONDENSATIONS = {
    "usual": Condensation(),
    "explore repeated": Condensation(explore_on_repeat=False),
    "upstream repeated": Condensation(upstream_on_repeat=False),
    "whole summaries": Condensation(cross_phase=False),
    "four lines": Condensation(max_cross_phase_lines=4),
    "nothing condensed": Condensation(False, False, 30, False, False, 40),
}
OPEN_NOTES = [
    OpenNotes("programmer_review", 1, Excerpt("old program point", 3, "/archive/4.md")),
    OpenNotes("analyst_review", 1, Excerpt("old analysis point")),
    OpenNotes("analyst_review", 2, Excerpt("open analysis point\n=== end ===")),
    OpenNotes("programmer_review", 2, Excerpt("open program point", 1)),
]


def outputs() -> Iterator[dict[str, Output]]:
    yield {}
    yield {
        "analyst": Output(ANALYST_SUMMARY, "/archive/001-analyst.md"),
        "analyst_review": Output(approval("analyst_review"), "/archive/002.md"),
        "programmer": Output(PROGRAMMER_SUMMARY, "/archive/003-programmer.md"),
        "programmer_review": Output(approval("programmer_review")),
        "tester": Output("RESULT: FAIL\nEVIDENCE:\n- $context"),
    }


def states() -> Iterator[RunState]:
    """Yield states of every kind that a prompt can tell apart."""
    begun = new_state()
    noted = replace(
        begun,
        feedback=Excerpt("the tester's evidence", 7, "/archive/009-tester.md"),
        notes={
            "analyst_review": Excerpt("the analyst's notes"),
            "programmer_review": Excerpt("the programmer's notes", 2),
        },
    )
    everybody = frozenset(TERMINALS.values())
    for state, made, briefed, opened in product(
        (begun, noted), outputs(), (frozenset[str](), everybody), ((), tuple(OPEN_NOTES))
    ):
        progress = replace(state.progress, briefed=briefed, open_notes=opened)
        yield replace(state, outputs=made, progress=progress)


def digest(role: str, condensation: Condensation) -> str:
    """Return what stands for all prompts of a role in all these states."""
    words = sha256()
    folder = PurePosixPath("/a project/.tmp/agent-responses")
    for state, command in product(states(), ("", "make $test")):
        briefing = Briefing(parse_task(TASK_TEXT), folder, condensation, command)
        for number, cycle in product((1, 2, 3), (1, 2, 3)):
            prompt = build_prompt(Turn(role, number, cycle), state, briefing)
            words.update(prompt.encode() + b"\0")
    return words.hexdigest()


@pytest.mark.parametrize("name", CONDENSATIONS)
@pytest.mark.parametrize("role", ROLES)
def test_the_prompts_of_the_loop_stay_as_they_are(role: str, name: str) -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert digest(role, CONDENSATIONS[name]) == golden[f"{role}, {name}"]
