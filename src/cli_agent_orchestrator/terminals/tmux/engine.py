"""Terminals in tmux, over one control-mode connection to a server of our own.

It runs `tmux` only to ask for the version and to connect.
"""

import asyncio
import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import chain, repeat
from pathlib import Path

from msgspec.structs import replace

from ...errors import TmuxCommandError, TmuxError, TmuxGone, TmuxMissing
from . import protocol as commands
from .connection import (
    ANSWER_SECONDS,
    Answers,
    ControlConnection,
    drop_error,
    read_version,
    take_over,
)
from .observer import Observer, TmuxListener, look_at, tell
from .protocol import (
    LIST_PANES,
    NEW_WINDOW,
    Answer,
    Command,
    Message,
    PaneInfo,
    PaneScreen,
    command,
    parse_pane,
    parse_panes,
    parse_version,
)

FIRST_RETRIES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Pauses between attempts to connect: a server that was just killed may be in the way."""
SETTLE_SECONDS = 2.0
LONGEST_SOCKET_PATH = 103
"""Bytes of a path, on the system that allows the fewest."""
GOODBYE_TIMEOUT = 2.0
PASTE_START = b"\x1b[200~"
PASTE_END = b"\x1b[201~"


class Tmux:
    """The terminals of one tmux server.

    Every verb raises TmuxGone while there is no connection, TmuxCommandError when tmux refuses.
    A connection that ends is replaced at once, with a new server if the old one is gone.
    """

    def __init__(
        self,
        socket: str,
        environ: Mapping[str, str],
        listener: TmuxListener,
        *,
        program: str = "tmux",
        patience: float = ANSWER_SECONDS,
    ) -> None:
        """A server that answers nothing for `patience` seconds counts as gone."""
        self._socket = socket
        self._program = program
        self._patience = patience
        self._scratch = environ.get("TMPDIR")
        # The few variables that tmux itself needs; no secret is among them.
        inherited = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMUX_TMPDIR")
        kept = {name: environ[name] for name in inherited if environ.get(name)}
        # The same TERM, whatever the server runs in: some agents ask tmux for it.
        self._env = {"TERM": "xterm-256color", "SHELL": "/bin/sh", **kept}
        self._listener = listener
        self._link: tuple[ControlConnection, Observer] | None = None
        self._lost = asyncio.Event()
        self._restored = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._rewrites_pastes = False
        self._turn = asyncio.Lock()
        self._changes: set[asyncio.Task[Answers]] = set()

    async def start(self) -> None:
        """Connect, starting the server if there is none, and stay connected from then on.

        The listener is `connected` before this returns. TmuxMissing if tmux is not there or too
        old, TmuxGone if it does not answer.
        """
        folder = self._env.get("TMUX_TMPDIR", "/tmp")
        socket = Path(folder, f"tmux-{os.getuid()}", self._socket)
        size = len(os.fsencode(socket))
        if size > LONGEST_SOCKET_PATH:
            raise TmuxMissing(
                f"TMUX_TMPDIR ({folder}) is too long for a socket: {size} bytes with the socket's "
                f"name, at most {LONGEST_SOCKET_PATH}; set it to a shorter folder"
            )
        said = await asyncio.to_thread(read_version, self._program, self._env)
        version = parse_version(said)
        # From 3.7 on tmux rewrites what is pasted unless it is told not to.
        self._rewrites_pastes = version is None or version >= (3, 7)
        self._lost.clear()
        await self._connect_within(FIRST_RETRIES)
        self._keeping = asyncio.create_task(self._keep_connected())

    async def close(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeping
            self._keeping = None
        with suppress(TimeoutError):
            # Also what a change that was given up leads to: its undoing.
            async with asyncio.timeout(GOODBYE_TIMEOUT):
                while self._changes:
                    await asyncio.wait(self._changes)
        if self._link is not None:
            connection, _ = self._link
            self._drop()
            await connection.close()
        await asyncio.gather(*self._changes, return_exceptions=True)

    async def kill_server(self) -> None:
        if self._link is None and self._keeping is not None:
            # A server that is just being started would outlive us.
            with suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE_TIMEOUT):
                    await self._restored.wait()
        connection, _ = self._current()
        self._drop()
        with suppress(TmuxGone, TimeoutError):
            async with asyncio.timeout(GOODBYE_TIMEOUT):
                where = command("display-message", "-p", "#{socket_path}")
                [socket] = await connection.send([where])
                connection.tell(["kill-server"])
                await connection.wait_ended()
                # tmux itself leaves the file behind.
                Path(socket.text).unlink(missing_ok=True)
        await connection.close()
        await self.close()

    def _current(self) -> tuple[ControlConnection, Observer]:
        if self._link is None:
            raise TmuxGone("there is no connection to tmux now; it is being restored")
        return self._link

    def _drop(self) -> None:
        if self._link is not None:
            self._link[1].close()
        self._link = None
        self._restored.clear()

    def _received(self, connection: ControlConnection, messages: list[Message]) -> None:
        if self._link is not None and connection is self._link[0]:
            self._link[1].received(messages)

    def _was_lost(self, connection: ControlConnection, reason: str) -> None:
        if self._link is not None and connection is self._link[0]:
            self._drop()
            self._lost.set()
            tell(self._listener.disconnected, reason)

    async def _keep_connected(self) -> None:
        while True:
            await self._lost.wait()
            self._lost.clear()
            await self._connect_within(chain(FIRST_RETRIES, repeat(2.0)))

    async def _connect_within(self, pauses: Iterable[float]) -> None:
        for pause in pauses:
            try:
                return await self._connect()
            except (TmuxError, OSError):
                await asyncio.sleep(pause)
        await self._connect()

    async def _connect(self) -> None:
        attaching = asyncio.create_task(self._attach())
        try:
            connection, server, panes, screens = await asyncio.shield(attaching)
        except asyncio.CancelledError:
            # Not in the middle of attaching: one in a hundred clients that end then makes tmux 3.3a
            # crash, with all that runs in it.
            await asyncio.wait([attaching], timeout=SETTLE_SECONDS)
            attaching.cancel()
            with suppress(TmuxError, OSError, asyncio.CancelledError):
                connection, *_ = await attaching
                await connection.close()
            raise
        observer = Observer(connection, server, self._listener)
        self._link = connection, observer
        self._restored.set()
        for info in panes:
            if not info.dead:
                observer.adopt(info, screens.get(info.pane))
        tell(self._listener.connected, panes, screens)

    async def _attach(self) -> tuple[ControlConnection, int, list[PaneInfo], dict[str, PaneScreen]]:
        client = (self._program, "-u", "-L", self._socket, "-f", "/dev/null", "-C")
        connection = ControlConnection(self._received, self._was_lost, self._patience)
        await connection.open((*client, *commands.ATTACH), self._env)
        try:
            server, panes = await take_over(connection)
            screens = await look_at(connection, [info.pane for info in panes], len(panes))
        except BaseException:
            await connection.close()
            raise
        if not connection.is_open:
            await connection.close()
            raise TmuxGone("the connection to tmux ended while it was being set up")
        return connection, server, panes, screens

    async def open_window(self, session: str, name: str, command: Command, tag: str) -> PaneInfo:
        """Run a program in a window of its own, in a session that is made if it is not there.

        The listener hears of the new pane only after this has returned.
        """
        lines = commands.open_lines(session, name, tag, command)
        connection, observer = self._current()
        with observer.opening():
            change = self._change(connection, lines)
            try:
                answers = await asyncio.shield(change)
            except asyncio.CancelledError:
                change.add_done_callback(partial(self._undo_opening, connection))
                raise
            opened = _opened_pane(answers)
            if opened is None:
                raise TmuxCommandError("new-window", answers[NEW_WINDOW].text)
            linked = answers[commands.LINK_WINDOW]
            if not linked.ok:
                await asyncio.shield(self._change(connection, [_kill_window(opened.window)]))
                raise TmuxCommandError("link-window", linked.text)
            # tmux knows it by a temporary name, in the hub, when it answers.
            raw = command.raw_output
            info = replace(opened, session=session, name=name, tag=tag, raw_output=raw)
            observer.adopt(info)
        return info

    async def panes(self) -> list[PaneInfo]:
        return parse_panes((await self._ask("list-panes", LIST_PANES)).lines)

    async def read(self, panes: Sequence[str]) -> dict[str, PaneScreen]:
        connection, observer = self._current()
        return await look_at(connection, list(dict.fromkeys(panes)), observer.followed)

    async def read_ansi(self, pane: str, above: int = 0) -> str:
        line = command("capture-pane", "-p", "-e", "-S", str(-above), "-t", pane)
        return (await self._ask("capture-pane", line)).text

    async def scrollback(self, pane: str) -> str:
        """Return the whole history and the screen; wrapped lines are joined again."""
        line = command("capture-pane", "-p", "-J", "-S", "-", "-t", pane)
        return (await self._ask("capture-pane", line)).text

    async def paste(self, pane: str, data: bytes, *, marked: bool = False) -> None:
        """Paste bytes exactly, bracketed if the program asked for that or it is `marked`.

        TmuxCommandError means that nothing was pasted.
        """
        connection, _ = self._current()
        if not data:
            return
        buffer = f"cao-{secrets.token_hex(8)}"
        content = PASTE_START + data + PASTE_END if marked else data
        with _scratch_file(self._scratch, content) as path:
            answers = await connection.send(
                commands.paste_lines(
                    pane, buffer, str(path), keep_bytes=self._rewrites_pastes, brackets=not marked
                ),
                answers=5,
            )
        loaded, _, _, pasted, _ = answers
        _check("load-buffer", loaded)
        _check("paste-buffer", pasted)

    async def press(
        self, pane: str, keys: Sequence[str], session: str = "", touched_at: int = 0
    ) -> bool:
        """Press keys; with a session only if no person pressed one since `touched_at`, else False.

        tmux looks and acts in one step.
        """
        connection, _ = self._current()
        if not keys:
            return True
        words: tuple[str, ...] = ("send-keys", "-t", pane, "--", *keys)
        if session:
            words = commands.if_untouched(session, touched_at, words)
        # Copy mode and its like eat keys.
        leave = command("copy-mode", "-q", "-t", pane)
        press = commands.guarded(pane, words, answers=2 if session else 1)
        answers = await connection.send([leave, press], answers=4 if session else 3)
        _check("send-keys", answers[2])
        _check("send-keys", answers[-1])
        return answers[-1].text != commands.TOUCHED

    async def touched_at(self, session: str) -> int:
        """Return the second in which a person last pressed a key, 0 if no person is attached."""
        line = command("display-message", "-p", "-t", f"={session}:", commands.TOUCHED_AT)
        return int((await self._ask("display-message", line)).text)

    async def close_window(self, pane: str) -> None:
        """Close a pane's window, though its program may live; nothing more is reported of it."""
        connection, observer = self._current()
        observer.forget(pane)
        await asyncio.shield(self._change(connection, [_kill_window(pane)]))

    def _change(self, connection: ControlConnection, lines: Sequence[str]) -> asyncio.Task[Answers]:
        """Change windows or sessions, one batch at a time, even if the caller is cancelled.

        tmux 3.3a crashes when a session ends before it has announced that its current window
        changed. It does so once it has carried out all that it has read.
        """

        async def send_in_turn() -> Answers:
            async with self._turn:
                return await connection.send(lines)

        task = asyncio.create_task(send_in_turn())
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        task.add_done_callback(drop_error)
        return task

    def _undo_opening(self, connection: ControlConnection, change: "asyncio.Task[Answers]") -> None:
        if change.cancelled() or change.exception() is not None:
            return
        info = _opened_pane(change.result())
        if info is not None:
            self._change(connection, [_kill_window(info.window)])

    async def _ask(self, subcommand: str, line: str) -> Answer:
        [answer] = await self._current()[0].send([line])
        if not answer.ok:
            raise TmuxCommandError(subcommand, answer.text)
        return answer


def _opened_pane(answers: Answers) -> PaneInfo | None:
    answer = answers[NEW_WINDOW]
    return parse_pane(answer.lines[0]) if answer.ok and answer.lines else None


def _kill_window(target: str) -> str:
    return command("kill-window", "-t", target)


def _check(subcommand: str, answer: Answer) -> None:
    if not answer.ok or answer.text == commands.ENDED:
        raise TmuxCommandError(subcommand, answer.text)


@contextmanager
def _scratch_file(parent: str | None, data: bytes) -> Iterator[Path]:
    with ExitStack() as stack:
        try:
            folder = tempfile.TemporaryDirectory(prefix="cao-paste-", dir=parent)
            path = Path(stack.enter_context(folder)) / "message"
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as new:
                new.write(data)
        except OSError as error:
            where = parent or tempfile.gettempdir()
            reason = f"the message cannot be written to {where}: {error.strerror}"
            raise TmuxCommandError("load-buffer", reason) from error
        yield path
