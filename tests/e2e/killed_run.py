"""A run that kills itself at a chosen point: `killed_run.py CHECKPOINT ROLE`, in the project.

It is put together as `cao run` does it, from the same parts, with a client and a listener that
know when to die. SIGKILL: nothing is caught, saved, flushed or cleaned up.
"""

import os
import signal
import sys
from pathlib import Path

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.models import Delivery, TerminalStatus
from cli_agent_orchestrator.events import EventKind, HandoffEvent, RunEvent, TurnBegan, TurnEnded
from cli_agent_orchestrator.gates.checking import GatePlace
from cli_agent_orchestrator.hosting.connect import run_own_server
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow
from cli_agent_orchestrator.pipeline.prompts import Briefing
from cli_agent_orchestrator.pipeline.task import parse_task
from cli_agent_orchestrator.runs.agents import init_new_run
from cli_agent_orchestrator.runs.loop import Plan, Runner
from cli_agent_orchestrator.runs.prepare import Prepared
from cli_agent_orchestrator.runs.record import RunRecord, new_run_id
from cli_agent_orchestrator.runs.recorder import ExportedState, Recorder, StateFile
from cli_agent_orchestrator.runs.request import read_task_text
from cli_agent_orchestrator.runs.run import response_files
from cli_agent_orchestrator.settings.config import RunConfig
from cli_agent_orchestrator.settings.layout import state_folder
from cli_agent_orchestrator.work.folder import WorkFolder

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
    config = RunConfig.from_env({**os.environ, "PROMPT_FILE": "task.md"})
    clock = SystemClock()
    task = parse_task(read_task_text(config))
    with run_own_server(os.environ) as own:
        client = MortalClient(own.url, working_directory=str(config.wd), transport=own.transport)
        new = Prepared(config, packaged_flow("loop"), task, new_run_id(clock))
        state = init_new_run(client, new)
        if checkpoint == "after delivery":
            client.doomed_terminal = state.terminal_of(role)
        recorder = Recorder(state_folder(os.environ))
        record = RunRecord(new.run_id, str(config.wd), str(config.state_file))
        folder = recorder.start(record, resumed=False)
        files = response_files(config.wd, folder, state)
        files.ensure_response_dir()
        export = ExportedState(config.state_file, config.wd)
        plan = Plan(
            Briefing(task, Path(files.folder), config.rules.condensation),
            config.rules,
            config.handoff,
            StateFile(folder, clock, export),
            files,
            lambda *_: None,
            GatePlace(config.wd, 60, os.environ),
            WorkFolder(None),
            config.readonly_roles,
            since=record.started,
            run=new.run_id,
        )

        def on_event(event: RunEvent) -> None:
            recorder.take(event)
            if checkpoint_of(event, role) == checkpoint:
                die()

        with Runner(client, plan, on_event) as runner:
            runner.run(state)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
