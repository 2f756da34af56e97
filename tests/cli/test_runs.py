"""The list of runs, as it is shown."""

import platform
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli_agent_orchestrator.cli.runs import table, watch
from cli_agent_orchestrator.events import RunEnded
from cli_agent_orchestrator.runs.record import RunRecord, RunStatus, write_record
from cli_agent_orchestrator.runs.recorder import EventLog
from cli_agent_orchestrator.settings.layout import run_folder
from tests.runs.views import a_run

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
    run = a_run(id=ID, wd="/p", status=status, started=1.0, ended=2.0, providers=providers)
    (_, line) = table([run], Path("/p"), 61.0)
    assert f"  {shown}" in line


def test_a_run_of_another_machine_says_whose_folder_it_is() -> None:
    here, there = (a_run(id=ID, wd="/p", machine=name) for name in (platform.node(), "calc7"))
    _, first, second = table([here, there], Path("/q"), 61.0)
    assert "  /p  " in first
    assert "  calc7:/p  " in second


@pytest.mark.parametrize(
    ("width", "folder"), [(60, "/home/ada/work/customers/north/shopping-basket"), (80, "/srv/calc")]
)
def test_a_list_that_fits_shows_the_project_and_the_task(width: int, folder: str) -> None:
    agents = {"tester": "scripted"}
    run = a_run(
        id=ID, wd=folder, task_line="mend the prices", status=RunStatus.PASS, providers=agents
    )
    head, line = table([run], Path("/p"), 3600.0, width)
    assert len(line) <= width
    assert "…" not in head
    assert Path(folder).name in line
    assert "mend the pr" in line
    assert "k3f9  PASS (DRY RUN)" in line
    for little in (20, 40):
        rows = [*table([run], Path("/p"), 61.0, little)]
        assert all(len(row) <= little for row in rows)
    assert rows == ["ID    STATUS          TASK", "k3f9  PASS (DRY RUN)  mend the prices"]


def test_whoever_watches_is_told_why_a_run_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAO_STATE_DIR", str(tmp_path))
    folder = run_folder(tmp_path, ID)
    folder.make()
    write_record(folder, RunRecord(ID, "/p", "/p/s", "", "", 1.0, status=RunStatus.FAILED))
    log = EventLog(folder)
    log.append(RunEnded(2.0, "RUNNING", 1, 3, "analyst: usage \x1b[2Jlimit"))
    log.close()
    done = CliRunner().invoke(watch, [ID])
    assert done.exit_code == 3
    assert "cao: analyst: usage �[2Jlimit" in done.output
    assert "no run in this folder" not in done.stderr
    # It is the only one there is.
    done = CliRunner().invoke(watch, [])
    assert done.exit_code == 3
    assert f"There is no run in this folder; this is {ID} (not begun, /p).\n" in done.stderr
