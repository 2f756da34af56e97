"""The page of all runs."""

import pytest
from hypothesis import given

from cli_agent_orchestrator.core.models import Question, Tokens
from cli_agent_orchestrator.page.all_runs import (
    FORGOTTEN_SECONDS,
    MOST_DONE,
    RunGroup,
    all_runs,
    done_first,
    older_runs,
    standing_of,
)
from cli_agent_orchestrator.page.one_run import one_run
from cli_agent_orchestrator.page.words import Page, RunOnPage, run_tokens
from cli_agent_orchestrator.runs.record import RunStatus, SavedSetting, SavedTree
from cli_agent_orchestrator.runs.view import RunView
from tests.page.view_data import HOSTILE, a_page, check_page, part_of, written
from tests.runs.views import NOON, RUN, a_run
from tests.show.reading import Elements

ENDED = {"ended": NOON - 60, "role": ""}
PLAYED = {**ENDED, "providers": {"analyst": "codex", "tester": "scripted"}}
LONG_AGO = {"started": NOON - FORGOTTEN_SECONDS - 9, "ended": NOON - FORGOTTEN_SECONDS}


def ids_in(page: Page, holder: str) -> list[str]:
    return [part.id for part in page.parts if part.into == holder]


def test_without_runs_it_says_how_to_begin() -> None:
    page = all_runs([], 0, NOON)
    check_page(page)
    assert page.title == "No runs yet"
    assert "cao run task.md" in written(page)
    assert "cao demo" in written(page)


def test_runs_stand_in_their_groups_the_urgent_ones_first() -> None:
    rows = [
        RunOnPage(a_run(id="20261115-084037-aaaa")),
        RunOnPage(a_run(id="20261115-084036-bbbb", status=RunStatus.PAUSED)),
        RunOnPage(a_run(id="20261115-084035-cccc", asking="programmer")),
        RunOnPage(a_run(id="20261115-084034-dddd", status=RunStatus.PASS, ended=NOON - 60)),
    ]
    page = all_runs(rows, 0, NOON)
    check_page(page)
    assert page.title == "(2) 2 runs need you"
    assert ids_in(page, "needs-rows") == ["run-20261115-084035-cccc", "run-20261115-084036-bbbb"]
    assert ids_in(page, "working-rows") == ["run-20261115-084037-aaaa"]
    assert ids_in(page, "done-rows") == ["run-20261115-084034-dddd"]
    assert part_of(page, "needs-count").written == "2"
    assert "Nothing needs you." not in written(page)


def test_a_row_says_what_there_is_to_say() -> None:
    tokens = run_tokens(Tokens(48_200, 39_000, 2_100, None), is_whole=True)
    settings = {"MAX_ROUNDS": SavedSetting("8", "option")}
    run = a_run(project="/home/ada/mine", settings=settings)
    page = all_runs([RunOnPage(run, tokens=tokens)], 0, NOON)
    row = part_of(page, "run-20261115-084037-k3f9")
    assert row.written == (
        "… runningFix the discountmine · loop · round 2 of 8 · programmer works · 10 min · "
        "48k in, 2100 out · k3f9"
    )
    assert row.of("a")[0]["href"] == "/dashboard/runs/20261115-084037-k3f9"
    assert "/home/ada/mine" in [one.get("title") for one in row.of("span")]


def row_of(run: RunView, asked: Question | None = None) -> Elements:
    return part_of(all_runs([RunOnPage(run, asked=asked)], 0, NOON), f"run-{run.id}")


def test_who_is_asked_sees_the_question_and_the_way_to_the_agent() -> None:
    row = row_of(a_run(asking="programmer"), Question("Make clean?", (), "f00d"))
    assert "The programmer asks: Make clean?" in row.written
    assert f"/dashboard/runs/{RUN}/agents/programmer" in [one.get("href") for one in row.of("a")]


def test_a_run_that_broke_says_why_and_can_be_resumed_at_once() -> None:
    reason = f"`npm test` of ghp_{'a' * 36} was not found\n  Look at it: cao attach x"
    row = row_of(a_run(status=RunStatus.FAILED, ended=NOON, role="", reason=reason))
    assert row.of("button")[0]["data-post"] == f"/runs/{RUN}/resume"
    assert "npm test of" in row.written
    for hidden in ("aaaa", "Look at it"):
        assert hidden not in row.written
    stopped = row_of(a_run(status=RunStatus.STOPPED, ended=NOON, reason="a person stopped the run"))
    assert "a person" not in stopped.written


def test_work_that_waits_is_a_note_in_its_row() -> None:
    tree = SavedTree("/gone", branch="cao/fix-k3f9", base="a", tip="b")
    row = row_of(a_run(status=RunStatus.PASS, ended=NOON - 7200, tree=tree, proof="not proven: x"))
    assert "PASS, not proven" in row.written
    assert "Its work waits on the branch cao/fix-k3f9: cao apply k3f9" in row.written
    assert "2 h ago" in row.written


