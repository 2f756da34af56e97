"""What comes next in a run, and what a reply or a check changes.

    next_step(state)                            a turn, a check, a pause, or that the run is over
    record_reply(state, turn, reply, rules)     the state after a turn, and what the reply meant
    record_check(state, check, result, rules)   the same for the command of a gate
    record_proof(state, check, proof, rules)    the same for the proof of the work

The rules:

1. A stage of work begins with its author in cycle 1. Author and reviewer take turns; without a
   reviewer the first summary ends the stage. The stages are those of the run's flow.
2. An approval that counts ends the stage. Otherwise the author gets the notes and the next cycle
   begins. When the cycles are used up the run goes on all the same: the open notes are handed to
   the stages after it and to the next round.
3. A PASS of a tester or a gate ends the stage, and the run if it was the last one. Anything else
   starts the next round at the first stage: outputs are emptied, the evidence becomes the
   feedback. After the last round the run has failed.
   Gates are run at three points, those of each in their order: on the base, before the first turn,
   where whatever they say is only remembered; after the last work of a round was approved; and
   after the last tester's PASS, or where the flow has a gate as its stage. When all have passed
   that last one, what was done is proven, if that is wanted (PROOF).
4. A stage that lacks what the work before it should have left falls back to that one.
5. A round or cycle beyond its limit, from a state saved under other settings, is finished first.
6. A pause holds the run before its next step; a turn that is in flight is finished first.
7. A review that a person skips ends its stage as an approval would, without notes.
8. A hint is kept until the next prompt of its role; without a role it is for the next prompt. The
   hints of a review that is skipped wait for the prompt after it.
9. Where only what was reviewed may pass (REVIEW_BOUND), a PASS counts for the very files that the
   review of the last work approved in this round. Any other PASS is a FAIL with the reason.
"""

from msgspec import Struct
from msgspec.structs import replace

from ..core.text import first_names
from ..events import PROOF, Meaning
from ..gates.check import CheckResult, base_of, evidence_of
from ..proof.verdict import Proof, ProofWords
from ..settings.config import Condensation, LoopRules
from ..settings.gates import Gate, When
from ..work.changes import UNSEEN, Work
from .flow import DONE, Stage, StageKind
from .reply import (
    Excerpt,
    Output,
    excerpt_of,
    extract_review_notes,
    extract_test_evidence,
    first_point,
    shorten,
    split_lines,
)
from .review import (
    Findings,
    Verdict,
    find_stall,
    follow,
    judge_review,
    judge_test,
    objection,
    read_findings,
    stalled,
)
from .state import FinalStatus, OpenNotes, RunState, Turn, take_hints_back

MOST_FILES = 20
SHOWN = 10


class Refused(Struct, frozen=True):
    why: str

    def __str__(self) -> str:
        return f"FAIL: {self.why}"


def not_reviewed(files: tuple[str, ...] = (), approved: str = "", tree: str = "") -> Refused:
    if not files:
        return Refused(
            "the work was approved, and without snapshots nobody knows whether it is still the same"
        )
    return Refused(
        f"the tree {approved[:SHOWN]} was approved, and this one is {tree[:SHOWN]}: these files "
        "changed after they were approved, and were not reviewed: "
        f"{first_names(files, MOST_FILES)}"
    )


def not_approved(tree: str = "") -> Refused:
    this = f"; this one is {tree[:SHOWN]}" if tree else ""
    return Refused(
        "the review cycles were used up and the work was not approved, which "
        f"REVIEW_BOUND=require asks for: no tree was approved{this}"
    )


