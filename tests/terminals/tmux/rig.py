"""A real tmux server for one test, what it told, and small programs to run in it."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from cli_agent_orchestrator.errors import TmuxGone
from cli_agent_orchestrator.terminals.tmux import Command, PaneInfo, PaneScreen, Tmux
from cli_agent_orchestrator.terminals.tmux.connection import ANSWER_SECONDS

PATIENCE = 60.0
"""How long a test waits for something that must happen; it never waits for something not to."""

RAW_READER = """
import os, sys, tty
tty.setraw(0)
record = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(1, sys.argv[2].encode().decode("unicode_escape").encode() + b"ready")
total = 0
while data := os.read(0, 65536):
    os.write(record, data)
    total += len(data)
    os.write(1, b"\\r\\ngot %d." % total)
"""
"""Records what is typed, byte by byte, and says how many bytes it has."""

REPORTER = """
import json, os, sys
report = {"argv": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}
with open(os.environ["REPORT"], "w") as file:
    json.dump(report, file)
"""
"""Writes down how it was started."""

LONG_SLEEP = ("sleep", "1000")


@dataclass
class Recorder:
    """A listener that remembers everything and can be waited on."""

    screens: list[PaneScreen] = field(default_factory=list)
    outputs: dict[str, bytes] = field(default_factory=dict)
    exits: list[tuple[str, int | None]] = field(default_factory=list)
    connections: list[tuple[list[PaneInfo], dict[str, PaneScreen]]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def screen_changed(self, screen: PaneScreen) -> None:
        self.screens.append(screen)
        self._note("screen_changed")

    def output(self, pane: str, data: bytes) -> None:
        self.outputs[pane] = self.outputs.get(pane, b"") + data
        self._note("output")

    def exited(self, pane: str, exit_code: int | None) -> None:
        self.exits.append((pane, exit_code))
        self._note("exited")

    def connected(self, panes: list[PaneInfo], screens: dict[str, PaneScreen]) -> None:
        self.connections.append((panes, screens))
        self._note("connected")

    def disconnected(self, reason: str) -> None:
        self.reasons.append(reason)
        self._note("disconnected")

    def _note(self, event: str) -> None:
        self.order.append(event)
        self._news.set()

    async def until(self, happened: Callable[[], bool]) -> None:
        """Wait for something to have been told."""
        async with asyncio.timeout(PATIENCE):
            while not happened():
                self._news.clear()
                await self._news.wait()

    async def until_shown(self, pane: str, text: str) -> PaneScreen:
        """Wait for a screen with this text on it."""
        await self.until(lambda: any(text in screen.text for screen in self.of(pane)))
        return next(screen for screen in reversed(self.of(pane)) if text in screen.text)

    async def until_exited(self, pane: str) -> int | None:
        await self.until(lambda: any(pane == exited for exited, _ in self.exits))
        return dict(self.exits)[pane]

    def of(self, pane: str) -> list[PaneScreen]:
        return [screen for screen in self.screens if screen.pane == pane]


@dataclass
class Rig:
    """A tmux server of our own, connected."""

    tmux: Tmux
    recorder: Recorder
    socket: str
    environ: dict[str, str]
    scratch: Path
    """Where the engine keeps its files."""
    _numbers: "count[int]" = field(default_factory=count)

    async def run(self, *argv: str, session: str = "work", raw_output: bool = False) -> str:
        """Run a program in a new window and return its pane."""
        command = Command(argv, "/", {"PATH": os.environ["PATH"]}, raw_output)
        number = next(self._numbers)
        info = await self.tmux.open_window(session, f"window {number}", command, f"tag-{number}")
        return info.pane

    async def python(self, script: str, *args: str, session: str = "work") -> str:
        return await self.run(sys.executable, "-c", script, *args, session=session)

    async def reader(self, record: Path, greeting: str = "") -> str:
        """Run the program that records what is typed, and wait until it listens."""
        pane = await self.python(RAW_READER, str(record), greeting)
        await self.recorder.until_shown(pane, "ready")
        return pane

    async def by_hand(self, *words: str) -> str:
        """Run a tmux command as a person would, beside the engine."""
        process = await asyncio.create_subprocess_exec(
            *("tmux", "-L", self.socket, *words),
            env=self.environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        return said.decode()

    @asynccontextmanager
    async def second_tmux(
        self, recorder: Recorder, patience: float = ANSWER_SECONDS
    ) -> AsyncIterator[Tmux]:
        """Close this engine and start another one for the same server, which ends with it."""
        await self.tmux.close()
        tmux = Tmux(self.socket, self.environ, recorder, patience=patience)
        await tmux.start()
        try:
            yield tmux
        finally:
            await tmux.kill_server()


@asynccontextmanager
async def running_tmux(term: str | None = None) -> AsyncIterator[Rig]:
    """Start an engine on a socket in a folder of its own, and remove every trace of it after.

    `term` is the TERM of whoever starts it.
    """
    folder = tempfile.mkdtemp(prefix="cao-test-")
    scratch = Path(folder) / "scratch"
    scratch.mkdir()
    environ = {**os.environ, "TMUX_TMPDIR": folder, "TMPDIR": str(scratch)}
    environ.pop("TERM", None)
    if term is not None:
        environ["TERM"] = term
    recorder = Recorder()
    tmux = Tmux("engine", environ, recorder)
    rig = Rig(tmux, recorder, "engine", environ, scratch)
    try:
        await rig.tmux.start()
        yield rig
    finally:
        with suppress(TmuxGone):
            await rig.tmux.kill_server()
        await rig.tmux.close()
        await rig.by_hand("kill-server")
        shutil.rmtree(folder, ignore_errors=True)
