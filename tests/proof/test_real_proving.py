"""What is proven of the work of a run: real snapshots, real checkouts, real tests."""

import os
import py_compile
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.gates.check import BaseResult
from cli_agent_orchestrator.gates.checking import Checker, GatePlace, GateRunner
from cli_agent_orchestrator.proof.proving import Prover
from cli_agent_orchestrator.proof.verdict import Proof
from cli_agent_orchestrator.runs.record import new_run_id
from cli_agent_orchestrator.settings.gates import Gate
from cli_agent_orchestrator.settings.layout import run_folder
from cli_agent_orchestrator.work.folder import open_work_folder
from tests.work.projects import git, make_repository, write

pytestmark = pytest.mark.slow
GATE = Gate("tests", f"{shlex.quote(sys.executable)} -B -m unittest -v")
TEST = """\
import unittest

from doubling import double


class TestDouble(unittest.TestCase):
    def test_{number}(self):
        self.assertEqual(double({number}), {number} + {number})
"""
BEFORE = {
    "doubling.py": "def double(number):\n    return 0\n",
    "test_zero.py": TEST.format(number=0),
}
DOUBLES = "def double(number):\n    return 2 * number\n"
ONE_PASSED = BaseResult(0, 1)


class Bench:
    """A project, and a run that works on it."""

    def __init__(self, wd: Path) -> None:
        self.wd = wd
        self.run_folder = run_folder(wd.parent / "state", new_run_id(SystemClock()))
        self.run_folder.make()
        self.work = open_work_folder(self.wd, self.run_folder, os.environ)
        self.work.begin(0, is_in_flight=False)

    def prove(
        self,
        work: dict[str, str],
        gates: Sequence[Gate] = (GATE,),
        base: BaseResult = ONE_PASSED,
        passed: BaseResult = ONE_PASSED,
    ) -> Proof:
        """Let the programmer write files, and return what that proves."""
        write(self.wd, work)
        self.work.look(1, "programmer")
        place = GatePlace(self.wd, 60.0, os.environ, self.run_folder)
        prover = Prover(Checker(GateRunner()), place, self.work)
        return prover.prove(gates, {"tests": base}, {"tests": passed}, "009-proof")


def bench(folder: Path, *more: dict[str, str], dirty: dict[str, str] | None = None) -> Bench:
    before = {name: text for files in (BEFORE, *more) for name, text in files.items()}
    wd = make_repository(folder / "project", before)
    write(wd, dirty or {})
    return Bench(wd)


def test_the_runs_own_tests_fail_without_its_work_and_those_from_before_pass(
    tmp_path: Path,
) -> None:
    proof = bench(tmp_path).prove({"doubling.py": DOUBLES, "test_one.py": TEST.format(number=1)})
    assert proof.is_proven, str(proof)
    assert proof.new_tests == ("test_one.py",)
    assert proof.suspicions == ()


def test_only_tests_from_before_speak_for_the_result(tmp_path: Path) -> None:
    """Neither one that is new nor one that the run has moved to where it is found."""
    rig = bench(tmp_path, {"other.py": TEST.format(number=1)})
    (rig.wd / "other.py").rename(rig.wd / "test_one.py")
    (gate,) = rig.prove({"doubling.py": DOUBLES, "test_two.py": TEST.format(number=2)}).gates
    assert gate.on_result.counts is not None
    assert gate.on_result.counts.run == 1


def test_new_tests_speak_where_there_were_none(tmp_path: Path) -> None:
    proof = bench(tmp_path).prove(
        {"doubling.py": DOUBLES, "test_one.py": TEST.format(number=1)}, base=BaseResult(0, 0)
    )
    (gate,) = proof.gates
    assert gate.on_result.counts is not None
    assert gate.on_result.counts.run == 2


@pytest.mark.parametrize("allowed", [True, False])
def test_what_failed_before_may_fail_only_if_that_is_allowed(tmp_path: Path, allowed: bool) -> None:
    rig = bench(tmp_path, {"test_one.py": TEST.format(number=1)})
    failure = "test_1 (test_one.TestDouble.test_1)"
    base = BaseResult(1, 2, (failure,))
    gates = [replace(GATE, allow_base_failures=allowed)]
    (gate,) = rig.prove({"new.txt": "new\n"}, gates, base, replace(base, exit_code=0)).gates
    assert gate.on_result.counts is not None
    assert gate.on_result.counts.failures == (failure,)
    assert gate.on_result.passed is allowed
    assert gate.turned == ()


def test_a_test_that_failed_before_and_passes_now_is_named(tmp_path: Path) -> None:
    rig = bench(tmp_path, {"test_one.py": TEST.format(number=1)})
    base = BaseResult(1, 3, ("a", "b", "c"))
    (gate,) = rig.prove({"doubling.py": DOUBLES}, base=base, passed=BaseResult(0, 3, ("b",))).gates
    assert gate.turned == ("a", "c")


