"""The page of all runs over time, and the page that starts one."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cli_agent_orchestrator._internal.config import config_folder
from cli_agent_orchestrator._internal.dashboard.counting import counting_tokens
from cli_agent_orchestrator._internal.dashboard.page import House, Page
from cli_agent_orchestrator._internal.dashboard.views.all_runs import (
    RunRow,
    all_runs,
    done_first,
    older_runs,
)
from cli_agent_orchestrator._internal.dashboard.views.new_run import FlowOffered, new_run
from cli_agent_orchestrator._internal.html.markup import Markup
from cli_agent_orchestrator._internal.layout import run_folder, runs_folder
from cli_agent_orchestrator._internal.runs.flows import Flows
from cli_agent_orchestrator._internal.runs.records.registry import (
    RunSummary,
    list_runs,
    summary_of,
)
from cli_agent_orchestrator._internal.runs.records.run_id import is_run_id
from cli_agent_orchestrator._internal.runs.records.run_record import read_record
from cli_agent_orchestrator.errors import NotFound, OrchestratorError

LOOK_SECONDS = 20.0
"""So often the ages of runs are written anew."""
MOST_FOLDERS = 5
"""Project folders whose flows are offered."""


class RunList:
    """All runs, read anew only where something has changed."""

    def __init__(self, state_folder: Path) -> None:
        self._state_folder = state_folder
        self._known: dict[str, tuple[int, RunSummary]] = {}
        self._read = 0.0

    def look(self, now: float) -> list[RunSummary]:
        """Return all runs, the newest first; for one thread at a time."""
        if now - self._read > LOOK_SECONDS:
            # What else they depend on may have changed: a state file that is gone.
            self._known, self._read = {}, now
        changed = runs_folder(self._state_folder).changed()
        known: dict[str, tuple[int, RunSummary]] = {}
        for name in filter(is_run_id, changed):
            before = self._known.get(name)
            if before is not None and before[0] == changed[name] and not before[1].is_live:
                known[name] = before
                continue
            # Something else that has the name of a run, or one that was just removed.
            with suppress(OSError):
                known[name] = changed[name], summary_of(run_folder(self._state_folder, name))
        self._known = known
        runs = (run for _, run in known.values())
        return sorted(runs, key=lambda run: (run.started, run.id), reverse=True)


@dataclass(frozen=True, slots=True)
class FollowRuns:
    """The page of all runs."""

    house: House
    look_seconds: float = LOOK_SECONDS

    async def pages(self) -> AsyncGenerator[Page, None]:
        house, runs = self.house, RunList(self.house.state_folder)
        async with (
            house.news.of() as listening,
            counting_tokens(house.state_folder, listening) as counted,
        ):
            is_last = False
            while not is_last:
                is_last = listening.is_last
                now = house.clock.now()
                found = await asyncio.to_thread(runs.look, now)
                shown, older = done_first(found, now)
                rounds = await asyncio.to_thread(self._rounds, shown)
                rows = [
                    RunRow(run, rounds.get(run.id, 0), self._question(run), counted.of(run))
                    for run in shown
                ]
                yield all_runs(rows, len(older), now)
                await listening.wait(self.look_seconds)

    def _rounds(self, runs: Sequence[RunSummary]) -> dict[str, int]:
        """Return how many rounds those runs may take that go on."""
        live = (run.id for run in runs if run.is_live)
        records = (read_record(run_folder(self.house.state_folder, run)) for run in live)
        return {record.id: record.max_rounds for record in records if record is not None}

    def _question(self, run: RunSummary) -> str:
        terminal = run.terminals.get(run.asking) if run.is_live else None
        if terminal is None:
            return ""
        with suppress(OrchestratorError):
            question = self.house.terminals.question(terminal)
            return question.text if question is not None else ""
        return ""


def older_fragment(house: House) -> Markup:
    """Return the ended runs that the page does not show at once."""
    now = house.clock.now()
    _, older = done_first(list_runs(house.state_folder), now)
    return older_runs([RunRow(run) for run in older], now)


@dataclass(frozen=True, slots=True)
class StartRun:
    """The page that starts a run; it does not change while it is filled in."""

    house: House

    async def pages(self) -> AsyncGenerator[Page, None]:
        yield await asyncio.to_thread(self._page)
        await self.house.news.over.wait()

    def _page(self) -> Page:
        runs = list_runs(self.house.state_folder)
        folders = [*dict.fromkeys(run.project or run.wd for run in runs if run.is_readable)]
        flows = _flows(folders, config_folder(self.house.environ))
        return new_run(folders, flows, self.house.agents())


def _flows(folders: Sequence[str], own: Path) -> list[FlowOffered]:
    """Return the flows of the package, of the user, and of the projects worked on last."""
    found: dict[str, FlowOffered] = {}
    for folder in folders[:MOST_FOLDERS] or [str(own)]:
        with suppress(OrchestratorError, OSError):
            for one in Flows(Path(folder), own).all():
                if one.flow is not None:
                    offered = FlowOffered(one.flow.name, one.flow.description)
                    found.setdefault(one.flow.name, offered)
    return [*found.values()]


class NoSuchRun(NotFound):
    """There is no run with this id; which ones there are, its own page says."""

    def __init__(self, run: str) -> None:
        super().__init__("run", run, ())
        self.args = (f"no run {run!r}",)


def check_run(house: House, run: str) -> None:
    """Raise NotFound if there is no run with this id."""
    if not is_run_id(run) or run not in runs_folder(house.state_folder).names():
        raise NoSuchRun(run)
