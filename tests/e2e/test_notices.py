"""A user who looks elsewhere is told of runs, wherever these were started."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from cli_agent_orchestrator.core.codec import toml_value
from tests.e2e.conftest import Machine
from tests.e2e.runs import Run, answer, prepare, rule, running, script
from tests.e2e.test_python import python
from tests.notices.test_channels import Hook

# Named twice because it is a fixture: what uses it is not seen here.
from tests.notices.test_channels import hook as hook

pytestmark = [pytest.mark.tmux, pytest.mark.slow]


def configure(machine: Machine, **table: object) -> None:
    folder = machine.home / "config"
    folder.mkdir()
    lines = [f"{key} = {toml_value(value)}\n" for key, value in table.items()]
    (folder / "config.toml").write_text("[notify]\n" + "".join(lines), encoding="utf-8")


def kinds(hook: Hook) -> list[str]:
    return [message["kind"] for _, message in hook.got]


def kept(folder: Path) -> str:
    """Return all that a machine has kept of runs, as one text."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return "".join(path.read_text(encoding="utf-8", errors="replace") for path in files)


def run_with_a_question(machine: Machine, hook: Hook) -> Run:
    """Take a run to its PASS; its question is answered when the hook has heard of it."""
    prepare(machine, script(rule("analyst", misbehave='{ ask = "Go on?" }')))
    with running(machine, "task.md") as run:
        run.until(lambda event: event["type"] == "waiting_for_person")
        assert hook.arrived.wait(60)
        answer(machine, "analyst")
        assert run.end() == 0, run.errors
    return run


def test_a_hook_and_a_command_are_told_of_a_question_and_of_the_end(
    machine: Machine, hook: Hook
) -> None:
    given = machine.home / "given"
    write = f"import sys; open({str(given)!r}, 'a').write(sys.stdin.read())"
    configure(machine, webhook=f"{hook.url}/s3cr3t", command=[sys.executable, "-c", write])
    run = run_with_a_question(machine, hook)
    assert kinds(hook) == ["needs_you", "pass"]
    question: dict[str, Any] = hook.got[0][1]
    assert (question["title"], question["folder"]) == ("work: needs you", "work")
    assert question["text"] == f"analyst asks: {run.told('waiting_for_person')[0]['question']}"
    assert question["run"] == run.events[0]["run"]
    messages = [json.loads(line) for line in given.read_text(encoding="utf-8").splitlines()]
    assert messages == [message for _, message in hook.got]
    assert "s3cr3t" not in kept(machine.home / "state") + kept(machine.work)


def test_a_hook_that_is_down_delays_nothing_and_is_warned_of(machine: Machine, hook: Hook) -> None:
    hook.answer = 404
    configure(machine, webhook=hook.url)
    run = run_with_a_question(machine, hook)
    warnings = [event["text"] for event in run.told("run_warning")]
    expected = "no notice by webhook: the server answered 404; `cao notify test` tries all channels"
    assert warnings.count(expected) == 1
    assert run.errors == ""


def test_runs_apart_from_any_terminal_and_of_a_program_tell_too(
    machine: Machine, hook: Hook
) -> None:
    configure(machine, webhook=hook.url)
    prepare(machine, script())
    machine.cao("run", "task.md", "--detach", code=0)
    assert hook.arrived.wait(60)
    machine.cao("watch", code=0)
    assert kinds(hook) == ["pass"]
    done = python(machine, "print(cao.run(Path('task.md')).passed)")
    assert done.stdout == "True\n", done.stderr
    assert kinds(hook) == ["pass", "pass"]


def test_a_project_cannot_say_who_is_told(machine: Machine, hook: Hook) -> None:
    prepare(machine, script())
    (machine.work / "cao.toml").write_text(f'[notify]\nwebhook = "{hook.url}"\n', encoding="utf-8")
    done = machine.cao("run", "task.md", code=2)
    assert "notify in cao.toml" in done.stderr
    assert hook.got == []


class TestCommand:
    """`cao notify`."""

    def test_without_a_configuration_it_says_how_one_is_written(self, machine: Machine) -> None:
        done = machine.cao("notify")
        assert (done.returncode, done.stderr) == (0, "")
        assert f"{machine.home}/config/config.toml" in done.stdout
        assert "[notify]" in done.stdout
        tried = machine.cao("notify", "test", code=2)
        assert "[notify]" in tried.stderr

    def test_a_test_tries_every_channel_and_says_what_came_of_it(
        self, machine: Machine, hook: Hook
    ) -> None:
        configure(
            machine,
            webhook=f"{hook.url}/s3cr3t",
            ntfy=f"{hook.url}/s3cr3t",
            command=[sys.executable, "-c", "raise SystemExit(4)"],
            desktop=True,
            events=["fail"],
        )
        programs = machine.home / "bin"
        programs.mkdir()
        fake = programs / "notify-send"
        fake.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
        fake.chmod(0o755)
        machine.env["PATH"] = f"{programs}{os.pathsep}{machine.env['PATH']}"
        done = machine.cao("notify", "test", "--event", "pass", code=3)
        assert done.stdout.splitlines() == [
            "terminal  no terminal here",
            "desktop   sent",
            "ntfy      sent",
            "webhook   sent",
            "command   not sent: it ended with exit code 4",
            "Runs do not tell pass: it is not among the events of [notify].",
        ]
        (topic, message), (path, notice) = hook.got
        assert (topic, message["topic"], path) == ("/", "s3cr3t", "/s3cr3t")
        assert notice["kind"] == "pass"

    def test_it_shows_what_is_configured_and_no_secret(self, machine: Machine) -> None:
        configure(machine, webhook="https://x/s3cr3t", desktop=True, terminal="osc9")
        done = machine.cao("notify")
        assert done.stdout.splitlines() == [
            "told by   desktop, webhook; in the terminal of a run: osc9",
            "events    needs_you, paused, resumed, pass, fail, stopped, not_converging",
            "Try it with: cao notify test",
        ]