@pytest.mark.parametrize(
    "trick",
    [
        "import unittest\nunittest.TestCase.assertEqual = lambda *_: None\n",
        "import os\nprint('Ran 4 tests in 0.1s\\n\\nOK', flush=True)\nos._exit(0)\n",
    ],
    ids=["some are not noticed", "none is noticed"],
)
def test_work_that_keeps_tests_from_failing_is_noticed(tmp_path: Path, trick: str) -> None:
    (gate,) = bench(tmp_path).prove({"doubling.py": DOUBLES + trick}).gates
    assert gate.missed
    assert gate.fault


def test_a_gate_that_counts_no_tests_is_left_out(tmp_path: Path) -> None:
    proof = bench(tmp_path).prove({"doubling.py": DOUBLES}, passed=BaseResult(0))
    assert str(proof) == "not proven: no gate says which tests it runs"


SKIPS = "import unittest\n\n\n@unittest.skip('later')\n"


@pytest.mark.parametrize("before_run", [False, True], ids=["by the run", "before it"])
def test_what_was_done_to_tests_is_told_though_an_earlier_run_did_it(
    tmp_path: Path, before_run: bool
) -> None:
    skipped = {"test_zero.py": BEFORE["test_zero.py"].replace("\nclass", f"\n{SKIPS}class")}
    rig = bench(tmp_path, dirty=skipped if before_run else {})
    proof = rig.prove({"new.txt": "new\n"} if before_run else skipped, gates=())
    (found,) = proof.before if before_run else proof.suspicions
    assert found.path == "test_zero.py"
    assert len((*proof.before, *proof.suspicions)) == 1


def test_what_the_run_committed_was_not_there_before_it(tmp_path: Path) -> None:
    rig = bench(tmp_path)
    more = TEST.format(number=1).partition("TestCase):\n")[2]
    write(rig.wd, {"test_zero.py": BEFORE["test_zero.py"] + more})
    rig.work.look(1, "programmer")
    git(rig.wd, "commit", "-qam", "two")
    rig.work = open_work_folder(rig.wd, rig.run_folder, os.environ)
    rig.work.begin(1, is_in_flight=False)
    proof = rig.prove({"doubling.py": DOUBLES}, gates=())
    assert proof.suspicions == ()
    assert proof.before == ()


@pytest.mark.parametrize("attribute", ["text eol=crlf", "filter=up"])
def test_what_git_lays_out_in_its_own_way_was_not_changed_before_the_run(
    tmp_path: Path, attribute: str
) -> None:
    files = {".gitattributes": f"*.txt {attribute}\n", "tests/prices.txt": "one\ntwo\n"}
    make_repository(tmp_path / "origin", {**BEFORE, **files})
    upper = ("-c", "filter.up.smudge=tr a-z A-Z", "-c", "filter.up.clean=tr A-Z a-z")
    git(tmp_path, "clone", "-q", *upper, "origin", "project")
    proof = Bench(tmp_path / "project").prove({"doubling.py": DOUBLES}, gates=())
    assert proof.suspicions == ()
    assert proof.before == ()


def test_each_file_that_is_listed_has_its_diff(tmp_path: Path) -> None:
    rig = bench(tmp_path, {"setup.cfg": "[a]\n", "tests/test_old.py": TEST.format(number=0)})
    (rig.wd / "tests/test_old.py").rename(rig.wd / "old.bak")
    loose = BEFORE["test_zero.py"].replace("assertEqual", "assertTrue")
    work = {"test_zero.py": loose, "setup.cfg": "[b]\n", "doubling.py": DOUBLES}
    moved, settings, loosened = rig.prove(work, gates=()).patches
    assert "rename from tests/test_old.py\nrename to old.bak\n" in moved
    assert settings.startswith("diff --git a/setup.cfg b/setup.cfg\n")
    assert settings.endswith("\n-[a]\n+[b]\n")
    assert "-        self.assertEqual(double(0), 0 + 0)\n" in loosened
    assert "+        self.assertTrue(double(0), 0 + 0)\n" in loosened


def test_tests_are_looked_for_in_sources_of_a_language_that_has_them_there(tmp_path: Path) -> None:
    tested = "fn two() -> u8 { 2 }\n\n#[test]\nfn it() { assert_eq!(two(), 2); }\n"
    rig = bench(tmp_path, {"src/lib.rs": tested})
    proof = rig.prove({"src/lib.rs": tested.partition("\n\n")[0] + "\n"}, gates=())
    assert [one.path for one in proof.suspicions] == ["src/lib.rs"]


