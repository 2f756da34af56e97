"""Who takes part in a run and in which order: roles and stages as data.

A flow is a chain of stages, from its first one to `done`:

    work    an author and, if there is one, a reviewer take turns until the review approves
    test    an agent says PASS or FAIL
    gate    a command of the user's says it by its exit code

The last stage is a test or a gate, so that whatever was done has been checked. A PASS there ends
the run; a FAIL in any of them starts the next round at the first stage (see `machine.py`).

What a role is told is a template with blocks in it. Each block says where its text comes from,
how much of it is shown, and what becomes of it when the agent has had it before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ..errors import UnknownName
from ..settings.gates import PROOF, Gate, When

DONE = "done"
"""Where a run is that has ended; no stage is named so."""
USUAL_SCENARIO = """
The project's tests pass and the change does what was asked.

1. Run the project's own tests. If one fails that this change can have broken, it is a FAIL.
2. Try for yourself, by using the program where you can, that everything the task asks for is there.
""".strip()


class BlockSource(StrEnum):
    """Where the text of a block comes from."""

    TASK = "task"
    SCENARIO = "scenario"
    OUTPUT = "output"
    """The last reply of a role in this round."""
    NOTES = "notes"
    """What a reviewer last noted in this round."""
    EVIDENCE = "evidence"
    """Why the round before failed: what the tester or the gate found."""
    OPEN_NOTES = "open_notes"
    """What reviewers still had to say in this round when the cycles were used up."""
    LAST_OPEN_NOTES = "last_open_notes"
    """The same, of the round before."""
    TEST_COMMAND = "test_command"


OF_ONE = (BlockSource.OUTPUT, BlockSource.NOTES)
"""Sources that belong to one role."""
OF_REVIEWERS = (BlockSource.NOTES, BlockSource.OPEN_NOTES, BlockSource.LAST_OPEN_NOTES)
"""Sources that belong to reviewers."""


class Amount(StrEnum):
    """How much of an output is shown."""

    WHOLE = "whole"
    HANDOFF = "handoff"
    """What a programmer needs of an analysis: artifacts, notes, risks, the explicit handoff."""
    CHANGES = "changes"
    """What a tester needs of a programmer's summary: files changed, behavior implemented."""


class Repeat(StrEnum):
    """What becomes of a block when the agent has had it before."""

    SHOW = "show"
    REFER = "refer"
    """A line in its place refers to the conversation."""
    OMIT = "omit"
    ONLY_NEW = "only_new"
    """It is shown to nobody but an agent that has taken another's place in the middle of a run."""


@dataclass(frozen=True, slots=True)
class Block:
    """One quoted part of a prompt."""

    title: str
    """Empty for open notes, whose title is made for each of them."""
    source: BlockSource
    of: tuple[str, ...] = ()
    """Whose output or notes; names of roles."""
    amount: Amount = Amount.WHOLE
    repeat: Repeat = Repeat.SHOW


@dataclass(frozen=True, slots=True)
class Role:
    """What a turn is for, and the agent that takes it."""

    name: str
    terminal: str
    profile: str
    """The persona its agent is started with."""
    response_file: str
    """The file its agent writes the reply to."""
    title: str
    """What others are told it is called."""
    template: str = field(repr=False)
    """Its prompt, in which `$context` stands for the blocks."""
    blocks: tuple[Block, ...] = field(repr=False)
    evidence: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    """Of a reviewer: groups of words, enough of which its notes must touch for an approval."""


class StageKind(StrEnum):
    """What is done in a stage."""

    WORK = "work"
    TEST = "test"
    GATE = "gate"


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a round."""

    name: str
    kind: StageKind
    then: str
    """The stage that comes next, or `done`."""
    author: str = ""
    """The role that works or tests; empty for a gate."""
    reviewer: str = ""
    """The role that reviews the work, if one does."""

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(role for role in (self.author, self.reviewer) if role)


@dataclass(frozen=True, slots=True)
class FlowSource:
    """What a flow is read from."""

    text: str = field(repr=False)
    templates: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Flow:
    """Roles and stages of a run."""

    name: str
    description: str
    roles: tuple[Role, ...]
    stages: tuple[Stage, ...]
    """In the order of the chain; there is at least one."""
    source: FlowSource
    scenario: str = USUAL_SCENARIO
    """How a task that names no scenario is tested."""

    @property
    def first(self) -> Stage:
        return self.stages[0]

    @property
    def has_gate(self) -> bool:
        """Does it need a command that checks the work?"""
        return any(stage.kind is StageKind.GATE for stage in self.stages)

    @property
    def least_evidence(self) -> int | None:
        """The smallest number of evidence groups a reviewer has; None if nobody has any."""
        return min((len(role.evidence) for role in self.roles if role.evidence), default=None)

    @property
    def last_work(self) -> Stage | None:
        """The stage whose author makes what is tested."""
        works = [stage for stage in self.stages if stage.kind is StageKind.WORK]
        return works[-1] if works else None

    def is_checked(self, stage: Stage) -> bool:
        """Do gates come between a stage and what follows it? Its author made what is tested."""
        then = self.stage(stage.then)
        return stage == self.last_work and then is not None and then.kind is not StageKind.GATE

    def is_author(self, role: str) -> bool:
        """Does a role do work, and not only look at it?"""
        return any(s.kind is StageKind.WORK and s.author == role for s in self.stages)

    def role(self, name: str) -> Role:
        for role in self.roles:
            if role.name == name:
                return role
        raise UnknownName("role", name, (role.name for role in self.roles))

    def stage(self, name: str) -> Stage | None:
        return next((stage for stage in self.stages if stage.name == name), None)

    def stage_of(self, role: str) -> Stage:
        """Return the stage in which a role has its turns."""
        return next(stage for stage in self.stages if role in stage.roles)

    def work_before(self, stage: Stage) -> Stage | None:
        """Return the last stage before another one in which something is worked out."""
        before = self.stages[: self.stages.index(stage)]
        works = [one for one in before if one.kind is StageKind.WORK]
        return works[-1] if works else None


@dataclass(frozen=True, slots=True)
class PlannedCheck:
    """A gate at a point of the run, or the proof."""

    name: str
    when: When


Planned = Stage | PlannedCheck


def course_of(flow: Flow, gates: Sequence[Gate], *, proves: bool) -> tuple[Planned, ...]:
    """Return what is done in a round, in order; before it, the gates that are run on the base.

    `proves` says whether a PASS with gates is to be proven.
    """
    course: list[Planned] = [*_gates_at(gates, When.BASE)]
    last = _gates_at(gates, When.AFTER_TESTER)
    for stage in flow.stages:
        if stage.kind is StageKind.GATE:
            # The gates take the place of their stage.
            course += last or (stage,)
            continue
        course.append(stage)
        if flow.is_checked(stage):
            course += _gates_at(gates, When.AFTER_PROGRAMMER)
        if stage.then == DONE:
            course += last
    if proves and last:
        course.append(PlannedCheck(PROOF, When.AFTER_TESTER))
    return tuple(course)


def _gates_at(gates: Sequence[Gate], when: When) -> tuple[PlannedCheck, ...]:
    return tuple(PlannedCheck(gate.name, when) for gate in gates if when in gate.when)
