"""What a flow says of itself."""

import pytest

from cli_agent_orchestrator.pipeline.flow import StageKind
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow


@pytest.mark.parametrize(
    ("name", "stages", "first", "has_gate"),
    [
        ("loop", ["work", "work", "test"], "analyst", False),
        ("pair", ["work", "gate"], "programmer", True),
        ("solo", ["work", "gate"], "programmer", True),
    ],
)
def test_a_flow_knows_its_stages(name: str, stages: list[str], first: str, has_gate: bool) -> None:
    flow = packaged_flow(name)
    assert [str(stage.kind) for stage in flow.stages] == stages
    assert flow.first.roles[0] == first
    assert flow.has_gate is has_gate


def test_kinds_of_stages_are_words() -> None:
    assert [*StageKind] == ["work", "test", "gate"]
