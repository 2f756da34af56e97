"""What is proven, what is missing for it, and what a run makes of that."""

from typing import Any

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core.markdown import harmless
from cli_agent_orchestrator.events import Meaning
from cli_agent_orchestrator.gates.check import CheckResult, page_of
from cli_agent_orchestrator.gates.counts import TestCounts
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow
from cli_agent_orchestrator.pipeline.machine import (
    Check,
    Done,
    Outcome,
    Refused,
    next_step,
    record_check,
    record_proof,
    record_reply,
)
from cli_agent_orchestrator.pipeline.reply import Output
from cli_agent_orchestrator.pipeline.state import (
    FinalStatus,
    RunState,
    Turn,
    decode_state,
    encode_state,
)
from cli_agent_orchestrator.proof.tampering import Suspicion, Trick
from cli_agent_orchestrator.proof.verdict import GateProof, Proof, page_of_proof, still_failing
from cli_agent_orchestrator.settings.config import LoopRules
from tests.pipeline.test_flows_in_machine import begin, with_gates

GREEN = CheckResult("make test", 0, "ok\n", counts=TestCounts("pytest", 5, 0, 0))
RED = CheckResult("make test", 1, "no\n", counts=TestCounts("pytest", 4, 1, 0, ("t",)))
PACKAGES = replace(GREEN, counts=TestCounts("go", 2, 0, untold=2))
NOT_RUN = CheckResult("make test", 127, "make: not found\n")
NEW = ("tests/test_new.py",)
BENT = Suspicion("tests/test_a.py", Trick.NEW_SKIPS, "1 more skip (0 → 1)")

REACHING = Suspicion("price.py", Trick.REACHES, "line 5: import unittest")
MISLEADING = Suspicion("to\ntal.py", Trick.MISLEADS, "line 7: __eq__; 1 more line like that")


def gate(
    on_result: CheckResult = GREEN,
    on_base: CheckResult | None = None,
    *turned: str,
    # Any: whatever else a proof by a gate has
    **more: Any,
) -> GateProof:
    return GateProof("tests", on_result, on_base, turned, **more)


TURNED = gate(GREEN, None, "a")
PASS = "the tests from before pass as they were"


@pytest.mark.parametrize(
    ("proof", "words"),
    [
        (Proof((gate(GREEN, RED),), NEW), f"the run's own tests fail without its work; {PASS}"),
        (Proof((TURNED,)), f"1 test that failed before now passes; {PASS}"),
        (Proof((gate(GREEN, None, "a", "b"),)), "2 tests that failed before now pass"),
        (Proof((gate(GREEN, None, "a", passed_with=5),)), "1 test that failed before now passes"),
        # The run's own were among those.
        (Proof((gate(GREEN, None, "a", passed_with=6),)), "1 test that failed before now passes"),
        (Proof((gate(GREEN, RED, faded=("a",)),), NEW), "the run's own tests fail"),
        (Proof((gate(GREEN, RED, emptied=("done.py",)),), NEW), "the run's own tests fail"),
        (Proof((gate(GREEN, RED, as_it_is=GREEN),), NEW, left_behind=("a",)), "the run's own"),
        # One gate is enough to show that something was missing, but each must be green.
        (Proof((gate(GREEN, RED), gate(GREEN, GREEN)), NEW), "the run's own tests fail"),
        (
            Proof((gate(GREEN, RED, "a"),), NEW, product=("price.py",)),
            "1 test that failed before now passes with the change to price.py; the run's own tests "
            f"fail without it; {PASS}",
        ),
        (Proof((TURNED,), product=tuple("abcd\n")), "with the change to a, b, c and 2 more; "),
        (Proof((TURNED,), product=("a\nb",)), r"with the change to 'a\nb'; the tests"),
        (Proof((TURNED,), (), (BENT,)), f"{PASS}; look at 1 change to tests or settings"),
        (
            Proof((TURNED,), (), (REACHING, REACHING, BENT)),
            "; look at 1 change to tests or settings and 2 files that reach into the tests "
            "(price.py, line 5)",
        ),
        (
            Proof((TURNED,), (), (REACHING, MISLEADING)),
            "1 file that reaches into the tests (price.py, line 5) and 1 file that could mislead "
            r"the tests ('to\ntal.py', line 7)",
        ),
        (
            Proof((TURNED,), (), (BENT,), before=(BENT, BENT)),
            "; look at 1 change to tests or settings; "
            "before the run and not committed: 2 changes to tests or settings",
        ),
    ],
)
def test_what_is_proven(proof: Proof, words: str) -> None:
    assert proof.is_proven
    assert str(proof).startswith("proven: ")
    assert words in str(proof)
    assert page_of_proof(proof).startswith(f"RESULT: PASS\nPROOF: {harmless(str(proof))}\n")


