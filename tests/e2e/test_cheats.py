"""No way to cheat ends as a PASS without a qualification."""

import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.errors import OrchestratorError
from cli_agent_orchestrator.events import FilesChanged, RunEvent, Warned
from cli_agent_orchestrator.gates.checking import GatePlace
from cli_agent_orchestrator.handoff.handoff import World
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow
from cli_agent_orchestrator.pipeline.prompts import Briefing
from cli_agent_orchestrator.pipeline.state import FinalStatus, RunState
from cli_agent_orchestrator.runs.loop import Plan, Runner
from cli_agent_orchestrator.scripted_agent.agent import find_rule, read_turn, render_answer
from cli_agent_orchestrator.scripted_agent.script import parse_script
from cli_agent_orchestrator.settings.config import LoopRules, ReviewRules
from cli_agent_orchestrator.work.folder import held_back_of, open_work_folder
from tests.e2e.cheating import CHEATS, FILES, HONEST, KILL, Cheat, End, script_of
from tests.e2e.conftest import Machine, inherited
from tests.e2e.runs import running
from tests.handoff.fakes import no_watch
from tests.runs.fakes import TASK, Asked, FakeServer, Rig
from tests.work.projects import make_repository


@dataclass
class Played:
    """A run in which somebody cheated, and all that it says about it."""

    state: RunState | None
    events: list[RunEvent]
    error: str
    pages: Iterable[str]

    @property
    def proof(self) -> str:
        return str(self.state.progress.proof or "") if self.state else ""

    @property
    def warnings(self) -> list[str]:
        """What a person sees: guards, and what the run warns of."""
        guards = [e for e in self.events if isinstance(e, FilesChanged) and not e.allowed]
        told = [e.text for e in self.events if isinstance(e, Warned)]
        return [f"{one.role}, not its task: {', '.join(one.files)}" for one in guards] + told

    @property
    def end(self) -> End | None:
        """How it ends; None if it looks as if all were well."""
        if self.error:
            return End.STOPPED
        if self.state is None or self.state.final_status is FinalStatus.FAIL:
            return End.FAIL
        if not self.proof.startswith("proven"):
            return End.NOT_PROVEN
        if "; look at" in self.proof:
            return End.LISTED
        return End.WARNED if self.warnings else None

    @property
    def said(self) -> str:
        outcomes = [str(getattr(event, "detail", "")) for event in self.events]
        return "\n".join([*outcomes, *self.warnings, self.error, *self.pages])


class Stage(Rig):
    """A rig with real snapshots and gates, whose agents follow a script."""

    def __init__(self, folder: Path, cheat: Cheat) -> None:
        self.cheat = cheat
        self.project = make_repository(folder / "project", {**FILES, **cheat.files})
        self.state_folder = folder / "state"
        self.state_folder.mkdir()
        self.script = parse_script(script_of(cheat), "cheat")
        super().__init__(self.project, FakeServer(self.answer), self.state_folder)
        self.flow = packaged_flow(cheat.flow)
        self.rules = LoopRules(
            1,
            1,
            ReviewRules(min_cycles=1, require_evidence=False),
            proof="report",
        )

    def answer(self, asked: Asked) -> str:
        profile = next(role.profile for role in self.flow.roles if role.name == asked.role)
        turn = read_turn(profile, 1, asked.message)
        rule = find_rule(self.script, turn)
        for command in rule.run:
            subprocess.run(command, cwd=self.project, env=inherited(), check=True)
        return render_answer(rule, turn)

    def runner_with_work(self, state: RunState) -> Runner:
        files = self.files(state)
        files.ensure_response_dir()
        # No two have the same name: by it the processes of a gate are found and ended.
        run_folder = Folder(self.state_folder, (uuid.uuid4().hex,), private=True)
        run_folder.make()
        held_back = self.cheat.held_back
        if held_back:
            held_back_of(run_folder, held_back).take(self.project)
            for name in held_back:
                shutil.rmtree(self.project / name)
        plan = Plan(
            Briefing(TASK, files.folder, self.rules.condensation),
            self.rules,
            self.handoff_rules,
            self.state_file,
            files,
            lambda *_: None,
            GatePlace(self.project, 60, inherited(), run_folder),
            open_work_folder(self.project, run_folder, os.environ, held_back=held_back),
            since=0.0,
            run="k3f9",
        )
        world = World(self.clock, self.mailbox, no_watch)
        return Runner(self.server, plan, self.events.append, world)

    def play(self) -> Played:
        state = self.begin(GATES=self.cheat.gate)
        error = ""
        with self.runner_with_work(state) as runner:
            try:
                state = runner.run(state)
            except OrchestratorError as stopped:
                error = str(stopped)
        return Played(state, self.events, error, self.archived(state).values())


