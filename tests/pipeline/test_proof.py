"""What is proven, and what is missing for it."""

from dataclasses import replace

import pytest

from cli_agent_orchestrator.pipeline.check import CheckResult
from cli_agent_orchestrator.pipeline.counts import TestCounts
from cli_agent_orchestrator.pipeline.proof import GateProof, Proof, page_of_proof
from cli_agent_orchestrator.pipeline.tampering import Suspicion, Trick

GREEN = CheckResult("make test", 0, "", counts=TestCounts("pytest", 3, 0))
RED = CheckResult("make test", 1, "", counts=TestCounts("pytest", 2, 1, 0, ("a",)))
SILENT = CheckResult("make test", 0, "")
PROVEN = GateProof("tests", GREEN, turned=("a",))
DOUBT = Suspicion("Makefile", Trick.CI_CHANGED, "1 line added")


@pytest.mark.parametrize(
    ("proof", "words"),
    [
        (Proof((PROVEN,)), "proven: 1 test that failed before now passes, the tests from before"),
        (Proof((replace(PROVEN, turned=("a", "b")),)), "2 tests that failed before now pass, "),
        (
            Proof((GateProof("tests", GREEN, RED),), ("test_a.py",)),
            "proven: the run's own tests fail without its work, the tests from before pass",
        ),
        (Proof((PROVEN,), (), (DOUBT,)), "as they were; look at 1 change to tests or settings"),
        (Proof(), "not proven: no gate says which tests it runs"),
        (Proof((GateProof("tests", GREEN),)), "not proven: no test was made or changed"),
        (
            Proof((GateProof("tests", GREEN, GREEN),), ("test_a.py",)),
            "not proven: the run's own tests pass without its work (test_a.py)",
        ),
        (
            Proof((GateProof("tests", GREEN, SILENT),), ("test_a.py",)),
            "not proven: the run's own tests could not be run on the base",
        ),
        (
            Proof((replace(PROVEN, on_result=RED),)),
            "not proven: the gate tests: the tests from before do not pass (FAIL",
        ),
        (
            Proof((replace(PROVEN, on_result=SILENT),)),
            "not proven: the gate tests: it ran no tests in a fresh checkout",
        ),
        (
            Proof((replace(PROVEN, is_deaf=True),)),
            "not proven: the gate tests: since the run it does not notice tests that must fail",
        ),
        (Proof((PROVEN, replace(PROVEN, is_deaf=True))), "not proven: the gate tests: since"),
    ],
)
def test_what_is_said_of_a_proof(proof: Proof, words: str) -> None:
    assert words in str(proof)
    assert str(proof).startswith("proven: " if proof.is_proven else "not proven: ")
    page = page_of_proof(proof)
    assert page.startswith(f"RESULT: {'PASS' if proof.is_proven else 'FAIL'}\nPROOF: {proof}\n")
    assert ("- Makefile: CI changed, 1 line added" in page) == bool(proof.suspicions)
