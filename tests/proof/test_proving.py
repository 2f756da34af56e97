"""What is laid over what for a proof, with real git and a gate of the test's own."""

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import pytest

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.gates.check import BaseResult, CheckResult, base_of
from cli_agent_orchestrator.gates.checking import GatePlace, GateRunner
from cli_agent_orchestrator.proof.proving import MOST_FILES, Prover
from cli_agent_orchestrator.proof.tampering import Trick
from cli_agent_orchestrator.proof.verdict import Proof
from cli_agent_orchestrator.runs.record import new_run_id
from cli_agent_orchestrator.settings.gates import Gate
from cli_agent_orchestrator.settings.layout import run_folder
from cli_agent_orchestrator.work.folder import WorkFolder, held_back_of, open_work_folder
from tests.work.projects import git, make_repository, write

Judge = Callable[[Path], Mapping[str, bool]]
PRICED = {"price.py": "1000\n", "test_price.py": "900\n"}
REPAIRED = {"price.py": "900\n"}
TWO_TESTS = "def test_nine(): ...\n\n\ndef test_ten(): ...\n"
BEFORE_FAIL = "the tests from before do not pass"
PROVEN = "proven: 1 test that failed before now passes"


class Judged(GateRunner):
    """Runs no command: a function looks at the folder and says which tests pass there."""

    def __init__(self, judge: Judge) -> None:
        super().__init__()
        self.judge = judge
        self.count = 0

    def run_command(
        self,
        command: str,
        place: GatePlace,
        log: IO[bytes] | None = None,
        before: Sequence[str] = (),
    ) -> CheckResult:
        self.count += 1
        found = self.judge(place.folder)
        lines = [f"{'' if ok else 'not '}ok - {name}" for name, ok in found.items()]
        said = "\n".join([f"1..{len(found)}", *lines, ""])
        return CheckResult(command, int(not all(found.values())), said)


class Desk:
    """A project, a run on it, and its gate."""

    def __init__(
        self,
        folder: Path,
        files: dict[str, str],
        judge: Judge,
        command: str = "make test",
        *,
        held_back: tuple[str, ...] = (),
        is_lenient: bool = False,
        dirty: dict[str, str] | None = None,
        links: dict[str, str] | None = None,
    ) -> None:
        self.project = make_repository(folder / "project", files)
        for name, target in (links or {}).items():
            (self.project / name).symlink_to(target)
            git(self.project, "add", name)
            git(self.project, "commit", "-qm", "link")
        write(self.project, dirty or {})
        self.run_folder = run_folder(folder / "state", new_run_id(SystemClock()))
        self.run_folder.make()
        self.gate = Gate("tests", command, allow_base_failures=is_lenient)
        self.runner = Judged(judge)
        self.held_back = held_back
        if held_back:
            held_back_of(self.run_folder, held_back).take(self.project)
            for name in held_back:
                shutil.rmtree(self.project / name)
        self.work = self.open(0)
        self.base = self.said()

    def open(self, sequence: int) -> WorkFolder:
        work = open_work_folder(self.project, self.run_folder, os.environ, held_back=self.held_back)
        work.begin(sequence, is_in_flight=False)
        return work

    @property
    def place(self) -> GatePlace:
        return GatePlace(self.project, 60.0, {}, self.run_folder)

    def said(self) -> dict[str, BaseResult]:
        return {"tests": base_of(self.runner.run(self.gate, self.place, self.work, "001-tests"))}

    def prove(self, files: Mapping[str, str] | None = None, most_files: int = MOST_FILES) -> Proof:
        """Return what is proven once the programmer has written some files."""
        write(self.project, files or {})
        self.work.look(1, "programmer")
        passed = self.said()
        self.runner.count = 0
        prover = Prover(self.runner, self.place, self.work, most_files)
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


def names_in(folder: Path) -> set[str]:
    """Return the names of all tests that are in a folder."""
    texts = [path.read_text(encoding="utf-8") for path in folder.rglob("test_*.py")]
    return {name for text in texts for name in re.findall(r"def (test\w+)", text)}


def judged_by_name(folder: Path) -> dict[str, bool]:
    """Ten passes if it costs 900, and what is none of the known tests fails."""
    known = {"test_nine": True, "test_ten": "900" in read(folder, "price.py")}
    return {name: known.get(name, False) for name in sorted(names_in(folder))}


