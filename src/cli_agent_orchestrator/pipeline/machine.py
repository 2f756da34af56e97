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

from dataclasses import dataclass, replace

from ..core.text import first_names
from ..gates.check import CheckResult, base_of, evidence_of
from ..proof.verdict import Proof, ProofWords
from ..settings.config import Condensation, LoopRules
from ..settings.gates import PROOF, Gate, When
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
    ReviewAnswer,
    ReviewVerdict,
    TestAnswer,
    TestVerdict,
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
"""Files that a verdict names."""
SHOWN = 10
"""Characters of a tree's name that a verdict shows."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A PASS came that does not count."""

    why: str

    def __str__(self) -> str:
        return f"FAIL: {self.why}"


def not_reviewed(files: tuple[str, ...] = (), approved: str = "", tree: str = "") -> Refused:
    """Return that files changed after the tree that was approved, or may have if none is named."""
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
    """Return that the work was not approved when the cycles were used up."""
    this = f"; this one is {tree[:SHOWN]}" if tree else ""
    return Refused(
        "the review cycles were used up and the work was not approved, which "
        f"REVIEW_BOUND=require asks for: no tree was approved{this}"
    )


Against = TestVerdict | CheckResult | Refused
"""Why a round failed."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """An author wrote its summary."""

    def __str__(self) -> str:
        return "summary received"


@dataclass(frozen=True, slots=True)
class Approved:
    """A review ends its phase."""

    verdict: ReviewVerdict

    def __str__(self) -> str:
        return str(self.verdict)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A person did not want to wait for a review; it ends its phase."""

    def __str__(self) -> str:
        return "skipped by a person; it counts as approved"


@dataclass(frozen=True, slots=True)
class SentBack:
    """A review leads to another cycle."""

    verdict: ReviewVerdict
    next_cycle: int

    def __str__(self) -> str:
        return f"{self.verdict}; cycle {self.next_cycle} follows"


@dataclass(frozen=True, slots=True)
class CyclesUsedUp:
    """The last review did not approve; the run goes on with open notes."""

    verdict: ReviewVerdict
    cycles: int

    def __str__(self) -> str:
        return (
            f"{self.verdict}; all {self.cycles} review cycles are used up, "
            "the run goes on with the notes still open"
        )


@dataclass(frozen=True, slots=True)
class Passed:
    """The run has reached its goal."""

    proof: ProofWords | None = None
    """What was proven; None if that was not asked for."""

    def __str__(self) -> str:
        return "PASS" if self.proof is None else f"PASS, {self.proof}"


@dataclass(frozen=True, slots=True)
class BaseKnown:
    """It is known what a gate says of the base."""

    result: CheckResult

    def __str__(self) -> str:
        return f"before the run: {self.result}"


@dataclass(frozen=True, slots=True)
class Cleared:
    """A test or a gate has passed that is not the last one."""

    then: str
    """What follows: a stage, a gate, the proof."""

    def __str__(self) -> str:
        return f"PASS; {self.then} follows"


@dataclass(frozen=True, slots=True)
class Failed:
    """A test or a gate failed; another round follows."""

    verdict: Against
    next_round: int

    def __str__(self) -> str:
        return f"{self.verdict}; round {self.next_round} follows"


@dataclass(frozen=True, slots=True)
class RoundsUsedUp:
    """A test or a gate of the last round failed, and with it the run."""

    verdict: Against
    rounds: int

    def __str__(self) -> str:
        all_of_them = f"all {self.rounds} rounds are" if self.rounds > 1 else "the only round is"
        return f"{self.verdict}; {all_of_them} used up"


Outcome = (
    Delivered
    | Approved
    | Skipped
    | SentBack
    | CyclesUsedUp
    | Passed
    | BaseKnown
    | Cleared
    | Failed
    | RoundsUsedUp
)
BASE_PASSED, BASE_FAILED = "base_passed", "base_failed"
"""Those for what a gate says of the base."""


def verdict_of(outcome: Outcome) -> str:
    """Describe an outcome without what follows from it."""
    match outcome:
        case SentBack() | CyclesUsedUp() | Failed() | RoundsUsedUp():
            return str(outcome.verdict)
        case Cleared():
            return "PASS"
    return str(outcome)


