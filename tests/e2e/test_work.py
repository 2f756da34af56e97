"""What a run did to the files, seen and taken back by its user."""

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.runs import WRITES, prepare, record_of, rule, script
from tests.work.projects import Project

pytestmark = [pytest.mark.tmux, pytest.mark.slow]


REVISE = rule("programmer_review", "REVIEW_RESULT: REVISE\nREVIEW_NOTES:\n- look again")


def seen(project: Project) -> dict[str, object]:
    """Return all that a user sees of a project, without what runs keep in it."""
    found = {name: what for name, what in project.state().items() if not name.startswith(".tmp/")}
    return {**found, "status": project.git("status", "--porcelain")}


def test_a_run_is_looked_at_and_taken_back(machine: Machine, project: Project) -> None:
    project.write({"a.txt": "not committed\n"})
    before = seen(project)
    done = machine.cao("run", "task.md", code=0)
    assert "programmer changed 1 file (+1 −0)" in done.stdout
    record = record_of(machine)
    assert record["base"] == project.git("rev-parse", "HEAD")
    assert (record["branch"], record["top"]) == ("main", str(machine.work))
    shown = machine.cao("diff", code=0)
    assert "+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n" in shown.stdout
    assert "a.txt" not in shown.stdout
    assert shown.stdout == machine.cao("diff", record["id"][-4:], "start..tester").stdout
    page = machine.cao("report").stdout
    assert "- Round 1, programmer (turn 3) changed 1 file (+1 −0): new.txt\n" in page
    refused = machine.cao("undo", code=2)
    assert "removes 1 file, made since then:\n    new.txt\n" in refused.stdout
    assert "add --yes" in refused.stderr
    undone = machine.cao("undo", "--yes", code=0)
    assert seen(project) == before
    again = undone.stdout.rpartition("To undo this: cao ")[2].split()
    machine.cao(*again, "--yes", code=0)
    assert (machine.work / "new.txt").read_text() == "new\n"


def test_only_what_was_approved_passes(machine: Machine, project: Project) -> None:
    prepare(machine, script(WRITES, REVISE))
    machine.env["CAO_REVIEW_BOUND"] = "require"
    done = machine.cao("run", "task.md", "--max-rounds", "1", code=1)
    assert "the work was not approved" in done.stdout
    del machine.env["CAO_REVIEW_BOUND"]
    machine.cao("run", "task.md", "--no-resume", code=0)
