"""What of a repository can start a program or lead its user elsewhere, and what of it is different.

A setting (`core.fsmonitor`, `filter.x.clean`, `include.path`), a hook, an attribute, a branch that
was moved: the next command that the user gives there would go by it. Git is not asked about any of
this, since it would go by it, too.
"""

import json
import re
import shlex
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

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
