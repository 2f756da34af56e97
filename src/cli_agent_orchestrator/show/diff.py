"""Patches as data and as HTML: file by file, every line with its number.

A patch is read as git writes it. How many lines a hunk has stands at its head, so nothing in a
file can look like the beginning of another one. What is very long is cut, and that is said.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ..core.secrets import CUT, before_mask
from ..core.text import plural
from ..work.changes import REST_LEFT_OUT
from .markup import Markup, joined, tag

MOST_FILES = 300
"""Files that are shown of one patch."""
MOST_LINES = 4000
"""Lines of all of them."""
MOST_LINES_OF_FILE = 1000
LONGEST_LINE = 1000
"""Characters."""
OPEN_LINES = 200
"""As long as no more lines were shown, a file is open from the start."""
# @@ -1,3 +1,4 @@ def total(
HUNK_PATTERN = r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)"
# \303\251, \t, \"
ESCAPE_PATTERN = rb"\\([0-7]{3}|.)"
ESCAPED = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
HEADER = "diff --git "
NO_FILE = "/dev/null"
KINDS = (" ", "+", "-")
MARKS = (
    *("--- ", "+++ ", "new file mode ", "deleted file mode ", "new mode ", "rename from "),
    *("rename to ", "Binary files ", "\\ No newline"),
)
"""How lines begin that say something of a file."""


class LineKind(StrEnum):
    """What became of a line."""

    SAME = " "
    ADDED = "+"
    REMOVED = "-"


class Side(StrEnum):
    """Which of two files a number of a line belongs to."""

    OLD = "old"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class PatchLine:
    """A line of a file, before or after."""

    kind: LineKind
    number: int
    """In the new file; of a removed line in the old one."""
    text: str

    @property
    def side(self) -> Side:
        return Side.OLD if self.kind is LineKind.REMOVED else Side.NEW


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that follow one another."""

    heading: str
    """What git says about the place: a function, say; may be empty."""
    old: int
    """The number of its first line in the old file."""
    new: int
    written: tuple[str, ...]
    """Its lines, each after its mark."""

    def count(self, kind: LineKind) -> int:
        return len([line for line in self.written if line[0] == kind])

    def lines(self, most: int) -> Iterator[PatchLine]:
        old, new = self.old, self.new
        for line in self.written[:most]:
            kind = LineKind(line[0])
            number = old if kind is LineKind.REMOVED else new
            yield PatchLine(kind, number, line[1:])
            old += kind is not LineKind.ADDED
            new += kind is not LineKind.REMOVED


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What became of one file."""

    path: str
    old_path: str
    """Its former name; the same unless it was moved."""
    word: str = ""
    """`new`, `removed`, `moved`, `mode 100755`; empty if it was merely changed."""
    is_binary: bool = False
    hunks: tuple[Hunk, ...] = ()
    lacks_end: bool = False
    """Does the last line of a version of it have no line end?"""
    is_cut: bool = False
    """Is the rest of the patch left out, of this file or after it?"""

    @property
    def added(self) -> int:
        return sum(hunk.count(LineKind.ADDED) for hunk in self.hunks)

    @property
    def removed(self) -> int:
        return sum(hunk.count(LineKind.REMOVED) for hunk in self.hunks)

    @property
    def length(self) -> int:
        return sum(len(hunk.written) for hunk in self.hunks)


def read_patch(patch: str) -> tuple[FilePatch, ...]:
    """Read what `git diff` writes; lines that are no part of it are passed over."""
    lines = patch.split("\n")
    files: list[FilePatch] = []
    hunks: list[list[Hunk]] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith(HEADER):
            name = _first_name(line.removeprefix(HEADER))
            files.append(FilePatch(name, name))
            hunks.append([])
        elif files and (head := re.fullmatch(HUNK_PATTERN, line)):
            end = _end_of_hunk(head, lines, at)
            written = tuple(lines[at:end])
            hunks[-1].append(Hunk(head[5].strip(), int(head[1]), int(head[3]), written))
            at = end
        elif files:
            files[-1] = _with_line(files[-1], line)
    return tuple(replace(file, hunks=tuple(own)) for file, own in zip(files, hunks, strict=True))


def _with_line(file: FilePatch, line: str) -> FilePatch:
    """Return a file with what a line says of it that is in no hunk."""
    mark = next((one for one in MARKS if line.startswith(one)), "")
    rest = line.removeprefix(mark)
    name = _name(rest.removesuffix("\t"))
    match mark:
        case "--- " if rest != NO_FILE:
            return replace(file, old_path=name)
        case "+++ " if rest != NO_FILE:
            return replace(file, path=name)
        case "new file mode ":
            return replace(file, word="new")
        case "deleted file mode ":
            return replace(file, word="removed")
        case "new mode ":
            return replace(file, word=file.word or f"mode {rest}")
        case "rename from ":
            return replace(file, old_path=_unquoted(rest), word="moved")
        case "rename to ":
            return replace(file, path=_unquoted(rest))
        case "Binary files ":
            return replace(file, is_binary=True)
        case "\\ No newline":
            return replace(file, lacks_end=True)
    return replace(file, is_cut=file.is_cut or line.startswith(REST_LEFT_OUT))


def _end_of_hunk(head: re.Match[str], lines: Sequence[str], at: int) -> int:
    """Return where as many lines end as the head of a hunk says, or where it is cut."""
    old, new = int(head[2] or 1), int(head[4] or 1)
    while (old > 0 or new > 0) and at < len(lines) and lines[at][:1] in KINDS:
        old -= lines[at][0] != "+"
        new -= lines[at][0] != "-"
        at += 1
    return at


def _first_name(names: str) -> str:
    """Return the name in a first line: `a/x b/x`, either of them quoted or not."""
    if names.startswith('"'):
        end = re.match(r'"(?:[^"\\]|\\.)*"', names)
        return _name(end[0] if end else names)
    # Unless it was moved, which further lines tell, both are as long.
    return _name(names[: len(names) // 2])


def _name(name: str) -> str:
    """Return a name without the side that git puts before it."""
    plain = _unquoted(name)
    return plain[2:] if plain[:2] in ("a/", "b/") else plain


def _unquoted(name: str) -> str:
    if not (len(name) > 1 and name.startswith('"') and name.endswith('"')):
        return name
    raw = name[1:-1].encode(errors="replace")
    return re.sub(ESCAPE_PATTERN, _unescaped, raw).decode(errors="replace")


def _unescaped(found: re.Match[bytes]) -> bytes:
    code = found[1]
    return bytes([int(code, 8) & 0xFF]) if len(code) == 3 else ESCAPED.get(code, code)


COMMENT_NOTE = "Press a line number to comment on that line."


def patches_html(patches: Sequence[FilePatch], *, commentable: bool = False) -> Markup:
    """Return patches for a page; where lines can be commented on, their numbers are buttons."""
    how = tag("p", COMMENT_NOTE, class_="muted") if commentable and patches else None
    shown, parts = 0, [how]
    for file in patches[:MOST_FILES]:
        room = min(MOST_LINES - shown, MOST_LINES_OF_FILE)
        parts.append(_file_html(file, room, shown <= OPEN_LINES, commentable))
        shown += min(room, file.length)
    if len(patches) > MOST_FILES:
        more = f"{len(patches) - MOST_FILES:,} more files are not shown."
        parts.append(tag("p", more, class_="cut"))
    return tag("div", *parts, class_="diff")


def _file_html(file: FilePatch, room: int, is_open: bool, commentable: bool) -> Markup:
    name = f"{file.old_path} → {file.path}" if file.word == "moved" else file.path
    words = [word for word in (file.word, "binary" if file.is_binary else "") if word]
    summary = tag(
        "summary",
        tag("span", name, class_="diff-path"),
        *(joined([" ", tag("span", word, class_="badge")]) for word in words),
        joined([" ", counts_html(file.added, file.removed)]) if file.hunks else None,
    )
    body = [tag("div", *_lines_html(file, room, commentable), class_="diff-lines")]
    body += [tag("p", words, class_="cut") for words in _said_below(file, room)]
    return tag("details", summary, *body, class_="diff-file", open=is_open)


def counts_html(added: int, removed: int) -> Markup:
    """Return how many lines were added and removed: `+3 −1`."""
    return tag(
        "span",
        tag("span", f"+{added}", class_="added"),
        " ",
        tag("span", f"−{removed}", class_="removed"),
        class_="diff-counts",
    )


def _said_below(file: FilePatch, room: int) -> Iterator[str]:
    left = file.length - room
    if left > 0:
        yield f"{plural(left, 'more line')} not shown."
    if file.is_cut:
        yield "The rest of the patch is left out: it is too long."
    if file.is_binary:
        yield "A binary file: its content is not shown."
    elif not file.hunks:
        yield "No line is different."
    if file.lacks_end:
        yield "The last line has no line end."


def _lines_html(file: FilePatch, room: int, commentable: bool) -> Iterator[Markup]:
    # The line ends of another system are only worth a mark where not all lines have them.
    plain = all(line.endswith("\r") for hunk in file.hunks for line in hunk.written)
    for hunk in file.hunks:
        if room <= 0:
            return
        heading = hunk.heading[: before_mask(hunk.heading, LONGEST_LINE)]
        yield tag("div", f"@@ {heading}".rstrip(), class_="diff-hunk")
        for line in hunk.lines(room):
            plain_number = tag("span", str(line.number), class_="diff-number")
            number = _button(line, file) if commentable else plain_number
            yield tag("div", number, _text_html(line, plain), class_=CLASSES[line.kind])
        room -= len(hunk.written)


CLASSES = {
    LineKind.SAME: "diff-line",
    LineKind.ADDED: "diff-line diff-added",
    LineKind.REMOVED: "diff-line diff-removed",
}


def _text_html(line: PatchLine, plain: bool) -> Markup:
    at = before_mask(line.text, LONGEST_LINE)
    written = line.text[:at]
    if written.endswith("\r"):
        written = f"{written[:-1]}{'' if plain else '␍'}"
    more = len(line.text) - at
    note = tag("span", f"{CUT} {more:,} more characters", class_="diff-note") if more else None
    return tag("code", f"{line.kind}{written}", note, class_="diff-text")


def _button(line: PatchLine, file: FilePatch) -> Markup:
    is_old = line.side is Side.OLD
    path = file.old_path if is_old else file.path
    return tag(
        "button",
        str(line.number),
        type="button",
        class_="diff-number",
        data_comment=True,
        data_path=path,
        data_line=line.number,
        data_side=line.side,
        aria_label=f"Comment on {'removed ' if is_old else ''}line {line.number} of {path}",
    )
