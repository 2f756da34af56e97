"""The page of one run."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from cli_agent_orchestrator.core.models import Choice, Question, TerminalStatus
from cli_agent_orchestrator.events import (
    CheckEnded,
    FilesChanged,
    HintTaken,
    PauseAsked,
    QuestionAnswered,
    Unpaused,
)
from cli_agent_orchestrator.page.one_run import (
    GONE,
    LAST_SEEN,
    RunOnPage,
    one_run,
    with_notice,
)
from cli_agent_orchestrator.page.words import AskedBy, Page
from cli_agent_orchestrator.pipeline.flow import course_of
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow
from cli_agent_orchestrator.pipeline.review import Finding, FindingAnswer, Findings, Tracked
from cli_agent_orchestrator.runs.record import RunStatus, SavedTree
from cli_agent_orchestrator.runs.view import Turn
from cli_agent_orchestrator.settings.gates import Gate
from tests.page.view_data import HOSTILE, a_page, a_terminal, check_page, part_of, written
from tests.runs.views import NOON, RUN, a_run, a_turn

QUESTION = Question("Run: make clean?", (Choice("1", "Yes"), Choice("2", "No")), "f00d")
ASKED = AskedBy("p1", QUESTION)
ENDED: dict[str, Any] = {"ended": NOON - 60, "role": ""}  # Any: fields of a run
PROOF = CheckEnded(NOON, "proof", 1, 9, "passed", "PASS", 1.0, "/x", why="not proven: no test")
TREE = SavedTree("/gone", "cao/x", "a", "b")


def ids(page: Page) -> list[str]:
    return [part.id for part in page.parts]


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


def test_turns_stand_newest_first_and_are_fetched_when_they_are_opened() -> None:
    page = one_run((a_page()), NOON)

    assert [part.id for part in page.parts if part.into == "turns"] == ["turn-2", "turn-1"]
    opened = part_of(page, "turn-1").of("details")[0]["data-fragment"]
    assert opened == f"/dashboard/runs/{RUN}/turns/1"


def test_a_turn_that_has_ended_is_fetched_again() -> None:
    before = a_page(turns=(a_turn(1, outcome="", ended=None),))
    after = a_page(turns=(a_turn(1),))

    paths = [
        part_of(one_run(story, NOON), "turn-1").of("details")[0]["data-fragment"]
        for story in (before, after)
    ]

    assert paths[0] != paths[1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"outcome": "", "ended": None}, "at work"),
        ({"outcome": "", "ended": NOON - 480}, "not finished"),
        ({"outcome": "sent_back", "why": "F1 is open"}, "sent back"),
        ({"outcome": "approved"}, "approved"),
        ({"outcome": "later_word"}, "later_word"),
        ({"provider": "command"}, "command"),
        (
            {"outcome": "sent_back", "why": "REVISE", "reason": "The total is <wrong>."},
            "REVISE “The total is <wrong>.”",
        ),
    ],
)
def test_a_row_says_what_a_turn_came_to(changes: dict[str, object], words: str) -> None:
    page = one_run((a_page(turns=(a_turn(1, **changes),))), NOON)

    assert words in part_of(page, "turn-1").written
    assert str(changes.get("why", "")) in part_of(page, "turn-1").written


def test_a_pause_that_has_not_begun_can_be_taken_back() -> None:
    page = one_run((a_page(acts=(PauseAsked(NOON),))), NOON)

    assert "Do not pause" in part_of(page, "buttons").written
    assert "Resume" not in part_of(page, "buttons").written
    assert "pauses after this turn" in part_of(page, "head").written


def test_a_comment_on_a_line_keeps_its_lines() -> None:
    comment = "About a.py:12, as turn 3 left it:\n    seen = []\nWhy not a set?"
    acts = (HintTaken(NOON, "programmer", comment), HintTaken(NOON, "", "look  at b"))

    shown = part_of(one_run((a_page(acts=acts)), NOON), "acts").written

    assert f"hint for programmer:\n{comment}\n" in shown
    assert "hint for the next prompt: look at b" in shown


def test_what_is_quoted_in_an_error_is_code() -> None:
    reason = "see `cao doctor`, it`s <odd>"
    story = a_page(a_run(status=RunStatus.FAILED, reason=reason, **ENDED))

    shown = part_of(one_run(story, NOON), "need")

    assert "see cao doctor, it`s <odd>" in shown.written
    assert shown.of("code")


def test_what_a_turn_changed() -> None:
    own = FilesChanged(NOON, "programmer", 1, 1, ("a.py",), 1, 12, 3)
    other = replace(own, allowed=False, count=2)
    rows = [
        part_of(one_run((a_page(changes=(changed,))), NOON), "turn-1").written
        for changed in (own, other)
    ]

    assert "1 file +12 −3" in rows[0]
    assert "changed 2 files, not its task" in rows[1]


def test_a_question_with_its_choices_bound_to_it() -> None:
    story = a_page(a_run(asking="programmer"), question="Run")

    need = part_of(
        one_run(replace(story, terminals={"programmer": a_terminal()}, asked=ASKED), NOON), "need"
    )

    assert "The programmer asks you" in need.written
    first, second = need.of("button")
    assert first["data-post"] == "/terminals/p1/answer"
    assert first["data-body"] == '{"key": "1", "question": "f00d"}'
    assert second["data-body"] == '{"key": "2", "question": "f00d"}'
    assert "works" not in part_of(one_run(story, NOON), "head").written


def test_a_question_without_choices_has_keys() -> None:
    story = a_page(a_run(asking="programmer"))
    asked = AskedBy("p1", replace(QUESTION, choices=()))

    need = part_of(one_run(replace(story, asked=asked), NOON), "need")

    keys = [str(one["data-body"]) for one in need.of("button")]
    assert '{"key": "Enter", "question": "f00d"}' in keys
    assert '{"key": "9", "question": "f00d"}' in keys
    assert "arrow up" in [one.get("aria-label") for one in need.of("button")]


def test_a_question_of_an_agent_elsewhere_is_told_without_buttons() -> None:
    story = a_page(a_run(asking="programmer"), question="May I?")

    need = part_of(one_run(story, NOON), "need")

    assert "May I?" in need.written
    assert not need.of("button")


@pytest.mark.parametrize(
    ("changes", "acts", "can"),
    [
        ({}, (), ["pause", "stop"]),
        ({}, (PauseAsked(NOON),), ["resume", "stop"]),
        ({"status": RunStatus.PAUSED}, (), ["resume", "stop"]),
        ({"status": RunStatus.INTERRUPTED}, (), ["resume"]),
        ({"status": RunStatus.STOPPED, **ENDED}, (), ["resume"]),
        ({"status": RunStatus.FAILED, "lost": True, **ENDED}, (), []),
        ({"status": RunStatus.PASS, **ENDED}, (), []),
        ({"status": RunStatus.FAIL, **ENDED}, (), []),
    ],
)
def test_what_can_be_asked_of_a_run(
    changes: dict[str, object], acts: tuple[PauseAsked, ...], can: list[str]
) -> None:
    page = one_run(a_page(a_run(**changes), acts=acts), NOON)

    check_page(page)
    buttons = part_of(page, "buttons").of("button") if can else []
    assert [one["data-post"] for one in buttons] == [f"/runs/{RUN}/{do}" for do in can]
    assert ("hint" in ids(page)) == ("stop" in can)
    assert ("steer" in ids(page)) == bool(can)


def test_a_skip_names_the_review_that_it_is_meant_for() -> None:
    review = a_turn(4, role="analyst_review", round=2, cycle=3, outcome="", ended=None)
    page = one_run((a_page(turns=(a_turn(3), review))), NOON)

    (skip,) = [b for b in part_of(page, "buttons").of("button") if "skip" in str(b["data-post"])]
    assert skip["data-post"] == f"/runs/{RUN}/skip"
    assert skip["data-body"] == '{"role": "analyst_review", "round": 2, "cycle": 3}'


@pytest.mark.parametrize(
    "last",
    [
        a_turn(4, role="analyst_review"),
        a_turn(4, role="programmer", outcome="", ended=None),
    ],
)
def test_what_is_no_review_under_way_cannot_be_skipped(last: Turn) -> None:
    page = one_run((a_page(turns=(a_turn(3), last))), NOON)

    assert "Skip" not in part_of(page, "buttons").written


def test_a_stop_is_asked_about_first() -> None:
    buttons = part_of(one_run((a_page()), NOON), "buttons").of("button")

    sure = {one["data-post"]: one.get("data-confirm") for one in buttons}
    assert sure[f"/runs/{RUN}/pause"] is None
    assert "end its agents" in str(sure[f"/runs/{RUN}/stop"])


def test_hints_and_rounds_are_posted_to_the_run() -> None:
    page = one_run((a_page()), NOON)

    hint, rounds = part_of(page, "hint"), part_of(page, "rounds")
    assert hint.of("form")[0]["data-post"] == f"/runs/{RUN}/hint"
    assert [one["value"] for one in hint.of("option")] == ["", "analyst", "programmer"]
    assert rounds.of("form")[0]["data-post"] == f"/runs/{RUN}/set"
    assert {one["name"]: one.get("value") for one in rounds.of("input")} == {
        "value": "8",
        "name": "max_rounds",
    }


def test_what_people_did_stands_with_its_time() -> None:
    acts = (QuestionAnswered(NOON - 120, "programmer", "Yes"), Unpaused(NOON))
    told = part_of(one_run((a_page(acts=acts)), NOON), "acts")

    assert "answered what the programmer asked: Yes 2 min ago" in told.written
    assert "resumed 0 s ago" in told.written


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stalled": "F1 is still unfixed."}, "F1 is still unfixed."),
        ({"status": RunStatus.PAUSED}, "It is paused and waits for you."),
        ({"status": RunStatus.PAUSED, "stalled": "the last turn."}, "for you. The last turn."),
        ({"stalled": "the last turn changed nothing."}, "The last turn changed nothing."),
        ({"status": RunStatus.INTERRUPTED}, "Its process was killed."),
        ({"status": RunStatus.FAIL, **ENDED}, "cao resume k3f9 --max-rounds 4"),
        ({"status": RunStatus.FAIL, "stalled": "F1.", **ENDED}, "It did not converge: F1."),
        ({"status": RunStatus.PASS, "tree": TREE, **ENDED}, "cao apply k3f9"),
    ],
)
def test_what_a_run_needs_stands_at_its_top(changes: dict[str, object], words: str) -> None:
    assert words in part_of(one_run((a_page(a_run(**changes))), NOON), "need").written


@pytest.mark.parametrize(
    ("proof", "word"),
    [
        (replace(PROOF, why="proven: 2 tests", proven=True), "✓ proven"),
        (PROOF, "! not proven"),
        (None, "✓ PASS"),
    ],
)
def test_what_a_pass_is_worth(proof: CheckEnded | None, word: str) -> None:
    run = a_run(status=RunStatus.PASS, providers={"analyst": "scripted"}, **ENDED)
    page = one_run(a_page(run, proof_check=proof), NOON)

    assert word in part_of(page, "head").written
    assert "DRY RUN" in part_of(page, "head").written
    assert (proof.why if proof else "PASS") in written(page)


@pytest.mark.parametrize(
    ("turn", "stage"),
    [
        (a_turn(1, role="programmer_review", outcome=""), "programmer"),
        (a_turn(1, role="tester"), "tester"),
        (a_turn(1, role="nobody"), ""),
    ],
)
def test_the_present_stage_is_marked(turn: object, stage: str) -> None:
    plan = part_of(one_run((a_page(turns=(turn,))), NOON), "plan")

    assert ("now" in plan.written.split("PASS or FAIL")[-1]) == (stage == "tester")
    assert len([one for one in plan.of("li") if one.get("aria-current")]) == bool(stage)


def done_stages(story: RunOnPage) -> int:
    return len(part_of(one_run(story, NOON), "plan").of("span", "done"))


def test_stages_that_the_round_has_behind_it_are_marked() -> None:
    count = len(a_page().course)
    testing = a_page(turns=(a_turn(1), a_turn(2, role="tester", outcome="", ended=None)))
    again = a_page(turns=(*testing.run.turns, a_turn(3, round=2, outcome="", ended=None)))
    failed, passed = (
        replace(testing, run=replace(testing.run, status=status, **ENDED))
        for status in (RunStatus.FAIL, RunStatus.PASS)
    )

    assert done_stages(testing) == done_stages(failed) == count - 1
    assert done_stages(again) == done_stages(a_page(turns=())) == 0
    assert done_stages(passed) == count + 1


@pytest.mark.parametrize(
    ("names", "at"),
    [
        ("", ""),
        ("tests", "tests analyst"),
        ("tests analyst", "analyst programmer"),
        ("tests analyst programmer programmer_review tests", "tests tester"),
        ("tests analyst programmer tests tester", "tester tests"),
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


def test_a_run_that_has_failed_leads_to_what_there_is_of_it() -> None:
    need = part_of(one_run((a_page(a_run(status=RunStatus.FAIL, **ENDED))), NOON), "need")

    assert "cao report k3f9 --format html" in need.written
    links = [one["href"] for one in need.of("a")]
    assert links == [f"/dashboard/runs/{RUN}/agents/{role}" for role in ("analyst", "programmer")]


def test_without_a_known_flow_there_is_no_plan() -> None:
    page = one_run((a_page(course=(), turns=())), NOON)

    check_page(page)
    assert part_of(page, "plan").found == [("div", {"id": "plan", "hidden": None})]
    assert "No turn yet" in written(page)


def test_findings_by_reviewer_the_open_ones_first() -> None:
    open_one = Tracked(Finding("F1", True, "a.py:3", "wrong sum"), 1, 1)
    fixed = Tracked(Finding("F2", False, "", "a name"), 1, 1, (FindingAnswer.FIXED,))
    story = a_page(findings={"programmer_review": Findings((fixed, open_one))})

    found = part_of(one_run(story, NOON), "findings")

    assert found.written.startswith("Findings 1 open")
    assert found.written.index("wrong sum") < found.written.index("1 answered")
    assert found.written.index("1 answered") < found.written.index("a name")


@pytest.mark.parametrize(("hours", "most", "least"), [(0.01, 302, 298), (4, 11, 9), (8, 6, 4)])
def test_the_picture_of_a_long_run_grows_more_slowly(hours: float, most: int, least: int) -> None:
    story = a_page(a_run(started=NOON - 3600 * hours))

    drawn = {
        next(part.html for part in one_run(story, NOON + second).parts if part.id == "picture")
        for second in range(0, 600)
    }

    assert least <= len(drawn) <= most


def test_only_what_has_changed_is_other_html() -> None:
    """A status of an agent is one small part."""
    story = a_page()
    pages = [
        one_run(replace(story, terminals={"programmer": a_terminal(status=status)}), NOON)
        for status in (TerminalStatus.PROCESSING, TerminalStatus.WAITING_USER_ANSWER)
    ]

    changed = [
        one.id for one, two in zip(pages[0].parts, pages[1].parts, strict=True) if one != two
    ]

    assert changed == ["agent-1"]


def test_a_run_that_is_gone_keeps_its_page_and_says_so() -> None:
    page = one_run((a_page()), NOON)

    gone = with_notice(with_notice(page, "first"), GONE)

    check_page(gone)
    assert part_of(gone, "notice").written == GONE + LAST_SEEN
    assert len(gone.parts) == len(page.parts) + 1


@settings(max_examples=50, deadline=None)
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
    finding = Tracked(Finding("F1", True, two, three), 1, 1)
    story = a_page(
        run,
        turns=(a_turn(1, role=four, provider=two, outcome=three, why=one, detail=two),),
        changes=(FilesChanged(NOON, four, 1, 1, (two,), 1, 1, 1, allowed=False),),
        findings={four: Findings((finding,))},
        warnings=(one, two),
        acts=(PauseAsked(NOON),),
        proof_check=replace(PROOF, why=three),
        question=four,
        stalled=two,
    )
    asked = AskedBy("p1", Question(one, (Choice("1", two),), three))

    check_page(one_run(replace(story, terminals={four: a_terminal(action=one)}, asked=asked), NOON))
