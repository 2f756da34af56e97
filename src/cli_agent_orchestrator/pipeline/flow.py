"""Who takes part in a run and in which order: roles and stages as data.

A flow is a chain of stages, from its first one to `done`:

    work    an author and, if there is one, a reviewer take turns until the review approves
    test    an agent says PASS or FAIL
    gate    a command of the user's says it by its exit code

The last stage is a test or a gate, so that whatever was done has been checked. A PASS there ends
the run; a FAIL in any of them starts the next round at the first stage (see `machine.py`).

The prompt of a role is a template with blocks in it. Each block says where its text comes from,
how much of it is shown, and what becomes of it when the agent has had it before.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct, field

from ..core.codec import Private
from ..errors import UnknownName
from ..events import PROOF
from ..settings.gates import Gate, When

DONE = "done"
USUAL_SCENARIO = """
The project's tests pass and the change does what was asked.

1. Run the project's own tests. If one fails that this change can have broken, it is a FAIL.
2. Try for yourself, by using the program where you can, that everything the task asks for is there.
""".strip()


class BlockSource(StrEnum):
    TASK = "task"
    SCENARIO = "scenario"
    OUTPUT = "output"
    NOTES = "notes"
    EVIDENCE = "evidence"
    """Why the round before failed: what the tester or the gate found."""
    OPEN_NOTES = "open_notes"
    """What reviewers still had to say in this round when the cycles were used up."""
    LAST_OPEN_NOTES = "last_open_notes"
    TEST_COMMAND = "test_command"


OF_ONE = (BlockSource.OUTPUT, BlockSource.NOTES)
OF_REVIEWERS = (BlockSource.NOTES, BlockSource.OPEN_NOTES, BlockSource.LAST_OPEN_NOTES)


class Amount(StrEnum):
    WHOLE = "whole"
    HANDOFF = "handoff"
    """What a programmer needs of an analysis: artifacts, notes, risks, the explicit handoff."""
    CHANGES = "changes"
    """What a tester needs of a programmer's summary: files changed, behavior implemented."""


class Repeat(StrEnum):
    SHOW = "show"
    REFER = "refer"
    OMIT = "omit"
    ONLY_NEW = "only_new"
    """Only an agent is shown it that has taken another's place in the middle of a run."""


class Block(Struct, frozen=True):
    title: str
    """Empty for open notes, whose title is made for each of them."""
    source: BlockSource
    of: tuple[str, ...] = ()
    amount: Amount = Amount.WHOLE
    repeat: Repeat = Repeat.SHOW


class Role(Private, frozen=True):
    name: str
    terminal: str
    profile: str
    response_file: str
    title: str
    template: str
    blocks: tuple[Block, ...]
    evidence: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of a reviewer: groups of words, enough of which its notes must touch for an approval."""


class StageKind(StrEnum):
    WORK = "work"
    TEST = "test"
    GATE = "gate"


class Stage(Struct, frozen=True):
    name: str
    kind: StageKind
    then: str
    author: str = ""
    """The role that works or tests; empty for a gate."""
    reviewer: str = ""

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(role for role in (self.author, self.reviewer) if role)


class FlowSource(Private, frozen=True):
    text: str
    templates: Mapping[str, str] = field(default_factory=dict)


class Flow(Struct, frozen=True):
    name: str
    description: str
    roles: tuple[Role, ...]
    stages: tuple[Stage, ...]
    """In the order of the chain; there is at least one."""
    source: FlowSource
    scenario: str = USUAL_SCENARIO

    @property
    def first(self) -> Stage:
        return self.stages[0]

    @property
    def last_work(self) -> Stage | None:
        works = [stage for stage in self.stages if stage.kind is StageKind.WORK]
        return works[-1] if works else None

    def is_checked(self, stage: Stage) -> bool:
        then = self.stage(stage.then)
        return stage == self.last_work and then is not None and then.kind is not StageKind.GATE

    def is_author(self, role: str) -> bool:
        return any(s.kind is StageKind.WORK and s.author == role for s in self.stages)

    def role(self, name: str) -> Role:
        for role in self.roles:
            if role.name == name:
                return role
        raise UnknownName("role", name, (role.name for role in self.roles))

    def stage(self, name: str) -> Stage | None:
        return next((stage for stage in self.stages if stage.name == name), None)

    def stage_of(self, role: str) -> Stage:
        return next(stage for stage in self.stages if role in stage.roles)

    def work_before(self, stage: Stage) -> Stage | None:
        before = self.stages[: self.stages.index(stage)]
        works = [one for one in before if one.kind is StageKind.WORK]
        return works[-1] if works else None


class PlannedCheck(Struct, frozen=True):
    name: str
    when: When


Planned = Stage | PlannedCheck


def course_of(flow: Flow, gates: Sequence[Gate], *, proves: bool) -> tuple[Planned, ...]:
    def gates_at(when: When) -> tuple[PlannedCheck, ...]:
        return tuple(PlannedCheck(gate.name, when) for gate in gates if when in gate.when)

    course: list[Planned] = [*gates_at(When.BASE)]
    last = gates_at(When.AFTER_TESTER)
    for stage in flow.stages:
        if stage.kind is StageKind.GATE:
            # The gates take the place of their stage.
            course += last or (stage,)
            continue
        course.append(stage)
        if flow.is_checked(stage):
            course += gates_at(When.AFTER_PROGRAMMER)
        if stage.then == DONE:
            course += last
    if proves and last:
        course.append(PlannedCheck(PROOF, When.AFTER_TESTER))
    return tuple(course)
