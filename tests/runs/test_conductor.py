"""A whole run as it is conducted, with agents that answer at once."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.client.find import Found
from cli_agent_orchestrator.errors import (
    EXIT_ERROR,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    ApiRefused,
    ApiUnreachable,
    HandoffTimeout,
    OrchestratorError,
    RunError,
    RunLocked,
    Stopped,
    UsageError,
    exit_code_of,
)
from cli_agent_orchestrator.events import (
    AgentsStarting,
    AgentStarted,
    RunBegan,
    RunEnded,
    RunEvent,
    RunOpened,
    ServerChosen,
    Warned,
)
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow
from cli_agent_orchestrator.pipeline.state import FinalStatus, RunState
from cli_agent_orchestrator.runs.record import (
    RunRecord,
    read_record,
    session_name_of,
    write_record,
)
from cli_agent_orchestrator.runs.recorder import Recorder
from cli_agent_orchestrator.runs.request import Environment, build_request
from cli_agent_orchestrator.runs.run import Conductor
from cli_agent_orchestrator.runs.view import list_runs
from cli_agent_orchestrator.settings.config import DEFAULT_API, RunConfig
from cli_agent_orchestrator.settings.layout import STATE_FILE, run_folder, said_of_place
from cli_agent_orchestrator.work.snapshots import Snapshots
from tests.pipeline.samples import LOOP, TASK_TEXT
from tests.runs.fakes import Asked, FakeServer, agree
from tests.work.projects import git, make_repository, with_other_git, write

AWAY = ApiUnreachable("http://localhost:1", "nobody is there", maybe_received=False)


class Interrupts:
    """Tells a run to stop at its n-th question whether it is to; at 0 never."""

    exit_code = EXIT_INTERRUPTED
    reason = ""

    def __init__(self, at: int = 0) -> None:
        self._left = at

    def check(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise Stopped("enough")

    def when_noted(self, stop: Callable[[], None]) -> None:
        """It is not told in between."""


class Stage:
    """A project, a server, and what a run is given."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.project.mkdir()
        self.state = folder / "state"
        self.server = FakeServer()
        self.down = False
        self.gone = ""
        """The address at which no server is any more."""
        self.is_watched = True
        self.replaces_agents = False
        self.events: list[RunEvent] = []
        self.environ: Mapping[str, str] = os.environ
        self.sign_ins: list[set[str]] = []
        """The agents that were asked whether somebody is signed in, once a run."""

    @property
    def warnings(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Warned)]

    @property
    def ended(self) -> RunEnded:
        event = self.events[-1]
        assert isinstance(event, RunEnded)
        return event

    def conduct(self, **options: str) -> RunState:
        """Take a run with these settings to its end."""
        with self.conductor(None, **options) as conductor:
            state = conductor.run()
            conductor.end(0)
        return state

    def refusal(self, kind: type[Exception] = UsageError, run: str = "", **options: str) -> str:
        """Return why a run with these settings does not come to its end."""
        with self.conductor(None, run, **options) as conductor, pytest.raises(kind) as caught:
            conductor.run()
        return str(caught.value)

    # Any: the server has what a run asks of a client
    @contextmanager
    def connect(
        self, config: RunConfig, on_warning: Callable[[str], None]
    ) -> Iterator[tuple[Any, Found]]:
        if self.down or (config.api_given and config.api == self.gone):
            raise AWAY
        yield self.server, Found("http://localhost:1", "yours")

    def conductor(
        self, interrupts: Interrupts | None = None, run: str = "", **options: str
    ) -> Conductor:
        """Return a run with these settings; `run` is the id of one to resume."""
        asked = {
            "WD": str(self.project),
            "PROMPT": TASK_TEXT,
            "MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1",
            "IDLE_GRACE_SECONDS": "0.5",
            **options,
        }
        request = build_request(asked, {}, replace_terminals=self.replaces_agents)
        return Conductor(replace(request, run=run), self.given(interrupts))

    def given(self, interrupts: Interrupts | None = None) -> Environment:
        return Environment(
            self.events.append,
            interrupts or Interrupts(),
            self.connect,
            self.state,
            environ=self.environ,
            find_flow=lambda named, folder: packaged_flow(named),
            check_agents=lambda names, wd: self.sign_ins.append({*names}),
            is_watched=lambda session: self.is_watched,
        )


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.mark.parametrize(
    ("options", "is_watched", "stay"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"CLEANUP_ON_EXIT": "0"}, False, True),
        ({"CLEANUP_ON_EXIT": "1"}, True, False),
        ({"GATES": "quiet=false", "MAX_ROUNDS": "1"}, False, True),
    ],
    ids=["passed", "watched", "kept", "ended", "failed"],
)
def test_the_agents_of_a_run_that_passed_end_unless_somebody_is_at_them(
    stage: Stage, options: Mapping[str, str], is_watched: bool, stay: bool
) -> None:
    stage.is_watched = is_watched
    passes = "MAX_ROUNDS" not in options
    stage.conduct(**{"GATES": "quiet=true", **options})
    assert bool(stage.ended.session_left) is bool(stage.server.terminals) is stay
    # The end of a run tells what its PASS is worth.
    worth = ("PASS", "not proven: no gate says which tests it runs") if passes else ("FAIL", "")
    assert (stage.ended.final_status, stage.ended.proof) == worth


