"""The loop: what is due, doing it, and what that changes.

What is due says `next_step`: a turn of an agent, the command of a gate, a pause, or the end.

Before a prompt is sent, the prompt itself is archived and the state is saved with the turn in
flight; after the reply it is saved again. Whatever ends the run in between, the next one finds what
it needs: the same number, the same key and the same words, so that nothing is asked twice.
"""

import uuid
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Self

from cli_agent_orchestrator._internal.handoff.handoff import Agents, Handoff, World
from cli_agent_orchestrator._internal.handoff.prompt import Envelope, Reply, ReplySource, Sent
from cli_agent_orchestrator._internal.layout import PROMPT_LABEL
from cli_agent_orchestrator._internal.pipeline.asks import Ask, Heard, Skip, Stop
from cli_agent_orchestrator._internal.pipeline.machine import (
    Check,
    Done,
    Pause,
    due_review,
    due_step,
    next_step,
    reason_against,
    record_reply,
)
from cli_agent_orchestrator._internal.pipeline.missing import (
    Remedy,
    ask_again,
    missing_turn,
    note_taken,
)
from cli_agent_orchestrator._internal.pipeline.outcomes import Skipped
from cli_agent_orchestrator._internal.pipeline.personal import drop_hints, hints_for
from cli_agent_orchestrator._internal.pipeline.prompts import build_prompt
from cli_agent_orchestrator._internal.pipeline.reply import Output
from cli_agent_orchestrator._internal.pipeline.stall import stall_marks, stall_of
from cli_agent_orchestrator._internal.pipeline.state import Dispatch, RunState, Turn
from cli_agent_orchestrator._internal.pipeline.steering import grant
from cli_agent_orchestrator._internal.pipeline.stopwatch import Stopwatch
from cli_agent_orchestrator._internal.runs.events import Origin, turn_began, turn_ended
from cli_agent_orchestrator._internal.runs.gate_turns import GateTurns
from cli_agent_orchestrator._internal.runs.gates.gate import GateRunner
from cli_agent_orchestrator._internal.runs.ledger import Ledger, Records
from cli_agent_orchestrator._internal.runs.looking import Looks
from cli_agent_orchestrator._internal.runs.plan import Plan
from cli_agent_orchestrator._internal.runs.records.journal import PERSON, turn_record
from cli_agent_orchestrator.errors import (
    OrchestratorError,
    RunError,
    StateError,
    Stopped,
    TurnFailed,
)
from cli_agent_orchestrator.events import (
    HandoffEvent,
    NotConverging,
    OnRunEvent,
    Paused,
    ReviewSkipped,
    SettingChanged,
    StopAsked,
    tell_nobody,
)


class _Skipped(Exception):
    """The review that is waited for was skipped."""


