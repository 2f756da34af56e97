"""A run's branch becomes a pull request (a merge request at GitLab), when the user asks for it.

Here alone the user's own git is meant: their settings, credentials and hooks. Nothing is forced:
where the other side has a branch of that name with other commits, the push is refused.

`gh` or `glab` opens the request if it is installed; otherwise it is said what to type.
"""

import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..core.files import read_named
from ..core.text import BREAKS, CONTROLS, DIRECTIONS, HALVES
from ..errors import GitError, GitFailed, GitMissing, in_words
from .git import find_program
from .repository import Repository

LONGEST_SUBJECT = 72
LONGEST_VALUE = 200
LONGEST_SHOWN = 2000
"""Characters of a value in a pull request."""
LONGEST_BODY = 8000
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
PROSE_PATTERN = r"(?!diff -|From )(?:[-*] )?\w(?![\w-]*\s*:)"
"""A line that is neither a trailer ("Reviewed-by: me") nor a rule ("---") nor the head of a patch
("diff -", "From ")."""


@dataclass(frozen=True, slots=True)
class GateResult:
    """What a gate found."""

    name: str
    outcome: str
    """passed, failed, could not run"""
    details: str = ""
    """12 tests"""


@dataclass(frozen=True, slots=True)
class Reviewer:
    """Who approved of the work."""

    role: str
    provider: str


@dataclass(frozen=True, slots=True)
class CommittedWork:
    """What a commit holds."""

    run: str
    round: int
    flow: str
    gates: tuple[GateResult, ...] = ()
    reviewers: tuple[Reviewer, ...] = ()
    proof: str = ""
    """What was proven, in words; names of files and tests in it may be anybody's."""
    is_known: bool = True
    """Is it still known how it was judged?"""


def commit_message(task: str, work: CommittedWork, body: str = "") -> str:
    """Return the whole message: a subject from the task, a text if there is one, the trailers."""
    parts = [subject(task) or f"Work of run {_one_line(work.run)}", _quoted(body), trailers(work)]
    return "\n\n".join(part for part in parts if part) + "\n"


def request_text(task: str, work: CommittedWork) -> str:
    """Return the text of a pull request: what was asked, and how it was judged.

    What others have named is in a block of code, where it is no markup: nobody is called by it,
    and no issue is closed.
    """
    lines = trailers(work, LONGEST_SHOWN).split("\n")
    judged = JUDGED if work.gates else NOT_CHECKED
    if not work.is_known:
        judged = NOT_KNOWN
    return "\n".join([task.strip(), "", judged, "", *(f"{INDENT}{line}" for line in lines), ""])


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
    return "\n".join(f"Cao-{key}: {_value(value, longest)}" for key, value in _facts(work))


def _facts(work: CommittedWork) -> Iterator[tuple[str, str]]:
    yield "Run", work.run
    yield "Round", str(work.round)
    yield "Flow", work.flow
    for gate in work.gates:
        details = f" ({gate.details})" if gate.details else ""
        yield "Gate", f"{gate.name} {gate.outcome}{details}"
    if work.proof:
        yield "Proof", re.sub(PLACE_PATTERN, "…/", work.proof)
    for reviewer in work.reviewers:
        yield "Reviewer", f"{reviewer.role} ({reviewer.provider})"


def _value(text: str, longest: int) -> str:
    return _shortened(_one_line(text), longest) or "-"


def _quoted(body: str) -> str:
    """Return a text of others' in which no line can be taken for one of ours."""
    lines = [line.rstrip() for line in _lines(body[:LONGEST_BODY])]
    return "\n".join(_harmless(lines)).strip("\n")


