"""What a run prints as the next command works as it is printed, and does what it says."""

import re
import shlex
import signal

import pytest

from cli_agent_orchestrator.runs.record import short_name
from tests.e2e.conftest import Machine
from tests.e2e.runs import (
    WRITES,
    alive_agents,
    archive_of,
    cut_short,
    events_of,
    prepare,
    replies_of,
    rule,
    running,
    runs_of,
    script,
    state_of,
)
from tests.work.projects import Project

pytestmark = [pytest.mark.tmux, pytest.mark.slow]

ASKS = rule("programmer", turn="1", misbehave='{ ask = "Go on?" }')
FAILS_ONCE = rule("tester", "RESULT: FAIL\nEVIDENCE:\n- no", round="1")


def interrupted(machine: Machine, *words: str) -> str:
    """Take a run to the programmer's turn, press Ctrl-C, and return the name of the run."""
    cut_short(machine, "task.md", *words)
    return short_name(runs_of(machine)[0]["id"])


def commands_in(text: str) -> list[list[str]]:
    """Return the whole commands that a text names, in backticks or on lines of their own."""
    found = re.findall(r"`(cao [^`]+)`|^ +(?:[^`\n]*: +)?(cao [^`\n]+)$", text, re.MULTILINE)
    return [shlex.split(one or other)[1:] for one, other in found]


def test_after_ctrl_c_agents_are_ended_and_the_run_is_resumed_with_new_ones(
    machine: Machine,
) -> None:
    prepare(machine, script(ASKS))
    run = interrupted(machine)
    assert len(alive_agents(machine)) == 5
    watched = machine.cao("watch", run)
    assert f"The run is saved. `cao resume {run}` resumes it" in watched.stdout
    stopped = machine.cao("stop", code=0)
    assert stopped.stdout.count("Ended ") == 5
    assert f"cao resume {runs_of(machine)[0]['id']}" in stopped.stdout
    assert alive_agents(machine) == []
    machine.script(script())
    machine.cao("resume", run, code=0)
    assert state_of(machine)["final_status"] == "PASS"


def test_after_a_crash_the_command_that_is_printed_goes_on_with_a_new_agent(
    machine: Machine,
) -> None:
    """Scenario: Resume with unreachable terminal fails"""
    prepare(machine, script(rule("programmer", misbehave="{ crash = 3 }")))
    crashed = machine.cao("run", "task.md", code=3)
    name = short_name(runs_of(machine)[0]["id"])
    command = ["resume", name, "--replace-terminals"]
    assert command in commands_in(crashed.stderr)
    assert ["resume", name] not in commands_in(crashed.stderr)
    assert f"`cao {' '.join(command)}` resumes it" in crashed.stdout
    assert "same command again" not in crashed.stdout
    assert f"- To resume: `cao {' '.join(command)}`" in machine.cao("report").stdout
    for words in (("resume", name), ("run", "task.md")):
        refused = machine.cao(*words, code=3)
        assert "exit code 3" in refused.stderr
        assert command in commands_in(refused.stderr)
        assert "cao run" not in refused.stderr
    machine.script(script())
    resumed = events_of(machine.cao(*command, "--json", code=0).stdout)
    (began,) = [event for event in resumed if event["type"] == "run_began"]
    assert began["replaced"] == ["programmer"]
    prompts = sorted(archive_of(machine).glob("*-programmer-prompt.md"))
    assert "Make the parser accept empty lines." in prompts[-1].read_text(encoding="utf-8")


def test_a_run_without_an_agents_file_goes_on_as_a_person_decides(machine: Machine) -> None:
    silent = [
        rule(role, turn="1", misbehave="{ ignore_file = true }")
        for role in ("analyst", "programmer")
    ]
    prepare(machine, script(*silent))
    machine.env |= {"IDLE_GRACE_SECONDS": "0.5", "MAX_FILE_REMINDERS": "0"}
    nothing = machine.cao("run", "task.md", "--missing", "ask", code=2)
    assert "--missing is for a saved run that is resumed" in nothing.stderr
    stopped = machine.cao("run", "task.md", code=3)
    name = short_name(runs_of(machine)[0]["id"])
    assert "without writing .tmp/agent-responses/" in stopped.stderr
    assert str(machine.work) not in stopped.stderr
    printed = commands_in(stopped.stderr)
    assert ["attach", f"{name}/analyst"] in printed
    assert ["resume", name, "--missing", "ask"] in printed
    stopped = machine.cao("resume", name, "--missing", "ask", code=3)
    assert ["resume", name, "--missing", "take"] in commands_in(stopped.stderr)
    machine.env["IDLE_GRACE_SECONDS"] = "30"
    wrong = machine.cao("run", "--missing", "skip", code=2)
    assert "only a review can be skipped" in wrong.stderr
    machine.cao("run", "--missing", "take", code=0)
    page = machine.cao("report").stdout
    assert "the last answer of programmer was taken in place of its file, in round 1" in page


