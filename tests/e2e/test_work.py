"""What a run did to the files, seen and taken back by its user."""

import json
import signal

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.runs import at, prepare, rule, running, script
from tests.e2e.test_runs import ASKS
from tests.work.projects import Project, make_project

pytestmark = [pytest.mark.tmux, pytest.mark.slow]

WRITES = rule("programmer", write='[{ path = "new.txt", content = "new\\n" }]')


@pytest.fixture
def project(machine: Machine) -> Project:
    machine.work.rmdir()
    found = make_project(machine.work)
    prepare(machine, script(WRITES))
    return found


REVISE = rule("programmer_review", "REVIEW_RESULT: REVISE\nREVIEW_NOTES:\n- look again")


def seen(project: Project) -> dict[str, object]:
    """Return all that a user sees of a project, without what runs keep in it."""
    found = {name: what for name, what in project.state().items() if not name.startswith(".tmp/")}
    return {**found, "status": project.git("status", "--porcelain")}


def test_a_run_is_looked_at_and_taken_back(machine: Machine, project: Project) -> None:
    project.write({"a.txt": "not committed\n"})
    before = seen(project)
    done = machine.cao("run", "task.md")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "programmer changed 1 file (+1 −0)" in done.stdout
    (path,) = (machine.home / "state" / "runs").glob("2*/run.json")
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record["base"] == project.git("rev-parse", "HEAD")
    assert (record["branch"], record["top"]) == ("main", str(machine.work))
    shown = machine.cao("diff")
    assert shown.returncode == 0, shown.stderr
    assert "+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n" in shown.stdout
    assert "a.txt" not in shown.stdout
    assert shown.stdout == machine.cao("diff", record["id"][-4:], "start..tester").stdout
    page = machine.cao("report").stdout
    assert "- Round 1, programmer (turn 3) changed 1 file (+1 −0): new.txt\n" in page
    refused = machine.cao("undo")
    assert refused.returncode == 2
    assert "removes 1 file, made since then:\n    new.txt\n" in refused.stdout
    assert "add --yes" in refused.stderr
    undone = machine.cao("undo", "--yes")
    assert undone.returncode == 0, undone.stderr
    assert seen(project) == before
    again = undone.stdout.rpartition("To undo this: cao ")[2].split()
    assert machine.cao(*again, "--yes").returncode == 0
    assert (machine.work / "new.txt").read_text() == "new\n"


def test_files_are_taken_back_only_from_a_run_that_is_not_at_work(
    machine: Machine, project: Project
) -> None:
    prepare(machine, script(ASKS))
    with running(machine, "task.md") as run:
        run.until(at("waiting_for_person", "programmer"))
        refused = machine.cao("undo", "--yes")
        assert refused.returncode == 2
        assert "is at work; end it first: cao stop" in refused.stderr
        run.interrupt(signal.SIGKILL)
        run.end()
    (machine.work / "later.txt").write_text("by a person\n")
    undone = machine.cao("undo", "--yes")
    assert undone.returncode == 0, undone.stderr
    assert "leaves 1 file that you changed" in undone.stdout
    assert (machine.work / "later.txt").exists()


class TestOnlyWhatWasApprovedPasses:
    BOUND = ("run", "task.md", "--max-rounds", "1")

    @pytest.fixture(autouse=True)
    def bound(self, machine: Machine) -> None:
        machine.env["CAO_REVIEW_BOUND"] = "require"

    def test_work_that_no_review_approved(self, machine: Machine, project: Project) -> None:
        prepare(machine, script(WRITES, REVISE))
        done = machine.cao(*self.BOUND)
        assert done.returncode == 1, done.stdout + done.stderr
        assert "the work was not approved" in done.stdout
        del machine.env["CAO_REVIEW_BOUND"]
        assert machine.cao("run", "task.md", "--no-resume").returncode == 0

    @pytest.mark.parametrize("gate", [(), ("--gate", "tests=echo '1 passed in 0.01s'")])
    def test_work_that_was_approved(
        self, machine: Machine, project: Project, gate: tuple[str, ...]
    ) -> None:
        done = machine.cao(*self.BOUND, *gate)
        assert done.returncode == 0, done.stdout + done.stderr

    def test_a_flow_without_a_review(self, machine: Machine, project: Project) -> None:
        done = machine.cao(*self.BOUND, "--flow", "solo", "--gate", "tests=true")
        assert done.returncode == 2, done.stdout + done.stderr
        assert "in the flow solo nobody reviews the work" in done.stderr
