"""The tokens of the runs that a page shows: counted beside, from records of agents."""

import asyncio
from pathlib import Path

import pytest

from cli_agent_orchestrator.events import CheckBegan, CheckEnded, RunEnded, TurnBegan, TurnEnded
from cli_agent_orchestrator.page.follow import Counted
from cli_agent_orchestrator.page.stream import Listening, beside
from cli_agent_orchestrator.page.words import RunTokens
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


async def counted(rig: Rig) -> RunTokens | None:
    """Return what becomes known; nothing is at first."""
    listening = Listening(None, asyncio.Event())
    tokens = Counted(rig.state)
    async with beside(tokens.count(listening)):
        run = read_run(rig.folder)
        assert tokens.of(run) is None
        assert await listening.wait(WAIT_SECONDS)
        return tokens.of(run)


async def test_the_turns_of_all_agents_are_summed_up(rig: Rig, tmp_path: Path) -> None:
    for sequence, role in enumerate(("analyst", "programmer", "analyst"), 1):
        turn(rig, sequence, role, "claude_code")
    rig.happen(
        CheckBegan(NOON + 500, "tests", 1, 4, "make test"),
        CheckEnded(NOON + 501, "tests", 1, 4, "passed", "PASS", 1.0, "/a"),
        RunEnded(NOON + 900, "PASS", 1, 0),
    )
    for role, at in (("analyst", (110, 310)), ("programmer", (210,))):
        record = tmp_path / f"{role}.jsonl"
        lines = (claude_call(NOON + later, f"{role}{later}") for later in at)
        record.write_bytes(b"".join(line + b"\n" for line in lines))
        note_records(rig.folder, f"t-{role}", [str(record)])

    assert await counted(rig) == RunTokens(took(3), is_whole=True)


async def test_what_one_agent_does_not_tell_makes_it_at_least(rig: Rig, tmp_path: Path) -> None:
    turn(rig, 1, "analyst", "claude_code")
    turn(rig, 2, "programmer", "gemini_cli")
    record = tmp_path / "analyst.jsonl"
    record.write_bytes(claude_call(NOON + 110, "m1") + b"\n")
    note_records(rig.folder, "t-analyst", [str(record)])

    assert await counted(rig) == RunTokens(took(1), is_whole=False)


async def test_a_run_is_counted_once_for_each_of_its_turns(rig: Rig, tmp_path: Path) -> None:
    turn(rig, 1, "analyst", "claude_code")
    record = tmp_path / "analyst.jsonl"
    record.write_bytes(claude_call(NOON + 110, "m1") + b"\n")
    note_records(rig.folder, "t-analyst", [str(record)])
    listening = Listening(None, asyncio.Event())
    tokens = Counted(rig.state)
    async with beside(tokens.count(listening)):
        tokens.of(read_run(rig.folder))
        assert await listening.wait(WAIT_SECONDS)
        with record.open("ab") as file:
            file.write(claude_call(NOON + 210, "m2") + b"\n")
        assert tokens.of(read_run(rig.folder)) == RunTokens(took(1), is_whole=True)
        turn(rig, 2, "programmer", "claude_code")
        tokens.of(read_run(rig.folder))
        assert await listening.wait(WAIT_SECONDS)
        assert tokens.of(read_run(rig.folder)) == RunTokens(took(2), is_whole=False)
