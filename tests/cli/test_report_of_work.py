"""What a report says of the work: who changed what, and what was proven."""

import os
import shutil
from pathlib import Path

from click.testing import CliRunner

from cli_agent_orchestrator.cli.report import report
from cli_agent_orchestrator.events import CheckEnded, NotConverging
from cli_agent_orchestrator.settings.config import state_folder
from cli_agent_orchestrator.settings.layout import SNAPSHOTS_FOLDER, archive_folder
from tests.runs.kept_runs import RUN, make_run, snapshots_in, worked_run
from tests.runs.test_deeds import changed, proof
from tests.work.repositories import write

PAGE = """\
RESULT: PASS
PROOF: proven: the tests from before pass as they were; look at 2 changes to tests or settings
- tests/test<b>.py: fewer cases, 3 before and 2 now
- Makefile: CI changed, it is new

Before the run, and not committed:
- setup.cfg: settings changed, 1 line added

What the run did to these files:
````diff
+```
+ # <b> of /home/x

+ ## Proof
````

The base's tests on the result, by the gate tests:
- no suspicion
"""


def test_the_page_has_a_part_for_each(tmp_path: Path) -> None:
    events = (
        changed("programmer"),
        changed("tester", allowed=False),
        NotConverging(3.0, "The gate tests failed twice on the same files."),
        CheckEnded(1.0, "tests", 1, 1, "base_failed", "before the run: 1 failed", 1.0, "", "base"),
        proof("proven: the tests from before pass as they were"),
    )
    make_run(state_folder(os.environ), tmp_path, events=events)
    archive_folder(tmp_path, RUN).create("012-proof.md", PAGE.encode())
    page = CliRunner().invoke(report, ["k3f9"]).output
    assert page.startswith("# PASS after 1 round, proven\n")
    assert "## Not converging" not in page
    assert "## Where it did not converge for a while\n\n- The gate tests failed twice" in page
    assert "## What was changed\n\n- Round 1, programmer (turn 3) changed 3 files (+10 −2)" in page
    assert "a.py, b\\_\\*.py and 1 more\n- Round 1, tester (turn 3) changed" in page
    assert (
        "## Proof\n\nproven: the tests from before pass as they were\n\n"
        "- tests/test\\<b\\>.py: fewer cases, 3 before and 2 now\n"
        "- Makefile: CI changed, it is new\n\n"
        "````diff\n+```\n+ # <b> of …\n\n+ ## Proof\n````\n\n"
        "Before the run, and not committed:\n\n"
        "- setup.cfg: settings changed, 1 line added\n"
    ) in page
    assert "no suspicion" not in page
    assert "Why it took more than one try" not in page


def test_what_the_run_changed_is_folded_below_the_rest(tmp_path: Path) -> None:
    folder = worked_run(state_folder(os.environ), tmp_path / "project")
    page = CliRunner().invoke(report, ["k3f9"]).output
    head, folded, rest = page.partition("<details>\n<summary>What the run changed, line by line")
    assert folded
    assert rest.startswith("</summary>\n\n```diff\ndiff --git a/a.txt b/a.txt\n")
    assert "\n-1\n+3\n" in rest
    assert "mine.txt" not in page
    assert str(tmp_path) not in page
    shutil.rmtree(folder.path / SNAPSHOTS_FOLDER)
    without = CliRunner().invoke(report, ["k3f9"])
    assert (without.exit_code, without.output.strip()) == (0, head.strip())


def test_a_long_diff_is_cut_and_nothing_in_it_becomes_markup(tmp_path: Path) -> None:
    wd = tmp_path / "project"
    folder = worked_run(state_folder(os.environ), wd)
    write(wd, {"new.txt": f"{wd}/x\n```\n</details>\n\x1b[2J\n" + "a line\n" * 500})
    snapshots_in(folder, wd).take(5, "programmer")
    page = CliRunner().invoke(report, ["k3f9"]).output
    assert "\n+x\n+```\n+</details>\n+�[2J\n+a line\n" in page
    assert page.endswith("\n+a line\n…\n… 124 more lines: cao diff k3f9\n````\n\n</details>\n")


def test_a_page_that_is_gone_is_done_without(tmp_path: Path) -> None:
    make_run(state_folder(os.environ), tmp_path, events=(proof("not proven: no tests"),))
    page = CliRunner().invoke(report, ["k3f9"]).output
    assert page.startswith("# PASS after 1 round, not proven\n")
    assert "## Proof\n\nnot proven: no tests" in page
