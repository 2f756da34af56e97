"""The loop: what is due, doing it, and what that changes.

What is due says `next_step`: a turn of an agent, the command of a gate, a pause, or the end.

Before a prompt is sent, the prompt itself is archived and the state is saved with the turn in
flight; after the reply it is saved again. Whatever ends the run in between, the next one finds what
it needs: the same number, the same key and the same words, so that nothing is asked twice.
"""

import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Self

from ..core.clock import Clock, Stopwatch
from ..core.text import MOST_NAMED, first_names
from ..errors import OrchestratorError, RunError, StateError, Stopped, TurnFailed
from ..events import (
    CheckBegan,
    CheckEnded,
    CheckOutput,
    FilesChanged,
    HandoffEvent,
    NotConverging,
    OnRunEvent,
    Paused,
    ReviewSkipped,
    RunEvent,
    SettingChanged,
    StopAsked,
    TurnBegan,
    TurnEnded,
    Warned,
    tell_nobody,
)
from ..gates.check import CheckResult, doubt_on_base, page_of, refusal_on_base, resume_with_another
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
from ..work.folder import ABOUT_REPOSITORY, ABOUT_SNAPSHOTS, Seen, WorkFolder
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


@dataclass(frozen=True, slots=True)
class Origin:
    """The turn or the gate that something comes from."""

    who: str
    """The role, or the name of the gate."""
    round: int
    sequence: int
    cycle: int = 0
    """0 for a gate."""
    terminal_id: str = ""
    """Empty for a gate."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run goes by; a person may change its settings under way."""

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
    run: str = ""
    """How a person names the run; empty if it has no name."""

    def with_settings(self, settings: Mapping[str, str]) -> "Plan":
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
    screens: Screens | None = None
    """What its agents show at the end of their turns; None if the run has no folder for that."""


class Ledger:
    """The one place in which the state of a run changes while it is taken to its end."""

    def __init__(self, records: Records, on_event: OnRunEvent, clock: Clock) -> None:
        self.records = records
        self._tell = on_event
        self._clock = clock
        self._state: RunState | None = None

    @property
    def state(self) -> RunState:
        """The run as it was given or last changed."""
        assert self._state is not None, "a run has a state once it has begun"
        return self._state

    @property
    def now(self) -> float:
        return self._clock.now()

    def take(self, state: RunState) -> None:
        """Go on from a state that is saved only with the next change."""
        self._state = state

    def save(self, state: RunState) -> None:
        """Go on from a state, and see to it that it is found after a crash."""
        self.records.state_file.save_state(state)
        self._state = state

    def count_to(self, sequence: int) -> None:
        """Note that a number is used; that is saved with the next change."""
        progress = self.state.progress
        last = max(progress.sequence, sequence)
        self._state = replace(self.state, progress=replace(progress, sequence=last))

    def next_sequence(self) -> int:
        """Return the number under which the next thing is archived."""
        return max(self.state.progress.sequence + 1, self.records.files.next_sequence())

    def enter(self, sequence: int, state: RunState) -> None:
        """Save what follows from the turn of a number, which has ended."""
        sequence = max(state.progress.sequence, sequence)
        self.save(replace(state, progress=replace(state.progress, sequence=sequence)))

    def tell(self, event: RunEvent) -> None:
        self._tell(event)

    def warn(self, text: str, about: str = "") -> None:
        self._tell(Warned(self.now, text, about))


MOST_CHANGES = 50
"""Changes to the repository that a warning names: each may have the command that brings it back."""


def in_need_of_snapshots(rules: LoopRules, readonly_roles: str, gates: Iterable[Gate]) -> str:
    """Say which settings there is no way to go by without snapshots; empty if there are none."""
    asked = {
        "REVIEW_BOUND=require (set CAO_REVIEW_BOUND=show)": rules.is_review_bound,
        "PROOF=require (say --proof report)": rules.proof == "require",
        "READONLY_ROLES=restore (set CAO_READONLY_ROLES=warn)": readonly_roles == "restore",
    }
    clean = (f"clean=true of the gate {gate.name} (leave it out)" for gate in gates if gate.clean)
    return " and ".join([*(text for text, is_asked in asked.items() if is_asked), *clean])


