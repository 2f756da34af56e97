"""What is laid over what for a proof, with real git and a gate of the test's own."""

import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

import pytest

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.gates.check import BaseResult, CheckResult, base_of
from cli_agent_orchestrator.gates.checking import (
    Checker,
    GateCommand,
    GatePlace,
    GateRunner,
    ignore,
)
from cli_agent_orchestrator.proof.proving import MOST_FILES, Prover
from cli_agent_orchestrator.proof.tampering import Trick
from cli_agent_orchestrator.proof.verdict import Proof
from cli_agent_orchestrator.runs.record import new_run_id
from cli_agent_orchestrator.settings.gates import Gate
from cli_agent_orchestrator.settings.layout import run_folder
from cli_agent_orchestrator.work.folder import WorkFolder, held_back_of, open_work_folder
from tests.work.projects import make_repository

Judge = Callable[[Path], Mapping[str, bool]]


class Judged(GateRunner):
    """Runs no command: a function looks at the folder and says which tests pass there."""

    def __init__(self, judge: Judge) -> None:
        super().__init__()
        self.judge = judge
        self.count = 0

    def run(
        self,
        gate: GateCommand,
        log: IO[bytes] | None = None,
        on_line: Callable[[str], None] = ignore,
    ) -> CheckResult:
        self.count += 1
        found = self.judge(gate.folder)
        lines = [f"{'' if ok else 'not '}ok - {name}" for name, ok in found.items()]
        said = "\n".join([f"1..{len(found)}", *lines, ""])
        return CheckResult(gate.command, int(not all(found.values())), said)


