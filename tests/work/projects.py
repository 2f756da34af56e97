"""Real repositories to work on, made by git as a user would, and what of them must not change."""

import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cli_agent_orchestrator.work.git import Repository, find_repository
from cli_agent_orchestrator.work.snapshots import Snapshot, Snapshots
from cli_agent_orchestrator.work.worktree import Worktree

ADA = ("Ada", "ada@example.org")
AUTHOR = {
    f"GIT_{kind}_{key}": value
    for kind in ("AUTHOR", "COMMITTER")
    for key, value in zip(("NAME", "EMAIL"), ADA, strict=True)
}
SETTINGS = {"user.name": ADA[0], "user.email": ADA[1], "protocol.file.allow": "always"}
FILES = {"a.txt": "a\n", "b.txt": "b\n", "src/c.txt": "c\n"}
HOOKS = (
    "applypatch-msg", "commit-msg", "post-checkout", "post-commit", "post-index-change",
    "post-merge", "post-rewrite", "pre-auto-gc", "pre-commit", "pre-merge-commit", "pre-push",
    "prepare-commit-msg", "reference-transaction",
)  # fmt: skip
OTHER_GIT = """\
#!/bin/sh
case "$*" in
{cases}
esac
exec {git} "$@"
"""


def git(folder: Path, *words: str, check: bool = True) -> str:
    """Run git as the user would, with all that the repository's configuration says."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    options = [word for pair in SETTINGS.items() for word in ("-c", "=".join(pair))]
    answer = subprocess.run(
        ["git", *options, *words],
        cwd=folder,
        env={**kept, "GIT_CONFIG_GLOBAL": os.devnull},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert not check or answer.returncode == 0, answer.stderr.decode()
    return answer.stdout.decode(errors="surrogateescape").removesuffix("\n")


def make_repository(folder: Path, files: Mapping[str, str] | None = None, *options: str) -> Path:
    """Make a repository with one commit of these files, copied from one made before."""
    files = FILES if files is None else files
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(_template(tuple(files.items()), options), folder, symlinks=True)
    return folder


@cache
def _template(files: tuple[tuple[str, str], ...], options: tuple[str, ...]) -> Path:
    folder = Path(tempfile.mkdtemp(dir=_templates()))
    git(folder, "init", "-q", "-b", "main", "--template=", *options)
    (folder / ".git/info").mkdir(exist_ok=True)
    for key, value in SETTINGS.items():
        git(folder, "config", key, value)
    write(folder, dict(files))
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


@cache
def _templates() -> str:
    folder = tempfile.TemporaryDirectory(prefix="cao-tests-")
    # Removed with the interpreter: nothing else refers to it.
    _KEPT.append(folder)
    return folder.name


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


@dataclass(frozen=True)
class Project:
    """A checkout of a user's."""

    folder: Path

    def git(self, *words: str, folder: Path | None = None, fails: bool = False) -> str:
        return git(folder or self.folder, *words, check=not fails)

    def write(self, files: Mapping[str, str]) -> None:
        write(self.folder, files)

    def commit(self, files: Mapping[str, str], message: str = "change") -> str:
        """Write files and commit them."""
        self.write(files)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def repository(self) -> Repository:
        found = find_repository(self.folder, os.environ)
        assert found is not None
        return found

    def tree(
        self, folder: Path, branch: str = "cao/r1", held_back: tuple[str, ...] = ()
    ) -> tuple[Worktree, tuple[str, ...]]:
        """Make a work tree of what is checked out."""
        of = self.repository()
        return Worktree(
            of, folder, os.environ, branch=branch, tip=of.head, held_back=held_back
        ).make()

    def state(self) -> dict[str, object]:
        """Return all that is the user's: each file byte for byte, HEAD, branch, stage, stash."""
        return {
            **contents(self.folder),
            "HEAD": self.git("rev-parse", "HEAD", fails=True),
            "branch": self.git("symbolic-ref", "-q", "HEAD", fails=True),
            "status": self.git("status", "--porcelain=v2", "--ignored"),
            "stash": self.git("stash", "list"),
            "config": (self.folder / ".git/config").read_bytes(),
        }