class Looks:
    """The looks of one run."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._unreviewed: tuple[str, ...] = ()
        self._has_begun = False

    def begin(self, plan: Plan, replied: Dispatch | None = None) -> None:
        """Keep the work folder as it is before anything is done; a second time does nothing.

        What was looked at after a turn that has its reply already is not looked at again.
        """
        if self._has_begun:
            return
        self._has_begun = True
        ledger = self._ledger
        in_flight = ledger.state.progress.in_flight
        had_snapshots = plan.work.snapshots is not None
        sequence, remarks = plan.work.begin(
            ledger.next_sequence() - 1,
            is_in_flight=in_flight is not None,
            replied=None if replied is None else (replied.sequence, replied.turn.role),
        )
        if had_snapshots and plan.work.snapshots is None:
            why = plan.work.why_no_snapshots
            text = f"what is done to the work folder can not be undone: {why}"
            ledger.warn(text, ABOUT_SNAPSHOTS)
        for remark in remarks:
            ledger.warn(remark)
        if changed := plan.work.changed_before:
            text = "the repository was changed, by agents or by you, since the run was interrupted"
            ledger.warn(f"{text}: {first_names(changed, MOST_CHANGES)}", ABOUT_REPOSITORY)
        if plan.work.snapshots is None:
            needy = in_need_of_snapshots(plan.rules, plan.readonly_roles, ledger.state.gates)
            if needy:
                raise RunError(
                    f"without snapshots ({plan.work.why_no_snapshots}) there is no way to go by "
                    f"{needy}: resume the run with that changed, or when they can be taken"
                )
        ledger.count_to(sequence)

    def look_before_turn(self, plan: Plan) -> None:
        """Keep what a person changed while no agent was at work, so that no turn is blamed."""
        number = self._ledger.next_sequence()
        if files := plan.work.look_before_turn(number):
            self._ledger.count_to(number)
            text = "changed while no agent was at work, so it counts as yours"
            self._ledger.warn(f"{text}: {first_names(files)}")

    def look(self, plan: Plan, origin: Origin, *, is_author: bool) -> Work:
        """Keep the work folder after a turn or a gate, and return what it has come to.

        What was changed by somebody whose task it is not may be put back.
        """
        ledger = self._ledger
        sequence, who = origin.sequence, origin.who
        approved = ledger.state.progress.approved_tree
        seen = plan.work.look(sequence, who, approved)
        if seen.repository:
            names = first_names(seen.repository, MOST_CHANGES)
            text = f"the repository was changed while {who} was at work: {names}"
            ledger.warn(text, ABOUT_REPOSITORY)
        if seen.left_out:
            left = [f"{one.path} ({one.reason})" for one in seen.left_out]
            ledger.warn(
                f"in no snapshot since {who} was at work: {first_names(left)}; cao can not put "
                "back what was done there"
            )
        if not seen.touched and not seen.not_kept:
            return seen.work
        told = files_changed(ledger.now, origin, seen)
        mode = plan.readonly_roles
        if not is_author and mode != "off":
            is_restored = mode == "restore" and bool(seen.restorable)
            told = replace(told, allowed=False, restored=is_restored)
            if told.restored:
                next_number = max(sequence + 1, ledger.next_sequence())
                seen = plan.work.put_back(next_number, who, seen, approved)
                ledger.count_to(next_number)
        ledger.tell(told)
        self._show_unreviewed(plan, seen.work)
        return seen.work

    def _show_unreviewed(self, plan: Plan, work: Work) -> None:
        """Say once that files are not as they were approved."""
        files = tuple(one for one in work.since_review if one not in self._unreviewed)
        self._unreviewed = work.since_review
        if files and not plan.rules.is_review_bound:
            self._ledger.warn(f"changed after the approval: {first_names(files)}")


PROOF_WORDS = "new tests on the base, the base's tests on the result"


class GateTurns:
    """Runs what a flow checks by itself; what was interrupted is simply run again."""

    def __init__(self, ledger: Ledger, looks: Looks, runner: GateRunner) -> None:
        self._ledger = ledger
        self._looks = looks
        self._checker = Checker(runner)

    def take(self, check: Check, plan: Plan) -> None:
        """Run a gate, or find out what the work is worth beyond that its gates pass."""
        if check.gate == PROOF:
            self._prove(check, plan)
        else:
            self._run(check, plan)

    def _run(self, check: Check, plan: Plan) -> None:
        ledger, place = self._ledger, plan.gate_place
        gate = next((one for one in ledger.state.gates if one.name == check.gate), None)
        if gate is None or place is None:
            raise RunError(f"the flow has a gate, {check.gate}, and there is no command for it")
        sequence = ledger.next_sequence()
        began = self._begin(check, sequence, gate.run)
        base = ledger.state.progress.base.get(gate.name)
        log_name = f"{sequence:03d}-{gate.name}"
        result = self._checker.run(gate, self._telling(place, began), plan.work, log_name, base)
        if check.when is When.BASE:
            self._heed_base(gate, result, plan.run)
        archive = ledger.records.files.archive_text(check.gate, sequence, page_of(result))
        result = replace(result, archive=str(ledger.records.files.path_for_agents(archive)))
        work = self._looks.look(plan, Origin(check.gate, check.round, sequence), is_author=True)
        state, outcome = record_check(ledger.state, check, result, plan.rules, work)
        ended = check_ended(began, ledger.now, outcome, str(archive))
        detail = "; ".join(filter(None, (ended.detail, result.about_log)))
        self._end(state, replace(ended, log=result.log, detail=detail))

    def _begin(self, check: Check, sequence: int, command: str) -> CheckBegan:
        """Tell that a command is about to look at the work of a stage."""
        ledger = self._ledger
        stage = ledger.state.flow.last_work
        author = stage.author if stage else ""
        began = CheckBegan(
            ledger.now, check.gate, check.round, sequence, command, check.when, author
        )
        ledger.tell(began)
        return began

    def _heed_base(self, gate: Gate, result: CheckResult, run: str) -> None:
        """Stop where a gate cannot be run at all, and say where it may never pass."""
        if refusal := refusal_on_base(gate, result, run):
            raise RunError(refusal, to_resume=resume_with_another(gate, run))
        if doubt := doubt_on_base(gate, result):
            self._ledger.warn(doubt)

    def _telling(self, place: GatePlace, began: CheckBegan) -> GatePlace:
        def tell(line: str) -> None:
            now = self._ledger.now
            self._ledger.tell(CheckOutput(now, began.gate, began.round, began.sequence, line))

        return replace(place, on_line=tell)

    def _prove(self, check: Check, plan: Plan) -> None:
        ledger, place = self._ledger, plan.gate_place
        assert place is not None, "the gates were run somewhere"
        sequence = ledger.next_sequence()
        began = self._begin(check, sequence, PROOF_WORDS)
        state = ledger.state
        prover = Prover(self._checker, self._telling(place, began), plan.work)
        proof = prover.prove(
            state.gates, state.progress.base, state.progress.passed, f"{sequence:03d}-{PROOF}"
        )
        page = page_of_proof(proof, f"cao diff {plan.run}" if plan.run else "")
        archive = ledger.records.files.archive_text(PROOF, sequence, page)
        # What was asked for meanwhile has changed the state.
        state = ledger.state
        work = plan.work.kept(state.progress.approved_tree)
        state, outcome = record_proof(state, check, proof, plan.rules, work)
        ended = check_ended(began, ledger.now, outcome, str(archive))
        self._end(state, replace(ended, proven=proof.is_proven))

    def _end(self, state: RunState, ended: CheckEnded) -> None:
        self._ledger.enter(ended.sequence, state)
        self._ledger.tell(ended)


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
        world = replace(world or World(), on_look=self._heed_in_turn, run=plan.run)
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
        if self.state.progress.in_flight is None:
            self._looks.look_before_turn(self._plan)
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
        self._ledger.records.files.archive_text(label, dispatch.sequence, prompt, shown=False)
        # Not saved before the turn is in flight: without that, the prompt is built anew.
        self._ledger.take(drop_hints(self.state, dispatch.turn.role))
        return prompt

    def _begin(self, dispatch: Dispatch) -> None:
        turn = dispatch.turn
        self._ledger.tell(
            TurnBegan(
                at=self._ledger.now,
                role=turn.role,
                round=turn.round,
                cycle=turn.cycle,
                sequence=dispatch.sequence,
                terminal_id=self.state.terminal_of(turn.role),
                provider=self.state.provider_of(turn.role),
                reviewed=turn.reviewed,
            )
        )

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
        path = self._ledger.records.files.path_for_agents(reply.archive)
        output = Output(reply.text, str(path))
        # The reply is archived: whatever happens here, it is found again.
        terminal_id = self.state.terminal_of(turn.role)
        origin = Origin(turn.role, turn.round, dispatch.sequence, turn.cycle, terminal_id)
        is_author = self.state.flow.is_author(turn.role)
        work = self._looks.look(self._plan, origin, is_author=is_author)
        state, outcome = record_reply(self.state, turn, output, self._plan.rules, work)
        ended = turn_ended(self._ledger.now, dispatch, outcome, worked, str(reply.archive))
        self._ledger.enter(ended.sequence, state)
        self._keep_screen(dispatch, reply.source)
        reason = reason_against(outcome, reply.text)
        self._ledger.tell(replace(ended, reason=reason, terminal_id=terminal_id))
        self._heed_stall()

    def _keep_screen(self, dispatch: Dispatch, source: ReplySource) -> None:
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
        self._ledger.enter(ended.sequence, after)
        self._ledger.tell(event)
        self._ledger.tell(replace(ended, terminal_id=event.terminal_id))


def _heard(state: RunState, upto: int) -> RunState:
    return replace(state, progress=replace(state.progress, heard=upto))


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


def files_changed(at: float, origin: Origin, seen: Seen) -> FilesChanged:
    changes, not_kept = seen.touched, seen.not_kept
    paths = list(dict.fromkeys([*(one.path for one in changes), *not_kept]))
    return FilesChanged(
        at=at,
        role=origin.who,
        round=origin.round,
        sequence=origin.sequence,
        files=tuple(paths[:MOST_NAMED]),
        count=len(paths),
        added=sum(max(one.added, 0) for one in changes),
        removed=sum(max(one.removed, 0) for one in changes),
        cycle=origin.cycle,
        terminal_id=origin.terminal_id,
        not_kept=len(not_kept),
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
