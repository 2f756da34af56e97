"""Runs the gates of a run: each in its folder, its output kept, its tests counted."""

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from cli_agent_orchestrator.gates import Gate
from cli_agent_orchestrator.layout import GATES_FOLDER
from cli_agent_orchestrator.pipeline.check import BaseResult, CheckResult, judge_check
from cli_agent_orchestrator.pipeline.counts import read_counts
from cli_agent_orchestrator.plain_files import Folder
from cli_agent_orchestrator.runs.gate import GateCommand, GateRunner


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
        self, gate: Gate, place: GatePlace, sequence: int, base: BaseResult | None
    ) -> CheckResult:
        """Return what a gate says; raise `Stopped` if the run is to stop."""
        seconds = gate.seconds or place.seconds
        command = GateCommand(gate.run, seconds, place.folder, place.environ)
        with ExitStack() as stack:
            log = _open_log(place.run_folder, f"{sequence:03d}-{gate.name}.log", stack)
            ending = self._runner.run(command, log)
        result = CheckResult(
            command=gate.run,
            exit_code=ending.exit_code,
            output=ending.output,
            limit=seconds,
            counts=read_counts(ending.output),
        )
        return judge_check(result, base, allow_base_failures=gate.allow_base_failures)


def _open_log(folder: Folder | None, name: str, stack: ExitStack) -> IO[bytes] | None:
    """Open the file for all that a gate writes; without one, the run goes on all the same."""
    if folder is None:
        return None
    logs = Folder(folder.root, (*folder.parts, GATES_FOLDER), folder.private)
    with suppress(OSError):
        logs.remove(name)
        return stack.enter_context(logs.append(name))
    return None
