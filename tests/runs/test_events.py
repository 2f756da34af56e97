"""Events made from what a run decides by."""

from dataclasses import replace

from cli_agent_orchestrator.errors import HandoffTimeout, RunError, RunLocked
from cli_agent_orchestrator.pipeline.state import FinalStatus, RunState
from cli_agent_orchestrator.proof.verdict import ProofWords
from cli_agent_orchestrator.runs.run import run_ended
from tests.pipeline.samples import new_state


def passed(proof: ProofWords) -> RunState:
    state = new_state()
    progress = replace(state.progress, proof=proof)
    return replace(state, final_status=FinalStatus.PASS, progress=progress)


def test_the_end_of_a_run_has_each_part_of_what_was_proven() -> None:
    proven = passed(ProofWords(True, "it is", "1 change", "2 changes"))
    shown = run_ended(9.0, proven, 0, "")
    assert shown.proof == (
        "proven: it is; look at 1 change; before the run and not committed: 2 changes"
    )
    assert (shown.proven, shown.gaps) == (True, "")
    assert (shown.look_at, shown.before) == ("1 change", "2 changes")
    missing = run_ended(9.0, passed(ProofWords(False, "no tests")), 0, "")
    assert (missing.proof, missing.proven) == ("not proven: no tests", False)
    assert (missing.gaps, missing.look_at, missing.before) == ("no tests", "", "")


def test_the_end_of_a_run_names_the_command_that_its_error_has() -> None:
    late = HandoffTimeout("it took too long", to_resume="cao resume k3f9")
    assert str(late) == "it took too long"
    assert run_ended(9.0, None, 3, "", late).to_resume == "cao resume k3f9"
    assert run_ended(9.0, None, 3, "", RunError("`cao resume k3f9`")).to_resume == ""
    assert run_ended(9.0, None, 3, "", RunLocked("x")).error == "RunLocked"