class Outcome(Struct, frozen=True):
    meaning: Meaning
    because: Verdict | CheckResult | Refused | ProofWords | None = None
    then: int | str = ""
    """The cycle, round, stage or gate that follows; else how many cycles or rounds there were."""

    @property
    def is_failure(self) -> bool:
        return self.meaning in (Meaning.FAILED, Meaning.ROUNDS_USED_UP)

    @property
    def is_early(self) -> bool:
        """Does another cycle follow only because an approval came too early to count?"""
        is_review = isinstance(self.because, Verdict) and self.because.is_early
        return is_review and self.meaning is Meaning.SENT_BACK

    @property
    def verdict(self) -> str:
        match self.meaning:
            case Meaning.DELIVERED:
                return "summary received"
            case Meaning.SKIPPED:
                return "skipped by a person; it counts as approved"
            case Meaning.PASSED | Meaning.CLEARED:
                return "PASS" if self.because is None else f"PASS, {self.because}"
            case Meaning.BASE_PASSED | Meaning.BASE_FAILED:
                return f"before the run: {self.because}"
        return str(self.because)

    @property
    def why(self) -> str:
        """The reason for the verdict, without its own word; empty if it says no more."""
        if isinstance(self.because, ProofWords):
            return str(self.because)
        of_setback = self.is_failure or self.meaning in (Meaning.SENT_BACK, Meaning.CYCLES_USED_UP)
        return self.because.why if self.because and of_setback else ""

    def __str__(self) -> str:
        match self.meaning:
            case Meaning.SENT_BACK:
                follows = f"cycle {self.then} follows"
            case Meaning.CYCLES_USED_UP:
                follows = (
                    f"all {self.then} review cycles are used up, the run goes on with the notes "
                    "still open"
                )
            case Meaning.CLEARED:
                follows = f"{self.then} follows"
            case Meaning.FAILED:
                follows = f"round {self.then} follows"
            case Meaning.ROUNDS_USED_UP:
                rounds = "the only round is" if self.then == 1 else f"all {self.then} rounds are"
                follows = f"{rounds} used up"
            case _:
                return self.verdict
        return f"{self.verdict}; {follows}"


DELIVERED, SKIPPED = Outcome(Meaning.DELIVERED), Outcome(Meaning.SKIPPED)


def stall_of(state: RunState) -> str:
    progress, stage = state.progress, state.flow.last_work
    author = stage.author if stage else ""
    everything = Findings(tuple(t for ledger in progress.findings.values() for t in ledger.tracked))
    return find_stall(everything, author, progress.unchanged_turns, progress.repeated_gate)


def stall_marks(state: RunState) -> frozenset[str]:
    progress = state.progress
    unfixed = (one for ledger in progress.findings.values() for one in stalled(ledger))
    marks = {f"finding {one.finding.id}" for one in unfixed}
    if progress.unchanged_turns > 0:
        marks.add("unchanged")
    elif progress.repeated_gate:
        marks.add(f"gate {progress.repeated_gate}")
    return frozenset(marks)


def see_work(state: RunState, turn: Turn, outcome: Outcome, work: Work) -> RunState:
    stage = state.flow.last_work
    if stage is None or turn.role not in stage.roles or not work.tree:
        return state
    if turn.role == stage.author:
        # An author who was asked for nothing may well change nothing.
        idle = not work.changed and state.progress.is_more_asked
        return state.progressed(unchanged_turns=state.progress.unchanged_turns + 1 if idle else 0)
    if outcome.meaning is Meaning.APPROVED:
        return state.progressed(unchanged_turns=0)
    if outcome.meaning is Meaning.SENT_BACK:
        # An approval that does not count asks for nothing.
        asks = isinstance(outcome.because, Verdict) and not outcome.because.positive
        return state.progressed(is_more_asked=asks)
    return state


EMPTY_REPLY = "(The reply was empty.)"
MOST_LINES_READ = 50
"""Further down there is no point of a reply to be found."""
NO_RESULT = "The tester's verdict is missing: "
NOT_PROVEN = (
    "Write a test that fails without the change and passes with it, and leave the tests that were "
    "there before as they were."
)


class Check(Struct, frozen=True):
    gate: str
    round: int
    when: When = When.AFTER_TESTER


class Pause(Struct, frozen=True):
    """A person wants the run to wait."""


class Done(Struct, frozen=True):
    final_status: FinalStatus


Step = Turn | Check | Pause | Done


def begin(state: RunState) -> RunState:
    return _check_at(state, When.BASE) if _gates_at(state, When.BASE) else state


def next_step(state: RunState) -> Step:
    due = due_step(state)
    if due is None:
        return Done(state.final_status)
    in_flight = state.progress.in_flight
    begun = in_flight is not None and in_flight.turn == due
    return Pause() if state.progress.paused and not begun else due


def due_step(state: RunState) -> Turn | Check | None:
    if state.final_status is not FinalStatus.RUNNING:
        return None
    state = _settle(state)
    stage = _stage(state)
    gate, point = _next_gate(state), _point(state)
    if state.progress.proving:
        return Check(PROOF, state.round)
    if point is not None:
        # Without one, what is missing is said when it is to be run.
        return Check(gate.name if gate else stage.name, state.round, point)
    role = stage.reviewer if state.progress.reviewing and stage.reviewer else stage.author
    return Turn(role, state.round, state.progress.cycle, bool(stage.reviewer))