def why_of(outcome: Outcome) -> str:
    """Return what stands behind a verdict, without its own word; empty if it says no more."""
    match outcome:
        case SentBack() | CyclesUsedUp() | Failed() | RoundsUsedUp():
            return outcome.verdict.why
        case Passed(proof) if proof is not None:
            return str(proof)
    return ""


def stall_of(state: RunState) -> str:
    """Say in a sentence why the run does not converge; empty if it may."""
    progress, stage = state.progress, state.flow.last_work
    author = stage.author if stage else ""
    everything = Findings(tuple(t for ledger in progress.findings.values() for t in ledger.tracked))
    return find_stall(everything, author, progress.unchanged_turns, progress.repeated_gate)


def stall_marks(state: RunState) -> frozenset[str]:
    """Return a word for each thing that keeps the run from converging.

    Unlike the sentence, they are the same when that has merely gone on: where nothing was changed,
    a gate that fails once more on the same files is no news.
    """
    progress = state.progress
    unfixed = (one for ledger in progress.findings.values() for one in stalled(ledger))
    marks = {f"finding {one.finding.id}" for one in unfixed}
    if progress.unchanged_turns > 0:
        marks.add("unchanged")
    elif progress.repeated_gate:
        marks.add(f"gate {progress.repeated_gate}")
    return frozenset(marks)


def see_work(state: RunState, turn: Turn, outcome: Outcome, work: Work) -> RunState:
    """Remember what the turn did to the files, as far as anything is decided by it."""
    stage = state.flow.last_work
    if stage is None or turn.role not in stage.roles or not work.tree:
        return state
    progress = state.progress
    if turn.role == stage.author:
        # Who has been asked for nothing may well change nothing.
        idle = not work.changed and progress.is_more_asked
        progress = replace(progress, unchanged_turns=progress.unchanged_turns + 1 if idle else 0)
    elif isinstance(outcome, Approved):
        progress = replace(progress, unchanged_turns=0)
    elif isinstance(outcome, SentBack):
        asked = outcome.verdict.answer is not ReviewAnswer.APPROVED
        progress = replace(progress, is_more_asked=asked)
    return replace(state, progress=progress)


EMPTY_REPLY = "(The reply was empty.)"
MOST_LINES_READ = 50
"""Further down nobody looks for the point of a reply."""
NO_RESULT = "The tester's verdict is missing: "
NOT_PROVEN = (
    "Write a test that fails without the change and passes with it, and leave the tests that were "
    "there before as they were."
)
"""What the next round is told to do about it."""


@dataclass(frozen=True, slots=True)
class Check:
    """A gate is to be run, or the proof."""

    gate: str
    """Its name, or `proof`."""
    round: int
    when: When = When.AFTER_TESTER


@dataclass(frozen=True, slots=True)
class Pause:
    """A person wants the run to wait."""


@dataclass(frozen=True, slots=True)
class Done:
    """The run is over."""

    final_status: FinalStatus


Step = Turn | Check | Pause | Done


def begin(state: RunState) -> RunState:
    """Return a new run with its gates due on the base, if it has any."""
    return _check_at(state, When.BASE) if _gates_at(state, When.BASE) else state


def next_step(state: RunState) -> Step:
    """Return what is to be done next."""
    if state.final_status is not FinalStatus.RUNNING:
        return Done(state.final_status)
    due = _due(state)
    in_flight = state.progress.in_flight
    begun = in_flight is not None and in_flight.turn == due
    return Pause() if state.progress.paused and not begun else due


def due_step(state: RunState) -> Turn | Check | None:
    """Return what is due whether or not the run is paused, None when it is over."""
    return _due(state) if state.final_status is FinalStatus.RUNNING else None


def pause(state: RunState) -> RunState:
    """Return the state in which the run waits before its next step; two pauses are one."""
    return replace(state, progress=replace(state.progress, paused=True))


def unpause(state: RunState) -> RunState:
    """Return the state in which the run goes on."""
    return replace(state, progress=replace(state.progress, paused=False))


