"""Every combination of marks and title has the status that its weightiest mark says."""

from itertools import product

import pytest

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.providers.base import Marks

WAITING = TerminalStatus.WAITING_USER_ANSWER
PROCESSING = TerminalStatus.PROCESSING
IDLE = TerminalStatus.IDLE
TITLES = (None, WAITING, PROCESSING, IDLE)
EVERY = [(Marks(*marks), told) for marks in product((False, True), repeat=7) for told in TITLES]


def among(
    *, asks: bool | None = None, working: bool | None = None, ready: bool | None = None
) -> list[tuple[Marks, TerminalStatus | None]]:
    """Return the combinations in which a mark is there or not, by screen or title."""
    return [
        (marks, told)
        for marks, told in EVERY
        if asks in (None, marks.asks or told is WAITING)
        and working in (None, marks.working or told is PROCESSING)
        and ready in (None, marks.ready)
    ]


def test_a_question_is_waiting_whatever_else_is_seen() -> None:
    assert {marks.status(told) for marks, told in among(asks=True)} == {WAITING}


def test_work_without_a_question_is_processing() -> None:
    assert {marks.status(told) for marks, told in among(asks=False, working=True)} == {PROCESSING}


def test_without_an_input_box_nothing_can_be_said() -> None:
    unclear = among(asks=False, working=False, ready=False)
    assert {marks.status(told) for marks, told in unclear} == {TerminalStatus.UNKNOWN}


@pytest.mark.parametrize(
    ("interrupted", "failed", "drafted", "replied", "expected"),
    [
        (True, True, False, True, IDLE),
        (True, False, True, True, IDLE),
        (False, True, False, True, TerminalStatus.ERROR),
        (False, True, False, False, TerminalStatus.ERROR),
        (False, True, True, True, IDLE),
        (False, False, False, True, TerminalStatus.COMPLETED),
        (False, False, True, True, TerminalStatus.COMPLETED),
        (False, False, False, False, IDLE),
        (False, False, True, False, IDLE),
    ],
)
def test_at_rest_the_end_of_the_newest_turn_decides(
    interrupted: bool, failed: bool, drafted: bool, replied: bool, expected: TerminalStatus
) -> None:
    for marks, told in among(asks=False, working=False, ready=True):
        if (marks.interrupted, marks.failed, marks.drafted, marks.replied) == (
            interrupted,
            failed,
            drafted,
            replied,
        ):
            assert marks.status(told) is expected
