"""A hostile repository runs nothing while snapshots are taken, compared, laid out and restored.

Each row is one way in which a repository can name a program. Plain git runs it, so that the test
would fail if we did.
"""

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import GitError
from cli_agent_orchestrator.work.git import Git, find_repository, uncommitted, user_identity
from cli_agent_orchestrator.work.worktree import Worktree
from tests.work.projects import fingerprint, git, is_intact, make_repository, snapshots_of, write


@dataclass(frozen=True)
class Way:
    """A way to run a program: what is set, and the command of plain git that runs it."""

    settings: dict[str, str]
    command: tuple[str, ...]
    hook: str = ""
    attributes: str = ""
    is_included: bool = False


FILTER = "* filter=evil\n"
HOOKED: dict[str, tuple[str, ...]] = {
    "post-index-change": ("add", "-A"),
    "reference-transaction": ("update-ref", "refs/heads/other", "HEAD"),
    "post-checkout": ("checkout", "-q", "-b", "other"),
    "pre-commit": ("commit", "-q", "-a", "-m", "x"),
    "prepare-commit-msg": ("commit", "-q", "-a", "-m", "x"),
    "commit-msg": ("commit", "-q", "-a", "-m", "x"),
    "post-commit": ("commit", "-q", "-a", "-m", "x"),
}
WAYS = {
    "fsmonitor in status": Way({"core.fsmonitor": "{run}"}, ("status",)),
    "fsmonitor in add": Way({"core.fsmonitor": "{run}"}, ("add", "-A")),
    "fsmonitor in read-tree": Way({"core.fsmonitor": "{run}"}, ("read-tree", "-m", "HEAD")),
    "fsmonitor in ls-files": Way({"core.fsmonitor": "{run}"}, ("ls-files", "-o")),
    "fsmonitor in diff-tree": Way({"core.fsmonitor": "{run}"}, ("diff-tree", "HEAD~1", "HEAD")),
    "fsmonitor, included": Way({"core.fsmonitor": "{run}"}, ("status",), is_included=True),
    "clean in add": Way({"filter.evil.clean": "{run}"}, ("add", "-A"), attributes=FILTER),
    "clean in diff": Way({"filter.evil.clean": "{run}"}, ("diff",), attributes=FILTER),
    "clean in hash-object": Way(
        {"filter.evil.clean": "{run}"}, ("hash-object", "a.txt"), attributes=FILTER
    ),
    "smudge in checkout": Way(
        {"filter.evil.smudge": "{run}"}, ("checkout", "-f", "--", "a.txt"), attributes=FILTER
    ),
    "a filter process": Way(
        {"filter.evil.process": "{run}", "filter.evil.required": "true"},
        ("add", "-A"),
        attributes=FILTER,
    ),
    "external diff": Way({"diff.external": "{run}"}, ("diff",)),
    "diff driver": Way({"diff.evil.command": "{run}"}, ("diff",), attributes="* diff=evil\n"),
    "textconv in diff": Way({"diff.evil.textconv": "{run}"}, ("diff",), attributes="* diff=evil\n"),
    "textconv in cat-file": Way(
        {"diff.evil.textconv": "{run}"},
        ("cat-file", "--textconv", "HEAD:a.txt"),
        attributes="* diff=evil\n",
    ),
    "merge driver": Way(
        {"merge.evil.driver": "{run} %A"}, ("merge", "side"), attributes="* merge=evil\n"
    ),
    "gpg": Way(
        {"commit.gpgSign": "true", "gpg.program": "{run}"}, ("commit", "-a", "-m", "signed")
    ),
    "an alias": Way({"alias.evil": "!{run}"}, ("evil",)),
    "an editor": Way({"core.editor": "{run}"}, ("commit", "-a")),
    "ssh": Way({"core.sshCommand": "{run}"}, ("fetch", "ssh://nowhere.invalid/x")),
    **{f"hook {name}": Way({}, words, hook=name) for name, words in HOOKED.items()},
}


def lay_trap(folder: Path, way: Way, run: str) -> None:
    settings = folder.parent / "included" if way.is_included else folder / ".git/config"
    for key, value in way.settings.items():
        git(folder, "config", "--file", str(settings), key, value.replace("{run}", run))
    if way.is_included:
        git(folder, "config", "include.path", str(settings))
    if way.hook:
        hook = folder / ".git/hooks" / way.hook
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{run}\n")
        hook.chmod(0o755)
    if way.attributes:
        (folder / ".gitattributes").write_text(way.attributes)
        (folder / ".git/info").mkdir(exist_ok=True)
        (folder / ".git/info/attributes").write_text(way.attributes)


