"""What a run prints as the next command works as it is printed, and does what it says."""

import re
import shlex
import signal
import subprocess
from typing import Any

import pytest

from cli_agent_orchestrator.runs.record import short_name
from tests.e2e.conftest import Machine
from tests.e2e.runs import TASK, at, prepare, replies_of, rule, running, script, state_of
from tests.e2e.test_runs import alive_agents, runs_of
from tests.work.projects import Project, make_project

pytestmark = [pytest.mark.tmux, pytest.mark.slow]

ASKS = rule("programmer", turn="1", misbehave='{ ask = "Go on?" }')
FAILS_ONCE = rule("tester", "RESULT: FAIL\nEVIDENCE:\n- no", round="1")
WRITES = rule("programmer", write='[{ path = "new.txt", content = "new\\n" }]')


def interrupted(machine: Machine, *words: str) -> str:
    """Take a run to the programmer's turn, press Ctrl-C, and return the name of the run."""
    with running(machine, "task.md", *words) as run:
        run.until(at("waiting_for_person", "programmer"))
        run.interrupt()
        assert run.end() == 130
    return short_name(runs_of(machine)[0]["id"])


def commands_in(text: str) -> list[list[str]]:
    """Return the whole commands that a text names, in backticks or on lines of their own."""
    found = re.findall(r"`(cao [^`]+)`|^ +(?:[^`\n]*: +)?(cao [^`\n]+)$", text, re.MULTILINE)
    return [shlex.split(one or other)[1:] for one, other in found]


@pytest.fixture
def project(machine: Machine) -> Project:
    machine.work.rmdir()
    found = make_project(machine.work)
    prepare(machine, script(WRITES))
    return found


class TestAfterCtrlC:
    @pytest.mark.parametrize("named", [True, False])
    def test_its_agents_are_ended_and_it_is_resumed_with_new_ones(
        self, machine: Machine, named: bool
    ) -> None:
        prepare(machine, script(ASKS))
        run = interrupted(machine)
        assert len(alive_agents(machine)) == 5
        watched = machine.cao("watch", run)
        assert f"The run is saved. `cao resume {run}` resumes it" in watched.stdout
        stopped = machine.cao("stop", *([run] if named else []))
        assert stopped.returncode == 0, stopped.stderr
        assert stopped.stdout.count("Ended ") == 5
        assert f"cao resume {runs_of(machine)[0]['id']}" in stopped.stdout
        assert alive_agents(machine) == []
        machine.script(script())
        done = machine.cao("resume", run)
        assert done.returncode == 0, done.stdout + done.stderr
        assert state_of(machine)["final_status"] == "PASS"

    @pytest.mark.parametrize("words", [("send", "x"), ("pause",), ("set", "max_rounds=9")])
    def test_what_is_asked_of_it_is_answered_with_how_it_stands(
        self, machine: Machine, words: tuple[str, ...]
    ) -> None:
        prepare(machine, script(ASKS))
        interrupted(machine)
        done = machine.cao(*words)
        assert done.returncode == 2
        run = runs_of(machine)[0]["id"]
        assert f"the run {run} was stopped; `cao resume {run}` resumes it" in done.stderr

    def test_another_task_is_refused_with_commands_that_work(self, machine: Machine) -> None:
        prepare(machine, script(ASKS))
        interrupted(machine)
        (machine.work / "other.md").write_text(TASK.replace("empty", "blank"))
        refused = machine.cao("run", "other.md")
        assert refused.returncode == 2
        assert "your command with --no-resume added" in refused.stderr
        assert "`cao run --no-resume`" not in refused.stderr
        machine.script(script())
        done = machine.cao("run", "other.md", "--no-resume")
        assert done.returncode == 0, done.stderr


