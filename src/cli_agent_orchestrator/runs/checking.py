"""Runs the gates of a run: each in its folder, its output kept, its tests counted."""

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from cli_agent_orchestrator.gates import Gate
from cli_agent_orchestrator.layout import GATES_FOLDER
from cli_agent_orchestrator.pipeline.check import BaseResult, CheckResult, judge_check
from cli_agent_orchestrator.pipeline.counts import read_counts
from cli_agent_orchestrator.plain_files import Folder
from cli_agent_orchestrator.runs.gate import Ending, GateCommand, GateRunner
from cli_agent_orchestrator.runs.work_folder import WorkFolder


@dataclass(frozen=True, slots=True)
class GatePlace:
    """Where gates are run, and with what."""

    folder: Path
    """The work folder."""
    seconds: float
    """The time limit of those that name none."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    run_folder: Folder | None = None
    """Where the whole output is kept; None if there is no such folder."""


class Checker:
    """Runs one gate at a time."""

    def __init__(self, runner: GateRunner) -> None:
        self._runner = runner

    def run(
        self,
        gate: Gate,
        place: GatePlace,
        work: WorkFolder,
        log_name: str,
        base: BaseResult | None = None,
    ) -> CheckResult:
        """Return what a gate says of the work folder as it is; raise `Stopped` at a stop."""
        if not gate.clean or work.now is None:
            result = self.run_in(gate, place, log_name)
        else:
            with work.laid_out(work.now.commit) as folder:
                result = self.run_fresh(gate, replace(place, folder=folder), log_name)
        return judge_check(result, base, allow_base_failures=gate.allow_base_failures)

    def run_fresh(self, gate: Gate, place: GatePlace, log_name: str) -> CheckResult:
        """Return what a gate says of a fresh checkout, which it prepares first."""
        if gate.setup:
            ready = self.run_in(replace(gate, run=gate.setup), place, f"{log_name}-setup")
            if not ready.passed:
                return replace(ready, counts=None)
        return self.run_in(gate, place, log_name)

    def run_in(self, gate: Gate, place: GatePlace, log_name: str) -> CheckResult:
        """Return what a gate says in a folder, before it is judged."""
        seconds = gate.seconds or place.seconds
        with ExitStack() as stack:
            log = _open_log(place.run_folder, f"{log_name}.log", stack)
            command = GateCommand(gate.run, seconds, place.folder, place.environ)
            ending: Ending = self._runner.run(command, log)
        return CheckResult(
            command=gate.run,
            exit_code=ending.exit_code,
            output=ending.output,
            limit=seconds,
            counts=read_counts(ending.output),
        )


def _open_log(folder: Folder | None, name: str, stack: ExitStack) -> IO[bytes] | None:
    """Open the file for all that a gate writes; without one, the run goes on all the same."""
    if folder is None:
        return None
    logs = Folder(folder.root, (*folder.parts, GATES_FOLDER), folder.private)
    with suppress(OSError):
        logs.remove(name)
        return stack.enter_context(logs.append(name))
    return None
