"""The work of a run comes to the user: merged, as a pull request, or away with it.

Nothing uncommitted is ever lost. Whether a merge would have conflicts is found out first, without
touching anything. Then the checkout is moved in one way only, a fast-forward: where it takes a
merge, the merge commit is made beforehand. So there is no merge that could stop halfway, and what
is staged elsewhere stays staged. Git refuses where a file of the user's would be written over; an
ignored one is as precious as any other.

For a pull request alone the user's own git is meant: their settings and credentials, but no hook.
Nothing is forced. `gh` or `glab` opens the request if it is installed; otherwise it is said what to
type.
"""

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path, PurePosixPath

from ..core.files import Folder, read_named
from ..core.text import BREAKS, CONTROLS, DIRECTIONS, HALVES
from ..errors import GitError, GitFailed, GitMissing, in_words
from .git import (
    STATUS,
    STATUS_LETTERS,
    Git,
    GitAnswer,
    Identity,
    Repository,
    alone_in,
    filtered,
    find_program,
    find_repository,
    listed,
)
from .worktree import Worktree, first_of

MINIMUM_VERSION = (2, 38)
LONGEST_WAIT = 60.0
UNKNOWN = "??"
# "	a.txt", below "error: Your local changes to the following files would be overwritten"
IN_THE_WAY_PATTERN = r"(?m)^\t(.+)$"
FAST_FORWARD = ("merge", "-q", "--ff-only", "--no-overwrite-ignore", "--no-autostash", "--no-stat")
RESTORE = ("restore", "--source=HEAD", "--staged", "--worktree")


class MergeKind(StrEnum):
    FAST_FORWARDED = "fast-forwarded"
    MERGED = "merged"
    ALREADY_THERE = "already there"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The result of merging a branch; if it was refused, nothing changed unless it says so."""

    kind: MergeKind
    commit: str = ""
    files: tuple[str, ...] = ()
    reason: str = ""
    remarks: tuple[str, ...] = ()


def apply(
    repository: Repository,
    branch: str,
    environ: Mapping[str, str],
    *,
    identity: Identity,
    message: str,
    onto: str = "",
) -> MergeResult:
    """Merge a branch into what is checked out; `message` is for the merge commit, if there is one.

    `onto` is the branch that must be checked out; any may be if it is empty.
    """
    with alone_in(repository.common_dir, LONGEST_WAIT) as held:
        now = find_repository(repository.top, environ)
        if now is None:
            return _refused(f"{repository.top} is no repository any more")
        options = {
            "i18n.commitEncoding": "UTF-8",
            "merge.verifySignatures": "false",
            "pull.twohead": "ort",
            f"branch.{now.branch}.mergeOptions": "",
        }
        git = Git(now.git_dir, now.top, environ, None, options, identity)
        git = replace(git.defused(), inherited=() if held is None else (held,))
        tip = git.ask("rev-parse", "-q", "--verify", f"refs/heads/{branch}^{{commit}}").text
        if reason := _objection(now, branch, tip, onto):
            return _refused(reason)
        if _is_ancestor(git, tip, now.head):
            return MergeResult(MergeKind.ALREADY_THERE, now.head)
        if _is_ancestor(git, now.head, tip):
            return _move(git, now.head, tip, MergeKind.FAST_FORWARDED)
        # git version 2.39.5 (Apple Git-154)
        version = re.search(r"(\d+)\.(\d+)", git.text("version"))
        if version is None or tuple(map(int, version.groups())) < MINIMUM_VERSION:
            return _refused(
                f"this git cannot tell conflicts beforehand (2.38 can), and {branch} needs a "
                f"merge: git merge {branch}"
            )
        words = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages")
        merged = git.ask(*words, now.head, tip)
        tree, *conflicts = merged.text.split("\0")
        if merged.code not in (0, 1) or not tree:
            raise GitError(f"git cannot merge: {merged.complaint}")
        if merged.code:
            files = tuple(dict.fromkeys(filter(None, conflicts)))
            why = f"the same places were changed; to settle it yourself: git merge {branch}"
            return MergeResult(MergeKind.REFUSED, files=files, reason=why)
        given = message.encode(errors="replace")
        commit = git.text("commit-tree", tree, "-p", now.head, "-p", tip, given=given)
        return _move(git, now.head, commit, MergeKind.MERGED)


def _objection(now: Repository, branch: str, tip: str, onto: str) -> str:
    if not tip:
        return f"there is no branch {branch} (any more)"
    if now.under_way:
        return f"{now.under_way} is under way in {now.top}; end it first"
    if not now.head:
        return f"there is no commit in {now.top} to merge into"
    if not now.branch:
        return f"no branch is checked out in {now.top}; git switch {onto or 'to the one you mean'}"
    if onto and now.branch != onto:
        began = f"and the work began on {onto}: git switch {onto}"
        return f"{now.branch} is checked out in {now.top}, {began}"
    return ""


def _move(git: Git, head: str, commit: str, kind: MergeKind) -> MergeResult:
    """Bring the checkout forward to a commit, if nothing of the user's is in the way."""
    touched = git.names("diff-tree", "-r", "-z", "--name-only", "--no-renames", head, commit)
    before = _changed(git, touched)
    # Git itself would bring back a file that the user has removed.
    removed = tuple(path for path, letters in before.items() if letters == " D")
    answer = GitAnswer(1, b"", "") if removed else git.ask(*FAST_FORWARD, commit)
    if answer.code == 0 and git.ask("rev-parse", "HEAD").text == commit:
        remarks = []
        for name, files in filtered(git, touched).items():
            advice = " (git lfs pull brings their content)" if name == "lfs" else ""
            text = f"arrived as stored, not through the filter {name}{advice}"
            remarks.append(f"{text}: {first_of([*files])}")
        return MergeResult(kind, commit, remarks=tuple(remarks))
    in_the_way = removed or tuple(re.findall(IN_THE_WAY_PATTERN, answer.complaint))
    if in_the_way:
        why = "files of yours would be written over; commit them or move them away"
        return MergeResult(MergeKind.REFUSED, files=in_the_way, reason=why)
    return _refused(f"git refused: {answer.complaint}\n{_taken_back(git, touched, before)}")


