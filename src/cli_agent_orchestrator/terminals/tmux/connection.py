"""One control-mode client of tmux, and how the server behind it is made ours.

Batches of command lines go out, answers and messages come in. A connection is used once. When it
ends, every batch without an answer fails with TmuxGone and `lost` is called once. A server that
does not answer counts as gone: later answers are dropped. To reconnect, make a new connection.

The server is started with next to no environment, and even that is taken out again: a program gets
the variables of its command, and what tmux itself sets.
"""

import asyncio
import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from ...errors import TmuxGone, TmuxMissing
from .protocol import (
    HUB_SESSION,
    LIST_PANES,
    OPTION_LINES,
    Answer,
    Message,
    Notice,
    PaneInfo,
    Parser,
    command,
    parse_panes,
    parse_version,
    unset_lines,
    windows_outside_hub,
)

CONNECT_TIMEOUT = 10.0
ANSWER_SECONDS = 15.0
"""How long tmux may leave everything unanswered before it is given up."""
SILENT_LOOKS = 3
"""Looks that must all find silence, so that it hardly counts when we ourselves were stopped."""
INSTALL_HINT = "install it with `apt install tmux` or `brew install tmux`"
VERSION_SECONDS = 20.0

Answers = list[Answer]


class ControlConnection(asyncio.SubprocessProtocol):
    def __init__(
        self,
        received: Callable[["ControlConnection", list[Message]], None],
        lost: Callable[["ControlConnection", str], None],
        patience: float,
    ) -> None:
        """`received` gets unasked messages, `lost` why the connection ended by itself."""
        self._received = received
        self._lost = lost
        self._patience = patience
        self._answered = 0
        self._silent = 0
        self._look: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._parser = Parser()
        self._batches: deque[tuple[int, Answers, asyncio.Future[Answers]]] = deque()
        """How many answers each batch expects, those that have come, and its future."""
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.SubprocessTransport | None = None
        self._input: asyncio.WriteTransport | None = None
        self._stderr = b""
        self._reason = ""
        self._open = True

    async def open(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        """Start the client and wait until it is attached; TmuxGone if it is not in time."""
        # The server that the client may start inherits the folder: it must not hold on to one.
        # What is sent to us and our process group (Ctrl-C) is not for the client: we end it.
        await self._loop.subprocess_exec(
            lambda: self, *argv, env=dict(env), cwd="/", start_new_session=True
        )
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await self._ready
        except TimeoutError:
            await self.close()
            raise TmuxGone("tmux did not answer in time") from None
        except BaseException:
            await self.close()
            raise

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def pid(self) -> int:
        return self._transport.get_pid() or 0 if self._transport else 0

    def send(self, lines: Sequence[str], *, answers: int | None = None) -> asyncio.Future[Answers]:
        """Send command lines in one write; the future has their answers, in the same order.

        `answers` is their number if it is not one for each line. A refused command is an answer
        with `ok` false. When the connection ends, or tmux stays silent, the future has TmuxGone.
        """
        done: asyncio.Future[Answers] = self._loop.create_future()
        # Its end may be told to us later than to its pipe.
        if not self._open or self._input is None or self._input.is_closing():
            done.set_exception(TmuxGone(self._gone_text()))
            return done
        if not lines or not all(line and "\n" not in line for line in lines):
            raise ValueError("a batch has one command a line, and no empty line")
        # Arguments may hold bytes that are no UTF-8 (a path, an environment value).
        data = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
        self._batches.append((len(lines) if answers is None else answers, [], done))
        self._input.write(data)
        if self._look is None:
            self._silent = 0
            self._look_later()
        return done

    def tell(self, lines: Sequence[str]) -> None:
        self.send(lines).add_done_callback(drop_error)

    async def close(self) -> None:
        """End the client; it is gone when this returns. `lost` is not called."""
        self._open = False
        self._end("the connection was closed")
        await self.wait_ended()

    async def wait_ended(self) -> None:
        await asyncio.shield(self._ended)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)
        self._input = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._stderr = (self._stderr + data)[:2000]
            return
        if not self._open:
            return
        unasked: list[Message] = []
        for message in self._parser.feed(data):
            match message:
                case Answer(ours=True):
                    self._answer(message)
                case Answer(ok=True):
                    # It answers the command that the client was started with. Commands sent before
                    # it would be carried out before the client is attached.
                    if not self._ready.done():
                        self._ready.set_result(None)
                case Answer():
                    self._reason = self._reason if self._ready.done() else message.text
                case Notice(name="exit", rest=reason):
                    self._reason = reason
                case _:
                    unasked.append(message)
        if unasked and self._open:
            self._received(self, unasked)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd != 2:
            self._lose()

    def process_exited(self) -> None:
        self._lose()
        if self._transport is not None:
            self._transport.close()
        if not self._ended.done():
            self._ended.set_result(None)

    def _look_later(self) -> None:
        self._look = self._loop.call_later(
            self._patience / SILENT_LOOKS, self._look_for_answers, self._answered
        )

    def _look_for_answers(self, answered_before: int) -> None:
        self._look = None
        if not self._batches:
            return
        self._silent = self._silent + 1 if self._answered == answered_before else 0
        if self._silent < SILENT_LOOKS:
            self._look_later()
            return
        self._reason = f"it did not answer for {self._patience:g} seconds"
        self._lose()

    def _answer(self, answer: Answer) -> None:
        self._answered += 1
        if not self._batches:
            return
        expected, answers, done = self._batches[0]
        answers.append(answer)
        if len(answers) == expected:
            self._batches.popleft()
            if not done.done():
                done.set_result(answers)

    def _lose(self) -> None:
        was_connected = self._open and self._ready.done()
        self._open = False
        self._end(self._gone_text())
        if was_connected:
            self._lost(self, self._gone_text())

    def _end(self, reason: str) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None
        if not self._ready.done():
            self._ready.set_exception(TmuxGone(reason))
            # close() may be the one that gave up waiting for it.
            self._ready.exception()
        while self._batches:
            *_, done = self._batches.popleft()
            if not done.done():
                done.set_exception(TmuxGone(reason))
        # The client is ended before its pipes are closed: tmux 3.3a keeps a client for ever whose
        # pipes close while there is output for it, and cannot even be killed properly then.
        if self._transport is not None and self._transport.get_returncode() is None:
            # Not by the transport's own method, which would take the exit status from asyncio.
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _gone_text(self) -> str:
        said = self._stderr.decode("utf-8", "replace").strip() or self._reason
        return f"tmux went away: {said}" if said else "tmux went away"


