"""The loop: what is due, doing it, and what that changes.

What is due says `next_step`: a turn of an agent, the command of a gate, a pause, or the end.

Before a prompt is sent, the prompt itself is archived and the state is saved with the turn in
flight; after the reply it is saved again. Whatever ends the run in between, the next one finds what
it needs: the same number, the same key and the same words, so that nothing is asked twice.
"""

import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum, auto
from queue import Empty, SimpleQueue
from typing import Self

from cli_agent_orchestrator.config import HandoffRules, LoopRules
from cli_agent_orchestrator.errors import (
    OrchestratorError,
    RunError,
    StateError,
    Stopped,
    TurnFailed,
)
from cli_agent_orchestrator.events import HandoffEvent, OnRunEvent, Paused, Unpaused, tell_nobody
from cli_agent_orchestrator.handoff.handoff import Agents, Handoff, World
from cli_agent_orchestrator.handoff.prompt import Envelope, Reply, ReplySource, Sent
from cli_agent_orchestrator.handoff.responses import ResponseFiles
from cli_agent_orchestrator.layout import PROMPT_LABEL
from cli_agent_orchestrator.pipeline.check import page_of
from cli_agent_orchestrator.pipeline.machine import (
    Check,
    Done,
    Pause,
    due_step,
    next_step,
    pause,
    record_check,
    record_reply,
    unpause,
)
from cli_agent_orchestrator.pipeline.prompts import Briefing, build_prompt
from cli_agent_orchestrator.pipeline.reply import Output
from cli_agent_orchestrator.pipeline.state import Dispatch, RunState, Turn
from cli_agent_orchestrator.pipeline.stopwatch import Stopwatch
from cli_agent_orchestrator.runs.events import check_began, check_ended, turn_began, turn_ended
from cli_agent_orchestrator.runs.gate import Gate, GateCommand
from cli_agent_orchestrator.runs.journal import COMMAND, Journal, TurnRecord
from cli_agent_orchestrator.runs.state_file import StateFile


class Wish(Enum):
    """What was asked of a run from outside."""

    PAUSE = auto()
    UNPAUSE = auto()
    STOP = auto()


@dataclass(frozen=True, slots=True)
class Plan:
    """By which rules a run goes, and what its prompts are made of."""

    briefing: Briefing
    rules: LoopRules
    handoff: HandoffRules
    gate: GateCommand | None = None
    """What the gates of its flow run; None if it has none."""


@dataclass(frozen=True, slots=True)
class Records:
    """Where a run keeps what must outlive it."""

    state_file: StateFile
    files: ResponseFiles
    journal: Journal


