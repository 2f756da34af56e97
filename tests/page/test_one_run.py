"""The page of one run."""

import re
from typing import Any

import pytest
from hypothesis import given
from msgspec import structs
from msgspec.structs import replace

from cli_agent_orchestrator.core.models import Choice, Question
from cli_agent_orchestrator.events import (
    CheckEnded,
    FilesChanged,
    HintTaken,
    PauseAsked,
    QuestionAnswered,
)
from cli_agent_orchestrator.page.one_run import one_run
from cli_agent_orchestrator.page.words import Page
from cli_agent_orchestrator.pipeline.flow import course_of
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow
from cli_agent_orchestrator.pipeline.review import Finding, FindingAnswer, Findings, Tracked
from cli_agent_orchestrator.runs.record import RunStatus, SavedTree
from cli_agent_orchestrator.runs.view import RunView
from cli_agent_orchestrator.settings.gates import Gate
from tests.page.view_data import HOSTILE, a_page, a_terminal, check_page, part_of, written
from tests.runs.views import NOON, RUN, a_run, a_turn
from tests.show.reading import Elements

QUESTION = Question("Run: make clean?", (Choice("1", "Yes"), Choice("2", "No")), "f00d")
ENDED: dict[str, Any] = {"ended": NOON - 60, "role": ""}  # Any: fields of a run
PROOF = CheckEnded(NOON, "proof", 1, 9, "passed", "PASS", 1.0, "/x", why="not proven: no test")
TREE = SavedTree("/gone", branch="cao/x", base="a", tip="b")


def ids(page: Page) -> list[str]:
    return [part.id for part in page.parts]


# Any: fields of a run, or of its page
def shown(part: str, run: RunView | None = None, **changes: Any) -> Elements:
    """Return one part of the page of a run."""
    return part_of(one_run(a_page(run, **changes), NOON), part)


def test_a_run_at_work() -> None:
    agents = {"programmer": a_terminal(action="Bash: make")}
    page = one_run(a_page(terminals=agents, machine="calc7"), NOON)
    check_page(page)
    assert page.title == "running: Fix the discount"
    assert "round 2 of 8" in part_of(page, "head").written
    assert "programmer works" in part_of(page, "head").written
    assert "on calc7" in part_of(page, "head").written
    assert "All of it." in part_of(page, "head").written
    assert part_of(page, "need").found[0][1].get("hidden", "no") is None
    agent = part_of(page, "agent-1")
    assert "working" in agent.written
    assert "Bash: make" in agent.written
    assert agent.of("a")[0]["href"] == f"/dashboard/runs/{RUN}/agents/programmer"
    assert "on another server" in part_of(page, "agent-0").written
    assert [part.id for part in page.parts if part.into == "turns"] == ["turn-2", "turn-1"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"outcome": "", "ended": None}, "at work"),
        ({"outcome": "", "ended": NOON - 480}, "not finished"),
        ({"outcome": "sent_back", "why": "F1 is open"}, "sent back"),
        ({"outcome": "later_word"}, "later word"),
        ({"provider": "command"}, "command"),
        ({}, "1 file +12 −3"),
        (
            {"outcome": "sent_back", "why": "REVISE", "reason": "The total is <wrong>."},
            "REVISE “The total is <wrong>.”",
        ),
    ],
)
def test_a_row_says_what_a_turn_came_to(changes: dict[str, object], words: str) -> None:
    changed = FilesChanged(NOON, "programmer", 1, 1, ("a.py",), 1, 12, 3)
    turns = (a_turn(1, **changes), a_turn(2))
    row = shown("turn-1", turns=turns, changes=(changed,))
    assert words in row.written
    assert str(changes.get("why", "")) in row.written
    # One that has ended is fetched again.
    step = "?open" if words == "at work" else ""
    assert row.of("details")[0]["data-fragment"] == f"/dashboard/runs/{RUN}/turns/1{step}"
    other = structs.replace(changed, allowed=False, count=2)
    assert "changed 2 files, not its task" in shown("turn-1", turns=turns, changes=(other,)).written


def test_what_people_did_stands_with_its_time_and_a_comment_keeps_its_lines() -> None:
    comment = "About a.py:12, as turn 3 left it:\n    seen = []\nWhy not a set?"
    hints = (HintTaken(NOON, "programmer", comment), HintTaken(NOON, "", "look  at b"))
    told = shown("acts", acts=(QuestionAnswered(NOON - 120, "programmer", "Yes"), *hints)).written
    assert "answered what the programmer asked: Yes 2 min ago" in told
    assert f"hint for programmer:\n{comment}\n" in told
    assert "hint for the next prompt: look at b 0 s ago" in told


