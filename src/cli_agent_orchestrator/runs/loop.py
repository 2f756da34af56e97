"""The loop: do the next step (a turn, a gate, a pause), save the result, report it.

Before a prompt is sent, it is archived and the state is saved with the turn in flight; after the
reply the state is saved again. A resumed run finds the same number, the same key and the same
words, so that nothing is asked twice. A gate that was interrupted is simply run again.
"""

import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Self

from msgspec import Struct, structs
from msgspec.structs import replace

from .. import events
from ..core.clock import Stopwatch
from ..core.models import TerminalStatus
from ..core.text import MOST_NAMED, first_names
from ..errors import OrchestratorError, RunError, StateError, Stopped, TurnFailed
from ..gates.check import doubt_on_base, page_of, refusal_on_base, resume_with_another
from ..gates.checking import GatePlace, GateRunner
from ..handoff.files import ResponseFiles
from ..handoff.handoff import Handoff, World
from ..handoff.wait import Envelope, Reply, Sent
from ..handoff.watch import Agents
from ..pipeline import machine
from ..pipeline.prompts import Briefing, build_prompt
from ..pipeline.reply import Output
from ..pipeline.requests import SentRequest, Skip, Stop
from ..pipeline.resuming import ask_again, missing_turn, note_taken
from ..pipeline.state import Dispatch, RunState, Turn, drop_hints, hints_for
from ..pipeline.steering import grant
from ..proof.proving import Prover
from ..proof.verdict import page_of_proof
from ..settings.config import HandoffRules, LoopRules, read_all
from ..settings.gates import Gate, When
from ..settings.layout import PROMPT_LABEL
from ..settings.values import read_value
from ..work.changes import Work
from ..work.folder import ABOUT_REPOSITORY, ABOUT_SNAPSHOTS, WorkFolder
from .recorder import StateFile

MOST_CHANGES = 50
"""Changes to the repository that a warning names: each may have the command that brings it back."""


class Plan(Struct, frozen=True):
    briefing: Briefing
    rules: LoopRules
    handoff: HandoffRules
    state_file: StateFile
    files: ResponseFiles
    keep_screen: Callable[[str, int, str], None]
    gate_place: GatePlace
    work: WorkFolder
    since: float
    """When the run was begun or resumed, in unix time; older requests may be out of date."""
    run: str
    told: int = 0
    """The last step of which the log of the run has the end."""


def in_need_of_snapshots(rules: LoopRules, gates: Iterable[Gate]) -> str:
    asked = {
        "REVIEW_BOUND=require (set CAO_REVIEW_BOUND=show)": rules.review_bound == "require",
        "PROOF=require (say --proof report)": rules.proof == "require",
        "READONLY_ROLES=restore (set CAO_READONLY_ROLES=warn)": rules.readonly_roles == "restore",
    }
    clean = (f"clean=true of the gate {gate.name} (leave it out)" for gate in gates if gate.clean)
    return " and ".join([*(text for text, is_asked in asked.items() if is_asked), *clean])


class _Skipped(Exception):
    """The review under way was skipped."""


class StoppedByPerson(Stopped):
    def __init__(self) -> None:
        super().__init__("a person stopped the run")


