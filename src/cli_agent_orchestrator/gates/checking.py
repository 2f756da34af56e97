"""Runs the gates of a run: each in its folder, its output kept, its tests counted."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import IO

from ..core.files import Folder
from ..proof.counts import read_counts, read_junit
from ..settings.gates import Gate
from ..settings.layout import GATES_FOLDER
from ..work.folder import WorkFolder
from .check import BaseResult, CheckResult, judge_check
from .command import GateCommand, GateRunner, ignore_line
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
    on_line: Callable[[str], None] = field(default=ignore_line, repr=False)
    """Takes the last line of the output, now and then."""
    most_logged: int = LARGEST_LOGS
    """Bytes of all logs of a run together; the oldest go."""

    @property
    def mark(self) -> str:
        """By which processes of the run's gates are known; the id of the run, if there is one."""
        return self.run_folder.parts[-1] if self.run_folder is not None else uuid.uuid4().hex


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
        """Return what a gate says of the work folder as it is; raise `Stopped` at a stop."""
        if not gate.clean and not work.holds_back:
            result = self.run_in(gate, place, log_name)
        else:
            with work.laid_out(work.now.commit if work.now else "") as folder:
                result = self.run_fresh(gate, replace(place, folder=folder), log_name)
        return judge_check(result, base, allow_base_failures=gate.allow_base_failures)

    def run_fresh(self, gate: Gate, place: GatePlace, log_name: str) -> CheckResult:
        """Return what a gate says of a fresh checkout, which it prepares first."""
        if gate.setup:
            ready = self.run_in(replace(gate, run=gate.setup, junit=""), place, f"{log_name}-setup")
            if not ready.passed:
                return replace(ready, counts=None)
        return self.run_in(gate, place, log_name)

    def run_in(self, gate: Gate, place: GatePlace, log_name: str) -> CheckResult:
        """Return what a gate says in a folder, before it is judged."""
        seconds = gate.seconds or place.seconds
        before: tuple[str, ...] = ()
        if gate.sandbox:
            found = self._find_sandbox()
            if found.sandbox is None:
                return CheckResult(gate.run, None, "", seconds, fault=found.problem)
            before = sandbox_words(found.sandbox, place.folder)
        command = GateCommand(
            gate.run, seconds, place.folder, place.environ, before, mark=place.mark
        )
        report = ResultFile(place.folder, gate.junit)
        with _log(place.run_folder, f"{log_name}.log") as log:
            ending = self._runner.run(command, log, place.on_line)
        if place.run_folder is not None:
            _remove_oldest(_logs_of(place.run_folder), place.most_logged)
        result = CheckResult(
            command=gate.run,
            exit_code=ending.exit_code,
            output=ending.output,
            limit=seconds,
            counts=read_counts(ending.output),
            fault=ending.fault,
            log=_log_path(place.run_folder, log_name) if log else "",
            left_out=ending.left_out,
            sandboxed=gate.sandbox,
        )
        if not gate.junit or ending.exit_code is None:
            return result
        counts = read_junit(report.read_new())
        missing = () if counts else (f"wrote no test report to {gate.junit}",)
        return replace(result, counts=counts, objections=missing)


class ResultFile:
    """A file in which a test runner tells its results; what was there before does not count."""

    def __init__(self, folder: Path, path: str) -> None:
        *parts, self._name = PurePosixPath(path).parts or ("",)
        self._folder = Folder(folder, tuple(parts))
        self._before = self._state() if path else None

    def read_new(self) -> str:
        """Return what it says; nothing if it was not written since."""
        with suppress(OSError):
            if self._state() != self._before:
                return self._folder.read(self._name).decode(errors="replace")
        return ""

    def _state(self) -> tuple[int, ...] | None:
        try:
            found = self._folder.status(self._name)
        except OSError:
            return None
        return found and (found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size)


@contextmanager
def _log(folder: Folder | None, name: str) -> Iterator[IO[bytes] | None]:
    """Yield the file for what a gate writes; without one, the run goes on all the same."""
    log: IO[bytes] | None = None
    if folder is not None:
        logs = _logs_of(folder)
        with suppress(OSError):
            logs.remove(name)
            log = logs.append(name)
    try:
        yield log
    finally:
        if log is not None:
            # The disk may be full.
            with suppress(OSError):
                log.close()


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


def _logs_of(folder: Folder) -> Folder:
    return Folder(folder.root, (*folder.parts, GATES_FOLDER), folder.private)


def _log_path(folder: Folder | None, log_name: str) -> str:
    assert folder is not None, "there is a log"
    return str(folder.path / GATES_FOLDER / f"{log_name}.log")
