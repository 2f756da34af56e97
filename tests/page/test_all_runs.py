"""The page of all runs."""

import pytest
from hypothesis import given

from cli_agent_orchestrator.page.all_runs import MOST_DONE, RunRow, all_runs, done_first, older_runs
from cli_agent_orchestrator.page.one_run import one_run
from cli_agent_orchestrator.page.words import Page, RunTokens
from cli_agent_orchestrator.runs.record import RunStatus, SavedSetting, SavedTree
from cli_agent_orchestrator.usage.tokens import Tokens
from tests.page.view_data import HOSTILE, a_page, check_page, part_of, written
from tests.runs.views import NOON, a_run
from tests.show.reading import Elements


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
        RunRow(a_run(id="20261115-084037-aaaa")),
        RunRow(a_run(id="20261115-084036-bbbb", status=RunStatus.PAUSED)),
        RunRow(a_run(id="20261115-084035-cccc", asking="programmer")),
        RunRow(a_run(id="20261115-084034-dddd", status=RunStatus.PASS, ended=NOON - 60)),
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
    tokens = RunTokens(Tokens(48_200, 39_000, 2_100, None), is_whole=True)
    settings = {"MAX_ROUNDS": SavedSetting("8", "option")}
    run = a_run(project="/home/ada/mine", settings=settings)
    page = all_runs([RunRow(run, "", tokens)], 0, NOON)

    row = part_of(page, "run-20261115-084037-k3f9")
    assert row.written == (
        "… runningFix the discountmine · loop · round 2 of 8 · programmer works · 10 min · "
        "48k in, 2100 out · k3f9"
    )
    assert row.of("a")[0]["href"] == "/dashboard/runs/20261115-084037-k3f9"
    assert "/home/ada/mine" in [one.get("title") for one in row.of("span")]


def test_who_is_asked_sees_the_question_and_the_way_to_the_agent() -> None:
    run = a_run(asking="programmer")

    row = part_of(all_runs([RunRow(run, "Run: make clean?")], 0, NOON), f"run-{run.id}")

    assert "The programmer asks: Run: make clean?" in row.written
    assert f"/dashboard/runs/{run.id}/agents/programmer" in [one.get("href") for one in row.of("a")]


def test_a_run_that_broke_can_be_resumed_at_once() -> None:
    run = a_run(status=RunStatus.INTERRUPTED)

    row = part_of(all_runs([RunRow(run)], 0, NOON), f"run-{run.id}")

    assert row.of("button")[0]["data-post"] == f"/runs/{run.id}/resume"
    assert "began 10 min ago" in row.written


def test_work_that_waits_is_a_note_in_its_row() -> None:
    run = a_run(
        status=RunStatus.PASS, ended=NOON - 7200, tree=SavedTree("/gone", "cao/fix-k3f9", "a", "b")
    )

    row = part_of(all_runs([RunRow(run)], 0, NOON), f"run-{run.id}")

    assert "Its work waits on the branch cao/fix-k3f9: cao apply k3f9" in row.written
    assert "2 h ago" in row.written


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"status": RunStatus.PASS, "ended": NOON}, "took 2.0 s"), ({}, "2 s")],
)
def test_the_time_until_it_was_resumed_is_none_that_a_run_took(
    changes: dict[str, object], words: str
) -> None:
    run = a_run(paused_seconds=598.0, **changes)

    assert words in part_of(all_runs([RunRow(run)], 0, NOON), f"run-{run.id}").written
    assert words in part_of(one_run(a_page(run), NOON), "head").written


def test_how_an_error_begins_is_in_the_row_without_what_is_secret() -> None:
    reason = f"`npm test` of ghp_{'a' * 36} was not found\n  Look at it: cao attach x"
    run = a_run(status=RunStatus.FAILED, ended=NOON, role="", reason=reason)

    row = part_of(all_runs([RunRow(run)], 0, NOON), f"run-{run.id}")

    assert "npm test of" in row.written
    assert "was not found" in row.written
    assert "aaaa" not in row.written
    assert "Look at it" not in row.written


def test_why_a_run_was_stopped_by_a_person_is_not_told_again() -> None:
    run = a_run(status=RunStatus.STOPPED, ended=NOON, reason="a person stopped the run")

    row = part_of(all_runs([RunRow(run)], 0, NOON), f"run-{run.id}")

    assert "a person" not in row.written


@pytest.mark.parametrize(
    ("proof", "words"),
    [("not proven: no test", "PASS, not proven"), ("proven: 2 tests", "PASS"), ("", "PASS")],
)
def test_a_pass_says_if_it_was_looked_into_and_not_proven(proof: str, words: str) -> None:
    proven = proof == "proven: 2 tests"
    run = a_run(status=RunStatus.PASS, ended=NOON, proof=proof, proven=proven)

    row = part_of(all_runs([RunRow(run)], 0, NOON), f"run-{run.id}")

    assert f"{words}Fix the discount" in row.written


def test_so_many_ended_runs_are_shown_and_the_others_can_be_fetched() -> None:
    ended = [
        a_run(id=f"20261115-0840{n % 60:02d}-k{n:03d}", status=RunStatus.PASS, ended=NOON - n)
        for n in range(MOST_DONE + 3)
    ]
    runs = [a_run(id="20261115-084037-aaaa"), *ended]

    shown, older = done_first(runs, NOON)
    page = all_runs([RunRow(run) for run in shown], len(older), NOON)

    check_page(page)
    assert len(shown) == MOST_DONE + 1
    assert older == ended[MOST_DONE:]
    assert part_of(page, "older").of("details")[0]["data-fragment"] == "/dashboard/older"
    assert "Show 3 older runs" in written(page)
    assert Elements(older_runs([RunRow(run) for run in older], NOON)).written.count("PASS") == 3


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_nothing_in_a_run_breaks_the_page(task: str, folder: str, role: str, flow: str) -> None:
    run = a_run(task_line=task, wd=folder, role=role, flow=flow, asking=role)
    ended = a_run(
        id="20261115-084037-zzzz",
        task_line=task,
        project=folder,
        status=RunStatus.PASS,
        tree=SavedTree("/gone", flow, "a", "b"),
    )

    page = all_runs([RunRow(run, task), RunRow(ended)], 1, NOON)

    check_page(page)
    assert max(len(part.html) for part in page.parts) < 40_000
