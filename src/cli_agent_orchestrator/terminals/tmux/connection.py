"""One control-mode client of tmux: batches of command lines out, their answers and messages in.

A connection is used once. When it ends, however it ends, every batch that was not answered fails
with TmuxGone and the receiver is told once. A server that does not answer counts as gone: what it
says later, it says to nobody. Whoever reconnects makes a new one, so nothing that
belongs to an old connection can touch a new one.
"""

import asyncio
import os
import signal
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol, cast

from ...errors import TmuxGone
from .protocol import Answer, Message, Notice, Parser

CONNECT_TIMEOUT = 10.0
ANSWER_SECONDS = 15.0
"""How long tmux may leave everything unanswered before it is given up."""
SILENT_LOOKS = 3
"""In how many looks that is seen, so that it hardly counts when we ourselves were stopped."""
STDERR_LIMIT = 2000

Answers = list[Answer]


class Receiver(Protocol):
    """Gets what comes unasked."""

    def received(self, connection: "ControlConnection", messages: list[Message]) -> None: ...
    def lost(self, connection: "ControlConnection", reason: str) -> None: ...


class _Batch:
    """Command lines that were sent in one go and are answered one by one."""

    __slots__ = ("answers", "done", "expected")

    def __init__(self, expected: int, done: asyncio.Future[Answers]) -> None:
        self.expected = expected
        self.done = done
        self.answers: Answers = []


class ControlConnection(asyncio.SubprocessProtocol):
    """The control client, which is a child process, and the conversation with it."""

    def __init__(self, receiver: Receiver, patience: float) -> None:
        self._receiver = receiver
        self._patience = patience
        self._answered = 0
        """How many answers have come."""
        self._silent = 0
        """How many looks in a row have seen none."""
        self._look: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._parser = Parser()
        self._batches: deque[_Batch] = deque()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.SubprocessTransport | None = None
        self._input: asyncio.WriteTransport | None = None
        self._stderr = b""
        self._reason = ""
        self._open = True

    @classmethod
    async def open(
        cls,
        argv: Sequence[str],
        env: Mapping[str, str],
        receiver: Receiver,
        patience: float = ANSWER_SECONDS,
    ) -> "ControlConnection":
        """Start the client and wait until it is attached; TmuxGone if that does not come about."""
        connection = cls(receiver, patience)
        loop = asyncio.get_running_loop()
        # The server that the client may start inherits the folder: it must not hold on to one.
        # What is sent to us and our process group (Ctrl-C) is not for the client: we end it.
        await loop.subprocess_exec(
            lambda: connection, *argv, env=dict(env), cwd="/", start_new_session=True
        )
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await connection._ready
        except TimeoutError:
            await connection.close()
            raise TmuxGone("tmux did not answer in time") from None
        except BaseException:
            await connection.close()
            raise
        return connection

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def pid(self) -> int:
        """The process id of the client."""
        return self._transport.get_pid() or 0 if self._transport else 0

    def send(self, lines: Sequence[str], *, answers: int | None = None) -> asyncio.Future[Answers]:
        """Send command lines in one write; the future has their answers, in the same order.

        `answers` says how many will come if it is not one for each line. A refused command is an
        answer like others, with `ok` false. When the connection ends, or when tmux answers nothing
        for a while, the future has TmuxGone.
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
        self._batches.append(_Batch(len(lines) if answers is None else answers, done))
        self._input.write(data)
        if self._look is None:
            self._silent = 0
            self._look_later()
        return done

    def tell(self, lines: Sequence[str]) -> None:
        """Send command lines whose answers nobody waits for."""
        self.send(lines).add_done_callback(_take_notice)

    async def close(self) -> None:
        """End the client; it is gone when this returns. The receiver is not told."""
        self._open = False
        self._end("the connection was closed")
        await self.wait_ended()

    async def wait_ended(self) -> None:
        """Wait until the client is gone."""
        await asyncio.shield(self._ended)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)
        self._input = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._stderr = (self._stderr + data)[:STDERR_LIMIT]
            return
        if not self._open:
            return
        messages = self._parser.feed(data)
        unasked = [message for message in messages if not self._is_handled(message)]
        if unasked and self._open:
            self._receiver.received(self, unasked)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd != 2:
            self._lose()

    def process_exited(self) -> None:
        self._lose()
        if self._transport is not None:
            self._transport.close()
        if not self._ended.done():
            self._ended.set_result(None)

    def _is_handled(self, message: Message) -> bool:
        match message:
            case Answer(ours=True):
                self._answer(message)
            case Answer():
                self._attached(message)
            case Notice(name="exit", rest=reason):
                self._reason = reason
            case _:
                return False
        return True

    def _look_later(self) -> None:
        self._look = self._loop.call_later(
            self._patience / SILENT_LOOKS, self._look_for_answers, self._answered
        )

    def _look_for_answers(self, answered_before: int) -> None:
        """Give the server up if it has left us without any answer for too long."""
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
        batch = self._batches[0]
        batch.answers.append(answer)
        if len(batch.answers) == batch.expected:
            self._batches.popleft()
            if not batch.done.done():
                batch.done.set_result(batch.answers)

    def _attached(self, answer: Answer) -> None:
        # The first block answers the command the client was started with. Commands sent before it
        # would be carried out before the client is attached.
        if self._ready.done():
            return
        if answer.ok:
            self._ready.set_result(None)
        else:
            self._reason = answer.text

    def _lose(self) -> None:
        was_connected = self._open and self._ready.done()
        self._open = False
        self._end(self._gone_text())
        if was_connected:
            self._receiver.lost(self, self._gone_text())

    def _end(self, reason: str) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None
        if not self._ready.done():
            self._ready.set_exception(TmuxGone(reason))
            # close() may be the one that gave up waiting for it.
            self._ready.exception()
        while self._batches:
            batch = self._batches.popleft()
            if not batch.done.done():
                batch.done.set_exception(TmuxGone(reason))
        # The client is ended before its pipes are closed: tmux 3.3a keeps a client for ever whose
        # pipes close while there is output for it, and cannot even be killed properly then.
        if self._transport is not None and self._transport.get_returncode() is None:
            # Not by the transport's own method, which would take the exit status from asyncio.
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _gone_text(self) -> str:
        said = self._stderr.decode("utf-8", "replace").strip() or self._reason
        return f"tmux went away: {said}" if said else "tmux went away"


def _take_notice(done: asyncio.Future[Answers]) -> None:
    # asyncio complains about errors that nobody has looked at.
    if not done.cancelled():
        done.exception()