def drop_error(done: asyncio.Future[Any]) -> None:  # whatever its result is
    """Retrieve the error of a future that is not awaited: asyncio complains about others."""
    if not done.cancelled():
        done.exception()


def read_version(program: str, env: Mapping[str, str]) -> str:
    """Ask for tmux's version, as `checked_version` returns it. Blocks."""
    try:
        done = subprocess.run(
            [program, "-V"],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=VERSION_SECONDS,
            start_new_session=True,
            check=False,
        )
    except OSError as error:
        reason = f"tmux was not found ({program}: {error.strerror}); {INSTALL_HINT}"
        raise TmuxMissing(reason) from error
    except subprocess.TimeoutExpired:
        reason = f"{program} -V did not answer within {VERSION_SECONDS:g} seconds"
        raise TmuxMissing(reason) from None
    return checked_version(program, done.returncode, done.stdout.decode("utf-8", "replace"))


def checked_version(program: str, code: int | None, said: str) -> str:
    """Return tmux's version from its answer: `3.3a`; TmuxMissing if it cannot serve."""
    text = " ".join(said.split())[:200]
    if code != 0:
        raise TmuxMissing(f"{program} -V failed: {text}; {INSTALL_HINT}")
    version = parse_version(text)
    if version is not None and version < (3, 2):
        raise TmuxMissing(f"{text} is too old, 3.2 or later is needed; {INSTALL_HINT}")
    return text.removeprefix("tmux ")


async def take_over(connection: ControlConnection) -> tuple[int, list[PaneInfo]]:
    """Set the server up and end what an earlier life of ours left behind.

    Return the server's process id and all tagged panes, the dead with their exit codes if known.
    """
    clients = command(
        "list-clients", "-t", f"={HUB_SESSION}", "-F", "#{client_control_mode}:#{client_pid}"
    )
    ask_pid = command("display-message", "-p", "#{pid}")
    ask_environment = command("show-environment", "-g")
    asked = [*OPTION_LINES, ask_pid, ask_environment, clients, LIST_PANES]
    *_, pid, environment, listed_clients, listed = await connection.send(asked)
    for line in listed_clients.text.splitlines():
        control, _, client = line.partition(":")
        # tmux waits for a control client to read, for ever, though its owner was killed.
        if control == "1" and client.isdecimal() and int(client) != connection.pid:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(int(client), signal.SIGKILL)
    lines = unset_lines(environment.text.splitlines())
    for window in windows_outside_hub(listed.lines):
        lines.append(command("link-window", "-d", "-s", window, "-t", f"={HUB_SESSION}:"))
    if lines:
        await connection.send(lines)
    server = int(pid.text)
    # tmux may not know the exit code of a program that has just ended.
    for pause in (0.01, 0.03, 0.1, None):
        [answer] = await connection.send([LIST_PANES])
        panes = parse_panes(answer.lines)
        if pause is None or all(info.exit_code is not None for info in panes if info.dead):
            break
        remind_of_children(server)
        await asyncio.sleep(pause)
    return server, panes


def remind_of_children(server: int) -> None:
    """Make tmux collect the exit codes of programs that have ended.

    tmux 3.3a sometimes misses the signal of a child's end and then knows no exit code until another
    child ends.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.kill(server, signal.SIGCHLD)
