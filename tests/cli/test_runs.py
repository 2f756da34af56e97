"""The list of runs, as it is shown."""

from pathlib import Path

import pytest

from cli_agent_orchestrator._internal.cli.runs import table
from cli_agent_orchestrator._internal.runs.registry import RunSummary
from cli_agent_orchestrator._internal.runs.run_record import RunStatus

ID = "20261115-084037-k3f9"


@pytest.mark.parametrize(
    ("status", "agent", "shown"),
    [
        (RunStatus.PASS, "scripted", "PASS (DRY RUN)"),
        (RunStatus.FAIL, "scripted", "FAIL (DRY RUN)"),
        (RunStatus.PASS, "codex", "PASS  "),
        (RunStatus.RUNNING, "scripted", "running  "),
        # nobody takes it for a verdict
        (RunStatus.FAILED, "codex", "error  "),
    ],
)
def test_a_verdict_of_the_built_in_agent_is_said_to_be_a_dry_run(
    status: RunStatus, agent: str, shown: str
) -> None:
    providers = {"analyst": "codex", "tester": agent}
    run = RunSummary(ID, "/p", "mend it", "loop", status, 1, "", 1.0, 2.0, providers)
    (_, line) = table([run], Path("/p"), 61.0)
    assert f"  {shown}" in line
