"""Patches as data and as HTML: file by file, every line with its number.

A patch is read as git writes it. The head of a hunk says how many lines it has, so nothing in a
file can look like the beginning of another one. What is very long is cut, with a note.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ..core.secrets import CUT, before_mask
from ..core.text import plural
from ..work.changes import REST_LEFT_OUT
from .markup import Markup, joined, tag

MOST_FILES = 300
MOST_LINES = 4000
"""Of all files."""
MOST_LINES_OF_FILE = 1000
LONGEST_LINE = 1000
OPEN_LINES = 200
"""Files are open from the start until so many lines are shown."""
# @@ -1,3 +1,4 @@ def total(
HUNK_PATTERN = r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)"
ESCAPED = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
HEADER = "diff --git "
NO_FILE = "/dev/null"
CLASSES = {" ": "diff-line", "+": "diff-line diff-added", "-": "diff-line diff-removed"}
MARKS = tuple(CLASSES)
SAID = (
    *("--- ", "+++ ", "new file mode ", "deleted file mode ", "new mode ", "rename from "),
    *("rename to ", "Binary files ", "\\ No newline"),
)


class Hunk(Struct, frozen=True):
    heading: str
    """What git says about the place, such as a function; may be empty."""
    old: int
    new: int
    written: tuple[str, ...]

    def lines(self, most: int) -> Iterator[tuple[str, int, str]]:
        """Yield mark, number and text of lines; a removed one has its number in the old file."""
        old, new = self.old, self.new
        for line in self.written[:most]:
            mark = line[0]
            yield mark, old if mark == "-" else new, line[1:]
            old += mark != "+"
            new += mark != "-"


class FilePatch(Struct, frozen=True):
    path: str
    old_path: str
    word: str = ""
    """`new`, `removed`, `moved`, `mode 100755`; empty if it was merely changed."""
    is_binary: bool = False
    hunks: tuple[Hunk, ...] = ()
    lacks_end: bool = False
    """Does the last line of a version of it have no line end?"""
    is_cut: bool = False
    """Is the rest of the patch left out, of this file or after it?"""

    @property
    def length(self) -> int:
        return sum(len(hunk.written) for hunk in self.hunks)

    def count(self, mark: str) -> int:
        return sum(line[0] == mark for hunk in self.hunks for line in hunk.written)


def read_patch(patch: str) -> tuple[FilePatch, ...]:
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
            # As many lines as the head says, or up to where it is cut.
            old, new, end = int(head[2] or 1), int(head[4] or 1), at
            while (old > 0 or new > 0) and end < len(lines) and lines[end][:1] in MARKS:
                old -= lines[end][0] != "+"
                new -= lines[end][0] != "-"
                end += 1
            written = tuple(lines[at:end])
            hunks[-1].append(Hunk(head[5].strip(), int(head[1]), int(head[3]), written))
            at = end
        elif files:
            files[-1] = _with_line(files[-1], line)
    return tuple(replace(file, hunks=tuple(own)) for file, own in zip(files, hunks, strict=True))


def _with_line(file: FilePatch, line: str) -> FilePatch:
    mark = next((one for one in SAID if line.startswith(one)), "")
    rest = line.removeprefix(mark)
    match mark:
        case "--- " if rest != NO_FILE:
            return replace(file, old_path=_name(rest.removesuffix("\t")))
        case "+++ " if rest != NO_FILE:
            return replace(file, path=_name(rest.removesuffix("\t")))
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


def _first_name(names: str) -> str:
    if names.startswith('"'):
        quoted = re.match(r'"(?:[^"\\]|\\.)*"', names)
        return _name(quoted[0] if quoted else names)
    # Unless it was moved, which further lines say, both are as long.
    return _name(names[: len(names) // 2])


def _name(name: str) -> str:
    plain = _unquoted(name)
    return plain[2:] if plain[:2] in ("a/", "b/") else plain


def _unquoted(name: str) -> str:
    if not (len(name) > 1 and name.startswith('"') and name.endswith('"')):
        return name

    def plain(found: re.Match[bytes]) -> bytes:
        code = found[1]
        return bytes([int(code, 8) & 0xFF]) if len(code) == 3 else ESCAPED.get(code, code)

    raw = name[1:-1].encode(errors="replace")
    # \303\251, \t, \"
    return re.sub(rb"\\([0-7]{3}|.)", plain, raw).decode(errors="replace")


def patches_html(patches: Sequence[FilePatch], *, commentable: bool = False) -> Markup:
    shown, parts = 0, []
    if commentable and patches:
        parts.append(tag("p", "Press a line number to comment on that line.", class_="muted"))
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
        joined([" ", counts_html(file.count("+"), file.count("-"))]) if file.hunks else None,
    )
    left = file.length - room
    below = (
        f"{plural(left, 'more line')} not shown." if left > 0 else "",
        "The rest of the patch is left out: it is too long." if file.is_cut else "",
        "A binary file: its content is not shown." if file.is_binary else "",
        "" if file.hunks or file.is_binary else "No line is different.",
        "The last line has no line end." if file.lacks_end else "",
    )
    lines = tag("div", *_lines_html(file, room, commentable), class_="diff-lines")
    said = (tag("p", words, class_="cut") for words in below if words)
    return tag("details", summary, lines, *said, class_="diff-file", open=is_open)


def counts_html(added: int, removed: int) -> Markup:
    plus = tag("span", f"+{added}", class_="added")
    minus = tag("span", f"−{removed}", class_="removed")
    return tag("span", plus, " ", minus, class_="diff-counts")


def _lines_html(file: FilePatch, room: int, commentable: bool) -> Iterator[Markup]:
    # CR LF is only worth a mark where not all lines have it.
    is_plain = all(line.endswith("\r") for hunk in file.hunks for line in hunk.written)
    for hunk in file.hunks:
        if room <= 0:
            return
        heading = hunk.heading[: before_mask(hunk.heading, LONGEST_LINE)]
        yield tag("div", f"@@ {heading}".rstrip(), class_="diff-hunk")
        for mark, number, text in hunk.lines(room):
            at = before_mask(text, LONGEST_LINE)
            written = text[:at]
            if written.endswith("\r"):
                written = f"{written[:-1]}{'' if is_plain else '␍'}"
            more = f"{CUT} {len(text) - at:,} more characters" if len(text) > at else ""
            note = tag("span", more, class_="diff-note") if more else None
            code = tag("code", f"{mark}{written}", note, class_="diff-text")
            shown = tag("span", str(number), class_="diff-number")
            if commentable:
                is_old = mark == "-"
                path = file.old_path if is_old else file.path
                shown = tag(
                    "button",
                    str(number),
                    type="button",
                    class_="diff-number",
                    data_comment=True,
                    data_path=path,
                    data_line=number,
                    data_side="old" if is_old else "new",
                    aria_label=f"Comment on {'removed ' if is_old else ''}line {number} of {path}",
                )
            yield tag("div", shown, code, class_=CLASSES[mark])
        room -= len(hunk.written)