def all_pass(folder: Path) -> dict[str, bool]:
    return dict.fromkeys(sorted(names_in(folder)), True)


@pytest.mark.parametrize(
    ("script", "text", "command"),
    [
        ("run_tests.sh", "wants {}\n", "sh run_tests.sh"),
        ("checks.py", "def test_ten(): {}\n", "python -m unittest checks"),
    ],
)
def test_what_the_command_names_is_laid_over_as_it_was(
    tmp_path: Path, script: str, text: str, command: str
) -> None:
    files = {"price.py": "1000\n", script: text.format(900)}
    proof = Desk(tmp_path, files, judged_by(script), command).prove({script: text.format(1000)})
    assert BEFORE_FAIL in str(proof)
    assert [one.path for one in proof.suspicions] == [script]


def test_source_code_without_tests_may_be_the_product_and_is_listed(tmp_path: Path) -> None:
    desk = Desk(tmp_path, PRICED, judged_by("test_price.py"), "mypy price.py && pytest")
    proof = desk.prove(REPAIRED)
    assert str(proof).startswith(PROVEN)
    assert [one.path for one in proof.suspicions] == ["price.py"]


def test_what_is_not_looked_into_is_told(tmp_path: Path) -> None:
    desk = Desk(tmp_path, PRICED, judged_by("test_price.py"))
    work = {**REPAIRED, "a.js": "// \0", "b.py": "", "c.py": "import unittest", "d.txt": "d"}
    assert "could mislead the tests (a.js, it is not text, or too large" in str(desk.prove(work))
    proof = desk.prove(most_files=2)
    assert [(one.path, one.trick) for one in proof.suspicions] == [
        ("a.js", Trick.MISLEADS),
        ("c.py", Trick.MISLEADS),
    ]


@pytest.mark.parametrize(
    ("files", "words", "runs"),
    [
        ({"__pycache__/a.pyc": ""}, "nothing was changed", 2),
        ({"price.py": "2\n"}, "the base passes now, too: 1 test that failed before the run", 2),
    ],
)
def test_a_test_that_does_not_fail_on_the_base_any_more_proves_nothing(
    tmp_path: Path, files: dict[str, str], words: str, runs: int
) -> None:
    warm = tmp_path / "warm"
    desk = Desk(tmp_path, {"price.py": "1\n"}, lambda folder: {"a": True, "b": warm.exists()})
    warm.touch()
    assert f"not proven: {words}" in str(desk.prove(files))
    assert desk.runner.count == runs


def test_tests_that_are_gone_are_missed_though_nothing_was_run_before(tmp_path: Path) -> None:
    files = {"price.py": "1000\n", "test_price.py": TWO_TESTS}
    desk = Desk(tmp_path, files, lambda folder: {**judged_by_name(folder), "more": True})
    desk.base = {"tests": BaseResult(1)}
    said = str(desk.prove({**REPAIRED, "test_price.py": "def test_ten(): ...\n"}))
    assert "the gate tests: it ran 2 tests, and 3 with the tests from before" in said


@pytest.mark.parametrize(
    ("more", "runs"),
    [
        # The base again, both trees with tests that must fail, the base's tests on the result.
        ({}, 4),
        # The run's tests on the base tell of old ones as well; and the result as it is.
        ({"test_more.py": ""}, 5),
    ],
)
def test_one_that_still_does_is_told_with_few_runs_of_the_gate(
    tmp_path: Path, more: dict[str, str], runs: int
) -> None:
    desk = Desk(tmp_path, PRICED, judged_by("test_price.py"))
    assert str(desk.prove({**REPAIRED, **more})).startswith(PROVEN)
    assert desk.runner.count == runs


@pytest.mark.parametrize("is_lenient", [True, False])
def test_what_failed_before_may_fail_only_if_that_is_allowed(
    tmp_path: Path, is_lenient: bool
) -> None:
    desk = Desk(tmp_path, PRICED, judged_by("test_price.py"), is_lenient=is_lenient)
    (gate,) = desk.prove({"new.txt": "new\n"}).gates
    assert gate.on_result.passed is is_lenient
    assert gate.turned == ()


