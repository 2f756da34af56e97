"""The last lines of a run."""

from dataclasses import replace
from pathlib import Path

import pytest

from cli_agent_orchestrator.cli.narration import (
    LONGEST_REASON,
    Line,
    Narration,
    Tone,
    delivery_words,
    reason_of_fail,
)
from cli_agent_orchestrator.events import (
    CheckEnded,
    FilesChanged,
    NotConverging,
    RunBegan,
    RunEnded,
    RunEvent,
    RunOpened,
    ServerChosen,
    TurnEnded,
)

RUN = "20261115-084037-k3f9"
BUILT_IN = RunBegan(1.0, "cao-1", {}, {"a": "scripted", "b": "scripted"}, "/a")
PASSED = RunEnded(9.0, "PASS", 1, 0)
FAILED = RunEnded(9.0, "FAIL", 2, 1)
CHANGE = FilesChanged(2.0, "a", 1, 3, ("a.py",), 1, 1, 0)


def told(*events: RunEvent, report: str = "") -> Line:
    """Return the last lines of a new run after some events."""
    narration = Narration(Path("/p"), report)
    lines = [narration.tell(event) for event in events]
    assert lines[-1] is not None
    return lines[-1]


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
    lines = told(*events, failed_gate("no"), FAILED).text.splitlines()
    assert any(line.startswith("The scripted agent changed no code") for line in lines) == is_idle


def test_a_run_with_the_built_in_agent_is_a_dry_one() -> None:
    assert told(BUILT_IN, PASSED).text == "DRY RUN: PASS after 1 round"
    assert told(replace(BUILT_IN, providers={"a": "codex"}), PASSED).text == "PASS after 1 round"


@pytest.mark.parametrize(
    ("opened", "words"),
    [
        ([], "Nothing was started"),
        ([RunOpened(0.0, RUN, "/p")], "The run did not begin"),
        (
            [RunOpened(0.0, RUN, "/p", resumed=True)],
            "The run did not go on; it is saved as it was",
        ),
    ],
)
def test_a_run_that_does_not_begin_says_so(opened: list[RunEvent], words: str) -> None:
    line = told(*opened, RunEnded(9.0, "RUNNING", 0, 2))
    assert (line.text, line.tone) == (words, Tone.ALERT)


def test_a_work_tree_without_a_commit_can_be_removed() -> None:
    line = told(RunOpened(0.0, RUN, "/p"), replace(PASSED, tree="/t"))
    assert line.text.splitlines() == [
        "PASS after 1 round",
        "Its work tree and its branch are left, with nothing committed:",
        "  Remove both: cao discard k3f9",
    ]


def test_a_run_that_failed_says_why_and_where_its_work_is() -> None:
    events = (RunOpened(0.0, RUN, "/p"), failed_gate("`make` ended"), replace(FAILED, tree="/t"))
    line = told(*events, report="cao report {id}")
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
    assert row in told(CHANGE, stuck, FAILED).text.splitlines()
    assert row in told(stuck, replace(CHANGE, count=0), FAILED).text.splitlines()
    assert row not in told(stuck, CHANGE, FAILED).text
    assert row not in told(stuck, PASSED).text


def test_work_on_a_branch_comes_with_the_commands_for_it() -> None:
    chosen = ServerChosen(0.0, "http://x", "", named=True)
    passed = replace(PASSED, branch="cao/x", session_left="cao-1")
    line = told(RunOpened(0.0, RUN, "/p"), chosen, passed)
    assert line.text.splitlines() == [
        "PASS after 1 round, on branch cao/x",
        "  See it on one page:        cao report k3f9",
        "  Bring it into your branch: cao apply k3f9",
        "  Open a pull request:       cao pr k3f9",
        "  Remove it:                 cao discard k3f9",
        "  End its agents, who stay:  CAO_API=http://x cao stop k3f9",
    ]
    assert list(delivery_words("cao/x", RUN)) == [
        f"The work of {RUN} is on branch cao/x:",
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
    line = told(replace(PASSED, proof=proof, proven=proven, repository=repository))
    assert line.tone is tone
    assert [f"Look first: {text}" for text in repository] == line.text.splitlines()[1:]


def test_a_long_reason_is_cut() -> None:
    whole, longer = "x" * LONGEST_REASON, "x" * (LONGEST_REASON + 1)
    assert reason_of_fail(failed_gate(whole)) == f"tests: {whole}"
    assert reason_of_fail(failed_gate(longer)) == f"tests: {whole}…"
    assert reason_of_fail(failed_gate("")) == "tests: FAIL"


def test_the_words_of_a_tester_are_quoted() -> None:
    step = TurnEnded(5.0, "tester", 1, 1, 9, "failed", "FAIL: no; x", 1.0, "", why="no")
    assert reason_of_fail(replace(step, reason="one fails")) == "tester: no “one fails”"
    assert reason_of_fail(step) == "tester: no"
