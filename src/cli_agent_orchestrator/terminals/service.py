"""The terminals as others use them: create, send, status, output, exit.

The service joins the parts: tmux acts, the board knows, the store remembers. A terminal's life is
`save → open window → ready → save`, and backwards when something fails, so that nothing is left
behind in tmux or in the store.
"""

import asyncio
import contextlib
import logging
import re
import secrets
import signal
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from .. import errors
from ..core import models
from ..core.clock import Clock, SteadyClock
from ..providers import get_provider
from ..settings.config import ServerConfig
from . import programs, tracker
from .board import Board, LiveTerminal, reached
from .courier import Courier, typeable
from .launch import Launcher, check_folder, find_profile, profile_folders
from .screens import FolderOf, ScreenRecorder, keys_for, question_of, watch_screen
from .sending import PROBE
from .signals import RecordFinder, SignalFiles, remove_signal_file
from .store import TerminalRow, TerminalStore
from .tmux import HUB_SESSION, Tmux, drop_error

logger = logging.getLogger(__name__)

QUIT_SECONDS = 5.0
ANSWER_SECONDS = 4.0
DRAW_SECONDS = 1.0
HANG_UP_SECONDS = 2.0
"""How long an agent and its programs may take to end when their terminal is closed."""
TEARDOWN_SECONDS = 5.0
"""How long the answer of a step waits for its agent to end."""
CLOSE_SECONDS = 10.0
"""How long closing waits for tmux to undo what was begun."""
LEFTOVER_LOOK = 0.05

SESSION_PATTERN = r"[A-Za-z0-9_-]{1,64}"

KEYS = (
    *("Enter", "Escape", "Tab", "BTab", "Space", "BSpace", "DC"),
    *("Up", "Down", "Left", "Right", "Home", "End", "PPage", "NPage"),
    *("C-a", "C-c", "C-d", "C-e", "C-l", "C-o", "C-r", "C-t", "C-u"),
    *("y", "n", "t", *"0123456789", PROBE),
)
"""Keys a client may press: they answer dialogs and edit the input box."""


