"""Events made from what a run decides by."""

from cli_agent_orchestrator.errors import HandoffTimeout, RunError, RunLocked
from cli_agent_orchestrator.events import RunEnded
from cli_agent_orchestrator.proof.verdict import ProofWords
from cli_agent_orchestrator.runs.events import with_error, with_proof

ENDED = RunEnded(9.0, "PASS", 1, 0)


def test_the_end_of_a_run_has_each_part_of_what_was_proven() -> None:
    shown = with_proof(ENDED, ProofWords(True, "it is", "1 change", "2 changes"))
    assert shown.proof == (
        "proven: it is; look at 1 change; before the run and not committed: 2 changes"
    )
    assert (shown.proven, shown.gaps) == (True, "")
    assert (shown.look_at, shown.before) == ("1 change", "2 changes")
    missing = with_proof(ENDED, ProofWords(False, "no tests"))
    assert (missing.proof, missing.proven) == ("not proven: no tests", False)
    assert (missing.gaps, missing.look_at, missing.before) == ("no tests", "", "")


def test_the_end_of_a_run_names_the_command_that_its_error_has() -> None:
    late = HandoffTimeout("it took too long", to_resume="cao resume k3f9")
    assert str(late) == "it took too long"
    assert with_error(ENDED, late).to_resume == "cao resume k3f9"
    assert with_error(ENDED, RunError("`cao resume k3f9`")).to_resume == ""
    assert with_error(ENDED, RunLocked("x")).error == "RunLocked"
    assert with_error(ENDED, None) == ENDED