def with_more_rounds(state: RunState, max_rounds: int) -> RunState:
    if state.final_status is not FinalStatus.FAIL or state.round >= max_rounds:
        return state
    return _start_round(replace(state, final_status=FinalStatus.RUNNING), state.round + 1)


def due_review(state: RunState) -> Turn | None:
    due = due_step(state)
    if isinstance(due, Turn) and due.role == state.flow.stage_of(due.role).reviewer:
        return due
    return None


def skip_review(state: RunState, review: Turn) -> RunState:
    if due_review(state) != review:
        raise ValueError(f"{review} is not due")
    state = take_hints_back(_settle(state), review).progressed(in_flight=None)
    state = _see_approval(state, review, SKIPPED, state.progress.delivered_tree)
    return _follow(state, SKIPPED)


def record_reply(
    state: RunState, turn: Turn, reply: Output, rules: LoopRules, work: Work = UNSEEN
) -> tuple[RunState, Outcome]:
    if due_step(state) != turn:
        raise ValueError(f"{turn} is not due")
    is_review = turn.role == state.flow.stage_of(turn.role).reviewer
    # Only a reviewer that numbers its findings is followed by them.
    if is_review and (form := read_findings(reply.text)):
        known = state.progress.findings
        ledger = follow(known.get(turn.role, Findings()), form)
        state = state.progressed(findings={**known, turn.role: ledger})
    outcome = judge_reply(state, turn, reply.text, rules)
    if outcome.meaning is Meaning.PASSED:
        outcome = _bound_to_review(state, work, turn.round, rules) or outcome
    state = _see_approval(state, turn, outcome, work.tree)
    state = see_work(state, turn, outcome, work)
    kept = shorten(replace(reply, text="\n".join(split_lines(reply.text)) or EMPTY_REPLY))
    state = _settle(state)
    # The terminal has had the context now, and nothing is in flight.
    briefed = state.progress.briefed | {state.terminal_of(turn.role)}
    state = replace(state, outputs={**state.outputs, turn.role: kept})
    state = state.progressed(in_flight=None, briefed=briefed)
    if is_review:
        notes = kept.text
        if rules.condensation.review_feedback:
            notes = extract_review_notes(notes, rules.condensation.max_feedback_lines)
        state = replace(state, notes={**state.notes, turn.role: excerpt_of(kept, notes)})
    if outcome.meaning is Meaning.CYCLES_USED_UP:
        opened = OpenNotes(turn.role, turn.round, state.notes_of(turn.role))
        before = state.progress.open_notes
        others = (n for n in before if (n.role, n.round) != (turn.role, turn.round))
        state = state.progressed(open_notes=(*others, opened))
    if outcome.is_failure:
        state = replace(state, feedback=_evidence(kept, outcome, rules.condensation))
    return _follow(state, outcome), outcome


def record_check(
    state: RunState, check: Check, result: CheckResult, rules: LoopRules, work: Work = UNSEEN
) -> tuple[RunState, Outcome]:
    if due_step(state) != check:
        raise ValueError(f"{check} is not due")
    state = _settle(state)
    if check.when is When.BASE:
        state = state.progressed(base={**state.progress.base, check.gate: base_of(result)})
        known = Meaning.BASE_PASSED if result.passed else Meaning.BASE_FAILED
        return _after_check(state), Outcome(known, result)
    if result.passed:
        return _gate_passed(state, check, result, rules, work)
    outcome = _failed(result, check.round, rules)
    state = replace(
        state, feedback=Excerpt(*evidence_of(result, rules.condensation), result.archive)
    )
    state = _follow(state, outcome)
    if work.tree:
        before = state.progress.failed_on
        repeated = check.gate if before.get(check.gate) == work.tree else ""
        failed_on = {**before, check.gate: work.tree}
        state = state.progressed(failed_on=failed_on, repeated_gate=repeated)
    return state, outcome


def record_proof(
    state: RunState, check: Check, proof: Proof, rules: LoopRules, work: Work = UNSEEN
) -> tuple[RunState, Outcome]:
    if due_step(state) != check or check.gate != PROOF:
        raise ValueError(f"{check} is not due")
    if against := _bound_to_review(state, work, check.round, rules):
        return _refuse(state, against), against
    state = state.progressed(proof=proof.words)
    outcome = Outcome(Meaning.PASSED, proof.words)
    if rules.proof == "require" and not proof.is_proven:
        refused = Refused(str(proof))
        outcome = _failed(refused, check.round, rules)
        state = replace(state, feedback=Excerpt(f"{refused}\n{NOT_PROVEN}"))
    return _follow(state, outcome), outcome


