"""Session records are found whoever began a session, and only an agent's own ones count."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.models import Evidence, TerminalStatus
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.terminals import tracker
from cli_agent_orchestrator.terminals.board import Board, LiveTerminal
from cli_agent_orchestrator.terminals.signals import RecordFinder, SignalFiles
from cli_agent_orchestrator.terminals.tracker import SignalSource
from tests.terminals.samples import row

COMPLETED = TerminalStatus.COMPLETED
IDLE = TerminalStatus.IDLE
PROCESSING = TerminalStatus.PROCESSING


@dataclass
class Agent:
    """A Codex that is this very process, with the records that it holds open."""

    board: Board
    recorder: RecordFinder
    live: LiveTerminal
    folder: Path
    open_files: ExitStack

    def begins(self, name: str, source: object = "cli") -> "Record":
        """Begin a session."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"rollout-{name}.jsonl"
        record = Record(self.open_files.enter_context(path.open("a", buffering=1)))
        record.writes("session_meta", source=source)
        return record

    async def finds(self, name: str) -> None:
        """Look for a record until it is followed."""
        self.recorder.look(self.live)
        async with asyncio.timeout(60):
            while self.folder / f"rollout-{name}.jsonl" not in self.live.records:
                await asyncio.sleep(0.01)

    def shows(self, status: TerminalStatus) -> None:
        """Let the screen look so."""
        now = self.board.now()
        seen = Evidence(SignalSource.SCREEN, status, "x", now)
        self.live.track = tracker.observe_screen(self.live.track, seen, None, changed=True)
        self.board.refresh(self.live)

    async def reaches(
        self, status: TerminalStatus, source: SignalSource = SignalSource.RECORD
    ) -> None:
        """Wait until this status is told by this source."""
        async with asyncio.timeout(60):
            while (self.live.status, self._told_by()) != (status, source):
                await self.live.changed.wait()

    def _told_by(self) -> str:
        return self.live.verdict.reason.split(":")[0]


@dataclass
class Record:
    """A session record that is being written."""

    file: TextIO

    def writes(self, kind: str, at: float | None = None, **more: object) -> None:
        """Append a line."""
        head = kind == "session_meta"
        when = datetime.fromtimestamp(at or time.time(), UTC).isoformat()
        payload = more if head else {"type": kind, **more}
        line = {"timestamp": when, "type": kind if head else "event_msg", "payload": payload}
        self.file.write(json.dumps(line) + "\n")


@pytest.fixture
def open_files() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
async def agent(tmp_path: Path, open_files: ExitStack) -> AsyncIterator[Agent]:
    clock = SystemClock()
    signals = SignalFiles(clock, lambda folder: recorder.appeared(folder))
    board = Board(clock, "start", told=lambda live: recorder.told(live))
    recorder = RecordFinder(board, signals)
    live = board.add(row("codex", created_at=clock.now(), ready=False), get_provider("codex"))
    live.pid = os.getpid()
    yield Agent(board, recorder, live, tmp_path / "sessions" / "2026" / "05" / "01", open_files)
    recorder.close()
    board.remove(live)
    signals.close()


@pytest.mark.parametrize("first_seen", [PROCESSING, COMPLETED])
async def test_a_record_is_found_when_a_person_prompts_first(
    agent: Agent, first_seen: TerminalStatus
) -> None:
    """A turn that streams looks like one that is over; its start may not have been seen."""
    agent.shows(IDLE)
    record = agent.begins("1")
    record.writes("task_started")
    agent.shows(first_seen)
    assert agent.live.status is PROCESSING
    await agent.reaches(PROCESSING)
    agent.shows(COMPLETED)
    assert agent.live.status is PROCESSING
    record.writes("task_complete", last_agent_message="hers")
    await agent.reaches(COMPLETED)
    assert agent.live.answer == "hers"


