"""Notices what others change in a repository that can start a program or moves its branches.

    watch = Watch(repository, run_folder)
    watch.begin()   # what is different since an earlier process of the run looked for the last time
    ...
    watch.look()    # ('.git/config (core.fsmonitor)', '.git/hooks/post-checkout (new)')

A file that looks as before to the system is not read again. Whoever works there may have made any
number of folders: what was not looked at is said, too. No link is followed, and git is not
run: what stands there is what it must not go by.
"""

import errno
import hashlib
import json
import os
import re
import shlex
import stat
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from ..core.files import Folder
from ..settings.layout import WATCH_FILE
from .left_out import walk
from .repository import Repository

CONFIGS = ("config", "config.worktree")
OURS = "refs/heads/cao/"
"""Branches of runs: ours to move, and looked at before anybody gets them."""
SHOWN_ID = 12
# branch.main.merge
HARMLESS_PATTERN = (
    r"(user|color|column|gc|pull|push|tag|status)\..*|branch\..*\.(merge|rebase)"
    r"|init\.defaultbranch"
    r"|core\.(bare|filemode|ignorecase|logallrefupdates|precomposeunicode|repositoryformatversion"
    r"|symlinks)"
)
"""Settings that start no program; all others may."""
NOT_RUN = ".sample"
# [filter "lfs"]
SECTION_PATTERN = r'\s*\[\s*([^\s"\]]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]'
# fsmonitor
KEY_PATTERN = r"[A-Za-z][A-Za-z0-9-]*"
# 4b825dc642cb6eb9a060e54bf8d69288fbee4904 refs/heads/main
PACKED_PATTERN = r"([0-9a-f]{40,64}) (refs/\S+)"
# 4b825dc642cb6eb9a060e54bf8d69288fbee4904
ID_PATTERN = r"[0-9a-f]{40}|[0-9a-f]{64}"
# ref: refs/heads/main
SYMBOLIC_PATTERN = r"ref:\s*(refs/\S+)"


@dataclass(frozen=True, slots=True)
class Trace:
    """A file as it was."""

    mode: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Traces:
    """A repository as it was."""

    files: Mapping[str, Trace] = field(default_factory=dict)
    """By path."""
    refs: Mapping[str, str] = field(default_factory=dict)
    """What each branch, tag and so on is at."""
    unseen: tuple[str, ...] = ()
    """What was not looked at, and why, in words."""


def differences(old: Traces, new: Traces) -> tuple[str, ...]:
    """Say what is different, in words: first what can start a program."""
    unseen = (one for one in new.unseen if one not in old.unseen)
    return (*_files(old.files, new.files), *_refs(old, new), *unseen)


def to_json(traces: Traces) -> str:
    """Return what `from_json` reads again."""
    files = {
        path: [trace.mode, b64encode(trace.content).decode()]
        for path, trace in traces.files.items()
    }
    return json.dumps({"files": files, "refs": dict(traces.refs), "unseen": traces.unseen})


def from_json(text: str) -> Traces | None:
    """Return a repository as it was, or None if the text does not tell."""
    try:
        said = json.loads(text)
        files = {
            str(path): Trace(int(mode), b64decode(content, validate=True))
            for path, (mode, content) in said["files"].items()
        }
        refs = {str(name): str(at) for name, at in said["refs"].items()}
        return Traces(files, refs, tuple(str(one) for one in said.get("unseen", ())))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def settings_in(content: bytes) -> list[tuple[str, str]]:
    """Return the settings in a configuration of git's, in their order."""
    section, found = "", []
    text = content.decode(errors="replace").replace("\\\n", "")
    for line in text.split("\n"):
        if match := re.match(SECTION_PATTERN, line):
            name, inner = match.groups()
            section = name.lower() if inner is None else f"{name.lower()}.{inner}"
            line = line[match.end() :]
        key, _, value = line.partition("=")
        if re.fullmatch(KEY_PATTERN, key.strip()):
            found.append((f"{section}.{key.strip().lower()}".lstrip("."), value.strip()))
    return found


def packed_refs(content: bytes) -> dict[str, str]:
    """Return what the file has in which git puts many branches together."""
    text = content.decode(errors="replace")
    return {name: at for at, name in re.findall(rf"(?m)^{PACKED_PATTERN}$", text)}


def _files(old: Mapping[str, Trace], new: Mapping[str, Trace]) -> list[str]:
    changed = [path for path in sorted({*old, *new}) if old.get(path) != new.get(path)]
    ranked = [(_rank(path, old.get(path), new.get(path)), path) for path in changed]
    return [_said(path, old.get(path), new.get(path)) for _, path in sorted(ranked)]


