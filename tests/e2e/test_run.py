"""`cao run` with real processes, real terminals and the packaged agents."""

import json
import shutil
import signal
from contextlib import ExitStack

import pytest

from cli_agent_orchestrator.runs.record import short_name
from tests.e2e.conftest import Machine
from tests.e2e.runs import (
    FIVE_TURNS,
    REPLIES,
    TASK,
    archive_of,
    assert_five_turns_once,
    at,
    free_port,
    prepare,
    replies_of,
    rule,
    running,
    runs_of,
    saved_of,
    script,
    state_of,
    wait_until,
)

pytestmark = pytest.mark.tmux


def agents_left(machine: Machine) -> set[str]:
    """Return the ids in all windows; a window may be in two sessions."""
    return set(machine.tmux("list-panes", "-a", "-F", "#{@cao_id}").split())


class TestVerdicts:
    def test_the_packaged_script_takes_a_run_to_a_pass(self, machine: Machine) -> None:
        """On a server that runs already, with permissions of its own.

        Scenario: PASS exits with code 0
        """
        (machine.work / "task.md").write_text(TASK, encoding="utf-8")
        words = ("--provider", "scripted", "--permissions", "ask", "--keep-agents")
        with machine.server():
            done = machine.cao("run", *words, "task.md", code=0)
            listed = json.loads(machine.cao("ls", "--json").stdout)
        assert "second look follows" in done.stdout
        assert "PASS, not proven: no command of yours" in done.stdout
        assert state_of(machine)["final_status"] == "PASS"
        assert len(replies_of(machine)) == 9
        assert "Python 3." in replies_of(machine)["009-tester.md"], "a command was really run"
        assert "permissions: ask" in done.stdout
        assert [terminal["permissions"] for terminal in listed] == ["ask"] * 5

    def test_a_fail_in_the_last_round_ends_with_1(self, machine: Machine) -> None:
        """With environment variables alone.

        Scenario: MAX_ROUNDS exhausted exits with code 1
        """
        prepare(machine, script(rule("tester", "RESULT: FAIL\nEVIDENCE:\n- it broke")))
        folder = machine.home / "elsewhere"
        folder.mkdir()
        state = machine.home / "made" / "for" / "it" / "state.json"
        machine.env |= {"WD": str(folder), "PROMPT": TASK, "STATE_FILE": str(state)}
        machine.env["MAX_ROUNDS"] = "1"
        done = machine.cao("run", code=1)
        assert "the only round is used up" in done.stdout
        assert json.loads(state.read_text(encoding="utf-8"))["final_status"] == "FAIL"
        assert len(list(archive_of(machine).glob("*-tester.md"))) == 1
        assert (folder / ".tmp" / ".gitignore").read_text() == "*\n", "a repository stays clean"


@pytest.mark.slow
class TestSignals:
    def test_ctrl_c_saves_the_run_and_it_goes_on_at_the_same_turn(self, machine: Machine) -> None:
        """Scenario: SIGINT saves state"""
        prepare(machine, script(rule("programmer", seconds="3")))
        with running(machine, "task.md") as run:
            run.until(at("status", "programmer", status="processing"))
            run.interrupt()
            assert run.end() == 130
        assert state_of(machine)["final_status"] == "RUNNING"
        assert saved_of(machine)["progress"]["in_flight"]["turn"]["role"] == "programmer"
        (ended,) = run.told("run_ended")
        assert ended["session_left"] == state_of(machine)["session_name"]
        done = machine.cao("run", code=0)
        assert "goes on" in done.stdout
        assert_five_turns_once(machine)

    def test_sigterm_ends_the_agents_if_that_is_wanted(self, machine: Machine) -> None:
        """Scenario: Cleanup exits terminals when enabled"""
        prepare(machine, script(rule("programmer", misbehave="{ hang = true }")))
        machine.env["CLEANUP_ON_EXIT"] = "1"
        with running(machine, "task.md") as run:
            run.until(at("status", "programmer", status="processing"))
            assert len(agents_left(machine)) == 5
            run.interrupt(signal.SIGTERM)
            assert run.end() == 143
            assert run.told("run_ended")[0]["exit_code"] == 143
        assert state_of(machine)["final_status"] == "RUNNING"
        assert agents_left(machine) == set()
        # What the run says then is true: it goes on with new agents.
        prepare(machine, script())
        machine.cao("resume", state_of(machine)["run"], code=0)

    @pytest.mark.parametrize(("number", "shared"), [(signal.SIGINT, True), (signal.SIGHUP, False)])
    def test_a_run_that_is_stopped_while_its_agents_start_ends_them(
        self, machine: Machine, number: int, shared: bool
    ) -> None:
        prepare(machine, "start_delay = 600\n")
        machine.env["CAO_START_SECONDS"] = "600"
        with ExitStack() as stack:
            if shared:
                stack.enter_context(machine.server())
            run = stack.enter_context(running(machine, "task.md"))
            wait_for_window(machine)
            run.interrupt(number)
            assert run.end() == 128 + number
            assert agents_left(machine) == set()
        assert "are ended again" in run.told("run_warning")[-1]["text"]
        assert not (machine.work / ".tmp" / "orchestrator-loop-state.json").exists()

    def test_a_run_that_is_to_outlive_its_terminal_does(self, machine: Machine) -> None:
        prepare(machine, script())
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            with running(machine, "task.md") as run:
                run.until(at("turn_began", "analyst"))
                run.interrupt(signal.SIGHUP)
                assert run.end() == 0
        finally:
            signal.signal(signal.SIGHUP, before)

    def test_a_second_ctrl_c_ends_at_once(self, machine: Machine) -> None:
        prepare(machine, "start_delay = 600\n")
        machine.env["CAO_START_SECONDS"] = "600"
        with machine.server() as server, running(machine, "task.md") as run:
            wait_for_window(machine)
            # So that the agents cannot be ended.
            server.process.send_signal(signal.SIGSTOP)
            try:
                run.interrupt()
                run.until_error("Ctrl-C again")
                run.interrupt()
                assert run.end() == 130
            finally:
                server.process.send_signal(signal.SIGCONT)


