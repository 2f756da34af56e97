"""The loop: whose turn it is, what to say, the reply, what it changes.

Before a prompt is sent, the prompt itself is archived and the state is saved with the turn in
flight; after the reply it is saved again. Whatever ends the run in between, the next one finds what
it needs: the same number, the same key and the same words, so that nothing is asked twice.
"""

import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Self

from cli_agent_orchestrator.config import HandoffRules, LoopRules
from cli_agent_orchestrator.errors import OrchestratorError, StateError, TurnFailed
from cli_agent_orchestrator.events import EventKind, HandoffEvent, OnRunEvent, tell_nobody
from cli_agent_orchestrator.handoff.dispatch import Agents, Handoff, World
from cli_agent_orchestrator.handoff.replies import Envelope, Reply, Sent, Source
from cli_agent_orchestrator.handoff.responses import ResponseFiles
from cli_agent_orchestrator.handoff.vigil import Stopped
from cli_agent_orchestrator.layout import PROMPT_LABEL
from cli_agent_orchestrator.pipeline.machine import judge_reply, next_turn, record_reply
from cli_agent_orchestrator.pipeline.prompts import Briefing, build_prompt
from cli_agent_orchestrator.pipeline.reply import Output
from cli_agent_orchestrator.pipeline.state import Dispatch, RunState, Turn
from cli_agent_orchestrator.pipeline.stopwatch import Stopwatch
from cli_agent_orchestrator.runs.events import turn_began, turn_ended
from cli_agent_orchestrator.runs.journal import Journal, TurnRecord
from cli_agent_orchestrator.runs.state_file import StateFile


@dataclass(frozen=True, slots=True)
class Plan:
    """By which rules a run goes, and what its prompts are made of."""

    briefing: Briefing
    rules: LoopRules
    handoff: HandoffRules


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
        self._state: RunState | None = None
        self._stopwatch = Stopwatch(0.0, world.clock.now())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._handoff.close()

    def stop(self) -> None:
        """End the loop at its next look; any thread may call it, and a signal handler too."""
        self._handoff.stop()

    @property
    def state(self) -> RunState:
        """The run as it was given or last saved."""
        assert self._state is not None, "a run has a state once it has begun"
        return self._state

    def run(self, state: RunState) -> RunState:
        """Take every turn that is due and return the state of the finished run."""
        self._state = state
        self._save(state)
        try:
            while (turn := next_turn(self.state)) is not None:
                self._take(turn)
        except (Stopped, OrchestratorError):
            # Nothing but the time is new; for that alone no other error is hidden.
            with suppress(StateError):
                self._note_work()
            raise
        return self.state

    def settle(self, state: RunState) -> RunState:
        """Record the reply of the turn in flight if it is archived already; no agent is needed."""
        turn, dispatch = next_turn(state), state.progress.in_flight
        if dispatch is None or dispatch.turn != turn:
            return state
        kept = self._records.files.archived(turn.role, dispatch.sequence)
        if kept is None:
            return state
        self._state = state
        path, response = kept
        reply = Reply(response.text, path, dispatch.sequence, Source.ARCHIVE)
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
            reply = self._handoff.send_and_wait(terminal_id, turn.role, prompt, envelope)
        except TurnFailed:
            self._note_sent(Sent.FAILED)
            raise
        self._record(dispatch, reply, self._stopwatch.worked_by(self._clock.now()))

    def _dispatch(self, turn: Turn) -> Dispatch:
        """Return the number and key of a turn: the saved ones if it was begun before."""
        saved = self.state.progress.in_flight
        if saved is not None and saved.turn == turn and saved.sequence > 0:
            return saved
        files = self._records.files
        sequence = max(self.state.progress.sequence + 1, files.next_sequence())
        files.clear_stale_response(turn.role, sequence)
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
        provider = self._provider(turn)
        self._tell(turn_began(self._clock.now(), dispatch, terminal_id, provider))

    def _hear(self, event: HandoffEvent) -> None:
        """Note what becomes of a prompt before anything else happens, and pass the event on."""
        dispatch = self.state.progress.in_flight
        if event.status is not None:
            self._stopwatch = self._stopwatch.see(event.status, event.at)
        if event.kind is EventKind.DISPATCHED:
            self._note_sent(Sent.YES)
        elif event.kind is EventKind.ASKED_AGAIN and dispatch and dispatch.sent is Sent.YES:
            self._note_sent(Sent.FAILED)
        self._tell(event)

    def _note_sent(self, sent: Sent) -> None:
        dispatch = self.state.progress.in_flight
        if dispatch is not None:
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
        turn, rules = dispatch.turn, self._plan.rules
        outcome = judge_reply(turn, reply.text, rules)
        ended = self._clock.now()
        record = TurnRecord(
            sequence=dispatch.sequence,
            role=str(turn.role),
            round=turn.round,
            cycle=turn.cycle,
            provider=self._provider(turn),
            began=dispatch.since,
            ended=ended,
            worked=worked,
            outcome=str(outcome),
            reply=reply.archive.name,
            source=str(reply.source),
        )
        self._records.journal.write(record)
        output = Output(reply.text, str(reply.archive))
        self._save(record_reply(self.state, turn, output, rules))
        archive = str(reply.archive)
        self._tell(turn_ended(ended, dispatch, outcome, worked, archive))

    def _provider(self, turn: Turn) -> str:
        return self.state.progress.providers.get(turn.role.terminal, self.state.provider)

    def _save(self, state: RunState) -> None:
        self._records.state_file.save_state(state)
        self._state = state
