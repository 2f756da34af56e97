"""Gates of a run, really run: their folder, their logs, their reports."""

import os
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.errors import RunError
from cli_agent_orchestrator.gates.check import CheckResult
from cli_agent_orchestrator.gates.checking import GatePlace, GateRunner
from cli_agent_orchestrator.runs.record import new_run_id
from cli_agent_orchestrator.settings.gates import Gate
from cli_agent_orchestrator.settings.layout import run_folder
from cli_agent_orchestrator.work.folder import WorkFolder, open_work_folder
from tests.work.projects import make_repository, write

JUNIT = "<testsuite><testcase name='a'/><testcase name='b'><failure/></testcase></testsuite>"


class Desk:
    """A project that is a repository, and the folder of a run on it."""

    def __init__(self, folder: Path) -> None:
        files = {".gitignore": "ignored\n", "test_it.py": TEST_CASE}
        self.wd = make_repository(folder / "project", files)
        self.run_folder: Folder = run_folder(folder / "state", new_run_id(SystemClock()))
        self.run_folder.make()
        self.work = self.open()

    def open(self) -> WorkFolder:
        work = open_work_folder(self.wd, self.run_folder, os.environ)
        work.begin(0, is_in_flight=False)
        return work

    def run(self, gate: Gate) -> CheckResult:
        place = GatePlace(self.wd, 60.0, os.environ, self.run_folder)
        return GateRunner().run(gate, place, self.work, "003-tests")

    @property
    def checkouts(self) -> Path:
        return self.run_folder.path / "checkouts"


TEST_CASE = """\
import pathlib
import unittest


class TestIt(unittest.TestCase):
    def test_it(self):
        self.assertEqual(pathlib.Path("made").read_text(), "made\\n")
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_all_that_it_writes_is_in_its_log(desk: Desk) -> None:
    result = desk.run(Gate("tests", r"printf '\033[31mred\377'; exit 1"))
    assert result.log == str(desk.run_folder.path / "gates" / "003-tests.log")
    assert Path(result.log).read_bytes() == b"\x1b[31mred\xff"


def test_the_oldest_logs_of_a_run_go_when_they_are_too_much_together(desk: Desk) -> None:
    logs = Folder(desk.run_folder.root, (*desk.run_folder.parts, "gates"), private=True)
    for number in (1, 2):
        logs.replace(f"00{number}-tests.log", bytes(40))
        os.utime(logs.path / f"00{number}-tests.log", (number, number))
    place = GatePlace(desk.wd, 60.0, os.environ, desk.run_folder, most_logged=100)
    GateRunner().run(Gate("tests", "echo short"), place, desk.work, "003-tests")
    assert sorted(logs.names()) == ["001-tests.log", "002-tests.log", "003-tests.log"]
    long = Gate("tests", "head -c 90 /dev/zero")
    GateRunner().run(long, place, desk.work, "004-tests")
    assert sorted(logs.names()) == ["003-tests.log", "004-tests.log"]


def test_a_log_that_cannot_be_written_does_not_change_the_verdict(desk: Desk) -> None:
    (desk.run_folder.path / "gates").symlink_to("/dev")
    result = desk.run(Gate("tests", "echo a"))
    assert (result.exit_code, result.output, result.log) == (0, "a\n", "")


def test_a_clean_gate_has_what_its_setup_makes_and_nothing_that_is_ignored(desk: Desk) -> None:
    write(desk.wd, {"ignored": "x", "untracked": "x"})
    desk.work.look(1, "programmer")
    command = "test ! -e ignored && test -e untracked && python3 -m unittest"
    bare = desk.run(Gate("tests", command, clean=True))
    assert bare.exit_code == 1
    assert bare.counts is not None
    assert bare.counts.failed == 1
    made = desk.run(Gate("tests", command, clean=True, setup="echo made > made"))
    assert made.passed, made.output
    assert not (desk.wd / "made").exists()
    assert not desk.checkouts.exists()


def test_a_clean_gate_is_never_run_in_the_work_folder(desk: Desk) -> None:
    desk.work = WorkFolder(None)
    with pytest.raises(RunError, match="without snapshots there is no fresh checkout"):
        desk.run(Gate("tests", "touch never", clean=True))
    assert not (desk.wd / "never").exists()


def test_a_setup_that_fails_is_the_gates_failure(desk: Desk) -> None:
    result = desk.run(Gate("tests", "touch never", clean=True, setup="echo 3 passed; exit 5"))
    assert str(result) == "FAIL: `echo 3 passed; exit 5` ended with exit code 5"


def test_no_relative_path_leads_from_a_checkout_to_the_work_folder(desk: Desk) -> None:
    result = desk.run(
        Gate("tests", 'pwd -P; echo "$PWD $OLDPWD"; touch x ../y; git rev-parse', clean=True)
    )
    assert str(desk.wd) not in result.output
    assert result.exit_code != 0, "it is no repository"
    assert {path.name for path in desk.wd.iterdir()} == {".git", ".gitignore", "test_it.py"}


def test_a_checkout_that_a_killed_run_left_or_that_cannot_be_removed_is_no_obstacle(
    desk: Desk,
) -> None:
    (desk.checkouts / "tmp1/deep").mkdir(parents=True)
    desk.open()
    assert not desk.checkouts.exists()
    result = desk.run(Gate("tests", "mkdir -p a/b && touch a/b/c && chmod 500 a/b a", clean=True))
    assert result.passed
    desk.open()
    assert desk.run(Gate("tests", "true", clean=True)).passed


def test_a_report_is_believed_rather_than_the_output(desk: Desk) -> None:
    gate = Gate(
        "tests", f'mkdir r; echo "{JUNIT}" > r/j.xml; echo "== 9 passed in 1s =="', junit="r/j.xml"
    )
    result = desk.run(gate)
    assert str(result) == "FAIL: `" + gate.run + "` ended with exit code 0, but 1 of 2 tests failed"


def test_a_setup_need_not_write_the_report(desk: Desk) -> None:
    report = "<testsuite><testcase name='a'/></testsuite>"
    gate = Gate("tests", f'echo "{report}" > j.xml', clean=True, setup="true", junit="j.xml")
    assert str(desk.run(gate)) == "PASS (1 test)"


@pytest.mark.parametrize("command", ["true", "rm j.xml", "rm j.xml; ln -s x j.xml", "echo > j.xml"])
def test_a_report_from_before_counts_for_nothing(desk: Desk, command: str) -> None:
    write(desk.wd, dict.fromkeys(("j.xml", "x"), "<testsuite><testcase name='a'/></testsuite>"))
    result = desk.run(Gate("tests", command, junit="j.xml"))
    assert str(result) == f"FAIL: `{command}` wrote no test report to j.xml"


def test_a_gate_that_deletes_everything_is_told_and_the_next_one_runs(desk: Desk) -> None:
    assert desk.run(Gate("tests", 'rm -rf "$PWD"; exit 0')).exit_code == 0
    result = desk.run(Gate("tests", "true"))
    assert str(result) == "FAIL: `true` could not be run: No such file or directory"