async def test_each_session_of_an_agent_is_followed_and_older_ones_still_are(agent: Agent) -> None:
    records = {}
    for name in ("1", "2"):
        records[name] = agent.begins(name)
        records[name].writes("task_started")
        agent.recorder.look(agent.live)
        await agent.reaches(PROCESSING)
        records[name].writes("task_complete", last_agent_message=name)
        await agent.reaches(COMPLETED)
        assert agent.live.answer == name
    records["1"].writes("task_started")
    await agent.reaches(PROCESSING)
    records["1"].writes("task_complete", last_agent_message="resumed")
    await agent.reaches(COMPLETED)
    assert agent.live.answer == "resumed"


async def test_a_session_that_nothing_else_tells_of_is_found_by_its_file(agent: Agent) -> None:
    first = agent.begins("1")
    first.writes("task_complete", last_agent_message="first")
    await agent.finds("1")
    await agent.reaches(COMPLETED)
    agent.shows(COMPLETED)
    agent.begins("2").writes("task_complete", last_agent_message="second")
    async with asyncio.timeout(60):
        while agent.live.answer != "second":
            await agent.live.changed.wait()


@pytest.mark.parametrize("source", [{"subagent": {"thread_spawn": {}}}, "exec"])
async def test_the_record_of_a_sub_agent_tells_nothing(agent: Agent, source: object) -> None:
    other = agent.begins("0", source)
    other.writes("task_started")
    other.writes("task_complete", last_agent_message="of the other")
    # The search goes on after it.
    await agent.finds("0")
    own = agent.begins("1")
    own.writes("task_started")
    await agent.reaches(PROCESSING)
    other.writes("task_complete", last_agent_message="of the other")
    own.writes("task_complete", last_agent_message="own")
    await agent.reaches(COMPLETED)
    assert agent.live.answer == "own"


async def test_a_turn_that_was_left_unfinished_before_the_agent_started_is_history(
    agent: Agent,
) -> None:
    record = agent.begins("1")
    record.writes("task_started", at=agent.live.row.created_at - 100)
    agent.shows(COMPLETED)
    await agent.finds("1")
    await agent.reaches(COMPLETED, SignalSource.SCREEN)
    record.writes("task_started")
    await agent.reaches(PROCESSING)


async def test_a_record_that_an_agent_names_is_known_and_followed_from_then_on(
    agent: Agent,
) -> None:
    assert agent.live.known_records == []
    for name in ("2", "1"):
        record = agent.begins(name)
        record.writes("task_complete", last_agent_message="to an earlier message")
        agent.live.transcript = agent.folder / f"rollout-{name}.jsonl"
        assert str(agent.live.transcript) in agent.live.known_records, "it is not found yet"
        before = agent.live.answer
        await agent.finds(name)
        assert agent.live.answer == before
        record.writes("task_started")
        await agent.reaches(PROCESSING)
        record.writes("task_complete", last_agent_message=name)
        await agent.reaches(COMPLETED)
        assert agent.live.answer == name
    names = [Path(record).name for record in agent.live.known_records]
    assert names == ["rollout-1.jsonl", "rollout-2.jsonl"]


async def test_the_records_of_an_agent_that_is_forgotten_tell_nothing_any_more(
    agent: Agent,
) -> None:
    record = agent.begins("1")
    record.writes("task_complete", last_agent_message="done")
    await agent.finds("1")
    await agent.reaches(COMPLETED)
    other = agent.board.add(replace(agent.live.row, id="t2"), agent.live.provider)
    marker = agent.folder / "events.jsonl"
    agent.recorder.follow(other, marker)
    agent.recorder.forget(agent.live)
    record.writes("task_started")
    with marker.open("a", buffering=1) as file:
        Record(file).writes("task_started")
    async with asyncio.timeout(60):
        while other.status is not PROCESSING:
            await other.changed.wait()
    assert agent.live.status is COMPLETED
    agent.board.remove(other)
