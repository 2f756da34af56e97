"""Runs that are taken up again after something went wrong, with real processes and terminals."""

import json
import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.errors import ApiUnreachable
from cli_agent_orchestrator.hosting.user import make_token
from cli_agent_orchestrator.settings.layout import state_folder
from tests.e2e.conftest import Machine
from tests.e2e.runs import (
    FIVE_TURNS,
    REPLIES,
    STATE,
    TASK,
    archive_of,
    at,
    prepare,
    replies_of,
    rule,
    running,
    saved_of,
    script,
    state_of,
    wait_until,
)

pytestmark = [pytest.mark.tmux, pytest.mark.slow]

WAIT_FOR_GO = """
import pathlib, time
end = time.monotonic() + 60
while time.monotonic() < end and not pathlib.Path("go").exists():
    time.sleep(0.05)
"""
GO_AND_WORK = """
import pathlib, time
pathlib.Path("go").touch()
time.sleep(3)
"""
USAGE_LIMIT = '{ error = "usage limit reached" }'


def python(text: str) -> str:
    """Return the commands of a rule that run a Python text, as TOML."""
    return json.dumps([["{python}", "-c", text]])


def texts_of(machine: Machine, role: str) -> list[str]:
    return [text for name, text in replies_of(machine).items() if name[4:-3] == role]


def client_of(machine: Machine, url: str) -> ApiClient:
    token = make_token(state_folder(machine.env))
    return ApiClient(url, working_directory=str(machine.work), token=token)


class TestAfterAFailedTurn:
    def test_the_failed_turn_is_asked_again_and_the_run_passes(self, machine: Machine) -> None:
        prepare(machine, script(rule("programmer", turn="1", misbehave=USAGE_LIMIT)))
        failed = machine.cao("run", "task.md", code=3)
        assert "error state" in failed.stderr
        assert "--replace-terminals" in failed.stderr
        assert saved_of(machine)["progress"]["in_flight"]["sent"] == "failed"
        with running(machine, "task.md") as run:
            assert run.end() == 0, run.errors
        assert [event["role"] for event in run.told("asked_again")] == ["programmer"]
        assert run.told("reminded") == []
        assert texts_of(machine, "programmer") == [REPLIES["programmer"].replace("{turn}", "2")]
        assert list(replies_of(machine)) == [
            f"{number:03d}-{role}.md" for number, role in enumerate(FIVE_TURNS, 1)
        ]


class TestAfterAnUncertainDelivery:
    def test_a_server_killed_in_mid_delivery_knows_by_the_key_what_to_do(
        self, machine: Machine
    ) -> None:
        machine.script('[[rule]]\nanswer = "{turn}"\nmisbehave = { swallow_enter = 4 }\n')
        with (
            machine.server() as server,
            client_of(machine, server.url) as client,
            ThreadPoolExecutor(1) as pool,
        ):
            terminal = str(client.create_session("tester", provider="scripted")["id"])
            pane = machine.panes()[terminal]
            tmux = int(machine.tmux("display-message", "-p", "#{pid}"))
            sending = pool.submit(client.send_input, terminal, "my message", idempotency_key="k")
            try:
                wait_until(lambda: "my message" in machine.tmux("capture-pane", "-pt", pane))
                os.kill(tmux, signal.SIGSTOP)
                server.kill()
            finally:
                os.kill(tmux, signal.SIGCONT)
            with suppress(ApiUnreachable):
                sending.result(60)
        with machine.server() as server, client_of(machine, server.url) as client:
            answer = client.send_input(terminal, "my message", idempotency_key="k")
            assert answer.confirmed, answer
            assert client.send_input(terminal, "my message", idempotency_key="k") == answer
            wait_until(lambda: client.get_status(terminal) is TerminalStatus.COMPLETED)
            assert client.get_last_output(terminal).strip() == "1"
            client.exit_terminal(terminal)


