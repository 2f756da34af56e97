"""Does a run need a person?"""

from dataclasses import replace

import pytest

from cli_agent_orchestrator.page.all_runs import FORGOTTEN_SECONDS, RunGroup, standing_of
from cli_agent_orchestrator.runs.record import Fate, RunStatus, SavedTree
from tests.runs.views import NOON, a_run

ENDED = {"ended": NOON - 60, "role": ""}
PLAYED = {**ENDED, "providers": {"analyst": "codex", "tester": "scripted"}}
TREE = SavedTree("/gone", "cao/x", "a", "b")
LONG_AGO = {"started": NOON - FORGOTTEN_SECONDS - 9, "ended": NOON - FORGOTTEN_SECONDS}


@pytest.mark.parametrize(
    ("changes", "group", "words"),
    [
        ({}, RunGroup.WORKING, "running"),
        ({"asking": "programmer"}, RunGroup.NEEDS, "asks you"),
        ({"stalled": "F1 is still unfixed."}, RunGroup.NEEDS, "not converging"),
        ({"status": RunStatus.PAUSED}, RunGroup.NEEDS, "paused"),
        ({"status": RunStatus.PAUSED, "stalled": "F1"}, RunGroup.NEEDS, "paused"),
        ({"status": RunStatus.INTERRUPTED}, RunGroup.NEEDS, "interrupted"),
        ({"status": RunStatus.FAILED, **ENDED}, RunGroup.NEEDS, "error"),
        # A person wanted it so, or nothing is left to be done.
        ({"status": RunStatus.STOPPED, **ENDED}, RunGroup.DONE, "stopped"),
        ({"status": RunStatus.PASS, **ENDED}, RunGroup.DONE, "PASS"),
        ({"status": RunStatus.FAIL, **ENDED}, RunGroup.DONE, "FAIL"),
        ({"status": RunStatus.PASS, **PLAYED}, RunGroup.DONE, "PASS (DRY RUN)"),
        ({"status": RunStatus.STOPPED, **PLAYED}, RunGroup.DONE, "stopped"),
        ({"status": RunStatus.PASS, "tree": TREE, **ENDED}, RunGroup.DONE, "PASS"),
        (
            {"status": RunStatus.PASS, "tree": replace(TREE, delivered=Fate.APPLIED), **ENDED},
            RunGroup.DONE,
            "PASS, applied",
        ),
        # What cannot go on needs nobody.
        ({"status": RunStatus.INTERRUPTED, "lost": True}, RunGroup.DONE, "gone"),
        ({"status": RunStatus.FAILED, "unsaved": True, **ENDED}, RunGroup.DONE, "not begun"),
        (
            {"status": RunStatus.FAILED, "tree": replace(TREE, delivered=Fate.DISCARDED), **ENDED},
            RunGroup.DONE,
            "discarded",
        ),
        # A question of a run that has ended is none.
        ({"status": RunStatus.PASS, "asking": "tester", **ENDED}, RunGroup.DONE, "PASS"),
        ({"status": RunStatus.FAILED, **LONG_AGO}, RunGroup.DONE, "error"),
        (
            {"status": RunStatus.INTERRUPTED, "started": NOON - FORGOTTEN_SECONDS},
            RunGroup.DONE,
            "interrupted",
        ),
    ],
)
def test_the_group_of_a_run(changes: dict[str, object], group: RunGroup, words: str) -> None:
    found = standing_of(a_run(**changes), NOON)

    assert (found.group, found.words) == (group, words)
    assert bool(found.why) == (group is RunGroup.NEEDS)


def test_a_question_is_more_urgent_than_a_circle_and_that_than_a_pause() -> None:
    both = a_run(asking="tester", stalled="in circles", status=RunStatus.PAUSED)

    assert standing_of(both, NOON).words == "asks you"
    ranks = [
        standing_of(a_run(**changes), NOON).rank
        for changes in (
            {"asking": "tester"},
            {"stalled": "in circles"},
            {"status": RunStatus.PAUSED},
            {"status": RunStatus.INTERRUPTED},
        )
    ]
    assert ranks == sorted(set(ranks))


@pytest.mark.parametrize(
    ("changes", "tone"),
    [
        ({}, "now"),
        ({"asking": "tester"}, "needs"),
        ({"status": RunStatus.PASS, **ENDED}, "good"),
        ({"status": RunStatus.FAIL, **ENDED}, "bad"),
        ({"status": RunStatus.STOPPED, **ENDED}, "plain"),
        ({"status": RunStatus.INTERRUPTED}, "bad"),
    ],
)
def test_the_color_of_a_run(changes: dict[str, object], tone: str) -> None:
    assert standing_of(a_run(**changes), NOON).tone == tone
