"""Does a run converge? What is remembered of its turns and gates to tell, and what is said.

Nothing that comes next is decided here: a run that stalls may be stopped by its settings (STALL).
"""

from dataclasses import replace

from cli_agent_orchestrator._internal.pipeline.findings import Findings, find_stall, stalled
from cli_agent_orchestrator._internal.pipeline.outcomes import Approved, Outcome, SentBack
from cli_agent_orchestrator._internal.pipeline.review import ReviewAnswer
from cli_agent_orchestrator._internal.pipeline.state import RunState, Turn
from cli_agent_orchestrator._internal.pipeline.work import Work


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


def see_failure(state: RunState, gate: str, tree: str) -> RunState:
    """Remember on which files a gate has failed, and whether it had before."""
    if not tree:
        return state
    progress = state.progress
    repeated = gate if progress.failed_on.get(gate) == tree else ""
    failed_on = {**progress.failed_on, gate: tree}
    return replace(state, progress=replace(progress, failed_on=failed_on, repeated_gate=repeated))
