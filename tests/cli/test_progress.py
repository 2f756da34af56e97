"""How a run is shown: lines, JSON, and the live view of a terminal."""

import errno
import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pytest
from msgspec.structs import replace
from rich.console import Console

from cli_agent_orchestrator.cli.live import LiveView, Recall
from cli_agent_orchestrator.cli.narration import Narration
from cli_agent_orchestrator.cli.run import PlainView
from cli_agent_orchestrator.events import EventKind, Meaning, RunEnded, RunEvent, RunOpened, Warned
from cli_agent_orchestrator.notices.decide import NoticeSettings, Noticing, read_notice_settings
from cli_agent_orchestrator.pipeline.machine import Outcome
from cli_agent_orchestrator.pipeline.reply import TEST_FORM
from cli_agent_orchestrator.pipeline.review import Verdict
from cli_agent_orchestrator.pipeline.state import FinalStatus
from cli_agent_orchestrator.settings.config import tmux_socket
from tests.cli.test_narration import (
    BEGAN,
    NOON,
    RUN_BEGAN,
    SERVER,
    STARTING,
    delayed,
    ended,
    handoff,
)


class Shown:
    """A live view, and what it has written."""

    def __init__(self, recall: Recall | None = None, notices: NoticeSettings | None = None) -> None:
        self._written = io.StringIO()
        console = Console(file=self._written, force_terminal=True, width=100, height=40)
        self.view = LiveView(
            Narration(Path("/p")), console, refresh_seconds=0.01, recall=recall, notices=notices
        )

    def __enter__(self) -> Self:
        self.view.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self.view.__exit__(*raised)

    @property
    def text(self) -> str:
        """All of it, without colors."""
        return re.sub(r"\x1b\[[\d;]*m", "", self._written.getvalue())

    def until(self, words: str, times: int = 1) -> None:
        """Wait until something has been written; the picture is drawn again all the time."""
        deadline = time.monotonic() + 60
        while self.text.count(words) < times:
            assert time.monotonic() < deadline, self.text[-2000:]
            time.sleep(0.01)


class Closing(io.StringIO):
    """A terminal that is closed after the first thing is written."""

    def write(self, text: str) -> int:
        if self.tell():
            raise OSError(errno.EIO, "it is gone")
        return super().write(text)


KEYS_ARE_READ = "\x1b[?2004h"
"""What is sent to a terminal whose keys are read: mark what is pasted."""


def in_a_pty(command: list[str], env: Mapping[str, str]) -> str:
    """Return what a program shows in a terminal of its own."""
    ours, theirs = os.openpty()
    try:
        subprocess.run(
            command, env=env, stdin=theirs, stdout=theirs, start_new_session=True, check=True
        )
        return os.read(ours, 100_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)


