"""A state folder with a run in it, and a real server that serves it."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import httpx
from starlette.applications import Starlette

from cli_agent_orchestrator.events import RunBegan, RunEnded, RunEvent, TurnBegan, TurnEnded
from cli_agent_orchestrator.pipeline.requests import Request, SentRequest
from cli_agent_orchestrator.runs.control import Listener
from cli_agent_orchestrator.runs.record import RunRecord, SavedSetting, write_record
from cli_agent_orchestrator.runs.recorder import EventLog, after_event
from cli_agent_orchestrator.runs.service import RunService, RunToLaunch
from cli_agent_orchestrator.server.app import create_app, in_background
from cli_agent_orchestrator.settings.layout import run_folder
from tests.fakes import FakeService
from tests.server.running import TOKEN, WAIT_SECONDS, serve_at

NOON = 1_700_000_000.0
RUN = "20261115-084037-k3f9"
EVENTS: tuple[RunEvent, ...] = (
    RunBegan(NOON, "cao-1", {"analyst": "a1"}, {"analyst": "codex"}, "/a"),
    TurnBegan(NOON, "analyst", 1, 1, 1, "a1", "codex"),
    TurnEnded(NOON + 5, "analyst", 1, 1, 1, "delivered", "summary received", 4.0, "/a/1"),
    RunEnded(NOON + 9, "PASS", 1, 0),
)


class FakeLauncher:
    """Starts nothing, and notes what it was asked to."""

    def __init__(self) -> None:
        self.asked: list[tuple[RunToLaunch, Path]] = []
        self.problem: Exception | None = None

    def __call__(self, request: RunToLaunch, folder: Path) -> str:
        if self.problem is not None:
            raise self.problem
        self.asked.append((request, folder))
        return RUN


class Rig:
    """A state folder with a run in it, and a server that serves it."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.project = folder / "project"
        self.project.mkdir()
        self.launcher = FakeLauncher()
        self.terminals = FakeService()
        self.folder = run_folder(self.state, RUN)
        self.record = RunRecord(
            id=RUN,
            wd=str(self.project),
            state_file=str(self.project / "state.json"),
            task="do it",
            task_line="do it",
            started=NOON,
            settings={"MAX_ROUNDS": SavedSetting("3", "option")},
        )
        self.folder.make()
        write_record(self.folder, self.record)

    def happen(self, *events: RunEvent) -> None:
        log = EventLog(self.folder)
        for event in events:
            self.record = after_event(self.record, event)
            write_record(self.folder, self.record)
            log.append(event)
        log.close()

    def app(self, runs: RunService) -> Starlette:
        """Return what is served; it is made in the loop of the server."""
        return create_app(self.terminals, runs, token=TOKEN, heartbeat=0.05)

    @contextmanager
    def served(self, patience: float = WAIT_SECONDS, *, port: int = 0) -> Iterator[str]:
        """Serve the run, and yield at which address."""

        async def main(ready, stop) -> None:  # type: ignore[no-untyped-def]
            runs = RunService(self.state, self.launcher, os.environ, patience)
            await serve_at(port, self.app(runs), ready, stop)

        with in_background(main) as served_at:
            yield f"http://127.0.0.1:{served_at}"

    @contextmanager
    def client(self, patience: float = WAIT_SECONDS) -> Iterator[httpx.Client]:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with (
            self.served(patience) as url,
            httpx.Client(
                base_url=url, headers=headers, timeout=WAIT_SECONDS, trust_env=False
            ) as client,
        ):
            yield client


class Answering:
    """A run that lives and answers every ask in the same way."""

    def __init__(self, rig: Rig, answer: Callable[[SentRequest], RunEvent]) -> None:
        self._rig = rig
        self._answer = answer
        self.requests: list[Request] = []
        self._listener = Listener(rig.folder, 0, self._hear, self._warn)

    def __enter__(self) -> Self:
        self._held = ExitStack()
        self._held.enter_context(self._rig.folder.locked())
        self._held.enter_context(self._listener)
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def _hear(self, ask: SentRequest | None, end: int) -> None:
        assert ask is not None
        self.requests.append(ask.request)
        self._rig.happen(self._answer(ask))

    def _warn(self, text: str) -> None:
        raise AssertionError(text)