def test_who_is_asked_sees_what_and_how_to_answer(machine: Machine) -> None:
    prepare(machine, script(ASKS))
    with running(machine, "task.md") as run:
        asked = run.until(at("waiting_for_person", "programmer"))
        name = short_name(runs_of(machine)[0]["id"])
        assert (asked["question"], asked["text"]) == ("Go on?", f"cao attach {name}/programmer")
        assert runs_of(machine)[0]["asking"] == "programmer"
        assert "asks you" in machine.cao("runs").stdout
        done = machine.cao("answer", name, "1")
        assert done.returncode == 0, done.stderr
        assert run.end() == 0, run.errors
    assert {one["question"] for one in run.told("waiting_for_person")} == {"Go on?"}
    assert runs_of(machine)[0]["asking"] == ""


class TestAfterACrash:
    def test_the_command_that_is_printed_goes_on_with_a_new_agent(self, machine: Machine) -> None:
        prepare(machine, script(rule("programmer", misbehave="{ crash = 3 }")))
        crashed = machine.cao("run", "task.md")
        assert crashed.returncode == 3
        name = short_name(runs_of(machine)[0]["id"])
        command = ["resume", name, "--replace-terminals"]
        assert command in commands_in(crashed.stderr)
        assert ["resume", name] not in commands_in(crashed.stderr)
        assert f"`cao {' '.join(command)}` resumes it" in crashed.stdout
        assert "same command again" not in crashed.stdout
        assert f"- To resume: `cao {' '.join(command)}`" in machine.cao("report").stdout
        refused = machine.cao("resume", name)
        assert refused.returncode == 3
        assert command in commands_in(refused.stderr)
        assert "cao run" not in refused.stderr
        machine.script(script())
        done = machine.cao(*command)
        assert done.returncode == 0, done.stdout + done.stderr

    def test_a_reply_that_did_not_come_is_answered_by_whole_commands(
        self, machine: Machine
    ) -> None:
        prepare(machine, script(rule("analyst", turn="1", misbehave="{ ignore_file = true }")))
        machine.env |= {"IDLE_GRACE_SECONDS": "0.5", "MAX_FILE_REMINDERS": "0"}
        stopped = machine.cao("run", "task.md")
        assert stopped.returncode == 3
        name = short_name(runs_of(machine)[0]["id"])
        assert "without writing .tmp/agent-responses/" in stopped.stderr
        assert str(machine.work) not in stopped.stderr
        printed = commands_in(stopped.stderr)
        assert ["attach", f"{name}/analyst"] in printed
        assert ["resume", name, "--missing", "ask"] in printed
        machine.env["IDLE_GRACE_SECONDS"] = "30"
        done = machine.cao("resume", name, "--missing", "ask")
        assert done.returncode == 0, done.stdout + done.stderr


class TestMoreRounds:
    def test_a_run_that_failed_goes_on_with_the_next_round(self, machine: Machine) -> None:
        prepare(machine, script(FAILS_ONCE))
        failed = machine.cao("run", "task.md", "--max-rounds", "1")
        assert failed.returncode == 1, failed.stderr
        name = short_name(runs_of(machine)[0]["id"])
        assert f"cao resume {name} --max-rounds 2" in failed.stdout
        for words in (("resume", name), ("set", name, "max_rounds=2")):
            refused = machine.cao(*words)
            assert refused.returncode == 2
            assert "--max-rounds 2` goes on with more rounds" in refused.stderr
        few = machine.cao("resume", name, "--max-rounds", "1")
        assert few.returncode == 2
        assert "has had 1 round already" in few.stderr
        done = machine.cao("resume", name, "--max-rounds", "2")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "PASS after 2 rounds" in done.stdout
        assert [one[:3] for one in replies_of(machine)] == [f"{n:03d}" for n in range(1, 11)]
        assert runs_of(machine)[0]["status"] == "PASS"

    def test_so_does_one_in_a_work_tree(self, machine: Machine, project: Project) -> None:
        prepare(machine, script(WRITES, FAILS_ONCE))
        failed = machine.cao("run", "task.md", "--worktree", "--max-rounds", "1")
        assert failed.returncode == 1, failed.stderr
        done = machine.cao("resume", "--max-rounds", "2")
        assert done.returncode == 0, done.stdout + done.stderr
        assert machine.cao("apply").returncode == 0
        assert (machine.work / "new.txt").exists()