def _rank(path: str, before: Trace | None, now: Trace | None) -> int:
    """Return where a file that is different is named: the lower, the earlier."""
    *above, name = path.split("/")
    if name in CONFIGS:
        keys = _changed_keys(before, now)
        return 2 if now is None or all(map(_is_harmless, keys)) else 0
    if name.endswith(NOT_RUN):
        return 3
    return 1 if now is not None and "hooks" in above else 2


def _said(path: str, before: Trace | None, now: Trace | None) -> str:
    if path.rpartition("/")[2] in CONFIGS:
        keys = _changed_keys(before, now)
        return f"{path} ({', '.join(keys)})" if keys else path
    if before is None or now is None:
        return f"{path} ({'new' if before is None else 'gone'})"
    return path


def _changed_keys(before: Trace | None, now: Trace | None) -> list[str]:
    """Return the settings that are different, those first that may start a program."""
    old, new = (Counter(settings_in(one.content if one else b"")) for one in (before, now))
    keys = {key for key, _ in (old - new) + (new - old)}
    return sorted(keys, key=lambda key: (_is_harmless(key), key))


def _is_harmless(key: str) -> bool:
    return re.fullmatch(HARMLESS_PATTERN, key, re.DOTALL) is not None


def _refs(old: Traces, new: Traces) -> Iterator[str]:
    checked_out = _checked_out(new.files)
    for name in sorted({*old.refs, *new.refs}):
        before = old.refs.get(name)
        if name.startswith(OURS) or before == new.refs.get(name):
            continue
        if before is None:
            yield f"{name} (new)"
            continue
        files = "; your files stay as they are then" if name in checked_out else ""
        way = _way_back(name, before)
        yield f"{name} (was {before[:SHOWN_ID]}{f'; {way}{files}' if way else ''})"


def _way_back(name: str, before: str) -> str:
    """Say by which command a branch is again at what it was; nothing if that is no commit."""
    if re.fullmatch(ID_PATTERN, before):
        command = f"git update-ref {shlex.quote(name)} {before}"
        return f"`{command}` brings it back until git prunes it"
    if match := re.fullmatch(SYMBOLIC_PATTERN, before):
        command = f"git symbolic-ref {shlex.quote(name)} {shlex.quote(match[1])}"
        return f"`{command}` brings it back"
    return ""


def _checked_out(files: Mapping[str, Trace]) -> set[str]:
    """Return the branches whose files the user has before him."""
    heads = (trace.content for path, trace in files.items() if path.rpartition("/")[2] == "HEAD")
    texts = (head.decode(errors="replace").strip() for head in heads)
    found = (re.fullmatch(SYMBOLIC_PATTERN, text) for text in texts)
    return {match[1] for match in found if match}


FILES = (
    # Those that need not be the same in all work trees of a repository.
    ("HEAD",),
    ("config",),
    ("config.worktree",),
    ("info", "attributes"),
    ("info", "exclude"),
    ("reftable", "tables.list"),
)
SUBMODULES = "modules"
NO_REPOSITORIES = ("hooks", "info", "lfs", "logs", "objects", "refs", "worktrees")
"""Folders of a repository in which there is none of a submodule."""
DEEPEST = 32
"""Folders in each other, of hooks and of branches, that are looked at."""
DEEPEST_SUBMODULE = 8
MOST_LOOKED_AT = 20_000
"""Files, and folders, below one folder."""
MOST_UNSEEN = 100
LONGEST_SHOWN = 500
"""Characters of a path that is told."""
TOO_DEEP = "too deep to be looked at"
LARGEST_KEPT = 256 * 1024 * 1024
LARGEST_FILE = 64 * 1024 * 1024
SHORT = 1024 * 1024
"""Bytes up to which a file is kept as it is; of a larger one a number that stands for it."""

Look = tuple[int, int, int, int, int]
"""What changes whenever a file does."""


