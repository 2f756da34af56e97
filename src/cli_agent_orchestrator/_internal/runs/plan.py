"""By which rules a run goes, and what its prompts are made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cli_agent_orchestrator._internal.config import HandoffRules, LoopRules
from cli_agent_orchestrator._internal.pipeline.prompts import Briefing
from cli_agent_orchestrator._internal.run_config import read_gate_timeout, read_handoff, read_rules
from cli_agent_orchestrator._internal.runs.gates.checking import GatePlace
from cli_agent_orchestrator._internal.runs.work.work_folder import WorkFolder


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run goes by; a person may change its settings under way."""

    briefing: Briefing
    rules: LoopRules
    handoff: HandoffRules
    gate_place: GatePlace | None = None
    """Where its gates are run; None if it has none."""
    work: WorkFolder = field(default_factory=lambda: WorkFolder(None))
    readonly_roles: str = "warn"
    """What is done when somebody changes files whose task it is not: warn, restore, off."""
    since: float = 0.0
    """When the run was taken up, in unix time; some of what was asked before is out of date."""
    run: str = ""
    """How a person names the run; empty if it has no name."""

    def with_settings(self, settings: Mapping[str, str]) -> "Plan":
        """Return the plan that goes by these settings, by variable name."""
        rules = read_rules(settings)
        place = self.gate_place and replace(self.gate_place, seconds=read_gate_timeout(settings))
        briefing = replace(self.briefing, condensation=rules.condensation)
        return replace(
            self, briefing=briefing, rules=rules, handoff=read_handoff(settings), gate_place=place
        )
