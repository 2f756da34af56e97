"""The turns of gates: a command is run instead of an agent asked, and judged like a reply."""

from dataclasses import replace

from cli_agent_orchestrator._internal.gates import PROOF, Gate, When
from cli_agent_orchestrator._internal.pipeline.check import (
    CheckResult,
    doubt_on_base,
    page_of,
    refusal_on_base,
    resume_with_another,
)
from cli_agent_orchestrator._internal.pipeline.machine import Check, record_check, record_proof
from cli_agent_orchestrator._internal.pipeline.proof import page_of_proof
from cli_agent_orchestrator._internal.pipeline.state import RunState
from cli_agent_orchestrator._internal.runs.events import (
    Origin,
    check_began,
    check_ended,
    check_output,
)
from cli_agent_orchestrator._internal.runs.gates.checking import Checker, GatePlace
from cli_agent_orchestrator._internal.runs.gates.gate import GateRunner
from cli_agent_orchestrator._internal.runs.gates.proving import Prover
from cli_agent_orchestrator._internal.runs.ledger import Ledger
from cli_agent_orchestrator._internal.runs.looking import Looks
from cli_agent_orchestrator._internal.runs.plan import Plan
from cli_agent_orchestrator._internal.runs.records.journal import gate_record
from cli_agent_orchestrator.errors import RunError
from cli_agent_orchestrator.events import CheckBegan, CheckEnded

PROOF_WORDS = "new tests on the base, the base's tests on the result"


class GateTurns:
    """Runs what a flow checks by itself; what was interrupted is simply run again."""

    def __init__(self, ledger: Ledger, looks: Looks, runner: GateRunner) -> None:
        self._ledger = ledger
        self._looks = looks
        self._checker = Checker(runner)

    def take(self, check: Check, plan: Plan) -> None:
        """Run a gate, or find out what the work is worth beyond that its gates pass."""
        if check.gate == PROOF:
            self._prove(check, plan)
        else:
            self._run(check, plan)

    def _run(self, check: Check, plan: Plan) -> None:
        ledger, place = self._ledger, plan.gate_place
        gate = next((one for one in ledger.state.gates if one.name == check.gate), None)
        if gate is None or place is None:
            raise RunError(f"the flow has a gate, {check.gate}, and there is no command for it")
        sequence = ledger.next_sequence()
        began = check_began(ledger.now, check, sequence, gate.run, ledger.state.flow.last_work)
        ledger.tell(began)
        base = ledger.state.progress.base.get(gate.name)
        log_name = f"{sequence:03d}-{gate.name}"
        result = self._checker.run(gate, self._telling(place, began), plan.work, log_name, base)
        if check.when is When.BASE:
            self._heed_base(gate, result, plan.run)
        archive = ledger.records.files.archive_text(check.gate, sequence, page_of(result))
        result = replace(result, archive=str(archive))
        work = self._looks.look(plan, Origin(check.gate, check.round, sequence), is_author=True)
        state, outcome = record_check(ledger.state, check, result, plan.rules, work)
        ended = check_ended(began, ledger.now, outcome, str(archive))
        detail = "; ".join(filter(None, (ended.detail, result.about_log)))
        self._end(state, replace(ended, log=result.log, detail=detail))

    def _heed_base(self, gate: Gate, result: CheckResult, run: str) -> None:
        """Stop where a gate cannot be run at all, and say where it may never pass."""
        if refusal := refusal_on_base(gate, result, run):
            raise RunError(refusal, to_resume=resume_with_another(gate, run))
        if doubt := doubt_on_base(gate, result):
            self._ledger.warn(doubt)

    def _telling(self, place: GatePlace, began: CheckBegan) -> GatePlace:
        """Return the place of a gate whose last line is told."""

        def tell(line: str) -> None:
            self._ledger.tell(check_output(began, self._ledger.now, line))

        return replace(place, on_line=tell)

    def _prove(self, check: Check, plan: Plan) -> None:
        ledger, place = self._ledger, plan.gate_place
        assert place is not None, "the gates were run somewhere"
        sequence = ledger.next_sequence()
        began = check_began(ledger.now, check, sequence, PROOF_WORDS, ledger.state.flow.last_work)
        ledger.tell(began)
        state = ledger.state
        prover = Prover(self._checker, self._telling(place, began), plan.work)
        proof = prover.prove(
            state.gates, state.progress.base, state.progress.passed, f"{sequence:03d}-{PROOF}"
        )
        page = page_of_proof(proof, f"cao diff {plan.run}" if plan.run else "")
        archive = ledger.records.files.archive_text(PROOF, sequence, page)
        # What was asked for meanwhile has changed the state.
        state = ledger.state
        work = plan.work.kept(state.progress.approved_tree)
        state, outcome = record_proof(state, check, proof, plan.rules, work)
        self._end(state, check_ended(began, ledger.now, outcome, str(archive)))

    def _end(self, state: RunState, ended: CheckEnded) -> None:
        """Save what follows from a gate, and tell it."""
        self._ledger.enter(gate_record(ended), state)
        self._ledger.tell(ended)