class Runner:
    def __init__(
        self, agents: Agents, plan: Plan, on_event: events.OnRunEvent, world: World | None = None
    ) -> None:
        world = replace(world or World(), on_look=self._process_in_turn, run=plan.run)
        self._plan = plan
        self._tell = on_event
        self._clock = world.clock
        self._state: RunState | None = None
        self._handoff = Handoff(agents, plan.files, plan.handoff, self._note_handoff, world)
        self._gates = GateRunner(self._process_requests)
        # SimpleQueue, because a signal handler may put something while something is taken.
        self._requests: SimpleQueue[tuple[SentRequest, int] | Stop] = SimpleQueue()
        self._stopwatch = Stopwatch(0.0, world.clock.now())
        self._has_looked = False
        self._told = plan.told
        self._unreviewed: tuple[str, ...] = ()
        self._known_stall: frozenset[str] = frozenset()
        """What was reported already: it does not stop a run that was resumed since."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._handoff.close()

    def stop(self) -> None:
        """End the loop at its next look; any thread may call it, and a signal handler too."""
        self._handoff.stop()
        self._gates.stop()
        self._requests.put(Stop())

    def hear(self, request: SentRequest, end: int) -> None:
        """Take a request, and where it ends in the control file; any thread may call it."""
        self._requests.put((request, end))
        self._handoff.wake()
        self._gates.wake()

    @property
    def state(self) -> RunState:
        assert self._state is not None, "a run has a state once it has begun"
        return self._state

    @property
    def _now(self) -> float:
        return self._clock.now()

    def run(self, state: RunState) -> RunState:
        self._state = state
        self._known_stall = machine.stall_marks(state)
        self._begin_looking()
        self._save(self.state)
        if (ended := state.progress.ended) is not None and ended.sequence > self._told:
            self._tell(ended)
        try:
            while True:
                self._process_requests()
                match machine.next_step(self.state):
                    case Turn() as turn:
                        self._take(turn)
                    case machine.Check(gate=name) as check if name == events.PROOF:
                        self._prove(check)
                    case machine.Check() as check:
                        self._check(check)
                    case machine.Pause():
                        self._tell(events.Paused(self._now))
                        while self.state.progress.paused:
                            self._process(self._requests.get(), holding=True)
                    case machine.Done():
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
        if dispatch is None or dispatch.turn != machine.due_step(state):
            return state
        kept = self._plan.files.archived(dispatch.turn.role, dispatch.sequence)
        if kept is None:
            return state
        self._state = state
        self._begin_looking(dispatch)
        path, response = kept
        reply = Reply(response.text, path, dispatch.sequence, "archive")
        self._record(dispatch, reply, dispatch.worked)
        return self.state

    def answer_missing(self, state: RunState, remedy: str) -> RunState:
        """Do what a person decided about a missing reply, if it is still missing."""
        dispatch = missing_turn(state)
        if dispatch is None:
            return state
        self._state = state
        match remedy:
            case "ask":
                self._save(ask_again(state))
            case "skip":
                skip = SentRequest(uuid.uuid4().hex, self._now, Skip())
                self._process((skip, state.progress.heard))
            case "take":
                role = dispatch.turn.role
                self._begin_looking()
                terminal_id = self.state.terminal_of(role)
                reply = self._handoff.take_last_output(terminal_id, role, dispatch.sequence)
                self._state = note_taken(self.state, dispatch, self._now)
                self._record(dispatch, reply, dispatch.worked)
        return self.state

    def _save(self, state: RunState) -> None:
        self._plan.state_file.save_state(state)
        self._state = state

    def _save_ended(self, sequence: int, state: RunState) -> None:
        sequence = max(state.progress.sequence, sequence)
        self._save(state.progressed(sequence=sequence))

    def _put_in_flight(self, dispatch: Dispatch) -> None:
        self._save_ended(dispatch.sequence, self.state.progressed(in_flight=dispatch))

    def _count_to(self, sequence: int) -> None:
        """Mark a number as used; that is saved with the next change."""
        last = max(self.state.progress.sequence, sequence)
        self._state = self.state.progressed(sequence=last)

    def _next_sequence(self) -> int:
        return max(self.state.progress.sequence + 1, self._plan.files.next_sequence())

    def _warn(self, text: str, about: str = "") -> None:
        self._tell(events.Warned(self._now, text, about))

    def _take(self, turn: Turn) -> None:
        plan, files, dispatch = self._plan, self._plan.files, self.state.progress.in_flight
        if dispatch is None:
            # Changed by a person while no agent was at work: no turn is blamed for it.
            number = self._next_sequence()
            if changed := plan.work.look_before_turn(number):
                self._count_to(number)
                text = "changed while no agent was at work, so it counts as yours"
                self._warn(f"{text}: {first_names(changed)}")
        # A turn that was begun before keeps its number and its key.
        if dispatch is None or dispatch.turn != turn or dispatch.sequence <= 0:
            sequence = self._next_sequence()
            files.clear_stale_response(turn.role, sequence)
            dispatch = Dispatch(turn, uuid.uuid4().hex, sequence, self._now, Sent.NO)
            dispatch = replace(dispatch, hints=hints_for(self.state, turn.role))
        self._stopwatch = Stopwatch(dispatch.worked, self._now)
        self._handoff.rules = plan.handoff
        # The same words as before if it was sent before: the server knows a message by its key and
        # its text, and settings may have changed since.
        label = f"{turn.role}-{PROMPT_LABEL}"
        if kept := files.archived(label, dispatch.sequence):
            prompt = kept[1].text
        else:
            prompt = build_prompt(turn, self.state, plan.briefing)
            files.archive_text(label, dispatch.sequence, prompt, shown=False)
            # Not saved before the turn is in flight: without that, the prompt is built anew.
            self._state = drop_hints(self.state, turn.role)
        # From this save on it may have been sent.
        saved = Sent.MAYBE if dispatch.sent is Sent.NO else dispatch.sent
        self._put_in_flight(replace(dispatch, sent=saved))
        terminal_id = self.state.terminal_of(turn.role)
        self._tell(
            events.TurnBegan(
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
            is_review=machine.due_review(self.state) == turn,
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

    def _note_handoff(self, event: events.HandoffEvent) -> None:
        if event.status is not None:
            waiting = event.status is TerminalStatus.WAITING_USER_ANSWER
            self._stopwatch = self._stopwatch.see(event.at, waiting)
        if dispatch := self.state.progress.in_flight:
            event = structs.replace(event, round=dispatch.turn.round, cycle=dispatch.turn.cycle)
        self._tell(event)

    def _save_sent(self, sent: Sent) -> None:
        """Save whether the prompt in flight arrived; a failure counts only if the agent had it."""
        dispatch = self.state.progress.in_flight
        if dispatch is None or (sent is Sent.FAILED and dispatch.sent is not Sent.YES):
            return
        self._put_in_flight(replace(dispatch, sent=sent))

    def _record(self, dispatch: Dispatch, reply: Reply, worked: float) -> None:
        plan, turn = self._plan, dispatch.turn
        output = Output(reply.text, str(plan.files.path_for_agents(reply.archive)))
        # The reply is archived: after a crash here it is found again.
        terminal_id = self.state.terminal_of(turn.role)
        is_author = self.state.flow.is_author(turn.role)
        work = self._look(
            turn.role, turn.round, dispatch.sequence, is_author, turn.cycle, terminal_id
        )
        state, outcome = machine.record_reply(self.state, turn, output, plan.rules, work)
        ended = turn_ended(self._now, dispatch, outcome, worked, str(reply.archive), terminal_id)
        ended = structs.replace(ended, reason=machine.reason_against(outcome, reply.text))
        self._save_ended(dispatch.sequence, state.progressed(ended=ended))
        if reply.source != "archive":
            plan.keep_screen(terminal_id, dispatch.sequence, turn.role)
        self._tell_ended(ended)

    def _report_stall(self) -> None:
        marks = machine.stall_marks(self.state)
        news = marks - self._known_stall
        self._known_stall = marks
        if not news:
            return
        text = machine.stall_of(self.state)
        self._tell(events.NotConverging(self._now, text))
        if self._plan.rules.stall == "stop":
            resume = f"cao resume {self._plan.run}"
            raise RunError(
                f"{text} The run is stopped (STALL=stop): look at it, and `{resume}` goes on; it "
                "stops again only for something new",
                to_resume=resume,
            )

    def _check(self, check: machine.Check) -> None:
        plan = self._plan
        gate = next((one for one in self.state.gates if one.name == check.gate), None)
        if gate is None:
            raise RunError(f"the flow has a gate, {check.gate}, and there is no command for it")
        began, place = self._begin_check(check, gate.run)
        sequence = began.sequence
        base = self.state.progress.base.get(gate.name)
        result = self._gates.run(gate, place, plan.work, f"{sequence:03d}-{gate.name}", base)
        if check.when is When.BASE:
            # Stop if a gate cannot be run at all, and warn if it may never pass.
            if refusal := refusal_on_base(gate, result, plan.run):
                raise RunError(refusal, to_resume=resume_with_another(gate, plan.run))
            if doubt := doubt_on_base(gate, result):
                self._warn(doubt)
        archive = plan.files.archive_text(check.gate, sequence, page_of(result))
        result = replace(result, archive=str(plan.files.path_for_agents(archive)))
        work = self._look(check.gate, check.round, sequence)
        state, outcome = machine.record_check(self.state, check, result, plan.rules, work)
        ended = check_ended(began, self._now, outcome, str(archive))
        detail = "; ".join(filter(None, (ended.detail, result.about_log)))
        self._end_check(state, structs.replace(ended, log=result.log, detail=detail))

    def _prove(self, check: machine.Check) -> None:
        plan, state = self._plan, self.state
        words = "new tests on the base, the base's tests on the result"
        began, place = self._begin_check(check, words)
        sequence = began.sequence
        proof = Prover(self._gates, place, plan.work).prove(
            state.gates,
            state.progress.base,
            state.progress.passed,
            f"{sequence:03d}-{events.PROOF}",
        )
        proof = replace(proof, command=f"cao diff {plan.run}")
        archive = plan.files.archive_text(events.PROOF, sequence, page_of_proof(proof))
        # Requests may have changed the state meanwhile.
        work = plan.work.kept(self.state.progress.approved_tree)
        state, outcome = machine.record_proof(self.state, check, proof, plan.rules, work)
        ended = check_ended(began, self._now, outcome, str(archive))
        self._end_check(state, structs.replace(ended, proven=proof.is_proven))

    def _end_check(self, state: RunState, ended: events.CheckEnded) -> None:
        self._save_ended(ended.sequence, state.progressed(ended=ended))
        self._tell_ended(ended)

    def _tell_ended(self, ended: events.StepEnded) -> None:
        self._told = ended.sequence
        self._tell(ended)
        self._report_stall()

    def _begin_check(
        self, check: machine.Check, command: str
    ) -> tuple[events.CheckBegan, GatePlace]:
        stage = self.state.flow.last_work
        began = events.CheckBegan(
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
            self._tell(events.CheckOutput(self._now, began.gate, began.round, began.sequence, line))

        return began, replace(self._plan.gate_place, on_line=on_line)

    def _begin_looking(self, replied: Dispatch | None = None) -> None:
        """Take a snapshot of the work folder before the first step; a second time does nothing."""
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
        needy = in_need_of_snapshots(plan.rules, self.state.gates)
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
        is_author: bool = True,
        cycle: int = 0,
        terminal_id: str = "",
    ) -> Work:
        """Take a snapshot after a turn or a gate, and return what has changed.

        Changes of a role that is no author may be undone.
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
        changed = events.FilesChanged(
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
        if not is_author and plan.rules.readonly_roles != "off":
            is_restored = plan.rules.readonly_roles == "restore" and bool(seen.restorable)
            changed = structs.replace(changed, allowed=False, restored=is_restored)
            if is_restored:
                next_number = max(sequence + 1, self._next_sequence())
                seen = plan.work.put_back(next_number, who, seen, approved)
                self._count_to(next_number)
        self._tell(changed)
        files = tuple(one for one in seen.work.since_review if one not in self._unreviewed)
        self._unreviewed = seen.work.since_review
        if files and plan.rules.review_bound != "require":
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

    def _process(self, read: tuple[SentRequest, int] | Stop, *, holding: bool = False) -> None:
        if isinstance(read, Stop):
            raise Stopped("the run was stopped")
        request, end = read
        before = self.state
        after, event = grant(before, request, self._now, self._plan.since, holding=holding)
        after = after.progressed(heard=end)
        if isinstance(event, events.ReviewSkipped):
            review = machine.due_review(before)
            assert review is not None, "it was granted"
            dispatch, worked = before.progress.in_flight, self._stopwatch.worked_by(event.at)
            if dispatch is None or dispatch.turn != review:
                dispatch = Dispatch(review, event.ask, self._next_sequence(), event.at)
                worked = 0.0
            self._save_ended(dispatch.sequence, after)
            self._tell(event)
            self._tell(
                turn_ended(event.at, dispatch, machine.SKIPPED, worked, "", event.terminal_id)
            )
            return
        if isinstance(event, events.SettingChanged):
            plan, settings = self._plan, after.progress.settings
            rules, seconds = read_all(LoopRules, settings), read_value(settings, "GATE_TIMEOUT")
            self._plan = replace(
                plan,
                briefing=replace(plan.briefing, condensation=rules.condensation),
                rules=rules,
                handoff=read_all(HandoffRules, settings),
                gate_place=replace(plan.gate_place, seconds=seconds),
            )
        self._save(after)
        self._tell(event)
        if isinstance(event, events.StopAsked):
            raise StoppedByPerson


def turn_ended(
    at: float,
    dispatch: Dispatch,
    outcome: machine.Outcome,
    seconds: float,
    archive: str,
    terminal_id: str = "",
) -> events.TurnEnded:
    turn = dispatch.turn
    return events.TurnEnded(
        at=at,
        role=turn.role,
        round=turn.round,
        cycle=turn.cycle,
        sequence=dispatch.sequence,
        outcome=outcome.meaning,
        detail=str(outcome),
        seconds=seconds,
        archive=archive,
        reviewed=turn.reviewed,
        verdict=outcome.verdict,
        why=outcome.why,
        terminal_id=terminal_id,
        early=outcome.is_early,
    )


def check_ended(
    began: events.CheckBegan, at: float, outcome: machine.Outcome, archive: str
) -> events.CheckEnded:
    return events.CheckEnded(
        at=at,
        gate=began.gate,
        round=began.round,
        sequence=began.sequence,
        outcome=outcome.meaning,
        detail=str(outcome),
        seconds=at - began.at,
        archive=archive,
        when=began.when,
        verdict=outcome.verdict,
        why=outcome.why,
        author=began.author,
    )
