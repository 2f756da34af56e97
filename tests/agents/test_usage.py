"""What real agents write down about their calls is what the model said that they took."""

import asyncio
import math
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.hosting.user import make_token
from cli_agent_orchestrator.runs.usage import note_records, usage_of_turns
from cli_agent_orchestrator.runs.view import Turn
from cli_agent_orchestrator.settings.layout import run_folder, state_folder
from tests.agents.driving import NEWEST, PATIENCE, Driven, Ground, Kind
from tests.agents.team import Team
from tests.agents.test_runs import prepare
from tests.e2e.conftest import Machine, Server
from tests.e2e.runs import FIVE_TURNS, running
from tests.stubs.ledger import Meter, Used
from tests.stubs.script import Request, Run, Script

pytestmark = [pytest.mark.agents, pytest.mark.tmux]

TELL_NO_REASONING = {Kind("claude_code", "2.1.105")}
LOOK_SECONDS = 0.05
WORK = "[[run:echo one]][[run:echo two]][[answer:All is done.]]"
HELPED = "[[run:echo one]][[helpers:{{run:echo sub}}{{answer:It is done.}}]][[answer:So it is.]]"


def total(said: Iterable[Used]) -> dict[str, int | None]:
    """Return what calls took together."""
    calls = [asdict(used) for used in said]
    names = ("input", "cached_input", "output", "reasoning")
    return {name: sum(call[name] for call in calls) for name in names}


@pytest.fixture
def run(tmp_path: Path) -> Folder:
    folder = run_folder(tmp_path / "runs.d", "20261115-084037-k3f9")
    folder.make()
    return folder


class Turns:
    """The turns of one agent, as a run would note them."""

    def __init__(self, driven: Driven, run: Folder) -> None:
        self._driven = driven
        self._run = run

    async def take(self, prompt: str) -> float:
        """Let the agent answer a prompt; return when that began."""
        began = time.time()
        await self._driven.send(prompt)
        end = await self._driven.answered(prompt)
        await self._driven.reached(TerminalStatus.COMPLETED, after=end)
        terminal = self._driven.terminal.id
        note_records(self._run, terminal, self._driven.service.records(terminal))
        return began

    async def took(self, said: Iterable[Used], since: float, until: float = math.inf) -> None:
        """Check what was used in a stretch of time, when all of it is written down."""
        kind, expected = self._driven.kind, total(said)
        if kind in TELL_NO_REASONING:
            expected["reasoning"] = None
        terminal = self._driven.terminal.id
        times = [since] if until == math.inf else [since, until]
        turns = [Turn(n, "tester", 1, 1, kind.agent, terminal, at) for n, at in enumerate(times)]
        deadline = time.monotonic() + PATIENCE
        while True:
            used = usage_of_turns(self._run, turns, None).get(0)
            found = {} if used is None else msgspec.to_builtins(used)
            if found == expected:
                return
            assert time.monotonic() < deadline, (found, expected)
            await asyncio.sleep(LOOK_SECONDS)


async def test_each_turn_took_what_its_calls_took(ground: Ground, run: Folder) -> None:
    async with ground.agent() as driven:
        turns, said = Turns(driven, run), driven.stub.meter.said
        first = await turns.take(WORK)
        calls = len(said)
        second = await turns.take(f"again {WORK}")
        await turns.took(said[:calls], first, second)
        await turns.took(said[calls:], second)
        assert calls == len(said) - calls == 3


@pytest.mark.parametrize("kind", NEWEST, ids=str)
async def test_sub_agents_belong_to_the_turn(ground: Ground, run: Folder) -> None:
    async with ground.agent() as driven:
        turns, said = Turns(driven, run), driven.stub.meter.said
        began = await turns.take(HELPED)
        await driven.answered("[[agent:helper1]] [[run:echo sub]][[answer:It is done.]]")
        await turns.took(said, began)
        assert len(said) >= 5


class Metered(Team):
    """A team that notes which call of all was the first of each turn."""

    def __init__(self) -> None:
        super().__init__()
        self.meter = Meter()
        self.starts: list[int] = []

    def __call__(self, request: Request) -> Script:
        self.starts.append(len(self.meter.said))
        return super().__call__(request)

    def by_turn(self) -> list[dict[str, int | None]]:
        """Return what each turn took."""
        ends = [*self.starts[1:], len(self.meter.said)]
        said = self.meter.said
        return [total(said[start:end]) for start, end in zip(self.starts, ends, strict=True)]


def turns_of(server: Server, machine: Machine, run: str) -> list[Any]:
    """Return the first five turns of a run, as the server shows them."""
    headers = {"Authorization": f"Bearer {make_token(state_folder(machine.env))}"}
    with httpx.Client(base_url=server.url, headers=headers, trust_env=False) as client:
        return [client.get(f"/runs/{run}/turns/{number}").json() for number in range(1, 6)]


@pytest.mark.parametrize("kind", NEWEST, ids=str)
def test_a_run_tells_what_each_turn_took(machine: Machine, kind: Kind) -> None:
    team = Metered()
    team.programmer_runs(Run("echo hello"))
    with kind.manners.stub(team) as model:
        team.meter = model.meter
        prepare(machine, {kind: model.url})
        machine.env |= {"PROVIDER": kind.agent, "AGENT_PERMISSIONS": "full"}
        with machine.server() as server, running(machine, "task.md") as run:
            assert run.end() == 0, run.errors
            told = turns_of(server, machine, run.events[0]["run"])
    assert [turn["role"] for turn in told] == FIVE_TURNS
    assert [turn["usage"] for turn in told] == team.by_turn()