def test_an_option_for_a_role_that_the_flow_has_not_is_pointed_out(stage: Stage) -> None:
    agents = {"TESTER_PROVIDER": "codex", "PROGRAMMER_PROVIDER": "codex"}
    stage.conduct(FLOW="solo", GATES="quiet=true", **agents)
    said = [text for text in stage.warnings if "no such role" in text]
    assert said == ["--agent tester: the flow solo has no such role"]


@pytest.mark.parametrize(("at", "started"), [(1, 0), (2, 5)])
def test_who_stops_a_run_before_its_first_turn_leaves_no_agent(
    stage: Stage, at: int, started: int
) -> None:
    """First while a server is found, then when the agents have just started."""
    with stage.conductor(Interrupts(at)) as conductor, pytest.raises(Stopped):
        conductor.run()
    assert len(stage.server.started) == started
    assert stage.server.terminals == {}
    assert not (stage.project / STATE_FILE).exists()


def make_repository_here(stage: Stage) -> None:
    stage.project.rmdir()
    make_repository(stage.project, {"a.txt": "a\n"})


def test_what_is_under_way_in_the_repository_is_said_before_any_agent_is_started(
    stage: Stage,
) -> None:
    make_repository_here(stage)
    write(stage.project, {".git/MERGE_HEAD": git(stage.project, "rev-parse", "HEAD")})
    stage.down = True
    stage.refusal(ApiUnreachable)
    first, *warned, last = (type(event) for event in stage.events)
    assert (first, {*warned}, last) == (RunOpened, {Warned}, AgentsStarting)
    assert stage.warnings == [
        *said_of_place(stage.state, stage.project),
        f"a merge is under way in {stage.project}: agents see what it has left in the files; "
        "Ctrl-C, and end it first, if that is not meant",
    ]


