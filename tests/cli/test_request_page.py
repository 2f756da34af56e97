"""The text of a pull request."""

from dataclasses import replace

import pytest

from cli_agent_orchestrator.pipeline.state import FinalStatus
from cli_agent_orchestrator.runs.report import Deeds
from cli_agent_orchestrator.show import report_markdown as limits
from cli_agent_orchestrator.show.report_markdown import request_page
from cli_agent_orchestrator.work.changes import Change
from tests.cli.reports import REPORT, turn
from tests.cli.test_markdown import NASTY, NASTY_LINES, markup_of

FILE = Change("src/a.py", "src/a.py", "M", "100644", "100644", 3, 1)
PASSED = replace(
    REPORT,
    status=FinalStatus.PASS,
    task="Mend the sum",
    files=[FILE],
    turns=[
        turn(1, "programmer"),
        turn(2, "tests", "FAIL; round 2 follows", "command"),
        replace(turn(3, "tests", "PASS; the proof follows", "command"), verdict="PASS"),
        turn(4, "proof", "PASS, proven", "command"),
    ],
)


def test_it_says_what_was_asked_how_it_was_checked_and_what_changed() -> None:
    page = request_page(PASSED)
    assert page.startswith("Mend the sum\n\n**PASS after 2 rounds, not proven**\n\n")
    assert "### How it was checked\n\n- tests: PASS\n- not proven: " in page
    assert "FAIL; round 2" not in page, "only what a gate said last"
    assert "- PASS, proven" not in page, "the proof has its own words"
    assert "### What changed: 1 file, +3 −1\n\n- src/a.py +3 −1" in page
    assert "<summary>What the gate tests said</summary>" in page
    assert "<summary>Why it took more than one try</summary>" in page
    assert "- Round 1, lint, FAIL: a fault\n- Round 2, tester, FAIL: " in page
    assert "### Still open: analyst_review, round 1\n" in page


def test_a_task_of_anybody_is_shown_and_does_nothing() -> None:
    task = "Fixes #1 <img src=x> ![i](https://example.org/x) [a](b) for @org/team"
    page = request_page(replace(PASSED, task=task))
    assert page.startswith(
        "Fixes `#1` \\<img src=x\\> `![i](https://example.org/x`) \\[a\\](b) for `@org/team`\n\n"
    )


def test_what_is_not_there_is_not_said() -> None:
    bare = replace(PASSED, files=[], turns=[], deeds=Deeds(), evidence="", setbacks={})
    assert request_page(replace(bare, open_notes={})) == "Mend the sum\n\n**PASS after 2 rounds**"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (replace(FILE, status="A"), "- src/a.py (new) +3 −1"),
        (replace(FILE, status="D"), "- src/a.py (removed) +3 −1"),
        (replace(FILE, status="T"), "- src/a.py (became something else) +3 −1"),
        (replace(FILE, status="R", old_path="b.py"), "- src/a.py (was b.py) +3 −1"),
        (replace(FILE, added=-1, removed=-1), "- src/a.py binary"),
        (replace(FILE, path="a\nb.py"), "- `'a\\nb.py'` +3 −1"),
        (replace(FILE, path="<b>.py"), "- `<b>.py` +3 −1"),
        (replace(FILE, path="@team.py"), "- `@team.py` +3 −1"),
    ],
)
def test_a_file_says_what_became_of_it(change: Change, line: str) -> None:
    assert line in request_page(replace(PASSED, files=[change])).split("\n")


def test_binary_files_count_no_lines() -> None:
    files = [FILE, replace(FILE, path="x.png", added=-1, removed=-1)]
    assert "### What changed: 2 files, +3 −1" in request_page(replace(PASSED, files=files))


def test_no_line_is_cut_within_a_mask() -> None:
    page = request_page(replace(REPORT, evidence="y" * (limits.LONGEST_LINE - 3) + "(masked) z"))
    assert f"\n{'y' * (limits.LONGEST_LINE - 3)}…\n" in page


def test_many_files_and_long_texts_are_cut() -> None:
    files = [replace(FILE, path=f"f{n}") for n in range(limits.MOST_FILES + 2)]
    page = request_page(replace(PASSED, files=files))
    assert f"- f{limits.MOST_FILES - 1} " in page
    assert f"- f{limits.MOST_FILES} " not in page
    assert "- … and 2 more" in page
    lines = "\n".join(f"line {n}" for n in range(limits.MOST_LINES + 1))
    page = request_page(replace(PASSED, evidence=lines, open_notes={"x": "y" * 1000}))
    assert f"line {limits.MOST_LINES - 1}\n…\n" in page
    assert f"\n{'y' * limits.LONGEST_LINE}…\n" in page


def test_what_is_just_short_enough_is_whole() -> None:
    files = [replace(FILE, path=f"f{n}") for n in range(limits.MOST_FILES)]
    lines = "\n".join(["y" * limits.LONGEST_LINE] * limits.MOST_LINES)
    whole = replace(PASSED, files=files, evidence=lines, open_notes={}, setbacks={})
    assert "…" not in request_page(whole)
    assert "- … and 1 more" in request_page(replace(whole, files=[*files, FILE]))


def test_every_file_reason_and_suspicion_has_a_line_of_its_own() -> None:
    files = [FILE, replace(FILE, path="b.py")]
    setbacks = {"Round 1, tests, FAIL": "a fault", "Round 2, tests, FAIL": "another"}
    deeds = Deeds(suspicions=("a test was taken out", "a test was weakened"))
    page = request_page(replace(PASSED, files=files, setbacks=setbacks, deeds=deeds))
    lines = page.split("\n")
    for line in (
        *("- src/a.py +3 −1", "- b.py +3 −1", "- a test was taken out", "- a test was weakened"),
        *("- Round 1, tests, FAIL: a fault", "- Round 2, tests, FAIL: another"),
    ):
        assert line in lines, line


def test_of_many_reasons_and_suspicions_the_first_are_told() -> None:
    most = limits.MOST_LINES
    setbacks = {f"Round {n}, tests, FAIL": f"fault {n}" for n in range(most + 1)}
    deeds = Deeds(suspicions=tuple(f"suspicion {n}" for n in range(most + 1)))
    lines = request_page(replace(PASSED, setbacks=setbacks, deeds=deeds)).split("\n")
    assert f"- suspicion {most - 1}" in lines
    assert f"- suspicion {most}" not in lines
    assert f"- Round {most - 1}, tests, FAIL: fault {most - 1}" in lines
    assert f"- Round {most}, tests, FAIL: fault {most}" not in lines


@pytest.mark.parametrize("nasty", [NASTY, NASTY_LINES])
def test_nothing_that_agents_wrote_becomes_markup(nasty: str) -> None:
    deeds = Deeds(proof=nasty, suspicions=(nasty,))
    found = replace(
        PASSED,
        deeds=deeds,
        evidence=nasty,
        open_notes={nasty: nasty},
        setbacks={nasty: nasty},
        files=[replace(FILE, path=nasty, old_path=nasty, status="R")],
        turns=[turn(1, "tests", nasty, "command")],
    )
    plain = replace(
        PASSED,
        deeds=Deeds(proof="x", suspicions=("x",)),
        evidence="x",
        open_notes={"x": "x"},
        setbacks={"x": "x"},
        turns=[turn(1, "tests", "x", "command")],
    )
    assert markup_of(request_page(found)) <= markup_of(request_page(plain)) | {"code_inline"}