def with_more_rounds(state: RunState, max_rounds: int) -> RunState:
    """Return the state in which a run that has used up its rounds begins the next one.

    Any other state, and one that has had as many already, stays as it is.
    """
    if state.final_status is not FinalStatus.FAIL or state.round >= max_rounds:
        return state
    return _start_round(replace(state, final_status=FinalStatus.RUNNING), state.round + 1)


def due_review(state: RunState) -> Turn | None:
    """Return the review that is under way or due, None if something else is."""
    due = due_step(state)
    if isinstance(due, Turn) and due.role == state.flow.stage_of(due.role).reviewer:
        return due
    return None


def skip_review(state: RunState, review: Turn) -> RunState:
    """Return the state after a review that a person skipped; the review must be due."""
    if due_review(state) != review:
        raise ValueError(f"{review} is not due")
    state = take_hints_back(_settle(state), review)
    state = replace(state, progress=replace(state.progress, in_flight=None))
    state = _see_approval(state, review, Skipped(), state.progress.delivered_tree)
    return _follow(state, Skipped())


def record_reply(
    state: RunState, turn: Turn, reply: Output, rules: LoopRules, work: Work = UNSEEN
) -> tuple[RunState, Outcome]:
    """Return the state after a turn, and what the reply meant; the turn must be due."""
    if due_step(state) != turn:
        raise ValueError(f"{turn} is not due")
    is_review = turn.role == state.flow.stage_of(turn.role).reviewer
    # Only a reviewer that numbers its findings is followed by them.
    if is_review and (form := read_findings(reply.text)):
        known = state.progress.findings
        ledger = follow(known.get(turn.role, Findings()), form, turn.round, turn.cycle)
        progress = replace(state.progress, findings={**known, turn.role: ledger})
        state = replace(state, progress=progress)
    outcome = judge_reply(state, turn, reply.text, rules)
    if isinstance(outcome, Passed):
        outcome = _bound_to_review(state, work, turn.round, rules) or outcome
    state = _see_approval(state, turn, outcome, work.tree)
    state = see_work(state, turn, outcome, work)
    kept = shorten(replace(reply, text="\n".join(split_lines(reply.text)) or EMPTY_REPLY))
    state = _settle(state)
    # The terminal has had the context now, and nothing is in flight.
    briefed = state.progress.briefed | {state.terminal_of(turn.role)}
    progress = replace(state.progress, in_flight=None, briefed=briefed)
    state = replace(state, outputs={**state.outputs, turn.role: kept}, progress=progress)
    if isinstance(outcome, Approved | SentBack | CyclesUsedUp):
        notes = kept.text
        if rules.condensation.review_feedback:
            notes = extract_review_notes(notes, rules.condensation.max_feedback_lines)
        state = replace(state, notes={**state.notes, turn.role: excerpt_of(kept, notes)})
    if isinstance(outcome, CyclesUsedUp):
        opened = OpenNotes(turn.role, turn.round, state.notes_of(turn.role))
        before = state.progress.open_notes
        others = (n for n in before if (n.role, n.round) != (turn.role, turn.round))
        state = replace(state, progress=replace(progress, open_notes=(*others, opened)))
    if isinstance(outcome, Failed | RoundsUsedUp):
        state = replace(state, feedback=_evidence(kept, outcome, rules.condensation))
    return _follow(state, outcome), outcome


def record_check(
    state: RunState, check: Check, result: CheckResult, rules: LoopRules, work: Work = UNSEEN
) -> tuple[RunState, Outcome]:
    """Return the state after a gate, and what its result meant; the check must be due."""
    if due_step(state) != check:
        raise ValueError(f"{check} is not due")
    state = _settle(state)
    if check.when is When.BASE:
        base = {**state.progress.base, check.gate: base_of(result)}
        state = replace(state, progress=replace(state.progress, base=base))
        return _after_check(state), BaseKnown(result)
    if result.passed:
        return _gate_passed(state, check, result, rules, work)
    outcome = _failed(result, check.round, rules)
    state = replace(
        state, feedback=Excerpt(*evidence_of(result, rules.condensation), result.archive)
    )
    state = _follow(state, outcome)
    if work.tree:
        progress = state.progress
        repeated = check.gate if progress.failed_on.get(check.gate) == work.tree else ""
        failed_on = {**progress.failed_on, check.gate: work.tree}
        progress = replace(progress, failed_on=failed_on, repeated_gate=repeated)
        state = replace(state, progress=progress)
    return state, outcome


