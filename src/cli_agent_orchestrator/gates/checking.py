"""Runs the gates of a run: each in its folder, its output kept, its tests counted."""

import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import IO

from ..core.files import Folder
from ..settings.gates import Gate
from ..settings.layout import GATES_FOLDER
from ..work.folder import WorkFolder
from .check import BaseResult, CheckResult, judge_check
from .command import GateCommand, GateRunner, ignore
from .counts import read_junit
from .runners import read_counts
from .sandbox import Search, find_sandbox, sandbox_words

LARGEST_LOGS = 100 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class GatePlace:
    """Where gates are run, and with what."""

    folder: Path
    """The work folder."""
    seconds: float
    """The time limit of those that name none."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    run_folder: Folder | None = None
    """Where the output is kept; None if there is no such folder."""
    on_line: Callable[[str], None] = field(default=ignore, repr=False)
    """Takes the last line of the output, now and then."""
    most_logged: int = LARGEST_LOGS
    """Bytes of all logs of a run together; the oldest are removed."""


class Checker:
    """Runs one gate at a time."""

    def __init__(
        self, runner: GateRunner, find_sandbox: Callable[[], Search] = find_sandbox
    ) -> None:
        self._runner = runner
        self._find_sandbox = find_sandbox

    def run(
        self,
        gate: Gate,
        place: GatePlace,
        work: WorkFolder,
        log_name: str,
        base: BaseResult | None = None,
    ) -> CheckResult:
        """Return the judged result of a gate on the work folder as it is."""
        if not gate.clean and not work.holds_back:
            result = self.run_in(gate, place, log_name)
        else:
            with work.laid_out(work.now.tree if work.now else "") as folder:
                result = self.run_fresh(gate, replace(place, folder=folder), log_name)
        return judge_check(result, base, allow_base_failures=gate.allow_base_failures)

    def run_fresh(self, gate: Gate, place: GatePlace, log_name: str) -> CheckResult:
        """Return the result of a gate in a fresh checkout, which its setup prepares first."""
        if gate.setup:
            ready = self.run_in(replace(gate, run=gate.setup, junit=""), place, f"{log_name}-setup")
            if not ready.passed:
                return replace(ready, counts=None)
        return self.run_in(gate, place, log_name)

    def run_in(self, gate: Gate, place: GatePlace, log_name: str) -> CheckResult:
        """Return the result of a gate in a folder, before it is judged; `Stopped` at a stop."""
        seconds = gate.seconds or place.seconds
        kept = place.run_folder
        before: tuple[str, ...] = ()
        if gate.sandbox:
            found = self._find_sandbox()
            if found.sandbox is None:
                return CheckResult(gate.run, None, "", seconds, fault=found.problem)
            before = sandbox_words(found.sandbox, place.folder, [kept.root] if kept else [])
        mark = kept.parts[-1] if kept else uuid.uuid4().hex
        command = GateCommand(gate.run, seconds, place.folder, place.environ, before, mark)
        report_before = _report_of(gate, place.folder)
        logs = Folder(kept.root, (*kept.parts, GATES_FOLDER), kept.private) if kept else None
        log: IO[bytes] | None = None
        if logs:
            with suppress(OSError):
                logs.remove(f"{log_name}.log")
                log = logs.append(f"{log_name}.log")
        try:
            result = self._runner.run(command, log, place.on_line)
        finally:
            if log:
                # The disk may be full.
                with suppress(OSError):
                    log.close()
        if logs:
            _remove_oldest(logs, place.most_logged)
        result = replace(
            result,
            counts=read_counts(result.output),
            log=str(logs.path / f"{log_name}.log") if logs and log else "",
            sandboxed=gate.sandbox,
        )
        if not gate.junit or result.exit_code is None:
            return result
        # A report from before does not count.
        report = _report_of(gate, place.folder)
        counts = read_junit(report[1]) if report[0] != report_before[0] else None
        missing = () if counts else (f"wrote no test report to {gate.junit}",)
        return replace(result, counts=counts, objections=missing)


def _report_of(gate: Gate, folder: Path) -> tuple[tuple[int, ...], str]:
    """Return the state and the text of the file to which a test runner writes its results."""
    *parts, name = PurePosixPath(gate.junit).parts or ("",)
    place = Folder(folder, tuple(parts))
    with suppress(OSError):
        if name and (found := place.status(name)):
            state = (found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size)
            return state, place.read(name).decode(errors="replace")
    return (), ""


def _remove_oldest(logs: Folder, most: int) -> None:
    """Remove logs until they have no more bytes than that together; the last one stays."""
    with suppress(OSError):
        found = [(status, name) for name in logs.names() if (status := logs.status(name))]
        newest_first = sorted(found, key=lambda one: one[0].st_mtime_ns, reverse=True)
        total = 0
        for number, (status, name) in enumerate(newest_first):
            total += status.st_size
            if number and total > most:
                logs.remove(name)
