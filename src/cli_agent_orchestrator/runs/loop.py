"""The loop: what is due, doing it, and what that changes.

What is due says `next_step`: a turn of an agent, the command of a gate, a pause, or the end.

Before a prompt is sent, the prompt itself is archived and the state is saved with the turn in
flight; after the reply it is saved again. Whatever ends the run in between, the next one finds what
it needs: the same number, the same key and the same words, so that nothing is asked twice. A gate
that was interrupted is simply run again.
"""

import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Self

from ..core.clock import Stopwatch
from ..core.text import MOST_NAMED, first_names
from ..errors import OrchestratorError, RunError, StateError, Stopped, TurnFailed
from ..events import (
    Answer,
    CheckBegan,
    CheckEnded,
    CheckOutput,
    FilesChanged,
    HandoffEvent,
    NotConverging,
    OnRunEvent,
    Paused,
    ReviewSkipped,
    SettingChanged,
    StopAsked,
    TurnBegan,
    TurnEnded,
    Warned,
    tell_nobody,
)
from ..gates.check import doubt_on_base, page_of, refusal_on_base, resume_with_another
from ..gates.checking import Checker, GatePlace, GateRunner
from ..handoff.files import ResponseFiles
from ..handoff.handoff import Handoff, World
from ..handoff.wait import Envelope, Reply, ReplySource, Sent
from ..handoff.watch import Agents
from ..pipeline.machine import (
    BASE_FAILED,
    BASE_PASSED,
    Approved,
    BaseKnown,
    Check,
    Cleared,
    CyclesUsedUp,
    Delivered,
    Done,
    Failed,
    Outcome,
    Passed,
    Pause,
    RoundsUsedUp,
    SentBack,
    Skipped,
    due_review,
    due_step,
    next_step,
    reason_against,
    record_check,
    record_proof,
    record_reply,
    stall_marks,
    stall_of,
    verdict_of,
    why_of,
)
from ..pipeline.prompts import Briefing, build_prompt
from ..pipeline.reply import Output
from ..pipeline.resuming import Remedy, ask_again, missing_turn, note_taken
from ..pipeline.state import Dispatch, RunState, Turn, drop_hints, hints_for
from ..pipeline.steering import Ask, Heard, Skip, Stop, grant
from ..proof.proving import Prover
from ..proof.verdict import page_of_proof
from ..settings.config import HandoffRules, LoopRules, read_gate_timeout, read_handoff, read_rules
from ..settings.gates import PROOF, Gate, When
from ..settings.layout import PROMPT_LABEL
from ..work.changes import Work
from ..work.folder import ABOUT_REPOSITORY, ABOUT_SNAPSHOTS, WorkFolder
from .screens import Screens
from .state_file import StateFile

OUTCOME_WORDS: Mapping[type[Outcome], str] = {
    Delivered: "delivered",
    Approved: "approved",
    Skipped: "skipped",
    SentBack: "sent_back",
    CyclesUsedUp: "cycles_used_up",
    Passed: "passed",
    Cleared: "cleared",
    Failed: "failed",
    RoundsUsedUp: "rounds_used_up",
}