def _changed(git: Git, paths: Collection[str]) -> dict[str, str]:
    entries = git.names(*STATUS, "--untracked-files=all")
    found = {one[STATUS_LETTERS:]: one[: STATUS_LETTERS - 1] for one in entries}
    return {path: found[path] for path in paths if path in found}


def _taken_back(git: Git, touched: Collection[str], before: Mapping[str, str]) -> str:
    """Put back what git wrote before it stopped, on a disk that is full say; return the outcome."""
    wrong = {path: how for path, how in _changed(git, touched).items() if path not in before}
    for path in (path for path, letters in wrong.items() if letters == UNKNOWN):
        place = PurePosixPath(path)
        with suppress(OSError):
            Folder(git.work_tree, place.parent.parts).remove(place.name)
    known = [path for path, letters in wrong.items() if letters != UNKNOWN]
    if known:
        git.ask(*RESTORE, "--pathspec-from-file=-", "--pathspec-file-nul", given=listed(known))
    left = [path for path in _changed(git, wrong) if path not in before]
    if not left:
        return "nothing was changed"
    command = shlex.join(["git", "-C", str(git.work_tree), *RESTORE, "--", *left])
    return f"it stopped halfway; what brings its files back:\n  {command}"


def _refused(reason: str) -> MergeResult:
    return MergeResult(MergeKind.REFUSED, reason=reason)


def _is_ancestor(git: Git, commit: str, of: str) -> bool:
    return git.ask("merge-base", "--is-ancestor", commit, of).code == 0


def discard(worktree: Worktree, kept: str, read: Callable[[str], bytes | None]) -> str:
    """Remove a work tree and its branch, if a snapshot has all that is in them; why does it stay?

    `kept` is the commit of the branch that the snapshot goes with, `read` returns what it has of a
    file. Ignored files (dependencies, what was built, copies of the user's own) go with the tree.
    """
    tip = worktree.branch_tip()
    if tip and tip != kept:
        return f"{worktree.branch} has commits that no snapshot has"
    if worktree.is_locked and not worktree.is_unfinished:
        return f"it is locked; to unlock it: git worktree unlock {worktree.folder}"
    if other := worktree.checked_out_elsewhere():
        return f"{worktree.branch} is checked out in {other}"
    if worktree.exists and not worktree.is_unfinished:
        unsaved = [path for path in worktree.uncommitted() if not _is_kept(worktree, path, read)]
        if unsaved:
            return f"it has files that no snapshot has as they are: {', '.join(unsaved)}"
    worktree.remove(tip)
    return ""


