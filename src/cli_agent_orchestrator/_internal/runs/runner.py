"""The loop: what is due, doing it, and what that changes.

What is due says `next_step`: a turn of an agent, the command of a gate, a pause, or the end.

Before a prompt is sent, the prompt itself is archived and the state is saved with the turn in
flight; after the reply it is saved again. Whatever ends the run in between, the next one finds what
it needs: the same number, the same key and the same words, so that nothing is asked twice.
"""

import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from queue import Empty, SimpleQueue
from typing import Self

from cli_agent_orchestrator._internal.config import HandoffRules, LoopRules
from cli_agent_orchestrator._internal.gates import PROOF, Gate, When
from cli_agent_orchestrator._internal.handoff.handoff import Agents, Handoff, World
from cli_agent_orchestrator._internal.handoff.prompt import Envelope, Reply, ReplySource, Sent
from cli_agent_orchestrator._internal.handoff.responses import ResponseFiles
from cli_agent_orchestrator._internal.layout import PROMPT_LABEL
from cli_agent_orchestrator._internal.pipeline.asks import Ask, Heard, Skip, Stop
from cli_agent_orchestrator._internal.pipeline.check import (
    CheckResult,
    doubt_on_base,
    page_of,
    refusal_on_base,
)
from cli_agent_orchestrator._internal.pipeline.machine import (
    Check,
    Done,
    Pause,
    drop_hints,
    due_review,
    due_step,
    next_step,
    reason_against,
    record_check,
    record_proof,
    record_reply,
    stall_of,
)
from cli_agent_orchestrator._internal.pipeline.missing import (
    Remedy,
    ask_again,
    missing_turn,
    note_taken,
)
from cli_agent_orchestrator._internal.pipeline.outcomes import (
    Skipped,
)
from cli_agent_orchestrator._internal.pipeline.prompts import Briefing, build_prompt
from cli_agent_orchestrator._internal.pipeline.proof import page_of_proof
from cli_agent_orchestrator._internal.pipeline.reply import Output
from cli_agent_orchestrator._internal.pipeline.state import Dispatch, RunState, Turn
from cli_agent_orchestrator._internal.pipeline.steering import grant
from cli_agent_orchestrator._internal.pipeline.stopwatch import Stopwatch
from cli_agent_orchestrator._internal.pipeline.work import Work
from cli_agent_orchestrator._internal.run_config import read_gate_timeout, read_handoff, read_rules
from cli_agent_orchestrator._internal.runs.checking import Checker, GatePlace
from cli_agent_orchestrator._internal.runs.events import (
    check_began,
    check_ended,
    check_output,
    files_changed,
    turn_began,
    turn_ended,
)
from cli_agent_orchestrator._internal.runs.gate import GateRunner
from cli_agent_orchestrator._internal.runs.journal import COMMAND, PERSON, Journal, TurnRecord
from cli_agent_orchestrator._internal.runs.proving import Prover
from cli_agent_orchestrator._internal.runs.screens import Screens
from cli_agent_orchestrator._internal.runs.state_file import StateFile
from cli_agent_orchestrator._internal.runs.work_folder import REPOSITORY_CHANGED, WorkFolder, named
from cli_agent_orchestrator.errors import (
    OrchestratorError,
    RunError,
    StateError,
    Stopped,
    TurnFailed,
)
from cli_agent_orchestrator.events import (
    CheckBegan,
    CheckEnded,
    HandoffEvent,
    NotConverging,
    OnRunEvent,
    Paused,
    ReviewSkipped,
    SettingChanged,
    StopAsked,
    Warned,
    tell_nobody,
)

PROOF_WORDS = "new tests on the base, the base's tests on the result"


class _Skipped(Exception):
    """The review that is waited for was skipped."""


class StoppedByPerson(Stopped):
    """A person ended the run, and does not want its agents to stay."""

    def __init__(self) -> None:
        super().__init__("a person stopped the run (cao stop)")


