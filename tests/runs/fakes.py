"""A whole run without agents: a server that answers by itself, time that is moved, real files."""

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.core.models import AgentView, Delivery, TerminalEvent, TerminalStatus
from cli_agent_orchestrator.errors import ApiError, ApiRefused
from cli_agent_orchestrator.events import OnRunEvent, RunEvent
from cli_agent_orchestrator.gates.checking import GatePlace
from cli_agent_orchestrator.handoff.files import ResponseFiles
from cli_agent_orchestrator.handoff.handoff import World
from cli_agent_orchestrator.pipeline.prompts import Briefing
from cli_agent_orchestrator.pipeline.state import RunState
from cli_agent_orchestrator.pipeline.task import parse_task
from cli_agent_orchestrator.runs.agents import init_new_run
from cli_agent_orchestrator.runs.loop import Plan, Runner
from cli_agent_orchestrator.runs.prepare import Prepared
from cli_agent_orchestrator.runs.record import new_run_id
from cli_agent_orchestrator.runs.recorder import ExportedState, StateFile, load_state
from cli_agent_orchestrator.runs.screens import keep_screen
from cli_agent_orchestrator.settings.config import (
    Condensation,
    HandoffRules,
    LoopRules,
    RunConfig,
)
from cli_agent_orchestrator.settings.layout import run_folder, turns_folder
from cli_agent_orchestrator.work.folder import WorkFolder
from tests.handoff.fakes import FakeClock, FakeMailbox, no_watch
from tests.pipeline.samples import (
    ANALYST_SUMMARY,
    LOOP,
    PASS,
    PROGRAMMER_SUMMARY,
    TASK_TEXT,
    approval,
)

