"""How long a snapshot of the work folder takes: the first one, and those after few changes."""

import hashlib
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from bench.figures import AtLeast, AtMost, Figure
from cli_agent_orchestrator.work.git import find_repository
from cli_agent_orchestrator.work.snapshots import Snapshots

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
        make_project(project, files)
        before = _users_own(project)
        repository = find_repository(project, os.environ)
        snapshots = Snapshots(Path(folder, "store"), project, repository, os.environ)
        name = f"snapshot of {files:,} files"
        first = _milliseconds(snapshots, 0)
        began = time.perf_counter()
        snapshots.keep_for_good()
        copied = 1000 * (time.perf_counter() - began)
        unchanged = [_milliseconds(snapshots, number) for number in range(1, REPEATS + 1)]
        for number in range(CHANGES):
            _file(project, number).write_text("changed\n")
        changed = _milliseconds(snapshots, REPEATS + 1)
        is_same = _users_own(project) == before
    note = f"{REPEATS} samples, longest {max(unchanged):.0f} ms"
    return [
        Figure(f"first {name}", first, "ms"),
        Figure(f"copy of what the first {name} borrows", copied, "ms"),
        Figure(
            f"{name}, nothing changed", statistics.median(unchanged), "ms", AtMost(limit), note=note
        ),
        Figure(f"{name}, {CHANGES} changed", changed, "ms"),
        Figure(
            f"the user's index, HEAD, branches, stash and config as they were, {files:,} files",
            100.0 * is_same,
            "%",
            AtLeast(100),
            note="byte by byte, before the first snapshot and after the last",
        ),
    ]


def _milliseconds(snapshots: Snapshots, sequence: int) -> float:
    began = time.perf_counter()
    snapshots.take(sequence, "bench")
    return 1000 * (time.perf_counter() - began)


def _users_own(project: Path) -> dict[str, str]:
    """Return what must stay as it is: all of the repository, by file, and what git says of it."""
    found = {
        str(path.relative_to(project)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (project / ".git").rglob("*")
        if path.is_file()
    }
    for words in (["stash", "list"], ["for-each-ref"], ["rev-parse", "HEAD"]):
        found[words[0]] = subprocess.run(
            ["git", *words], cwd=project, check=True, capture_output=True, text=True
        ).stdout
    return found


def make_project(project: Path, files: int) -> None:
    """Make a repository with one commit of so many files, and something in its stash."""
    for number in range(files):
        path = _file(project, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"line of file {number}\n" * LINES_A_FILE)
    who = ("-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0")
    commit = [*who, "commit", "-q", "-m", "one"]
    for words in (["init", "-q"], ["add", "-A"], commit):
        subprocess.run(["git", *words], cwd=project, check=True)
    _file(project, 0).write_text("put aside\n")
    subprocess.run(["git", *who, "stash", "-q"], cwd=project, check=True)


def _file(project: Path, number: int) -> Path:
    return project / f"folder{number // FILES_A_FOLDER}" / f"file{number}.txt"
