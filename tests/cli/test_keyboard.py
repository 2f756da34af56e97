"""Keys are read from a real terminal, which is as it was afterward."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

# It says what happens on one pipe, and waits for a word on another before it goes on.
BEGINNING = """
import fcntl, json, os, select, signal, sys, termios, time
from cli_agent_orchestrator.cli.interrupts import Keyboard
words, said = os.fdopen(int(sys.argv[1])), os.fdopen(int(sys.argv[2]), "w")
def say(*what): print(json.dumps(what), file=said, flush=True)
def until(is_so):
    deadline = time.monotonic() + 60
    while not is_so() and time.monotonic() < deadline: time.sleep(0.01)
    return is_so()
def is_usual(): return bool(termios.tcgetattr(0)[3] & termios.ICANON)
def hear(data):
    say("heard", data.decode())
    return False
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
say("ready")
words.readline()
"""


ROOT = Path(__file__).parents[2]


class Program:
    """A program in a terminal of its own."""

    def __init__(self, text: str) -> None:
        self.terminal, theirs = os.openpty()
        self._words, self._said = os.pipe(), os.pipe()
        inherited = (self._words[0], self._said[1])
        self.process = subprocess.Popen(
            [sys.executable, "-c", BEGINNING + text, *map(str, inherited)],
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=inherited,
            cwd=ROOT,
        )
        for file in (theirs, *inherited):
            os.close(file)
        self._lines = os.fdopen(self._said[0])
        assert self.next() == ["ready"]

    # Any: whatever the program says
    def next(self) -> list[Any]:
        """Return what the program says next."""
        line = self._lines.readline()
        assert line, "it ended"
        said: list[Any] = json.loads(line)
        return said

    def go_on(self) -> None:
        os.write(self._words[1], b"\n")

    def type(self, keys: bytes) -> None:
        os.write(self.terminal, keys)

    def until_shown(self, text: bytes) -> bytes:
        shown = b""
        while text not in shown:
            shown += os.read(self.terminal, 4096)
        return shown

    def hang_up(self) -> None:
        os.close(self.terminal)
        self.terminal = -1

    def close(self) -> None:
        if self.terminal != -1:
            os.close(self.terminal)
        os.close(self._words[1])
        self._lines.close()
        self.process.kill()
        self.process.wait()


@contextmanager
def program(text: str) -> Iterator[Program]:
    running = Program(text)
    try:
        yield running
    finally:
        running.close()


def test_what_was_typed_before_presses_no_key_and_what_is_pasted_is_marked() -> None:
    text = "with Keyboard(hear): say('on'); words.readline()\nprint('over', flush=True)"
    with program(text) as running:
        running.type(b"early")
        running.until_shown(b"early")
        running.go_on()
        running.until_shown(b"\x1b[?2004h")
        assert running.next() == ["on"]
        running.type(b"p")
        assert running.next() == ["heard", "p"]
        running.go_on()
        assert b"\x1b[?2004l" in running.until_shown(b"over")


def test_what_was_pressed_and_not_read_is_no_input_for_the_shell() -> None:
    text = """
def hear(data):
    say("heard", data.decode())
    until(is_usual)  # so it reads no more
    return False
def left(): return int.from_bytes(fcntl.ioctl(0, termios.FIONREAD, b"1234"), sys.byteorder)
with Keyboard(hear):
    say("on")
    words.readline()
    say(until(lambda: left() == 9))
say(is_usual(), select.select([0], [], [], 0)[0])
"""
    with program(text) as running:
        running.go_on()
        assert running.next() == ["on"]
        running.type(b"a")
        assert running.next() == ["heard", "a"]
        running.type(b"rm -r .\n\n")
        running.go_on()
        assert running.next() == [True]
        assert running.next() == [True, []]


def test_a_terminal_that_is_gone_is_read_no_more() -> None:
    text = """
keyboard = Keyboard(hear)
with keyboard:
    say(keyboard.is_on)
    words.readline()
    say(until(lambda: not keyboard.is_on))
"""
    with program(text) as running:
        running.go_on()
        assert running.next() == [True]
        running.hang_up()
        running.go_on()
        while (said := running.next()) == ["heard", ""]:
            pass
        assert said == [True]


@pytest.mark.parametrize("handler", ["SIG_DFL", "SIG_IGN"])
def test_signals_do_what_they_did_before(handler: str) -> None:
    text = f"""
signal.signal(signal.SIGTSTP, signal.{handler})
with Keyboard(hear): say(signal.getsignal(signal.SIGTSTP) is signal.SIG_IGN)
say(*(signal.getsignal(number) for number in (signal.SIGTSTP, signal.SIGCONT)))
"""
    with program(text) as running:
        running.go_on()
        assert running.next() == [handler == "SIG_IGN"]
        assert running.next() == [getattr(signal, handler), signal.SIG_DFL]


def test_what_a_key_cannot_ask_for_is_told_and_does_not_control_the_terminal() -> None:
    text = """
from pathlib import Path
from cli_agent_orchestrator.cli.live import LiveView
from cli_agent_orchestrator.cli.narration import Narration
from cli_agent_orchestrator.errors import UsageError
from tests.cli.run_events import BEGAN, OPENED, turn
def ask(run, wish):
    raise UsageError("not now: \x1b]0;title\x07")
with LiveView(Narration(Path("/p")), ask=ask) as view:
    for event in (OPENED, BEGAN, turn("tester")): view.tell(event)
    words.readline()
"""
    with program(text) as running:
        running.go_on()
        running.until_shown(b"p pause")
        running.type(b"p")
        assert b"\x1b]" not in running.until_shown(b";title")
