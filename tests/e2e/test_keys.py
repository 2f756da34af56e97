"""The live view of a real run and its keys, in a shell in a real terminal."""

import json
import os
import shlex
import signal
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.cli.panes import Pane
from tests.e2e.conftest import CAO, Machine
from tests.e2e.runs import (
    Event,
    answer,
    at,
    prepare,
    prompts_with,
    record_of,
    rule,
    run_folder_of,
    running,
    script,
)

pytestmark = [pytest.mark.tmux, pytest.mark.slow]

COMMAND = shlex.join(CAO)
ASKS = rule("analyst", misbehave='{ ask = "Go on?" }')
REVIEWS = rule("analyst_review", misbehave="{ hang = true }")
KEYS = "h hint · p pause"


class Shell(Pane):
    """A shell in a terminal, as the user of a machine has it."""

    def __init__(self, machine: Machine, folder: str) -> None:
        self._machine = machine
        agents = machine.env.get("TMUX_TMPDIR", "/tmp")
        start = f"env -u TMUX -u ENV TMUX_TMPDIR={agents} PS1='ready> ' sh -i"
        at = ("-c", str(machine.work))
        super().__init__(Path(folder), *at, start, width=150, env=machine.env)
        self.resize(150, 50)
        self.until_shown("ready>")

    def lines(self, joined: bool = False) -> list[str]:
        """Return what is on the screen, without what is above it."""
        return self.tmux("capture-pane", "-p").splitlines()

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-l", text)

    def command(self, text: str) -> None:
        self.type(text)
        self.press("Enter")

    def until_told(self, name: str, **fields: object) -> None:
        """Wait until the run has told of an event."""
        wanted = {"type": name, **fields}

        self.until(lambda _: any(wanted.items() <= event.items() for event in self._events()))

    def _events(self) -> Iterator[Event]:
        for path in (self._machine.home / "state" / "runs").glob("*/events.jsonl"):
            lines = path.read_text(encoding="utf-8").split("\n")[:-1]
            yield from (json.loads(line) for line in lines)

    def assert_usual(self) -> None:
        """The terminal shows what is typed, and hands it on a line at a time."""
        self.command("clear; stty -a; echo number $((40 + 2))")
        self.until_shown("number 42")
        words = " ".join(self.lines()).split()
        assert "icanon" in words
        assert not {"-icanon", "-echo", "-isig", "-icrnl"} & {*words}


@contextmanager
def shell_of(machine: Machine) -> Iterator[Shell]:
    folder = tempfile.TemporaryDirectory(prefix="cao-")
    with folder as place, closing(Shell(machine, place)) as shell:
        yield shell
        shell.press("C-c")


@contextmanager
def asked(machine: Machine, *rules: str) -> Iterator[Shell]:
    """Begin a run in a shell and wait until its analyst asks something."""
    prepare(machine, script(ASKS, *rules))
    with shell_of(machine) as shell:
        shell.command(f"{COMMAND} run task.md; echo ended with $?")
        shell.until_told("waiting_for_person", role="analyst")
        shell.until_shown(KEYS)
        yield shell


def control_of(machine: Machine) -> Path:
    return run_folder_of(machine) / "control.jsonl"


def test_a_run_is_steered_by_keys_to_its_end(machine: Machine) -> None:
    with asked(machine, REVIEWS) as shell:
        shell.press("p")
        shell.until_shown("! pauses after this turn")
        shell.press("h")
        shell.until_shown("Esc cancels")
        shell.type("Never mind")
        shell.press("Escape")
        shell.until_shown("p resume")
        shell.press("h")
        shell.until_shown("Esc cancels")
        shell.type("Mind the größe.")
        shell.until_shown("hint> Mind the größe._")
        shell.press("Left", "Enter")
        shell.until_told("hint_taken", text="Mind the größe.")
        answer(machine, "analyst")
        shell.until_told("paused")
        shell.until_shown("! paused for")
        shell.press("p")
        shell.until_told("unpaused")
        shell.until_told("dispatched", role="analyst_review")
        shell.until_shown("s skip")
        shell.press("a")
        shell.until_shown("! in another terminal:")
        shell.until_shown("/analyst_review")
        shell.press("s")
        shell.until_shown("ended with 0")
        shell.assert_usual()
    # The review that was told was skipped.
    assert prompts_with(machine, "Mind the größe.") == [
        "002-analyst_review-prompt.md",
        "003-programmer-prompt.md",
    ]
    assert prompts_with(machine, "Never mind") == []


