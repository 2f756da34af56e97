"""What others change in a real repository is noticed."""

import os
import re
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.work import watch as watch_module
from cli_agent_orchestrator.work.repository import Repository, find_repository
from cli_agent_orchestrator.work.watch import DEEPEST, MOST_LOOKED_AT, RepositoryWatch
from cli_agent_orchestrator.work.worktree import Worktree
from tests.work.depths import folders_in
from tests.work.projects import AUTHOR, Project, make_project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project")


@contextmanager
def opened_files() -> Iterator[list[str]]:
    """Yield the names of the files that are opened meanwhile."""
    opened: list[str] = []
    is_over = threading.Event()

    # Any: as in sys.addaudithook
    def note(event: str, args: tuple[Any, ...]) -> None:
        # It can not be taken away again.
        if event == "open" and not is_over.is_set():
            opened.append(str(args[0]))

    sys.addaudithook(note)
    yield opened
    is_over.set()


def watching(
    project: Project, kept_in: Folder | None = None, most: int = MOST_LOOKED_AT
) -> RepositoryWatch:
    watch = RepositoryWatch(project.repository(), kept_in, most)
    assert watch.begin() == ()
    return watch


def plant(name: str) -> Callable[[Path], None]:
    def act(git_dir: Path) -> None:
        (git_dir / name).parent.mkdir(parents=True, exist_ok=True)
        (git_dir / name).write_text("x\n")

    return act


def link_hooks(git_dir: Path) -> None:
    (git_dir / "hooks").rename(git_dir / "other")
    (git_dir / "hooks").symlink_to("/etc")


def change_with_its_old_time(git_dir: Path) -> None:
    """Write as many bytes as before, and say that it was not written to."""
    hook = git_dir / "hooks/a.sample"
    before = hook.stat()
    hook.write_bytes(bytes(before.st_size))
    os.utime(hook, ns=(before.st_atime_ns, before.st_mtime_ns))


def pipe_config(git_dir: Path) -> None:
    (git_dir / "config").unlink()
    os.mkfifo(git_dir / "config")


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (plant("hooks/post-checkout"), r"\.git/hooks/post-checkout \(new\)"),
        (lambda g: (g / "hooks/a.sample").chmod(0o755), r"\.git/hooks/a\.sample"),
        (lambda g: (g / "hooks/a.sample").write_text("b\n"), r"\.git/hooks/a\.sample"),
        (change_with_its_old_time, r"\.git/hooks/a\.sample"),
        (plant("info/attributes"), r"\.git/info/attributes \(new\)"),
        (lambda g: (g / "info/exclude").write_text("secret*\n"), r"\.git/info/exclude"),
        (
            plant("modules/sub/hooks/post-checkout"),
            r"\.git/modules/sub/hooks/post-checkout \(new\)",
        ),
        (plant("modules/sub/modules/in/config"), r"\.git/modules/sub/modules/in/config \(x\)"),
        (plant("config.worktree"), r"\.git/config\.worktree \(x\)"),
        (plant("refs/heads/x"), r"refs/heads/x \(new\)"),
        (plant("HEAD"), r"\.git/HEAD"),
        (link_hooks, r"\.git/hooks \(new\)"),
        (pipe_config, r"\.git/config \(.*user\.name\)"),
    ],
)
def test_what_is_planted_is_named_once(
    project: Project, act: Callable[[Path], None], said: str
) -> None:
    git_dir = project.folder / ".git"
    for name in ("hooks/a.sample", "modules/sub/config", "info/exclude"):
        plant(name)(git_dir)
    watch = watching(project)
    assert watch.look() == ()
    act(git_dir)
    found = watch.look()
    assert any(re.fullmatch(said, one) for one in found), found
    assert watch.look() == ()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("config", "core.fsmonitor", "evil"), ".git/config (core.fsmonitor)"),
        (("config", "core.worktree", "/elsewhere"), ".git/config (core.worktree)"),
        (("config", "include.path", "/elsewhere"), ".git/config (include.path)"),
        (("config", "filter.x.clean", "evil"), ".git/config (filter.x.clean)"),
        (("config", "--unset", "user.email"), ".git/config (user.email)"),
        (("checkout", "-q", "-b", "other"), ".git/HEAD, refs/heads/other (new)"),
        (("tag", "v1"), "refs/tags/v1 (new)"),
        (("pack-refs", "--all"), ""),
        (("gc", "-q"), ""),
        (("status",), ""),
    ],
)
def test_so_is_what_git_is_told_to_change(
    project: Project, words: tuple[str, ...], said: str
) -> None:
    watch = watching(project)
    project.git(*words)
    assert ", ".join(watch.look()) == said


