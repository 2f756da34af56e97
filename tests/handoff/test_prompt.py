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
    first_step,
    reminder_for,
)

ERROR = TerminalStatus.ERROR
AT_WORK = {TerminalStatus.PROCESSING, TerminalStatus.WAITING_USER_ANSWER}


@pytest.mark.parametrize(
    ("status", "responded", "knows_keys"),
    list(product(TerminalStatus, (True, False), (True, False))),
)
def test_the_first_step_of_a_turn(
    status: TerminalStatus, responded: bool, knows_keys: bool
) -> None:
    steps = {sent: first_step(sent, status, responded, knows_keys) for sent in Sent}
    assert steps[Sent.NO] is FirstStep.SEND
    if status is ERROR:
        assert {steps[sent] for sent in Sent if sent is not Sent.NO} == {FirstStep.ASK_AGAIN}
        return
    is_found_by_a_look = responded or status in AT_WORK
    by_a_look = FirstStep.WAIT if is_found_by_a_look else FirstStep.ASK_AGAIN
    assert steps[Sent.YES] is FirstStep.WAIT
    assert steps[Sent.FAILED] is by_a_look
    assert steps[Sent.MAYBE] is (FirstStep.SEND if knows_keys and not responded else by_a_look)


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