def record_proof(
    state: RunState, check: Check, proof: Proof, rules: LoopRules, work: Work = UNSEEN
) -> tuple[RunState, Outcome]:
    """Return the state after the proof, and what it meant; the proof must be due."""
    if due_step(state) != check or check.gate != PROOF:
        raise ValueError(f"{check} is not due")
    if against := _bound_to_review(state, work, check.round, rules):
        return _refuse(state, against), against
    state = replace(state, progress=replace(state.progress, proof=proof.words))
    outcome: Outcome = Passed(proof.words)
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
        passed = {**state.progress.passed, check.gate: base_of(result)}
        state = replace(state, progress=replace(state.progress, passed=passed))
    if following < len(gates):
        return _after_check(state), Cleared(f"the gate {gates[following].name}")
    if check.when is When.AFTER_PROGRAMMER or stage.then != DONE:
        return _after_check(state), Cleared(stage.then)
    # The tester and all gates have passed.
    if against := _bound_to_review(state, work, check.round, rules):
        return _refuse(state, against), against
    if rules.proof == "off":
        return _after_check(state), Passed()
    return replace(state, progress=replace(state.progress, proving=True)), Cleared("the proof")


def _refuse(state: RunState, against: Failed | RoundsUsedUp) -> RunState:
    """Return the state after a PASS that does not count, with the reason as the evidence."""
    return _follow(replace(state, feedback=Excerpt(str(against.verdict))), against)


def judge_reply(state: RunState, turn: Turn, text: str, rules: LoopRules) -> Outcome:
    """Return what a reply means for the run."""
    stage = state.flow.stage_of(turn.role)
    if turn.role == stage.reviewer:
        verdict = judge_review(text, state.flow.role(turn.role), turn.cycle, rules.review)
        ledger = state.progress.findings.get(turn.role, Findings())
        # Only a reviewer that follows the form is judged by it.
        if verdict.approved and read_findings(text) and (against := objection(ledger)):
            verdict = replace(verdict, obstacles=(against,))
        if verdict.approved:
            return Approved(verdict)
        if turn.cycle < rules.limits.max_review_cycles:
            return SentBack(verdict, turn.cycle + 1)
        return CyclesUsedUp(verdict, turn.cycle)
    if stage.kind is StageKind.WORK:
        return Delivered()
    tested = judge_test(text)
    if tested.answer is not TestAnswer.PASS:
        return _failed(tested, turn.round, rules)
    if stage.then != DONE:
        return Cleared(stage.then)
    gates = _gates_at(state, When.AFTER_TESTER)
    return Cleared(f"the gate {gates[0].name}") if gates else Passed()


def reason_against(outcome: Outcome, text: str) -> str:
    """Return the first point of a reply that led to more work, in its own words.

    Where an approval did not count, the verdict itself says why.
    """
    match outcome:
        case SentBack(verdict) | CyclesUsedUp(verdict) if not verdict.obstacles:
            return first_point(extract_review_notes(text, MOST_LINES_READ))
        case Failed(TestVerdict()) | RoundsUsedUp(TestVerdict()):
            return first_point(extract_test_evidence(text, MOST_LINES_READ))
    return ""


def _bound_to_review(
    state: RunState, work: Work, number: int, rules: LoopRules
) -> Failed | RoundsUsedUp | None:
    """Return what becomes of a PASS for files that nobody approved as they are now."""
    stage = state.flow.last_work
    if not rules.is_review_bound or stage is None or not stage.reviewer:
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
    """Remember whether the work is approved, and as which tree."""
    stage = state.flow.last_work
    if stage is None or turn.role not in stage.roles:
        return state
    is_approved = isinstance(outcome, Approved | Skipped)
    approved_tree = tree if is_approved else ""
    progress = replace(state.progress, is_approved=is_approved, approved_tree=approved_tree)
    if turn.role == stage.author:
        progress = replace(progress, delivered_tree=tree)
    return replace(state, progress=progress)