@pytest.mark.parametrize("had_tests", [True, False])
def test_only_tests_from_before_speak_for_the_result_unless_there_were_none(
    tmp_path: Path, had_tests: bool
) -> None:
    """Neither one that is new nor one that the run has moved to where it is found."""
    files = {"test_nine.py": "def test_nine(): ...\n", "moved.py": "def test_moved(): ...\n"}
    desk = Desk(tmp_path, files, all_pass)
    if not had_tests:
        desk.base = {"tests": BaseResult(0, 0)}
    (desk.project / "moved.py").rename(desk.project / "test_moved.py")
    (gate,) = desk.prove({"test_new.py": "def test_new(): ...\n"}).gates
    assert gate.on_result.counts is not None
    assert gate.on_result.counts.run == (1 if had_tests else 3)


def test_a_gate_that_counts_no_tests_is_left_out(tmp_path: Path) -> None:
    desk = Desk(tmp_path, PRICED, all_pass)
    desk.work.look(1, "programmer")
    prover = Prover(desk.runner, desk.place, desk.work)
    assert prover.prove([desk.gate], {}, {"tests": BaseResult(0)}, "002-proof").gates == ()


@pytest.mark.parametrize("held_back", [(), ("tests",)])
def test_tests_that_must_fail_are_added_to_what_is_held_back_too(
    tmp_path: Path, held_back: tuple[str, ...]
) -> None:
    def judge(folder: Path) -> dict[str, bool]:
        is_fake = "fake" in read(folder, "price.py")
        known = {"test_nine": True, "test_ten": True}
        return known if is_fake else {**known, **judged_by_name(folder)}

    files = {"price.py": "1000\n", "tests/test_price.py": TWO_TESTS}
    desk = Desk(tmp_path, files, judge, held_back=held_back)
    assert "it does not notice tests that must fail" in str(desk.prove({"price.py": "fake\n"}))
    assert str(desk.prove(REPAIRED)).startswith(PROVEN)


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
    assert words in str(desk.prove({"deep/done.py": "def total(): ...\n", "test_done.py": ""}))
    # The base's tests on the result, and the run's; those on the base without and with empty files.
    assert desk.runner.count == 4


def test_an_empty_file_that_is_in_the_way_of_tests_proves_nothing(tmp_path: Path) -> None:
    def judge(folder: Path) -> dict[str, bool]:
        return {"new": not (folder / "json.py").exists() or bool(read(folder, "json.py"))}

    desk = Desk(tmp_path, {"price.py": "1\n"}, judge)
    said = str(desk.prove({"json.py": "all of it\n", "test_done.py": ""}))
    assert "the run's own tests pass without its work (test_done.py)" in said
    assert desk.runner.count == 3


@pytest.mark.parametrize("held_back", [(), ("tests",)])
def test_data_that_only_tests_mention_is_of_the_tests(
    tmp_path: Path, held_back: tuple[str, ...]
) -> None:
    files = {"price.py": "1000\n", "wanted.txt": "900\n", "tests/test_a.py": 'x("wanted.txt")\n'}
    desk = Desk(tmp_path, files, judged_by("wanted.txt"), held_back=held_back)
    proof = desk.prove({"wanted.txt": "1000\n"})
    assert BEFORE_FAIL in str(proof)
    assert [one.path for one in proof.suspicions if one.path[0] != "."] == ["wanted.txt"]


def test_without_snapshots_that_is_why_nothing_is_proven(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"price.py": "1\n"}, lambda folder: {"a": True})
    desk.work = WorkFolder(None)
    assert str(desk.prove()) == (
        "not proven: without snapshots (the run has no folder for them) nothing can be proven"
    )


