"""Which events are worth a notice, and what it says."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.events import (
    CheckEnded,
    EventKind,
    NotConverging,
    Paused,
    RunEnded,
    RunEvent,
    RunOpened,
    TurnBegan,
    Unpaused,
)
from cli_agent_orchestrator.notices.decide import (
    FLICKER_SECONDS,
    LONGEST_NAME,
    MOST_CHARACTERS,
    NoticeKind,
    Noticing,
    RunNotice,
    example,
)
from tests.cli.run_events import NOON, a_whole_run, ended, events, handoff

RUN = "20261115-084037-k3f9"
OPENED = RunOpened(NOON, RUN, "/home/ada/shop")
BEGAN = TurnBegan(NOON, "programmer", 1, 1, 3, "t1", "codex")
ASKS = replace(handoff(EventKind.WAITING_FOR_PERSON, "cao attach x"), question="Run `rm -r x`?")
WORKS = handoff(EventKind.STATUS, status=TerminalStatus.PROCESSING)


def told(*given: RunEvent) -> list[RunNotice]:
    """Return the notices of some events, one after another."""
    noticing = Noticing()
    return [notice for event in given if (notice := noticing.hear(event)) is not None]


def kinds(notices: Sequence[RunNotice]) -> list[str]:
    return [str(notice.kind) for notice in notices]


def later(event: RunEvent, seconds: float) -> RunEvent:
    return replace(event, at=event.at + seconds)


def test_a_question_is_told_with_its_words() -> None:
    (notice,) = told(OPENED, BEGAN, ASKS)
    text = "programmer asks: Run `rm -r x`?"
    assert notice == RunNotice(NoticeKind.NEEDS_YOU, "shop: needs you", text, RUN, "shop", ASKS.at)
    assert notice.urgent


def test_a_question_without_words_is_told_all_the_same() -> None:
    (notice,) = told(OPENED, replace(ASKS, question=""))
    assert notice.text == "programmer asks you"


def test_a_question_that_flickers_is_told_once() -> None:
    back = FLICKER_SECONDS - 0.1
    assert len(told(OPENED, BEGAN, ASKS, WORKS, later(ASKS, back), later(WORKS, back + 1))) == 1
    assert len(told(OPENED, BEGAN, ASKS, ASKS)) == 1


def test_the_same_question_after_some_work_is_another() -> None:
    again = later(ASKS, FLICKER_SECONDS)
    assert len(told(OPENED, BEGAN, ASKS, WORKS, again)) == 2
    # It counts from when the question was gone, whatever the agent did since.
    assert len(told(OPENED, BEGAN, ASKS, WORKS, later(WORKS, 2), again)) == 2
    waits = handoff(EventKind.STATUS, status=TerminalStatus.WAITING_USER_ANSWER)
    assert len(told(OPENED, BEGAN, ASKS, waits, again)) == 1


def test_three_seconds_are_no_flicker() -> None:
    assert len(told(OPENED, BEGAN, ASKS, WORKS, later(ASKS, 2.9))) == 1
    assert len(told(OPENED, BEGAN, ASKS, WORKS, later(ASKS, 3))) == 2


def test_another_question_another_agent_or_another_turn_is_told() -> None:
    assert len(told(OPENED, ASKS, replace(ASKS, question="And y?"))) == 2
    assert len(told(OPENED, ASKS, replace(ASKS, terminal_id="other"))) == 2
    assert len(told(OPENED, ASKS, BEGAN, ASKS)) == 2
    assert len(told(OPENED, ASKS, ended("programmer", "delivered"), ASKS)) == 2


def test_each_cause_of_circling_is_told_once() -> None:
    first, second = NotConverging(NOON, "Round 3 is as 2."), NotConverging(NOON, "And 4.")
    found = told(OPENED, first, first, second)
    assert kinds(found) == ["not_converging", "not_converging"]
    assert (found[0].title, found[0].text) == ("shop: does not converge", "Round 3 is as 2.")
    assert found[0].urgent


def test_a_pause_and_its_end_are_told() -> None:
    paused, resumed = told(OPENED, Paused(NOON + 1), Unpaused(NOON + 2))
    assert (paused.kind, paused.title, paused.at) == (NoticeKind.PAUSED, "shop: paused", NOON + 1)
    assert paused.text == "It waits until you let it go on: cao resume"
    assert (resumed.kind, resumed.text) == (NoticeKind.RESUMED, "It goes on.")
    assert not paused.urgent
    assert not resumed.urgent


@pytest.mark.parametrize(
    ("event", "kind", "text"),
    [
        (RunEnded(NOON, "PASS", 2, 0), "pass", "It passed in round 2"),
        (
            RunEnded(NOON, "PASS", 2, 0, proof="proven: 3 tests"),
            "pass",
            "It passed in round 2; proven: 3 tests",
        ),
        (RunEnded(NOON, "FAIL", 8, 1), "fail", "It failed in round 8"),
        (RunEnded(NOON, "RUNNING", 1, 3, "gone"), "stopped", "It stopped in round 1; gone"),
        (RunEnded(NOON, "RUNNING", 0, 3), "stopped", "It stopped"),
    ],
)
def test_an_end_is_told_by_its_verdict(event: RunEnded, kind: str, text: str) -> None:
    (notice,) = told(OPENED, event)
    assert (str(notice.kind), notice.text) == (kind, text)
    assert notice.urgent is (kind == "stopped")


def test_a_run_that_never_had_an_id_tells_nothing() -> None:
    assert told(RunEnded(NOON, "RUNNING", 0, 2, "no task")) == []


def test_a_fail_says_what_was_said_last_against_the_work() -> None:
    fail = RunEnded(NOON, "FAIL", 8, 1)
    sent_back = ended("tester", "failed", "FAIL", "No rounding")
    assert told(OPENED, sent_back, fail)[0].text == "It failed in round 8; tester: No rounding"
    gate = CheckEnded(NOON, "tests", 1, 4, "failed", "", 1.0, "/a", why="2 failed")
    assert told(OPENED, sent_back, gate, fail)[0].text == "It failed in round 8; tests: 2 failed"
    passed = ended("tester", "passed")
    assert told(OPENED, sent_back, passed, fail)[0].text == "It failed in round 8"


def test_a_run_that_is_resumed_begins_anew_and_repeats_nothing() -> None:
    before = [*a_whole_run(), ASKS, NotConverging(NOON, "circles")]
    resumed = replace(OPENED, resumed=True)
    assert told(*before, resumed, BEGAN)[len(told(*before)) :] == []


def test_a_project_goes_by_its_name_and_other_paths_by_their_end() -> None:
    opened = RunOpened(NOON, RUN, "/state/worktrees/k3f9", project="/home/ada/shop")
    asks = replace(
        ASKS,
        question="Edit /home/ada/shop/a.py, /state/worktrees/k3f9/b.py, ~/x/key and /home/ada/z? "
        "/tmp http://x/a/b and/or 1/2/3",
    )
    (notice,) = told(opened, asks)
    assert notice.folder == "shop"
    assert notice.text == (
        "programmer asks: Edit shop/a.py, shop/b.py, …/key and …/z? /tmp http://x/a/b and/or 1/2/3"
    )


@pytest.mark.parametrize("name", [r"shop\x", r"shop\1", r"\g<0>"])
def test_a_name_may_have_a_backslash(name: str) -> None:
    asks = replace(ASKS, question=f"Edit /home/ada/{name}/a.py?")
    (notice,) = told(RunOpened(NOON, RUN, f"/home/ada/{name}"), asks)
    assert notice.text == f"programmer asks: Edit {name}/a.py?"


TOKEN = "ghp_" + "k3f9" * 9


def test_what_looks_like_a_secret_is_masked_wherever_it_comes_from() -> None:
    asks = replace(ASKS, question=f"Run `curl -H 'Authorization: token {TOKEN}'`?")
    against = ended("tester", "failed", "FAIL", f"{TOKEN} is in a.py")
    for text in [
        told(OPENED, asks)[0].text,
        told(OPENED, NotConverging(NOON, f"Round 3 has {TOKEN} too."))[0].text,
        told(OPENED, against, RunEnded(NOON, "FAIL", 8, 1))[0].text,
        told(OPENED, RunEnded(NOON, "RUNNING", 1, 3, f"no {TOKEN}"))[0].text,
    ]:
        assert "(masked)" in text
        assert "k3f9" not in text
    (notice,) = told(RunOpened(NOON, RUN, f"/home/ada/{TOKEN}"), ASKS)
    assert (notice.title, notice.folder) == ("(masked): needs you", "(masked)")


def test_a_secret_is_masked_before_a_path_or_the_end_of_the_line_cuts_it() -> None:
    cut = replace(ASKS, question=f"{'a ' * 87}{TOKEN}")
    assert told(OPENED, cut)[0].text.endswith("a (masked)")
    key = replace(ASKS, question="Use token = /k3f9/k3f9+k3f9k3f9 here?")
    assert told(OPENED, key)[0].text == "programmer asks: Use token = (masked) here?"


def test_a_tree_within_the_project_goes_by_its_name_too() -> None:
    opened = RunOpened(NOON, RUN, "/home/ada/shop/trees/k3f9", project="/home/ada/shop")
    (notice,) = told(opened, replace(ASKS, question="Edit /home/ada/shop/trees/k3f9/a.py?"))
    assert notice.text == "programmer asks: Edit shop/a.py?"


def test_the_root_is_no_name() -> None:
    (notice,) = told(RunOpened(NOON, RUN, "/"), replace(ASKS, question="Edit / or /a?"))
    assert notice.text == "programmer asks: Edit / or /a?"


def test_a_run_without_a_folder_is_one_of_cao() -> None:
    (notice,) = told(ASKS)
    assert (notice.title, notice.folder, notice.run) == ("cao: needs you", "", "")


def test_kinds_have_the_words_that_configurations_have_for_them() -> None:
    assert [str(kind) for kind in NoticeKind] == [
        *("needs_you", "paused", "resumed", "pass", "fail", "stopped", "not_converging"),
    ]


def test_only_what_the_user_wants_is_told() -> None:
    noticing = Noticing({NoticeKind.PASS})
    assert noticing.hear(OPENED) is None
    assert noticing.hear(ASKS) is None
    assert noticing.hear(RunEnded(NOON, "PASS", 2, 0)) is not None


@pytest.mark.parametrize("kind", NoticeKind)
def test_an_example_says_that_it_is_one(kind: NoticeKind) -> None:
    notice = example(kind, 3.0)
    assert (notice.kind, notice.at, notice.run, notice.folder) == (kind, 3.0, "", "cao")
    assert notice.title.startswith("cao: ")
    assert notice.text.startswith("This is a test of the notice '")


@given(st.lists(events, max_size=12))
def test_a_notice_is_a_short_line_that_no_terminal_obeys(given: list[RunEvent]) -> None:
    for notice in told(OPENED, *given):
        assert len(notice.text) <= MOST_CHARACTERS
        assert len(notice.title) <= LONGEST_NAME + 30
        for text in (notice.title, notice.text, notice.folder):
            assert text.isprintable()


@given(st.lists(events, max_size=12))
def test_the_same_event_twice_is_never_told_twice(given: list[RunEvent]) -> None:
    noticing = Noticing()
    for event in given:
        noticing.hear(event)
        # A run tells each of these once.
        if not isinstance(event, Paused | Unpaused | RunEnded):
            assert noticing.hear(event) is None


@given(st.lists(st.sampled_from([ASKS, WORKS]), min_size=1, max_size=40))
def test_a_question_that_flickers_however_often_is_one_notice(given: list[RunEvent]) -> None:
    first = RunOpened(NOON, RUN, "/p")
    quick = [replace(event, at=NOON + step / 100) for step, event in enumerate(given)]
    assert len(told(first, BEGAN, *quick)) == (ASKS in given)