def test_that_tests_from_before_fail_says_nothing_of_new_ones(tmp_path: Path) -> None:
    rig = bench(tmp_path, {"test_one.py": TEST.format(number=1)})
    failure = "test_1 (test_one.TestDouble.test_1)"
    base = BaseResult(1, 2, (failure,))
    gates = [replace(GATE, allow_base_failures=True)]
    proof = rig.prove({"test_two.py": TEST.format(number=0)}, gates, base, replace(base, run=3))
    assert str(proof) == "not proven: the run's own tests pass without its work (test_two.py)"


def compile_otherwise(source: Path, text: str) -> Path:
    """Put other code where Python has compiled a file: it runs that, and looks no further."""
    other = source.parent.parent / "other.py"
    other.write_text(text, encoding="utf-8")
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compiled = Path(cache_from_source(str(source)))
    py_compile.compile(str(other), str(compiled), str(source), True, invalidation_mode=unchecked)
    return compiled


LEFT_OUT = "checkouts do not have what programs left behind (__pycache__), nor has a commit"


def test_code_that_no_commit_has_proves_nothing(tmp_path: Path) -> None:
    rig = bench(tmp_path, {"test_one.py": TEST.format(number=1)})
    compile_otherwise(rig.wd / "doubling.py", DOUBLES)
    base = BaseResult(1, 2, ("test_1 (test_one.TestDouble.test_1)",))
    proof = rig.prove({"doubling.py": f"{BEFORE['doubling.py']}# x\n"}, base=base)
    assert "the tests from before do not pass" in str(proof)
    assert LEFT_OUT in str(proof)


@pytest.mark.parametrize("ignored", [False, True])
def test_nor_does_a_new_test_that_only_passes_with_it(tmp_path: Path, ignored: bool) -> None:
    rig = bench(tmp_path, {".gitignore": "__pycache__\n"} if ignored else {})
    compile_otherwise(rig.wd / "doubling.py", DOUBLES)
    proof = rig.prove({"test_one.py": TEST.format(number=1)}, passed=BaseResult(0, 2))
    assert "the run's own tests do not pass in a fresh checkout" in str(proof)
    assert (LEFT_OUT in str(proof)) is not ignored


def test_compiled_code_that_is_committed_counts(tmp_path: Path) -> None:
    rig = bench(tmp_path, {"test_one.py": TEST.format(number=1)})
    compiled = compile_otherwise(rig.wd / "doubling.py", BEFORE["doubling.py"])
    git(rig.wd, "add", "-f", str(compiled))
    git(rig.wd, "commit", "-qm", "compiled")
    rig = Bench(rig.wd)
    compile_otherwise(rig.wd / "doubling.py", DOUBLES)
    base = BaseResult(1, 2, ("test_1 (test_one.TestDouble.test_1)",))
    proof = rig.prove({"a.txt": "a\n"}, base=base, passed=BaseResult(0, 2))
    assert proof.is_proven, str(proof)


LINKED = {"shared/checks.py": TEST.format(number=0)}


def linked_bench(tmp_path: Path) -> Bench:
    """A project whose only test is a link to a file that no path tells of."""
    wd = make_repository(tmp_path / "project", {"doubling.py": BEFORE["doubling.py"], **LINKED})
    (wd / "test_zero.py").symlink_to("shared/checks.py")
    git(wd, "add", "-A")
    git(wd, "commit", "-qm", "link")
    return Bench(wd)


def test_a_test_that_is_a_link_is_noticed_when_it_fails(tmp_path: Path) -> None:
    proof = linked_bench(tmp_path).prove(
        {"doubling.py": DOUBLES, "test_one.py": TEST.format(number=1)}
    )
    assert proof.is_proven, str(proof)
    lie = "import unittest\nunittest.TestCase.assertEqual = lambda *_: None\n"
    (tmp_path / "other").mkdir()
    (gate,) = linked_bench(tmp_path / "other").prove({"doubling.py": DOUBLES + lie}).gates
    assert gate.missed


def test_what_a_test_leads_to_is_a_test(tmp_path: Path) -> None:
    weak = TEST.format(number=0).replace("assertEqual", "assertTrue")
    broken = "def double(number):\n    return number + 1\n"
    proof = linked_bench(tmp_path).prove({"doubling.py": broken, "shared/checks.py": weak})
    assert not proof.is_proven
    assert "the tests from before do not pass" in str(proof)
    assert "shared/checks.py" in [one.path for one in proof.suspicions]


def test_a_link_that_became_a_folder_is_no_obstacle(tmp_path: Path) -> None:
    rig = linked_bench(tmp_path)
    (rig.wd / "more").symlink_to("shared")
    git(rig.wd, "add", "-A")
    git(rig.wd, "commit", "-qm", "more")
    rig = Bench(rig.wd)
    (rig.wd / "more").unlink()
    own = TEST.format(number=1).replace("from doubling", "from more.doubles")
    proof = rig.prove({"more/doubles.py": DOUBLES, "test_one.py": own})
    assert proof.is_proven, str(proof)