class TestOneRunAtATime:
    def test_a_second_run_in_the_folder_is_refused_and_told_by_whom(self, machine: Machine) -> None:
        prepare(machine, script(rule("analyst", misbehave="{ hang = true }")))
        with running(machine, "task.md") as run:
            # From then on nothing is saved until there is a reply.
            run.until(at("dispatched", "analyst"))
            for _ in range(2):
                second = machine.cao("run", "task.md", code=2)
                # Not 3: this one has nothing that could be resumed.
                assert "another run works in" in second.stderr
                (name,) = (one["id"] for one in runs_of(machine))
                assert f"`cao watch {name}`" in second.stderr
                assert f"`cao stop {name}`" in second.stderr
                # Nor is one let in by an agent that empties the folder.
                shutil.rmtree(machine.work / ".tmp", ignore_errors=True)
            run.interrupt()
            assert run.end() == 130


@pytest.mark.slow
class TestPeopleAndServers:
    def test_a_question_is_answered_by_a_command_and_the_screen_after_it_is_kept(
        self, machine: Machine
    ) -> None:
        prepare(machine, script(rule("programmer", misbehave='{ ask = "Run: make clean" }')))
        with machine.server() as server, running(machine, "task.md") as run:
            asked = run.until(at("waiting_for_person", "programmer"))
            name = short_name(runs_of(machine)[0]["id"])
            assert asked["question"] == "Run: make clean"
            assert asked["text"] == f"cao attach {name}/programmer"
            assert runs_of(machine)[0]["asking"] == "programmer"
            assert "asks you" in machine.cao("runs").stdout
            wrong = machine.cao("answer", "--role", "tester", "1")
            assert (wrong.returncode, "tester is idle" in wrong.stderr) == (2, True), wrong
            assert machine.cao("answer", "1").returncode in (0, 3)  # 3: not seen in time
            assert run.end() == 0, run.errors
            late = machine.cao("answer", run.events[0]["run"], "1")
            assert (late.returncode, "has ended with PASS" in late.stderr) == (2, True), late
            with machine.http(server) as client:
                turn = client.get(f"/runs/{run.events[0]['run']}/turns/3").json()
            assert turn["role"] == "programmer"
            assert "scripted" in turn["screen"]
            assert turn["usage"] is None
        assert_five_turns_once(machine)

    def test_a_server_that_goes_away_and_comes_back_is_waited_for(self, machine: Machine) -> None:
        prepare(machine, script(rule("programmer", seconds="2")))
        port = str(free_port())
        with machine.server("--port", port) as first:
            run_context = running(machine, "task.md")
            run = run_context.__enter__()
            run.until(at("dispatched", "programmer"))
            first.kill()
        run.until(at("warning", "programmer"))
        with machine.server("--port", port):
            assert run.end() == 0, run.errors
        run_context.__exit__(None, None, None)
        assert_five_turns_once(machine)

    def test_two_runs_that_lose_the_server_they_share_go_on_with_one(
        self, machine: Machine
    ) -> None:
        prepare(machine, script(rule("programmer", seconds="8")))
        other = machine.home / "other"
        other.mkdir()
        words = (str(machine.work / "task.md"), "--wd", str(other))
        with machine.server() as server:
            del machine.env["CAO_API"]
            with running(machine, "task.md") as one, running(machine, *words) as two:
                for run in (one, two):
                    run.until(at("dispatched", "programmer"))
                server.kill()
                for run in (one, two):
                    assert run.end() == 0, run.errors
        said = [[str(one["text"]) for one in run.told("run_warning")] for run in (one, two)]
        first = [next(text for text in own if "the server has gone" in text) for own in said]
        assert sorted("its own, as long" in text for text in first) == [False, True]


@pytest.mark.slow
class TestMisbehavior:
    @pytest.mark.parametrize(
        "ways",
        [
            {
                "analyst": "{ pieces = 5, pause = 0.1 }",
                "analyst_review": "{ pieces = 3, pause = 0.1, reopen = true }",
                "programmer": "{ late_file = 1.0 }",
                "programmer_review": "{ swallow_enter = 1 }",
            },
            {"analyst": "{ flicker = 3, pause = 0.1 }", "programmer": "{ mislead = true }"},
        ],
        ids=["slow, reopened and late files, a lost enter", "flickering and misleading screens"],
    )
    def test_odd_agents_are_still_understood(self, machine: Machine, ways: dict[str, str]) -> None:
        prepare(machine, script(*(rule(role, misbehave=how) for role, how in ways.items())))
        with running(machine, "task.md") as run:
            assert run.end() == 0, run.errors
        assert run.told("reminded") == []
        replies = replies_of(machine)
        for role in ways:
            number = FIVE_TURNS.index(role) + 1
            expected = REPLIES[role].replace("{turn}", "1")
            assert replies[f"{number:03d}-{role}.md"].endswith(expected), role


def wait_for_window(machine: Machine) -> None:
    """Wait until the first agent is being started."""
    wait_until(lambda: bool(agents_left(machine)))
