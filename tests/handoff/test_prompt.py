"""What is done first when a turn is taken up: every situation there is."""

from itertools import product

import pytest

from cli_agent_orchestrator.handoff.prompt import AGAIN, FirstStep, Sent, Situation, first_step
from cli_agent_orchestrator.models import TerminalStatus

ALL = [
    Situation(sent, status, responded, knows_keys)
    for sent, status, responded, knows_keys in product(
        Sent, TerminalStatus, (True, False), (True, False)
    )
]
ERROR = TerminalStatus.ERROR
AT_WORK = {TerminalStatus.PROCESSING, TerminalStatus.WAITING_USER_ANSWER}


def situations(*sent: Sent) -> list[Situation]:
    return [seen for seen in ALL if seen.sent in sent]


@pytest.mark.parametrize("seen", situations(Sent.NO))
def test_what_was_never_sent_is_sent(seen: Situation) -> None:
    assert first_step(seen) is FirstStep.SEND


@pytest.mark.parametrize("seen", situations(Sent.YES))
def test_what_was_sent_is_waited_for_unless_its_turn_has_failed(seen: Situation) -> None:
    assert first_step(seen) is (FirstStep.ASK_AGAIN if seen.status is ERROR else FirstStep.WAIT)


@pytest.mark.parametrize("seen", situations(Sent.MAYBE))
def test_what_may_have_been_sent_is_found_out(seen: Situation) -> None:
    if seen.status is ERROR:
        expected = FirstStep.ASK_AGAIN
    elif seen.responded:
        expected = FirstStep.WAIT
    elif seen.knows_keys:
        expected = FirstStep.SEND
    else:
        expected = FirstStep.WAIT if seen.status in AT_WORK else FirstStep.ASK_AGAIN
    assert first_step(seen) is expected


@pytest.mark.parametrize("seen", situations(Sent.FAILED))
def test_what_failed_is_asked_again_unless_somebody_made_it_go_on(seen: Situation) -> None:
    goes_on = seen.status is not ERROR and (seen.responded or seen.status in AT_WORK)
    assert first_step(seen) is (FirstStep.WAIT if goes_on else FirstStep.ASK_AGAIN)


def test_who_is_asked_again_is_told_that_nothing_is_to_be_done_twice() -> None:
    assert "may have had this message before" in AGAIN
    assert AGAIN.endswith("do nothing twice.\n\n")