def test_a_question_has_its_choices_or_keys_bound_to_it() -> None:
    run, agents = a_run(asking="programmer"), {"programmer": a_terminal()}
    need = shown("need", run, question="Run", terminals=agents, asked=QUESTION)
    assert "The programmer asks you" in need.written
    first, second = need.of("button")
    assert first["data-post"] == "/terminals/p1/answer"
    assert first["data-body"] == '{"key": "1", "question": "f00d"}'
    assert second["data-body"] == '{"key": "2", "question": "f00d"}'
    assert "works" not in shown("head", run).written
    asked = replace(QUESTION, choices=())
    keys = [str(one["data-body"]) for one in shown("need", run, asked=asked).of("button")]
    for key in ("Enter", "9"):
        assert f'{{"key": "{key}", "question": "f00d"}}' in keys
    elsewhere = shown("need", run, question="May I?")
    assert "May I?" in elsewhere.written
    assert not elsewhere.of("button")


@pytest.mark.parametrize(
    ("changes", "acts", "can"),
    [
        ({}, (), ["pause", "stop"]),
        ({}, (PauseAsked(NOON),), ["resume", "stop"]),
        ({"status": RunStatus.PAUSED}, (), ["resume", "stop"]),
        ({"status": RunStatus.INTERRUPTED}, (), ["resume"]),
        ({"status": RunStatus.FAILED, "lost": True, **ENDED}, (), []),
        ({"status": RunStatus.PASS, **ENDED}, (), []),
    ],
)
def test_what_can_be_asked_of_a_run(
    changes: dict[str, object], acts: tuple[PauseAsked, ...], can: list[str]
) -> None:
    page = one_run(a_page(a_run(**changes), acts=acts), NOON)
    check_page(page)
    buttons = part_of(page, "buttons").of("button") if can else []
    assert [one["data-post"] for one in buttons] == [f"/runs/{RUN}/{do}" for do in can]
    confirmed = [one["data-post"] for one in buttons if "end its" in str(one.get("data-confirm"))]
    assert confirmed == [f"/runs/{RUN}/stop"] * ("stop" in can)
    assert ("hint" in ids(page)) == ("stop" in can)
    assert ("steer" in ids(page)) == bool(can)


def test_a_review_under_way_can_be_skipped_and_nothing_else() -> None:
    review = a_turn(4, role="analyst_review", round=2, cycle=3, outcome="", ended=None)
    buttons = shown("buttons", turns=(a_turn(3), review)).of("button")
    (skip,) = [one for one in buttons if "skip" in str(one["data-post"])]
    assert skip["data-post"] == f"/runs/{RUN}/skip"
    assert skip["data-body"] == '{"role": "analyst_review", "round": 2, "cycle": 3}'
    for last in (replace(review, ended=NOON), replace(review, role="programmer")):
        assert "Skip" not in shown("buttons", turns=(a_turn(3), last)).written


def test_hints_and_rounds_are_posted_to_the_run() -> None:
    hint, rounds = shown("hint"), shown("rounds")
    assert hint.of("form")[0]["data-post"] == f"/runs/{RUN}/hint"
    assert [one["value"] for one in hint.of("option")] == ["", "analyst", "programmer"]
    assert rounds.of("form")[0]["data-post"] == f"/runs/{RUN}/set"
    fields = {one["name"]: one.get("value") for one in rounds.of("input")}
    assert fields == {"value": "8", "name": "max_rounds"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": RunStatus.PAUSED, "stalled": "the last turn."}, "for you. The last turn."),
        ({"stalled": "the last turn changed nothing."}, "The last turn changed nothing."),
        ({"status": RunStatus.INTERRUPTED}, "Its process was killed."),
        ({"status": RunStatus.PASS, "tree": TREE, **ENDED}, "cao apply k3f9"),
    ],
)
def test_what_a_run_needs_stands_at_its_top(changes: dict[str, object], words: str) -> None:
    assert words in shown("need", a_run(**changes)).written