@pytest.mark.parametrize(
    ("changes", "words"), [({"status": RunStatus.PASS, "ended": NOON}, "took 2.0 s"), ({}, "2 s")]
)
def test_the_time_until_it_was_resumed_is_none_that_a_run_took(
    changes: dict[str, object], words: str
) -> None:
    run = a_run(paused_seconds=598.0, **changes)
    assert words in row_of(run).written
    assert words in part_of(one_run(a_page(run), NOON), "head").written


def test_so_many_ended_runs_are_shown_and_the_others_can_be_fetched() -> None:
    ended = [
        a_run(id=f"20261115-0840{n % 60:02d}-k{n:03d}", status=RunStatus.PASS, ended=NOON - n)
        for n in range(MOST_DONE + 3)
    ]
    runs = [a_run(id="20261115-084037-aaaa"), *ended]
    shown, older = done_first(runs, NOON)
    page = all_runs([RunOnPage(run) for run in shown], len(older), NOON)
    check_page(page)
    assert len(shown) == MOST_DONE + 1
    assert older == ended[MOST_DONE:]
    assert part_of(page, "older").of("details")[0]["data-fragment"] == "/dashboard/older"
    assert "Show 3 older runs" in written(page)
    assert Elements(older_runs([RunOnPage(run) for run in older], NOON)).written.count("PASS") == 3


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_nothing_in_a_run_breaks_the_page(task: str, folder: str, role: str, flow: str) -> None:
    run = a_run(task_line=task, wd=folder, role=role, flow=flow, asking=role)
    tree = SavedTree("/gone", branch=flow, base="a", tip="b")
    passed = RunStatus.PASS
    ended = a_run(id=f"{RUN}x", task_line=task, project=folder, status=passed, tree=tree)
    asked = Question(task, (), "f00d")
    page = all_runs([RunOnPage(run, asked=asked), RunOnPage(ended)], 1, NOON)
    check_page(page)
    assert max(len(part.html) for part in page.parts) < 40_000


@pytest.mark.parametrize(
    ("changes", "group", "words", "tone"),
    [
        ({}, RunGroup.WORKING, "running", "now"),
        ({"asking": "programmer"}, RunGroup.NEEDS, "asks you", "needs"),
        ({"stalled": "F1 is still unfixed."}, RunGroup.NEEDS, "not converging", "needs"),
        ({"status": RunStatus.PAUSED, "stalled": "F1"}, RunGroup.NEEDS, "paused", "needs"),
        ({"status": RunStatus.INTERRUPTED}, RunGroup.NEEDS, "interrupted", "bad"),
        ({"status": RunStatus.FAILED, **ENDED}, RunGroup.NEEDS, "error", "bad"),
        ({"status": RunStatus.STOPPED, **ENDED}, RunGroup.DONE, "stopped", "plain"),
        ({"status": RunStatus.FAIL, **ENDED}, RunGroup.DONE, "FAIL", "bad"),
        ({"status": RunStatus.PASS, **PLAYED}, RunGroup.DONE, "PASS (DRY RUN)", "good"),
        ({"status": RunStatus.STOPPED, **PLAYED}, RunGroup.DONE, "stopped", "plain"),
        # A run that cannot go on needs nobody.
        ({"status": RunStatus.INTERRUPTED, "lost": True}, RunGroup.DONE, "gone", "plain"),
        # A question of a run that has ended is none.
        ({"status": RunStatus.PASS, "asking": "tester", **ENDED}, RunGroup.DONE, "PASS", "good"),
        ({"status": RunStatus.FAILED, **LONG_AGO}, RunGroup.DONE, "error", "plain"),
    ],
)
def test_the_group_and_the_color_of_a_run(
    changes: dict[str, object], group: RunGroup, words: str, tone: str
) -> None:
    found = standing_of(a_run(**changes), NOON)
    assert (found.group, found.words, found.tone) == (group, words, tone)
    assert bool(found.why) == (group is RunGroup.NEEDS)


def test_a_question_is_more_urgent_than_a_circle_and_that_than_a_pause() -> None:
    both = a_run(asking="tester", stalled="in circles", status=RunStatus.PAUSED)
    assert standing_of(both, NOON).words == "asks you"
    needs = ({"asking": "tester"}, {"stalled": "circles"}, {"status": RunStatus.PAUSED},
             {"status": RunStatus.INTERRUPTED})  # fmt: skip
    ranks = [standing_of(a_run(**changes), NOON).rank for changes in needs]
    assert ranks == sorted(set(ranks))