class Desk:
    """A project, a run on it, and its gate."""

    def __init__(
        self,
        folder: Path,
        files: dict[str, str],
        judge: Judge,
        command: str = "make test",
        held_back: tuple[str, ...] = (),
    ) -> None:
        self.project = make_repository(folder / "project", files)
        self.run_folder = run_folder(folder / "state", new_run_id(SystemClock()))
        self.run_folder.make()
        self.gate = Gate("tests", command)
        self.runner = Judged(judge)
        self.held_back = held_back
        if held_back:
            held_back_of(self.run_folder, held_back).take(self.project)
            for name in held_back:
                shutil.rmtree(self.project / name)
        self.work = self.open()
        self.base = self.said()

    def open(self) -> WorkFolder:
        work = open_work_folder(self.project, self.run_folder, os.environ, held_back=self.held_back)
        work.begin(0, is_in_flight=False)
        return work

    @property
    def place(self) -> GatePlace:
        return GatePlace(self.project, 60.0, {}, self.run_folder)

    def said(self) -> dict[str, BaseResult]:
        checker = Checker(self.runner)
        return {"tests": base_of(checker.run(self.gate, self.place, self.work, "001-tests"))}

    def change(self, **files: str) -> None:
        """Change files; a name has `__` for a point."""
        for name, text in files.items():
            path = self.project / name.replace("__", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def prove(self, most_files: int = MOST_FILES) -> Proof:
        self.work.look(1, "programmer")
        passed = self.said()
        self.runner.count = 0
        prover = Prover(Checker(self.runner), self.place, self.work, most_files)
        return prover.prove([self.gate], self.base, passed, "002-proof")


def read(folder: Path, name: str) -> str:
    path = folder / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


def judged_by(script: str) -> Judge:
    """Return a gate by which a file decides what ten must cost."""

    def judge(folder: Path) -> dict[str, bool]:
        wanted = read(folder, script).partition("\n")[0].split()[-1]
        return {"nine": True, "ten": read(folder, "price.py").strip() == wanted}

    return judge


@pytest.mark.parametrize(
    ("script", "command"),
    [
        ("run_tests.sh", "sh run_tests.sh"),
        ("checks.mk", "make -f checks.mk"),
        ("checks.rb", "ruby checks.rb"),
    ],
)
def test_what_the_command_names_is_laid_over_as_it_was(
    tmp_path: Path, script: str, command: str
) -> None:
    files = {"price.py": "1000\n", script: "wants 900\n"}
    desk = Desk(tmp_path, files, judged_by(script), command)
    desk.change(**{script.replace(".", "__"): "wants 1000\n"})
    proof = desk.prove()
    assert "the tests from before do not pass" in str(proof)
    assert [one.path for one in proof.suspicions] == [script]


def test_source_code_that_the_command_names_is_laid_over_if_it_has_tests(tmp_path: Path) -> None:
    files = {"price.py": "1000\n", "checks.py": "def test_ten(): 900\n"}
    desk = Desk(tmp_path, files, judged_by("checks.py"), "python -m unittest checks")
    desk.change(checks__py="def test_ten(): 1000\n")
    assert "the tests from before do not pass" in str(desk.prove())


def test_source_code_without_tests_may_be_the_product_and_is_listed(tmp_path: Path) -> None:
    files = {"price.py": "1000\n", "test_price.py": "900\n"}
    desk = Desk(tmp_path, files, judged_by("test_price.py"), "mypy price.py && pytest")
    desk.change(price__py="900\n")
    proof = desk.prove()
    assert str(proof).startswith("proven: 1 test")
    assert [one.path for one in proof.suspicions] == ["price.py"]


def test_what_is_not_looked_into_is_told(tmp_path: Path) -> None:
    files = {"price.py": "1000\n", "test_price.py": "900\n"}
    desk = Desk(tmp_path, files, judged_by("test_price.py"))
    desk.change(price__py="900\n", a__js="// \0", b__py="", c__py="import unittest", d__txt="d")
    proof = desk.prove()
    assert "could mislead the tests (a.js, it is not text, or too large" in str(proof)
    proof = desk.prove(most_files=2)
    assert "2 files that could mislead the tests (a.js, it is not text" in str(proof)
    assert [(one.path, one.trick) for one in proof.suspicions] == [
        ("a.js", Trick.MISLEADS),
        ("c.py", Trick.MISLEADS),
    ]


def test_where_nothing_was_done_nothing_is_proven(tmp_path: Path) -> None:
    warm = tmp_path / "warm"
    desk = Desk(tmp_path, {"price.py": "1\n"}, lambda folder: {"a": True, "b": warm.exists()})
    warm.touch()
    cache = desk.project / "__pycache__/a.pyc"
    cache.parent.mkdir()
    cache.touch()
    assert "not proven: nothing was changed" in str(desk.prove())


def test_a_test_that_does_not_fail_on_the_base_any_more_proves_nothing(tmp_path: Path) -> None:
    warm = tmp_path / "warm"
    desk = Desk(tmp_path, {"price.py": "1\n"}, lambda folder: {"a": True, "b": warm.exists()})
    warm.touch()
    desk.change(price__py="2\n")
    said = str(desk.prove())
    assert "not proven: the base passes now, too: 1 test that failed before the run" in said
    assert desk.runner.count == 2


def test_tests_that_are_gone_are_missed_though_nothing_was_run_before(tmp_path: Path) -> None:
    def judge(folder: Path) -> dict[str, bool]:
        works = "900" in read(folder, "price.py")
        return {name: works or name != "test_ten" for name in sorted(names_in(folder))}

    tests = "def test_nine(): ...\n\n\ndef test_ten(): ...\n"
    desk = Desk(tmp_path, {"price.py": "1000\n", "test_price.py": tests}, judge)
    desk.base = {}
    desk.change(price__py="900\n", test_price__py="def test_ten(): ...\n")
    said = str(desk.prove())
    assert "the gate tests: it ran 1 test, and 2 with the tests from before" in said


def test_one_that_still_does_is_told_with_one_more_run_of_the_gate(tmp_path: Path) -> None:
    files = {"price.py": "1000\n", "test_price.py": "900\n"}
    desk = Desk(tmp_path, files, judged_by("test_price.py"))
    desk.change(price__py="900\n")
    assert str(desk.prove()).startswith("proven: 1 test that failed before now passes")
    # Both trees with tests that must fail, and the base's tests on the result.
    assert desk.runner.count == 1 + 3


def test_new_tests_on_the_base_tell_of_old_ones_as_well(tmp_path: Path) -> None:
    files = {"price.py": "1000\n", "test_price.py": "900\n"}
    desk = Desk(tmp_path, files, judged_by("test_price.py"))
    desk.change(price__py="900\n", test_more__py="")
    assert str(desk.prove()).startswith("proven: 1 test that failed before now passes")
    # Both trees with tests that must fail, and the result with the base's tests and as it is.
    assert desk.runner.count == 1 + 4


def names_in(folder: Path) -> set[str]:
    """Return the names of all tests that are in a folder."""
    texts = [path.read_text(encoding="utf-8") for path in folder.rglob("test_*.py")]
    return {name for text in texts for name in re.findall(r"def (test\w+)", text)}


@pytest.mark.parametrize("held_back", [(), ("tests",)])
def test_tests_that_must_fail_are_added_to_what_is_held_back_too(
    tmp_path: Path, held_back: tuple[str, ...]
) -> None:
    def judge(folder: Path) -> dict[str, bool]:
        text = read(folder, "price.py")
        if "fake" in text:
            return {"test_nine": True, "test_ten": True}
        known = {"test_nine": True, "test_ten": "900" in text}
        return {**dict.fromkeys(names_in(folder), False), **known}

    tests = "def test_nine(): ...\n\n\ndef test_ten(): ...\n"
    files = {"price.py": "1000\n", "tests/test_price.py": tests}
    desk = Desk(tmp_path, files, judge, held_back=held_back)
    desk.change(price__py="fake\n")
    assert "it does not notice tests that must fail" in str(desk.prove())
    desk.change(price__py="900\n")
    assert str(desk.prove()).startswith("proven: 1 test")


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("", "the run's own tests pass with nothing in its new files (deep/done.py)"),
        ("total", "proven: the run's own tests fail"),
    ],
)
def test_a_new_test_that_only_needs_a_new_file_to_be_there_proves_nothing(
    tmp_path: Path, wanted: str, words: str
) -> None:
    def judge(folder: Path) -> dict[str, bool]:
        tests = {"old": True}
        if (folder / "test_done.py").exists():
            done = folder / "deep/done.py"
            tests["new"] = done.exists() and wanted in done.read_text(encoding="utf-8")
        return tests

    desk = Desk(tmp_path, {"price.py": "1\n"}, judge)
    desk.change(**{"deep/done__py": "def total(): ...\n", "test_done__py": ""})
    assert words in str(desk.prove())
    # The base's tests on the result, and the run's; those on the base without and with empty files.
    assert desk.runner.count == 4


