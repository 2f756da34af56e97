"""What `cao clean` says that it has done."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from cli_agent_orchestrator.cli import clean as cleaning_command
from cli_agent_orchestrator.cli.clean import clean
from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.errors import RunError, StoreError
from cli_agent_orchestrator.runs.record import RunStatus, write_record
from cli_agent_orchestrator.runs.tree import plan_tree
from cli_agent_orchestrator.settings.layout import run_folder, state_folder
from tests.runs.kept_runs import make_run
from tests.runs.test_own_tree import record_of
from tests.server.running import TOKEN, running_api
from tests.work.projects import make_project

RUN = "20261115-084037-k3f9"


def test_agents_of_a_run_that_is_gone_are_ended_if_none_is_at_work(tmp_path: Path) -> None:
    state = state_folder(os.environ)
    busy, listed = (RUN.replace("k3f9", tail) for tail in ("x7zq", "w2bn"))
    make_run(state, tmp_path, listed)
    with running_api(state=state) as server:
        sessions = (RUN, busy, listed, "shop")
        for number, session in enumerate(sessions, 1):
            server.service.add(f"{number}" * 8, f"cao-{session}")
        server.service.change("22222222", TerminalStatus.PROCESSING)
        done = CliRunner().invoke(clean, ["--yes"], env={"CAO_TOKEN": TOKEN})
    assert done.exit_code == 0, done.exception
    assert server.service.ended == ["11111111"]
    assert f"Kept: {busy}  1 agent, not all at rest" in done.output
    assert done.output.count("  1 agent") == 2


def test_records_are_removed_also_where_no_server_can_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connected(*_: object) -> None:
        raise StoreError("no space left")

    monkeypatch.setattr(cleaning_command, "connected", connected)
    make_run(state_folder(os.environ), tmp_path, RUN)
    done = CliRunner().invoke(clean, ["--older-than", "0", "--yes"])
    assert "were not looked for: no space left" in done.stderr
    assert "Removed the records of 1 run." in done.stdout
    assert done.exit_code == 0


def test_what_was_listed_and_stays_is_named_with_the_reason(tmp_path: Path) -> None:
    state = state_folder(os.environ)
    project = make_project(tmp_path / "project")
    tree, _ = plan_tree(project.folder, state, RUN, os.environ)[0].make()
    write_record(run_folder(state, RUN), replace(record_of(tree), status=RunStatus.PASS))
    make_run(state, tmp_path, "20261115-084037-abc7")
    project.git("worktree", "lock", str(tree.folder))
    words = ["--older-than", "0", "--yes", "--api", "http://127.0.0.1:1"]
    done = CliRunner().invoke(clean, words)
    assert "Removed the records of 1 run." in done.stdout
    assert isinstance(done.exception, RunError)
    told = f"not all of it was removed:\n  {RUN}  nothing was removed: it is locked; to unlock it: "
    assert str(done.exception).startswith(told)
    assert tree.exists
    project.git("worktree", "unlock", str(tree.folder))
    assert CliRunner().invoke(clean, words).exception is None
    assert not run_folder(state, RUN).path.exists()