@pytest.mark.parametrize("stays", [True, False])
def test_a_state_folder_where_every_agent_may_write_is_warned_of_once_if_it_stays(
    stays: bool,
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        stage = Stage(Path(folder))
        request = build_request({"WD": str(stage.project), "PROMPT": TASK_TEXT}, {})
        with Conductor(request, replace(stage.given(), state_stays=stays)) as conductor:
            conductor.run()
        warned = [text for text in stage.warnings if "every agent may write" in text]
        assert len(warned) == stays


def test_nobody_works_in_the_state_folder_itself(stage: Stage) -> None:
    stage.project = stage.state
    stage.project.mkdir()
    assert "its own files" in stage.refusal()
    assert not (stage.project / ".tmp").exists()


def test_where_an_agent_removes_the_repository_the_run_stops_with_the_reply_kept(
    stage: Stage,
) -> None:
    make_repository_here(stage)

    def answer(asked: Asked) -> str:
        if asked.role == "tester":
            (stage.project / ".git").rename(stage.project.parent / "taken")
        return agree(asked)

    stage.server.answer = answer
    removed = "/.git was removed while tester was at work"
    assert removed in stage.refusal(RunError, PROOF="off")
    assert list(stage.state.glob("runs/2*/turns/*-tester.md"))
    (snapshots,) = stage.state.glob("runs/2*/snapshots.git")
    assert len(Snapshots(snapshots, stage.project, None, os.environ).all()) == 6


def test_so_does_one_in_which_a_gate_puts_another_in_its_place(stage: Stage) -> None:
    make_repository_here(stage)
    gate = "rm -rf .git; git init -q .; true"
    replaced = "was replaced by another one while sly was at work"
    assert replaced in stage.refusal(RunError, GATES=f"sly={gate}")


@pytest.mark.parametrize("workspace", ["folder", "worktree"])
def test_what_is_planted_in_the_repository_is_told_once_and_at_the_end(
    stage: Stage, workspace: str
) -> None:
    make_repository_here(stage)

    def answer(asked: Asked) -> str:
        if asked.role == "programmer":
            git(stage.project, "config", "core.fsmonitor", "evil")
            write(stage.project, {".git/hooks/post-checkout": "evil"})
        return agree(asked)

    stage.server.answer = answer
    assert stage.conduct(WORKSPACE=workspace, PROOF="off").final_status is FinalStatus.PASS
    told = [text for text in stage.warnings if "repository" in text]
    at = "" if workspace == "folder" else f"{stage.project}/"
    assert told == [
        "the repository was changed while programmer was at work: "
        f"{at}.git/config (core.fsmonitor), {at}.git/hooks/post-checkout (new)"
    ]
    assert stage.ended.repository == tuple(told)


def test_a_run_that_was_killed_while_its_work_tree_was_made_is_not_resumed(stage: Stage) -> None:
    make_repository_here(stage)
    stage.down = True
    with stage.conductor(WORKSPACE="worktree") as conductor:
        # Killed: nothing is removed.
        conductor.is_saved = True
        with pytest.raises(ApiUnreachable):
            conductor.run()
    (run,) = (path.name for path in (stage.state / "worktrees").iterdir())
    (entry,) = (stage.project / ".git/worktrees").iterdir()
    (entry / "index.lock").touch()
    (entry / "locked").write_text("added with --lock")
    assert "start a new one" in stage.refusal(run=run, RESUME="1")


def stop_at(role: str, asked: Asked) -> str:
    """Stop the run when a role is asked."""
    if asked.role == role:
        raise Stopped("enough")
    return agree(asked)


def leave_at(stage: Stage, role: str, **options: str) -> None:
    """Let a run be stopped when a role is asked, so that it can be resumed."""

    stage.server.answer = partial(stop_at, role)
    stage.refusal(Stopped, "", PROOF="off", **options)
    stage.server.answer = agree


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"WORKSPACE": "worktree"}, 1),
        ({"RESUME": "1"}, 1),
        ({"PROMPT": ""}, 1),
        ({"WORKSPACE": "worktree", "PROMPT": "Another task"}, 2),
        ({"WORKSPACE": "worktree", "RESUME": "0"}, 2),
    ],
    ids=str,
)
def test_only_the_same_command_resumes_a_run_in_a_work_tree(
    stage: Stage, options: dict[str, str], count: int
) -> None:
    make_repository_here(stage)
    leave_at(stage, "tester", WORKSPACE="worktree")
    assert stage.conduct(**options).final_status is FinalStatus.PASS
    runs = list_runs(stage.state)
    assert len(runs) == count
    assert runs[0].project == str(stage.project)


