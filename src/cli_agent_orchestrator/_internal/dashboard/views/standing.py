"""Does a run need a person? The answer decides where it stands in the list, and in which color."""

from dataclasses import dataclass
from enum import StrEnum

from cli_agent_orchestrator._internal.dashboard.views.words import as_sentence
from cli_agent_orchestrator._internal.runs.records.registry import RunSummary
from cli_agent_orchestrator._internal.runs.records.run_record import RunStatus
from cli_agent_orchestrator._internal.runs.reports.dry_run import DRY_RUN, is_dry

FORGOTTEN_SECONDS = 7 * 86400.0
"""A run that broke and that nobody resumed for so long waits for nobody any more."""


class RunGroup(StrEnum):
    """The groups of the list."""

    NEEDS = "needs"
    WORKING = "working"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class RunStanding:
    """How a run stands, for a person."""

    group: RunGroup
    words: str
    """Its status."""
    tone: str
    """What its color says: needs, now, good, bad or plain."""
    why: str = ""
    """What the person is needed for."""
    rank: int = 0
    """What is more urgent comes first."""


BROKEN = {
    RunStatus.INTERRUPTED: "Its process was killed. It is saved and can be resumed.",
    RunStatus.FAILED: "An error stopped it. It is saved and can be resumed.",
}
VERDICTS = {RunStatus.PASS: "good", RunStatus.FAIL: "bad"}


def standing_of(run: RunSummary, now: float) -> RunStanding:
    """Return how a run stands."""
    if run.is_live:
        return _live(run)
    if run.is_unfinished and run.status in BROKEN:
        since = now - (run.ended or run.started)
        if since < FORGOTTEN_SECONDS:
            return RunStanding(RunGroup.NEEDS, run.words, "bad", BROKEN[run.status], 3)
    is_played = run.status.is_verdict and is_dry(run.providers.values())
    words = f"{run.words} ({DRY_RUN})" if is_played else run.words
    return RunStanding(RunGroup.DONE, words, VERDICTS.get(run.status, "plain"))


def _live(run: RunSummary) -> RunStanding:
    circling = as_sentence(run.circling)
    if run.asking:
        return RunStanding(
            RunGroup.NEEDS, run.words, "needs", f"The {run.asking} asks you something."
        )
    if run.status is RunStatus.PAUSED:
        why = " ".join(filter(None, ("It is paused and waits for you.", circling)))
        return RunStanding(RunGroup.NEEDS, run.words, "needs", why, 2)
    if run.circling:
        return RunStanding(RunGroup.NEEDS, "not converging", "needs", circling, 1)
    return RunStanding(RunGroup.WORKING, run.words, "now")