@dataclass(frozen=True, slots=True)
class Plan:
    """By which rules a run goes, and what its prompts are made of."""

    briefing: Briefing
    rules: LoopRules
    handoff: HandoffRules
    gate_place: GatePlace | None = None
    """Where its gates are run; None if it has none."""
    work: WorkFolder = field(default_factory=lambda: WorkFolder(None))
    readonly_roles: str = "warn"
    """What is done when somebody changes files whose task it is not: warn, restore, off."""
    since: float = 0.0
    """When the run was taken up, in unix time; some of what was asked before is out of date."""

    def with_settings(self, settings: Mapping[str, str]) -> "Plan":
        """Return the plan that goes by these settings, by variable name."""
        rules = read_rules(settings)
        place = self.gate_place and replace(self.gate_place, seconds=read_gate_timeout(settings))
        briefing = replace(self.briefing, condensation=rules.condensation)
        return replace(
            self, briefing=briefing, rules=rules, handoff=read_handoff(settings), gate_place=place
        )


@dataclass(frozen=True, slots=True)
class Records:
    """Where a run keeps what must outlive it."""

    state_file: StateFile
    files: ResponseFiles
    journal: Journal
    screens: Screens | None = None
    """What its agents show at the end of their turns; None if the run has no folder for that."""


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
        world = replace(world or World(), heed=self._heed_in_turn)
        self._plan = plan
        self._records = records
        self._tell = on_event
        self._clock = world.clock
        self._handoff = Handoff(agents, records.files, plan.handoff, self._hear, world)
        self._gates = GateRunner(self._heed_wishes)
        self._checker = Checker(self._gates)
        # SimpleQueue, because a signal handler may put something while something is taken.
        self._wishes: SimpleQueue[Heard | Stop] = SimpleQueue()
        self._state: RunState | None = None
        self._stopwatch = Stopwatch(0.0, world.clock.now())
        self._stall = ""
        self._unreviewed: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._handoff.close()

    def stop(self) -> None:
        """End the loop at its next look; any thread may call it, and a signal handler too."""
        self._handoff.stop()
        self._gates.stop()
        self._wishes.put(Stop())

    def hear(self, heard: Heard) -> None:
        """Take what a person asks for; it is heeded at the next look. Any thread may call it."""
        self._wishes.put(heard)
        self._handoff.wake()
        self._gates.wake()

    @property
    def state(self) -> RunState:
        """The run as it was given or last saved."""
        assert self._state is not None, "a run has a state once it has begun"
        return self._state

    def run(self, state: RunState) -> RunState:
        """Do whatever is due and return the state of the finished run."""
        self._state = state
        # What was said before the run was stopped is no reason to stop it again.
        self._stall = stall_of(state)
        self._begin_work()
        self._save(self.state)
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

    def answer_missing(self, state: RunState, remedy: Remedy) -> RunState:
        """Do what a person decided about the reply that did not come, if it still has not."""
        dispatch = missing_turn(state)
        if dispatch is None:
            return state
        self._state = state
        match remedy:
            case Remedy.ASK:
                self._save(ask_again(state))
            case Remedy.SKIP:
                ask = Ask(uuid.uuid4().hex, self._clock.now(), Skip())
                self._grant(Heard(ask, state.progress.heard))
            case Remedy.TAKE:
                self._take_last_answer(dispatch)
        return self.state

    def _take_last_answer(self, dispatch: Dispatch) -> None:
        role = dispatch.turn.role
        terminal_id = self.state.terminal_of(role)
        reply = self._handoff.take_last_output(terminal_id, role, dispatch.sequence)
        self._state = note_taken(self.state, dispatch, self._clock.now())
        self._record(dispatch, reply, dispatch.worked)

    def _begin_work(self) -> None:
        """Keep the work folder as it is before anything is done."""
        progress = self.state.progress
        sequence, remarks = self._plan.work.begin(
            self._next_sequence() - 1, is_in_flight=progress.in_flight is not None
        )
        for remark in remarks:
            self._tell(Warned(self._clock.now(), remark))
        last = max(progress.sequence, sequence) if sequence else progress.sequence
        self._state = replace(self.state, progress=replace(progress, sequence=last))

    def _look(self, sequence: int, who: str, number: int, *, is_author: bool) -> Work:
        """Keep the work folder after a turn or a gate, and tell what that did to it."""
        seen = self._plan.work.look(sequence, who, self.state.progress.approved_tree)
        if seen.repository:
            text = f"{REPOSITORY_CHANGED} {who} was at work: {named(seen.repository)}"
            self._tell(Warned(self._clock.now(), text))
        if not seen.touched:
            return seen.work
        told = files_changed(self._clock.now(), who, number, sequence, seen)
        mode = self._plan.readonly_roles
        if not is_author and mode != "off":
            told = replace(told, allowed=False, restored=mode == "restore")
            if told.restored:
                seen = self._plan.work.put_back(sequence, who, seen)
                progress = replace(self.state.progress, sequence=sequence + 1)
                self._state = replace(self.state, progress=progress)
        self._tell(told)
        self._show_unreviewed(seen.work)
        return seen.work

    def _show_unreviewed(self, work: Work) -> None:
        """Say once that files are not as they were approved."""
        files = tuple(one for one in work.since_review if one not in self._unreviewed)
        self._unreviewed = work.since_review
        if files and not self._plan.rules.is_review_bound:
            self._tell(Warned(self._clock.now(), f"changed after the approval: {named(files)}"))

    def _heed_stall(self) -> None:
        """Say once that the run does not converge, and stop it if that is wanted."""
        text = stall_of(self.state)
        if text == self._stall:
            return
        self._stall = text
        if not text:
            return
        self._tell(NotConverging(self._clock.now(), text))
        if self._plan.rules.stops_at_stall:
            raise RunError(f"{text} The run is stopped (STALL=stop); look, and resume it")

    def _take(self, turn: Turn) -> None:
        dispatch = self._dispatch(turn)
        self._stopwatch = Stopwatch(dispatch.worked, self._clock.now())
        self._handoff.rules = self._plan.handoff
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
        except _Skipped:
            return
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
        # Not saved before the turn is in flight: without that, the prompt is built anew.
        self._state = drop_hints(self.state, dispatch.turn.role)
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
        progress = self.state.progress
        sequence = max(progress.sequence, dispatch.sequence)
        progress = replace(progress, in_flight=dispatch, sequence=sequence)
        self._save(replace(self.state, progress=progress))

    def _record(self, dispatch: Dispatch, reply: Reply, worked: float) -> None:
        turn = dispatch.turn
        output = Output(reply.text, str(reply.archive))
        # The reply is archived: whatever happens here, it is found again.
        is_author = self.state.flow.is_author(turn.role)
        work = self._look(dispatch.sequence, turn.role, turn.round, is_author=is_author)
        state, outcome = record_reply(self.state, turn, output, self._plan.rules, work)
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
        self._keep_screen(dispatch, reply.source)
        archive = str(reply.archive)
        told = turn_ended(ended, dispatch, outcome, worked, archive)
        self._tell(replace(told, reason=reason_against(outcome, reply.text)))
        self._heed_stall()

    def _keep_screen(self, dispatch: Dispatch, source: ReplySource) -> None:
        """Keep what the agent shows now, if its turn has ended now."""
        screens = self._records.screens
        if screens is not None and source is not ReplySource.ARCHIVE:
            role = dispatch.turn.role
            screens.keep(self.state.terminal_of(role), dispatch.sequence, role)

    def _run_gate(self, check: Check) -> None:
        """Run the command of a gate; one that was interrupted is simply run again."""
        if check.gate == PROOF:
            self._prove(check)
            return
        place = self._plan.gate_place
        gate = next((one for one in self.state.gates if one.name == check.gate), None)
        if gate is None or place is None:
            raise RunError(f"the flow has a gate, {check.gate}, and there is no command for it")
        sequence = self._next_sequence()
        began = check_began(self._clock.now(), check, sequence, gate.run)
        self._tell(began)
        base = self.state.progress.base.get(gate.name)
        log_name = f"{sequence:03d}-{gate.name}"
        place = self._telling(place, began)
        result = self._checker.run(gate, place, self._plan.work, log_name, base)
        if check.when is When.BASE:
            self._heed_base(gate, result)
        archive = self._records.files.archive_text(check.gate, sequence, page_of(result))
        result = replace(result, archive=str(archive))
        work = self._look(sequence, check.gate, check.round, is_author=True)
        state, outcome = record_check(self.state, check, result, self._plan.rules, work)
        ended = check_ended(began, self._clock.now(), outcome, str(archive))
        self._end_check(state, replace(ended, log=result.log))

    def _heed_base(self, gate: Gate, result: CheckResult) -> None:
        """Stop where a gate cannot be run at all, and say where it may never pass."""
        if refusal := refusal_on_base(gate, result):
            raise RunError(refusal)
        if doubt := doubt_on_base(gate, result):
            self._tell(Warned(self._clock.now(), doubt))

    def _telling(self, place: GatePlace, began: CheckBegan) -> GatePlace:
        """Return the place of a gate whose last line is told."""

        def tell(line: str) -> None:
            self._tell(check_output(began, self._clock.now(), line))

        return replace(place, on_line=tell)

    def _prove(self, check: Check) -> None:
        """Find out what the work is worth, beyond that its gates pass."""
        place = self._plan.gate_place
        assert place is not None, "the gates were run somewhere"
        sequence = self._next_sequence()
        began = check_began(self._clock.now(), check, sequence, PROOF_WORDS)
        self._tell(began)
        progress = self.state.progress
        prover = Prover(self._checker, self._telling(place, began), self._plan.work)
        proof = prover.prove(
            self.state.gates, progress.base, progress.passed, f"{sequence:03d}-{PROOF}"
        )
        archive = self._records.files.archive_text(PROOF, sequence, page_of_proof(proof))
        state, outcome = record_proof(self.state, check, proof, self._plan.rules)
        self._end_check(state, check_ended(began, self._clock.now(), outcome, str(archive)))

    def _end_check(self, state: RunState, ended: CheckEnded) -> None:
        """Save what follows from a gate, and tell it."""
        record = TurnRecord(
            sequence=ended.sequence,
            role=ended.gate,
            round=ended.round,
            cycle=1,
            provider=COMMAND,
            began=ended.at - ended.seconds,
            ended=ended.at,
            worked=ended.seconds,
            outcome=ended.detail,
            reply=PurePath(ended.archive).name,
            source=COMMAND,
            reviewed=False,
        )
        self._records.journal.write(record)
        self._save(replace(state, progress=replace(state.progress, sequence=ended.sequence)))
        self._tell(ended)
        self._heed_stall()

    def _hold(self) -> None:
        """Wait until the pause is lifted or the run is to stop."""
        self._tell(Paused(self._clock.now()))
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
            self._save(_heard(before, wish.upto))
            return
        now = self._clock.now()
        after, event = grant(before, wish.ask, now, self._plan.since, holding=holding)
        if isinstance(event, ReviewSkipped):
            self._skip(_heard(after, wish.upto), event)
            return
        if isinstance(event, SettingChanged):
            self._plan = self._plan.with_settings(after.progress.settings)
        self._save(_heard(after, wish.upto))
        self._tell(event)
        if isinstance(event, StopAsked):
            raise StoppedByPerson

    def _skip(self, after: RunState, event: ReviewSkipped) -> None:
        """Record a review that a person skipped, whether it was under way or not."""
        review = due_review(self.state)
        assert review is not None, "it was granted"
        dispatch = self.state.progress.in_flight
        worked = self._stopwatch.worked_by(event.at)
        if dispatch is None or dispatch.turn != review:
            dispatch = Dispatch(review, event.ask, self._next_sequence(), event.at)
            worked = 0.0
        record = TurnRecord(
            sequence=dispatch.sequence,
            role=review.role,
            round=review.round,
            cycle=review.cycle,
            provider=self.state.provider_of(review.role),
            began=dispatch.since,
            ended=event.at,
            worked=worked,
            outcome=str(Skipped()),
            reply="",
            source=PERSON,
            reviewed=True,
        )
        self._records.journal.write(record)
        sequence = max(after.progress.sequence, dispatch.sequence)
        self._save(replace(after, progress=replace(after.progress, sequence=sequence)))
        self._tell(event)
        self._tell(turn_ended(event.at, dispatch, Skipped(), worked, ""))

    def _save(self, state: RunState) -> None:
        self._records.state_file.save_state(state)
        self._state = state


def _heard(state: RunState, upto: int) -> RunState:
    return replace(state, progress=replace(state.progress, heard=upto))