class RepositoryWatch:
    """One repository, as it was when it was last looked at."""

    def __init__(
        self, repository: Repository, kept_in: Folder | None = None, most: int = MOST_LOOKED_AT
    ) -> None:
        """Take the folder in which each look is kept, if it is to outlive this process."""
        self._most = most
        self._repository = repository
        self._kept_in = kept_in
        self._read: dict[Path, tuple[Look, Trace]] = {}
        self._last: Traces | None = None
        self.has_compared = False
        """Was there an earlier look with which the first one was compared?"""

    def begin(self) -> tuple[str, ...]:
        """Look for the first time; say what is different from the last look that was kept."""
        kept = self._kept()
        self.has_compared = kept is not None
        return self._compare(kept)

    def look(self) -> tuple[str, ...]:
        """Say what is different from the last look, in words."""
        return self.begin() if self._last is None else self._compare(self._last)

    def _compare(self, before: Traces | None) -> tuple[str, ...]:
        """Look, and say what is different; compared with nothing, that is nothing."""
        now = self._last = self._traces()
        if before != now:
            self._keep(now)
        return () if before is None else differences(before, now)

    def _kept(self) -> Traces | None:
        if self._kept_in is not None:
            with suppress(OSError):
                text = self._kept_in.read(WATCH_FILE, LARGEST_KEPT).decode(errors="replace")
                return from_json(text)
        return None

    def _keep(self, traces: Traces) -> None:
        if self._kept_in is not None:
            # Without it a crash is the only thing that hides a change.
            with suppress(OSError):
                self._kept_in.replace(WATCH_FILE, to_json(traces).encode(), lasting=False)

    def _traces(self) -> Traces:
        common = self._repository.common_dir
        finder = _Finder(self._shown, self._most)
        files = {}
        for place in self._places(finder):
            trace = self._trace(place)
            if trace is not None:
                files[self._shown(place)] = trace
        packed = self._trace(common / "packed-refs")
        refs = {} if packed is None else packed_refs(packed.content)
        for path in finder.below(common / "refs"):
            at = self._trace(path)
            if at is not None:
                name = path.relative_to(common).as_posix()
                refs[name] = at.content.decode(errors="replace").strip()
        return Traces(files, refs, tuple(finder.unseen))

    def _places(self, finder: "_Finder") -> Iterator[Path]:
        repository = self._repository
        if repository.git_dir != repository.top / ".git":
            yield repository.top / ".git"
        for folder in dict.fromkeys((repository.common_dir, repository.git_dir)):
            yield from (folder.joinpath(*parts) for parts in FILES)
        yield from finder.below(repository.common_dir / "hooks")
        for folder in finder.submodules(repository.common_dir / SUBMODULES):
            yield from (folder.joinpath(*parts) for parts in FILES if parts != ("HEAD",))
            yield from finder.below(folder / "hooks")

    def _trace(self, path: Path) -> Trace | None:
        """Return a file as it is; None if it is not there."""
        try:
            status = path.lstat()
        except OSError:
            return None
        look = (
            status.st_mode,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )
        known = self._read.get(path)
        if known is not None and known[0] == look:
            return known[1]
        trace = Trace(status.st_mode, _content(path, status.st_mode))
        self._read[path] = (look, trace)
        return trace

    def _shown(self, path: Path) -> str:
        top = self._repository.top
        return str(path.relative_to(top) if path.is_relative_to(top) else path)


class _Finder:
    """Finds files in folders that anybody may have made, and keeps what it did not look at."""

    def __init__(self, shown: Callable[[Path], str], most: int) -> None:
        """Take how a path is called, and how many are looked at below one folder."""
        self._shown = shown
        self._most = most
        self.unseen: list[str] = []

    def submodules(self, top: Path) -> Iterator[Path]:
        """Yield the repositories of submodules below a folder, and of their own submodules."""
        for place, folders, _ in self._walk(top, DEEPEST_SUBMODULE):
            if place != top and os.path.lexists(place / "config"):
                yield place
            if place != top:
                folders[:] = [name for name in folders if name not in NO_REPOSITORIES]

    def below(self, top: Path) -> Iterator[Path]:
        """Yield all that is in a folder and in those in it; of a link only itself."""
        with suppress(OSError):
            if not stat.S_ISDIR(top.lstat().st_mode):
                yield top
                return
        files = (
            place / name
            for place, _, others in self._walk(top, DEEPEST)
            for name in others
            if not name.endswith(".lock")
        )
        yield from islice(files, self._most)
        if next(files, None) is not None:
            self._note(top, "too many files to be looked at")

    def _walk(self, top: Path, deepest: int) -> Iterator[tuple[Path, list[str], list[str]]]:
        """Yield the folders below one, so many at most, and so many in each other."""
        levels = len(top.parts) + deepest
        found = walk(top, self._cannot_read)
        for place, folders, others in islice(found, self._most):
            if len(place.parts) >= levels and folders:
                self._note(place, TOO_DEEP)
                folders.clear()
            yield place, folders, others
        if next(found, None) is not None:
            self._note(top, "too many folders to be looked at")

    def _cannot_read(self, folder: Path, error: OSError) -> None:
        if error.errno != errno.ENOENT:
            reason = "could not be read"
            self._note(folder, TOO_DEEP if error.errno == errno.ENAMETOOLONG else reason)

    def _note(self, folder: Path, why: str) -> None:
        if len(self.unseen) < MOST_UNSEEN:
            self.unseen.append(f"{self._shown(folder)[:LONGEST_SHOWN]}/… ({why})")


def _content(path: Path, mode: int) -> bytes:
    if stat.S_ISLNK(mode):
        with suppress(OSError):
            return os.fsencode(path.readlink())
    try:
        content = Folder(path.parent).read(path.name, LARGEST_FILE)
    except OSError:
        return b""
    # Those of branches and settings are compared in parts.
    return content if len(content) <= SHORT or path.name == "packed-refs" else _digest(content)


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