def _is_kept(worktree: Worktree, path: str, read: Callable[[str], bytes | None]) -> bool:
    """Does a snapshot have a file as it is now? One that is gone need not be there."""
    place = PurePosixPath(path)
    if not os.path.lexists(worktree.folder / path):
        return True
    if (worktree.folder / path).is_symlink():
        return read(path) == os.fsencode((worktree.folder / path).readlink())
    try:
        return read(path) == Folder(worktree.folder, place.parent.parts).read(place.name)
    except OSError:
        return False


LONGEST_SUBJECT = 72
LONGEST_VALUE = 200
LONGEST_SHOWN = 2000
INDENT = "    "
UNPRINTABLE_PATTERN = f"[{CONTROLS}{HALVES}{DIRECTIONS}\ufeff]"
"""Also what lets text run backwards: a reader would see other words than a program."""
LINE_PATTERN = r"\r\n|[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]"
HEADING_PATTERN = r"^\s*#+\s+"
PLACE_PATTERN = r"(?<![\w.…/-])(?:~|//)?/(?:[^\s/:;,'\"`()]+/)*(?=[^\s/]|['\"])"
"""The folders of a path that begins at the root or at home: they lie on one machine alone."""
JUDGED = "How it was judged:"
NOT_KNOWN = "How it was judged is not known any more; its commit may say it:"
NOT_CHECKED = "No gate was run, so this is the word of the agents alone:"


@dataclass(frozen=True, slots=True)
class CommittedWork:
    run: str
    round: int
    flow: str
    gates: tuple[str, ...] = ()
    """Each with what it found: `tests passed (12 tests)`."""
    reviewers: tuple[str, ...] = ()
    """Who approved of the work: `programmer_review (codex)`."""
    proof: str = ""
    """What was proven, in words; names of files and tests in it may be anybody's."""
    is_known: bool = True
    """Is it still known how it was judged?"""


def commit_message(task: str, work: CommittedWork) -> str:
    return f"{subject(task) or f'Work of run {_one_line(work.run)}'}\n\n{trailers(work)}\n"


def request_text(task: str, work: CommittedWork) -> str:
    """Return the text of a pull request: what was asked, and how it was judged.

    What others have named is in a block of code, where it is no markup: nobody is called by it,
    and no issue is closed.
    """
    judged = JUDGED if work.gates else NOT_CHECKED
    lines = [f"{INDENT}{line}" for line in trailers(work, LONGEST_SHOWN).split("\n")]
    return "\n".join([task.strip(), "", judged if work.is_known else NOT_KNOWN, "", *lines, ""])


def subject(task: str) -> str:
    """Return the first line of a task that says something, shortened.

    >>> subject("# Slugify: keep digits")
    'Slugify: keep digits'
    """
    for line in _lines(task):
        words = _one_line(re.sub(HEADING_PATTERN, "", line))
        if any(character.isalnum() for character in words):
            return _shortened(words, LONGEST_SUBJECT)
    return ""


def trailers(work: CommittedWork, longest: int = LONGEST_VALUE) -> str:
    """Return the lines that programs read, each of one line whatever its value is made of."""
    facts = [("Run", work.run), ("Round", str(work.round)), ("Flow", work.flow)]
    facts += [("Gate", gate) for gate in work.gates]
    if work.proof:
        facts.append(("Proof", re.sub(PLACE_PATTERN, "…/", work.proof)))
    facts += [("Reviewer", reviewer) for reviewer in work.reviewers]
    values = ((key, _shortened(_one_line(value), longest) or "-") for key, value in facts)
    return "\n".join(f"Cao-{key}: {value}" for key, value in values)


def _lines(text: str) -> list[str]:
    return [re.sub(UNPRINTABLE_PATTERN, "", line) for line in re.split(LINE_PATTERN, text)]


def _one_line(text: str) -> str:
    return " ".join(re.sub(UNPRINTABLE_PATTERN, "", re.sub(f"[{BREAKS}\r]", " ", text)).split())


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


LONGEST_PUSH = 600.0
LARGEST_BODY = 60_000
"""Characters; the usual hosts take little more."""
LONGEST_ANSWER = 2000
ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
"""Variables that would lead git to another repository."""
# ssh://git@host:22/path, https://name:secret@host/path
ADDRESS_PATTERN = r"\w[\w+.-]*://(?:[^/@]*@)?([^/:]+)"
# git@host:path
SHORT_ADDRESS_PATTERN = r"(?:[^/@:]*@)?([^/:]+):(?!//)"
PROGRAMS = ("gh", "glab")
LINK_PATTERN = r"https?://\S+"


