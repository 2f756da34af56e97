"""Looks at the work folder after each turn and gate, and tells what that did to it."""

from collections.abc import Iterable
from dataclasses import replace

from cli_agent_orchestrator._internal.characters import first_names
from cli_agent_orchestrator._internal.config import LoopRules
from cli_agent_orchestrator._internal.gates import Gate
from cli_agent_orchestrator._internal.pipeline.state import Dispatch
from cli_agent_orchestrator._internal.pipeline.work import Work
from cli_agent_orchestrator._internal.runs.events import Origin, files_changed
from cli_agent_orchestrator._internal.runs.ledger import Ledger
from cli_agent_orchestrator._internal.runs.plan import Plan
from cli_agent_orchestrator._internal.runs.work.work_folder import ABOUT_REPOSITORY, ABOUT_SNAPSHOTS
from cli_agent_orchestrator.errors import RunError

MOST_CHANGES = 50
"""Changes to the repository that a warning names: each may have the command that brings it back."""


def in_need_of_snapshots(rules: LoopRules, readonly_roles: str, gates: Iterable[Gate]) -> str:
    """Say which settings there is no way to go by without snapshots; empty if there are none."""
    asked = {
        "REVIEW_BOUND=require (say --review-bound show)": rules.is_review_bound,
        "PROOF=require (say --proof report)": rules.proof == "require",
        "READONLY_ROLES=restore (say --readonly-roles warn)": readonly_roles == "restore",
    }
    clean = (f"clean=true of the gate {gate.name} (leave it out)" for gate in gates if gate.clean)
    return " and ".join([*(text for text, is_asked in asked.items() if is_asked), *clean])


class Looks:
    """The looks of one run."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._unreviewed: tuple[str, ...] = ()
        self._has_begun = False

    def begin(self, plan: Plan, replied: Dispatch | None = None) -> None:
        """Keep the work folder as it is before anything is done; a second time does nothing.

        What was looked at after a turn that has its reply already is not looked at again.
        """
        if self._has_begun:
            return
        self._has_begun = True
        ledger = self._ledger
        in_flight = ledger.state.progress.in_flight
        had_snapshots = plan.work.snapshots is not None
        sequence, remarks = plan.work.begin(
            ledger.next_sequence() - 1,
            is_in_flight=in_flight is not None,
            replied=None if replied is None else (replied.sequence, replied.turn.role),
        )
        if had_snapshots and plan.work.snapshots is None:
            why = plan.work.why_no_snapshots
            text = f"what is done to the work folder can not be undone: {why}"
            ledger.warn(text, ABOUT_SNAPSHOTS)
        for remark in remarks:
            ledger.warn(remark)
        if changed := plan.work.changed_before:
            text = "the repository was changed, by agents or by you, since the run was interrupted"
            ledger.warn(f"{text}: {first_names(changed, MOST_CHANGES)}", ABOUT_REPOSITORY)
        if plan.work.snapshots is None:
            needy = in_need_of_snapshots(plan.rules, plan.readonly_roles, ledger.state.gates)
            if needy:
                raise RunError(
                    f"without snapshots ({plan.work.why_no_snapshots}) there is no way to go by "
                    f"{needy}: resume the run with that changed, or when they can be taken"
                )
        ledger.count_to(sequence)

    def look(self, plan: Plan, origin: Origin, *, is_author: bool) -> Work:
        """Keep the work folder after a turn or a gate, and return what it has come to.

        What was changed by somebody whose task it is not may be put back.
        """
        ledger = self._ledger
        sequence, who = origin.sequence, origin.who
        approved = ledger.state.progress.approved_tree
        seen = plan.work.look(sequence, who, approved)
        if seen.repository:
            names = first_names(seen.repository, MOST_CHANGES)
            text = f"the repository was changed while {who} was at work: {names}"
            ledger.warn(text, ABOUT_REPOSITORY)
        if seen.left_out:
            left = [f"{one.path} ({one.reason})" for one in seen.left_out]
            ledger.warn(
                f"in no snapshot since {who} was at work: {first_names(left)}; cao can not put "
                "back what was done there"
            )
        if not seen.touched and not seen.not_kept:
            return seen.work
        told = files_changed(ledger.now, origin, seen)
        mode = plan.readonly_roles
        if not is_author and mode != "off":
            is_restored = mode == "restore" and bool(seen.restorable)
            told = replace(told, allowed=False, restored=is_restored)
            if told.restored:
                next_number = max(sequence + 1, ledger.next_sequence())
                seen = plan.work.put_back(next_number, who, seen, approved)
                ledger.count_to(next_number)
        ledger.tell(told)
        self._show_unreviewed(plan, seen.work)
        return seen.work

    def _show_unreviewed(self, plan: Plan, work: Work) -> None:
        """Say once that files are not as they were approved."""
        files = tuple(one for one in work.since_review if one not in self._unreviewed)
        self._unreviewed = work.since_review
        if files and not plan.rules.is_review_bound:
            self._ledger.warn(f"changed after the approval: {first_names(files)}")