def test_one_that_was_killed_before_its_first_turn_is_resumed_by_the_same_command(
    stage: Stage,
) -> None:
    make_repository_here(stage)
    leave_at(stage, "analyst", WORKSPACE="worktree")
    folder = run_folder(stage.state, list_runs(stage.state)[0].id)
    record = read_record(folder)
    assert record is not None
    write_record(folder, replace(record, round=0))
    assert stage.conduct(WORKSPACE="worktree").final_status is FinalStatus.PASS
    assert len(list_runs(stage.state)) == 1


def test_a_command_of_the_project_needs_consent_in_a_resumed_run_too(stage: Stage) -> None:
    leave_at(stage, "tester")
    # So that the run goes by the settings of now: it may have come with a clone.
    shutil.rmtree(stage.state / "runs")
    write(stage.project, {"cao.toml": '[gates]\ntests = "touch ran"\n'})
    assert "wants these commands to be run:\n  tests = " in stage.refusal(RESUME="1")
    assert not (stage.project / "ran").exists()


def test_a_run_goes_on_with_its_own_task_whatever_is_asked_for_now(stage: Stage) -> None:
    leave_at(stage, "programmer_review")
    stage.conduct(RESUME="1", PROMPT=TASK_TEXT.replace("empty", "full"), PROOF="off")
    (prompt,) = stage.server.prompts_to("tester")
    assert "parse empty.txt" in prompt


def test_a_run_that_has_ended_is_followed_by_a_new_one_also_if_that_may_take_more_rounds(
    stage: Stage,
) -> None:
    stage.server.answer = lambda asked: "FAIL" if asked.role == "tester" else agree(asked)
    assert stage.conduct(MAX_ROUNDS="1", PROOF="off").final_status is FinalStatus.FAIL
    stage.server.answer = agree
    for _ in range(2):
        state = stage.conduct(MAX_ROUNDS="2", PROOF="off", CLEANUP_ON_EXIT="0")
        assert (state.final_status, state.round) == (FinalStatus.PASS, 1)
    assert len({event.run for event in stage.events if isinstance(event, RunOpened)}) == 3
    # None of them is kept for later.
    assert not [text for text in stage.warnings if "unfinished" in text]
    assert stage.server.exited == []


def test_the_work_tree_of_a_run_that_another_command_holds_is_left_alone(stage: Stage) -> None:
    make_repository_here(stage)
    leave_at(stage, "tester", WORKSPACE="worktree")
    (tree,) = (stage.state / "worktrees").iterdir()
    shutil.rmtree(tree)
    with run_folder(stage.state, tree.name).locked():
        assert "another command is at work" in stage.refusal(RunLocked, tree.name)
    assert not tree.exists()


def test_a_resumed_run_that_stops_again_says_where_its_work_tree_is(stage: Stage) -> None:
    make_repository_here(stage)
    leave_at(stage, "tester", WORKSPACE="worktree")
    (tree,) = (stage.state / "worktrees").iterdir()
    stage.down = True
    with stage.conductor(run=tree.name) as conductor:
        with pytest.raises(ApiUnreachable):
            conductor.run()
        conductor.end(EXIT_ERROR)
    assert stage.ended.tree == str(tree)


def test_a_new_run_ends_the_agents_of_one_that_was_killed_before_its_first_turn(
    stage: Stage,
) -> None:
    run = "20261115-084037-k3f9"
    session = session_name_of(run)
    agents = [stage.server.create_session(one, session_name=session)["id"] for one in "ab"]
    killed = Recorder(stage.state)
    folder = killed.start(RunRecord(run, str(stage.project)), resumed=False)
    killed.take(ServerChosen(1.0, "http://localhost:1", "yours"))
    # The other one was started, and not recorded yet.
    killed.take(AgentStarted(1.0, "tester", agents[0]))
    killed.close()
    with stage.conductor(PROOF="off") as conductor:
        assert conductor.run().final_status is FinalStatus.PASS
    assert not {*agents} & stage.server.terminals.keys()
    record = read_record(folder)
    assert record is not None
    assert record.terminals == {}


