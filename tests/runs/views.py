"""Runs and turns as they are shown, with whatever a test wants of them."""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from cli_agent_orchestrator.events import RunEvent
from cli_agent_orchestrator.runs.record import RunStatus
from cli_agent_orchestrator.runs.view import RunView, Turn, fold

NOON = 1_700_000_000.0
RUN = "20261115-084037-k3f9"


# Any: fields of a dataclass
def a_run(**changes: Any) -> RunView:
    """Return a run in its second round, whose programmer works."""
    run = RunView(
        id=RUN,
        wd="/home/ada/shop",
        state_file="/home/ada/shop/.tmp/state.json",
        task="Fix the discount\n\nAll of it.",
        task_line="Fix the discount",
        started=NOON - 600,
        status=RunStatus.RUNNING,
        round=2,
        role="programmer",
        providers={"analyst": "codex", "programmer": "claude_code"},
        terminals={"analyst": "a1", "programmer": "p1"},
    )
    return replace(run, **changes)


# Any: fields of a dataclass
def a_turn(sequence: int, **changes: Any) -> Turn:
    turn = Turn(
        sequence=sequence,
        role="analyst",
        round=1,
        cycle=1,
        provider="codex",
        terminal_id="a1",
        began=NOON - 500,
        ended=NOON - 400,
        seconds=90.0,
        outcome="delivered",
        detail="summary received",
        verdict="summary received",
    )
    return replace(turn, **changes)


def turns_of(events: Iterable[RunEvent], status: RunStatus = RunStatus.RUNNING) -> list[Turn]:
    return [*fold(a_run(status=status), events).turns]
