"""How long a snapshot of the work folder takes: the first one, and those after few changes."""

import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from bench.figures import AtMost, Figure
from cli_agent_orchestrator._internal.workspace.repository import find_repository
from cli_agent_orchestrator._internal.workspace.snapshots import Snapshots

SIZES = {300: 60.0, 50_000: 400.0}
"""Files of a tree, and the milliseconds that a snapshot of it may take if nothing changed."""
FILES_A_FOLDER = 100
LINES_A_FILE = 40
REPEATS = 7
CHANGES = 5


def measure() -> list[Figure]:
    return [figure for files, limit in SIZES.items() for figure in _measure(files, limit)]


def _measure(files: int, limit: float) -> list[Figure]:
    # Not in the memory, where /tmp may be.
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent, prefix=".snapshots-") as folder:
        project = Path(folder, "project")
        _make(project, files)
        snapshots = Snapshots(Path(folder, "store"), project, find_repository(project))
        name = f"snapshot of {files:,} files"
        first = _milliseconds(snapshots, 0)
        unchanged = [_milliseconds(snapshots, number) for number in range(1, REPEATS + 1)]
        for number in range(CHANGES):
            _file(project, number).write_text("changed\n")
        changed = _milliseconds(snapshots, REPEATS + 1)
    note = f"{REPEATS} samples, longest {max(unchanged):.0f} ms"
    return [
        Figure(f"first {name}", first, "ms"),
        Figure(
            f"{name}, nothing changed", statistics.median(unchanged), "ms", AtMost(limit), note=note
        ),
        Figure(f"{name}, {CHANGES} changed", changed, "ms"),
    ]


def _milliseconds(snapshots: Snapshots, sequence: int) -> float:
    began = time.perf_counter()
    snapshots.take(sequence, "bench")
    return 1000 * (time.perf_counter() - began)


def _make(project: Path, files: int) -> None:
    for number in range(files):
        path = _file(project, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"line of file {number}\n" * LINES_A_FILE)
    who = ("-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0")
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "one"]):
        subprocess.run(["git", *words], cwd=project, check=True)


def _file(project: Path, number: int) -> Path:
    return project / f"folder{number // FILES_A_FOLDER}" / f"file{number}.txt"