def _harmless(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield line if not line or re.match(PROSE_PATTERN, line) else INDENT + line


def _lines(text: str) -> list[str]:
    return [re.sub(UNPRINTABLE_PATTERN, "", line) for line in re.split(LINE_PATTERN, text)]


def _one_line(text: str) -> str:
    return " ".join(re.sub(UNPRINTABLE_PATTERN, "", re.sub(f"[{BREAKS}\r]", " ", text)).split())


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


LONGEST_SECONDS = 600.0
LARGEST_BODY = 60_000
"""Characters; the usual hosts take little more."""
LONGEST_COMPLAINT = 2000
ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
"""Variables that would lead git to another repository."""
# ssh://git@host:22/path, https://name:secret@host/path
ADDRESS_PATTERN = r"\w[\w+.-]*://(?:[^/@]*@)?([^/:]+)"
# git@host:path
SHORT_ADDRESS_PATTERN = r"(?:[^/@:]*@)?([^/:]+):(?!//)"
LINK_PATTERN = r"https?://\S+"


@dataclass(frozen=True, slots=True)
class Wish:
    """What the request is to be."""

    title: str
    body_file: Path
    onto: str
    """The branch it is to be merged into."""
    environ: Mapping[str, str] = field(repr=False)
    draft: bool = False
    """Is it not to be merged yet?"""


@dataclass(frozen=True, slots=True)
class PullRequest:
    """What was done: the branch is pushed in any case."""

    remote: str
    url: str = ""
    """Of the request; nothing if none was opened."""
    to_type: str = ""
    """The command that opens one, if none was opened."""
    said: str = ""
    """What the other side or the program said; often there is an address in it."""


def pull_request(repository: Repository, branch: str, wish: Wish) -> PullRequest:
    """Push a branch, and open a request to merge it if there is a program that can."""
    remote = _remote(repository, wish)
    source = f"refs/heads/{branch}"
    pushed = _git(repository, wish, "push", "--", remote, f"{source}:{source}")
    if pushed.returncode:
        raise GitFailed("push", pushed.returncode, _complaint(pushed))
    address = _git(repository, wish, "remote", "get-url", "--push", "--", remote).stdout.strip()
    program = forge_program(host_of(address), [name for name in COMMANDS if _found(name, wish)])
    if not program:
        return PullRequest(remote, said=_complaint(pushed))
    command = COMMANDS[program](branch, wish)
    to_type = _typed(program, command, wish)
    if not _found(program, wish):
        return PullRequest(remote, to_type=to_type, said=_complaint(pushed))
    answer = _run(repository, wish, [*command, *_text(program, wish)])
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


def _gh(branch: str, wish: Wish) -> list[str]:
    words = ["gh", "pr", "create", f"--head={branch}", f"--base={wish.onto}"]
    words += [f"--title={_title(branch, wish)}", f"--body-file={wish.body_file}"]
    return [*words, *(["--draft"] if wish.draft else [])]


def _glab(branch: str, wish: Wish) -> list[str]:
    words = ["glab", "mr", "create", f"--source-branch={branch}", f"--target-branch={wish.onto}"]
    words += [f"--title={_title(branch, wish)}", "--yes", "--no-editor"]
    return [*words, *(["--draft"] if wish.draft else [])]


COMMANDS = {"gh": _gh, "glab": _glab}


def _text(program: str, wish: Wish) -> list[str]:
    """Return the text of a request where it cannot be named as a file."""
    if program != "glab":
        return []
    body = read_named(wish.body_file).decode(errors="replace").replace("\0", "")
    return [f"--description={body[:LARGEST_BODY]}"]


def _typed(program: str, command: Sequence[str], wish: Wish) -> str:
    """Return a command as a person would type it."""
    text = f' --description="$(cat {shlex.quote(str(wish.body_file))})"'
    return shlex.join(command) + (text if program == "glab" else "")


def _title(branch: str, wish: Wish) -> str:
    return subject(wish.title) or branch


def _remote(repository: Repository, wish: Wish) -> str:
    """Return where the user pushes to."""
    known = _git(repository, wish, "remote").stdout.split("\n")
    for key in (
        f"branch.{wish.onto}.pushRemote",
        "remote.pushDefault",
        f"branch.{wish.onto}.remote",
    ):
        name = _git(repository, wish, "config", "--get", key).stdout.strip()
        if name in known and name:
            return name
    names = [name for name in known if name]
    if "origin" in names or len(names) == 1:
        return "origin" if "origin" in names else names[0]
    if names:
        raise GitError(f"there are several remotes; set remote.pushDefault to one: {names}")
    raise GitError("there is no remote to push to; git remote add origin ADDRESS")


def _git(repository: Repository, wish: Wish, *words: str) -> subprocess.CompletedProcess[str]:
    if not _found("git", wish):
        raise GitMissing("git is not installed, or not on the PATH")
    return _run(repository, wish, ["git", *words])


def _run(
    repository: Repository, wish: Wish, words: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    """Run a program of the user's as the user would, but without questions."""
    kept = {key: value for key, value in wish.environ.items() if key not in ELSEWHERE}
    try:
        return subprocess.run(
            [_found(words[0], wish), *words[1:]],
            cwd=repository.top,
            env={**kept, "GH_PROMPT_DISABLED": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=LONGEST_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitError(f"{words[0]} {words[1]} did not end well: {in_words(error)}") from error


def _found(program: str, wish: Wish) -> str:
    return find_program(program, wish.environ) or ""


def _complaint(answer: subprocess.CompletedProcess[str]) -> str:
    return f"{answer.stdout}\n{answer.stderr}".strip()[:LONGEST_COMPLAINT]