@pytest.mark.parametrize(("ignored", "is_new"), [(False, True), (True, False)])
def test_what_programs_leave_behind_is_no_part_of_the_work(
    tmp_path: Path, ignored: bool, is_new: bool
) -> None:
    def judge(folder: Path) -> dict[str, bool]:
        """Ten costs what a package says, if there is one."""
        is_tested = not is_new or (folder / "test/new.test.js").exists()
        package = read(folder, "node_modules/rates/index.js") or read(folder, "price.js")
        return {"nine": True} | ({"ten": package == "900\n"} if is_tested else {})

    ignore = {".gitignore": "node_modules\n"} if ignored else {}
    files = {"price.js": "1000\n", "test/price.test.js": "it('ten')\n", **ignore}
    work = {"node_modules/rates/index.js": "900\n", "notes.txt": "done\n"}
    own = {"test/new.test.js": "it('ten')\n"} if is_new else {}
    said = str(Desk(tmp_path, files, judge).prove({**work, **own}))
    own_fail = "the run's own tests do not pass in a fresh checkout"
    assert said.startswith(f"not proven: the gate tests: {own_fail if is_new else BEFORE_FAIL}")
    left = "checkouts do not have what programs left behind (node_modules), nor has a commit"
    assert (left in said) is not ignored


@pytest.mark.parametrize("is_earlier", [False, True], ids=["by the run", "before it"])
def test_what_was_done_to_tests_is_told_though_an_earlier_run_did_it(
    tmp_path: Path, is_earlier: bool
) -> None:
    skipped = {"test_price.py": "import pytest\npytest.skip('later')\n900\n"}
    desk = Desk(tmp_path, PRICED, all_pass, dirty=skipped if is_earlier else {})
    proof = desk.prove({"new.txt": "new\n"} if is_earlier else skipped)
    told, silent = (proof.before, proof.suspicions)[:: 1 if is_earlier else -1]
    assert ([one.path for one in told], silent) == (["test_price.py"], ())


def test_what_the_run_committed_was_not_there_before_it(tmp_path: Path) -> None:
    desk = Desk(tmp_path, PRICED, all_pass)
    write(desk.project, {"test_price.py": "900\nmore\n"})
    desk.work.look(1, "programmer")
    git(desk.project, "commit", "-qam", "two")
    desk.work = desk.open(1)
    proof = desk.prove(REPAIRED)
    assert (proof.before, proof.suspicions) == ((), ())


def test_each_file_that_is_listed_has_its_diff(tmp_path: Path) -> None:
    files = {**PRICED, "setup.cfg": "[a]\n", "tests/test_old.py": "def test_old(): ...\n" * 9}
    desk = Desk(tmp_path, files, all_pass)
    (desk.project / "tests/test_old.py").rename(desk.project / "old.bak")
    work = {"test_price.py": "1000\n", "setup.cfg": "[b]\n", **REPAIRED}
    moved, settings, loosened = desk.prove(work).patches
    assert "rename from tests/test_old.py\nrename to old.bak\n" in moved
    assert settings.startswith("diff --git a/setup.cfg b/setup.cfg\n")
    assert settings.endswith("\n-[a]\n+[b]\n")
    assert loosened.endswith("\n-900\n+1000\n")


LINKED = {"price.py": "1000\n", "shared/checks.py": TWO_TESTS}


def test_a_test_that_is_a_link_gets_tests_that_must_fail(tmp_path: Path) -> None:
    """No path tells that the file is one, and it is not written over."""

    def judge(folder: Path) -> dict[str, bool]:
        if "test_nine" not in names_in(folder):
            return {"it can be read": False}
        is_fake = "fake" in read(folder, "price.py")
        return all_pass(folder) if is_fake else judged_by_name(folder)

    desk = Desk(tmp_path, LINKED, judge, links={"test_price.py": "shared/checks.py"})
    assert str(desk.prove(REPAIRED)).startswith(PROVEN)
    assert desk.prove({"price.py": "fake 900\n"}).gates[0].missed


def test_what_a_test_leads_to_is_a_test(tmp_path: Path) -> None:
    links = {"test_price.py": "shared/checks.py"}
    desk = Desk(tmp_path, LINKED, judged_by_name, links=links)
    proof = desk.prove({"shared/checks.py": "def test_nine(): ...\n"})
    assert BEFORE_FAIL in str(proof)
    assert {one.path for one in proof.suspicions} == {"shared/checks.py"}


def test_a_link_that_became_a_folder_is_no_obstacle(tmp_path: Path) -> None:
    links = {"test_price.py": "shared/checks.py", "more": "shared"}
    desk = Desk(tmp_path, LINKED, judged_by_name, links=links)
    (desk.project / "more").unlink()
    assert str(desk.prove({**REPAIRED, "more/rates.py": "900\n"})).startswith(PROVEN)
