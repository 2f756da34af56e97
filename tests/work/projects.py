"""Real repositories to work on, made with git as a user would, and what of them must not change."""

import os
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cli_agent_orchestrator.work.git import Identity
from cli_agent_orchestrator.work.repository import Repository, find_repository

ADA = ("Ada", "ada@example.org")
AUTHOR = Identity(ADA, ADA)
SETTINGS = {
    "user.name": ADA[0],
    "user.email": ADA[1],
    "init.defaultBranch": "main",
    "protocol.file.allow": "always",
}
HOOKS = (
    "applypatch-msg", "commit-msg", "post-checkout", "post-commit", "post-index-change",
    "post-merge", "post-rewrite", "pre-auto-gc", "pre-commit", "pre-merge-commit",
    "prepare-commit-msg", "reference-transaction",
)  # fmt: skip


@dataclass(frozen=True)
class Project:
    """A checkout of a user's."""

    folder: Path

    def git(self, *words: str, folder: Path | None = None, fails: bool = False) -> str:
        """Run git as the user would and return what it writes."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        options = [word for pair in SETTINGS.items() for word in ("-c", "=".join(pair))]
        environ = {**kept, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_EDITOR": "true"}
        result = subprocess.run(
            ["git", *options, *words],
            cwd=folder or self.folder,
            env=environ,
            capture_output=True,
            check=False,
        )
        assert fails or result.returncode == 0, result.stderr.decode()
        return result.stdout.decode().removesuffix("\n")

    def write(self, files: dict[str, str]) -> None:
        write(self.folder, files)

    def commit(self, files: dict[str, str], message: str = "change") -> str:
        """Write files and commit them."""
        self.write(files)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def repository(self) -> Repository:
        found = find_repository(self.folder, os.environ)
        assert found is not None
        return found

    def state(self) -> dict[str, object]:
        """Return all that is the user's: each file byte for byte, HEAD, branch, stage, stash."""
        return {
            **contents(self.folder),
            "HEAD": self.git("rev-parse", "HEAD", fails=True),
            "branch": self.git("symbolic-ref", "-q", "HEAD", fails=True),
            "staged": self.git("diff", "--cached", "--raw", "--no-abbrev"),
            "status": self.git("status", "--porcelain=v2", "--ignored"),
            "stash": self.git("stash", "list"),
            "config": (self.folder / ".git/config").read_bytes(),
            "under way": sorted(path.name for path in (self.folder / ".git").glob("*_*")),
        }


def make_project(folder: Path, files: dict[str, str] | None = None) -> Project:
    folder.mkdir(parents=True)
    project = Project(folder)
    project.git("init", "-q")
    for key, value in SETTINGS.items():
        project.git("config", key, value)
    project.commit(files or {"a.txt": "a\n", "b.txt": "b\n", "src/c.txt": "c\n"}, "first")
    return project


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def contents(folder: Path) -> dict[str, object]:
    """Return every file and link below a folder, but git's own."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))  # noqa: PTH115 - as it is written there
        elif name.split("/")[0] != ".git" and path.is_file():
            found[name] = (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
    return found


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
        "branch.main.mergeOptions": "--no-commit -s evil",
        "alias.merge": f"!touch {marks}/alias",
        "trailer.x.command": leave("trailer"),
    }
    for key, value in settings.items():
        project.git("config", key, value)
    # Only for the git that works in a linked work tree.
    linked = git_dir / "linked.config"
    linked.write_text(f'[filter "linked"]\nsmudge = touch {marks}/linked; cat\n')
    project.git("config", "includeIf.gitdir:**/worktrees/**.path", str(linked))
    (git_dir / "hooks").mkdir(exist_ok=True)
    for name in HOOKS:
        (git_dir / "hooks" / name).write_text(f"#!/bin/sh\ntouch {marks}/{name}\n")
        (git_dir / "hooks" / name).chmod(0o755)
