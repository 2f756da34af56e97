"""A whole run as it is conducted, with agents that answer at once."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest

from cli_agent_orchestrator.core.models import EXIT_ERROR, EXIT_INTERRUPTED
from cli_agent_orchestrator.errors import (
    ApiUnreachable,
    ResumeError,
    RunError,
    Stopped,
    UnknownName,
    UsageError,
)
from cli_agent_orchestrator.events import (
    AgentsStarting,
    RunBegan,
    RunEnded,
    RunEvent,
    RunOpened,
    Warned,
)
from cli_agent_orchestrator.pipeline.state import FinalStatus
from cli_agent_orchestrator.runs.request import ServerLink, Surroundings, build_request
from cli_agent_orchestrator.runs.run import Conductor
from cli_agent_orchestrator.runs.view import list_runs
from cli_agent_orchestrator.settings.config import RunConfig
from cli_agent_orchestrator.settings.layout import STATE_FILE, said_of_place
from cli_agent_orchestrator.work.snapshots import Snapshots
from tests.pipeline.samples import TASK_TEXT
from tests.runs.fakes import Asked, FakeServer, agree
from tests.work.projects import git, with_other_git, write

AWAY = ApiUnreachable("http://localhost:1", "nobody is there", maybe_received=False)


class Seen:
    """A view that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[RunEvent] = []
        self.tell = self.events.append

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is shown."""

    @property
    def warnings(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Warned)]


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
        self.is_watched = True
        self.view = Seen()
        self.environ: Mapping[str, str] = os.environ
        self.sign_ins: list[set[str]] = []
        """The agents that were asked whether somebody is signed in, once a run."""

    # Any: the server has what a run asks of a client
    @contextmanager
    def connect(self, config: RunConfig, on_warning: Callable[[str], None]) -> Iterator[ServerLink]:
        if self.down:
            raise AWAY
        client: Any = self.server
        yield ServerLink(client, "http://localhost:1", "yours")

    def conductor(self, interrupts: Interrupts | None = None, **options: str) -> Conductor:
        asked = {
            "WD": str(self.project),
            "PROMPT": TASK_TEXT,
            "MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1",
            **options,
        }
        return Conductor(build_request(asked, {}), self.given(interrupts))

    def given(self, interrupts: Interrupts | None = None) -> Surroundings:
        return Surroundings(
            self.view,
            interrupts or Interrupts(),
            self.connect,
            str,
            self.state,
            environ=self.environ,
            check_sign_in=lambda names, wd: self.sign_ins.append({*names}),
            is_watched=lambda session: self.is_watched,
        )


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_the_end_of_a_run_tells_its_verdict(stage: Stage) -> None:
    with stage.conductor() as conductor:
        assert conductor.run().final_status is FinalStatus.PASS
        conductor.end(0)
    ended = stage.view.events[-1]
    assert isinstance(ended, RunEnded)
    assert (ended.final_status, ended.round, ended.exit_code) == ("PASS", 1, 0)
    assert ended.session_left in stage.server.sessions


@pytest.mark.parametrize(
    ("options", "is_watched", "stay"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"CLEANUP_ON_EXIT": "0"}, False, True),
        ({"CLEANUP_ON_EXIT": "1"}, True, False),
        ({"GATES": "false", "MAX_ROUNDS": "1"}, False, True),
    ],
    ids=["passed", "watched", "kept", "ended", "failed"],
)
def test_the_agents_of_a_run_that_passed_end_unless_somebody_is_at_them(
    stage: Stage, options: Mapping[str, str], is_watched: bool, stay: bool
) -> None:
    stage.is_watched = is_watched
    with stage.conductor(None, **options) as conductor:
        conductor.run()
        conductor.end(0)
    ended = stage.view.events[-1]
    assert isinstance(ended, RunEnded)
    assert bool(ended.session_left) is bool(stage.server.terminals) is stay


@pytest.mark.parametrize(
    ("gate", "verdict", "proof"),
    [
        ("quiet=true", "PASS", "not proven: no gate says which tests it runs"),
        ("quiet=false", "FAIL", ""),
    ],
)
def test_the_end_of_a_run_tells_what_its_pass_is_worth(
    stage: Stage, gate: str, verdict: str, proof: str
) -> None:
    with stage.conductor(GATES=gate, MAX_ROUNDS="1") as conductor:
        conductor.run()
        conductor.end(0)
    ended = stage.view.events[-1]
    assert isinstance(ended, RunEnded)
    assert (ended.final_status, ended.proof) == (verdict, proof)


@pytest.mark.parametrize(("flow", "warned"), [("solo", True), ("loop", False)])
def test_an_option_for_a_role_that_the_flow_has_not_is_pointed_out(
    stage: Stage, flow: str, warned: bool
) -> None:
    with stage.conductor(FLOW=flow, GATES="quiet=true", TESTER_PROVIDER="codex") as conductor:
        conductor.run()
    said = [event.text for event in stage.view.events if isinstance(event, Warned)]
    assert ("--agent tester: the flow solo has no such role" in said) is warned


def test_an_agent_for_a_role_that_the_flow_has_not_is_refused(stage: Stage) -> None:
    with stage.conductor(ROLE_PROVIDERS="tster=codex") as conductor, pytest.raises(UnknownName):
        conductor.run()
    assert stage.server.started == []


def test_one_for_a_role_of_the_usual_flow_may_be_set_for_all(stage: Stage) -> None:
    stage.down = True
    conductor = stage.conductor(FLOW="solo", GATES="true", ANALYST_PROVIDER="codex")
    with conductor, pytest.raises(ApiUnreachable):
        conductor.run()


def test_who_stops_a_run_while_a_server_is_found_lets_no_agent_start(stage: Stage) -> None:
    with stage.conductor(Interrupts(at=1)) as conductor, pytest.raises(Stopped):
        conductor.run()
    assert stage.server.started == []


def test_who_stops_a_run_when_its_agents_have_just_started_ends_them(stage: Stage) -> None:
    with stage.conductor(Interrupts(at=2)) as conductor, pytest.raises(Stopped):
        conductor.run()
    assert len(stage.server.started) == 5
    assert stage.server.terminals == {}
    assert not (stage.project / STATE_FILE).exists()


def make_repository_here(stage: Stage) -> None:
    git(stage.project, "init", "-q", "-b", "main")
    write(stage.project, {"a.txt": "a\n"})
    git(stage.project, "add", "-A")
    git(stage.project, "commit", "-q", "-m", "one")


def test_what_is_under_way_in_the_repository_is_said_before_any_agent_is_started(
    stage: Stage,
) -> None:
    make_repository_here(stage)
    write(stage.project, {".git/MERGE_HEAD": git(stage.project, "rev-parse", "HEAD")})
    stage.down = True
    with stage.conductor() as conductor, pytest.raises(ApiUnreachable):
        conductor.run()
    first, *warned, last = (type(event) for event in stage.view.events)
    assert (first, {*warned}, last) == (RunOpened, {Warned}, AgentsStarting)
    assert stage.view.warnings == [
        f"a merge is under way in {stage.project}: agents see what it has left in the files; "
        "Ctrl-C, and end it first, if that is not meant",
        *said_of_place(stage.state, stage.project),
    ]


@pytest.mark.parametrize("workspace", ["folder", "worktree"])
def test_a_state_folder_where_every_agent_may_write_is_warned_of_once(workspace: str) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        stage = Stage(Path(folder))
        make_repository_here(stage)
        with stage.conductor(WORKSPACE=workspace) as conductor:
            conductor.run()
        (said,) = (text for text in stage.view.warnings if "every agent may write" in text)
        assert said == (
            f"cao's state folder {stage.state} is below /tmp, where every agent may write; set "
            "CAO_STATE_DIR to a folder elsewhere"
        )


def test_no_run_begins_in_a_folder_that_has_the_state_folder_in_it(stage: Stage) -> None:
    stage.state = stage.project / ".local/state/cao"
    with stage.conductor() as conductor, pytest.raises(UsageError, match="CAO_STATE_DIR"):
        conductor.run()
    assert not (stage.project / ".tmp").exists()


def test_a_state_folder_that_is_gone_with_its_run_is_not_warned_of(stage: Stage) -> None:
    given = replace(stage.given(), state_stays=False)
    asked = {"WD": str(stage.project), "PROMPT": TASK_TEXT}
    with Conductor(build_request(asked, {}), given) as conductor:
        conductor.run()
    assert not [text for text in stage.view.warnings if "state folder" in text]


@pytest.mark.parametrize("below", ["", "runs"])
def test_nobody_works_in_the_state_folder_itself(stage: Stage, below: str) -> None:
    stage.project = stage.state / below
    stage.project.mkdir(parents=True)
    with stage.conductor() as conductor, pytest.raises(UsageError, match="its own files"):
        conductor.run()
    assert not (stage.project / ".tmp").exists()


class TestRepositoryGone:
    """Somebody removes the repository of the work folder during a run."""

    def remove(self, stage: Stage, role: str) -> None:
        """Let an agent remove it, and take a run as far as it comes."""
        make_repository_here(stage)

        def answer(asked: Asked) -> str:
            if asked.role == role:
                (stage.project / ".git").rename(stage.project.parent / "taken")
            return agree(asked)

        stage.server.answer = answer
        with (
            stage.conductor(PROOF="off") as conductor,
            pytest.raises(RunError, match=rf"/\.git was removed while {role} was at work"),
        ):
            conductor.run()
        stage.server.answer = agree

    def test_the_run_stops_with_the_reply_kept(self, stage: Stage) -> None:
        self.remove(stage, "tester")
        assert list(stage.state.glob("runs/2*/turns/*-tester.md"))
        (snapshots,) = stage.state.glob("runs/2*/snapshots.git")
        assert len(Snapshots(snapshots, stage.project, None, os.environ).all()) == 6

    def test_a_resume_is_refused_until_it_is_back(self, stage: Stage) -> None:
        self.remove(stage, "programmer")
        with (
            stage.conductor() as conductor,
            pytest.raises(ResumeError, match=r"the repository is gone: .*cao undo"),
        ):
            conductor.run()
        shutil.move(stage.project.parent / "taken", stage.project / ".git")
        with stage.conductor() as conductor:
            assert conductor.run().final_status is FinalStatus.PASS
        # The reply that was kept was not asked for again.
        assert [asked.role for asked in stage.server.asked].count("programmer") == 1

    @pytest.mark.parametrize("removal", ["mv .git ../taken", "rm -rf .git"])
    def test_so_does_one_where_another_takes_its_place(self, stage: Stage, removal: str) -> None:
        make_repository_here(stage)
        gate = f"{removal}; git init -q .; true"
        with (
            stage.conductor(GATES=f"sly={gate}") as conductor,
            pytest.raises(RunError, match=r"was replaced by another one while sly was at work"),
        ):
            conductor.run()

    def test_so_does_one_whose_gate_removes_it(self, stage: Stage) -> None:
        make_repository_here(stage)
        gate = "mv .git ../taken; true"
        with (
            stage.conductor(GATES=f"sly={gate}") as conductor,
            pytest.raises(RunError, match=r"was removed while sly was at work"),
        ):
            conductor.run()


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
    with stage.conductor(WORKSPACE=workspace, PROOF="off") as conductor:
        assert conductor.run().final_status is FinalStatus.PASS
        conductor.end(0)
    told = [text for text in stage.view.warnings if "repository" in text]
    at = "" if workspace == "folder" else f"{stage.project}/"
    assert told == [
        "the repository was changed while programmer was at work: "
        f"{at}.git/config (core.fsmonitor), {at}.git/hooks/post-checkout (new)"
    ]
    ended = stage.view.events[-1]
    assert isinstance(ended, RunEnded)
    assert ended.repository == tuple(told)


def test_a_run_in_a_work_tree_is_saved_nowhere_else(stage: Stage) -> None:
    make_repository_here(stage)
    with (
        stage.conductor(WORKSPACE="worktree", STATE_FILE="mine.json") as conductor,
        pytest.raises(UsageError, match="saved in its own folder: leave out CAO_STATE_FILE"),
    ):
        conductor.run()
    assert not stage.state.exists()


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
    asked = {"WD": str(stage.project), "PROMPT": TASK_TEXT, "RESUME": "1"}
    request = replace(build_request(asked, {}), run=run)
    with (
        Conductor(request, stage.given()) as conductor,
        pytest.raises(UsageError, match=rf"before its first turn.*cao discard {run}"),
    ):
        conductor.run()


def stop_at(role: str, asked: Asked) -> str:
    """Stop the run when a role is asked."""
    if asked.role == role:
        raise Stopped("enough")
    return agree(asked)


def leave_at(stage: Stage, role: str, **options: str) -> None:
    """Let a run be stopped when a role is asked, so that it can be resumed."""

    stage.server.answer = partial(stop_at, role)
    with stage.conductor(None, PROOF="off", **options) as conductor, pytest.raises(Stopped):
        conductor.run()
    stage.server.answer = agree


@pytest.mark.parametrize(
    "options", [{"WORKSPACE": "worktree"}, {"RESUME": "1"}, {"PROMPT": ""}], ids=str
)
def test_the_same_command_resumes_a_run_in_a_work_tree(
    stage: Stage, options: dict[str, str]
) -> None:
    make_repository_here(stage)
    leave_at(stage, "tester", WORKSPACE="worktree")
    with stage.conductor(None, **options) as conductor:
        assert conductor.run().final_status is FinalStatus.PASS
        conductor.end(0)
    (run,) = list_runs(stage.state)
    assert run.project == str(stage.project)
    with stage.conductor(WORKSPACE="worktree") as conductor:
        conductor.run()
    assert len(list_runs(stage.state)) == 2


@pytest.mark.parametrize("options", [{"PROMPT": "Another task"}, {"RESUME": "0"}], ids=str)
def test_another_command_leaves_the_run_in_a_work_tree(
    stage: Stage, options: dict[str, str]
) -> None:
    make_repository_here(stage)
    leave_at(stage, "tester", WORKSPACE="worktree")
    with stage.conductor(None, WORKSPACE="worktree", **options) as conductor:
        conductor.run()
    assert len(list_runs(stage.state)) == 2


def test_a_command_of_the_project_needs_consent_in_a_resumed_run_too(stage: Stage) -> None:
    leave_at(stage, "tester")
    # So that the run goes by the settings of now: it may have come with a clone.
    shutil.rmtree(stage.state / "runs")
    write(stage.project, {"cao.toml": '[gates]\ntests = "touch ran"\n'})
    with (
        stage.conductor(RESUME="1") as conductor,
        pytest.raises(UsageError, match=r"wants these commands to be run:\n  tests = "),
    ):
        conductor.run()
    assert not (stage.project / "ran").exists()


def test_a_run_goes_on_with_its_own_task_whatever_is_asked_for_now(stage: Stage) -> None:
    leave_at(stage, "programmer_review", IDLE_GRACE_SECONDS="0.5")
    other = TASK_TEXT.replace("empty", "full")
    with stage.conductor(RESUME="1", PROMPT=other, PROOF="off") as conductor:
        conductor.run()
    (asked,) = (asked for asked in stage.server.asked if asked.role == "tester")
    assert "parse empty.txt" in asked.message


def test_no_reply_is_skipped_that_is_not_missing(stage: Stage) -> None:
    leave_at(stage, "tester")
    asked = len(stage.server.asked)
    with stage.conductor(RESUME="1", MISSING="skip") as conductor, pytest.raises(UsageError):
        conductor.run()
    assert len(stage.server.asked) == asked


def test_a_run_that_failed_is_followed_by_a_new_one_also_if_that_may_take_more_rounds(
    stage: Stage,
) -> None:
    stage.server.answer = lambda asked: "FAIL" if asked.role == "tester" else agree(asked)
    with stage.conductor(MAX_ROUNDS="1", PROOF="off") as conductor:
        assert conductor.run().final_status is FinalStatus.FAIL
    stage.server.answer = agree
    with stage.conductor(MAX_ROUNDS="2", PROOF="off") as conductor:
        assert conductor.run().round == 1
    assert len({event.run for event in stage.view.events if isinstance(event, RunOpened)}) == 2


def test_a_resumed_run_that_stops_again_says_where_its_work_tree_is(stage: Stage) -> None:
    make_repository_here(stage)
    leave_at(stage, "tester", WORKSPACE="worktree")
    (tree,) = (stage.state / "worktrees").iterdir()
    asked = {"WD": str(stage.project), "PROMPT": TASK_TEXT}
    stage.down = True
    with Conductor(replace(build_request(asked, {}), run=tree.name), stage.given()) as conductor:
        with pytest.raises(ApiUnreachable):
            conductor.run()
        conductor.end(EXIT_ERROR)
    ended = stage.view.events[-1]
    assert isinstance(ended, RunEnded)
    assert ended.tree == str(tree)


@pytest.mark.parametrize("is_own", [True, False])
def test_a_new_run_ends_the_agents_of_an_unfinished_one_unless_it_came_with_a_clone(
    stage: Stage, is_own: bool
) -> None:
    leave_at(stage, "tester")
    before = set(stage.server.terminals)
    if not is_own:
        # What somebody else has written could name any agent.
        shutil.rmtree(stage.state / "runs")
    with stage.conductor(RESUME="0", PROOF="off") as conductor:
        assert conductor.run().final_status is FinalStatus.PASS
    assert before
    assert set(stage.server.exited) & before == (before if is_own else set())
    # Nor is anything noted in the run that it names.
    assert any("`cao resume 2" in text for text in stage.view.warnings) is is_own


def test_a_run_that_has_ended_is_not_kept_for_later(stage: Stage) -> None:
    for _ in range(2):
        with stage.conductor(PROOF="off") as conductor:
            assert conductor.run().final_status is FinalStatus.PASS
    assert not [text for text in stage.view.warnings if "unfinished" in text]
    assert stage.server.exited == []


@pytest.mark.parametrize(
    ("chosen", "agent"), [({"TESTER_PROVIDER": "claude_code"}, "claude_code"), ({}, "codex")]
)
def test_a_lost_agent_is_replaced_by_the_one_chosen_now_or_else_one_of_its_kind(
    stage: Stage, chosen: dict[str, str], agent: str
) -> None:
    leave_at(stage, "tester", PROVIDER="codex")
    (began,) = (event for event in stage.view.events if isinstance(event, RunBegan))
    del stage.server.terminals[began.terminals["tester"]]
    started = len(stage.server.started)
    asked = {"WD": str(stage.project), "PROMPT": TASK_TEXT, "PROOF": "off", **chosen}
    request = replace(build_request(asked, {}), replace_terminals=True)
    with Conductor(request, stage.given()) as conductor:
        assert conductor.run().final_status is FinalStatus.PASS
    assert [provider for _, provider in stage.server.started[started:]] == [agent]
    assert stage.sign_ins == [{"codex"}, {"codex", agent}]


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
    with stage.conductor(None, PROVIDER="codex", **options) as conductor:
        conductor.run()
    assert stage.sign_ins == asked


def test_a_run_whose_agent_is_not_signed_in_leaves_nothing(stage: Stage) -> None:
    def refuse(names: Iterable[str], wd: Path) -> None:
        raise UsageError("codex is not signed in")

    given = replace(stage.given(), check_sign_in=refuse)
    request = build_request({"WD": str(stage.project), "PROMPT": TASK_TEXT}, {})
    with Conductor(request, given) as conductor, pytest.raises(UsageError):
        conductor.run()
    assert stage.server.started == []
    assert list_runs(stage.state) == []


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
    asked = {"WD": str(stage.project), "PROOF": "off"}
    request = replace(build_request(asked, {}), run=run.id)
    with Conductor(request, stage.given()) as conductor:
        assert conductor.run().final_status is FinalStatus.PASS


@pytest.mark.parametrize("held_back", ["a.txt", "b.txt"])
def test_what_is_held_back_stays_so_until_the_end(stage: Stage, held_back: str) -> None:
    make_repository_here(stage)
    write(stage.project, {"b.txt": "b\n"})
    leave_at(stage, "tester", WORKSPACE="worktree", HELD_BACK="a.txt", GATES="tests=true")
    (run,) = (path.name for path in (stage.state / "worktrees").iterdir())
    asked = {"WD": str(stage.project), "PROMPT": TASK_TEXT, "HELD_BACK": held_back}
    asked["IDLE_GRACE_SECONDS"] = "0.5"
    request = replace(build_request(asked, {}), run=run)
    with Conductor(request, stage.given()) as conductor:
        if held_back == "a.txt":
            assert conductor.run().final_status is FinalStatus.PASS
            return
        with pytest.raises(UsageError, match=r"settled when a run begins.*holding back a\.txt"):
            conductor.run()


def test_a_new_run_with_a_named_server_that_is_not_there_leaves_nothing(stage: Stage) -> None:
    stage.down = True
    conductor = stage.conductor(API="http://localhost:1")
    with conductor, pytest.raises(UsageError, match=r"no run was begun: .*nobody is there"):
        conductor.run()
    assert list(stage.state.glob("runs/*")) == []


def test_a_setting_file_that_names_other_agents_or_another_flow_is_told_to_be_too_late(
    stage: Stage,
) -> None:
    leave_at(stage, "programmer")
    stage.view.events.clear()
    text = 'provider = "claude_code"\nflow = "solo"\n'
    (stage.project / "cao.toml").write_text(text, encoding="utf-8")
    with stage.conductor(RESUME="1", PROOF="off", IDLE_GRACE_SECONDS="0.5") as conductor:
        assert conductor.run().final_status is FinalStatus.PASS
    said = [event.text for event in stage.view.events if isinstance(event, Warned)]
    late = "ignored: a resumed run keeps the settings it started with"
    assert f"{late}: its agents are codex, not claude_code" in said
    assert f"{late}: its flow is loop, not solo" in said


def test_what_an_option_won_over_from_the_start_is_no_news_when_the_run_goes_on(
    stage: Stage,
) -> None:
    text = 'provider = "claude_code"\nflow = "solo"\nmax_rounds = 3\n'
    (stage.project / "cao.toml").write_text(text, encoding="utf-8")
    soon = {"IDLE_GRACE_SECONDS": "0.5", "PROOF": "off"}
    leave_at(stage, "programmer", PROVIDER="codex", FLOW="loop", MAX_ROUNDS="5")
    stage.view.events.clear()
    stage.server.answer = partial(stop_at, "tester")
    with stage.conductor(None, RESUME="1", **soon) as conductor, pytest.raises(Stopped):
        conductor.run()
    stage.server.answer = agree
    with stage.conductor(None, RESUME="1", **soon) as conductor:
        assert conductor.run().final_status is FinalStatus.PASS
    said = [event.text for event in stage.view.events if isinstance(event, Warned)]
    assert [text for text in said if "as it began" in text] == []


def test_the_record_of_a_run_has_no_password_of_its_server(stage: Stage) -> None:
    with stage.conductor(API="http://ada:secret@localhost:1") as conductor:
        conductor.run()
    (record,) = stage.state.glob("runs/2*/run.json")
    assert "localhost:1" in record.read_text()
    assert "secret" not in record.read_text()


CLEAN = json.dumps({"name": "tests", "run": "true", "clean": True})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"REVIEW_BOUND": "require"}, "REVIEW_BOUND=require (set CAO_REVIEW_BOUND=show)"),
        ({"PROOF": "require"}, "PROOF=require (say --proof report)"),
        ({"READONLY_ROLES": "restore"}, "READONLY_ROLES=restore (set CAO_READONLY_ROLES=warn)"),
        ({"GATES": CLEAN}, "clean=true of the gate tests (leave it out)"),
        (
            {"GATES": CLEAN, "PROOF": "require"},
            "PROOF=require (say --proof report) and clean=true of the gate tests (leave it out)",
        ),
    ],
)
def test_what_needs_snapshots_is_refused_without_git_before_anything_begins(
    stage: Stage, tmp_path: Path, options: dict[str, str], said: str
) -> None:
    stage.environ = {**os.environ, "PATH": str(tmp_path)}
    with stage.conductor(None, **options) as conductor, pytest.raises(UsageError) as caught:
        conductor.run()
    assert str(caught.value) == (
        "git is not installed, or not on the PATH; snapshots need it, and without them there is no "
        f"way to go by {said}: install git, or change that"
    )
    assert stage.server.started == []


@pytest.mark.parametrize(
    "gate",
    [
        "tests='unclosed",
        json.dumps({"name": "tests", "run": "true", "clean": True, "setup": "'unclosed"}),
    ],
)
def test_a_gate_that_the_shell_cannot_read_is_refused_before_anything_begins(
    stage: Stage, gate: str
) -> None:
    with stage.conductor(GATES=gate) as conductor, pytest.raises(UsageError) as caught:
        conductor.run()
    said = str(caught.value)
    start = "the gate tests could not be run: the shell cannot read `'unclosed` ("
    assert said.startswith(start)
    assert said.endswith(
        "); no agent could mend that. Give it another command, such as tests='make test'"
    )
    assert not stage.view.events
    assert stage.server.started == []


@pytest.mark.parametrize(
    "options", [{}, {"PROOF": "report"}, {"GATES": CLEAN.replace("true}", "false}")}]
)
def test_what_needs_none_begins_without_git(
    stage: Stage, tmp_path: Path, options: dict[str, str]
) -> None:
    stage.environ = {**os.environ, "PATH": str(tmp_path)}
    with stage.conductor(None, **options) as conductor:
        assert conductor.run().final_status is FinalStatus.PASS


@pytest.mark.parametrize("workspace", ["folder", "worktree"])
def test_git_is_the_one_of_the_environment_that_a_run_is_given(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workspace: str
) -> None:
    make_repository_here(stage)
    write(stage.project, {".gitattributes": "* text eol=crlf\n", "a.txt": "changed\n"})
    stage.environ = dict(os.environ)
    others = with_other_git(tmp_path / "other", f'*) echo "$*" >> {tmp_path}/asked;;')
    monkeypatch.setenv("PATH", others["PATH"])
    with stage.conductor(WORKSPACE=workspace, PROOF="off") as conductor:
        assert conductor.run().final_status is FinalStatus.PASS
    assert not (tmp_path / "asked").exists()


def test_what_is_ignored_everywhere_by_whom_a_run_is_for_is_in_no_snapshot(
    stage: Stage, tmp_path: Path
) -> None:
    make_repository_here(stage)
    write(stage.project, {"notes.swp": "mine\n"})
    write(
        tmp_path / "home",
        {".gitconfig": "[core]\nexcludesFile = ~/ignored\n", "ignored": "*.swp\n"},
    )
    kept = {name: text for name, text in os.environ.items() if name != "XDG_CONFIG_HOME"}
    stage.environ = {**kept, "HOME": str(tmp_path / "home")}
    with stage.conductor() as conductor:
        conductor.run()
    assert not [text for text in stage.view.warnings if "notes.swp" in text]