@pytest.mark.parametrize(
    ("key", "signals", "code"), [("C-c", [], 130), ("", [signal.SIGTERM], 143)]
)
def test_a_signal_leaves_the_terminal_as_it_was(
    machine: Machine, key: str, signals: list[signal.Signals], code: int
) -> None:
    with asked(machine) as shell:
        shell.press("h")
        shell.until_shown("Esc cancels")
        shell.type("half a li")
        shell.until_shown("half a li_")
        if key:
            shell.press(key)
        pid = record_of(machine)["pid"]
        for number in signals:
            os.kill(pid, number)
        shell.until_shown(f"ended with {code}")
        assert shell.show("#{cursor_flag}") == "1"
        shell.assert_usual()


def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it_again(machine: Machine) -> None:
    prepare(machine, script(ASKS))
    with shell_of(machine) as shell:
        shell.command(f"{COMMAND} run task.md")
        shell.until_told("waiting_for_person", role="analyst")
        shell.until_shown(KEYS)
        assert shell.show("#{cursor_flag}") == "0"
        shell.press("C-z")
        shell.until_shown("Stopped")
        assert shell.show("#{cursor_flag}") == "1"
        shell.assert_usual()
        shell.command("clear; bg")
        # In the background there are commands, and the keys are the shell's.
        shell.until_shown("cao pause")
        assert shell.show("#{cursor_flag}") == "1"
        shell.assert_usual()
        shell.command("kill -STOP %1; clear; fg")
        shell.until_shown(KEYS)
        assert shell.show("#{cursor_flag}") == "0"
        shell.press("p")
        shell.until_told("pause_asked")
        shell.press("C-c")
        shell.until(lambda lines: "ready>" in [line for line in lines if line][-1])
        shell.assert_usual()


def test_a_run_that_is_given_its_input_has_no_keys_and_leaves_the_input_alone(
    machine: Machine,
) -> None:
    prepare(machine, script(ASKS))
    with shell_of(machine) as shell:
        shell.command(f"echo p s | ({COMMAND} run task.md; echo left: $(cat))")
        shell.until_told("waiting_for_person", role="analyst")
        shell.until_shown("cao pause")
        assert not control_of(machine).exists()
        answer(machine, "analyst")
        shell.until_shown("left: p s")
        shell.assert_usual()


def test_who_watches_a_run_presses_the_same_keys(machine: Machine) -> None:
    prepare(machine, script(ASKS))
    with running(machine, "task.md") as run, shell_of(machine) as shell:
        run.until(at("waiting_for_person", "analyst"))
        shell.command(f"{COMMAND} watch")
        shell.until_shown(KEYS)
        shell.press("p")
        run.until(lambda event: event["type"] == "pause_asked")
        shell.until_shown("p resume")
        shell.press("p")
        run.until(lambda event: event["type"] == "unpaused")
        shell.press("C-c")
        shell.until_shown("You have stopped watching")
        shell.assert_usual()
        run.interrupt()
        assert run.end() == 130


def test_it_shows_what_the_agent_does_and_resumed_why_work_was_sent_back(machine: Machine) -> None:
    revise = "REVIEW_RESULT: REVISE\nREVIEW_NOTES:\n- the handoff names no file"
    acts = rule("programmer", run='[["true"]]', misbehave="{ hang = true }")
    prepare(machine, script(rule("analyst_review", revise, turn="1"), acts))
    with running(machine, "task.md") as run, shell_of(machine) as shell:
        run.until(at("action", "programmer"))
        assert run.events[-1]["text"] == "run: true"
        shell.command(f"{COMMAND} watch; echo ended with $?")
        shell.until_shown("run: true")
        run.interrupt()
        shell.until_shown("ended with 130")
        shell.assert_usual()
        assert run.end() == 130
        shell.command(f"{COMMAND} resume")
        shell.until_shown("1.1 analyst_review REVISE: the handoff names no file")
