"""What comes next in a run, and what a reply changes.

    next_turn(state)                          whose turn it is; None when the run is over
    judge_reply(turn, text, rules)            what a reply means
    record_reply(state, turn, reply, rules)   the state after it

The rules:

1. A phase begins with its author in cycle 1. Author and reviewer take turns (table in `roles.py`).
2. An approval that counts ends the phase. Otherwise the author gets the notes and the next cycle
   begins. When the cycles are used up the run goes on all the same: the open notes are handed to
   the next phase and to the analyst of the next round.
3. The tester's PASS ends the run. Anything else starts the next round: outputs are emptied, the
   evidence becomes the feedback. After the last round the run has failed.
4. A phase that lacks what an earlier one should have left falls back to that one.
5. A round or cycle beyond its limit, from a state saved under other settings, is finished first.
"""

from dataclasses import dataclass, replace

from cli_agent_orchestrator.config import Condensation, Limits, LoopRules
from cli_agent_orchestrator.pipeline.condense import (
    excerpt_of,
    extract_review_notes,
    extract_test_evidence,
)
from cli_agent_orchestrator.pipeline.reply import Excerpt, Output, shorten, split_lines
from cli_agent_orchestrator.pipeline.review import (
    EVIDENCE,
    ReviewVerdict,
    TestAnswer,
    TestVerdict,
    judge_review,
    judge_test,
)
from cli_agent_orchestrator.pipeline.roles import STAGES, Phase, Role
from cli_agent_orchestrator.pipeline.state import (
    NO_FEEDBACK,
    FinalStatus,
    OpenNotes,
    RunState,
    Turn,
    no_outputs,
)

EMPTY_REPLY = "(The reply was empty.)"
NO_RESULT = "The tester's verdict is missing: "


@dataclass(frozen=True, slots=True)
class Delivered:
    """An author's summary is there."""

    def __str__(self) -> str:
        return "summary received"


@dataclass(frozen=True, slots=True)
class Approved:
    """A review ends its phase."""

    verdict: ReviewVerdict

    def __str__(self) -> str:
        return str(self.verdict)


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

    def __str__(self) -> str:
        return "PASS"


@dataclass(frozen=True, slots=True)
class Failed:
    """The test failed; another round follows."""

    verdict: TestVerdict
    next_round: int

    def __str__(self) -> str:
        return f"{self.verdict}; round {self.next_round} follows"


@dataclass(frozen=True, slots=True)
class RoundsUsedUp:
    """The test of the last round failed, and with it the run."""

    verdict: TestVerdict
    rounds: int

    def __str__(self) -> str:
        return f"{self.verdict}; all {self.rounds} rounds are used up"


Outcome = Delivered | Approved | SentBack | CyclesUsedUp | Passed | Failed | RoundsUsedUp


def next_turn(state: RunState) -> Turn | None:
    """Return whose turn it is, or None when the run is over."""
    state = _settle(state)
    stage = STAGES.get(state.phase)
    if stage is None:
        return None
    reviewer = stage.reviewer if state.progress.reviewing else None
    return Turn(reviewer or stage.author, state.round, state.progress.cycle)


def judge_reply(turn: Turn, text: str, rules: LoopRules) -> Outcome:
    """Return what a reply means for the run."""
    if turn.role is Role.TESTER:
        return _judge_tester(turn, text, rules.limits)
    if turn.role in EVIDENCE:
        return _judge_reviewer(turn, text, rules)
    return Delivered()


def _judge_reviewer(turn: Turn, text: str, rules: LoopRules) -> Outcome:
    verdict = judge_review(text, turn.role, turn.cycle, rules.review)
    if verdict.approved:
        return Approved(verdict)
    if turn.cycle < rules.limits.max_review_cycles:
        return SentBack(verdict, turn.cycle + 1)
    return CyclesUsedUp(verdict, turn.cycle)


def _judge_tester(turn: Turn, text: str, limits: Limits) -> Outcome:
    verdict = judge_test(text)
    if verdict.answer is TestAnswer.PASS:
        return Passed()
    if turn.round < limits.max_rounds:
        return Failed(verdict, turn.round + 1)
    return RoundsUsedUp(verdict, turn.round)


