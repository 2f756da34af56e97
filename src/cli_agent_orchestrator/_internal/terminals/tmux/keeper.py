"""Keeps a connection to tmux: opens it, notices its end, and opens the next one at once.

What belongs to a connection, its observer, comes and goes with it.
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, repeat

from cli_agent_orchestrator._internal.terminals.tmux import hub
from cli_agent_orchestrator._internal.terminals.tmux.commands import attach_words
from cli_agent_orchestrator._internal.terminals.tmux.connection import (
    ANSWER_SECONDS,
    ControlConnection,
)
from cli_agent_orchestrator._internal.terminals.tmux.observer import (
    Observer,
    TmuxListener,
    look_at,
    screens_of,
    tell,
)
from cli_agent_orchestrator._internal.terminals.tmux.panes import Look, Size
from cli_agent_orchestrator._internal.terminals.tmux.protocol import Message
from cli_agent_orchestrator.errors import TmuxError, TmuxGone

FIRST_RETRIES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Pauses between attempts to connect: a server that was just killed may be in the way."""
LAST_RETRY = 2.0
SETTLE_SECONDS = 2.0
"""How long a connection that is not wanted any more may take to be there."""


DEFAULT_SIZE = Size(120, 40)
Attached = tuple[ControlConnection, hub.TmuxServer, dict[str, Look]]


@dataclass(frozen=True, slots=True)
class Address:
    """Which tmux server is meant, and how it is started if it is not there."""

    socket: str
    environ: Mapping[str, str] = field(repr=False)
    """Where tmux's few variables and TMPDIR are taken from."""
    program: str = "tmux"
    size: Size = DEFAULT_SIZE
    patience: float = ANSWER_SECONDS
    """A server that answers nothing for so many seconds counts as gone."""

    @property
    def env(self) -> dict[str, str]:
        """All variables that tmux itself gets."""
        return hub.server_environment(self.environ)


class Keeper:
    """The way to one tmux server."""

    def __init__(self, address: Address, listener: TmuxListener) -> None:
        self._address = address
        self._listener = listener
        self._connection: ControlConnection | None = None
        self._observer: Observer | None = None
        self._lost = asyncio.Event()
        self._restored = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect, starting the server if there is none, and stay connected from then on."""
        self._lost.clear()
        await self._connect_within(FIRST_RETRIES)
        self._keeping = asyncio.create_task(self._keep_connected())

    async def stop(self) -> None:
        """Connect no more; the connection that there is stays until it is dropped."""
        if self._keeping is not None:
            self._keeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeping
            self._keeping = None

    async def wait_until_restored(self, seconds: float) -> None:
        """Wait for the connection if it is just being restored."""
        if self._connection is None and self._keeping is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._restored.wait()

    def current(self) -> tuple[ControlConnection, Observer]:
        """Return the connection and its observer; TmuxGone if there is none now."""
        if self._connection is None or self._observer is None:
            raise TmuxGone("there is no connection to tmux now; it is being restored")
        return self._connection, self._observer

    def drop(self) -> ControlConnection | None:
        """Let go of the connection, so that nothing old can touch a new one."""
        if self._observer is not None:
            self._observer.close()
        connection, self._connection, self._observer = self._connection, None, None
        self._restored.clear()
        return connection

    def received(self, connection: ControlConnection, messages: list[Message]) -> None:
        """Hand on what tmux says unasked."""
        if connection is self._connection and self._observer is not None:
            self._observer.received(messages)

    def lost(self, connection: ControlConnection, reason: str) -> None:
        """Note that a connection has ended by itself."""
        if connection is self._connection:
            self.drop()
            self._lost.set()
            tell(self._listener.disconnected, reason)

    async def _keep_connected(self) -> None:
        while True:
            await self._lost.wait()
            self._lost.clear()
            await self._connect_within(chain(FIRST_RETRIES, repeat(LAST_RETRY)))

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
            connection, server, looks = await asyncio.shield(attaching)
        except asyncio.CancelledError:
            await _let_go(attaching)
            raise
        self._connection = connection
        self._restored.set()
        self._observer = Observer(connection, server.pid, self._listener)
        for info in server.panes:
            if not info.dead:
                self._observer.adopt(info, looks.get(info.pane))
        tell(self._listener.connected, server.panes, screens_of(looks))

    async def _attach(self) -> Attached:
        address = self._address
        client = (address.program, "-u", "-L", address.socket, "-f", "/dev/null", "-C")
        argv = (*client, *attach_words(address.size))
        connection = await ControlConnection.open(argv, address.env, self, address.patience)
        try:
            server = await hub.take_over(connection, address.size)
            panes = [info.pane for info in server.panes]
            looks = await look_at(connection, panes, len(panes))
        except BaseException:
            await connection.close()
            raise
        if not connection.is_open:
            await connection.close()
            raise TmuxGone("the connection to tmux ended while it was being set up")
        return connection, server, looks


async def _let_go(attaching: asyncio.Task[Attached]) -> None:
    """End a connection that is just being made, but not in the middle of that.

    One in a hundred clients that end while they are attached makes tmux 3.3a crash, with all that
    runs in it.
    """
    await asyncio.wait([attaching], timeout=SETTLE_SECONDS)
    attaching.cancel()
    with suppress(TmuxError, OSError, asyncio.CancelledError):
        connection, *_ = await attaching
        await connection.close()
