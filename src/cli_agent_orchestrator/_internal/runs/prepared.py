"""What a run is made of before anything of it is started."""

from collections.abc import Mapping
from dataclasses import dataclass

from cli_agent_orchestrator._internal.pipeline.flow import Flow
from cli_agent_orchestrator._internal.pipeline.task import Task
from cli_agent_orchestrator._internal.run_config import RunConfig


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that can begin, or go on."""

    config: RunConfig
    flow: Flow
    task: Task
    run_id: str

    @property
    def providers(self) -> Mapping[str, str]:
        """The agent of each role, if they are to be started."""
        return {role.name: self.config.provider_of(role.name) for role in self.flow.roles}