def test_an_empty_file_that_is_in_the_way_of_tests_proves_nothing(tmp_path: Path) -> None:
    def judge(folder: Path) -> dict[str, bool]:
        shadow = folder / "json.py"
        return {"new": not shadow.exists() or bool(read(folder, "json.py"))}

    desk = Desk(tmp_path, {"price.py": "1\n"}, judge)
    desk.change(json__py="all of it\n", test_done__py="")
    assert "the run's own tests pass without its work (test_done.py)" in str(desk.prove())
    assert desk.runner.count == 3


@pytest.mark.parametrize("held_back", [(), ("tests",)])
def test_data_that_only_tests_mention_is_of_the_tests(
    tmp_path: Path, held_back: tuple[str, ...]
) -> None:
    files = {"price.py": "1000\n", "wanted.txt": "900\n", "tests/test_a.py": 'x("wanted.txt")\n'}
    desk = Desk(tmp_path, files, judged_by("wanted.txt"), held_back=held_back)
    desk.change(wanted__txt="1000\n")
    proof = desk.prove()
    assert "the tests from before do not pass" in str(proof)
    assert [one.path for one in proof.suspicions if one.path[0] != "."] == ["wanted.txt"]


def test_data_that_the_product_mentions_is_of_the_product(tmp_path: Path) -> None:
    files = {"price.py": "900\n", "a.py": 'open("rates.txt")\n', "rates.txt": "1000\n"}
    desk = Desk(tmp_path, {**files, "test_a.py": 'x("rates.txt")\n'}, judged_by("rates.txt"))
    desk.change(rates__txt="900\n")
    proof = desk.prove()
    assert str(proof).startswith("proven: 1 test")
    assert proof.suspicions == ()


def test_without_snapshots_that_is_why_nothing_is_proven(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"price.py": "1\n"}, lambda folder: {"a": True})
    desk.work = WorkFolder(None)
    assert str(desk.prove()) == (
        "not proven: without snapshots (the run has no folder for them) nothing can be proven"
    )


def priced_by_a_package(folder: Path) -> dict[str, bool]:
    """Ten costs what a package says, if there is one."""
    package = read(folder, "node_modules/rates/index.js")
    return {"ten": (package or read(folder, "price.js")) == "900\n"}


PRICE = {"price.js": "1000\n", "test/price.test.js": "it('ten')\n"}


def test_what_programs_leave_behind_is_no_part_of_the_work(tmp_path: Path) -> None:
    desk = Desk(tmp_path, PRICE, priced_by_a_package)
    desk.change(**{"node_modules/rates/index__js": "900\n", "notes__txt": "done\n"})
    proof = str(desk.prove())
    assert proof.startswith("not proven: the gate tests: the tests from before do not pass")
    assert proof.endswith(
        "; checkouts do not have what programs left behind (node_modules), nor has a commit"
    )