def work(folder: Path) -> None:
    """Do everything that a run does."""
    repository = find_repository(folder, os.environ)
    user_identity(repository, os.environ)
    snapshots = snapshots_of(folder)
    old = snapshots.take(0, "start")
    assert repository is not None
    uncommitted(repository, os.environ)
    snapshots.keep_base(old)
    snapshots.through_filters(["a.txt"])
    write(folder, {"a.txt": "3\n", "new.txt": "new\n"})
    new = snapshots.take(1, "programmer")
    assert snapshots.all() == (old, new)
    snapshots.changes(old.tree, new.tree)
    snapshots.diff(old.tree, new.tree)
    snapshots.diff(old.tree, new.tree, stat=True)
    snapshots.read(new.tree, "a.txt", 100)
    snapshots.lay_out(new.tree, folder.parent / "checkout")
    snapshots.lay_over(old.tree, folder.parent / "checkout", ["a.txt", "new.txt"])
    assert snapshots.restore(old.tree) == ("a.txt", "new.txt")
    assert is_intact(snapshots)
    snapshots.keep_for_good()


@pytest.fixture
def trap(tmp_path: Path) -> tuple[Path, Path, Callable[[Way], None]]:
    folder = make_repository(tmp_path / "project", {"a.txt": "1\n"})
    git(folder, "checkout", "-q", "-b", "side")
    write(folder, {"a.txt": "side\n"})
    git(folder, "commit", "-q", "-a", "-m", "side")
    git(folder, "checkout", "-q", "main")
    write(folder, {"a.txt": "main\n"})
    git(folder, "commit", "-q", "-a", "-m", "main")
    mark = tmp_path / "mark"
    script = tmp_path / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {shlex.quote(str(mark))}\nexit 1\n")
    script.chmod(0o755)
    return folder, mark, lambda way: lay_trap(folder, way, str(script))


BY_ATTRIBUTES = {way.attributes for way in WAYS.values()}


@pytest.mark.parametrize("attributes", sorted(BY_ATTRIBUTES))
@pytest.mark.parametrize("is_trusted", [False, True])
def test_nothing_runs(
    trap: tuple[Path, Path, Callable[[Way], None]], attributes: str, is_trusted: bool
) -> None:
    """All ways at once that do not need other attributes: whichever ran would leave the mark.

    They are laid in a repository inside, too; git may have been told not to look at a file.
    """
    folder, mark, lay = trap
    if is_trusted:
        git(folder, "update-index", "--assume-unchanged", "a.txt")
    inner = make_repository(folder / "inner", {"x": "x\n"})
    for way in WAYS.values():
        if way.attributes in ("", attributes):
            lay(way)
            lay_trap(inner, way, str(folder.parent / "evil.sh"))
    write(folder, {"a.txt": "2\n", "inner/x": "2\n"})
    before = fingerprint(folder)
    work(folder)
    assert not mark.exists()
    assert fingerprint(folder) == before


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_plain_git_would_have_run_it(
    trap: tuple[Path, Path, Callable[[Way], None]], way: Way
) -> None:
    folder, mark, lay = trap
    lay(way)
    if "merge" not in way.command:
        write(folder, {"a.txt": "2\n"})
    git(folder, *way.command, check=False)
    assert mark.exists()


def test_nothing_is_fetched_for_what_is_missing(tmp_path: Path) -> None:
    """A repository may name a program that fetches what is missing when it is asked for."""
    project = make_repository(tmp_path / "project", {"a.txt": "1\n"})
    mark, evil = tmp_path / "ran", tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {shlex.quote(str(mark))}\n", encoding="utf-8")
    evil.chmod(0o755)
    settings = {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.url": f"ext::{evil}",
        "remote.origin.promisor": "true",
        "protocol.ext.allow": "always",
        "protocol.allow": "always",
    }
    for name, value in settings.items():
        git(project, "config", name, value)
    missing = git(project, "rev-parse", "HEAD:a.txt")
    (project / ".git/objects" / missing[:2] / missing[2:]).unlink()
    git(project, "cat-file", "-p", missing, check=False)
    assert mark.exists()
    mark.unlink()
    repository = find_repository(project, os.environ)
    assert repository is not None
    assert Git(repository.git_dir, repository.top, os.environ).ask("cat-file", "-p", missing).code
    assert (
        Git(repository.git_dir, repository.top, os.environ).defused().ask("read-tree", "HEAD").code
        == 0
    )
    head = repository.head
    tree = Worktree(repository, tmp_path / "tree", os.environ, branch="cao/r1", tip=head)
    with pytest.raises(GitError):
        tree.make()
    assert not mark.exists()