class TestInAWorkTree:
    def test_what_was_discarded_is_not_resumed(self, machine: Machine, project: Project) -> None:
        prepare(machine, script(ASKS, WRITES))
        name = interrupted(machine, "--worktree")
        discarded = machine.cao("discard", "--yes")
        assert discarded.returncode == 0, discarded.stderr
        assert commands_in(discarded.stdout) == []
        for words in (("resume", name), ("resume",)):
            refused = machine.cao(*words)
            assert refused.returncode == 2
            assert "was discarded, so it cannot be resumed" in refused.stderr
        listed = machine.cao("runs").stdout
        assert "discarded" in listed
        assert "stopped" not in listed
        assert "has no agents any more" in machine.cao("stop", name).stdout

    def test_what_was_discarded_comes_back(self, machine: Machine, project: Project) -> None:
        assert machine.cao("run", "task.md", "--worktree").returncode == 0
        said = machine.cao("discard", "--yes").stdout
        name = short_name(runs_of(machine)[0]["id"])
        line = f"  cao diff {name} start..discarded --raw | git -C {project.folder} apply"
        assert line in said.splitlines()
        patch = machine.cao("diff", name, "start..discarded", "--raw").stdout
        below = machine.work / "below"
        below.mkdir()
        subprocess.run(
            line.partition(" | ")[2], input=patch, text=True, shell=True, check=True, cwd=below
        )
        assert (machine.work / "new.txt").read_text() == "new\n"

    def test_one_that_changed_no_file_says_so_and_is_cleaned_up(
        self, machine: Machine, project: Project
    ) -> None:
        prepare(machine, script())
        done = machine.cao("run", "task.md", "--worktree")
        assert done.returncode == 0, done.stderr
        assert "no file was changed: there is nothing to commit" in done.stdout
        name = short_name(runs_of(machine)[0]["id"])
        assert ["discard", name] in commands_in(done.stdout)
        cleaned = machine.cao("clean", "--older-than", "0", "--yes")
        assert "Kept" not in cleaned.stdout
        assert "Removed the records of 1 run." in cleaned.stdout
        assert "cao/" not in project.git("branch", "--list")

    def test_of_one_that_was_applied_nothing_has_to_come_back(
        self, machine: Machine, project: Project
    ) -> None:
        assert machine.cao("run", "task.md", "--worktree").returncode == 0
        assert machine.cao("apply").returncode == 0
        said = machine.cao("discard", "--yes")
        assert said.returncode == 0, said.stderr
        assert "git apply" not in said.stdout

    def test_an_unfinished_run_of_the_project_is_named(
        self, machine: Machine, project: Project
    ) -> None:
        prepare(machine, script(ASKS, WRITES))
        interrupted(machine, "--worktree")
        first = runs_of(machine)[0]["id"]
        machine.script(script(WRITES))
        again = machine.cao("run", "Do something else", "--worktree")
        assert again.returncode == 0, again.stderr
        assert f"`cao resume {first}` goes on with it, and this one is new" in again.stdout

    def test_a_lost_agent_is_replaced_by_the_command_that_is_printed(
        self, machine: Machine, project: Project
    ) -> None:
        prepare(machine, script(ASKS, WRITES))
        name = interrupted(machine, "--worktree")
        machine.tmux("kill-server")
        refused = machine.cao("resume", name)
        assert refused.returncode == 3
        assert commands_in(refused.stderr) == [["resume", name, "--replace-terminals"]]
        machine.script(script(WRITES))
        done = machine.cao("resume", name, "--replace-terminals")
        assert done.returncode == 0, done.stdout + done.stderr


class TestWhosePlaceWasTaken:
    def test_it_is_kept_aside_and_resumed_as_it_is_said(self, machine: Machine) -> None:
        prepare(machine, script(ASKS))
        name = interrupted(machine)
        first = runs_of(machine)[0]["id"]
        machine.script(script())
        newer = machine.cao("run", "task.md", "--no-resume")
        assert newer.returncode == 0, newer.stderr
        assert f"`cao resume {first}` goes on with the unfinished run" in newer.stdout
        assert f"- To resume: `cao resume {first}`" in machine.cao("report", name).stdout
        done = machine.cao("resume", name)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"PASS after 1 round (cao report {name} says more)" in done.stdout
        assert {run["status"] for run in runs_of(machine)} == {"PASS"}


