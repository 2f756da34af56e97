"""Bad input and bad days: each has a clear message, and nothing is lost."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.runs import TASK, prepare, replies_of, script, state_of
from tests.runs.test_flows import TEXT as OWN_FLOW

EXPLORE, SCENARIO = "*** ORIGINAL EXPLORE SUMMARY ***", "*** SCENARIO TEST ***"
OLD_STATE = {
    "version": 1,
    "updated_at": "2025-01-31T12:00:00Z",
    "api": "http://localhost:9889",
    "provider": "scripted",
    "prompt": TASK,
    "current_round": 2,
    "current_phase": "programmer",
    "final_status": "RUNNING",
    "session_name": "cao-old",
    "feedback": "RESULT: FAIL\nEVIDENCE:\n- it broke",
    "analyst_feedback": "None yet.",
    "programmer_feedback": "None yet.",
    "outputs": {
        "analyst": "ANALYST_SUMMARY: from the old script",
        "analyst_review": "",
        "programmer": "",
        "programmer_review": "",
        "tester": "",
    },
}
TERMINAL_NAMES = ("analyst", "peer_analyst", "programmer", "peer_programmer", "tester")


@pytest.fixture
def ready(machine: Machine) -> Machine:
    prepare(machine, script())
    return machine


def state_path(machine: Machine) -> Path:
    path = machine.work / ".tmp" / "orchestrator-loop-state.json"
    path.parent.mkdir(exist_ok=True)
    return path


def assert_nothing_was_started(machine: Machine) -> None:
    assert not (machine.home / "state").exists()


@pytest.mark.parametrize("words", [("--provider", "codex"), ("--agent", "tester=codex")])
def test_an_agent_that_is_not_signed_in_is_refused_before_anything_is_started(
    ready: Machine, words: tuple[str, str]
) -> None:
    program = ready.home / "codex"
    program.write_text(
        "#!/bin/sh\n[ $1 = --version ] && echo codex-cli 0.169.0 && exit\n"
        "echo Not logged in >&2\nexit 1\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    ready.env["CAO_CODEX_COMMAND"] = str(program)
    refused = ready.cao("run", "task.md", *words)
    assert refused.returncode == 2
    assert f"`{program} login`" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert json.loads(ready.cao("runs", "--json").stdout) == []
    assert_nothing_was_started(ready)


@pytest.mark.parametrize("place", [".cao", ".cao/flows", ".cao/flows/own.toml", ".cao/flows/own"])
def test_a_flow_behind_a_link_is_bad_configuration(ready: Machine, place: str) -> None:
    """Such a link can come with a cloned project."""
    folder = ready.work / ".cao" / "flows"
    (folder / "own").mkdir(parents=True)
    (folder / "own.toml").write_text(OWN_FLOW, encoding="utf-8")
    (folder / "own" / "worker.md").write_text("$context $response_file\n", encoding="utf-8")
    path = ready.work / place
    path.rename(ready.home / "elsewhere")
    path.symlink_to(ready.home / "elsewhere")
    for flow in ("own", str(folder / "own.toml")):
        done = ready.cao("run", "task.md", "--flow", flow, "--gate", "tests=true")
        assert done.returncode == 2, done.stderr
        assert f"{place}" in done.stderr
        assert "a symbolic link" in done.stderr
        assert_nothing_was_started(ready)


class TestTask:
    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (f"{SCENARIO}\ntry it\n", f"`{EXPLORE}` is missing"),
            ("", "the task is empty"),
        ],
        ids=["no explore", "empty file"],
    )
    def test_a_task_of_another_form_is_refused_with_the_right_form(
        self, ready: Machine, text: str, reason: str
    ) -> None:
        (ready.work / "task.md").write_text(text, encoding="utf-8")
        done = ready.cao("run", "task.md")
        assert done.returncode == 2
        assert reason in done.stderr
        assert not text or f"{EXPLORE}\nWhat is to be done" in done.stderr
        assert_nothing_was_started(ready)

    def test_no_task_at_all_points_to_the_template(self, ready: Machine) -> None:
        (ready.work / "task.md").unlink()
        done = ready.cao("run")
        assert done.returncode == 2
        assert "cao init" in done.stderr


class TestSettings:
    @pytest.mark.parametrize(
        ("name", "value", "expected"),
        [
            ("MAX_REVIEW_CYCLES", "0", "at least 1"),
            ("WD", "nowhere", "a folder that exists"),
            ("PROVIDER", "nonesuch", "there are: codex"),
        ],
    )
    def test_a_bad_value_is_named_before_anything_is_started(
        self, ready: Machine, name: str, value: str, expected: str
    ) -> None:
        ready.env[name] = value
        done = ready.cao("run", "task.md")
        assert done.returncode == 2
        assert value in done.stderr
        assert expected in done.stderr
        assert_nothing_was_started(ready)

    @pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
    @pytest.mark.parametrize(
        ("mode", "words"),
        [(0o500, "read and write"), (0o300, "cao.toml cannot be read: Permission denied")],
        ids=["unwritable", "unreadable"],
    )
    def test_a_folder_without_access_is_refused(
        self, ready: Machine, mode: int, words: str
    ) -> None:
        folder = ready.home / "closed"
        folder.mkdir(mode=mode)
        ready.env["WD"] = str(folder)
        done = ready.cao("run", "task.md")
        folder.chmod(0o700)
        assert done.returncode == 2
        assert words in done.stderr

    def test_a_state_file_that_cannot_be_written_is_said_before_agents_start(
        self, ready: Machine
    ) -> None:
        ready.env["STATE_FILE"] = str(ready.work / "task.md" / "state.json")
        done = ready.cao("run", "task.md")
        assert done.returncode == 3
        assert ready.env["STATE_FILE"] in done.stderr
        assert_nothing_was_started(ready)

    @pytest.mark.tmux
    def test_approvals_that_can_never_count_are_warned_about(self, ready: Machine) -> None:
        ready.env |= {"MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "3", "MAX_REVIEW_CYCLES": "1"}
        done = ready.cao("run", "task.md")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "no approval can count" in done.stdout.splitlines()[1]
        assert "the run goes on with the notes still open" in done.stdout


class TestSavedState:
    @pytest.mark.parametrize(
        "content",
        [b"{ not json", b'{"version": 2}'],
        ids=["no JSON", "another version"],
    )
    def test_a_state_that_cannot_be_read_is_left_alone(
        self, ready: Machine, content: bytes
    ) -> None:
        state_path(ready).write_bytes(content)
        for words in ([], ["--no-resume"]):
            done = ready.cao("run", "task.md", *words)
            assert done.returncode == 3
            assert str(state_path(ready)) in done.stderr
        assert state_path(ready).read_bytes() == content
        assert_nothing_was_started(ready)

    @pytest.mark.tmux
    @pytest.mark.parametrize("objects", [False, True], ids=["plain ids", "objects"])
    def test_a_state_of_the_earlier_script_goes_on(self, ready: Machine, objects: bool) -> None:
        ids = {name: f"old-{name}" for name in TERMINAL_NAMES}
        terminals = {
            name: {"id": terminal_id, "provider": "scripted"} if objects else terminal_id
            for name, terminal_id in ids.items()
        }
        state = {**OLD_STATE, "wd": str(ready.work), "terminals": terminals}
        state_path(ready).write_text(json.dumps(state), encoding="utf-8")
        refused = ready.cao("run")
        assert refused.returncode == 3
        assert "programmer (old-programmer) is not there any more" in refused.stderr
        done = ready.cao("run", "--resume", "--replace-terminals")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Round 2, cycle 1, programmer" in done.stdout
        assert "analyst begins" not in done.stdout
        assert list(replies_of(ready)) == [
            *("001-programmer.md", "002-programmer_review.md", "003-tester.md")
        ]

    def test_resume_without_a_saved_run_is_an_error(self, ready: Machine) -> None:
        ready.env["RESUME"] = "1"
        done = ready.cao("run", "task.md")
        assert done.returncode == 2
        assert "no saved run" in done.stderr

    @pytest.mark.tmux
    def test_a_new_run_keeps_the_unfinished_one(self, ready: Machine) -> None:
        state = {**OLD_STATE, "wd": str(ready.work), "terminals": {}}
        state_path(ready).write_text(json.dumps(state), encoding="utf-8")
        done = ready.cao("run", "task.md", "--no-resume")
        assert done.returncode == 0, done.stdout + done.stderr
        (aside,) = (ready.home / "state" / "runs").glob("*/state-before.json")
        assert json.loads(aside.read_text(encoding="utf-8")) == state
        assert state_of(ready)["final_status"] == "PASS"

    def test_a_run_of_another_folder_is_not_taken_up_here(self, ready: Machine) -> None:
        state = {**OLD_STATE, "wd": str(ready.home), "terminals": {}}
        state_path(ready).write_text(json.dumps(state), encoding="utf-8")
        done = ready.cao("run", "task.md", "--resume")
        assert done.returncode == 3
        assert str(ready.home) in done.stderr

    @pytest.mark.parametrize("folder", ["a\nb", "x" * 5000])
    def test_a_saved_folder_that_can_be_none_is_quoted(self, ready: Machine, folder: str) -> None:
        state = {**OLD_STATE, "wd": folder, "terminals": {}}
        state_path(ready).write_text(json.dumps(state), encoding="utf-8")
        done = ready.cao("run", "--resume")
        assert done.returncode == 3
        assert f"the saved run works in {folder!r}" in done.stderr
        assert "name that with --wd, or start a new run with --no-resume" in done.stderr
        assert done.stderr.count("\n") == 1

    @pytest.mark.parametrize("api", ["http://192.0.2.1:1", "http://127.0.0.1:1"])
    def test_a_saved_server_is_used_again_only_if_it_is_named_again(
        self, ready: Machine, api: str
    ) -> None:
        state = {**OLD_STATE, "wd": str(ready.work), "terminals": {}, "api": api}
        state_path(ready).write_text(json.dumps(state), encoding="utf-8")
        for words in ([], ["task.md", "--resume"]):
            done = ready.cao("run", *words)
            assert done.returncode == 3
            assert "with --api" in done.stderr


def install(machine: Machine, text: str) -> None:
    """Let the agents be a shell script."""
    program = machine.home / "agent"
    program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    program.chmod(0o755)
    machine.env["CAO_SCRIPTED_COMMAND"] = str(program)


@pytest.mark.tmux
class TestStart:
    def assert_nothing_is_left(self, machine: Machine) -> None:
        assert not machine.tmux("list-panes", "-a", "-F", "#{@cao_id}").split()

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (None, "there is no program 'no-such-agent'"),
            ("echo Please sign in first; exit 1", "Please sign in first"),
        ],
        ids=["not installed", "ends at once"],
    )
    def test_agents_that_cannot_be_started_are_a_matter_of_usage(
        self, ready: Machine, text: str | None, reason: str
    ) -> None:
        ready.env["CAO_SCRIPTED_COMMAND"] = "no-such-agent"
        if text is not None:
            install(ready, text)
        done = ready.cao("run", "task.md", "--json")
        assert done.returncode == 2, done.stderr
        assert "no run was begun: scripted could not be started" in done.stderr
        assert reason in done.stderr
        assert json.loads(done.stdout.splitlines()[-1])["exit_code"] == 2
        assert not state_path(ready).exists()
        self.assert_nothing_is_left(ready)

    def test_so_is_a_machine_without_tmux(self, ready: Machine) -> None:
        path, ready.env["PATH"] = ready.env["PATH"], str(ready.home)
        done = ready.cao("run", "task.md")
        ready.env["PATH"] = path
        assert done.returncode == 2
        assert "tmux" in done.stderr
        assert done.stderr.count("\n") == 1

    def test_agents_of_a_run_that_cannot_be_saved_are_ended(self, ready: Machine) -> None:
        # Taken away only when the agents start: before that, nothing is started at all.
        python = shlex.quote(sys.executable)
        runs = ready.home / "state" / "runs"
        take = f'for run in {runs}/2*; do mkdir -p "$run/state.json"; done'
        install(ready, f'{take}\nexec {python} "$@"')
        done = ready.cao("run", "task.md")
        assert done.returncode == 3, done.stderr
        assert "the state cannot be saved" in done.stderr
        assert done.stderr.count("\n") == 1
        self.assert_nothing_is_left(ready)

    @pytest.mark.parametrize("name", ["STATE_FILE", "PROMPT_FILE", "WD"])
    def test_a_name_that_is_too_long_is_said_in_one_line(self, ready: Machine, name: str) -> None:
        ready.env[f"CAO_{name}"] = "x" * 300
        done = ready.cao("run")
        assert done.returncode == (3 if name == "STATE_FILE" else 2), done.stderr
        assert done.stderr.count("\n") == 1
        assert_nothing_was_started(ready)


def test_in_a_folder_that_was_removed_that_is_said(machine: Machine) -> None:
    cao = f"{shlex.quote(sys.executable)} -P -m cli_agent_orchestrator"
    done = subprocess.run(
        ["sh", "-c", f"mkdir gone && cd gone && rmdir ../gone && {cao} runs"],
        cwd=machine.home,
        env=machine.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "the folder you are in was removed: go to another one" in done.stderr