class TestViews:
    def test_plain_lines_have_the_time(self, capsys: pytest.CaptureFixture[str]) -> None:
        with PlainView(Path("/p")) as view:
            view.tell(SERVER)
            view.tell(BEGAN)
            view.tell(handoff(EventKind.WAITING_FOR_PERSON, "cao attach 0badcafe"))
            view.tell(handoff(EventKind.DISPATCHED))
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 4
        assert lines[1][8:] == "  Round 1, cycle 2, analyst_review begins (codex)"
        assert lines[3].endswith("CAO_API=http://127.0.0.1:5000 cao attach 0badcafe")

    def test_the_kind_of_terminal_decides_how_a_run_is_shown(self) -> None:
        """One that can erase has the live view; the lines of others are broken at words."""
        code = (
            "import os, pathlib, termios, cli_agent_orchestrator.cli.run as progress\n"
            "from cli_agent_orchestrator.events import Warned\n"
            "if progress.sys.stdout.isatty():\n"
            "    for term in ('xterm', 'dumb', None):\n"
            "        os.environ.pop('TERM', None)\n"
            "        os.environ |= {'TERM': term} if term else {}\n"
            "        print(type(progress.choose_view(pathlib.Path('/p'), False)).__name__)\n"
            "for columns in (40, 0):\n"
            "    if progress.sys.stdout.isatty():\n"
            "        termios.tcsetwinsize(1, (24, columns))\n"
            "    view = progress.PlainView(pathlib.Path('/p'))\n"
            "    view.tell(Warned(0, 'word ' * 30 + 'done'))"
        )
        # What an outer terminal has left there says nothing about this one.
        env = {**os.environ, "COLUMNS": "99"}
        command = [sys.executable, "-c", code]
        piped = subprocess.run(command, env=env, capture_output=True, check=True, timeout=60)
        assert len(piped.stdout.splitlines()) == 2
        rows = in_a_pty(command, env).splitlines()
        assert rows[:3] == ["LiveView", "PlainView", "PlainView"]
        *broken, unknown = rows[3:]
        assert len(broken) > 1
        assert max(map(len, broken)) <= 40
        assert all(row.startswith(" " * 10 + "word ") for row in broken[1:])
        assert len(unknown) > 99

    def test_a_run_that_is_resumed_shows_why_it_was_sent_back_before(self) -> None:
        opened = RunOpened(NOON, "k3f9", "/p", seq=1)
        failed = replace(
            ended(Outcome(Meaning.FAILED, Verdict(TEST_FORM, False), 2)), reason="12 short", seq=2
        )
        resumed = RunOpened(NOON + 60, "k3f9", "/p", resumed=True, seq=3)
        later = Warned(NOON + 61, "not yet told", seq=4)
        asked = []

        def recall(run: str) -> list[RunEvent]:
            asked.append(run)
            return [opened, failed, resumed, later]

        with Shown(recall) as shown:
            for event in (resumed, RUN_BEGAN, replace(BEGAN, round=2)):
                shown.view.tell(event)
            shown.until("▶ Round 2")
            shown.until("12 short")
            shown.until("cao attach")
        assert asked == ["k3f9"]
        assert shown.text.count("FAIL; round 2 follows") == 0, "it is no line again"

    def test_a_terminal_that_is_resized_afterward_is_no_matter_of_the_view(self) -> None:
        before = signal.getsignal(signal.SIGWINCH)
        with Shown():
            assert signal.getsignal(signal.SIGWINCH) is not before
        assert signal.getsignal(signal.SIGWINCH) is before

    def test_a_terminal_that_is_gone_ends_the_picture_and_nothing_else(self) -> None:
        console = Console(file=Closing(), force_terminal=True, width=100, height=40)
        with LiveView(Narration(Path("/p")), console, refresh_seconds=0.01) as view:
            view._ticker.join(60)
            assert not view._ticker.is_alive()

    def test_a_fault_in_notices_keeps_the_bell_silent_and_nothing_else(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Noticing, "hear", lambda *_: 1 / 0)
        with Shown() as shown:
            shown.view.tell(Warned(time.time() + 60, "odd \x1b]0;title\x07"))
        assert "odd" in shown.text
        assert "]0;title" in shown.text
        assert "\x1b]" not in shown.text
        assert "\a" not in shown.text

    @pytest.mark.parametrize(
        ("settings", "sequences"),
        [
            ({}, ["\a", "\a"]),
            (
                {"terminal": "osc9"},
                [
                    "\x1b]9;shop: needs you: analyst_review asks you\a",
                    "\x1b]9;shop: PASS: It passed in round 1\a",
                ],
            ),
            ({"terminal": "off"}, []),
            ({"events": ["pass"]}, ["\a"]),
        ],
    )
    def test_a_notice_is_told_as_the_user_wants_it(
        self, settings: dict[str, object], sequences: list[str]
    ) -> None:
        asks = handoff(EventKind.WAITING_FOR_PERSON, "cao attach 0badcafe")
        now = time.time() + 60
        with Shown(notices=read_notice_settings(settings)) as shown:
            shown.view.tell(RunOpened(NOON, "k3f9", "/home/ada/shop"))
            happened: list[RunEvent] = [asks, BEGAN, *[replace(asks, at=now)] * 2]
            for event in happened:
                shown.view.tell(event)
            shown.view.tell(RunEnded(now, FinalStatus.PASS, 1, 0))
        assert re.findall(r"(?:\x1b\]9;[^\a]*)?\a", shown.text) == sequences

    def test_a_terminal_counts_the_seconds_of_a_delay_and_says_it_once(self) -> None:
        with Shown() as shown:
            shown.view.tell(BEGAN)
            shown.view.tell(delayed("its box\nholds text", 40))
            shown.until("holds text", times=2)
            assert re.search(r"! not delivered for [\d:]+: its box holds text", shown.text)
            shown.view.tell(delayed("its box\nholds text", 120))
            shown.view.tell(handoff(EventKind.DISPATCHED))
            written = shown.text.count("! not delivered")
            shown.view.tell(Warned(NOON, "odd"))
        assert shown.text.count("! not delivered") == written
        assert "cao attach" not in shown.text, "no other terminal finds this run"
        assert shown.text.count("message not delivered for") == 1
        assert shown.text.count("has its message now") == 1

    def test_a_terminal_that_does_not_know_its_size_has_the_usual_one(self) -> None:
        ours, theirs = os.openpty()
        with os.fdopen(theirs, "w") as file, os.fdopen(ours, "rb", 0) as reading:
            assert os.get_terminal_size(theirs) == (0, 0)
            console = Console(file=file, force_terminal=True, width=100, height=40)
            with LiveView(Narration(Path("/p")), console) as view:
                view.tell(Warned(NOON, "all of it on a line"))
            file.close()
            shown = b""
            while b"all of it on a line" not in shown:
                shown += reading.read(100_000)  # fails at the end

    def test_a_terminal_of_another_encoding_gets_question_marks(self) -> None:
        output = io.BytesIO()
        file = io.TextIOWrapper(output, encoding="ascii")
        console = Console(file=file, force_terminal=True, width=100)
        with LiveView(Narration(Path("/p")), console) as view:
            view.tell(STARTING)
            view.tell(Warned(NOON, "größer"))
        assert b"Starting 1 of 2" in output.getvalue()
        assert b"gr??er" in output.getvalue()

    @pytest.mark.parametrize("is_agents", [False, True])
    def test_in_an_agents_terminal_no_key_steers(self, tmp_path: Path, is_agents: bool) -> None:
        code = (
            "import fcntl, pathlib, termios\n"
            "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
            "from cli_agent_orchestrator.cli.run import choose_view\n"
            f"state = pathlib.Path({str(tmp_path)!r})\n"
            "with choose_view(state, False, state_folder=state):\n"
            "    pass\n"
        )
        socket = tmux_socket(tmp_path) if is_agents else "default"
        env = {**os.environ, "TERM": "xterm", "TMUX": f"/tmp/tmux-1000/{socket},4711,0"}
        shown = in_a_pty([sys.executable, "-c", code], env)
        assert (KEYS_ARE_READ in shown) is not is_agents
