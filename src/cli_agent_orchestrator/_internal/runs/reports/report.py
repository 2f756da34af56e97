"""What there is to say about a run, as data; `reporting.py` gathers it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cli_agent_orchestrator._internal.pipeline.state import FinalStatus, PersonalAct
from cli_agent_orchestrator._internal.runs.records.journal import TurnRecord
from cli_agent_orchestrator._internal.runs.records.run_record import RunStatus
from cli_agent_orchestrator._internal.runs.reports.deeds import Deeds
from cli_agent_orchestrator._internal.workspace.changes import Change

EXCERPT_LINES = 30
"""Of what somebody said, so that a report stays one page."""


@dataclass(frozen=True, slots=True)
class Report:
    """What there is to say about a run."""

    status: FinalStatus
    wd: str
    state_file: str
    archive: str
    """Empty for a run of the earlier script, which kept none."""
    task: str
    """The beginning of what was to be done."""
    session_name: str
    agents: dict[str, str]
    """Which agent each role has."""
    terminals: dict[str, str]
    round: int
    due: str
    """Whose turn it is; empty when the run is over, or had not begun."""
    turns: Sequence[TurnRecord]
    evidence: str
    """What the last tester found, or a gate after it."""
    notes: dict[str, str]
    """What the reviewers last had to say, by role."""
    open_notes: dict[str, str]
    """What was still open when the review cycles were used up."""
    acts: Sequence[PersonalAct]
    """What people did to it: hints, skips, changed settings, pauses."""
    gate: str = ""
    """The gate whose words the evidence is; empty if the tester's."""
    setbacks: dict[str, str] = field(default_factory=dict)
    """By turn: the first thing that a review or test which led to more work had to say."""
    standing: RunStatus | None = None
    """How it stands without a verdict, if its own folder tells it."""
    discarded: bool = False
    """Was its work tree removed, and its work with it?"""
    reason: str = ""
    """Why it stopped without a verdict, if that is known."""
    deeds: Deeds = field(default_factory=Deeds)
    """Who changed what, and what was proven."""
    project: str = ""
    """The user's own folder, if `wd` is a work tree."""
    branch: str = ""
    """The branch of that work tree, and what became of it."""
    delivery: str = ""
    """How its work comes to the user, if it waits on that branch."""
    to_resume: str = "`cao run` in the folder"
    diff: str = ""
    """What the run changed, line by line, cut to a page; empty if no snapshot tells it."""
    files: Sequence[Change] = ()
    """The same by file."""
