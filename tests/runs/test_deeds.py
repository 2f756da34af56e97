"""Who changed what in a run, and what was proven."""

import pytest

from cli_agent_orchestrator.events import CheckEnded, FilesChanged, NotConverging, RunEvent, Warned
from cli_agent_orchestrator.runs.report import Deeds, deeds_of


def proof(why: str, detail: str = "as people are told") -> CheckEnded:
    return CheckEnded(5.0, "proof", 2, 12, "passed", detail, 1.0, "/a/012-proof.md", why=why)


def changed(role: str, *, allowed: bool = True, restored: bool = False) -> FilesChanged:
    files = ("a.py", "b_*.py")
    return FilesChanged(2.0, role, 1, 3, files, 3, 10, 2, allowed=allowed, restored=restored)


@pytest.mark.parametrize(
    ("why", "verdict"),
    [
        ("proven: it is; x", "proven"),
        ("not proven: no; look at 1 change", "not proven"),
        ("these files changed after they were approved: a", ""),
    ],
)
def test_what_was_proven_is_told_without_what_followed(why: str, verdict: str) -> None:
    found = deeds_of([proof("proven: an earlier one"), proof(why)])
    assert (found.proof, found.verdict) == (why, verdict)


def test_of_a_proof_by_an_earlier_version_the_whole_sentence_is_told() -> None:
    found = deeds_of([proof("", "FAIL: not proven: no; round 2 follows")])
    assert (found.proof, found.verdict) == ("FAIL: not proven: no; round 2 follows", "")


def test_each_change_has_who_made_it() -> None:
    events: list[RunEvent] = [
        changed("programmer"),
        changed("tester", allowed=False),
        changed("analyst_review", allowed=False, restored=True),
    ]
    assert deeds_of(events).changes == (
        "Round 1, programmer (turn 3) changed 3 files (+10 −2): a.py, b_*.py and 1 more",
        "Round 1, tester (turn 3) changed 3 files, which is not its task: a.py, b_*.py and 1 more",
        "Round 1, analyst_review (turn 3) changed 3 files, which is not its task: "
        "a.py, b_*.py and 1 more; put back, but kept in snapshot 3",
    )


def test_what_was_said_of_the_repository_is_told_once() -> None:
    text = "the repository was changed while programmer was at work: .git/config (a.b)"
    events = [
        Warned(1.0, text, "repository"),
        Warned(2.0, f"{text}, as an agent might have it said"),
        Warned(3.0, text, "repository"),
    ]
    assert deeds_of(events).repository == (text,)


def test_circles_are_told_once_each() -> None:
    events = [
        NotConverging(1.0, "Not converging: x"),
        NotConverging(2.0, "y"),
        NotConverging(3.0, "x"),
    ]
    assert deeds_of(events).circles == ("x", "y")
    assert deeds_of([]) == Deeds()


def test_a_page_without_a_diff_is_not_looked_through_for_one() -> None:
    """What a gate wrote may look like one."""
    page = "PROOF: x\n- a.py: moved\n\nThe base's tests on the result:\n```diff\n+a\n```\n"
    found = deeds_of([], page)
    assert (found.suspicions, found.before, found.patch) == (("a.py: moved",), (), "")


def test_a_line_break_in_the_name_of_a_file_makes_no_line() -> None:
    event = FilesChanged(2.0, "tester", 1, 3, ("a\nb.py",), 1, 1, 0, allowed=False)
    assert event.words == "changed 1 file, which is not its task: 'a\\nb.py'"
