"""What counts as a mistake, on timelines that are made up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.models import TerminalStatus
from tests.agents.accuracy.score import Mistake, Score, Span, Told, Truth, score, score_all

IDLE = TerminalStatus.IDLE
COMPLETED = TerminalStatus.COMPLETED
PROCESSING = TerminalStatus.PROCESSING
WAITING = TerminalStatus.WAITING_USER_ANSWER
ERROR = TerminalStatus.ERROR

TURN = Truth(sent=10, end=20, rest=COMPLETED, until=25)
QUESTION = Truth(sent=10, end=20, rest=COMPLETED, until=25, asks=Span(12, 15))
RIGHT = [Told(0, IDLE), Told(9.9, PROCESSING), Told(20.5, COMPLETED)]
RIGHT_QUESTION = [*RIGHT[:2], Told(12.25, WAITING), Told(15.5, PROCESSING), *RIGHT[2:]]


def mistakes(truth: Truth, *told: Told, grace: float = 0.0) -> set[Mistake]:
    return set(score(truth, sorted(told, key=lambda entry: entry.at), grace).mistakes)


def test_what_is_told_rightly_has_no_mistake_and_a_delay_and_a_question_two() -> None:
    assert score(TURN, RIGHT) == Score(delay=0.5)
    assert score(QUESTION, RIGHT_QUESTION) == Score(delay=0.5, asked_delay=0.25)


LATE = [Told(0, IDLE), Told(10.3, PROCESSING), Told(20.5, COMPLETED)]
QUICK = Truth(sent=10, end=10.1, rest=COMPLETED, until=10.4)
FAILED = Truth(sent=10, end=20, rest=ERROR, until=25)


@pytest.mark.parametrize(
    ("truth", "told", "expected"),
    [
        # Anything else in the middle of work, however short.
        *(
            (TURN, [*RIGHT, Told(15, status), Told(15.001, PROCESSING)], {mistake})
            for status, mistake in (
                (COMPLETED, Mistake.FALSE_FINISHED),
                (IDLE, Mistake.FALSE_IDLE),
                (ERROR, Mistake.FALSE_FAILED),
                (WAITING, Mistake.FALSE_WAITING),
                (TerminalStatus.UNKNOWN, Mistake.UNKNOWN),
            )
        ),
        # What was told before the message counts until something else is told.
        (TURN, LATE, {Mistake.FALSE_IDLE}),
        # An end that is told too early, a failed turn that is called finished, an end never told.
        (TURN, [*RIGHT[:2], Told(19, COMPLETED)], {Mistake.FALSE_FINISHED}),
        (FAILED, [*RIGHT[:2], Told(20.1, COMPLETED), Told(20.4, ERROR)], {Mistake.FALSE_FINISHED}),
        (TURN, RIGHT[:2], {Mistake.MISSED_END}),
        (QUICK, [Told(0, IDLE), Told(10.2, COMPLETED)], {Mistake.FALSE_IDLE}),
        # Work after the end.
        (TURN, [*RIGHT, Told(21, PROCESSING), Told(22, COMPLETED)], {Mistake.FALSE_WORKING}),
        # A question: not told, taken back, taken back and told again, told after its answer.
        (QUESTION, RIGHT, {Mistake.MISSED_WAITING}),
        (
            QUESTION,
            [*RIGHT[:2], Told(13, WAITING), Told(14, PROCESSING), RIGHT[2]],
            {Mistake.MISSED_WAITING},
        ),
        (
            QUESTION,
            [*RIGHT_QUESTION, Told(13, PROCESSING), Told(13.5, WAITING)],
            {Mistake.FALSE_WORKING},
        ),
        (
            QUESTION,
            [*RIGHT_QUESTION, Told(17, WAITING), Told(18, PROCESSING)],
            {Mistake.FALSE_WAITING},
        ),
        # An answer takes a moment to be told, and not longer.
        (QUESTION, [*RIGHT_QUESTION[:3], Told(17.4, PROCESSING), RIGHT[2]], set()),
        (QUESTION, [*RIGHT_QUESTION[:3], RIGHT[2]], {Mistake.FALSE_WAITING}),
        # Of two at the same moment the second holds from then on.
        (TURN, [*RIGHT[:2], Told(20, IDLE), Told(20, COMPLETED)], set()),
        (TURN, [*RIGHT, Told(20.5, IDLE)], {Mistake.FALSE_IDLE}),
    ],
)
def test_a_mistake_has_its_name(truth: Truth, told: list[Told], expected: set[Mistake]) -> None:
    assert mistakes(truth, *told) == expected


def test_within_the_grace_only_the_end_counts() -> None:
    assert mistakes(TURN, *LATE, grace=0.5) == set()
    assert mistakes(QUICK, Told(0, IDLE), Told(10.2, COMPLETED), grace=0.5) == set()
    assert mistakes(QUICK, Told(0, IDLE), grace=0.5) == {Mistake.MISSED_END}


def test_a_turn_has_the_mistakes_of_what_came_before_it_and_a_delay_of_its_own() -> None:
    before = Truth(sent=1, end=2, rest=COMPLETED, until=3)
    assert score_all([before, TURN], RIGHT).mistakes == {Mistake.FALSE_IDLE, Mistake.MISSED_END}
    assert score_all([before, TURN], RIGHT).delay == 0.5


def test_a_turn_that_is_over_before_its_sending_is_confirmed_is_judged_by_its_end() -> None:
    quick = Truth(sent=10.5, end=10, rest=COMPLETED, until=12)
    assert score(quick, [Told(0, IDLE), Told(9.9, PROCESSING), Told(10.25, COMPLETED)]) == Score(
        delay=0.25
    )


def test_a_turn_that_begins_and_ends_while_it_is_sent_is_not_told_twice() -> None:
    quick = Truth(sent=10.5, end=10, rest=COMPLETED, until=12)
    story = [Told(0, COMPLETED), Told(10.25, PROCESSING), Told(10.26, COMPLETED)]
    assert mistakes(quick, *story) == set()


# Half seconds, so that a turn's begin and end are often hit; one telling at a time, as in a log.
MOMENTS = st.integers(0, 60).map(lambda halves: halves / 2)


@given(
    st.lists(
        st.builds(Told, MOMENTS, st.sampled_from(list(TerminalStatus))),
        max_size=12,
        unique_by=lambda entry: entry.at,
    )
)
def test_only_the_right_story_is_without_mistake(told: list[Told]) -> None:
    told.sort(key=lambda entry: entry.at)
    before = [entry.status for entry in told if entry.at <= 10][-1:]
    during = [entry.status for entry in told if 10 < entry.at < 20]
    after = [entry.status for entry in told if 20 <= entry.at < 25]
    works = before == [PROCESSING] and set(during) <= {PROCESSING}
    while after and after[0] is PROCESSING:
        after.pop(0)
    if score(TURN, told).mistakes:
        assert not (works and after and set(after) == {COMPLETED})
    else:
        assert set(before + during) <= {PROCESSING}
        assert set(after) == {COMPLETED}