class TestWhichRunIsMeant:
    """There is an unfinished run, and something else than before is asked for."""

    @pytest.fixture
    def unfinished(self, machine: Machine) -> Machine:
        """A run whose analyst failed at its first message."""
        prepare(machine, script(rule("analyst", turn="1", misbehave=USAGE_LIMIT)))
        machine.env["CAO_PROJECT_TEST_CMD"] = "make special-check"
        began = machine.cao("run", "task.md")
        del machine.env["CAO_PROJECT_TEST_CMD"]
        assert began.returncode == 3, began.stdout + began.stderr
        return machine

    def test_it_is_asked_for_and_resume_means_the_saved_task_and_its_settings(
        self, unfinished: Machine
    ) -> None:
        other = unfinished.work / "other.md"
        other.write_text(TASK.replace("empty", "full"), encoding="utf-8")
        before = state_of(unfinished)
        refused = unfinished.cao("run", "other.md", code=2).stderr
        for said in ("other.md is not the task", "--resume", "--no-resume"):
            assert said in refused
        # An unknown agent is refused even if the run is meant.
        meant = ("--replace-terminals", "--resume", "--provider")
        assert "none_such" in unfinished.cao("run", *meant, "none_such", code=2).stderr
        assert state_of(unfinished) == before
        done = unfinished.cao("run", "other.md", "--resume", "--max-rounds", "5", code=0)
        assert "goes on all the same" in done.stdout
        assert "MAX_ROUNDS is 5 now; the run began with 8" in done.stdout
        prompts = {path.name: path.read_text() for path in archive_of(unfinished).glob("*-prompt*")}
        assert "empty lines" in prompts["001-analyst-prompt.md"]
        assert "make special-check" in prompts["005-tester-prompt.md"]
        assert saved_of(unfinished)["progress"]["settings"]["MAX_ROUNDS"] == "5"

    def test_the_agents_of_the_run_that_is_given_up_do_not_write_into_the_new_one(
        self, machine: Machine
    ) -> None:
        """The old tester writes its PASS while the new one, which writes nothing, is at work."""
        late = rule("tester", contains='"empty file"', run=python(WAIT_FOR_GO))
        own = rule("tester", run=python(GO_AND_WORK), misbehave="{ ignore_file = true }")
        prepare(machine, script(late, own))
        machine.env |= {"IDLE_GRACE_SECONDS": "2", "MAX_FILE_REMINDERS": "0"}
        (machine.work / "other.md").write_text(TASK.replace("empty", "full"), encoding="utf-8")
        with machine.server():
            with running(machine, "task.md") as old:
                old.until(at("status", "tester", status="processing"))
                old.interrupt()
                assert old.end() == 130, old.errors
            terminals = state_of(machine)["terminals"].values()
            with running(machine, "other.md", "--no-resume") as run:
                assert run.end() == 3, run.errors
            warned = [event["text"] for event in run.told("run_warning")]
            assert any("unfinished run's agents are ended" in text for text in warned)
            listed = machine.cao("ls", "--json").stdout
            assert not [one for one in terminals if one in listed]
            assert all(one in listed for one in state_of(machine)["terminals"].values())

    def test_a_state_of_another_machine_is_taken_over_without_its_settings_and_agents(
        self, unfinished: Machine
    ) -> None:
        named = set(state_of(unfinished)["terminals"].values())
        runs, state = unfinished.home / "state" / "runs", unfinished.work / STATE
        saved = state.read_bytes()
        shutil.rmtree(runs)
        with running(unfinished, "task.md", "--no-resume") as run:
            run.until(at("turn_began", "analyst"))
            assert named <= set(unfinished.tmux("list-panes", "-a", "-F", "#{@cao_id}").split())
            assert not set(state_of(unfinished)["terminals"].values()) & named
            run.interrupt()
            run.end()
        shutil.rmtree(runs)
        state.write_bytes(saved)
        done = unfinished.cao("run", "task.md", code=0)
        assert "is taken over" in done.stdout
        tester = archive_of(unfinished) / "005-tester-prompt.md"
        assert "make special-check" not in tester.read_text()