def _failed(verdict: Against, number: int, rules: LoopRules) -> Failed | RoundsUsedUp:
    if number < rules.limits.max_rounds:
        return Failed(verdict, number + 1)
    return RoundsUsedUp(verdict, number)


def _follow(state: RunState, outcome: Outcome) -> RunState:
    stage = _stage(state)
    match outcome:
        case Delivered() if stage.reviewer:
            return _go_on(state, stage.name, cycle=state.progress.cycle, reviewing=True)
        case SentBack(next_cycle=next_cycle):
            return _go_on(state, stage.name, cycle=next_cycle)
        case Passed():
            return _finish(state, FinalStatus.PASS)
        case Failed(next_round=next_round):
            return _start_round(state, next_round)
        case RoundsUsedUp():
            return _finish(state, FinalStatus.FAIL)
        case Cleared() if stage.then == DONE:
            return _check_at(state, When.AFTER_TESTER)
        case Delivered() | Approved() | Skipped() | CyclesUsedUp():
            if state.flow.is_checked(stage) and _gates_at(state, When.AFTER_PROGRAMMER):
                return _check_at(state, When.AFTER_PROGRAMMER)
    # a summary that nobody reviews, the end of a review, a test that is not the last one
    return _go_on(state, stage.then)


def _gates_at(state: RunState, when: When) -> tuple[Gate, ...]:
    return tuple(gate for gate in state.gates if when in gate.when)


def _check_at(state: RunState, when: When) -> RunState:
    return replace(state, progress=replace(state.progress, checking=when, checks_passed=0))


def _point(state: RunState) -> When | None:
    """Return the point whose gates are due; None if none are."""
    at_gate = _stage(state).kind is StageKind.GATE
    return state.progress.checking or (When.AFTER_TESTER if at_gate else None)


def _next_gate(state: RunState) -> Gate | None:
    point = _point(state)
    gates = () if point is None else _gates_at(state, point)
    passed = state.progress.checks_passed
    return gates[passed] if passed < len(gates) else None


def _after_check(state: RunState) -> RunState:
    passed = state.progress.checks_passed + 1
    state = replace(state, progress=replace(state.progress, checks_passed=passed))
    if _next_gate(state) is not None:
        return state
    stage = _stage(state)
    match _point(state):
        case When.BASE:
            return _go_on(state, stage.name)
        case When.AFTER_TESTER if stage.then == DONE:
            return _finish(state, FinalStatus.PASS)
    return _go_on(state, stage.then)


def _due(state: RunState) -> Turn | Check:
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


def _stage(state: RunState) -> Stage:
    return state.flow.stage(state.phase) or state.flow.first


def _settle(state: RunState) -> RunState:
    """Fall back to the stage or the turn whose result is missing."""
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
    progress = replace(state.progress, cycle=cycle, reviewing=reviewing, proving=False)
    return replace(state, phase=phase, progress=replace(progress, checking=None, checks_passed=0))


def _start_round(state: RunState, number: int) -> RunState:
    still_open = tuple(n for n in state.progress.open_notes if n.round == state.round)
    progress = replace(
        state.progress,
        open_notes=still_open,
        approved_tree="",
        is_approved=False,
        delivered_tree="",
        is_more_asked=True,
    )
    fresh = replace(state, round=number, outputs={}, notes={}, progress=progress)
    return _go_on(fresh, state.flow.first.name)


def _finish(state: RunState, final_status: FinalStatus) -> RunState:
    return _go_on(replace(state, final_status=final_status), DONE)


def _evidence(
    output: Output, outcome: Failed | RoundsUsedUp, condensation: Condensation
) -> Excerpt:
    text = output.text
    if condensation.review_feedback:
        text = extract_test_evidence(text, condensation.max_feedback_lines)
    evidence = excerpt_of(output, text)
    verdict = outcome.verdict
    if isinstance(verdict, Refused):
        return Excerpt(str(verdict))
    if isinstance(verdict, TestVerdict) and verdict.answer is TestAnswer.MISSING:
        return replace(evidence, text=f"{NO_RESULT}{verdict}\n{evidence.text}")
    return evidence
