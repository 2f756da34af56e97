"""Gates as users have them: consent, hostile commands, kill -9, what is shown."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.runs import events_of, replies_of, running, state_of
from tests.work.projects import Project

pytestmark = [pytest.mark.tmux, pytest.mark.slow]

SOLO = ("run", "task.md", "--flow", "solo", "--proof", "off", "--json")
TEST_FILE = """\
import pathlib
import unittest


class TestIt(unittest.TestCase):
    def test_old(self):
        self.fail("it always did")

    def test_made(self):
        self.assertTrue(pathlib.Path("made").exists())
"""


def gate(command: str, **keys: object) -> str:
    return json.dumps({"name": "tests", "run": command, "when": ["after_tester"], **keys})


def toml(machine: Machine, text: str) -> None:
    (machine.work / "cao.toml").write_text(text, encoding="utf-8")


def test_a_gate_that_kills_the_run_is_repeated_and_the_turn_is_not(ready: Machine) -> None:
    # What it leaves behind is ended before it is run again.
    late = ready.home / "late"
    command = (
        f"test -e {ready.home}/killed && exit 0; touch {ready.home}/killed; "
        f"(sleep 600; touch {late}) & kill -9 $PPID; sleep 600"
    )
    with running(ready, *SOLO[1:], "--gate", gate(command)) as run:
        assert run.end() == -9
    assert state_of(ready)["final_status"] == "RUNNING"
    done = ready.cao("run", "--json", code=0)
    assert [one for one in replies_of(ready) if "programmer" in one] == ["001-programmer.md"]
    events = events_of(done.stdout)
    assert "turn_began" not in {event["type"] for event in events}
    listing = subprocess.run(
        ["ps", "-A", "-o", "args="], capture_output=True, text=True, check=True
    )
    assert str(late) not in listing.stdout


def test_what_a_gate_does_to_the_work_folder_is_told(machine: Machine, project: Project) -> None:
    command = "echo x > changed; printf '\\033[2Jred\\377\\000'"
    events = events_of(machine.cao(*SOLO, "--gate", gate(command), code=0).stdout)
    told = [event for event in events if event["type"] == "files_changed"]
    assert (told[-1]["role"], told[-1]["files"]) == ("tests", ["changed"])


def test_all_keys_of_a_gate_together(machine: Machine, project: Project) -> None:
    project.commit({".gitignore": "ignored\n.tmp\n", "test_it.py": TEST_FILE})
    (machine.work / "ignored").touch()
    toml(
        machine,
        """
        [gates.unit]
        run = "test ! -e ignored && python3 -m unittest"
        clean = true
        setup = "touch made"
        allow_base_failures = true

        [gates.slow]
        run = "test -e go || exec sleep 600"
        seconds = 1
        when = ["base"]
        """,
    )
    done = machine.cao("run", "task.md", "--flow", "solo", "--json", "--trust", code=0)
    events = events_of(done.stdout)
    ended = [
        (event["gate"], event["when"], event["outcome"])
        for event in events
        if event["type"] == "check_ended"
    ]
    assert ended[:2] == [("unit", "base", "base_failed"), ("slow", "base", "base_failed")]
    assert {("unit", "after_tester", end) for end in ("passed", "cleared")} & {*ended}
    assert [gate for gate, *_ in ended].count("slow") == 1
    details = [event["detail"] for event in events if event["type"] == "check_ended"]
    assert "did not end within 1 s" in details[1]
    warnings = [event["text"] for event in events if event["type"] == "run_warning"]
    assert [text for text in warnings if text.startswith("the gate slow did not end within 1 s")]
    assert not (machine.work / "made").exists()


class TestConsent:
    """Commands out of a project's own file."""

    GATES = '[gates]\ntests = "touch ran"\n'

    def refused(self, machine: Machine, *words: str, folder: Path | None = None) -> str:
        done = machine.cao("run", "task.md", "--flow", "solo", *words, folder=folder, code=2)
        assert not (machine.work / "ran").exists()
        return done.stderr

    def test_it_counts_for_these_words_in_this_folder(self, ready: Machine) -> None:
        toml(ready, self.GATES)
        assert "Allowed." in ready.cao("trust", "--yes").stdout
        listed = ready.cao("trust", "--list").stdout
        assert str(ready.work) in listed
        assert 'tests = "touch ran"' in listed
        toml(ready, self.GATES.replace("touch ran", "touch ran; rm -r x"))
        assert 'tests = "touch ran; rm -r x"' in self.refused(ready)
        toml(ready, self.GATES)
        clone = ready.home / "clone"
        clone.mkdir()
        for name in ("cao.toml", "task.md"):
            (clone / name).write_bytes((ready.work / name).read_bytes())
        assert str(clone) in self.refused(ready, folder=clone)
        assert "any more" in ready.cao("trust", "--revoke").stdout
        self.refused(ready)
        ready.cao("run", "task.md", "--flow", "solo", "--trust", code=0)
        assert (ready.work / "ran").exists()

    def test_a_file_of_the_project_needs_it_however_it_is_named(self, ready: Machine) -> None:
        toml(ready, self.GATES)
        assert "`cao trust` in that folder" in self.refused(ready, "--config", "cao.toml")
        (ready.work / "ci.toml").write_text(self.GATES, encoding="utf-8")
        said = self.refused(ready, "--config", "ci.toml")
        assert f"{ready.work / 'ci.toml'} wants these commands to be run:\n" in said
        assert "allow them with --trust; nothing was run" in said
        mine = ready.home / "mine.toml"
        mine.write_text(self.GATES, encoding="utf-8")
        ready.cao("run", "task.md", "--flow", "solo", "--config", str(mine), code=0)
        assert (ready.work / "ran").exists()

    def test_it_is_given_and_taken_back_for_another_folder(self, ready: Machine) -> None:
        other = ready.home / "an other project"
        other.mkdir()
        (other / "cao.toml").write_text(self.GATES, encoding="utf-8")
        toml(ready, self.GATES)
        done = ready.cao("trust", "--wd", str(other), "--yes")
        assert f"cao.toml in {other} wants these commands" in done.stderr
        listed = ready.cao("trust", "--list").stdout
        assert str(other) in listed
        assert str(ready.work) not in listed
        self.refused(ready)
        said = re.findall("`cao (.*?)`", done.stdout)
        assert len(said) == 1, done.stdout
        assert ready.cao(*shlex.split(said[0])).stdout.endswith("is allowed any more.\n")
        assert ready.cao("trust", "--list").stdout == "No commands of any project are allowed.\n"
        refused = ready.cao("trust", "--wd", str(other / "nowhere"), code=2)
        assert "is no folder; --wd names that of a project" in refused.stderr

    def test_what_is_wrong_with_a_command_is_said_before_anything_is_asked(
        self, ready: Machine
    ) -> None:
        toml(ready, self.GATES)
        done = ready.cao("run", "task.md", "--provider", "scriptd", code=2)
        assert "did you mean scripted?" in done.stderr
        assert "wants these commands" not in done.stderr

    def test_a_server_refuses_too(self, ready: Machine) -> None:
        toml(ready, self.GATES)
        with ready.server() as server:
            settings = {"FLOW": "solo", "PROVIDER": "scripted"}
            body = {"wd": str(ready.work), "task_file": "task.md", "settings": settings}
            with ready.http(server) as client:
                answer = client.post("/runs", json=body)
        assert answer.status_code == 400, answer.text
        assert 'tests = "touch ran"' in answer.json()["detail"]
        assert not (ready.work / "ran").exists()

    def test_nothing_of_a_command_can_be_hidden(self, ready: Machine) -> None:
        toml(ready, '[gates]\ntests = "touch ran \\u001b[2Kecho harmless"\n')
        assert "without control characters" in self.refused(ready)
        ready.cao("trust", "--yes", code=2)
