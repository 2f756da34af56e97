"""The work of a run comes to the user: merged, as a pull request, or away with it.

Nothing uncommitted is ever lost. `merge-tree` shows the conflicts first, without touching anything.
Then the checkout is only ever fast-forwarded: where it takes a merge, the merge commit is made
beforehand. So no merge can stop halfway, and what is staged elsewhere stays staged. Git refuses
where a file of the user's would be written over; an ignored one is as precious as any other.

A pull request alone uses the user's own git: their settings and credentials, but no hook. Nothing
is forced. `gh` or `glab` opens the request if it is installed; otherwise the command is shown.
"""

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ..core.files import Folder, read_named
from ..core.programs import without_repository
from ..core.text import BREAKS, UNSAFE_PATTERN, first_names, one_line, printable, short_line
from ..errors import GitError, GitFailed, GitMissing, RunError, in_words
from .changes import LeftOut
from .git import (
    Git,
    GitAnswer,
    Repository,
    alone_in,
    changed_files,
    filtered,
    find_program,
    find_repository,
    listed,
)
from .worktree import Worktree

USAGE = 129
MOST_FILES = 50
LONGEST_WAIT = 60.0
UNKNOWN = "??"
# "	a.txt", below "error: Your local changes to the following files would be overwritten"
IN_THE_WAY_PATTERN = r"(?m)^\t(.+)$"
FAST_FORWARD = ("merge", "-q", "--ff-only", "--no-overwrite-ignore", "--no-autostash", "--no-stat")
RESTORE = ("restore", "--source=HEAD", "--staged", "--worktree")


MergeKind = Literal["fast-forwarded", "merged", "already there"]


class MergeResult(Struct, frozen=True):
    kind: MergeKind
    commit: str
    remarks: tuple[str, ...] = ()


def apply(tree: Worktree, identity: Mapping[str, str]) -> MergeResult:
    """Merge a work tree's branch into the one it began at; what is in the way is a `RunError`."""
    top, environ, branch, onto = tree.repository.top, tree.environ, tree.branch, tree.onto
    with alone_in(tree.repository.common_dir, LONGEST_WAIT) as held:
        now = find_repository(top, environ)
        if now is None:
            raise _refused(f"{top} is no repository any more")
        options = {
            "i18n.commitEncoding": "UTF-8",
            "merge.verifySignatures": "false",
            "pull.twohead": "ort",
            f"branch.{now.branch}.mergeOptions": "",
        }
        git = Git(now.git_dir, now.top, environ, None, options, identity)
        git = replace(git.defused(), inherited=() if held is None else (held,))
        tip = tree.branch_tip()
        if reason := _objection(now, branch, tip, onto):
            raise _refused(reason)
        base = git.ask("merge-base", now.head, tip).text
        if base == tip:
            return MergeResult("already there", now.head)
        if base == now.head:
            return _move(git, now.head, tip, "fast-forwarded")
        words = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages")
        merged = git.ask(*words, now.head, tip)
        if merged.code == USAGE:
            raise _refused(
                f"this git cannot tell conflicts beforehand (2.38 can), and {branch} needs a "
                f"merge: git merge {branch}"
            )
        wanted, *conflicts = merged.text.split("\0")
        if merged.code not in (0, 1) or not wanted:
            raise GitError(f"git cannot merge: {merged.complaint}")
        if merged.code:
            why = f"the same places were changed; to settle it yourself: git merge {branch}"
            raise _refused(why, list(dict.fromkeys(filter(None, conflicts))))
        message = f"Merge branch '{branch}'\n".encode(errors="replace")
        commit = git.text("commit-tree", wanted, "-p", now.head, "-p", tip, given=message)
        return _move(git, now.head, commit, "merged")


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
    removed = [path for path, letters in before.items() if letters == " D"]
    answer = GitAnswer(1, b"", "") if removed else git.ask(*FAST_FORWARD, commit)
    if answer.code == 0 and git.ask("rev-parse", "HEAD").text == commit:
        remarks = []
        for name, files in filtered(git, touched).items():
            advice = " (git lfs pull brings their content)" if name == "lfs" else ""
            text = f"arrived as stored, not through the filter {name}{advice}"
            remarks.append(f"{text}: {first_names(files)}")
        return MergeResult(kind, commit, remarks=tuple(remarks))
    if in_the_way := removed or re.findall(IN_THE_WAY_PATTERN, answer.complaint):
        why = "files of yours would be written over; commit them or move them away"
        raise _refused(why, in_the_way)
    raise _refused(f"git refused: {answer.complaint}\n{_taken_back(git, touched, before)}")


def _changed(git: Git, paths: Collection[str]) -> dict[str, str]:
    found = changed_files(git, "--untracked-files=all")
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


def _refused(reason: str, files: Sequence[str] = ()) -> RunError:
    more = len(files) - MOST_FILES
    named = [*map(one_line, files[:MOST_FILES]), *([f"and {more} more"] * (more > 0))]
    return RunError("\n  ".join([f"nothing was applied: {printable(reason)}", *named]))


def discard(worktree: Worktree, kept: str, left_out: Sequence[LeftOut]) -> str:
    """Remove a work tree and its branch if a snapshot has all of it; return why it stays.

    `kept` is the commit that the snapshot goes with. Ignored files (dependencies, what was built)
    go with the tree.
    """
    tip = worktree.branch_tip()
    if tip and tip != kept:
        return f"{worktree.branch} has commits that no snapshot has"
    if "locked" in worktree.entry.names() and not worktree.is_unfinished:
        return f"it is locked; to unlock it: git worktree unlock {worktree.folder}"
    if other := worktree.checked_out_elsewhere():
        return f"{worktree.branch} is checked out in {other}"
    if left_out and worktree.exists and not worktree.is_unfinished:
        not_kept = {one.path for one in left_out}
        if unsaved := [path for path in worktree.uncommitted() if path in not_kept]:
            return f"it has files that no snapshot has as they are: {', '.join(unsaved)}"
    worktree.remove(tip)
    return ""


