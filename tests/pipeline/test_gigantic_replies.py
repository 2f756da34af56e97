"""Replies of many megabytes: they are judged as a whole, and the state stays small."""

from pathlib import PurePosixPath

import pytest

from cli_agent_orchestrator.core.files import LARGEST_FILE
from cli_agent_orchestrator.core.models import MESSAGE_LIMIT
from cli_agent_orchestrator.pipeline.prompts import Briefing, build_prompt
from cli_agent_orchestrator.pipeline.reply import LONGEST_REPLY
from cli_agent_orchestrator.pipeline.state import FinalStatus, encode_state
from cli_agent_orchestrator.pipeline.task import parse_task
from cli_agent_orchestrator.settings.config import Condensation
from tests.pipeline.samples import TASK_TEXT, new_state
from tests.pipeline.test_machine import REVISE, SHORT, at_tester, due, reply


@pytest.mark.parametrize("filler", ["x" * 9_000_000, "a line\n" * 200_000, "é" * 900_000])
def test_of_a_gigantic_reply_its_two_ends_are_kept(filler: str) -> None:
    state = reply(new_state(), f"the beginning\n{filler}\nthe end")
    kept = state.outputs["analyst"].text
    assert len(kept.encode()) < LONGEST_REPLY + 200
    assert kept.startswith("the beginning\n")
    assert kept.endswith("\nthe end")
    assert " bytes were left out here; the whole reply is in /archive/001.md)\n" in kept


def test_the_verdict_of_a_gigantic_reply_is_that_of_the_whole() -> None:
    filler = "x\n" * LONGEST_REPLY
    state = reply(at_tester(), f"{filler}```\n{filler}RESULT: PASS")
    assert state.final_status is FinalStatus.RUNNING


def test_a_run_of_gigantic_replies_can_be_sent_saved_and_read_again() -> None:
    state = new_state()
    briefing = Briefing(parse_task(TASK_TEXT), PurePosixPath("/responses"), Condensation())
    for _ in range(3):
        state = reply(state, "\x7fé" * 1_000_000 + f"\n{REVISE}", SHORT)
        prompt = build_prompt(due(state), state, briefing)
        assert len(prompt.encode()) < MESSAGE_LIMIT
    assert len(encode_state(state)) < LARGEST_FILE