class TerminalService:
    def __init__(
        self, config: ServerConfig, clock: Clock, recording_folder: FolderOf = lambda terminal: None
    ) -> None:
        clock = SteadyClock(clock)
        self._config = config
        self._clock = clock
        self._start_id = secrets.token_hex(4)
        self._board = Board(clock, self._start_id, told=self._told)
        self._tmux = Tmux(config.tmux_socket, config.environ, self._board)
        self._launcher = Launcher(config, self._tmux, clock)
        self._signals = SignalFiles(clock, lambda folder: self._recorder.appeared(folder))
        self._recorder = RecordFinder(self._board, self._signals)
        self._screens = ScreenRecorder(self._tmux, clock, recording_folder)
        self._events = config.state_dir / "events"
        self._adopted = False
        self._creations: dict[asyncio.Task[models.Terminal], str] = {}
        """Terminals that are being started, each with the name of its session."""
        self._steps: set[asyncio.Task[Any]] = set()
        self._dialogs: set[asyncio.Task[None]] = set()
        self._endings: set[asyncio.Task[None]] = set()
        self._store: TerminalStore | None = None
        self._courier: Courier | None = None

    async def start(self) -> None:
        store = await asyncio.to_thread(TerminalStore, self._config.state_dir)
        try:
            self._store = store
            self._courier = Courier(self._tmux, store, self._board, self._recorder.look)
            self._events.mkdir(mode=0o700, exist_ok=True)
            await self._adopt(store)
            self._adopted = True
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Let go of tmux and the store. The agents go on; without agents the tmux server ends."""
        self._recorder.close()
        await self._screens.close()
        for dialog in self._dialogs:
            dialog.cancel()
        # What was begun is undone as far as tmux answers.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await _give_up({*self._steps, *self._creations})
                await _wait_for_all(self._endings)
        if self._adopted and not list(self._board):
            with contextlib.suppress(errors.TmuxError):
                await self._tmux.kill_server()
        await self._tmux.close()
        # Without tmux they are over soon.
        await _wait_for_all({*self._steps, *self._creations})
        await _wait_for_all(self._endings)
        if self._courier is not None:
            await self._courier.close()
        self._signals.close()
        if self._store is not None:
            await asyncio.to_thread(self._store.close)
            self._store = None

    async def create_session(
        self, new: models.NewTerminal, session_name: str | None = None
    ) -> models.Terminal:
        name = session_name or secrets.token_hex(4)
        if not re.fullmatch(SESSION_PATTERN, name):
            raise errors.UsageError(
                f"session name {name!r} is not usable: 1 to 64 letters, digits, '-' and '_' are"
            )
        name = name if name.startswith("cao-") else f"cao-{name}"
        if name in (HUB_SESSION, *self._session_names()):
            raise errors.UsageError(f"there is a session {name!r} already")
        return await self._create(name, new)

    async def create_terminal(self, session_name: str, new: models.NewTerminal) -> models.Terminal:
        self.session(session_name)
        return await self._create(session_name, new)

    def _session_names(self) -> set[str]:
        return {*self._creations.values(), *(live.row.session_name for live in self._board)}

    def sessions(self) -> list[models.Session]:
        grouped: dict[str, list[models.Terminal]] = {}
        for live in self._board:
            if live.row.ready:
                grouped.setdefault(live.row.session_name, []).append(live.public())
        return [models.Session(name, tuple(terminals)) for name, terminals in grouped.items()]

    def session(self, name: str) -> models.Session:
        sessions = {session.name: session for session in self.sessions()}
        if name not in sessions:
            raise errors.NotFound("session", name, sessions)
        return sessions[name]

    async def delete_session(self, name: str) -> None:
        """End all terminals of a session, also those that are still being started."""
        creations = [task for task, session in self._creations.items() if session == name]
        if not creations:
            self.session(name)  # or there is none
        ready = [live for live in self._board if live.row.ready and live.row.session_name == name]
        await asyncio.gather(_give_up(creations), *map(self._discard, ready))

    def terminal(self, terminal_id: str) -> models.Terminal:
        return self._board.get(terminal_id).public()

    async def send(self, terminal_id: str, message: str, key: str | None = None) -> models.Delivery:
        """Type a message and submit it; with a key, a repeated request is not typed twice."""
        assert self._courier is not None
        return await self._courier.deliver(self._board.get(terminal_id), message, key)

    async def run_step(self, step: models.Step) -> models.StepAnswer:
        """Start an agent, send it one message, wait for its answer; end it even after a failure."""
        typeable(step.prompt)  # or nothing is started
        new = replace(step.new, for_step=not step.keep)
        own = asyncio.current_task()
        assert own is not None
        self._steps.add(own)
        try:
            async with AsyncExitStack() as undo:
                wanted = step.session_name
                known = self._session_names() if wanted else set()
                joined = [name for name in (wanted, f"cao-{wanted}") if name in known]
                if joined:
                    terminal = await self._create(joined[0], new)
                else:
                    terminal = await self.create_session(new, wanted)
                live = self._board.get(terminal.id)
                undo.push_async_callback(self._discard, live, TEARDOWN_SECONDS)
                delivery = await self.send(terminal.id, step.prompt)
                if not delivery.confirmed:
                    raise errors.StepFailed(live.row.provider, delivery.detail, live.text)
                await self._wait_for_rest(live, step.seconds)
                answer = await self.output(terminal.id, models.OutputMode.LAST)
                if step.keep:
                    undo.pop_all()
                return models.StepAnswer(terminal.id, answer, live.status)
        finally:
            self._steps.discard(own)

    async def press(self, terminal_id: str, key: str) -> None:
        _check_key(key)
        await self._press(self._board.get(terminal_id), [key])

    def question(self, terminal_id: str) -> models.Question | None:
        return question_of(self._board.get(terminal_id), self._start_id)

    async def answer(
        self,
        terminal_id: str,
        key: str,
        *,
        fingerprint: str | None = None,
        within: float = ANSWER_SECONDS,
    ) -> bool:
        """Press a key that answers a question (of this fingerprint); return if it goes in time."""
        _check_key(key)
        live = self._board.get(terminal_id)
        # Never into the middle of a message, and one after another.
        async with live.typing:
            if fingerprint is None:

                def is_drawn() -> bool:
                    shown = question_of(live, self._start_id)
                    return shown is None or bool(shown.choices)

                # Agents tell that they ask before they draw it, and a key would be lost till then.
                await reached(live, self._clock, is_drawn, DRAW_SECONDS)
                question = question_of(live, self._start_id)
                if question is None:
                    raise errors.InputRefused(live.row.id, "it asks nothing now")
            else:
                if fingerprint == live.answered:
                    raise errors.QuestionGone(live.row.id, "was answered already", live.row.role)
                # What was told of the screen may be a moment old.
                pane = self._pane(live)
                seen = (await self._tmux.read([pane])).get(pane)
                question = question_of(live, self._start_id, seen.text) if seen else None
                if question is None or question.fingerprint != fingerprint:
                    reason = "is not asked any more: it was answered elsewhere, or has gone"
                    raise errors.QuestionGone(live.row.id, reason, live.row.role)
            await self._press(live, keys_for(live, key))
            live.answered = question.fingerprint
            waiting = models.TerminalStatus.WAITING_USER_ANSWER
            return await reached(live, self._clock, lambda: live.status is not waiting, within)

    def watch_screen(self, terminal_id: str) -> AsyncGenerator[str, None]:
        """Yield what a terminal shows, in color, now and after each change, until it is removed."""
        live = self._board.get(terminal_id)
        return watch_screen(live, self._tmux, self._clock, lambda: self._board.has(live))

    async def scrollback(self, terminal_id: str, lines: int) -> str:
        live = self._board.get(terminal_id)
        return await self._tmux.read_ansi(live.pane, lines) if live.pane is not None else live.text

    async def output(self, terminal_id: str, mode: models.OutputMode) -> str:
        live = self._board.get(terminal_id)
        match mode:
            case models.OutputMode.SCREEN:
                return live.text
            case models.OutputMode.FULL:
                return await self._scrollback(live)
            case models.OutputMode.LAST:
                is_new = live.track.rests_surely and live.status is models.TerminalStatus.IDLE
                if live.answer is not None and not is_new:
                    return live.answer
                return live.provider.last_answer(await self._scrollback(live))

    def records(self, terminal_id: str) -> list[str]:
        return self._board.get(terminal_id).known_records

    def explain(self, terminal_id: str) -> models.Explanation:
        return tracker.explain(self._board.get(terminal_id).track, self._clock.now())

    async def exit(self, terminal_id: str) -> None:
        live = self._board.get(terminal_id)
        # Agents that quit clear their screen.
        await self._screens.finish(live)
        with contextlib.suppress(errors.TmuxError, TimeoutError):
            # Never into the middle of a message.
            async with asyncio.timeout(QUIT_SECONDS), live.typing:
                if live.alive and live.pane is not None and live.status.at_rest:
                    await self._tmux.press(live.pane, live.provider.exit_keys)
                    await reached(live, self._clock, lambda: not live.alive, QUIT_SECONDS)
        await self._discard(live)

    async def delete(self, terminal_id: str) -> None:
        await self._discard(self._board.get(terminal_id))

    def subscribe(self, after: str | None = None) -> AsyncGenerator[models.TerminalEvent, None]:
        """Yield events: those since `after`, or the state of all terminals, then new ones."""
        return self._board.log.subscribe(after)

    def has_client(self, client: int, port: int | None) -> bool:
        """Is a client of our server in a terminal? Blocks."""
        pids = [live.pid for live in self._board if live.alive and live.pid is not None]
        return programs.has_client(pids, client, port, self._config.tmux_socket)

    async def _create(self, session_name: str, new: models.NewTerminal) -> models.Terminal:
        """Start an agent, in a task of its own so that a deletion of its session can end it."""
        creation = asyncio.create_task(self._start_again(session_name, new))
        self._creations[creation] = session_name
        creation.add_done_callback(self._creations.pop)
        try:
            return await creation
        except asyncio.CancelledError:
            if creation.done() and not creation.cancelled() and creation.exception() is None:
                # It was ready in the very moment in which nobody wanted it any more.
                with contextlib.suppress(errors.NotFound):
                    await self.delete(creation.result().id)
            own = asyncio.current_task()
            if own is None or own.cancelling():
                raise
            raise errors.StartError(new.provider, "its session was deleted meanwhile") from None

    async def _start_again(self, session_name: str, new: models.NewTerminal) -> models.Terminal:
        """Start an agent; once more if it ends by itself, as Codexes that start together may do."""
        with contextlib.suppress(errors.ProgramEnded):
            return await self._start_agent(session_name, new)
        return await self._start_agent(session_name, new)

    async def _start_agent(self, session_name: str, new: models.NewTerminal) -> models.Terminal:
        assert self._store is not None
        provider = get_provider(new.provider, self._config.config_dir)
        folder = check_folder(new.working_directory)
        folders = profile_folders(Path(folder), self._config.config_dir)
        prompt = ""
        if new.agent_profile:
            prompt = find_profile(new.agent_profile, folders, Path(folder))
        row = TerminalRow(
            id=secrets.token_hex(4),
            name=f"{new.role or new.agent_profile}-{secrets.token_hex(2)}",
            provider=provider.name,
            session_name=session_name,
            agent_profile=new.agent_profile,
            working_directory=folder,
            created_at=self._clock.now(),
            permissions=new.permissions or self._config.permissions,
            step=new.for_step,
            role=new.role,
            record=new.record,
        )
        events = self._event_file(row.id)
        async with AsyncExitStack() as undo:
            live = self._board.add(row, provider)
            undo.push_async_callback(self._discard, live)
            command = await self._launcher.prepare(live, prompt, events, new.run_index)
            await asyncio.to_thread(self._store.save, row)
            events.touch(mode=0o600)
            self._recorder.follow(live, events)
            pane = await self._tmux.open_window(session_name, row.name, command, row.id)
            self._board.opened(live, pane)
            self._screens.follow(live)
            await self._launcher.wait_until_ready(live)
            self._board.refresh(live)
            if live.track.by_rest:
                await reached(live, self._clock, lambda: live.status.at_rest, QUIT_SECONDS)
            live.row = replace(row, ready=True)
            await asyncio.to_thread(self._store.save_box, row.id, live.box)
            await asyncio.to_thread(self._store.save, live.row)
            undo.pop_all()
        self._board.publish(live)
        return live.public()

    async def _adopt(self, store: TerminalStore) -> None:
        unfinished: list[str] = []
        unreadable: list[str] = []
        for row in store.terminals():
            try:
                provider = get_provider(row.provider, self._config.config_dir)
            except errors.UsageError as error:
                # A file of the user's may be mended; until then its agent is left alone.
                is_file = isinstance(error, errors.AgentFault)
                logger.warning("%s is %s: %s", row.id, "hidden" if is_file else "forgotten", error)
                (unreadable if is_file else unfinished).append(row.id)
                continue
            if row.ready:
                live = self._board.add(row, provider)
                live.remember(store.box(row.id) or live.box)
                with contextlib.suppress(errors.StartError):  # the program may be gone
                    await self._launcher.prepare(live, "", self._event_file(row.id))
                self._recorder.follow(live, self._event_file(row.id))
            else:
                unfinished.append(row.id)
        await self._tmux.start()
        for terminal_id in unfinished:
            await asyncio.to_thread(store.remove, terminal_id)
        for live in self._board:
            self._recorder.look(live)
            self._screens.follow(live)
        # What nobody waits for, and what is of no known terminal.
        for live in self._board:
            if live.row.step:
                logger.warning("%s: nobody waits for its step any more; ended", live.row.id)
                await self._discard(live)
        known = {live.row.id for live in self._board}.union(unreadable)
        for pane in await self._tmux.panes():
            if pane.tag not in known:
                logger.warning("%s: a window of no known terminal is closed", pane.tag or pane.pane)
                await self._tmux.close_window(pane.pane)
        for file in self._events.glob("*.jsonl"):
            if file.stem not in known:
                remove_signal_file(file)

    async def _discard(self, live: LiveTerminal, within: float | None = None) -> None:
        """End the agent and forget the terminal; this is finished even if the caller is cancelled.

        After `within` seconds it goes on in the background.
        """
        ending = asyncio.create_task(self._end(live))
        _keep(ending, self._endings)
        ending.add_done_callback(drop_error)
        try:
            await asyncio.wait({ending}, timeout=within)
        except asyncio.CancelledError:
            await asyncio.wait({ending}, timeout=within)
            raise
        if ending.done():
            ending.result()

    async def _end(self, live: LiveTerminal) -> None:
        await self._screens.finish(live)
        pane, leader = live.pane, live.pid
        if pane is not None:
            with contextlib.suppress(errors.TmuxError):
                if live.alive and leader is not None:
                    deadline = self._clock.monotonic() + HANG_UP_SECONDS
                    running = await asyncio.to_thread(programs.members, leader)
                    programs.send_signal(running, signal.SIGHUP)
                    await reached(live, self._clock, lambda: not live.alive, HANG_UP_SECONDS)
                    while running := await asyncio.to_thread(programs.members, leader):
                        if self._clock.monotonic() >= deadline:
                            programs.send_signal(running, signal.SIGKILL)
                            break
                        await asyncio.sleep(LEFTOVER_LOOK)
                await self._tmux.close_window(pane)
        self._board.remove(live)
        events = self._event_file(live.row.id)
        self._signals.forget(events)
        remove_signal_file(events)
        self._recorder.forget(live)
        assert self._store is not None
        await asyncio.to_thread(self._store.remove, live.row.id)

    async def _wait_for_rest(self, live: LiveTerminal, seconds: float) -> None:
        """Wait for the end of a turn. A person may answer questions meanwhile."""

        def is_over() -> bool:
            failed = live.status is models.TerminalStatus.ERROR or not self._board.has(live)
            return live.status.at_rest or failed

        in_time = await reached(live, self._clock, is_over, seconds)
        if not in_time:
            reason = f"it is {live.status} after {seconds:g} seconds: {live.verdict.reason}"
            raise errors.StepTimeout(live.row.provider, reason, live.text)
        if not live.status.at_rest:
            raise errors.StepFailed(live.row.provider, live.verdict.reason, live.text)

    def _told(self, live: LiveTerminal) -> None:
        """A status has changed: look for a record, pass a dialog."""
        self._recorder.told(live)
        if live.status is models.TerminalStatus.WAITING_USER_ANSWER and live.row.ready:
            _keep(asyncio.create_task(self._launcher.pass_dialog(live)), self._dialogs)

    async def _press(self, live: LiveTerminal, keys: Sequence[str]) -> None:
        try:
            await self._tmux.press(self._pane(live), keys)
        except errors.TmuxCommandError as error:
            # It ended in this very moment.
            raise errors.InputRefused(live.row.id, error.stderr) from error
        # What is asked from now on is another question.
        live.asked += 1

    async def _scrollback(self, live: LiveTerminal) -> str:
        return await self._tmux.scrollback(live.pane) if live.pane is not None else live.text

    def _pane(self, live: LiveTerminal) -> str:
        if live.pane is None or not live.alive:
            raise errors.InputRefused(live.row.id, live.verdict.reason)
        return live.pane

    def _event_file(self, terminal_id: str) -> Path:
        return self._events / f"{terminal_id}.jsonl"


def _check_key(key: str) -> None:
    if key not in KEYS:
        raise errors.UnknownName("key", key, KEYS)


def _keep(task: asyncio.Task[None], among: set[asyncio.Task[None]]) -> None:
    """Hold on to a task until it is done; asyncio does not."""
    among.add(task)
    task.add_done_callback(among.discard)


async def _give_up(begun: Iterable[asyncio.Task[Any]]) -> None:
    ending = set(begun)
    for task in ending:
        # One that is being undone already must not be disturbed in that.
        if not task.cancelling():
            task.cancel()
    await _wait_for_all(ending)


async def _wait_for_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    if waiting := set(tasks):
        await asyncio.wait(waiting)