def test_a_run_that_was_stopped_for_a_stall_does_not_stop_for_it_again(
    machine: Machine, project: Project
) -> None:
    prepare(machine, script())
    machine.env["CAO_STALL"] = "stop"
    words = ("--flow", "solo", "--gate", "tests=false", "--max-rounds", "4")
    stopped = machine.cao("run", "task.md", *words)
    assert stopped.returncode == 3, stopped.stdout
    name = short_name(runs_of(machine)[0]["id"])
    assert ["resume", name] in commands_in(stopped.stderr)
    done = machine.cao("resume", name)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAIL after 4 rounds" in done.stdout


def test_a_run_whose_gate_is_not_there_goes_on_with_another(
    machine: Machine, project: Project
) -> None:
    prepare(machine, script(WRITES))
    stopped = machine.cao("run", "task.md", "--gate", "tests=no-such-command")
    assert stopped.returncode == 3
    name = short_name(runs_of(machine)[0]["id"])
    assert commands_in(stopped.stderr) == [["resume", name, "--gate", "tests=COMMAND"]]
    assert "same command again" not in stopped.stdout
    done = machine.cao("resume", name, "--gate", "tests=true")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tests: PASS" in done.stdout


class TestKilledBeforeItsFirstTurn:
    """Nothing of it is saved, so nothing may say that it can be resumed."""

    @pytest.fixture(params=[("agents_starting", ()), ("agent_started", ("--worktree",))])
    def killed(
        self, project: Project, machine: Machine, request: pytest.FixtureRequest
    ) -> dict[str, Any]:
        """Return a run whose process was killed while its agents were started."""
        point, words = request.param
        with running(machine, "task.md", *words) as run:
            run.until(lambda event: event["type"] == point)
            run.interrupt(signal.SIGKILL)
            run.process.wait()
        return dict(runs_of(machine)[0])

    def test_what_is_printed_of_it_is_true(self, machine: Machine, killed: dict[str, Any]) -> None:
        name = killed["id"]
        assert killed["unsaved"] is True
        assert f"{name}  not begun" in machine.cao("runs").stdout
        watched = machine.cao("watch", name)
        assert watched.returncode == 3
        assert "interrupted before its first turn, and nothing of it is saved" in watched.stderr
        report = machine.cao("report", name).stdout
        assert report.startswith("# Not begun (interrupted): nothing of it is saved\n")
        asked = machine.cao("pause", name)
        assert (asked.returncode, "nothing of it is saved" in asked.stderr) == (2, True)
        for said in (watched.stderr, report, asked.stderr):
            assert "cao resume" not in said, said
        refused = machine.cao("resume", name)
        assert refused.returncode == 2
        assert "nothing of it is saved" in refused.stderr

    def test_the_commands_that_are_printed_do_what_they_say(
        self, machine: Machine, killed: dict[str, Any]
    ) -> None:
        printed = commands_in(machine.cao("watch", killed["id"]).stderr)
        wanted = [["stop", killed["id"]]] if killed["terminals"] else []
        wanted += [["discard", killed["id"]]] if killed["project"] else []
        assert printed == wanted
        for command in printed:
            done = machine.cao(*command, *(["--yes"] if command[0] == "discard" else []))
            assert done.returncode == 0, done.stderr
            assert "cao resume" not in done.stdout
        done = machine.cao("run", "task.md")
        assert done.returncode == 0, done.stderr

    def test_one_that_has_begun_is_resumed_as_it_is_said(
        self, machine: Machine, project: Project
    ) -> None:
        with running(machine, "task.md") as run:
            run.until(lambda event: event["type"] == "run_began")
            run.interrupt(signal.SIGKILL)
            run.process.wait()
        watched = machine.cao("watch").stderr
        (name,) = re.findall("cao resume (.*)", watched)
        assert runs_of(machine)[0]["unsaved"] is False
        done = machine.cao("resume", name)
        assert done.returncode == 0, done.stderr
