"""Which events are worth a notice, and what it says."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

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
    TerminalWay,
    signal_of,
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
    # Neither its words nor the folder of the run need be known.
    (notice,) = told(replace(ASKS, question=""))
    assert (notice.title, notice.text, notice.folder) == (
        "cao: needs you",
        "programmer asks you",
        "",
    )


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


def test_another_question_another_agent_or_another_turn_is_told() -> None:
    assert len(told(OPENED, ASKS, replace(ASKS, question="And y?"))) == 2
    assert len(told(OPENED, ASKS, replace(ASKS, terminal_id="other"))) == 2
    assert len(told(OPENED, ASKS, BEGAN, ASKS)) == 2
    assert len(told(OPENED, ASKS, ended("programmer", "delivered"), ASKS)) == 2


def test_each_cause_of_circling_is_told_once() -> None:
    first, second = NotConverging(NOON, "Round 3 is as 2."), NotConverging(NOON, "And 4.")
    found = told(OPENED, first, first, second)
    assert kinds(found) == ["not_converging", "not_converging"]
    assert (found[0].title, found[0].text) == ("shop: not converging", "Round 3 is as 2.")
    assert found[0].urgent


def test_a_pause_and_its_end_are_told() -> None:
    paused, resumed = told(OPENED, Paused(NOON + 1), Unpaused(NOON + 2))
    assert (paused.kind, paused.title, paused.at) == (NoticeKind.PAUSED, "shop: paused", NOON + 1)
    assert paused.text == "It waits until you let it go on: cao resume"
    assert (resumed.kind, resumed.text) == (NoticeKind.RESUMED, "It goes on.")
    assert not paused.urgent
    assert not resumed.urgent


@pytest.mark.parametrize(
    ("final", "round", "more", "kind", "text"),
    [
        ("PASS", 2, {}, "pass", "It passed in round 2"),
        ("PASS", 2, {"proof": "proven: 3 tests"}, "pass", "It passed in round 2; proven: 3 tests"),
        ("FAIL", 8, {}, "fail", "It failed in round 8"),
        ("RUNNING", 1, {"reason": "gone"}, "stopped", "It stopped in round 1; gone"),
        ("RUNNING", 0, {}, "stopped", "It stopped"),
    ],
)
def test_an_end_is_told_by_its_verdict(
    final: str, round: int, more: dict[str, str], kind: str, text: str
) -> None:
    event = replace(RunEnded(NOON, final, round, 3), **more)
    (notice,) = told(OPENED, event)
    assert (str(notice.kind), notice.text) == (kind, text)
    assert notice.urgent is (kind == "stopped")
    assert told(event) == [], "a run that never had an id tells nothing"
    unwanted = Noticing({*NoticeKind} - {notice.kind})
    assert [unwanted.hear(one) for one in (OPENED, event)] == [None, None]


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
    (notice,) = told(RunOpened(NOON, RUN, "/"), replace(ASKS, question="Edit / or /a?"))
    assert notice.text == "programmer asks: Edit / or /a?"
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


@given(st.lists(events, max_size=12))
def test_a_notice_is_a_short_line_that_no_terminal_obeys(given: list[RunEvent]) -> None:
    for notice in told(OPENED, *given):
        assert len(notice.text) <= MOST_CHARACTERS
        assert len(notice.title) <= LONGEST_NAME + 30
        for text in (notice.title, notice.text, notice.folder):
            assert text.isprintable()


@pytest.mark.parametrize(
    ("way", "text"),
    [
        ("bell", "\a"),
        ("osc9", "\x1b]9;a;b: PASS: It passed; proven\a"),
        ("osc777", "\x1b]777;notify;a,b: PASS;It passed; proven\a"),
        ("off", ""),
    ],
)
def test_each_terminal_has_its_sequence(way: TerminalWay, text: str) -> None:
    notice = RunNotice(NoticeKind.PASS, "a;b: PASS", "It passed; proven", "k3f9", "a;b", 1.0)
    assert signal_of(notice, way) == text