MOST_CHANGES = 50
"""Changes to the repository that a warning names: each may have the command that brings it back."""
PROOF_WORDS = "new tests on the base, the base's tests on the result"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run goes by, and where it keeps what must outlive it."""

    briefing: Briefing
    rules: LoopRules
    handoff: HandoffRules
    state_file: StateFile
    files: ResponseFiles
    screens: Screens | None = None
    """What its agents show at the end of their turns; None if the run has no folder for that."""
    gate_place: GatePlace | None = None
    """Where its gates are run; None if it has none."""
    work: WorkFolder = field(default_factory=lambda: WorkFolder(None))
    readonly_roles: str = "warn"
    """What is done when a role changes files that is not to: warn, restore, off."""
    since: float = 0.0
    """When the run was begun or resumed, in unix time; older requests may be out of date."""
    run: str = ""
    """How a person names the run; empty if it has no name."""


def in_need_of_snapshots(rules: LoopRules, readonly_roles: str, gates: Iterable[Gate]) -> str:
    """Say which settings there is no way to go by without snapshots; empty if there are none."""
    asked = {
        "REVIEW_BOUND=require (set CAO_REVIEW_BOUND=show)": rules.is_review_bound,
        "PROOF=require (say --proof report)": rules.proof == "require",
        "READONLY_ROLES=restore (set CAO_READONLY_ROLES=warn)": readonly_roles == "restore",
    }
    clean = (f"clean=true of the gate {gate.name} (leave it out)" for gate in gates if gate.clean)
    return " and ".join([*(text for text, is_asked in asked.items() if is_asked), *clean])


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
        on_event: OnRunEvent = tell_nobody,
        world: World | None = None,
    ) -> None:
        world = replace(world or World(), on_look=self._process_in_turn, run=plan.run)
        self._plan = plan
        self._tell = on_event
        self._clock = world.clock
        self._state: RunState | None = None
        self._handoff = Handoff(agents, plan.files, plan.handoff, self._note_handoff, world)
        self._commands = GateRunner(self._process_requests)
        self._checker = Checker(self._commands)
        # SimpleQueue, because a signal handler may put something while something is taken.
        self._requests: SimpleQueue[Heard | Stop] = SimpleQueue()
        self._stopwatch = Stopwatch(0.0, world.clock.now())
        self._has_looked = False
        self._unreviewed: tuple[str, ...] = ()
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
        self._requests.put(Stop())

    def hear(self, request: Heard) -> None:
        """Take what a person asks for, to be done at the next look. Any thread may call it."""
        self._requests.put(request)
        self._handoff.wake()
        self._commands.wake()

    @property
    def state(self) -> RunState:
        assert self._state is not None, "a run has a state once it has begun"
        return self._state

    @property
    def _now(self) -> float:
        return self._clock.now()

    def run(self, state: RunState) -> RunState:
        """Do whatever is due and return the state of the finished run."""
        self._state = state
        # What was said before the run was stopped is no reason to stop it again.
        self._known_stall = stall_marks(state)
        self._begin_looking()
        self._save(self.state)
        try:
            while True:
                self._process_requests()
                match next_step(self.state):
                    case Turn() as turn:
                        self._take(turn)
                    case Check(gate=name) as check if name == PROOF:
                        self._prove(check)
                    case Check() as check:
                        self._check(check)
                    case Pause():
                        self._tell(Paused(self._now))
                        while self.state.progress.paused:
                            self._process(self._requests.get(), holding=True)
                    case Done():
                        return self.state
        except (Stopped, OrchestratorError):
            # Nothing but the time is new; for that alone no other error is hidden.
            with suppress(StateError):
                if dispatch := self.state.progress.in_flight:
                    worked = self._stopwatch.worked_by(self._now)
                    self._put_in_flight(replace(dispatch, worked=worked))
            raise

    def record_archived_reply(self, state: RunState) -> RunState:
        dispatch = state.progress.in_flight
        if dispatch is None or dispatch.turn != due_step(state):
            return state
        kept = self._plan.files.archived(dispatch.turn.role, dispatch.sequence)
        if kept is None:
            return state
        self._state = state
        self._begin_looking(dispatch)
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
                ask = Ask(uuid.uuid4().hex, self._now, Skip())
                self._process(Heard(ask, state.progress.heard))
            case Remedy.TAKE:
                role = dispatch.turn.role
                self._begin_looking()
                terminal_id = self.state.terminal_of(role)
                reply = self._handoff.take_last_output(terminal_id, role, dispatch.sequence)
                self._state = note_taken(self.state, dispatch, self._now)
                self._record(dispatch, reply, dispatch.worked)
        return self.state

    def _save(self, state: RunState) -> None:
        """Go on from a state, and see to it that it is found after a crash."""
        self._plan.state_file.save_state(state)
        self._state = state

    def _save_ended(self, sequence: int, state: RunState) -> None:
        """Save what follows from the turn or gate of a number, which has ended."""
        sequence = max(state.progress.sequence, sequence)
        self._save(replace(state, progress=replace(state.progress, sequence=sequence)))

    def _put_in_flight(self, dispatch: Dispatch) -> None:
        progress = replace(self.state.progress, in_flight=dispatch)
        self._save_ended(dispatch.sequence, replace(self.state, progress=progress))

    def _count_to(self, sequence: int) -> None:
        """Note that a number is used; that is saved with the next change."""
        progress = self.state.progress
        last = max(progress.sequence, sequence)
        self._state = replace(self.state, progress=replace(progress, sequence=last))

    def _next_sequence(self) -> int:
        return max(self.state.progress.sequence + 1, self._plan.files.next_sequence())

    def _warn(self, text: str, about: str = "") -> None:
        self._tell(Warned(self._now, text, about))

    def _take(self, turn: Turn) -> None:
        plan = self._plan
        if self.state.progress.in_flight is None:
            # What a person changed while no agent was at work: no turn is blamed for it.
            number = self._next_sequence()
            if changed := plan.work.look_before_turn(number):
                self._count_to(number)
                text = "changed while no agent was at work, so it counts as yours"
                self._warn(f"{text}: {first_names(changed)}")
        dispatch = self._dispatch(turn)
        self._stopwatch = Stopwatch(dispatch.worked, self._now)
        self._handoff.rules = plan.handoff
        prompt = self._prompt(dispatch)
        # Whatever comes after this save, it may have been sent.
        saved = Sent.MAYBE if dispatch.sent is Sent.NO else dispatch.sent
        self._put_in_flight(replace(dispatch, sent=saved))
        terminal_id = self.state.terminal_of(turn.role)
        self._tell(
            TurnBegan(
                at=self._now,
                role=turn.role,
                round=turn.round,
                cycle=turn.cycle,
                sequence=dispatch.sequence,
                terminal_id=terminal_id,
                provider=self.state.provider_of(turn.role),
                reviewed=turn.reviewed,
            )
        )
        envelope = Envelope(
            dispatch.id,
            dispatch.sequence,
            dispatch.since,
            dispatch.sent,
            is_review=due_review(self.state) == turn,
        )
        try:
            reply = self._handoff.send_and_wait(
                terminal_id, turn.role, prompt, envelope, self._save_sent
            )
        except TurnFailed:
            self._save_sent(Sent.FAILED)
            raise
        except _Skipped:
            return
        self._record(dispatch, reply, self._stopwatch.worked_by(self._now))

    def _dispatch(self, turn: Turn) -> Dispatch:
        """Return the number and key of a turn: the saved ones if it was begun before."""
        saved = self.state.progress.in_flight
        if saved is not None and saved.turn == turn and saved.sequence > 0:
            return saved
        sequence = self._next_sequence()
        self._plan.files.clear_stale_response(turn.role, sequence)
        new = Dispatch(turn, uuid.uuid4().hex, sequence, self._now, Sent.NO)
        return replace(new, hints=hints_for(self.state, turn.role))

    def _prompt(self, dispatch: Dispatch) -> str:
        """Return the prompt of a turn, in the same words as before if it was sent before.

        The server knows a message by its key and its text, and settings may have changed since.
        """
        role, files = dispatch.turn.role, self._plan.files
        label = f"{role}-{PROMPT_LABEL}"
        kept = files.archived(label, dispatch.sequence)
        if kept is not None:
            return kept[1].text
        prompt = build_prompt(dispatch.turn, self.state, self._plan.briefing)
        files.archive_text(label, dispatch.sequence, prompt, shown=False)
        # Not saved before the turn is in flight: without that, the prompt is built anew.
        self._state = drop_hints(self.state, role)
        return prompt

    def _note_handoff(self, event: HandoffEvent) -> None:
        """Watch the time and pass the event on, with its place in the run."""
        if event.status is not None:
            self._stopwatch = self._stopwatch.see(event.status, event.at)
        if dispatch := self.state.progress.in_flight:
            event = replace(event, round=dispatch.turn.round, cycle=dispatch.turn.cycle)
        self._tell(event)

    def _save_sent(self, sent: Sent) -> None:
        """Save what has become known about the prompt in flight.

        That one failed says something only if the agent had it.
        """
        dispatch = self.state.progress.in_flight
        if dispatch is None or (sent is Sent.FAILED and dispatch.sent is not Sent.YES):
            return
        self._put_in_flight(replace(dispatch, sent=sent))

    def _record(self, dispatch: Dispatch, reply: Reply, worked: float) -> None:
        plan, turn = self._plan, dispatch.turn
        output = Output(reply.text, str(plan.files.path_for_agents(reply.archive)))
        # The reply is archived: whatever happens here, it is found again.
        terminal_id = self.state.terminal_of(turn.role)
        is_author = self.state.flow.is_author(turn.role)
        work = self._look(
            turn.role,
            turn.round,
            dispatch.sequence,
            is_author=is_author,
            cycle=turn.cycle,
            terminal_id=terminal_id,
        )
        state, outcome = record_reply(self.state, turn, output, plan.rules, work)
        ended = turn_ended(self._now, dispatch, outcome, worked, str(reply.archive))
        self._save_ended(ended.sequence, state)
        if plan.screens is not None and reply.source is not ReplySource.ARCHIVE:
            plan.screens.keep(terminal_id, dispatch.sequence, turn.role)
        reason = reason_against(outcome, reply.text)
        self._tell(replace(ended, reason=reason, terminal_id=terminal_id))
        self._report_stall()

    def _report_stall(self) -> None:
        """Say that the run does not converge, once for each cause, and stop it if wanted."""
        marks = stall_marks(self.state)
        news = marks - self._known_stall
        self._known_stall = marks
        if not news:
            return
        text = stall_of(self.state)
        self._tell(NotConverging(self._now, text))
        if self._plan.rules.stops_at_stall:
            resume = f"cao resume {self._plan.run}".rstrip()
            raise RunError(
                f"{text} The run is stopped (STALL=stop): look at it, and `{resume}` goes on; it "
                "stops again only for something new",
                to_resume=resume,
            )

    def _check(self, check: Check) -> None:
        plan = self._plan
        gate = next((one for one in self.state.gates if one.name == check.gate), None)
        if gate is None or plan.gate_place is None:
            raise RunError(f"the flow has a gate, {check.gate}, and there is no command for it")
        began, place = self._begin_check(check, gate.run)
        sequence = began.sequence
        base = self.state.progress.base.get(gate.name)
        result = self._checker.run(gate, place, plan.work, f"{sequence:03d}-{gate.name}", base)
        if check.when is When.BASE:
            # Stop where a gate cannot be run at all, and say where it may never pass.
            if refusal := refusal_on_base(gate, result, plan.run):
                raise RunError(refusal, to_resume=resume_with_another(gate, plan.run))
            if doubt := doubt_on_base(gate, result):
                self._warn(doubt)
        archive = plan.files.archive_text(check.gate, sequence, page_of(result))
        result = replace(result, archive=str(plan.files.path_for_agents(archive)))
        work = self._look(check.gate, check.round, sequence, is_author=True)
        state, outcome = record_check(self.state, check, result, plan.rules, work)
        ended = check_ended(began, self._now, outcome, str(archive))
        detail = "; ".join(filter(None, (ended.detail, result.about_log)))
        self._save_ended(sequence, state)
        self._tell(replace(ended, log=result.log, detail=detail))
        self._report_stall()

    def _prove(self, check: Check) -> None:
        """Find out what the work is worth beyond that its gates pass."""
        plan, state = self._plan, self.state
        began, place = self._begin_check(check, PROOF_WORDS)
        sequence = began.sequence
        proof = Prover(self._checker, place, plan.work).prove(
            state.gates, state.progress.base, state.progress.passed, f"{sequence:03d}-{PROOF}"
        )
        page = page_of_proof(proof, f"cao diff {plan.run}" if plan.run else "")
        archive = plan.files.archive_text(PROOF, sequence, page)
        # What was asked for meanwhile has changed the state.
        state = self.state
        work = plan.work.kept(state.progress.approved_tree)
        state, outcome = record_proof(state, check, proof, plan.rules, work)
        ended = check_ended(began, self._now, outcome, str(archive))
        self._save_ended(sequence, state)
        self._tell(replace(ended, proven=proof.is_proven))
        self._report_stall()

    def _begin_check(self, check: Check, command: str) -> tuple[CheckBegan, GatePlace]:
        """Report that a command is about to look at the work, and each line that it writes."""
        place, stage = self._plan.gate_place, self.state.flow.last_work
        assert place is not None, "the gates are run somewhere"
        began = CheckBegan(
            self._now,
            check.gate,
            check.round,
            self._next_sequence(),
            command,
            check.when,
            stage.author if stage else "",
        )
        self._tell(began)

        def on_line(line: str) -> None:
            self._tell(CheckOutput(self._now, began.gate, began.round, began.sequence, line))

        return began, replace(place, on_line=on_line)

    def _begin_looking(self, replied: Dispatch | None = None) -> None:
        """Keep the work folder as it is before anything is done; a second time does nothing.

        What was looked at after a turn that has its reply already is not looked at again.
        """
        if self._has_looked:
            return
        self._has_looked = True
        plan, work = self._plan, self._plan.work
        had_snapshots = work.snapshots is not None
        sequence, remarks = work.begin(
            self._next_sequence() - 1,
            is_in_flight=self.state.progress.in_flight is not None,
            replied=None if replied is None else (replied.sequence, replied.turn.role),
        )
        why = work.why_no_snapshots
        if had_snapshots and work.snapshots is None:
            text = f"what is done to the work folder can not be undone: {why}"
            self._warn(text, ABOUT_SNAPSHOTS)
        for remark in remarks:
            self._warn(remark)
        if changed := work.changed_before:
            text = "the repository was changed, by agents or by you, since the run was interrupted"
            self._warn(f"{text}: {first_names(changed, MOST_CHANGES)}", ABOUT_REPOSITORY)
        needy = in_need_of_snapshots(plan.rules, plan.readonly_roles, self.state.gates)
        if work.snapshots is None and needy:
            raise RunError(
                f"without snapshots ({why}) there is no way to go by {needy}: resume the run with "
                "that changed, or when they can be taken"
            )
        self._count_to(sequence)

    def _look(
        self,
        who: str,
        round_: int,
        sequence: int,
        *,
        is_author: bool,
        cycle: int = 0,
        terminal_id: str = "",
    ) -> Work:
        """Keep the work folder after a turn or a gate, and return what has changed in it.

        What a role changed that is not to may be put back.
        """
        plan = self._plan
        approved = self.state.progress.approved_tree
        seen = plan.work.look(sequence, who, approved)
        if seen.repository:
            names = first_names(seen.repository, MOST_CHANGES)
            text = f"the repository was changed while {who} was at work: {names}"
            self._warn(text, ABOUT_REPOSITORY)
        if seen.left_out:
            left = [f"{one.path} ({one.reason})" for one in seen.left_out]
            self._warn(
                f"in no snapshot since {who} was at work: {first_names(left)}; cao can not put "
                "back what was done there"
            )
        if not seen.touched and not seen.not_kept:
            return seen.work
        paths = list(dict.fromkeys([*(one.path for one in seen.touched), *seen.not_kept]))
        changed = FilesChanged(
            at=self._now,
            role=who,
            round=round_,
            sequence=sequence,
            files=tuple(paths[:MOST_NAMED]),
            count=len(paths),
            added=sum(max(one.added, 0) for one in seen.touched),
            removed=sum(max(one.removed, 0) for one in seen.touched),
            cycle=cycle,
            terminal_id=terminal_id,
            not_kept=len(seen.not_kept),
        )
        if not is_author and plan.readonly_roles != "off":
            is_restored = plan.readonly_roles == "restore" and bool(seen.restorable)
            changed = replace(changed, allowed=False, restored=is_restored)
            if is_restored:
                next_number = max(sequence + 1, self._next_sequence())
                seen = plan.work.put_back(next_number, who, seen, approved)
                self._count_to(next_number)
        self._tell(changed)
        files = tuple(one for one in seen.work.since_review if one not in self._unreviewed)
        self._unreviewed = seen.work.since_review
        if files and not plan.rules.is_review_bound:
            self._warn(f"changed after the approval: {first_names(files)}")
        return seen.work

    def _process_requests(self) -> None:
        with suppress(Empty):
            while True:
                self._process(self._requests.get_nowait())

    def _process_in_turn(self) -> None:
        self._process_requests()
        if self.state.progress.in_flight is None:
            raise _Skipped

    def _process(self, request: Heard | Stop, *, holding: bool = False) -> None:
        """Do what a person asks for, and save with it how far the control file was read."""
        if isinstance(request, Stop):
            raise Stopped("the run was stopped")
        before = after = self.state
        event: Answer | None = None
        if request.ask is not None:
            after, event = grant(before, request.ask, self._now, self._plan.since, holding=holding)
        after = replace(after, progress=replace(after.progress, heard=request.upto))
        if isinstance(event, ReviewSkipped):
            self._skip(after, event)
            return
        if isinstance(event, SettingChanged):
            settings = after.progress.settings
            rules, place = read_rules(settings), self._plan.gate_place
            self._plan = replace(
                self._plan,
                briefing=replace(self._plan.briefing, condensation=rules.condensation),
                rules=rules,
                handoff=read_handoff(settings),
                gate_place=place and replace(place, seconds=read_gate_timeout(settings)),
            )
        self._save(after)
        if event is not None:
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
        ended = turn_ended(event.at, dispatch, Skipped(), worked, "")
        self._save_ended(ended.sequence, after)
        self._tell(event)
        self._tell(replace(ended, terminal_id=event.terminal_id))


def turn_ended(
    at: float, dispatch: Dispatch, outcome: Outcome, seconds: float, archive: str
) -> TurnEnded:
    turn = dispatch.turn
    return TurnEnded(
        at=at,
        role=turn.role,
        round=turn.round,
        cycle=turn.cycle,
        sequence=dispatch.sequence,
        outcome=_word(outcome),
        detail=str(outcome),
        seconds=seconds,
        archive=archive,
        reviewed=turn.reviewed,
        verdict=verdict_of(outcome),
        why=why_of(outcome),
        early=isinstance(outcome, SentBack) and outcome.verdict.is_early,
    )


def check_ended(began: CheckBegan, at: float, outcome: Outcome, archive: str) -> CheckEnded:
    return CheckEnded(
        at=at,
        gate=began.gate,
        round=began.round,
        sequence=began.sequence,
        outcome=_word(outcome),
        detail=str(outcome),
        seconds=at - began.at,
        archive=archive,
        when=began.when,
        verdict=verdict_of(outcome),
        why=why_of(outcome),
        author=began.author,
    )


def _word(outcome: Outcome) -> str:
    if isinstance(outcome, BaseKnown):
        return BASE_PASSED if outcome.result.passed else BASE_FAILED
    return OUTCOME_WORDS[type(outcome)]