def make_project(folder: Path, files: Mapping[str, str] | None = None) -> Project:
    return Project(make_repository(folder, files))


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def write_empty(path: Path, size: int) -> None:
    """Make a file of a size that takes no room."""
    with path.open("wb") as file:
        file.truncate(size)


def contents(folder: Path) -> dict[str, object]:
    """Return every file and link below a folder, but git's own."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.split("/")[0] == ".git":
            continue
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))  # noqa: PTH115 - as it is written there
        elif path.is_file():
            found[name] = (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
    return found


def fingerprint(folder: Path) -> dict[str, str]:
    """Return everything below a folder, for example a `.git`: modes, links, content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"link {path.readlink()}"
        elif path.is_file():
            found[name] = f"{mode:o} {hashlib.sha1(path.read_bytes()).hexdigest()}"
        else:
            found[name] = f"{mode:o}"
    return found


def snapshots_of(folder: Path, most_files: int = 1000) -> Snapshots:
    """Return the snapshots of a folder; their store lies beside it, or beside its repository."""
    repository = find_repository(folder, os.environ)
    top = folder if repository is None else repository.top
    place = top.parent / f"{top.name}-store"
    return Snapshots(place, folder, repository, os.environ, most_files=most_files)


def content(snapshots: Snapshots, snapshot: Snapshot) -> dict[str, str]:
    """Return the paths of a snapshot with their modes."""
    listed = git(snapshots.path, "ls-tree", "-r", "-z", snapshot.tree).split("\0")
    return {entry.partition("\t")[2]: entry.split(" ")[0] for entry in listed if entry}


def is_intact(snapshots: Snapshots) -> bool:
    """Is all there that the snapshots are made of?"""
    trees = [one.tree for one in snapshots.all()]
    return not git(snapshots.path, "rev-list", "--objects", "--missing=print", *trees).count("?")


def with_other_git(folder: Path, cases: str) -> Mapping[str, str]:
    """Return an environment with a git that does something else first: `*word*) command;;`."""
    folder.mkdir()
    program = folder / "git"
    program.write_text(OTHER_GIT.format(cases=cases, git=shutil.which("git")))
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def make_hostile(project: Project, marks: Path) -> None:
    """Let everything in a repository that can start a program leave a mark in a folder."""
    marks.mkdir(exist_ok=True)
    git_dir = project.folder / ".git"

    def leave(name: str) -> str:
        return f"sh -c 'touch {marks}/{name}; cat' --"

    settings = {
        "core.fsmonitor": leave("fsmonitor"),
        "core.pager": leave("pager"),
        "core.editor": leave("editor"),
        "core.sshCommand": leave("ssh"),
        "filter.evil.clean": leave("clean"),
        "filter.evil.smudge": leave("smudge"),
        "filter.evil.required": "true",
        "filter.other.process": leave("process"),
        "diff.evil.textconv": leave("textconv"),
        "diff.evil.command": leave("diff"),
        "diff.external": leave("external"),
        "merge.evil.driver": leave("driver"),
        "commit.gpgSign": "true",
        "gpg.program": leave("gpg"),
        "merge.verifySignatures": "true",
        "branch.main.mergeOptions": "--no-commit -s evil",
        "alias.merge": f"!touch {marks}/alias",
        "trailer.x.command": leave("trailer"),
    }
    with (git_dir / "config").open("a") as config:
        for key, value in settings.items():
            section, _, rest = key.partition(".")
            name, _, last = rest.rpartition(".")
            head = f'[{section} "{name}"]' if name else f"[{section}]"
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            config.write(f'{head}\n\t{last} = "{escaped}"\n')
        # Only for the git that works in a linked work tree.
        linked = git_dir / "linked.config"
        linked.write_text(f'[filter "linked"]\nsmudge = touch {marks}/linked; cat\n')
        config.write(f'[includeIf "gitdir:**/worktrees/**"]\n\tpath = {linked}\n')
    (git_dir / "hooks").mkdir(exist_ok=True)
    for name in HOOKS:
        (git_dir / "hooks" / name).write_text(f"#!/bin/sh\ntouch {marks}/{name}\n")
        (git_dir / "hooks" / name).chmod(0o755)