def _gate_passed(
    state: RunState, check: Check, result: CheckResult, rules: LoopRules, work: Work
) -> tuple[RunState, Outcome]:
    stage, following = _stage(state), state.progress.checks_passed + 1
    gates = _gates_at(state, check.when)
    if check.when is When.AFTER_TESTER:
        state = state.progressed(passed={**state.progress.passed, check.gate: base_of(result)})
    if following < len(gates):
        return _after_check(state), _cleared(f"the gate {gates[following].name}")
    if stage.then != DONE:
        return _after_check(state), _cleared(stage.then)
    # The tester and all gates have passed.
    if against := _bound_to_review(state, work, check.round, rules):
        return _refuse(state, against), against
    if rules.proof == "off":
        return _after_check(state), Outcome(Meaning.PASSED)
    return state.progressed(proving=True), _cleared("the proof")


def _refuse(state: RunState, against: Outcome) -> RunState:
    return _follow(replace(state, feedback=Excerpt(against.verdict)), against)


def judge_reply(state: RunState, turn: Turn, text: str, rules: LoopRules) -> Outcome:
    stage = state.flow.stage_of(turn.role)
    if turn.role == stage.reviewer:
        verdict = judge_review(text, state.flow.role(turn.role), turn.cycle, rules.review)
        ledger = state.progress.findings.get(turn.role, Findings())
        # Only a reviewer that follows the form is judged by it.
        if verdict.approved and read_findings(text) and (against := objection(ledger)):
            verdict = replace(verdict, obstacles=(against,))
        if verdict.approved:
            return Outcome(Meaning.APPROVED, verdict)
        if turn.cycle < rules.max_review_cycles:
            return Outcome(Meaning.SENT_BACK, verdict, turn.cycle + 1)
        return Outcome(Meaning.CYCLES_USED_UP, verdict, turn.cycle)
    if stage.kind is StageKind.WORK:
        return DELIVERED
    tested = judge_test(text)
    if not tested.positive:
        return _failed(tested, turn.round, rules)
    if stage.then != DONE:
        return _cleared(stage.then)
    gates = _gates_at(state, When.AFTER_TESTER)
    return _cleared(f"the gate {gates[0].name}") if gates else Outcome(Meaning.PASSED)


def reason_against(outcome: Outcome, text: str) -> str:
    """Return the first point of a reply that led to more work, in its own words.

    Where an approval did not count, the verdict itself says why.
    """
    if not isinstance(outcome.because, Verdict):
        return ""
    if outcome.is_failure:
        return first_point(extract_test_evidence(text, MOST_LINES_READ))
    if outcome.meaning is Meaning.APPROVED or outcome.because.obstacles:
        return ""
    return first_point(extract_review_notes(text, MOST_LINES_READ))


def _bound_to_review(state: RunState, work: Work, number: int, rules: LoopRules) -> Outcome | None:
    """Return the outcome of a PASS for files that were not approved as they are now."""
    stage = state.flow.last_work
    if rules.review_bound != "require" or stage is None or not stage.reviewer:
        return None
    progress = state.progress
    if not progress.is_approved:
        return _failed(not_approved(work.tree), number, rules)
    if not progress.approved_tree or not work.tree:
        return _failed(not_reviewed(), number, rules)
    if work.since_review:
        against = not_reviewed(work.since_review, progress.approved_tree, work.tree)
        return _failed(against, number, rules)
    return None


def _see_approval(state: RunState, turn: Turn, outcome: Outcome, tree: str) -> RunState:
    stage = state.flow.last_work
    if stage is None or turn.role not in stage.roles:
        return state
    is_approved = outcome.meaning in (Meaning.APPROVED, Meaning.SKIPPED)
    state = state.progressed(is_approved=is_approved, approved_tree=tree if is_approved else "")
    return state.progressed(delivered_tree=tree) if turn.role == stage.author else state


def _cleared(then: str) -> Outcome:
    return Outcome(Meaning.CLEARED, then=then)


def _failed(against: Verdict | CheckResult | Refused, number: int, rules: LoopRules) -> Outcome:
    if number < rules.max_rounds:
        return Outcome(Meaning.FAILED, against, number + 1)
    return Outcome(Meaning.ROUNDS_USED_UP, against, number)


