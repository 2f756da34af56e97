"""Real repositories for tests, made by plain git, and a look at all that must stay as it is."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cli_agent_orchestrator.work.gathering import LIMITS, LookLimits
from cli_agent_orchestrator.work.git import PATIENCE, Patience
from cli_agent_orchestrator.work.repository import find_repository
from cli_agent_orchestrator.work.snapshots import REFS, Snapshot, Snapshots
from cli_agent_orchestrator.work.store import Store

USER = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "user",
    "GIT_AUTHOR_EMAIL": "user@example.org",
    "GIT_COMMITTER_NAME": "user",
    "GIT_COMMITTER_EMAIL": "user@example.org",
}

OTHER_GIT = """\
#!/bin/sh
case "$*" in
{cases}
esac
exec {git} "$@"
"""
LOOK = """\
import fcntl, os
try:
    fcntl.flock(os.open({folder!r}, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("another has it")
else:
    print("free")
"""
"""A program that says whether somebody holds the lock of a folder."""


def with_other_git(folder: Path, cases: str) -> Mapping[str, str]:
    """Return an environment with a git that does something else first: `*word*) command;;`."""
    folder.mkdir()
    program = folder / "git"
    program.write_text(OTHER_GIT.format(cases=cases, git=shutil.which("git")))
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def git(folder: Path, *words: str, check: bool = True) -> str:
    """Run git as a user does, with all that the repository's configuration says."""
    answer = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": os.devnull, **USER},
        check=check,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    return answer.stdout.decode(errors="surrogateescape").removesuffix("\n")


def make_repository(folder: Path, files: dict[str, str], *options: str) -> Path:
    """Make a repository with one commit of these files."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main", *options)
    write(folder, files)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def write_empty(path: Path, size: int) -> None:
    """Make a file of a size that takes no room."""
    with path.open("wb") as file:
        file.truncate(size)


def fingerprint(folder: Path) -> dict[str, str]:
    """Return everything below a folder, for example a `.git`: modes, links, content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"link {path.readlink()}"
        elif path.is_file():
            found[name] = f"{status.st_mode:o} {hashlib.sha1(path.read_bytes()).hexdigest()}"
        else:
            found[name] = f"{status.st_mode:o}"
    return found


def snapshots_of(
    folder: Path, limits: LookLimits = LIMITS, patience: Patience = PATIENCE
) -> Snapshots:
    """Return the snapshots of a folder; their store lies beside it, or beside its repository."""
    repository = find_repository(folder, os.environ)
    top = folder if repository is None else repository.top
    place = top.parent / f"{top.name}-store"
    return Snapshots(Store(place, folder, repository, os.environ, patience), limits=limits)


def content(snapshots: Snapshots, snapshot: Snapshot) -> dict[str, str]:
    """Return the paths of a snapshot with their modes."""
    listed = snapshots._store.git.names("ls-tree", "-r", "-z", snapshot.commit)
    return {entry.partition("\t")[2]: entry.split(" ")[0] for entry in listed}


def is_intact(snapshots: Snapshots) -> bool:
    """Is all there that the snapshots are made of?"""
    words = ("rev-list", "--objects", "--quiet", f"--glob={REFS}*")
    return snapshots._git.ask(*words).code == 0