LONGEST_SUBJECT = 72
LONGEST_VALUE = 200
LONGEST_SHOWN = 2000
HEADING_PATTERN = r"^\s*#+\s+"
PLACE_PATTERN = r"(?<![\w.…/-])(?:~|//)?/(?:[^\s/:;,'\"`()]+/)*(?=[^\s/]|['\"])"
"""The folders of a path that begins at the root or at home: they lie on one machine alone."""
JUDGED = "How it was judged:"
NOT_KNOWN = "How it was judged is not known any more; its commit may say it:"
NOT_CHECKED = "No gate was run, so this is the word of the agents alone:"


class CommittedWork(Struct, frozen=True):
    run: str
    round: int
    flow: str
    gates: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    proof: str = ""
    """What was proven, in words; it names files and tests, and those names are not trusted."""
    is_known: bool = True


def commit_message(task: str, work: CommittedWork) -> str:
    return f"{subject(task) or f'Work of run {_plain(work.run)}'}\n\n{trailers(work)}\n"


def request_text(task: str, work: CommittedWork) -> str:
    """Return the text of a pull request; in a block of code no name mentions a person."""
    judged = JUDGED if work.gates else NOT_CHECKED
    lines = [f"    {line}" for line in trailers(work, LONGEST_SHOWN).split("\n")]
    return "\n".join([task.strip(), "", judged if work.is_known else NOT_KNOWN, "", *lines, ""])


def subject(task: str) -> str:
    for line in task.splitlines():
        words = re.sub(HEADING_PATTERN, "", _plain(line))
        if any(character.isalnum() for character in words):
            return short_line(words, LONGEST_SUBJECT)
    return ""


def trailers(work: CommittedWork, longest: int = LONGEST_VALUE) -> str:
    """Return the lines that programs read, each of one line whatever its value is made of."""
    facts = [("Run", work.run), ("Round", str(work.round)), ("Flow", work.flow)]
    facts += [("Gate", gate) for gate in work.gates]
    if work.proof:
        facts.append(("Proof", re.sub(PLACE_PATTERN, "…/", work.proof)))
    facts += [("Reviewer", reviewer) for reviewer in work.reviewers]
    values = ((key, short_line(_plain(value), longest) or "-") for key, value in facts)
    return "\n".join(f"Cao-{key}: {value}" for key, value in values)


def _plain(text: str) -> str:
    return re.sub(f"{UNSAFE_PATTERN}|\ufeff", "", re.sub(f"[{BREAKS}\r]", " ", text))


LONGEST_PUSH = 600.0
LARGEST_BODY = 60_000
LONGEST_ANSWER = 2000
# ssh://git@host:22/path, https://name:secret@host/path
ADDRESS_PATTERN = r"\w[\w+.-]*://(?:[^/@]*@)?([^/:]+)"
# git@host:path
SHORT_ADDRESS_PATTERN = r"(?:[^/@:]*@)?([^/:]+):(?!//)"
LINK_PATTERN = r"https?://\S+"


class PullRequest(Struct, frozen=True):
    remote: str
    url: str = ""
    to_type: str = ""
    said: str = ""


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

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        program = find_program(words[0], environ)
        if program is None:
            raise GitMissing(f"{words[0]} is not installed, or not on the PATH")
        try:
            return subprocess.run(
                [program, *words[1:]],
                cwd=repository.top,
                env={**without_repository(environ), "GH_PROMPT_DISABLED": "1"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=LONGEST_PUSH,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise GitError(f"{words[0]} did not end well: {in_words(error)}") from error

    remote = _remote(run, onto)
    if not remote:
        push = f"git push REMOTE {branch}"
        raise GitError(f"there is no remote to push to; add one, and push it yourself: {push}")
    source = f"refs/heads/{branch}"
    # A hook may have come with the work that is pushed.
    no_hooks = ("-c", f"core.hooksPath={os.devnull}")
    pushed = run("git", *no_hooks, "push", "--no-verify", "--", remote, f"{source}:{source}")
    if pushed.returncode:
        raise GitFailed("push", pushed.returncode, _complaint(pushed))
    address = run("git", "remote", "get-url", "--push", "--", remote).stdout.strip()
    installed = [name for name in ("gh", "glab") if find_program(name, environ)]
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
    match = re.match(ADDRESS_PATTERN, address) or re.match(SHORT_ADDRESS_PATTERN, address)
    return match[1].lower() if match else ""


def forge_program(host: str, installed: Sequence[str]) -> str:
    for word, program in (("github", "gh"), ("gitlab", "glab")):
        if word in host:
            return program
    # A company's own host: the only program there is will be the one for it.
    return installed[0] if host and len(installed) == 1 else ""


def _remote(run: Callable[..., subprocess.CompletedProcess[str]], onto: str) -> str:
    known = run("git", "remote").stdout.split()
    words = ("for-each-ref", "--format=%(push:remotename)", f"refs/heads/{onto}")
    name = run("git", *words).stdout.strip()
    if name in known:
        return name
    if "origin" in known or len(known) == 1:
        return "origin" if "origin" in known else known[0]
    if known:
        raise GitError(f"there are several remotes; set remote.pushDefault to one: {known}")
    return ""


def _complaint(answer: subprocess.CompletedProcess[str]) -> str:
    return f"{answer.stdout}\n{answer.stderr}".strip()[:LONGEST_ANSWER]