def _follow(state: RunState, outcome: Outcome) -> RunState:
    stage = _stage(state)
    match outcome:
        case Outcome(Meaning.DELIVERED) if stage.reviewer:
            return _go_on(state, stage.name, cycle=state.progress.cycle, reviewing=True)
        case Outcome(Meaning.SENT_BACK, then=int(cycle)):
            return _go_on(state, stage.name, cycle=cycle)
        case Outcome(Meaning.PASSED):
            return _finish(state, FinalStatus.PASS)
        case Outcome(Meaning.FAILED, then=int(number)):
            return _start_round(state, number)
        case Outcome(Meaning.ROUNDS_USED_UP):
            return _finish(state, FinalStatus.FAIL)
        case Outcome(Meaning.CLEARED):
            if stage.then == DONE:
                return _check_at(state, When.AFTER_TESTER)
        case _:  # the end of the work of a stage
            if state.flow.is_checked(stage) and _gates_at(state, When.AFTER_PROGRAMMER):
                return _check_at(state, When.AFTER_PROGRAMMER)
    # a summary without a reviewer, the end of a review, a test that is not the last one
    return _go_on(state, stage.then)


def _gates_at(state: RunState, when: When) -> tuple[Gate, ...]:
    return tuple(gate for gate in state.gates if when in gate.when)


def _check_at(state: RunState, when: When) -> RunState:
    return state.progressed(checking=when, checks_passed=0)


def _point(state: RunState) -> When | None:
    at_gate = _stage(state).kind is StageKind.GATE
    return state.progress.checking or (When.AFTER_TESTER if at_gate else None)


def _next_gate(state: RunState) -> Gate | None:
    point = _point(state)
    gates = () if point is None else _gates_at(state, point)
    passed = state.progress.checks_passed
    return gates[passed] if passed < len(gates) else None


def _after_check(state: RunState) -> RunState:
    state = state.progressed(checks_passed=state.progress.checks_passed + 1)
    if _next_gate(state) is not None:
        return state
    stage = _stage(state)
    match _point(state):
        case When.BASE:
            return _go_on(state, stage.name)
        case When.AFTER_TESTER if stage.then == DONE:
            return _finish(state, FinalStatus.PASS)
    return _go_on(state, stage.then)


def _stage(state: RunState) -> Stage:
    return state.flow.stage(state.phase) or state.flow.first


def _settle(state: RunState) -> RunState:
    now = stage = _stage(state)
    while (before := state.flow.work_before(stage)) and not state.has_output(before.author):
        stage = before
    if stage is not now:
        return _go_on(state, stage.name)
    if stage.reviewer and state.progress.reviewing and not state.has_output(stage.author):
        return _go_on(state, stage.name, cycle=state.progress.cycle)
    progress = state.progress
    if progress.checking is not None and not progress.proving and _next_gate(state) is None:
        # It is resumed with other gates, and none of them is due here: the turn before is.
        return _go_on(state, stage.name)
    return state


def _go_on(state: RunState, phase: str, cycle: int = 1, reviewing: bool = False) -> RunState:
    state = state.progressed(cycle=cycle, reviewing=reviewing, checking=None)
    return replace(state.progressed(checks_passed=0, proving=False), phase=phase)


def _start_round(state: RunState, number: int) -> RunState:
    still_open = tuple(n for n in state.progress.open_notes if n.round == state.round)
    state = state.progressed(
        open_notes=still_open,
        approved_tree="",
        is_approved=False,
        delivered_tree="",
        is_more_asked=True,
    )
    fresh = replace(state, round=number, outputs={}, notes={})
    return _go_on(fresh, state.flow.first.name)


def _finish(state: RunState, final_status: FinalStatus) -> RunState:
    return _go_on(replace(state, final_status=final_status), DONE)


def _evidence(output: Output, outcome: Outcome, condensation: Condensation) -> Excerpt:
    if isinstance(outcome.because, Refused):
        return Excerpt(outcome.verdict)
    text = output.text
    if condensation.review_feedback:
        text = extract_test_evidence(text, condensation.max_feedback_lines)
    evidence = excerpt_of(output, text)
    # Of a tester, only what is missing has to be explained.
    if outcome.why:
        return replace(evidence, text=f"{NO_RESULT}{outcome.why}\n{evidence.text}")
    return evidence