@pytest.mark.parametrize(
    ("chosen", "agent"), [({"TESTER_PROVIDER": "claude_code"}, "claude_code"), ({}, "codex")]
)
def test_a_lost_agent_is_replaced_by_the_one_chosen_now_or_else_one_of_its_kind(
    stage: Stage, chosen: dict[str, str], agent: str
) -> None:
    leave_at(stage, "tester", PROVIDER="codex")
    (began,) = (event for event in stage.events if isinstance(event, RunBegan))
    del stage.server.terminals[began.terminals["tester"]]
    started = len(stage.server.started)
    stage.replaces_agents = True
    assert stage.conduct(PROOF="off", **chosen).final_status is FinalStatus.PASS
    assert [provider for _, provider in stage.server.started[started:]] == [agent]
    assert stage.sign_ins == [{"codex"}, {"codex", agent}]


@pytest.mark.parametrize("options", [{}, {"API": "http://127.0.0.1:3"}], ids=["own", "named"])
def test_where_the_server_that_a_run_named_is_gone_another_one_takes_its_place(
    stage: Stage, options: dict[str, str]
) -> None:
    gone = "http://127.0.0.1:2"
    leave_at(stage, "tester", API=gone)
    stage.gone, stage.server = gone, FakeServer()
    assert "--replace-terminals" in stage.refusal(RunError, RESUME="1", **options)
    stage.replaces_agents = True
    state = stage.conduct(RESUME="1", PROOF="off", **options)
    assert state.final_status is FinalStatus.PASS
    assert state.api == options.get("API", DEFAULT_API)
    assert any(str(AWAY) in text for text in stage.warnings) is not bool(options)


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"TESTER_PROVIDER": "claude_code"}, [{"codex", "claude_code"}]),
        ({"API": "http://localhost:1"}, []),
    ],
    ids=["a server of its own", "one that was named"],
)
def test_the_agents_of_a_new_run_are_asked_whether_somebody_is_signed_in(
    stage: Stage, options: dict[str, str], asked: list[set[str]]
) -> None:
    stage.conduct(PROVIDER="codex", **options)
    assert stage.sign_ins == asked


@pytest.mark.parametrize("how", [Stopped("enough"), HandoffTimeout("late")], ids=repr)
@pytest.mark.parametrize("is_deaf", [False, True])
def test_an_agent_that_would_go_on_by_itself_is_stopped_with_its_run_or_else_ended(
    stage: Stage, how: Exception, is_deaf: bool
) -> None:
    def answer(asked: Asked) -> str:
        if asked.role == "programmer":
            stage.server.terminals[asked.terminal_id] |= {"wakes": "12:30pm", "is_deaf": is_deaf}
            raise how
        return agree(asked)

    stage.server.answer = answer
    stage.refusal(type(how))
    assert stage.server.exited == ["programmer-1"] * is_deaf
    assert not any(terminal.get("wakes") for terminal in stage.server.terminals.values())
    assert any("12:30pm" in text for text in stage.warnings)


def test_a_run_whose_folder_for_scripts_an_agent_has_removed_goes_on(stage: Stage) -> None:
    def answer(asked: Asked) -> str:
        if asked.role == "programmer":
            shutil.rmtree(stage.project / ".tmp")
            (stage.project / ".tmp").symlink_to(stage.state)
            raise Stopped("enough")
        return agree(asked)

    stage.server.answer = answer
    with stage.conductor(PROOF="off") as conductor:
        with pytest.raises(Stopped):
            conductor.run()
        conductor.end(EXIT_ERROR)
    (run,) = list_runs(stage.state)
    (stage.project / ".tmp").unlink()
    stage.server.answer = agree
    with stage.conductor(run=run.id, PROMPT="", PROOF="off") as conductor:
        assert conductor.run().final_status is FinalStatus.PASS


