"""Runs that have ended and left snapshots of a real folder."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.events import RunEnded, RunEvent
from cli_agent_orchestrator.runs.record import RunRecord, read_record, write_record
from cli_agent_orchestrator.runs.recorder import Recorder
from cli_agent_orchestrator.settings.layout import SNAPSHOTS_FOLDER
from cli_agent_orchestrator.work.git import find_repository
from cli_agent_orchestrator.work.snapshots import Snapshots
from tests.work.projects import make_repository, write

RUN = "20261115-084037-k3f9"


def make_run(state: Path, wd: Path, run: str = RUN, events: tuple[RunEvent, ...] = ()) -> Folder:
    """Make the folder of a run that has ended, without snapshots."""
    repository = find_repository(wd, os.environ)
    record = RunRecord(
        run,
        str(wd),
        f"{wd}/s.json",
        "x",
        "x",
        1.0,
        base=repository.head if repository else "",
        branch=repository.branch if repository else "",
        top=str(repository.top if repository else wd),
    )
    recorder = Recorder(state)
    recorder.start(record, resumed=False)
    for event in (*events, RunEnded(3.0, "PASS", 1, 0)):
        recorder.take(event)
    assert recorder.folder is not None
    folder = recorder.folder
    recorder.close()
    return folder


def snapshots_in(folder: Folder, wd: Path) -> Snapshots:
    repository = find_repository(wd, os.environ)
    return Snapshots(folder.path / SNAPSHOTS_FOLDER, wd, repository, os.environ)


def worked_run(state: Path, wd: Path) -> Folder:
    """Make a project and a run in it: two turns of a programmer, a tester that changed nothing.

    The user had changed `mine.txt` and not committed it.
    """
    make_repository(
        wd, {"a.txt": "1\n", "mine.txt": "m\n", "gone.txt": "g\n", ".gitignore": "*.log\n"}
    )
    write(wd, {"mine.txt": "not committed\n"})
    folder = make_run(state, wd)
    snapshots = snapshots_in(folder, wd)
    snapshots.take(0, "start")
    write(wd, {"a.txt": "2\n", "new.txt": "n\n"})
    snapshots.take(1, "programmer")
    write(wd, {"a.txt": "3\n"})
    (wd / "gone.txt").unlink()
    snapshots.take(3, "programmer")
    snapshots.take(4, "tester")
    return folder


def change_record(folder: Folder, **fields: object) -> None:
    record = read_record(folder)
    assert record is not None
    write_record(folder, replace(record, **fields))


@contextmanager
def narrow_disk(size: int) -> Iterator[None]:
    """Let no file grow beyond a size, as if the disk were full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
