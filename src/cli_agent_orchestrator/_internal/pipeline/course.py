"""What a run has before it: the stages of its flow, with gates and proof at their places."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cli_agent_orchestrator._internal.gates import PROOF, Gate, When
from cli_agent_orchestrator._internal.pipeline.flow import DONE, Flow, Stage, StageKind


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
    stages = (step for stage in flow.stages for step in _with_gates(flow, stage, gates))
    is_proven = proves and bool(_gates_at(gates, When.AFTER_TESTER))
    proof = (PlannedCheck(PROOF, When.AFTER_TESTER),) if is_proven else ()
    return (*_gates_at(gates, When.BASE), *stages, *proof)


def _with_gates(flow: Flow, stage: Stage, gates: Sequence[Gate]) -> Iterator[Planned]:
    """Yield a stage and the gates after it; those of a gate's own stage take its place."""
    last = _gates_at(gates, When.AFTER_TESTER)
    if stage.kind is StageKind.GATE:
        yield from last or (stage,)
        return
    yield stage
    if flow.is_checked(stage):
        yield from _gates_at(gates, When.AFTER_PROGRAMMER)
    if stage.then == DONE:
        yield from last


def _gates_at(gates: Sequence[Gate], when: When) -> tuple[PlannedCheck, ...]:
    return tuple(PlannedCheck(gate.name, when) for gate in gates if when in gate.when)
