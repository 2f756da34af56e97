"""A run in words: each event, and the last lines of a run."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.cli.narration import (
    LONGEST_REASON,
    Line,
    Narration,
    Tone,
    delivery_words,
    reason_of_fail,
)
from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.events import (
    AgentsStarting,
    AgentStarted,
    CheckBegan,
    CheckEnded,
    EventKind,
    FilesChanged,
    HandoffEvent,
    Meaning,
    NotConverging,
    RunBegan,
    RunEnded,
    RunEvent,
    RunOpened,
    ServerChosen,
    TurnBegan,
    TurnEnded,
)
from cli_agent_orchestrator.pipeline.machine import Outcome
from cli_agent_orchestrator.pipeline.reply import TEST_FORM
from cli_agent_orchestrator.pipeline.review import Verdict
from cli_agent_orchestrator.pipeline.state import Dispatch, FinalStatus, Turn
from cli_agent_orchestrator.runs.loop import turn_ended

SERVER = ServerChosen(1_700_000_000.0, "http://127.0.0.1:5000", "named", named=True)
NAME = "20261115-084037-k3f9"
NOON = 1_700_000_000.0
TURN = Turn("analyst_review", 1, 2)
BEGAN = TurnBegan(NOON, "analyst_review", 1, 2, 4, "0badcafe", "codex")
STARTING = AgentsStarting(NOON, {"analyst": "codex", "tester": "claude_code"})
STARTED = AgentStarted(NOON, "tester", "t1")
RUN_BEGAN = RunBegan(
    NOON, "cao-1", {"analyst": "a1"}, {"analyst": "codex"}, "/p/.tmp/20250131-120000"
)

ANEW = "The run is saved. `cao resume k3f9` resumes it with new agents"


def handoff(kind: EventKind, text: str = "", status: TerminalStatus | None = None) -> HandoffEvent:
    return HandoffEvent(NOON, kind, "0badcafe", "analyst_review", text, status)


def delayed(text: str, seconds: float) -> HandoffEvent:
    return replace(handoff(EventKind.DELAYED, text), since=NOON - seconds)


def ended(outcome: Outcome) -> TurnEnded:
    archive = "/p/.tmp/20250131-120000/004-analyst_review.md"
    return turn_ended(NOON, Dispatch(TURN, "key", 4), outcome, 75.0, archive)


def told(*events: RunEvent) -> Line:
    """Return the last lines of a new run after some events."""
    narration = Narration(Path("/p"))
    lines = [narration.tell(event) for event in events]
    assert lines[-1] is not None
    return lines[-1]


WHO = "Round 1, cycle 2, analyst_review"
PASSED = RunEnded(NOON, FinalStatus.PASS, 2, 0)
STOPPED = RunEnded(NOON, FinalStatus.RUNNING, 1, 130, "signal")
ASKS = handoff(EventKind.WAITING_FOR_PERSON, "cao attach 0badcafe")
OPENED = RunOpened(NOON, NAME, "/p")
FAILED = replace(ended(Outcome(Meaning.FAILED, Verdict(TEST_FORM, False), 2)), reason="2 fail")


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ((STARTING, STARTED, STARTING, STARTED), "tester has started, 1 of 2"),
        (
            (RUN_BEGAN,),
            "The run begins with 1 agent (codex) in session cao-1. "
            "Everything is kept in .tmp/20250131-120000",
        ),
        ((replace(RUN_BEGAN, max_rounds=8),), "cao-1. Up to 8 rounds. Everything"),
        ((BEGAN,), f"{WHO} begins (codex)"),
        ((CheckBegan(NOON, "gate", 2, 9, "make test"),), "Round 2, gate begins: make test"),
        (
            (CheckEnded(NOON, "gate", 2, 9, "failed", "FAIL; code 1", 75.0, "/a/009-gate.md"),),
            "Round 2, gate: FAIL; code 1  [1 min 15 s, 009-gate.md]",
        ),
        ((FAILED,), "FAIL; round 2 follows “2 fail”  [1 min 15 s, 004-analyst_review.md]"),
        ((BEGAN, ASKS), "asks you\n  Look and answer: cao attach 0badcafe"),
        (
            (OPENED, BEGAN, replace(ASKS, question="May I run make?")),
            f"{WHO} asks you: May I run make?\n  Look and answer: cao attach 0badcafe\n"
            "  See the choices: cao answer k3f9\n  Press a key:     cao answer k3f9 KEY",
        ),
        (
            (BEGAN, ASKS, handoff(EventKind.STATUS, status=TerminalStatus.PROCESSING)),
            f"{WHO} goes on",
        ),
        (
            (replace(handoff(EventKind.FILE_AWAITED, "it is reminded"), until=NOON + 30),),
            "is at rest without its file; it is reminded in 30.0 s if it does not come",
        ),
        ((replace(PASSED, proof="x", gaps="it is not"),), "not proven: it is not; after 2 rounds"),
        (
            (replace(PASSED, proof="x", proven=True, look_at="1 change", before="2"),),
            "PASS, proven, after 2 rounds\nLook at 1 change\nBefore the run and not committed: 2",
        ),
        (
            (FilesChanged(NOON, "tester", 1, 3, ("a", "b"), 3, 1, 2, allowed=False),),
            "tester changed 3 files, which is not its task: a, b and 1 more",
        ),
        (
            (OPENED, replace(STOPPED, session_left="cao-1", to_resume="cao resume k3f9 --x")),
            "The run is saved. `cao resume k3f9 --x` resumes it. Its agents",
        ),
        ((OPENED, STOPPED), ANEW),
    ],
)
def test_an_event_has_its_words(events: tuple[RunEvent, ...], words: str) -> None:
    assert words in told(*events).text


@pytest.mark.parametrize(
    "events",
    [
        (handoff(EventKind.STATUS, status=TerminalStatus.PROCESSING),),
        (handoff(EventKind.FILE_SEEN, "/x"),),
        (handoff(EventKind.ACCEPTED, "/x"),),
        (handoff(EventKind.ACTION, "Bash: make test"),),
        (ASKS, handoff(EventKind.STATUS, status=TerminalStatus.WAITING_USER_ANSWER)),
        # The delay was that of another turn.
        (BEGAN, delayed("busy", 5), BEGAN, handoff(EventKind.DISPATCHED)),
    ],
)
def test_what_every_turn_has_is_not_worth_a_line(events: tuple[RunEvent, ...]) -> None:
    narration = Narration(Path("/p"))
    assert [narration.tell(event) for event in events][-1] is None


def test_what_is_said_of_a_stopped_run_can_be_given() -> None:
    narration = Narration(Path("/p"), "The demo was stopped")
    narration.tell(OPENED)
    line = narration.tell(STOPPED)
    assert line is not None
    assert line.text == "The demo was stopped"


BUILT_IN = RunBegan(1.0, "cao-1", {}, {"a": "scripted", "b": "scripted"}, "/a")
ONCE = RunEnded(9.0, "PASS", 1, 0)
LOST = RunEnded(9.0, "FAIL", 2, 1)
CHANGE = FilesChanged(2.0, "a", 1, 3, ("a.py",), 1, 1, 0)


def failed_gate(why: str) -> CheckEnded:
    detail = "FAIL; round 2 follows; 3 MB in the middle of its log are left out"
    return CheckEnded(5.0, "tests", 2, 12, "failed", detail, 1.0, "/a/012-tests.md", why=why)


@pytest.mark.parametrize(
    ("events", "is_idle"),
    [
        ([], False),
        ([BUILT_IN], True),
        ([replace(BUILT_IN, resumed=True)], False),
        ([BUILT_IN, replace(BUILT_IN, resumed=True)], True),
        ([replace(BUILT_IN, providers={"a": "scripted", "b": "codex"})], False),
        ([BUILT_IN, CHANGE], False),
        ([BUILT_IN, replace(CHANGE, allowed=False)], True),
        ([BUILT_IN, CHANGE, replace(BUILT_IN, resumed=True)], False),
    ],
)
def test_it_is_known_whether_the_built_in_agent_alone_did_nothing(
    events: list[RunEvent], is_idle: bool
) -> None:
    lines = told(*events, failed_gate("no"), LOST).text.splitlines()
    assert any(line.startswith("The scripted agent changed no code") for line in lines) == is_idle


def test_a_run_with_the_built_in_agent_is_a_dry_one() -> None:
    assert told(BUILT_IN, ONCE).text == "DRY RUN: PASS after 1 round"
    assert told(replace(BUILT_IN, providers={"a": "codex"}), ONCE).text == "PASS after 1 round"


def test_a_run_that_does_not_begin_says_so() -> None:
    for opened, words in (
        ([], "Nothing was started"),
        ([OPENED], "The run did not begin"),
        ([replace(OPENED, resumed=True)], "The run did not go on; it is saved as it was"),
    ):
        line = told(*opened, RunEnded(9.0, "RUNNING", 0, 2))
        assert (line.text, line.tone) == (words, Tone.ALERT)


def test_a_run_that_failed_says_why_and_where_its_work_is() -> None:
    events = (OPENED, failed_gate("`make` ended"), replace(LOST, tree="/t"))
    line = told(*events)
    assert line.tone is Tone.BAD
    assert line.text.splitlines() == [
        "FAIL after 2 rounds (cao report k3f9 says more)",
        "tests: `make` ended",
        "Its work is not committed. It is in /t",
        "  Show it:   cao diff k3f9",
        "  Remove it: cao discard k3f9",
        "Go on with more rounds: cao resume k3f9 --max-rounds 4",
    ]


def test_a_run_that_failed_in_circles_says_so() -> None:
    stuck, row = NotConverging(3.0, "Not converging: F1 is open."), "Not converging: F1 is open."
    assert row in told(CHANGE, stuck, LOST).text.splitlines()
    assert row in told(stuck, replace(CHANGE, count=0), LOST).text.splitlines()
    assert row not in told(stuck, CHANGE, LOST).text
    assert row not in told(stuck, ONCE).text


def test_work_on_a_branch_comes_with_the_commands_for_it() -> None:
    chosen = ServerChosen(0.0, "http://x", "", named=True)
    passed = replace(ONCE, branch="cao/x", session_left="cao-1", look_at="2 changes")
    line = told(OPENED, chosen, passed)
    assert line.text.splitlines() == [
        "PASS after 1 round, on branch cao/x",
        "Look at 2 changes: cao report k3f9",
        "  See it on one page:        cao report k3f9",
        "  Bring it into your branch: cao apply k3f9",
        "  Open a pull request:       cao pr k3f9",
        "  Remove it:                 cao discard k3f9",
        "  End its agents, who stay:  CAO_API=http://x cao stop k3f9",
    ]
    assert list(delivery_words("cao/x", NAME)) == [
        f"The work of {NAME} is on branch cao/x:",
        "  Bring it into your branch: cao apply k3f9",
        "  Open a pull request:       cao pr k3f9",
        "  Remove it:                 cao discard k3f9",
    ]


@pytest.mark.parametrize(
    ("proof", "proven", "repository", "tone"),
    [
        ("", False, (), Tone.GOOD),
        ("it is", True, (), Tone.GOOD),
        ("no", False, (), Tone.ALERT),
        ("", False, ("a hook is new",), Tone.ALERT),
    ],
)
def test_a_pass_that_is_to_be_looked_at_is_an_alert(
    proof: str, proven: bool, repository: tuple[str, ...], tone: Tone
) -> None:
    line = told(replace(ONCE, proof=proof, proven=proven, repository=repository))
    assert line.tone is tone
    assert [f"Look first: {text}" for text in repository] == line.text.splitlines()[1:]


def test_the_reason_of_a_fail_is_cut_and_the_words_of_a_tester_are_quoted() -> None:
    whole, longer = "x" * LONGEST_REASON, "x" * (LONGEST_REASON + 1)
    step = TurnEnded(5.0, "tester", 1, 1, 9, "failed", "FAIL: no; x", 1.0, "", why="no")
    for failed, words in (
        (failed_gate(whole), f"tests: {whole}"),
        (failed_gate(longer), f"tests: {whole}…"),
        (failed_gate(""), "tests: FAIL"),
        (step, "tester: no"),
        (replace(step, reason="one\nfails"), "tester: no “one�fails”"),
    ):
        assert reason_of_fail(failed) == words