@dataclass(frozen=True, slots=True)
class PullRequest:
    remote: str
    url: str = ""
    to_type: str = ""
    """The command that opens one, if none was opened."""
    said: str = ""
    """What the other side or the program said; often there is an address in it."""


def pull_request(
    repository: Repository,
    branch: str,
    environ: Mapping[str, str],
    *,
    onto: str,
    title: str,
    body_file: Path,
    draft: bool = False,
) -> PullRequest:
    """Push a branch, and open a request to merge it if there is a program that can."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return _run(repository.top, environ, words)

    remote = _remote(run, onto)
    source = f"refs/heads/{branch}"
    # A hook may have come with the work that is pushed.
    no_hooks = ("-c", f"core.hooksPath={os.devnull}")
    pushed = run("git", *no_hooks, "push", "--no-verify", "--", remote, f"{source}:{source}")
    if pushed.returncode:
        raise GitFailed("push", pushed.returncode, _complaint(pushed))
    address = run("git", "remote", "get-url", "--push", "--", remote).stdout.strip()
    installed = [name for name in PROGRAMS if find_program(name, environ)]
    program = forge_program(host_of(address), installed)
    if not program:
        return PullRequest(remote, said=_complaint(pushed))
    options = [f"--title={subject(title) or branch}"]
    text: list[str] = []
    if program == "gh":
        words = ["gh", "pr", "create", f"--head={branch}", f"--base={onto}"]
        options.append(f"--body-file={body_file}")
    else:
        words = ["glab", "mr", "create", f"--source-branch={branch}", f"--target-branch={onto}"]
        options += ["--yes", "--no-editor"]
        body = read_named(body_file).decode(errors="replace").replace("\0", "")
        text.append(f"--description={body[:LARGEST_BODY]}")
    words += [*options, *(["--draft"] if draft else [])]
    to_type = shlex.join(words)
    if program == "glab":
        to_type += f' --description="$(cat {shlex.quote(str(body_file))})"'
    if program not in installed:
        return PullRequest(remote, to_type=to_type, said=_complaint(pushed))
    answer = run(*words, *text)
    links = re.findall(LINK_PATTERN, answer.stdout)
    if answer.returncode or not links:
        return PullRequest(remote, to_type=to_type, said=_complaint(answer))
    return PullRequest(remote, links[-1])


def host_of(address: str) -> str:
    """Return the host of a remote, in small letters; nothing for a folder.

    >>> host_of("git@gitlab.example.org:team/project.git")
    'gitlab.example.org'
    """
    match = re.match(ADDRESS_PATTERN, address) or re.match(SHORT_ADDRESS_PATTERN, address)
    return match[1].lower() if match else ""


def forge_program(host: str, installed: Sequence[str]) -> str:
    """Return the program that opens requests at a host; nothing if nobody can know.

    >>> forge_program("git.example.org", ["glab"])
    'glab'
    """
    for word, program in (("github", "gh"), ("gitlab", "glab")):
        if word in host:
            return program
    # A company's own host: the only program there is will be the one for it.
    return installed[0] if host and len(installed) == 1 else ""


def _remote(run: Callable[..., subprocess.CompletedProcess[str]], onto: str) -> str:
    known = run("git", "remote").stdout.split()
    for key in (f"branch.{onto}.pushRemote", "remote.pushDefault", f"branch.{onto}.remote"):
        name = run("git", "config", "--get", key).stdout.strip()
        if name in known:
            return name
    if "origin" in known or len(known) == 1:
        return "origin" if "origin" in known else known[0]
    if known:
        raise GitError(f"there are several remotes; set remote.pushDefault to one: {known}")
    raise GitError("there is no remote to push to; git remote add origin ADDRESS")


def _run(
    folder: Path, environ: Mapping[str, str], words: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    program = find_program(words[0], environ)
    if program is None:
        raise GitMissing(f"{words[0]} is not installed, or not on the PATH")
    kept = {key: value for key, value in environ.items() if key not in ELSEWHERE}
    try:
        return subprocess.run(
            [program, *words[1:]],
            cwd=folder,
            env={**kept, "GH_PROMPT_DISABLED": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=LONGEST_PUSH,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitError(f"{words[0]} did not end well: {in_words(error)}") from error


def _complaint(answer: subprocess.CompletedProcess[str]) -> str:
    return f"{answer.stdout}\n{answer.stderr}".strip()[:LONGEST_ANSWER]