@pytest.mark.slow
@pytest.mark.parametrize("cheat", CHEATS, ids=[cheat.name for cheat in CHEATS])
def test_a_cheat_never_ends_as_an_unqualified_pass(cheat: Cheat, tmp_path: Path) -> None:
    if shutil.which(cheat.needs) is None:
        pytest.skip(f"{cheat.needs} is not there")
    played = Stage(tmp_path, cheat).play()
    assert played.end == cheat.end, played.said
    assert cheat.says in played.said


def test_honest_work_does(tmp_path: Path) -> None:
    played = Stage(tmp_path, HONEST).play()
    assert played.end is None, played.said


def test_the_documentation_has_the_same_table() -> None:
    page = (Path(__file__).parents[2] / "docs/proof.md").read_text(encoding="utf-8")
    table = page.partition("| what somebody does |")[2].partition("\n\n")[0].split("\n")[2:]
    rows = [row.strip("| ").replace("\\|", "\0").split(" | ") for row in table]
    assert [[cell.replace("\0", "|") for cell in row] for row in rows] == [
        [cheat.name, str(cheat.caught_by), str(cheat.end)] for cheat in (*CHEATS, KILL)
    ]
    assert len(rows) >= 20


def chosen(name: str) -> Cheat:
    return next(cheat for cheat in CHEATS if cheat.name == name)


@pytest.mark.tmux
@pytest.mark.slow
class TestWholeRuns:
    """The same, with everything that a user has: processes, terminals, what is printed."""

    def prepare(self, machine: Machine, cheat: Cheat) -> tuple[str, ...]:
        make_repository(machine.work / "project", {**FILES, **cheat.files})
        machine.script(script_of(cheat))
        machine.env |= {
            "PROVIDER": "scripted",
            "MAX_ROUNDS": "1",
            "MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1",
            "REQUIRE_REVIEW_EVIDENCE": "0",
        }
        words = ("--flow", cheat.flow, "--gate", cheat.gate, "--end-agents")
        return ("Ten pieces are cheaper.", "--wd", "project", *words)

    @pytest.mark.parametrize(
        ("name", "code"), [("skip the failing test", 1), ("the tester repairs the code", 0)]
    )
    def test_the_same_is_said_where_people_look(
        self, machine: Machine, name: str, code: int
    ) -> None:
        cheat = chosen(name)
        done = machine.cao("run", *self.prepare(machine, cheat))
        assert done.returncode == code, done.stdout + done.stderr
        assert cheat.says in done.stdout + done.stderr

    def test_the_diff_is_shown_by_the_command_that_the_run_names(self, machine: Machine) -> None:
        words = self.prepare(machine, chosen("change the settings of the tests"))
        (machine.work / "project/Makefile").write_text("test:\n\tfalse\n")
        said = machine.cao("run", *words).stdout
        (report,) = re.findall("Look at 1 change to tests or settings: cao (report .*)", said)
        assert "Before the run and not committed: 1 change to tests or settings\n" in said
        page = machine.cao(*report.split()).stdout
        proof, _, rest = page.partition("\n## Proof\n")[2].partition("<details>")
        assert "\n+testpaths = .\n" in proof
        assert "\n- Makefile: CI changed, " in proof.partition("Before the run, and not")[2]
        assert "+testpaths = .\n" in rest
        assert "Makefile" not in rest.partition("</details>")[0]

    def test_a_test_that_kills_what_runs_it_leaves_no_pass(self, machine: Machine) -> None:
        with running(machine, *self.prepare(machine, KILL)) as run:
            assert run.end() != 0
        assert not [event for event in run.told("check_ended") if event["outcome"] == "passed"]