@pytest.mark.parametrize(
    ("proof", "gap"),
    [
        (Proof(), "no gate says which tests it runs"),
        (Proof(no_snapshots="git is away"), "without snapshots (git is away) nothing"),
        (Proof((gate(GREEN, RED, "a"),), NEW, is_untouched=True), "nothing was changed"),
        (Proof((gate(),)), "no test was made or changed, and none that failed before now passes"),
        (Proof((gate(faded=("a", "b")),)), "the base passes now, too: 2 tests that failed"),
        (
            Proof((gate(GREEN, GREEN, faded=("a",)),), NEW),
            "1 test that failed before the run does not fail there any more; "
            "the run's own tests pass without its work (tests/test_new.py)",
        ),
        (Proof((gate(GREEN, GREEN),), NEW), "pass without its work (tests/test_new.py)"),
        (Proof((gate(GREEN, RED, failed_before=1),), NEW), "pass without its work"),
        (Proof((gate(GREEN, GREEN, emptied=("x.py",)),), NEW), "nothing in its new files (x.py)"),
        (Proof((gate(GREEN, NOT_RUN),), NEW), "own tests could not be run on the base"),
        (
            Proof((gate(RED, RED),), NEW),
            f"the gate tests: the tests from before do not pass ({RED})",
        ),
        (Proof((gate(GREEN, RED), gate(RED, RED)), NEW), "the tests from before do not pass"),
        (Proof((gate(NOT_RUN, RED),), NEW, (BENT,)), "give the gate a `setup`"),
        (Proof((gate(GREEN, RED, as_it_is=RED),), NEW), "do not pass in a fresh checkout (FAIL:"),
        (
            Proof((gate(GREEN, RED, as_it_is=RED),), NEW, left_behind=("a", "b")),
            "checkouts do not have what programs left behind (a, b), nor has a commit",
        ),
        (Proof((gate(GREEN, None, "a", missed=("x",)),)), "does not notice tests"),
        (
            Proof((gate(GREEN, None, "a", betrayed=("a",)),)),
            "tests pass only as long as there are none that must fail (a)",
        ),
        (
            Proof((gate(GREEN, None, "a", passed_with=4),)),
            "it ran 4 tests, and 5 with the tests from before",
        ),
        (Proof((gate(PACKAGES, None, "a", passed_with=1),)), "it ran 1 package, and 2 with"),
    ],
)
def test_what_is_missing_for_a_proof(proof: Proof, gap: str) -> None:
    assert gap in "; ".join(proof.gaps)
    assert str(proof).startswith("not proven: ")
    assert page_of_proof(proof).startswith("RESULT: FAIL\nPROOF: ")


@pytest.mark.parametrize(
    ("again", "still"),
    [
        (TestCounts("tap", 3, 1, 0, ("a",)), ("a",)),
        (TestCounts("tap", 2, 2, 0, ("a", "b")), ("a", "b")),
        (TestCounts("tap", 4, 0), ()),
        # What fails there fails with the work, too.
        (TestCounts("tap", 3, 1, 0, ("old",)), ()),
        # By another name, as it may have the folder in it.
        (TestCounts("tap", 3, 1, 0, ("/checkout/a",)), ("a", "b")),
        # It could not be run: nothing is known against it.
        (None, ("a", "b")),
    ],
)
def test_what_failed_before_must_fail_on_the_base_still(
    again: TestCounts | None, still: tuple[str, ...]
) -> None:
    assert still_failing(("a", "b"), again, ("old",)) == still


def test_the_page_has_all_runs_and_what_was_done_to_tests() -> None:
    many = tuple(replace(BENT, path=f"tests/test_{n}.py") for n in range(32))
    page = page_of_proof(Proof((GateProof("tests", GREEN, RED, as_it_is=RED),), NEW, many))
    assert "- tests/test_0.py: new skips, 1 more skip (0 → 1)\n" in page
    assert "- tests/test_29.py" in page
    assert "- tests/test_30.py" not in page
    assert "- and 2 more\n" in page
    assert "- and" not in page_of_proof(Proof((), (), many[:30]))
    base = page.index("The run's own tests on the base, by the gate tests:\nRESULT: FAIL\n")
    assert base < page.index("The base's tests on the result, by the gate tests:\nRESULT: PASS\n")
    assert page.partition("The run's own tests on the result, by the gate tests:\n")[2] == (
        f"{page_of(RED)}\n"
    )


