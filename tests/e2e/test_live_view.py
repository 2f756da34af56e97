"""The live view of a real run: in the terminal that watches it."""

import os
import select
import signal
import time

import pytest

from tests.e2e.conftest import CAO, Machine
from tests.e2e.runs import ASKS, at, prepare, rule, running, script

pytestmark = pytest.mark.tmux

# It does not end, so that what it did can be seen for as long as it takes.
ACTS = rule("programmer", run='[["true"]]', misbehave="{ hang = true }")
PATIENCE = 60.0
SHOW_CURSOR = "\x1b[?25h"


class Terminal:
    """A terminal in which a run is watched, or goes on; nobody has told it how large it is."""

    def __init__(self, machine: Machine, *words: str) -> None:
        self._ours, theirs = os.openpty()
        self.text = ""
        self.program = machine.warm.start(
            [*CAO[1:], *(words or ["watch"])],
            {**machine.env, "TERM": "xterm"},
            machine.work,
            [theirs] * 3,
        )
        os.close(theirs)

    def until(self, words: str) -> None:
        """Read until something is shown."""
        deadline = time.monotonic() + PATIENCE
        while words not in self.text:
            assert time.monotonic() < deadline, self.text
            assert select.select([self._ours], [], [], PATIENCE)[0], self.text
            self.text += os.read(self._ours, 65536).decode(errors="replace")

    def rest(self) -> str:
        """Read to the end and return what came after the program was to end."""
        before = len(self.text)
        try:
            while piece := os.read(self._ours, 65536):
                self.text += piece.decode(errors="replace")
        except OSError:
            pass  # how the end of a terminal is told
        os.close(self._ours)
        return self.text[before:]


def test_it_shows_what_the_agent_does_and_resumed_why_work_was_sent_back(machine: Machine) -> None:
    revise = "REVIEW_RESULT: REVISE\nREVIEW_NOTES:\n- the handoff names no file"
    prepare(machine, script(rule("analyst_review", revise, turn="1"), ACTS))
    with running(machine, "task.md") as run:
        run.until(at("action", "programmer"))
        assert run.events[-1]["text"] == "run: true"
        terminal = Terminal(machine)
        terminal.until("run: true")
        run.interrupt(signal.SIGINT)
        assert terminal.program.wait(timeout=60) == 130
        assert terminal.rest().endswith(SHOW_CURSOR)
        assert run.end() == 130
    terminal = Terminal(machine, "resume")
    terminal.until("1.1 analyst_review REVISE: the handoff names no file")
    terminal.program.send_signal(signal.SIGINT)
    assert terminal.program.wait(timeout=60) == 130
    terminal.rest()


def test_who_stops_watching_leaves_run_and_terminal_as_they_were(machine: Machine) -> None:
    prepare(machine, script(ASKS))
    with running(machine, "task.md") as run:
        run.until(at("waiting_for_person", "programmer"))
        terminal = Terminal(machine)
        terminal.until("asks you")
        assert "\a" not in terminal.text, "it was asked before anybody watched"
        terminal.program.send_signal(signal.SIGTERM)
        assert terminal.program.wait(timeout=60) == 143
        assert SHOW_CURSOR in terminal.rest()
        assert "You have stopped watching; the run goes on." in terminal.text
        run.interrupt(signal.SIGINT)
        assert run.end() == 130