def test_git_at_work_is_no_change(project: Project) -> None:
    watch = watching(project)
    for name in ("refs/heads/main.lock", "refs/heads/other.lock", "hooks/x.lock"):
        plant(name)(project.folder / ".git")
    assert watch.look() == ()


def test_history_that_is_rewritten_is_named_with_what_it_was(project: Project) -> None:
    project.git("pack-refs", "--all")
    was = project.git("rev-parse", "HEAD")
    watch = watching(project)
    project.git("commit", "-q", "--amend", "-m", "another")
    (said,) = watch.look()
    assert said.startswith(f"refs/heads/main (was {was[:12]}; ")
    assert said.endswith("; your files stay as they are then)")
    back_as_said(project, said)
    assert project.git("rev-parse", "HEAD") == was


def back_as_said(project: Project, said: str) -> None:
    """Give the command that is offered."""
    (command,) = re.findall("`git (.*)`", said)
    project.git(*shlex.split(command))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "words",
    [
        ("update-ref", "refs/heads/o;ther", "HEAD~1"),
        ("branch", "-D", "o;ther"),
        ("tag", "-f", "v1", "HEAD~1"),
        ("tag", "-d", "v1"),
    ],
)
def test_each_branch_and_tag_comes_back_by_the_command_that_is_offered(
    project: Project, words: tuple[str, ...], packed: bool
) -> None:
    project.commit({"more.txt": "more\n"})
    project.git("branch", "o;ther")
    project.git("tag", "-a", "-m", "one", "v1")
    if packed:
        project.git("pack-refs", "--all")
    before = project.git("show-ref")
    watch = watching(project)
    project.git(*words)
    (said,) = watch.look()
    back_as_said(project, said)
    assert project.git("show-ref") == before


def test_a_branch_among_very_many_is_watched(project: Project) -> None:
    at = project.git("rev-parse", "HEAD").strip()
    lines = [f"{at} refs/heads/b{number:05d}\n" for number in range(20_000)]
    packed = project.folder / ".git/packed-refs"
    packed.write_text("".join(lines))
    assert packed.stat().st_size > watch_module.SHORT
    watch = watching(project)
    lines[-1] = lines[-1].replace(at, "1" * len(at))
    packed.write_text("".join(lines))
    (said,) = watch.look()
    assert said.startswith(f"refs/heads/b19999 (was {at[:7]}")


def test_a_repository_in_the_place_of_another_is_noticed(project: Project) -> None:
    watch = watching(project)
    (project.folder / ".git").rename(project.folder.parent / "taken")
    project.git("init", "-q")
    assert any(one.startswith("refs/heads/main (was ") for one in watch.look())


def watching_tree(project: Project, tmp_path: Path) -> tuple[Worktree, Repository, RepositoryWatch]:
    """Return a work tree, the repository that is found in it, and a watch that has begun."""
    repository = project.repository()
    tree, _ = Worktree(repository, tmp_path / "w/r1", "cao/r1", repository.head, os.environ).make()
    seen = find_repository(tree.folder, os.environ)
    assert seen is not None
    watch = RepositoryWatch(seen)
    assert watch.begin() == ()
    return tree, seen, watch


def test_in_a_work_tree_the_users_own_repository_is_watched(
    project: Project, tmp_path: Path
) -> None:
    tree, seen, watch = watching_tree(project, tmp_path)
    (tree.folder / "new.txt").write_text("new\n")
    assert tree.commit("ours\n", AUTHOR).is_new
    assert watch.look() == ()
    project.git("config", "core.hooksPath", "evil", folder=tree.folder)
    assert watch.look() == (f"{project.folder}/.git/config (core.hookspath)",)
    project.git("branch", "-f", "stolen", folder=tree.folder)
    assert watch.look() == ("refs/heads/stolen (new)",)
    # What only the git that works in that tree reads.
    (seen.git_dir / "config.worktree").write_text("[core]\n\tfsmonitor = evil\n")
    assert watch.look() == (f"{seen.git_dir}/config.worktree (core.fsmonitor)",)


def test_so_is_the_file_that_says_where_the_repository_of_a_work_tree_is(
    project: Project, tmp_path: Path
) -> None:
    """Git goes by what it names: with another one, by the settings of another."""
    tree, _, watch = watching_tree(project, tmp_path)
    (tree.folder / ".git").write_text(f"gitdir: {tmp_path}/evil\n")
    assert watch.look() == (".git",)