def test_a_run_that_has_failed_leads_to_what_there_is_of_it() -> None:
    need = shown("need", a_run(status=RunStatus.FAIL, stalled="F1.", **ENDED))
    for words in ("resume k3f9 --max-rounds 4", "report k3f9 --format html", "not converge: F1."):
        assert words in need.written
    links = [one["href"] for one in need.of("a")]
    assert links == [f"/dashboard/runs/{RUN}/agents/{role}" for role in ("analyst", "programmer")]


@pytest.mark.parametrize(
    ("proof", "word"),
    [
        (structs.replace(PROOF, why="proven: 2 tests", proven=True), "✓ proven"),
        (PROOF, "! not proven"),
        (None, "✓ PASS"),
    ],
)
def test_what_a_pass_is_worth(proof: CheckEnded | None, word: str) -> None:
    run = a_run(status=RunStatus.PASS, providers={"analyst": "scripted"}, **ENDED)
    page = one_run(a_page(run, proof_check=proof), NOON)
    assert word in part_of(page, "head").written
    assert "DRY RUN" in part_of(page, "head").written
    assert len(part_of(page, "plan").of("span", "done")) == len(a_page(run).course) + 1
    assert (proof.why if proof else "PASS") in written(page)


@pytest.mark.parametrize(
    ("names", "at"),
    [
        ("nobody", ""),
        ("tests", "tests analyst"),
        ("tests analyst programmer programmer_review tests", "tests tester"),
        ("tests analyst programmer tests tester tests", "tests proof"),
        ("tests analyst programmer tests tester tests proof", "proof PASS"),
    ],
)
def test_gates_and_proof_are_in_the_plan_before_and_when_they_run(names: str, at: str) -> None:
    gate = Gate("tests", "make test")
    course = course_of(packaged_flow("loop"), [gate], proves=True)
    turns = tuple(
        a_turn(number, role=role, provider="command" if role in ("tests", "proof") else "codex")
        for number, role in enumerate(names.split(), 1)
    )
    again = tuple(replace(turn, round=2) for turn in turns[1:])
    for story in (a_page(course=course, turns=turns), a_page(course=course, turns=turns + again)):
        page = one_run(story, NOON)
        plan = part_of(page, "plan")
        steps = re.findall('class="stage">(.*?)<', str(page.parts[ids(page).index("plan")].html))
        assert " ".join(steps) == "tests analyst programmer tests tester tests proof PASS"
        present = [bool(one.get("aria-current")) for one in plan.of("li")]
        assert [steps[n : n + 2] for n, is_now in enumerate(present) if is_now] == (
            [at.split()] if at else []
        )
        assert len(plan.of("span", "done")) == (present.index(True) if at else 0)


def test_without_a_known_flow_there_is_no_plan() -> None:
    page = one_run((a_page(course=(), turns=())), NOON)
    check_page(page)
    assert part_of(page, "plan").found == [("div", {"id": "plan", "hidden": None})]
    assert "No turn yet" in written(page)


def test_findings_by_reviewer_the_open_ones_first() -> None:
    open_one = Tracked(Finding("F1", True, "a.py:3", "wrong sum"))
    fixed = Tracked(Finding("F2", False, "", "a name"), (FindingAnswer.FIXED,))
    story = a_page(findings={"programmer_review": Findings((fixed, open_one))})
    found = part_of(one_run(story, NOON), "findings")
    assert found.written.startswith("Findings 1 open")
    assert found.written.index("wrong sum") < found.written.index("1 answered")
    assert found.written.index("1 answered") < found.written.index("a name")


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_nothing_in_a_run_breaks_its_page(one: str, two: str, three: str, four: str) -> None:
    run = a_run(
        task=one * 3,
        task_line=one,
        reason=two,
        wd=two,
        flow=three,
        role=four,
        asking=four,
        providers={four: three, two: one},
    )
    finding = Tracked(Finding("F1", True, two, three))
    story = a_page(
        run,
        turns=(a_turn(1, role=four, provider=two, outcome=three, why=one, detail=two),),
        changes=(FilesChanged(NOON, four, 1, 1, (two,), 1, 1, 1, allowed=False),),
        findings={four: Findings((finding,))},
        warnings=(one, two),
        acts=(PauseAsked(NOON),),
        proof_check=structs.replace(PROOF, why=three),
        question=four,
        stalled=two,
    )
    asked = Question(one, (Choice("1", two),), three)
    check_page(one_run(replace(story, terminals={four: a_terminal(action=one)}, asked=asked), NOON))
