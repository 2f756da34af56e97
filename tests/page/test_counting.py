"""The tokens of the runs that a page shows: counted beside, from records of agents."""

import asyncio
from pathlib import Path

import pytest

from cli_agent_orchestrator.events import CheckBegan, CheckEnded, TurnBegan, TurnEnded
from cli_agent_orchestrator.page.follow import Counted
from cli_agent_orchestrator.page.stream import Listening, beside
from cli_agent_orchestrator.page.words import run_tokens
from cli_agent_orchestrator.runs.usage import note_records
from cli_agent_orchestrator.runs.view import read_run
from tests.runs.test_usage import claude_call, took
from tests.server.run_rig import NOON, Rig
from tests.server.running import WAIT_SECONDS


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def turn(rig: Rig, sequence: int, role: str, provider: str) -> None:
    at = NOON + 100 * sequence
    rig.happen(
        TurnBegan(at, role, 1, 1, sequence, f"t-{role}", provider),
        TurnEnded(at + 50, role, 1, 1, sequence, "delivered", "there", 4.0, "/a"),
    )


async def test_the_turns_of_all_agents_are_summed_up_once_for_each(
    rig: Rig, tmp_path: Path
) -> None:
    for sequence, role in enumerate(("analyst", "programmer", "analyst"), 1):
        turn(rig, sequence, role, "claude_code")
    rig.happen(
        CheckBegan(NOON + 500, "tests", 1, 4, "make test"),
        CheckEnded(NOON + 501, "tests", 1, 4, "passed", "PASS", 1.0, "/a"),
    )
    for role, at in (("analyst", (110, 310)), ("programmer", (210,))):
        record = tmp_path / f"{role}.jsonl"
        lines = (claude_call(NOON + later, f"{role}{later}") for later in at)
        record.write_bytes(b"".join(line + b"\n" for line in lines))
        note_records(rig.folder, f"t-{role}", [str(record)])
    listening, tokens = Listening(None, asyncio.Event()), Counted(rig.state)
    async with beside(tokens.count(listening)):
        assert tokens.of(read_run(rig.folder)) is None
        assert await listening.wait(WAIT_SECONDS)
        assert tokens.of(read_run(rig.folder)) == run_tokens(took(3), is_whole=True)
        with record.open("ab") as file:
            file.write(claude_call(NOON + 220, "m2") + b"\n")
        assert tokens.of(read_run(rig.folder)) == run_tokens(took(3), is_whole=True)
        turn(rig, 5, "tester", "claude_code")
        tokens.of(read_run(rig.folder))
        assert await listening.wait(WAIT_SECONDS)
        assert tokens.of(read_run(rig.folder)) == run_tokens(took(4), is_whole=False)