def test_what_is_held_back_stays_so_until_the_end(stage: Stage) -> None:
    make_repository_here(stage)
    leave_at(stage, "tester", WORKSPACE="worktree", HELD_BACK="a.txt", GATES="tests=true")
    (run,) = (path.name for path in (stage.state / "worktrees").iterdir())
    assert "this one began holding back a.txt" in stage.refusal(run=run, HELD_BACK="b.txt")


@pytest.mark.parametrize(("status", "code"), [(422, EXIT_USAGE), (500, EXIT_ERROR)])
def test_agents_that_cannot_be_started_leave_no_run_and_a_server_with_a_full_disk_an_error(
    stage: Stage, status: int, code: int
) -> None:
    refusal = ApiRefused("POST", "/sessions", status, "no room")
    stage.server.refused = {role.profile: refusal for role in LOOP.roles}
    with stage.conductor() as conductor, pytest.raises(OrchestratorError) as caught:
        conductor.run()
    assert (str(caught.value), exit_code_of(caught.value)) == ("no run was begun: no room", code)


LATE = "ignored: a resumed run keeps the settings it started with"


def test_a_setting_file_that_names_other_agents_or_another_flow_is_told_to_be_too_late(
    stage: Stage,
) -> None:
    leave_at(stage, "programmer")
    # No reply is skipped that is not missing.
    assert stage.refusal(RESUME="1", MISSING="skip")
    assert not stage.server.prompts_to("tester")
    stage.events.clear()
    write(stage.project, {"cao.toml": 'provider = "claude_code"\nflow = "solo"\n'})
    assert stage.conduct(RESUME="1", PROOF="off").final_status is FinalStatus.PASS
    assert f"{LATE}: its agents are codex, not claude_code" in stage.warnings
    assert f"{LATE}: its flow is loop, not solo" in stage.warnings


CLEAN = {"name": "tests", "run": "true", "clean": True}
UNREADABLE = json.dumps({**CLEAN, "setup": "'unclosed"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"REVIEW_BOUND": "require"}, "REVIEW_BOUND=require (set CAO_REVIEW_BOUND=show): install"),
        ({"READONLY_ROLES": "restore"}, " READONLY_ROLES=restore (set CAO_READONLY_ROLES=warn): "),
        (
            {"GATES": json.dumps(CLEAN), "PROOF": "require"},
            "PROOF=require (say --proof report) and clean=true of the gate tests (leave it out)",
        ),
        ({"GATES": "tests='unclosed"}, "the shell cannot read `'unclosed`"),
        ({"GATES": UNREADABLE, "PROOF": "report"}, "the shell cannot read `'unclosed`"),
        ({"ROLE_PROVIDERS": "tster=codex"}, "did you mean tester?"),
        ({"WORKSPACE": "worktree", "STATE_FILE": "mine.json"}, "leave out CAO_STATE_FILE"),
        ({"API": "http://localhost:1"}, "no run was begun: "),
    ],
    ids=repr,
)
def test_what_cannot_go_well_is_refused_before_a_run_is_listed(
    stage: Stage, tmp_path: Path, options: dict[str, str], said: str
) -> None:
    stage.down = True
    if "'unclosed" not in options.get("GATES", ""):
        stage.environ = {**os.environ, "PATH": str(tmp_path)}  # without git
    assert said in stage.refusal(UsageError, "", **options)
    assert not stage.events
    assert list(stage.state.glob("runs/*")) == []


def test_git_is_the_one_of_the_environment_that_a_run_is_given(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_repository_here(stage)
    write(stage.project, {".gitattributes": "* text eol=crlf\n", "a.txt": "changed\n"})
    stage.environ = dict(os.environ)
    others = with_other_git(tmp_path / "other", f'*) echo "$*" >> {tmp_path}/asked;;')
    monkeypatch.setenv("PATH", others["PATH"])
    assert stage.conduct(WORKSPACE="worktree", PROOF="off").final_status is FinalStatus.PASS
    assert not (tmp_path / "asked").exists()