def test_a_run_that_failed_goes_on_with_the_next_round(machine: Machine, project: Project) -> None:
    prepare(machine, script(WRITES, FAILS_ONCE))
    failed = machine.cao("run", "task.md", "--worktree", "--max-rounds", "1", code=1)
    name = short_name(runs_of(machine)[0]["id"])
    assert f"cao resume {name} --max-rounds 2" in failed.stdout
    for words in (("resume", name), ("set", name, "max_rounds=2")):
        refused = machine.cao(*words, code=2)
        assert "--max-rounds 2` goes on with more rounds" in refused.stderr
    few = machine.cao("resume", name, "--max-rounds", "1", code=2)
    assert "has had 1 round already" in few.stderr
    done = machine.cao("resume", name, "--max-rounds", "2", code=0)
    assert "after 2 rounds" in done.stdout
    assert [one[:3] for one in replies_of(machine)] == [f"{n:03d}" for n in range(1, 11)]
    assert runs_of(machine)[0]["status"] == "PASS"
    machine.cao("apply", code=0)
    assert (machine.work / "new.txt").exists()


def test_a_run_whose_place_was_taken_is_resumed_as_it_is_said(machine: Machine) -> None:
    prepare(machine, script(ASKS))
    name = interrupted(machine)
    first = runs_of(machine)[0]["id"]
    machine.script(script())
    newer = machine.cao("run", "task.md", "--no-resume", code=0)
    assert f"`cao resume {first}` goes on with the unfinished run" in newer.stdout
    assert f"- To resume: `cao resume {first}`" in machine.cao("report", name).stdout
    done = machine.cao("resume", name, code=0)
    assert f"after 1 round (cao report {name} says more)" in done.stdout
    assert {run["status"] for run in runs_of(machine)} == {"PASS"}


def test_a_run_that_was_stopped_for_a_stall_does_not_stop_for_it_again(
    machine: Machine, project: Project
) -> None:
    prepare(machine, script())
    machine.env["CAO_STALL"] = "stop"
    words = ("--flow", "solo", "--gate", "tests=false", "--max-rounds", "4")
    stopped = machine.cao("run", "task.md", *words, code=3)
    name = short_name(runs_of(machine)[0]["id"])
    assert ["resume", name] in commands_in(stopped.stderr)
    done = machine.cao("resume", name, code=1)
    assert "FAIL after 4 rounds" in done.stdout


class TestKilledBeforeItsFirstTurn:
    """Nothing of it is saved, so nothing may say that it can be resumed."""

    @pytest.mark.parametrize(
        ("point", "words"), [("agents_starting", ()), ("agent_started", ("--worktree",))]
    )
    def test_what_is_printed_of_it_is_true_and_works(
        self, machine: Machine, project: Project, point: str, words: tuple[str, ...]
    ) -> None:
        with running(machine, "task.md", *words) as run:
            run.until(lambda event: event["type"] == point)
            run.interrupt(signal.SIGKILL)
            run.process.wait()
        (killed,) = runs_of(machine)
        name = killed["id"]
        assert killed["unsaved"] is True
        assert f"{name}  not begun" in machine.cao("runs").stdout
        watched = machine.cao("watch", name, code=3)
        assert "interrupted before its first turn, and nothing of it is saved" in watched.stderr
        report = machine.cao("report", name).stdout
        assert report.startswith("# Not begun (interrupted): nothing of it is saved\n")
        asked = machine.cao("pause", name)
        assert (asked.returncode, "nothing of it is saved" in asked.stderr) == (2, True)
        for said in (watched.stderr, report, asked.stderr):
            assert "cao resume" not in said, said
        refused = machine.cao("resume", name, code=2)
        assert "nothing of it is saved" in refused.stderr
        printed = commands_in(watched.stderr)
        wanted = [["stop", killed["id"]]] if killed["terminals"] else []
        wanted += [["discard", killed["id"]]] if killed["project"] else []
        assert printed == wanted
        for command in printed:
            done = machine.cao(*command, *(["--yes"] if command[0] == "discard" else []), code=0)
            assert "cao resume" not in done.stdout
        done = machine.cao("run", "task.md", code=0)