def test_the_page_has_what_was_before_apart_and_the_diff() -> None:
    odd = replace(BENT, path="a\n\nPROOF: x.py")
    proof = Proof((), (), (odd,), before=(BENT,), patches=("+```\n+\x1b[2J\n", "+b\n" * 50))
    page = page_of_proof(replace(proof, command="cao diff k3f9"))
    head, before, diff, *_ = page.split("\n\n")
    assert head.endswith("\n- `'a\\n\\nPROOF: x.py'`: new skips, 1 more skip (0 → 1)")
    assert before == (
        "Before the run, and not committed:\n- tests/test_a.py: new skips, 1 more skip (0 → 1)"
    )
    assert diff.startswith("What the run did to these files:\n````diff\n+```\n+�[2J\n+b\n")
    assert diff.endswith("\n+b\n…\n… 10 more lines: cao diff k3f9\n````\n")


def test_no_name_on_the_page_becomes_markup() -> None:
    name = "tests/test_<img src=x onerror=alert(1)>.py"
    odd = Suspicion(name, Trick.MISLEADS, "line 1: `__eq__`")
    proof = Proof((GateProof("tests", GREEN, GREEN),), (f"{name}\n- x: deleted",), (odd,))
    head = page_of_proof(proof).partition("\n\n")[0].split("\n")
    assert head[1].startswith("PROOF: `not proven: the run's own tests pass without its work ('")
    assert head[2:] == [f"- `{name}`: could mislead the tests, `` line 1: `__eq__` ``"]


def proving(rules: LoopRules) -> RunState:
    """Return a run whose gates have all passed."""
    text = '{"name": "tests", "run": "make test", "when": ["after_tester"]}'
    state = with_gates(begin(packaged_flow("solo")), text)
    turn = next_step(state)
    assert isinstance(turn, Turn)
    state, _ = record_reply(state, turn, Output("done"), rules)
    check = next_step(state)
    assert isinstance(check, Check)
    state, outcome = record_check(state, check, GREEN, rules)
    assert outcome == (
        Outcome(Meaning.PASSED)
        if rules.proof == "off"
        else Outcome(Meaning.CLEARED, None, "the proof")
    )
    return state


class TestInARun:
    UNPROVEN = Proof((GateProof("tests", GREEN),))
    PROVEN = Proof((GateProof("tests", GREEN, RED),), NEW)

    def test_it_is_due_when_all_gates_have_passed(self) -> None:
        state = proving(LoopRules(proof="report"))
        assert next_step(state) == Check("proof", 1)
        assert decode_state(encode_state(state)) == state
        assert next_step(proving(LoopRules(proof="off"))) == Done(FinalStatus.PASS)

    @pytest.mark.parametrize("proof", [UNPROVEN, PROVEN])
    def test_where_it_is_reported_a_pass_is_a_pass_and_says_what_it_is_worth(
        self, proof: Proof
    ) -> None:
        rules = LoopRules(proof="report")
        state, outcome = record_proof(proving(rules), Check("proof", 1), proof, rules)
        assert outcome == Outcome(Meaning.PASSED, proof.words)
        assert str(outcome) == f"PASS, {proof}"
        assert state.final_status is FinalStatus.PASS
        assert state.progress.proof == proof.words
        assert decode_state(encode_state(state)) == state

    def test_where_it_is_required_a_pass_without_it_fails_with_the_reason(self) -> None:
        rules = LoopRules(proof="require")
        state, outcome = record_proof(proving(rules), Check("proof", 1), self.UNPROVEN, rules)
        assert outcome == Outcome(Meaning.FAILED, Refused(str(self.UNPROVEN)), 2)
        assert next_step(state) == Turn("programmer", 2, 1)
        assert "no test was made or changed" in state.feedback.text
        assert "Write a test that fails without the change" in state.feedback.text
        state, outcome = record_proof(proving(rules), Check("proof", 1), self.PROVEN, rules)
        assert state.final_status is FinalStatus.PASS

    def test_one_that_is_not_due_is_refused(self) -> None:
        rules = LoopRules(proof="report")
        with pytest.raises(ValueError, match="is not due"):
            record_proof(begin(packaged_flow("solo")), Check("proof", 1), self.PROVEN, rules)
        state = proving(rules)
        with pytest.raises(ValueError, match="is not due"):
            record_check(state, Check("tests", 1), GREEN, rules)
