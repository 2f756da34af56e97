"""What was done to the tests of a project between two trees.

Looked at are tests, their settings, CI files, and the unit tests inside of Rust sources. For each
file that was there before:

    gone                        DELETED
    moved                       MOVED_OUT if no runner finds it any more, else MOVED to a new folder
    a link or a submodule now   REPLACED
    fewer cases, assertions     FEWER_CASES, FEWER_ASSERTIONS
    more marks that skip        NEW_SKIPS; in files that are new, too
    lines are missing           LINES_CHANGED: they were removed, changed or put in another order
    other rights                MODE_CHANGED

Of the product, lines are looked at that reach into the framework of its tests, REACHES, and those
by which code can do so unseen or decide itself what it is equal to: MISLEADS. So is source code
that cannot be read.

New tests are welcome, and so are new lines in old ones. Settings and CI files are suspicious as
soon as they are new, changed or gone. A suspicion is no proof: it is what a reviewer should look
at, the worst first. An early `return`, a looser tolerance or a subject that was mocked away show
as changed lines at the most.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from ..core.text import plural
from ..work.changes import Change
from .suites import (
    BY_PATH,
    LANGUAGES,
    RUST,
    SETTINGS_SKIPS,
    Kinds,
    Language,
    PathKind,
    is_found,
    kind_of,
    language_of,
    marks_of,
    spoken_part,
)

LARGEST_TEXT = 1_000_000
MOST_LINES = 20_000
LONGEST_SHOWN = 200
# "#[cfg(test)]", "#[cfg(all(test, unix))]"
UNIT_TESTS_PATTERN = r"[ \t]*#\[cfg\((?:test|all\(test\b.*)\)\]"
SHADOWS = frozenset({"unittest", "pytest", "_pytest", "sitecustomize", "usercustomize"})
"""Modules that are taken in the place of a framework, or before everything else."""
EXECUTABLE, LINK = "100755", "120000"
NO_FILE = ("", "000000")
FILE_KINDS = {"12": "a symbolic link", "16": "a submodule", "10": "a plain file"}
UNREADABLE = "it is not text, or too large to be looked into"
ALL_SKIPS = "|".join((SETTINGS_SKIPS, *(known.skips for known in LANGUAGES)))


class Trick(StrEnum):
    """What was done, the worst first."""

    DELETED = "deleted"
    MOVED_OUT = "moved out"
    REPLACED = "replaced"
    FEWER_CASES = "fewer cases"
    NEW_SKIPS = "new skips"
    FEWER_ASSERTIONS = "fewer assertions"
    REACHES = "reaches into the tests"
    MISLEADS = "could mislead the tests"
    SETTINGS_CHANGED = "settings changed"
    CI_CHANGED = "CI changed"
    LINES_CHANGED = "lines changed"
    MOVED = "moved"
    MODE_CHANGED = "mode changed"


CHANGED = {PathKind.SETTINGS: Trick.SETTINGS_CHANGED, PathKind.CI: Trick.CI_CHANGED}


ReadChange = tuple[Change, str | None, str | None]
"""A change, and the text before and now; None where there is none, or none that can be read."""


class Suspicion(Struct, frozen=True):
    path: str
    trick: Trick
    detail: str


def find_tampering(
    changes: Sequence[ReadChange], kinds: Kinds = BY_PATH, left_out: Sequence[str] = ()
) -> tuple[Suspicion, ...]:
    found = {suspicion for change in changes for suspicion in _look_at(*change, kinds)}
    if left_out:
        words = f"not looked into, as too many files were changed{_others(left_out, 'file')}"
        found.add(Suspicion(left_out[0], Trick.MISLEADS, words))
    ranks = list(Trick)
    return tuple(sorted(found, key=lambda s: (ranks.index(s.trick), s.path, s.detail)))


def _look_at(
    change: Change, old_text: str | None, new_text: str | None, kinds: Kinds
) -> Iterator[Suspicion]:
    old, new = _readable(old_text), _readable(new_text)
    old_kind = PathKind.OTHER if change.status == "A" else kinds.of(change.old_path)
    new_kind = PathKind.OTHER if change.status == "D" else kinds.of(change.path)
    if old_kind is PathKind.TEST:
        lost = is_found(change.old_path) and not is_found(change.path)
        if change.status != "D" and (new_kind is not PathKind.TEST or lost):
            where = f"moved to {_shown(change.path)}, where no test runner looks for it"
            yield Suspicion(change.old_path, Trick.MOVED_OUT, f"{where}{_held(change, old)}")
        else:
            yield from _look_at_own(change, None, old, new)
    elif new_kind is PathKind.TEST:
        yield from _new_skips(change.path, "", new)
    elif RUST in (language_of(change.old_path), language_of(change.path)):
        is_rust = change.status != "D" and language_of(change.path) is RUST
        before, after = "" if change.status == "A" else old, new if is_rust else ""
        if before is not None and after is not None:
            yield from _compare(change.path, RUST, before, after, _unit_tests)
            yield from _new_skips(change.path, before, new)
    if old_kind is new_kind is PathKind.OTHER and change.status != "D":
        yield from _look_at_product(change, old, new)
    for kind, trick in CHANGED.items():
        if kind in (old_kind, new_kind):
            is_new = old_kind is not kind
            yield from _look_at_own(change, trick, "" if is_new else old, new, is_new)


def _look_at_own(
    change: Change, trick: Trick | None, old: str | None, new: str | None, is_new: bool = False
) -> Iterator[Suspicion]:
    """Look at a settings or CI file, whose changes are all of one trick, or at a test."""
    if change.status == "D":
        held = "" if trick else _held(change, old)
        yield Suspicion(change.old_path, trick or Trick.DELETED, f"deleted{held}")
        return
    places = [change.old_path, change.path]
    if trick is None:
        places = [path.rpartition("/")[0] for path in places]
    if places[0] != places[1] and not is_new:
        moved = f"moved to {_shown(change.path)}"
        yield Suspicion(change.old_path, trick or Trick.MOVED, moved)
    if change.old_mode not in (*NO_FILE, change.new_mode):
        if change.old_mode[:2] != change.new_mode[:2]:
            now = FILE_KINDS.get(change.new_mode[:2], f"of mode {_shown(change.new_mode)}")
            yield Suspicion(change.path, Trick.REPLACED, f"it is {now} now")
            return
        now = "executable now" if change.new_mode == EXECUTABLE else "not executable any more"
        yield Suspicion(change.path, Trick.MODE_CHANGED, f"it is {now}")
    if trick and is_new:
        yield Suspicion(change.path, trick, "new")
    elif old is None or new is None:
        yield Suspicion(change.path, trick or Trick.LINES_CHANGED, f"changed; {UNREADABLE}")
    elif trick is None:
        yield from _compare(change.path, language_of(change.old_path), old, new)
    elif old != new:
        yield Suspicion(change.path, trick, _difference(old.split("\n"), new.split("\n")))
    yield from _new_skips(change.path, old, new)


def _held(change: Change, text: str | None) -> str:
    language = language_of(change.old_path)
    if language is None or text is None:
        return ""
    spoken = spoken_part(text, language)
    cases, assertions = marks_of(language.cases, spoken), marks_of(language.assertions, spoken)
    return f" ({plural(len(cases), 'case')}, {plural(len(assertions), 'assertion')})"


def _look_at_product(change: Change, old: str | None, new: str | None) -> Iterator[Suspicion]:
    if language_of(change.path) is None:
        return
    if change.new_mode == LINK:
        yield Suspicion(change.path, Trick.MISLEADS, f"it is a link to {_shown(new or '?')}")
        return
    if new is None:
        yield Suspicion(change.path, Trick.MISLEADS, UNREADABLE)
        return
    for trick, find in ((Trick.REACHES, find_meddling), (Trick.MISLEADS, find_doubts)):
        if found := find(change.path, old or "", new):
            line, mark = found[0]
            words = f"line {line}: {_shown(mark)}{_others(found, 'line')}"
            yield Suspicion(change.path, trick, words)


def _compare(
    path: str, language: Language | None, old: str, new: str, part: Callable[[str], str] = str
) -> Iterator[Suspicion]:
    if language:
        spoken = [spoken_part(text, language) for text in (old, new)]
        for trick, what, pattern, texts in (
            (Trick.FEWER_CASES, "case", language.cases, spoken),
            (Trick.FEWER_ASSERTIONS, "assertion", language.assertions, map(part, spoken)),
        ):
            before, after = (len(marks_of(pattern, text)) for text in texts)
            if after < before:
                lost = f"{plural(before - after, what)} fewer ({before} → {after})"
                yield Suspicion(path, trick, lost)
    lines = [part(text).split("\n") for text in (old, new)]
    if language_of(path):
        # Of code only those lines that say something.
        lines = [[line.rstrip() for line in text if line.strip()] for text in lines]
    if not _is_within(*lines):
        yield Suspicion(path, Trick.LINES_CHANGED, _difference(*lines))


def _new_skips(path: str, old: str | None, new: str | None) -> Iterator[Suspicion]:
    language = language_of(path)
    skips = ALL_SKIPS if kind_of(path) in CHANGED else language.skips if language else ""
    if old is None or new is None:
        return
    before, after = (Counter(marks_of(skips, text)) for text in (old, new))
    more = after.total() - before.total()
    if more > 0:
        mark = _shown(min(after - before))
        counts = f"({before.total()} → {after.total()})"
        words = f"{plural(more, 'mark')} more that skip or narrow tests {counts}: {mark}"
        yield Suspicion(path, Trick.NEW_SKIPS, words)


def _is_within(old: Sequence[str], new: Sequence[str]) -> bool:
    rest = iter(new)
    return all(line in rest for line in old)


def _difference(old: Sequence[str], new: Sequence[str]) -> str:
    gone, added = Counter(old) - Counter(new), Counter(new) - Counter(old)
    if gone:
        return f"{gone.total():,} of {plural(len(old), 'line')} removed or changed"
    if _is_within(old, new):
        return f"{plural(added.total(), 'line')} added"
    return "lines are in another order"


def _unit_tests(text: str) -> str:
    """Return what in a Rust source is built for tests only, laid out as formatted code is."""
    found: list[str] = []
    depth: str | None = None
    for line in text.split("\n"):
        if depth is None and re.match(UNIT_TESTS_PATTERN, line):
            depth = line[: len(line) - len(line.lstrip())]
            found.append(line)
        elif depth is not None:
            found.append(line)
            is_over = re.fullmatch(r"\}|[^\s{}#/][^{}]*;", line.removeprefix(depth).rstrip())
            depth = None if is_over else depth
    return "\n".join(found)


Found = tuple[tuple[int, str], ...]


def find_meddling(path: str, old: str, new: str) -> Found:
    """Return the new lines that reach into a framework: `(2, "import unittest")`."""
    language = language_of(path)
    if language is None:
        return ()
    module = path.removesuffix(".py").removesuffix("/__init__").rpartition("/")[2]
    if path.endswith(".py") and module in SHADOWS and not old:
        return ((1, f"it takes the place of {module}"),)
    lines = _new_lines(old, new, language)
    found = ((number, marks_of(language.reaches, line)) for number, line in lines)
    return tuple((number, marks[0].strip()) for number, marks in found if marks)


def find_doubts(path: str, old: str, new: str) -> Found:
    """Return the new lines that tests could fall for, by deciding what is equal for example."""
    language = language_of(path)
    if language is None:
        return ()
    spoken = "\n".join(_spoken_lines(new, language))
    bound = (found[found.lastindex or 0] for found in _matches(language.imports, spoken))
    imported = {name for names in bound for name in re.findall(r"[\w$]+", names)}
    doubts = []
    for number, line in _new_lines(old, new, language):
        changed = _matches(language.on_imported, line)
        marks = [
            *marks_of(language.doubts, line),
            *(found[0] for found in changed if found[found.lastindex or 0] in imported),
        ]
        doubts += [(number, mark.strip()) for mark in marks[:1]]
    return tuple(doubts)


def _matches(pattern: str, text: str) -> Iterator[re.Match[str]]:
    return re.finditer(pattern, text, re.MULTILINE) if pattern else iter(())


def _new_lines(old: str, new: str, language: Language) -> Iterator[tuple[int, str]]:
    known = Counter(_spoken_lines(old, language))
    for number, line in enumerate(_spoken_lines(new, language), 1):
        known[line] -= 1
        if known[line] < 0:
            yield number, line


def _spoken_lines(text: str, language: Language) -> list[str]:
    def quiet(found: re.Match[str]) -> str:
        return found["kept"] or "\n" * found[0].count("\n")

    return [line.rstrip() for line in re.sub(language.quiet, quiet, text).split("\n")]


def _readable(text: str | None) -> str | None:
    if text is None or len(text) > LARGEST_TEXT:
        return None
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return plain if plain.count("\n") < MOST_LINES else None


def _others(found: Sequence[object], what: str) -> str:
    more = len(found) - 1
    return f"; {plural(more, f'more {what}')} like that" if more else ""


def _shown(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text[:LONGEST_SHOWN])