ROLE_OF_PROFILE = {role.profile: role.name for role in LOOP.roles}
OUR_FEATURES = frozenset({"input-body"})
TASK = parse_task(TASK_TEXT)


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt as it reached an agent."""

    terminal_id: str
    role: str
    message: str
    key: str | None


def agree(asked: Asked) -> str:
    """Answer so that the run passes as soon as it can."""
    match asked.role:
        case "analyst":
            return ANALYST_SUMMARY
        case "programmer":
            return PROGRAMMER_SUMMARY
        case "tester":
            return PASS
    return approval(asked.role)


@dataclass
class FakeServer:
    """A server whose agents answer at once, into the file that their prompt names."""

    answer: Callable[[Asked], str | None] = agree
    """What an agent writes; None if it writes nothing."""
    features_named: frozenset[str] = OUR_FEATURES
    terminals: dict[str, dict[str, Any]] = field(default_factory=dict)
    started: list[tuple[str, str]] = field(default_factory=list)
    """Profile and provider of every agent that was started."""
    refused: dict[str, ApiError] = field(default_factory=dict)
    """By profile: why no agent can be started."""
    exited: list[str] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    """What agents were told, each message once."""
    statuses: dict[str, TerminalStatus] = field(default_factory=dict)
    down: ApiError | None = None
    """Raised by every request while it is set."""
    sessions: list[str] = field(default_factory=list)
    last_output: str = "what the screen says"

    def create_session(
        self,
        agent_profile: str,
        *,
        provider: str | None = None,
        session_name: str | None = None,
        role: str | None = None,
    ) -> dict[str, Any]:
        # As the real one does.
        name = session_name or str(len(self.sessions) + 1)
        name = name if name.startswith("cao-") else f"cao-{name}"
        created = self._create(name, agent_profile, provider, role)
        self.sessions.append(name)
        return created

    def create_terminal(
        self,
        session_name: str,
        agent_profile: str,
        *,
        provider: str | None = None,
        role: str | None = None,
    ) -> dict[str, Any]:
        if session_name not in self.sessions:
            raise ApiRefused("POST", f"/sessions/{session_name}/terminals", 404, "no session")
        return self._create(session_name, agent_profile, provider, role)

    def get_terminal(self, terminal_id: str) -> dict[str, Any]:
        self._answer()
        if terminal_id not in self.terminals:
            raise ApiRefused("GET", f"/terminals/{terminal_id}", 404, "no terminal")
        return self.terminals[terminal_id]

    def exit_terminal(self, terminal_id: str) -> None:
        self.exited.append(terminal_id)
        self.get_terminal(terminal_id)
        del self.terminals[terminal_id]

    def press_key(self, terminal_id: str, key: str) -> None:
        terminal = self.get_terminal(terminal_id)
        if not terminal.get("is_deaf"):
            terminal["wakes"] = ""

    def delete_session(self, session_name: str) -> None:
        self._answer()
        inside = [i for i, one in self.terminals.items() if one["session_name"] == session_name]
        if not inside:
            raise ApiRefused("DELETE", f"/sessions/{session_name}", 404, "no session")
        self.sessions.remove(session_name)
        for terminal_id in inside:
            del self.terminals[terminal_id]

    def features(self) -> frozenset[str]:
        self._answer()
        return self.features_named

    def send_input(
        self, terminal_id: str, message: str, *, idempotency_key: str | None = None
    ) -> Delivery:
        role = ROLE_OF_PROFILE[self.get_terminal(terminal_id)["agent_profile"]]
        new = Asked(terminal_id, role, message, idempotency_key)
        if self.features_named:
            for asked in self.asked:
                if (asked.terminal_id, asked.key) == (terminal_id, idempotency_key):
                    if asked.message != message:
                        raise ApiRefused("POST", "/input", 400, "the key is another message's")
                    return Delivery(True, "it was typed before")
        self.asked.append(new)
        text = self.answer(new)
        if text is not None:
            response_path(message).write_text(text, encoding="utf-8")
        return Delivery(True, "the agent took it")

    def get_status(self, terminal_id: str) -> TerminalStatus:
        self.get_terminal(terminal_id)
        return self.statuses.get(terminal_id, TerminalStatus.COMPLETED)

    def get_question(self, terminal_id: str) -> dict[str, Any] | None:
        return None

    def get_last_output(self, terminal_id: str) -> str:
        self.get_terminal(terminal_id)
        return self.last_output

    def get_view(self, terminal_id: str) -> AgentView:
        screen = f"{self.get_terminal(terminal_id)['id']} after {len(self.asked)} messages"
        return AgentView(screen, (f"/home/ada/{terminal_id}.jsonl",))

    def events(
        self, after: str | None = None, opened: Callable[[], None] | None = None
    ) -> Iterator[TerminalEvent]:
        return iter(())

    def close_events(self) -> None:
        """There is no stream."""

    def turns(self) -> list[tuple[str, int]]:
        """Return whom the run asked, and in which round."""
        return [(asked.role, round_of(asked.message)) for asked in self.asked]

    def prompts_to(self, role: str) -> list[str]:
        return [asked.message for asked in self.asked if asked.role == role]

    def _create(
        self, session: str, profile: str, provider: str | None, role: str | None
    ) -> dict[str, Any]:
        self._answer()
        if profile in self.refused:
            raise self.refused[profile]
        self.started.append((profile, provider or ""))
        number = sum(1 for started, _ in self.started if started == profile)
        terminal_id = f"{profile}-{number}"
        self.terminals[terminal_id] = {
            "id": terminal_id,
            "session_name": session,
            "agent_profile": profile,
            "provider": provider,
            "role": role,
        }
        return self.terminals[terminal_id]

    def _answer(self) -> None:
        if self.down is not None:
            raise self.down


def response_path(message: str) -> Path:
    """Return the file that a prompt names, as an agent would find it."""
    found = re.search(r"^cat > (.*) <<'", message, re.MULTILINE)
    assert found is not None
    (path,) = shlex.split(found[1])
    return Path(path)


def round_of(message: str) -> int:
    found = re.search(r"^ROUND: (\d+)$", message, re.MULTILINE)
    assert found is not None
    return int(found[1])


class Rig:
    """A project folder, a server, and runs on them."""

    def __init__(
        self, folder: Path, server: FakeServer | None = None, state: Path | None = None
    ) -> None:
        self.folder = folder
        self.server = server or FakeServer()
        self.clock = FakeClock()
        self.mailbox = FakeMailbox(self.clock)
        self.events: list[RunEvent] = []
        self.rules = LoopRules(max_rounds=3, proof="off")
        self.handoff_rules = HandoffRules(max_reminders=0)
        self.run_folder = run_folder(state or folder / "state", "20261115-084037-k3f9")
        self.export = ExportedState(folder / ".tmp" / "state.json", folder)
        self.state_file = StateFile(self.run_folder, self.clock, self.export)
        self.test_command = ""
        self.flow = LOOP
        self.gate = ""
        self.work = WorkFolder(None)

    def config(self, **values: str) -> RunConfig:
        if self.gate:
            gate = {"name": "gate", "run": self.gate, "when": ["after_tester"]}
            values = {"GATES": json.dumps(gate), **values}
        return RunConfig.from_env({"WD": str(self.folder), "PROMPT": TASK_TEXT, **values})

    def new_run(self, **values: str) -> Prepared:
        return Prepared(self.config(**values), self.flow, TASK, new_run_id(self.clock))

    def begin(self, **values: str) -> RunState:
        """Start the agents of the flow."""
        return init_new_run(self.server, self.new_run(**values))

    def files(self, state: RunState) -> ResponseFiles:
        names = {role.name: role.response_file for role in state.flow.roles}
        return ResponseFiles(self.folder, turns_folder(self.run_folder), names)

    def keep_in(self, folder: Folder) -> None:
        """Let the run have another folder for itself."""
        self.run_folder = folder
        self.state_file = StateFile(folder, self.clock, self.export)

    def runner(self, state: RunState, on_event: OnRunEvent | None = None) -> Runner:
        files = self.files(state)
        files.ensure_response_dir()
        condensation: Condensation = self.rules.condensation
        plan = Plan(
            Briefing(TASK, files.folder, condensation, self.test_command),
            self.rules,
            self.handoff_rules,
            self.state_file,
            files,
            partial(keep_screen, self.run_folder, self.server.get_view),
            GatePlace(self.folder, 60, os.environ),
            self.work,
            since=0.0,
            run="k3f9",
        )
        world = World(self.clock, self.mailbox, no_watch)
        return Runner(self.server, plan, on_event or self.events.append, world)

    def run(self, state: RunState, on_event: OnRunEvent | None = None) -> RunState:
        """Take a run to its end."""
        with self.runner(state, on_event) as runner:
            return runner.run(state)

    def saved(self) -> RunState:
        state = load_state(self.run_folder)
        assert state is not None
        return state

    def archived(self, state: RunState) -> Mapping[str, str]:
        folder = self.files(state).kept.path
        return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))}
