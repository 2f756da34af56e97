"""A run that kills itself at a chosen point: `killed_run.py CHECKPOINT ROLE`, in the project.

It is put together as `cao run` does it, from the same parts, with a client and a listener that
know when to die. SIGKILL: nothing is caught, saved, flushed or cleaned up.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cli_agent_orchestrator.cli.interrupts import Interrupts
from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.client.find import Found
from cli_agent_orchestrator.core.models import Delivery, TerminalStatus
from cli_agent_orchestrator.events import (
    EventKind,
    HandoffEvent,
    RunBegan,
    RunEvent,
    TurnBegan,
    TurnEnded,
)
from cli_agent_orchestrator.hosting.connect import run_own_server
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow
from cli_agent_orchestrator.runs.request import Environment, build_request
from cli_agent_orchestrator.runs.run import Conductor
from cli_agent_orchestrator.settings.config import RunConfig
from cli_agent_orchestrator.settings.layout import state_folder

CHECKPOINTS = (
    "before dispatch",
    "after delivery",
    "after dispatch",
    "while the agent works",
    "after the file",
    "after archiving",
    "after saving",
)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def checkpoint_of(event: RunEvent, role: str) -> str:
    """Name the point that an event of a role's turn stands for."""
    match event:
        case TurnBegan() if event.role == role:
            return "before dispatch"
        case TurnEnded() if event.role == role:
            return "after saving"
        case HandoffEvent(kind=EventKind.DISPATCHED) if event.role == role:
            return "after dispatch"
        case HandoffEvent(status=TerminalStatus.PROCESSING) if event.role == role:
            return "while the agent works"
        case HandoffEvent(kind=EventKind.FILE_SEEN) if event.role == role:
            return "after the file"
        case HandoffEvent(kind=EventKind.ACCEPTED) if event.role == role:
            return "after archiving"
    return ""


class MortalClient(ApiClient):
    """A client that dies when a prompt was delivered, before anybody can note it."""

    doomed_terminal = ""

    def send_input(
        self, terminal_id: str, message: str, *, idempotency_key: str | None = None
    ) -> Delivery:
        delivery = super().send_input(terminal_id, message, idempotency_key=idempotency_key)
        if terminal_id == self.doomed_terminal:
            die()
        return delivery


def main(checkpoint: str, role: str) -> None:
    @contextmanager
    def connect(
        config: RunConfig, warn: Callable[[str], None]
    ) -> Iterator[tuple[ApiClient, Found]]:
        with run_own_server(os.environ) as own:
            wd = str(config.wd)
            yield MortalClient(own.url, working_directory=wd, transport=own.transport), own

    def on_event(event: RunEvent) -> None:
        if isinstance(event, RunBegan) and checkpoint == "after delivery":
            MortalClient.doomed_terminal = event.terminals[role]
        if checkpoint_of(event, role) == checkpoint:
            die()

    given = Environment(
        on_event,
        Interrupts(),
        connect,
        state_folder(os.environ),
        os.environ,
        lambda named, folder: packaged_flow(named),
        check_agents=lambda names, wd: None,
        is_watched=lambda session: False,
    )
    with Conductor(build_request({"PROMPT_FILE": "task.md"}, os.environ), given) as conductor:
        conductor.run()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
