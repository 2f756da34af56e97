"""Replies and states as they occur in a run."""

from cli_agent_orchestrator.pipeline.flow_file import packaged_flow
from cli_agent_orchestrator.pipeline.state import RunState

LOOP = packaged_flow("loop")
ROLES = tuple(role.name for role in LOOP.roles)

TASK_TEXT = """\
*** ORIGINAL EXPLORE SUMMARY ***
Make the parser accept empty lines.

*** SCENARIO TEST ***
Run `parse empty.txt` and expect exit code 0.
"""

ANALYST_SUMMARY = """\
ANALYST_SUMMARY:

## 1. Artifact review
- proposal.md: asks for empty lines.

## 2. P1-P4 traceability
- P1: empty lines, parser.py.

## 3. Phased coverage
- Phase 1: everything.

## 4. Downstream contract impact
- None.

## 5. Explicit handoff
- Change `parse` in parser.py.
"""

PROGRAMMER_SUMMARY = """\
PROGRAMMER_SUMMARY:

## Files changed
- parser.py: skips empty lines

## Behavior implemented
Empty lines are skipped.

## Validation
- pytest: 12 passed
"""

ANALYST_NOTES = """\
- artifact: the proposal was read
- traceability: P1 has its place
- downstream: no contract is touched
- handoff: every step is concrete"""

PROGRAMMER_NOTES = """\
- implementation: the code does it
- validation: pytest was run
- risk: no regression found
- defects: no issue left"""

NOTES = {"analyst_review": ANALYST_NOTES, "programmer_review": PROGRAMMER_NOTES}

PASS = "RESULT: PASS\nEVIDENCE:\n- exit code 0"
FAIL = "RESULT: FAIL\nEVIDENCE:\n- exit code 1"

TERMINALS = {
    "analyst": "a1",
    "analyst_review": "a2",
    "programmer": "p1",
    "programmer_review": "p2",
    "tester": "t1",
}


def review(answer: str, notes: str) -> str:
    return f"REVIEW_RESULT: {answer}\nREVIEW_NOTES:\n{notes}"


def approval(role: str) -> str:
    """Return an approval with all the evidence that could be asked for."""
    return review("APPROVED", NOTES[role])


def new_state() -> RunState:
    return RunState(
        api="http://localhost:9889",
        provider="codex",
        wd="/project",
        prompt=TASK_TEXT,
        session_name="cao-run",
        terminals=TERMINALS,
        phase="analyst",
    )
