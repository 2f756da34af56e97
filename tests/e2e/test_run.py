"""`cao run` with real processes, real terminals and the packaged agents."""

import json
import shutil
import signal
import time
from contextlib import ExitStack

import httpx
import pytest

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.hosting.user import make_token
from cli_agent_orchestrator.runs.record import short_name
from cli_agent_orchestrator.settings.config import state_folder
from tests.e2e.conftest import Machine
from tests.e2e.runs import (
    FIVE_TURNS,
    REPLIES,
    TASK,
    Run,
    archive_of,
    assert_five_turns_once,
    at,
    free_port,
    prepare,
    replies_of,
    rule,
    running,
    saved_of,
    script,
    state_of,
)
from tests.e2e.test_runs import runs_of

pytestmark = pytest.mark.tmux

LOOK_SECONDS = 0.05


def agents_left(machine: Machine) -> set[str]:
    """Return the ids in all windows; a window may be in two sessions."""
    return set(machine.tmux("list-panes", "-a", "-F", "#{@cao_id}").split())


class TestVerdicts:
    def test_the_packaged_script_takes_a_run_to_a_pass(self, machine: Machine) -> None:
        """Scenario: PASS exits with code 0"""
        (machine.work / "task.md").write_text(TASK, encoding="utf-8")
        done = machine.cao("run", "--provider", "scripted", "task.md")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "second look follows" in done.stdout
        assert "PASS after 1 round" in done.stdout
        assert state_of(machine)["final_status"] == "PASS"
        assert len(replies_of(machine)) == 9

    def test_a_fail_in_the_last_round_ends_with_1(self, machine: Machine) -> None:
        """Scenario: MAX_ROUNDS exhausted exits with code 1"""
        prepare(machine, script(rule("tester", "RESULT: FAIL\nEVIDENCE:\n- it broke")))
        done = machine.cao("run", "task.md", "--max-rounds", "1")
        assert done.returncode == 1, done.stdout + done.stderr
        assert state_of(machine)["final_status"] == "FAIL"
        assert "the only round is used up" in done.stdout

    def test_environment_variables_alone_are_enough(self, machine: Machine) -> None:
        prepare(machine, script())
        folder = machine.home / "elsewhere"
        folder.mkdir()
        state = machine.home / "made" / "for" / "it" / "state.json"
        machine.env |= {"WD": str(folder), "PROMPT": TASK, "STATE_FILE": str(state)}
        done = machine.cao("run")
        assert done.returncode == 0, done.stdout + done.stderr
        assert state.is_file()
        assert len(list(archive_of(machine).glob("*-tester.md"))) == 1
        assert (folder / ".tmp" / ".gitignore").read_text() == "*\n", "a repository stays clean"

    def test_permissions_reach_a_server_that_runs_already(self, machine: Machine) -> None:
        prepare(machine, script())
        with machine.server():
            done = machine.cao("run", "task.md", "--permissions", "ask", "--keep-agents")
            listed = json.loads(machine.cao("ls", "--json").stdout)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "permissions: ask" in done.stdout
        assert [terminal["permissions"] for terminal in listed] == ["ask"] * 5

    def test_a_project_cannot_give_its_agents_more_permissions(self, machine: Machine) -> None:
        prepare(machine, script())
        (machine.work / "cao.toml").write_text('agent_permissions = "full"\n', encoding="utf-8")
        done = machine.cao("run", "task.md")
        assert done.returncode == 2
        assert "agent_permissions in cao.toml" in done.stderr
        assert not agents_left(machine)

    def test_a_finished_run_is_followed_by_a_new_one(self, machine: Machine) -> None:
        """Scenario: No auto-resume when state file has PASS status"""
        prepare(machine, script())
        assert machine.cao("run", "task.md").returncode == 0
        assert agents_left(machine) == set(), "they are done with their work"
        assert machine.cao("run", "task.md").returncode == 0
        assert len(runs_of(machine)) == 2


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
        done = machine.cao("run")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "goes on" in done.stdout
        assert_five_turns_once(machine)

    def test_a_new_run_that_stops_does_not_say_that_no_resume_goes_on_with_it(
        self, machine: Machine
    ) -> None:
        prepare(machine, script(rule("analyst", turn="1", misbehave='{ error = "usage limit" }')))
        command = ("run", "task.md", "--no-resume")
        stopped = machine.cao(*command)
        assert stopped.returncode == 3, stopped.stdout + stopped.stderr
        assert "same command again" not in stopped.stdout
        assert " --replace-terminals` resumes it" in stopped.stdout
        done = machine.cao(*command[:-1], "--resume")
        assert done.returncode == 0, done.stdout + done.stderr

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
        done = machine.cao("resume", state_of(machine)["run"])
        assert done.returncode == 0, done.stdout + done.stderr

    def test_an_error_offers_nothing_of_agents_that_are_ended(self, machine: Machine) -> None:
        prepare(machine, script(rule("analyst", turn="1", misbehave='{ error = "usage limit" }')))
        stopped = machine.cao("run", "task.md", "--end-agents")
        assert stopped.returncode == 3, stopped.stdout + stopped.stderr
        assert agents_left(machine) == set()
        run = state_of(machine)["run"]
        assert stopped.stderr == "cao: analyst: the terminal is in the error state\n"
        assert (
            f"its agents are ended. `cao resume {short_name(run)}` resumes it with new"
            in stopped.stdout
        )
        prepare(machine, script())
        done = machine.cao("resume", run)
        assert done.returncode == 0, done.stdout + done.stderr

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    @pytest.mark.parametrize("shared", [True, False], ids=["shared server", "own server"])
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
                second = machine.cao("run", "task.md")
                # Not 3: this one has nothing that could be resumed.
                assert second.returncode == 2, second.stdout
                assert "another run works in" in second.stderr
                (name,) = (one["id"] for one in runs_of(machine))
                assert f"`cao watch {name}`" in second.stderr
                assert f"`cao stop {name}`" in second.stderr
                # Nor is one let in by an agent that empties the folder.
                shutil.rmtree(machine.work / ".tmp", ignore_errors=True)
            run.interrupt()
            assert run.end() == 130

    def test_two_runs_that_begin_at_once_in_two_folders_share_a_server(
        self, machine: Machine
    ) -> None:
        prepare(machine, script())
        other = machine.home / "other"
        other.mkdir()
        task = str(machine.work / "task.md")
        with running(machine, task) as one, running(machine, task, "--wd", str(other)) as two:
            assert one.end() == 0, one.errors
            assert two.end() == 0, two.errors

    def test_a_killed_run_leaves_no_lock(self, machine: Machine) -> None:
        prepare(machine, script(rule("analyst", seconds="1")))
        with running(machine, "task.md") as run:
            run.until(at("dispatched", "analyst"))
            run.interrupt(signal.SIGKILL)
            assert run.end() == -signal.SIGKILL
        assert machine.cao("run").returncode == 0