class StoppedByPerson(Stopped):
    """A person ended the run, and does not want its agents to stay."""

    def __init__(self) -> None:
        super().__init__("a person stopped the run")


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
        world = replace(world or World(), heed=self._heed_in_turn, run=plan.run)
        self._plan = plan
        self._ledger = Ledger(records, on_event, world.clock)
        self._handoff = Handoff(agents, records.files, plan.handoff, self._hear, world)
        self._looks = Looks(self._ledger)
        self._commands = GateRunner(self._heed_wishes)
        self._gates = GateTurns(self._ledger, self._looks, self._commands)
        # SimpleQueue, because a signal handler may put something while something is taken.
        self._wishes: SimpleQueue[Heard | Stop] = SimpleQueue()
        self._stopwatch = Stopwatch(0.0, world.clock.now())
        self._known_stall: frozenset[str] = frozenset()
        """What was said already, or known to who resumed the run: it does not stop for that."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._handoff.close()

    def stop(self) -> None:
        """End the loop at its next look; any thread may call it, and a signal handler too."""
        self._handoff.stop()
        self._commands.stop()
        self._wishes.put(Stop())

    def hear(self, heard: Heard) -> None:
        """Take what a person asks for; it is heeded at the next look. Any thread may call it."""
        self._wishes.put(heard)
        self._handoff.wake()
        self._commands.wake()

    @property
    def state(self) -> RunState:
        """The run as it was given or last changed."""
        return self._ledger.state

    def run(self, state: RunState) -> RunState:
        """Do whatever is due and return the state of the finished run."""
        self._ledger.take(state)
        # What was said before the run was stopped is no reason to stop it again.
        self._known_stall = stall_marks(state)
        self._looks.begin(self._plan)
        self._ledger.save(self.state)
        try:
            while True:
                self._heed_wishes()
                match next_step(self.state):
                    case Turn() as turn:
                        self._take(turn)
                    case Check() as check:
                        self._gates.take(check, self._plan)
                        self._heed_stall()
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
        kept = self._ledger.records.files.archived(dispatch.turn.role, dispatch.sequence)
        if kept is None:
            return state
        self._ledger.take(state)
        self._looks.begin(self._plan, dispatch)
        path, response = kept
        reply = Reply(response.text, path, dispatch.sequence, ReplySource.ARCHIVE)
        self._record(dispatch, reply, dispatch.worked)
        return self.state

    def answer_missing(self, state: RunState, remedy: Remedy) -> RunState:
        """Do what a person decided about the reply that did not come, if it still has not."""
        dispatch = missing_turn(state)
        if dispatch is None:
            return state
        self._ledger.take(state)
        match remedy:
            case Remedy.ASK:
                self._ledger.save(ask_again(state))
            case Remedy.SKIP:
                ask = Ask(uuid.uuid4().hex, self._ledger.now, Skip())
                self._grant(Heard(ask, state.progress.heard))
            case Remedy.TAKE:
                self._take_last_answer(dispatch)
        return self.state

    def _take_last_answer(self, dispatch: Dispatch) -> None:
        role = dispatch.turn.role
        self._looks.begin(self._plan)
        terminal_id = self.state.terminal_of(role)
        reply = self._handoff.take_last_output(terminal_id, role, dispatch.sequence)
        self._ledger.take(note_taken(self.state, dispatch, self._ledger.now))
        self._record(dispatch, reply, dispatch.worked)

    def _heed_stall(self) -> None:
        """Say that the run does not converge, once for each cause, and stop it if wanted."""
        marks = stall_marks(self.state)
        news = marks - self._known_stall
        self._known_stall = marks
        if not news:
            return
        text = stall_of(self.state)
        self._ledger.tell(NotConverging(self._ledger.now, text))
        if self._plan.rules.stops_at_stall:
            resume = f"cao resume {self._plan.run}".rstrip()
            raise RunError(
                f"{text} The run is stopped (STALL=stop): look at it, and `{resume}` goes on; it "
                "stops again only for something new",
                to_resume=resume,
            )

    def _take(self, turn: Turn) -> None:
        dispatch = self._dispatch(turn)
        self._stopwatch = Stopwatch(dispatch.worked, self._ledger.now)
        self._handoff.rules = self._plan.handoff
        prompt = self._prompt(dispatch)
        # Whatever comes after this save, it may have been sent.
        saved = Sent.MAYBE if dispatch.sent is Sent.NO else dispatch.sent
        self._put_in_flight(replace(dispatch, sent=saved))
        self._begin(dispatch)
        envelope = Envelope(
            dispatch.id,
            dispatch.sequence,
            dispatch.since,
            dispatch.sent,
            is_review=due_review(self.state) == turn,
        )
        terminal_id = self.state.terminal_of(turn.role)
        try:
            reply = self._handoff.send_and_wait(
                terminal_id, turn.role, prompt, envelope, self._save_sent
            )
        except TurnFailed:
            self._save_sent(Sent.FAILED)
            raise
        except _Skipped:
            return
        self._record(dispatch, reply, self._stopwatch.worked_by(self._ledger.now))

    def _dispatch(self, turn: Turn) -> Dispatch:
        """Return the number and key of a turn: the saved ones if it was begun before."""
        saved = self.state.progress.in_flight
        if saved is not None and saved.turn == turn and saved.sequence > 0:
            return saved
        sequence = self._ledger.next_sequence()
        self._ledger.records.files.clear_stale_response(turn.role, sequence)
        new = Dispatch(turn, uuid.uuid4().hex, sequence, self._ledger.now, Sent.NO)
        return replace(new, hints=hints_for(self.state, turn.role))

    def _prompt(self, dispatch: Dispatch) -> str:
        """Return what the agent is told, in the same words as before if it was told before.

        The server knows a message by its key and its text, and settings may have changed since.
        """
        label = f"{dispatch.turn.role}-{PROMPT_LABEL}"
        kept = self._ledger.records.files.archived(label, dispatch.sequence)
        if kept is not None:
            return kept[1].text
        prompt = build_prompt(dispatch.turn, self.state, self._plan.briefing)
        self._ledger.records.files.archive_text(label, dispatch.sequence, prompt)
        # Not saved before the turn is in flight: without that, the prompt is built anew.
        self._ledger.take(drop_hints(self.state, dispatch.turn.role))
        return prompt

    def _begin(self, dispatch: Dispatch) -> None:
        turn = dispatch.turn
        terminal_id = self.state.terminal_of(turn.role)
        provider = self.state.provider_of(turn.role)
        self._ledger.tell(turn_began(self._ledger.now, dispatch, terminal_id, provider))

    def _hear(self, event: HandoffEvent) -> None:
        """Watch the time and pass the event on, with its place in the run."""
        if event.status is not None:
            self._stopwatch = self._stopwatch.see(event.status, event.at)
        if dispatch := self.state.progress.in_flight:
            event = replace(event, round=dispatch.turn.round, cycle=dispatch.turn.cycle)
        self._ledger.tell(event)

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
            worked = self._stopwatch.worked_by(self._ledger.now)
            self._put_in_flight(replace(dispatch, worked=worked))

    def _put_in_flight(self, dispatch: Dispatch) -> None:
        progress = self.state.progress
        sequence = max(progress.sequence, dispatch.sequence)
        progress = replace(progress, in_flight=dispatch, sequence=sequence)
        self._ledger.save(replace(self.state, progress=progress))

    def _record(self, dispatch: Dispatch, reply: Reply, worked: float) -> None:
        turn = dispatch.turn
        output = Output(reply.text, str(reply.archive))
        # The reply is archived: whatever happens here, it is found again.
        terminal_id = self.state.terminal_of(turn.role)
        origin = Origin(turn.role, turn.round, dispatch.sequence, turn.cycle, terminal_id)
        is_author = self.state.flow.is_author(turn.role)
        work = self._looks.look(self._plan, origin, is_author=is_author)
        state, outcome = record_reply(self.state, turn, output, self._plan.rules, work)
        ended = turn_ended(self._ledger.now, dispatch, outcome, worked, str(reply.archive))
        provider = self.state.provider_of(turn.role)
        self._ledger.enter(turn_record(ended, dispatch.since, provider, str(reply.source)), state)
        self._keep_screen(dispatch, reply.source)
        reason = reason_against(outcome, reply.text)
        self._ledger.tell(replace(ended, reason=reason, terminal_id=terminal_id))
        self._heed_stall()

    def _keep_screen(self, dispatch: Dispatch, source: ReplySource) -> None:
        """Keep what the agent shows now, if its turn has ended now."""
        screens = self._ledger.records.screens
        if screens is not None and source is not ReplySource.ARCHIVE:
            role = dispatch.turn.role
            screens.keep(self.state.terminal_of(role), dispatch.sequence, role)

    def _hold(self) -> None:
        """Wait until the pause is lifted or the run is to stop."""
        self._ledger.tell(Paused(self._ledger.now))
        while self.state.progress.paused:
            self._grant(self._wishes.get(), holding=True)

    def _heed_in_turn(self) -> None:
        """Heed what people ask for while a reply is waited for."""
        self._heed_wishes()
        if self.state.progress.in_flight is None:
            raise _Skipped

    def _heed_wishes(self) -> None:
        with suppress(Empty):
            while True:
                self._grant(self._wishes.get_nowait())

    def _grant(self, wish: Heard | Stop, *, holding: bool = False) -> None:
        """Do what a person asks for, and save with it that it was heeded."""
        if isinstance(wish, Stop):
            raise Stopped("the run was stopped")
        before = self.state
        if wish.ask is None:
            self._ledger.save(_heard(before, wish.upto))
            return
        now = self._ledger.now
        after, event = grant(before, wish.ask, now, self._plan.since, holding=holding)
        if isinstance(event, ReviewSkipped):
            self._skip(_heard(after, wish.upto), event)
            return
        if isinstance(event, SettingChanged):
            self._plan = self._plan.with_settings(after.progress.settings)
        self._ledger.save(_heard(after, wish.upto))
        self._ledger.tell(event)
        if isinstance(event, StopAsked):
            raise StoppedByPerson

    def _skip(self, after: RunState, event: ReviewSkipped) -> None:
        """Record a review that a person skipped, whether it was under way or not."""
        review = due_review(self.state)
        assert review is not None, "it was granted"
        dispatch = self.state.progress.in_flight
        worked = self._stopwatch.worked_by(event.at)
        if dispatch is None or dispatch.turn != review:
            dispatch = Dispatch(review, event.ask, self._ledger.next_sequence(), event.at)
            worked = 0.0
        ended = turn_ended(event.at, dispatch, Skipped(), worked, "")
        provider = self.state.provider_of(review.role)
        self._ledger.enter(turn_record(ended, dispatch.since, provider, PERSON), after)
        self._ledger.tell(event)
        self._ledger.tell(replace(ended, terminal_id=event.terminal_id))


def _heard(state: RunState, upto: int) -> RunState:
    return replace(state, progress=replace(state.progress, heard=upto))