class Runner:
    """Takes a run through its turns, until a verdict or a stop."""

    def __init__(
        self,
        agents: Agents,
        plan: Plan,
        records: Records,
        on_event: OnRunEvent = tell_nobody,
        world: World | None = None,
    ) -> None:
        world = world or World()
        self._plan = plan
        self._records = records
        self._tell = on_event
        self._clock = world.clock
        self._handoff = Handoff(agents, records.files, plan.handoff, self._hear, world)
        self._gate = Gate()
        # SimpleQueue, because a signal handler may put something while something is taken.
        self._wishes: SimpleQueue[Wish] = SimpleQueue()
        self._state: RunState | None = None
        self._stopwatch = Stopwatch(0.0, world.clock.now())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._handoff.close()

    def stop(self) -> None:
        """End the loop at its next look; any thread may call it, and a signal handler too."""
        self._handoff.stop()
        self._gate.stop()
        self._wishes.put(Wish.STOP)

    def pause(self) -> None:
        """Let the run wait after the present turn; any thread may call it."""
        self._wishes.put(Wish.PAUSE)

    def unpause(self) -> None:
        """Let the run go on after a pause; any thread may call it."""
        self._wishes.put(Wish.UNPAUSE)

    @property
    def state(self) -> RunState:
        """The run as it was given or last saved."""
        assert self._state is not None, "a run has a state once it has begun"
        return self._state

    def run(self, state: RunState) -> RunState:
        """Do whatever is due and return the state of the finished run."""
        self._state = state
        self._save(state)
        try:
            while True:
                self._heed_wishes()
                match next_step(self.state):
                    case Turn() as turn:
                        self._take(turn)
                    case Check() as check:
                        self._run_gate(check)
                    case Pause():
                        self._hold()
                    case Done():
                        return self.state
        except (Stopped, OrchestratorError):
            # Nothing but the time is new; for that alone no other error is hidden.
            with suppress(StateError):
                self._note_work()
            raise

    def record_archived_reply(self, state: RunState) -> RunState:
        """Record the reply of the turn in flight if it is archived already; no agent is needed."""
        dispatch = state.progress.in_flight
        if dispatch is None or dispatch.turn != due_step(state):
            return state
        kept = self._records.files.archived(dispatch.turn.role, dispatch.sequence)
        if kept is None:
            return state
        self._state = state
        path, response = kept
        reply = Reply(response.text, path, dispatch.sequence, ReplySource.ARCHIVE)
        self._record(dispatch, reply, dispatch.worked)
        return self.state

    def _take(self, turn: Turn) -> None:
        dispatch = self._dispatch(turn)
        self._stopwatch = Stopwatch(dispatch.worked, self._clock.now())
        prompt = self._prompt(dispatch)
        # Whatever comes after this save, it may have been sent.
        saved = Sent.MAYBE if dispatch.sent is Sent.NO else dispatch.sent
        self._put_in_flight(replace(dispatch, sent=saved))
        self._begin(dispatch)
        envelope = Envelope(dispatch.id, dispatch.sequence, dispatch.since, dispatch.sent)
        terminal_id = self.state.terminal_of(turn.role)
        try:
            reply = self._handoff.send_and_wait(
                terminal_id, turn.role, prompt, envelope, self._save_sent
            )
        except TurnFailed:
            self._save_sent(Sent.FAILED)
            raise
        self._record(dispatch, reply, self._stopwatch.worked_by(self._clock.now()))

    def _dispatch(self, turn: Turn) -> Dispatch:
        """Return the number and key of a turn: the saved ones if it was begun before."""
        saved = self.state.progress.in_flight
        if saved is not None and saved.turn == turn and saved.sequence > 0:
            return saved
        sequence = self._next_sequence()
        self._records.files.clear_stale_response(turn.role, sequence)
        return Dispatch(turn, uuid.uuid4().hex, sequence, self._clock.now(), Sent.NO)

    def _prompt(self, dispatch: Dispatch) -> str:
        """Return what the agent is told, in the same words as before if it was told before.

        The server knows a message by its key and its text, and settings may have changed since.
        """
        label = f"{dispatch.turn.role}-{PROMPT_LABEL}"
        kept = self._records.files.archived(label, dispatch.sequence)
        if kept is not None:
            return kept[1].text
        prompt = build_prompt(dispatch.turn, self.state, self._plan.briefing)
        self._records.files.archive_text(label, dispatch.sequence, prompt)
        return prompt

    def _begin(self, dispatch: Dispatch) -> None:
        turn = dispatch.turn
        terminal_id = self.state.terminal_of(turn.role)
        provider = self.state.provider_of(turn.role)
        self._tell(turn_began(self._clock.now(), dispatch, terminal_id, provider))

    def _next_sequence(self) -> int:
        """Return the number under which the next thing is archived."""
        return max(self.state.progress.sequence + 1, self._records.files.next_sequence())

    def _hear(self, event: HandoffEvent) -> None:
        """Watch the time and pass the event on."""
        if event.status is not None:
            self._stopwatch = self._stopwatch.see(event.status, event.at)
        self._tell(event)

    def _save_sent(self, sent: Sent) -> None:
        """Save what has become known about the prompt in flight.

        That one failed says something only if the agent had it.
        """
        dispatch = self.state.progress.in_flight
        if dispatch is None or (sent is Sent.FAILED and dispatch.sent is not Sent.YES):
            return
        self._put_in_flight(replace(dispatch, sent=sent))

    def _note_work(self) -> None:
        dispatch = self.state.progress.in_flight
        if dispatch is not None:
            worked = self._stopwatch.worked_by(self._clock.now())
            self._put_in_flight(replace(dispatch, worked=worked))

    def _put_in_flight(self, dispatch: Dispatch) -> None:
        progress = replace(self.state.progress, in_flight=dispatch, sequence=dispatch.sequence)
        self._save(replace(self.state, progress=progress))

    def _record(self, dispatch: Dispatch, reply: Reply, worked: float) -> None:
        turn = dispatch.turn
        output = Output(reply.text, str(reply.archive))
        state, outcome = record_reply(self.state, turn, output, self._plan.rules)
        ended = self._clock.now()
        record = TurnRecord(
            sequence=dispatch.sequence,
            role=turn.role,
            round=turn.round,
            cycle=turn.cycle,
            provider=self.state.provider_of(turn.role),
            began=dispatch.since,
            ended=ended,
            worked=worked,
            outcome=str(outcome),
            reply=reply.archive.name,
            source=str(reply.source),
            reviewed=turn.reviewed,
        )
        self._records.journal.write(record)
        self._save(state)
        archive = str(reply.archive)
        self._tell(turn_ended(ended, dispatch, outcome, worked, archive))

    def _run_gate(self, check: Check) -> None:
        """Run the command of a gate; one that was interrupted is simply run again."""
        gate = self._plan.gate
        if gate is None:
            raise RunError(f"the flow has a gate, {check.stage}, and there is no command for it")
        sequence = self._next_sequence()
        began = check_began(self._clock.now(), check, sequence, gate.command)
        self._tell(began)
        result = self._gate.run(gate)
        archive = self._records.files.archive_text(check.stage, sequence, page_of(result))
        result = replace(result, archive=str(archive))
        state, outcome = record_check(self.state, check, result, self._plan.rules)
        ended = check_ended(began, self._clock.now(), outcome, str(archive))
        record = TurnRecord(
            sequence=sequence,
            role=check.stage,
            round=check.round,
            cycle=1,
            provider=COMMAND,
            began=began.at,
            ended=ended.at,
            worked=ended.seconds,
            outcome=ended.detail,
            reply=archive.name,
            source=COMMAND,
            reviewed=False,
        )
        self._records.journal.write(record)
        self._save(replace(state, progress=replace(state.progress, sequence=sequence)))
        self._tell(ended)

    def _hold(self) -> None:
        """Wait until the pause is lifted or the run is to stop."""
        self._tell(Paused(self._clock.now()))
        while self.state.progress.paused:
            self._grant(self._wishes.get())
        self._tell(Unpaused(self._clock.now()))

    def _heed_wishes(self) -> None:
        with suppress(Empty):
            while True:
                self._grant(self._wishes.get_nowait())

    def _grant(self, wish: Wish) -> None:
        match wish:
            case Wish.PAUSE:
                self._save(pause(self.state))
            case Wish.UNPAUSE:
                self._save(unpause(self.state))
            case Wish.STOP:
                raise Stopped("the run was stopped")

    def _save(self, state: RunState) -> None:
        self._records.state_file.save_state(state)
        self._state = state
