"""What a run has before it: stages, gates and the proof."""

import pytest

from cli_agent_orchestrator.pipeline.flow import PlannedCheck, course_of
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow
from cli_agent_orchestrator.settings.gates import Gate, When

EVERYWHERE = Gate("tests", "make test")
IN_THE_END = Gate("e2e", "make e2e", (When.AFTER_TESTER,))
AT_FIRST = Gate("lint", "make lint", (When.BASE, When.AFTER_PROGRAMMER))


@pytest.mark.parametrize(
    ("flow", "gates", "names"),
    [
        ("loop", [], "analyst programmer tester"),
        (
            "loop",
            [EVERYWHERE, IN_THE_END],
            "tests analyst programmer tests tester tests e2e proof",
        ),
        ("loop", [AT_FIRST], "lint analyst programmer lint tester"),
        ("solo", [EVERYWHERE], "tests programmer tests proof"),
        ("solo", [], "programmer gate"),
    ],
)
def test_gates_and_proof_stand_where_they_are_run(flow: str, gates: list[Gate], names: str) -> None:
    course = course_of(packaged_flow(flow), gates, proves=True)
    assert " ".join(step.name for step in course) == names


def test_nothing_is_proven_that_nobody_wants_to_be() -> None:
    course = course_of(packaged_flow("loop"), [EVERYWHERE], proves=False)
    assert course[-1] == PlannedCheck("tests", When.AFTER_TESTER)
