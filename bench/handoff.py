"""How soon a reply is accepted once its file is complete and the agent is at rest."""

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, latency_figures
from bench.machine import Machine, private_machine
from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.events import tell_nobody
from cli_agent_orchestrator.handoff.files import ResponseFiles
from cli_agent_orchestrator.handoff.handoff import Handoff, World
from cli_agent_orchestrator.handoff.wait import Envelope
from cli_agent_orchestrator.pipeline.prompts import response_file_instruction
from cli_agent_orchestrator.settings.config import HandoffRules

ROLE = "tester"
TURNS = 100
POLLED_TURNS = 10
POLL_SECONDS = 2.0


def measure() -> list[Figure]:
    with private_machine() as machine:
        machine.script(_script())
        with machine.server() as server:
            [terminal] = machine.open_terminals(server, 1)
            with server.client(machine.work) as client:
                table = Table(machine, client, terminal)
                ours = table.take_turns(TURNS)
                polled = [table.poll() for _ in range(POLLED_TURNS)]
    return latency_figures("file complete and agent at rest → accepted", ours, (40, 150), polled)


def _script() -> str:
    """Let turns last from 50 to 230 ms, and those of the baseline end anywhere in its interval."""
    quick = [_rule(range(step, TURNS + 1, 10), 0.05 + 0.02 * step) for step in range(1, 11)]
    polled = [
        _rule([TURNS + turn], 0.1 + POLL_SECONDS * turn / POLLED_TURNS)
        for turn in range(1, POLLED_TURNS + 1)
    ]
    return "".join(quick + polled)


def _rule(turns: "range | list[int]", seconds: float) -> str:
    return f"[[rule]]\nturn = {list(turns)}\nseconds = {seconds:.2f}\n"


@dataclass(frozen=True, slots=True)
class Table:
    """Where turns are taken with one agent."""

    machine: Machine
    client: ApiClient
    terminal: str

    @property
    def files(self) -> ResponseFiles:
        return ResponseFiles(
            self.machine.work, Folder(self.machine.home, ("kept",)), {ROLE: "reply.md"}
        )

    @property
    def prompt(self) -> str:
        path = self.files.response_path_for(ROLE)
        return f"Say something.\n\n{response_file_instruction(path)}"

    def take_turns(self, count: int) -> list[float]:
        """Take turns as a run does, and return how late each reply was accepted."""
        latencies = []
        handoff = Handoff(self.client, self.files, HandoffRules(), tell_nobody, World())
        with closing(handoff):
            for number in range(1, count + 1):
                envelope = Envelope(f"turn-{number}", number, time.time())
                reply = handoff.send_and_wait(
                    self.terminal, ROLE, self.prompt, envelope, lambda _: None
                )
                latencies.append(time.time() - self._complete_at(reply.archive))
        return latencies

    def poll(self) -> float:
        """Take a turn by looking every two seconds, and return how late the reply was seen."""
        path = self.files.response_path_for(ROLE)
        self.client.send_input(self.terminal, self.prompt)
        while True:
            time.sleep(POLL_SECONDS)
            if path.exists() and self.client.get_status(self.terminal).at_rest:
                latency = time.time() - self._complete_at(path)
                path.unlink()
                return latency

    def _complete_at(self, reply: Path) -> float:
        """Return when the reply was written and the agent had told that it is at rest."""
        told = self.machine.state / "events" / f"{self.terminal}.jsonl"
        return max(reply.stat().st_mtime, told.stat().st_mtime)