@pytest.mark.slow
class TestPeopleAndServers:
    def test_a_question_is_told_at_once_and_the_run_goes_on_when_it_is_answered(
        self, machine: Machine
    ) -> None:
        prepare(machine, script(rule("programmer", misbehave='{ ask = "Run: make clean" }')))
        with machine.server() as server, running(machine, "task.md") as run:
            asks = run.until(at("waiting_for_person", "programmer"))
            name = short_name(run.events[0]["run"])
            assert asks["text"] == f"cao attach {name}/programmer"
            token = make_token(state_folder(machine.env))
            with ApiClient(server.url, token=token) as client:
                client.press_key(asks["terminal_id"], "1")
            assert run.end() == 0, run.errors
        assert_five_turns_once(machine)

    def test_a_question_is_answered_by_a_command_and_the_screen_after_it_is_kept(
        self, machine: Machine
    ) -> None:
        prepare(machine, script(rule("programmer", misbehave='{ ask = "Run: make clean" }')))
        with machine.server() as server, running(machine, "task.md") as run:
            run.until(at("waiting_for_person", "programmer"))
            wrong = machine.cao("answer", "--role", "tester", "1")
            assert (wrong.returncode, "tester is idle" in wrong.stderr) == (2, True), wrong
            assert machine.cao("answer", "1").returncode in (0, 3)  # 3: not seen in time
            assert run.end() == 0, run.errors
            late = machine.cao("answer", run.events[0]["run"], "1")
            assert (late.returncode, "has ended with PASS" in late.stderr) == (2, True), late
            token = make_token(state_folder(machine.env))
            turn = httpx.get(
                f"{server.url}/runs/{run.events[0]['run']}/turns/3",
                headers={"Authorization": f"Bearer {token}"},
                trust_env=False,
            ).json()
            assert turn["role"] == "programmer"
            assert "scripted" in turn["screen"]
            assert turn["usage"] is None
        assert_five_turns_once(machine)

    def test_a_server_that_was_named_and_is_not_there_is_an_error(self, machine: Machine) -> None:
        prepare(machine, script())
        machine.env["API"] = f"http://127.0.0.1:{free_port()}"
        done = machine.cao("run", "task.md")
        assert done.returncode == 2
        assert "no answer from" in done.stderr
        assert not agents_left(machine)

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

    def test_a_server_that_was_merely_found_is_taken_over_when_it_dies(
        self, machine: Machine
    ) -> None:
        prepare(machine, script(rule("programmer", seconds="2")))
        with machine.server() as server:
            del machine.env["CAO_API"]
            with running(machine, "task.md") as run:
                run.until(at("dispatched", "programmer"))
                server.kill()
                assert run.end() == 0, run.errors
                warnings = [event["text"] for event in run.told("run_warning")]
                assert any("its own, as long as it runs" in text for text in warnings)
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
        first = [text for run in (one, two) for text in successions(run)[:1]]
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

    def test_an_agent_that_ignores_the_file_is_reminded_once(self, machine: Machine) -> None:
        prepare(machine, script(rule("analyst", turn="1", misbehave="{ ignore_file = true }")))
        machine.env["IDLE_GRACE_SECONDS"] = "1"
        with running(machine, "task.md") as run:
            assert run.end() == 0, run.errors
            assert len(run.told("reminded")) == 1
        assert "(message 2)" in replies_of(machine)["001-analyst.md"]

    def test_an_agent_that_never_writes_stops_the_run(self, machine: Machine) -> None:
        prepare(machine, script(rule("analyst", misbehave="{ ignore_file = true }")))
        machine.env["IDLE_GRACE_SECONDS"] = "0.5"
        with running(machine, "task.md") as run:
            assert run.end() == 3
            assert "without writing" in run.errors
            assert len(run.told("reminded")) == 1
        assert state_of(machine)["final_status"] == "RUNNING"

    def test_a_crashed_agent_stops_the_run_and_can_be_replaced(self, machine: Machine) -> None:
        """Scenario: Resume with unreachable terminal fails"""
        prepare(machine, script(rule("programmer", misbehave="{ crash = 7 }")))
        crashed = machine.cao("run", "task.md")
        assert crashed.returncode == 3
        refused = machine.cao("run", "task.md")
        assert refused.returncode == 3
        assert "programmer" in refused.stderr
        assert "exit code 7" in refused.stderr
        assert "--replace-terminals" in refused.stderr
        machine.script(script())
        with running(machine, "task.md", "--replace-terminals") as run:
            assert run.end() == 0, run.errors
            assert run.told("run_began")[0]["replaced"] == ["programmer"]
        prompts = sorted(archive_of(machine).glob("*-programmer-prompt.md"))
        assert "Make the parser accept empty lines." in prompts[-1].read_text(encoding="utf-8")

    def test_all_agents_may_be_lost(self, machine: Machine) -> None:
        prepare(machine, script(rule("tester", seconds="60")))
        with running(machine, "task.md") as run:
            run.until(at("status", "tester", status="processing"))
            run.interrupt()
            assert run.end() == 130
        machine.tmux("kill-server")
        refused = machine.cao("run")
        assert refused.returncode == 3
        assert "analyst_review" in refused.stderr
        machine.script(script())
        done = machine.cao("run", "--replace-terminals")
        assert done.returncode == 0, done.stdout + done.stderr
        assert len(replies_of(machine)) == 5


def successions(run: Run) -> list[str]:
    """Return what a run has said about servers that took the place of a lost one."""
    warnings = [str(event["text"]) for event in run.told("run_warning")]
    return [text for text in warnings if "the server has gone" in text]


def wait_for_window(machine: Machine) -> None:
    """Wait until the first agent is being started."""
    deadline = time.monotonic() + 60
    while not agents_left(machine):
        assert time.monotonic() < deadline
        time.sleep(LOOK_SECONDS)