def test_what_looks_as_before_is_not_read_again(project: Project) -> None:
    with opened_files() as first:
        watch = watching(project)
    with opened_files() as again:
        assert watch.look() == ()
    assert {"HEAD", "config", "main"} <= {*first}
    assert not {"HEAD", "config", "main"} & {*again}


def test_what_was_seen_outlives_the_process(project: Project, tmp_path: Path) -> None:
    kept_in = Folder(tmp_path / "run")
    kept_in.make()
    watch = watching(project, kept_in)
    project.git("config", "core.fsmonitor", "x")
    assert RepositoryWatch(project.repository(), kept_in).begin() == (
        ".git/config (core.fsmonitor)",
    )
    assert watching(project, kept_in).look() == ()
    project.git("config", "core.pager", "x")
    assert watch.look() == (".git/config (core.fsmonitor, core.pager)",)
    assert watching(project, kept_in).look() == ()


def test_a_first_look_compares_with_what_was_kept_or_accuses_nobody(
    project: Project, tmp_path: Path
) -> None:
    kept_in = Folder(tmp_path / "run")
    kept_in.make()
    first = RepositoryWatch(project.repository(), kept_in)
    assert first.look() == ()
    assert not first.has_compared
    project.git("config", "core.fsmonitor", "x")
    again = RepositoryWatch(project.repository(), kept_in)
    assert again.look() == (".git/config (core.fsmonitor)",)
    assert again.has_compared


def test_what_was_kept_and_cannot_be_read_is_begun_anew(project: Project, tmp_path: Path) -> None:
    kept_in = Folder(tmp_path / "run")
    kept_in.make()
    kept_in.create("repository.json", b"{")
    watching(project, kept_in)
    project.git("config", "core.pager", "x")
    assert RepositoryWatch(project.repository(), kept_in).begin() == (".git/config (core.pager)",)


@pytest.mark.slow
class TestFoldersInFolders:
    @pytest.mark.parametrize("where", ["hooks", "refs/heads", "modules", "modules/sub/hooks"])
    @pytest.mark.parametrize(("depth", "name"), [(1100, "d"), (60, "d" * 200)])
    def test_without_end_are_looked_at_as_far_as_that_goes(
        self, project: Project, where: str, depth: int, name: str
    ) -> None:
        plant("modules/sub/config")(project.folder / ".git")
        watch = watching(project)
        with folders_in(project.folder / ".git" / where, depth, name, "post-checkout"):
            (said,) = watch.look()
            assert re.fullmatch(rf"\.git/{where}/{name}/.*… \(too deep to be looked at\)", said)
            assert len(said) < 1000
            assert watch.look() == ()
            project.git("config", "core.pager", "x")
            assert watch.look() == (".git/config (core.pager)",)

    def test_at_the_deepest_are_still_looked_at(self, project: Project) -> None:
        watch = watching(project)
        place = "/".join(["hooks", *["d"] * DEEPEST, "post-checkout"])
        plant(place)(project.folder / ".git")
        assert watch.look() == (f".git/{place} (new)",)

    def test_too_many_files_are_not_all_looked_at(self, project: Project) -> None:
        hooks = project.folder / ".git/hooks"
        for old in hooks.iterdir():
            old.unlink()
        watch = watching(project, most=20)
        for number in range(20):
            plant(f"hooks/{number:02d}")(project.folder / ".git")
        assert len(watch.look()) == 20
        plant("hooks/20")(project.folder / ".git")
        assert watch.look() == (".git/hooks/… (too many files to be looked at)",)
        (hooks / "20").unlink()
        assert watch.look() == ()

    def test_too_many_folders_are_not_all_looked_at(self, project: Project) -> None:
        watch = watching(project, most=20)
        for number in range(20):
            (project.folder / f".git/hooks/{number:02d}").mkdir(parents=True)
        assert watch.look() == (".git/hooks/… (too many folders to be looked at)",)

    def test_what_was_not_looked_at_outlives_the_process(
        self, project: Project, tmp_path: Path
    ) -> None:
        kept_in = Folder(tmp_path / "run")
        kept_in.make()
        watching(project, kept_in)
        with folders_in(project.folder / ".git/hooks"):
            (said,) = RepositoryWatch(project.repository(), kept_in).begin()
            assert "too deep" in said
            watching(project, kept_in)
