"""The words around a prompt, and what is done first when its turn is taken up."""

from itertools import product
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.handoff.wait import (
    AGAIN,
    Envelope,
    FirstStep,
    ReplySource,
    Sent,
    Situation,
    first_step,
    reminder_for,
)

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


def test_the_usual_reminder_quotes_the_path_for_a_shell() -> None:
    text = reminder_for(Path("/it's here/analyst_summary.md"))
    assert text.startswith("Your reply to the task above has not arrived")
    assert "\nRESPONSE FILE INSTRUCTION\nDo not start the task again." in text
    assert "\ncat > '/it'\"'\"'s here/analyst_summary.md' <<'CAO_RESPONSE_END'\n" in text
    assert text.endswith("\n<your complete final response>\nCAO_RESPONSE_END\n")


def test_the_words_that_are_saved_stay_the_same() -> None:
    assert [*Sent] == ["no", "maybe", "yes", "failed"]
    assert [*ReplySource] == ["file", "output", "archive"]


def test_a_new_prompt_was_never_sent_and_has_the_usual_reminder() -> None:
    assert Envelope("id", 1) == Envelope("id", 1, since=0.0, sent=Sent.NO, reminder="")
