"""The events of a run made from what it decides by."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..core.text import MOST_NAMED
from ..errors import OrchestratorError, kind_of
from ..events import (
    CheckBegan,
    CheckEnded,
    CheckOutput,
    FilesChanged,
    RunBegan,
    RunEnded,
    TurnBegan,
    TurnEnded,
)
from ..pipeline.flow import Stage
from ..pipeline.machine import (
    BASE_FAILED,
    BASE_PASSED,
    Approved,
    BaseKnown,
    Check,
    Cleared,
    CyclesUsedUp,
    Delivered,
    Failed,
    Outcome,
    Passed,
    RoundsUsedUp,
    SentBack,
    Skipped,
    verdict_of,
    why_of,
)
from ..pipeline.state import Dispatch, FinalStatus, RunState
from ..proof.verdict import ProofWords
from ..work.folder import Seen

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


def run_began(
    at: float, state: RunState, archive: str, max_rounds: int, permissions: str
) -> RunBegan:
    """Return the event of a new run whose agents are there."""
    return RunBegan(
        at=at,
        session_name=state.session_name,
        terminals=state.terminals,
        providers={role: state.provider_of(role) for role in state.terminals},
        archive=archive,
        permissions=permissions,
        max_rounds=max_rounds,
        reviewers=tuple(stage.reviewer for stage in state.flow.stages if stage.reviewer),
    )


def run_ended(at: float, state: RunState | None, exit_code: int, reason: str) -> RunEnded:
    """Return the event of a run that is over; without a state it had not begun."""
    if state is None:
        return RunEnded(at, FinalStatus.RUNNING, 0, exit_code, reason)
    ended = RunEnded(at, state.final_status, state.round, exit_code, reason)
    proof = state.progress.proof if state.final_status is FinalStatus.PASS else None
    return ended if proof is None else with_proof(ended, proof)


def turn_began(at: float, dispatch: Dispatch, terminal_id: str, provider: str) -> TurnBegan:
    """Return the event of a turn whose prompt is about to be sent."""
    turn = dispatch.turn
    return TurnBegan(
        at=at,
        role=turn.role,
        round=turn.round,
        cycle=turn.cycle,
        sequence=dispatch.sequence,
        terminal_id=terminal_id,
        provider=provider,
        reviewed=turn.reviewed,
    )


def turn_ended(
    at: float, dispatch: Dispatch, outcome: Outcome, seconds: float, archive: str
) -> TurnEnded:
    """Return the event of a turn whose reply has been judged."""
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
    """Return the event of a turn or a gate that has changed files."""
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


def check_began(
    at: float, check: Check, sequence: int, command: str, stage: Stage | None
) -> CheckBegan:
    """Return the event of a gate whose command is about to look at the work of a stage."""
    author = stage.author if stage else ""
    return CheckBegan(at, check.gate, check.round, sequence, command, check.when, author)


def check_output(began: CheckBegan, at: float, line: str) -> CheckOutput:
    """Return the event of a gate whose command has written something."""
    return CheckOutput(at, began.gate, began.round, began.sequence, line)


def check_ended(began: CheckBegan, at: float, outcome: Outcome, archive: str) -> CheckEnded:
    """Return the event of a gate whose command has ended."""
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


def with_proof(ended: RunEnded, proof: ProofWords) -> RunEnded:
    """Return the end of a run that has passed with what was proven."""
    return replace(
        ended,
        proof=str(proof),
        proven=proof.is_proven,
        gaps="" if proof.is_proven else proof.said,
        look_at=proof.look_at,
        before=proof.before,
    )


def with_error(ended: RunEnded, error: OrchestratorError | None) -> RunEnded:
    """Return the end of a run with what the error says that ended it, if one did."""
    if error is None:
        return ended
    return replace(ended, to_resume=error.to_resume, error=kind_of(error))


def _word(outcome: Outcome) -> str:
    """Return the word for an outcome."""
    if isinstance(outcome, BaseKnown):
        return BASE_PASSED if outcome.result.passed else BASE_FAILED
    return OUTCOME_WORDS[type(outcome)]