def record_reply(state: RunState, turn: Turn, reply: Output, rules: LoopRules) -> RunState:
    """Return the state after a turn; the turn must be the one that is due."""
    if turn != next_turn(state):
        raise ValueError(f"{turn} is not due")
    outcome = judge_reply(turn, reply.text, rules)
    kept = shorten(replace(reply, text="\n".join(split_lines(reply.text)) or EMPTY_REPLY))
    state = _keep(_settle(state), turn, kept)
    match outcome:
        case Delivered():
            return _go_on(state, state.phase, cycle=turn.cycle, reviewing=True)
        case Approved():
            return _leave_phase(_take_notes(state, turn, kept, rules.condensation))
        case SentBack(next_cycle=next_cycle):
            state = _take_notes(state, turn, kept, rules.condensation)
            return _go_on(state, state.phase, cycle=next_cycle)
        case CyclesUsedUp():
            state = _take_notes(state, turn, kept, rules.condensation)
            return _leave_phase(_keep_open(state, turn))
        case Passed():
            return _finish(state, FinalStatus.PASS)
        case Failed(verdict=verdict, next_round=next_round):
            evidence = _evidence(kept, verdict, rules.condensation)
            return _start_round(replace(state, feedback=evidence), next_round)
    # all rounds are used up
    evidence = _evidence(kept, outcome.verdict, rules.condensation)
    return _finish(replace(state, feedback=evidence), FinalStatus.FAIL)


def _settle(state: RunState) -> RunState:
    """Fall back to the phase or the turn whose result is missing."""
    phase = state.phase
    if phase is Phase.TESTER and not state.has_output(Role.PROGRAMMER):
        phase = Phase.PROGRAMMER
    if phase is Phase.PROGRAMMER and not state.has_output(Role.ANALYST):
        phase = Phase.ANALYST
    if phase is not state.phase:
        return _go_on(state, phase)
    stage = STAGES.get(phase)
    if stage and state.progress.reviewing and not state.has_output(stage.author):
        return _go_on(state, phase, cycle=state.progress.cycle)
    return state


def _go_on(state: RunState, phase: Phase, cycle: int = 1, reviewing: bool = False) -> RunState:
    progress = replace(state.progress, cycle=cycle, reviewing=reviewing)
    return replace(state, phase=phase, progress=progress)


def _leave_phase(state: RunState) -> RunState:
    return _go_on(state, STAGES[state.phase].then)


def _start_round(state: RunState, number: int) -> RunState:
    still_open = tuple(n for n in state.progress.open_notes if n.round == state.round)
    fresh = replace(
        state,
        round=number,
        outputs=no_outputs(),
        analyst_feedback=NO_FEEDBACK,
        programmer_feedback=NO_FEEDBACK,
        progress=replace(state.progress, open_notes=still_open),
    )
    return _go_on(fresh, Phase.ANALYST)


def _finish(state: RunState, final_status: FinalStatus) -> RunState:
    return _go_on(replace(state, final_status=final_status), Phase.DONE)


def _keep(state: RunState, turn: Turn, output: Output) -> RunState:
    """Keep a reply; its terminal has now had the context, and nothing is in flight."""
    progress = replace(
        state.progress,
        in_flight=None,
        briefed=state.progress.briefed | {state.terminal_of(turn.role)},
    )
    return replace(state, outputs={**state.outputs, turn.role: output}, progress=progress)


def _take_notes(
    state: RunState, turn: Turn, output: Output, condensation: Condensation
) -> RunState:
    notes = output.text
    if condensation.review_feedback:
        notes = extract_review_notes(notes, condensation.max_feedback_lines)
    excerpt = excerpt_of(output, notes)
    if turn.role is Role.ANALYST_REVIEW:
        return replace(state, analyst_feedback=excerpt)
    return replace(state, programmer_feedback=excerpt)


def _keep_open(state: RunState, turn: Turn) -> RunState:
    analyst = turn.role is Role.ANALYST_REVIEW
    notes = state.analyst_feedback if analyst else state.programmer_feedback
    opened = OpenNotes(turn.role, turn.round, notes)
    others = (n for n in state.progress.open_notes if (n.role, n.round) != (turn.role, turn.round))
    return replace(state, progress=replace(state.progress, open_notes=(*others, opened)))


def _evidence(output: Output, verdict: TestVerdict, condensation: Condensation) -> Excerpt:
    text = output.text
    if condensation.review_feedback:
        text = extract_test_evidence(text, condensation.max_feedback_lines)
    evidence = excerpt_of(output, text)
    if verdict.answer is TestAnswer.MISSING:
        return replace(evidence, text=f"{NO_RESULT}{verdict}\n{evidence.text}")
    return evidence
