"""Agents that a file describes: those in `agents/` beside this module, and the user's own.

A file says how the agent is started, which keys it takes, what its title, its screen and its
events report; docs/writing-a-provider.md explains it. Every pattern comes with a sample that it
must match, so that a mistake is found at once.

    above          ────────────────────        The first row of the input box is the last one like
    the box        ❯ draft                     its pattern; the draft begins behind that. The turn
    more of it       goes on                   is what stands between the last message and the box.
    below          ────────────────────        The newest mark in it says how it ended.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Struct, ValidationError, field
from msgspec.structs import fields, replace

from ..core.codec import convert, object_of, read_toml
from ..core.files import read_named
from ..core.models import TerminalStatus
from ..errors import AgentFault, in_words
from .base import (
    VERSION_PATTERN,
    AgentSignal,
    Dialog,
    Launch,
    LaunchRequest,
    Provider,
    SignalKind,
    find_version,
    status_of,
)
from .screen import action_line, find, find_all, may_ask, rows_like, screen_lines, without_dim

PACKAGED = Path(__file__).with_name("agents")
LARGEST_FILE = 256 * 1024
LONGEST_PATTERN = 500
NAME_PATTERN = r"[a-z][a-z0-9_]{0,39}"
FORMAT = "what docs/writing-a-provider.md has for it"
Status = Literal["working", "asking", "finished", "failed", "interrupted"]
Shown = Literal[Status, "loading"]
Told = Literal[Status, "ready", "submitted", "acting", "stopped", "ended"]


class Pattern(Struct, frozen=True, forbid_unknown_fields=True):
    pattern: str
    sample: str


class Mark(Pattern, frozen=True, kw_only=True):
    kind: Literal[Shown, "ready"] = field(name="is", default="asking")
    where: Literal["title", "screen", "above", "below", "turn", "top"] = "screen"
    """`above` and `below` the box; `top`: the first row, where an answer may go on that began
    above it: neither a message nor the banner is in sight."""
    rows: Annotated[int, Meta(ge=0)] = 0
    """With text; 0: all."""
    without_box: bool = False


class Question(Mark, frozen=True, kw_only=True):
    name: str
    advice: str = "Start it once by hand and answer."
    keys: tuple[str, ...] = ()


class Box(Pattern, frozen=True):
    """What the first group of its pattern takes is part of the draft."""

    above: Pattern | None = None
    between: int = 0
    below: Pattern | None = None
    more: Pattern | None = None
    least: int = 1
    footer: tuple[int, int] | None = None
    """Rows with text, `below` included."""
    caption: bool = False
    placeholder: Pattern | None = None
    """With its escape sequences, as the next three; dim text never counts."""
    muted: Pattern | None = None
    colored: Pattern | None = None
    sent: Pattern | None = None
    line_mode: bool = False
    """A draft goes to the end of the screen, and may fill it."""


class Screen(Struct, frozen=True, forbid_unknown_fields=True):
    message: Pattern | None = None
    banner: Pattern | None = None
    """Where a conversation begins: without a message below it nothing was answered."""
    noise: Pattern | None = None
    answer: Pattern | None = None
    """The first group of its last match in a turn."""
    margin: int = 0
    gives_back: bool = False


class Start(Struct, frozen=True, forbid_unknown_fields=True):
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    workspace: tuple[str, ...] = ()
    full: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    profile: tuple[str, ...] = ()
    first_message: tuple[str, ...] = ()
    """The last arguments: a turn is spent on the profile."""
    at_least: Annotated[str, Meta(pattern=f"^$|{VERSION_PATTERN}")] = ""
    below: Annotated[str, Meta(pattern=f"^$|{VERSION_PATTERN}")] = ""
    versions: tuple["Start", ...] = ()

    def for_version(self, version: tuple[int, ...]) -> "Start":
        for other in self.versions if version else ():
            until = find_version(other.below)
            if find_version(other.at_least) <= version and (not until or version < until):
                given = {name: words for name in OF_A_VERSION if (words := getattr(other, name))}
                return replace(self, **given)
        return self


OF_A_VERSION = ("args", "env", "workspace", "full", "ask", "profile", "first_message")


class Keys(Struct, frozen=True, forbid_unknown_fields=True):
    exit: tuple[str, ...] = ("C-c", "C-c")
    clear: tuple[str, ...] = ("C-u",)
    submit: Annotated[tuple[str, ...], Meta(min_length=1)] = ("Enter",)
    times: Annotated[int, Meta(ge=1)] = 1


class Message(Struct, frozen=True, forbid_unknown_fields=True):
    commands: str = ""
    guard: str = " "
    completes: str = ""
    marks_pastes: bool = False


class Event(Struct, frozen=True, forbid_unknown_fields=True):
    # Any: what JSON holds
    when: Annotated[Mapping[str, Any], Meta(min_length=1)]
    """Values by their paths, such as `a.b`; of a list each one will do."""
    kind: Told = field(name="is")
    says: tuple[str, ...] = ()
    answer: str = ""
    """The path of the answer; without a text there, the event does not count."""
    tool: str = ""
    told: str = ""


class Record(Struct, frozen=True, forbid_unknown_fields=True):
    path: Pattern
    events: tuple[Event, ...]


class Description(Struct, frozen=True, forbid_unknown_fields=True):
    program: str
    install: str = "see its own documentation"
    tested: tuple[Annotated[str, Meta(pattern=VERSION_PATTERN)], ...] = ()
    start: Start = Start()
    keys: Keys = Keys()
    message: Message = Message()
    screen: Screen = Screen()
    box: tuple[Box, ...] = ()
    marks: tuple[Mark, ...] = ()
    dialogs: tuple[Question, ...] = ()
    events: tuple[Event, ...] = ()
    record: Record | None = None


def load(file: Path) -> Provider:
    try:
        data = read_named(file, LARGEST_FILE)
    except OSError as error:
        raise AgentFault(str(file), "the file", in_words(error), "a file to read") from None
    return make_provider(file.stem, decode(data, str(file)), file.parent)


def decode(data: bytes, where: str) -> Description:
    """Return what a file says; what it does not say is as in the packaged one it is `like`."""
    try:
        tables = read_toml(data.decode("utf-8-sig"))
    except ValueError as error:
        raise AgentFault(where, "the file", str(error), "a TOML file") from None
    packaged = {file.stem: file for file in PACKAGED.glob("*.toml")}
    while (like := tables.pop("like", None)) is not None:
        if not isinstance(like, str) or like not in packaged:
            raise AgentFault(where, "like", f"it is {like!r}", f"one of {', '.join(packaged)}")
        # Its plugins lie beside it.
        base = packaged[like].read_text("utf-8").replace("{here", "{ours")
        tables = read_toml(base) | tables
    try:
        description = convert(Description, tables)
    except ValidationError as error:
        fault, _, place = str(error).partition(" - at `$.")
        place = re.sub(r"(?<=\[)\d+", lambda number: f"{int(number[0]) + 1}", place.rstrip("`"))
        raise AgentFault(where, place or "the top", fault, _expected(place, fault)) from None
    if not description.program.strip():
        raise AgentFault(where, "program", "it is empty", "a program's name or path")
    for place, one in _patterns(description, ""):
        _check(one, where, place)
    for number, mark in enumerate(description.marks, 1):
        # On a screen the box tells that it is ready.
        kinds = STATUS_OF_TITLE if mark.where == "title" else get_args(Shown)
        if mark.kind not in kinds:
            fault = f"{mark.kind!r} does not count with where = {mark.where!r}"
            expected = f"one of {', '.join(kinds)}"
            raise AgentFault(where, f"marks[{number}].is", fault, expected)
    return description


def _expected(place: str, fault: str) -> str:
    """Return what may be there: the keys of a table, the words of a choice."""
    kind: Any = Description  # Any: what the type of a field is, such as a union
    for name in filter(None, re.sub(r"\[.*?\]", "", place).split(".")):
        kind = _keys_of(kind)[name]
    words = get_args(kind) if "enum" in fault else _keys_of(kind) if "unknown" in fault else ()
    return f"one of {', '.join(words)}" if words else FORMAT


# Any: as above
def _keys_of(kind: Any) -> dict[str, Any]:
    kinds = (one for one in (kind, *get_args(kind)) if isinstance(one, type))
    table = next((one for one in kinds if issubclass(one, Struct)), None)
    return {one.encode_name: one.type for one in fields(table)} if table else {}


def _patterns(value: object, place: str) -> Iterator[tuple[str, Pattern]]:
    if isinstance(value, Pattern):
        yield place, value
    if isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from _patterns(getattr(value, name), f"{place}.{name}".removeprefix("."))
    elif isinstance(value, tuple):
        for number, one in enumerate(value, 1):
            yield from _patterns(one, f"{place}[{number}]")


def _check(one: Pattern, where: str, place: str) -> None:
    try:
        if len(one.pattern) > LONGEST_PATTERN:
            fault, expected = "it is too long", f"at most {LONGEST_PATTERN} characters"
        elif place.endswith((".answer", ".muted")) and not re.compile(one.pattern).groups:
            fault, expected = f"{one.pattern!r} has no group", "(…) around what counts"
        elif re.compile(one.pattern) and find(f"(?:{one.pattern})", one.sample):
            return
        else:
            fault, expected = f"{one.pattern!r} does not match", f"its sample {one.sample!r}"
    except (re.error, OverflowError) as error:
        fault, expected = f"{one.pattern!r}: {error}", "a pattern of Python's re"
    raise AgentFault(where, place, fault, expected)


def make_provider(name: str, described: Description, here: Path) -> Provider:
    reader = Reader(described, here.absolute())
    keys, message = described.keys, described.message
    asked = described.screen.message
    stops = [one.pattern for one in described.marks if one.kind == "interrupted"]
    return Provider(
        name=name,
        program=described.program,
        install_hint=described.install,
        exit_keys=keys.exit,
        clear_keys=keys.clear * keys.times,
        submit_keys=keys.submit,
        tested_versions=tuple(map(find_version, described.tested)),
        launch=reader.launch,
        detect_status=reader.detect_status,
        title_status=reader.title_status,
        startup_dialog=reader.startup_dialog,
        draft=reader.draft,
        read_signal=reader.read_signal,
        last_answer=reader.last_answer,
        idle_mark=rf"(?:{stops[0]})(?![\s\S]*(?:{asked.pattern}))" if stops and asked else "(?!)",
        completes=message.completes,
        guards=dict.fromkeys(message.commands, message.guard),
        marks_pastes=message.marks_pastes,
        record_pattern=described.record.path.pattern if described.record else "",
        by_rest=not (described.box or described.marks),
    )


STATUS_OF_TITLE = {
    "asking": TerminalStatus.WAITING_USER_ANSWER,
    "working": TerminalStatus.PROCESSING,
    "ready": TerminalStatus.IDLE,
}


class View(Struct, frozen=True):
    lines: Sequence[str]
    box: range | None
    end: int
    """Where the box begins, with the row that belongs above it."""
    turn: range
    begins_above: bool
    """Is neither a message nor the beginning of the conversation in sight?"""
    is_new: bool
    """Is the beginning of the conversation in sight, and no message?"""

    def last(self, mark: Mark) -> int:
        """Return the row in which the last match of a mark ends, -1 if there is none."""
        rows = range(len(self.lines))
        if mark.where == "turn":
            rows = self.turn
        elif mark.where == "top":
            rows = range(self.turn.stop)
        elif mark.where == "above":
            rows = range(self.end)
        elif mark.where == "below":
            rows = range(self.box.stop, len(self.lines)) if self.box else range(0)
        filled = [row for row in rows if self.lines[row]]
        if not filled or mark.where == "title" or (mark.without_box and self.box):
            return -1
        if mark.where == "top":
            rows = range(filled[0], filled[0] + 1 if self.begins_above else filled[0])
        elif mark.rows:
            rows = range(filled[-mark.rows :][0], rows.stop)
        text = "\n".join(self.lines[row] for row in rows)
        ends = [found.end() for found in find_all(mark.pattern, text)]
        return rows.start + text.count("\n", 0, ends[-1]) if rows and ends else -1


class Reader(Struct, frozen=True):
    described: Description
    here: Path

    def launch(self, request: LaunchRequest) -> Launch:
        start = self.described.start.for_version(request.version)
        permissions = getattr(start, request.permissions.value)
        if request.has_any({*start.own}):
            permissions = ()
        profile = request.prompt.strip()
        known = {
            "{profile}": profile,
            "{profile_json}": json.dumps(profile),
            "{persona}": request.profile,
            "{events}": request.event_file,
            "{folder}": request.working_directory,
            "{here}": str(self.here),
            "{here_uri}": self.here.as_uri(),
            "{ours}": str(PACKAGED),
            "{ours_uri}": PACKAGED.as_uri(),
            "{permissions}": " ".join(permissions),
        }

        def fill(text: str) -> str:
            filled = re.sub(r"\{\w+\}", lambda word: known.get(word[0], word[0]), text)
            return filled if profile or "{profile" not in text else ""

        if any("{permissions}" in text for text in start.env.values()):
            permissions = ()
        before = (*start.args, *(start.profile if profile else ()), *permissions)
        after = start.first_message if profile else ()
        words = (request.program, *map(fill, before), *request.args, *map(fill, after))
        return Launch(words, {name: fill(text) for name, text in start.env.items()})

    def title_status(self, title: str) -> TerminalStatus | None:
        marks = (one for one in self.described.marks if one.where == "title")
        kinds = {one.kind for one in marks if find(one.pattern, title)}
        return next((status for kind, status in STATUS_OF_TITLE.items() if kind in kinds), None)

    def detect_status(self, screen: str, title: str | None = None) -> TerminalStatus:
        view = self._view(screen)
        # Of marks that end in the same row the first of these kinds counts.
        ends = dict.fromkeys(("interrupted", "failed", "finished", "asking", "working"), -1)
        for mark in (*self.described.marks, *self.described.dialogs):
            ends[mark.kind] = max(ends.get(mark.kind, -1), view.last(mark))
        outcome = max(("interrupted", "failed", "finished"), key=lambda kind: ends[kind])
        ended = ends[outcome] >= 0
        failed = ended and outcome == "failed"
        return status_of(
            asks=ends["asking"] >= 0 or (not self.described.marks and may_ask(screen)),
            ready=view.box is not None and ends.get("loading", -1) < 0,
            working=ends["working"] >= 0,
            failed=failed,
            replied=ended and outcome == "finished" and not view.is_new,
            interrupted=ended and outcome == "interrupted",
            drafted=failed and self.described.screen.gives_back and bool(self.draft(screen)),
            told=self.title_status(title or ""),
        )

    def startup_dialog(self, screen: str) -> Dialog | None:
        view = self._view(screen)
        shown = (one for one in self.described.dialogs if view.last(one) >= 0)
        return next((Dialog(one.name, one.advice, one.keys) for one in shown), None)

    def draft(self, ansi_screen: str) -> str | None:
        lines = self._lines(ansi_screen)
        raw = ansi_screen.replace("\r\n", "\n").split("\n")[: len(lines)]
        box, rows, _ = self._find_box(lines, raw)
        if box is None or not lines:
            return None
        later = range(rows.start + 1 if rows else 0, len(lines))
        if box.sent and any(
            find(box.sent.pattern, text) for row in later for text in (lines[row], raw[row])
        ):
            return None
        if not rows:
            return "\n".join(lines).strip()
        typed = "\n".join(raw[rows.start : rows.stop])
        around = "\n".join(raw[rows.start : rows.stop + 1])
        if box.muted and (muted := find(box.muted.pattern, around)) and muted[1]:
            typed = re.sub(re.escape(muted[1]) + r"[^\x1b\n]*", "", typed)
        if box.placeholder:
            typed = re.sub(box.placeholder.pattern, "", typed, flags=re.MULTILINE)
        said = self._cleaned(without_dim(typed).split("\n"))
        mark = find(box.pattern, lines[rows.start])
        mode = mark[1] or "" if mark and mark.re.groups else ""
        said[0] = said[0][mark.end() :] if mark else re.sub(r"^\W*", "", said[0])
        if box.more:
            said[1:] = [re.sub(box.more.pattern, "", line, count=1) for line in said[1:]]
        return mode + "\n".join(said).strip()

    def last_answer(self, scrollback: str) -> str:
        screen, view = self.described.screen, self._view(scrollback)
        text = "\n".join(view.lines[row] for row in view.turn)
        answers = [*find_all(screen.answer.pattern, text)] if screen.answer else []
        first, *more = (answers[-1][1] or "").split("\n") if answers else [""]
        return "\n".join([first, *(row[screen.margin :] for row in more)]).strip()

    def read_signal(self, line: str) -> AgentSignal | None:
        fields = object_of(line)
        record = self.described.record
        for event in (*self.described.events, *(record.events if record else ())):
            answer = _at(fields, event.answer) if event.answer else None
            is_so = fields and all(
                _is(_at(fields, path), value) for path, value in event.when.items()
            )
            if not is_so or (event.answer and not isinstance(answer, str)):
                continue
            kind = SignalKind("waiting" if event.kind == "asking" else event.kind)
            says = event.says or [*event.when][:1]
            detail = ": ".join(filter(None, (_text(fields, path) for path in says)))
            if kind is SignalKind.ACTING:
                told = {"told": _at(fields, event.told)}
                action = action_line(_text(fields, event.tool), told)
                return AgentSignal(kind, detail, action=action)
            return AgentSignal(kind, detail, answer=answer)
        return None

    def _lines(self, screen: str) -> list[str]:
        return self._cleaned(screen_lines(screen))

    def _cleaned(self, lines: Sequence[str]) -> list[str]:
        noise = self.described.screen.noise
        kept = [re.sub(noise.pattern, "", line) for line in lines] if noise else lines
        # A no-break space is kept: some agents mark their input box with it.
        return [line.rstrip(" \t") for line in kept]

    def _view(self, screen: str) -> View:
        of, lines = self.described.screen, self._lines(screen)
        box, found, end = self._find_box(lines)
        rows = None if box is None or (box.line_mode and len(found) > 1) else found
        end = stop = end if rows else len(lines)
        while box and box.caption and rows and stop > 0 and lines[stop - 1]:
            stop -= 1
        asked = rows_like(of.message.pattern, lines[:stop]) if of.message else []
        begun = rows_like(of.banner.pattern, lines[:stop]) if of.banner else []
        turn = range(asked[-1] + 1 if asked else 0, stop)
        return View(lines, rows, end, turn, not (asked or begun), bool(begun and not asked))

    def _find_box(
        self, lines: Sequence[str], raw: Sequence[str] = ()
    ) -> tuple[Box | None, range, int]:
        """Return the input box, its rows, and where they begin with the row above them.

        A draft in line mode, for which `raw` is needed, may have no rows: it fills the screen.
        """
        for box in self.described.box:
            tops = {row: _top(box, lines, row) for row in rows_like(box.pattern, lines)}
            row = max((row for row, top in tops.items() if top >= 0), default=-1)
            if raw and box.colored and find(box.colored.pattern, raw[-1]):
                row = tops[row] = len(lines) - 1
            if row < 0 and not (box.line_mode and raw):
                continue
            if row < 0 or box.line_mode:
                return box, range(row, len(lines)) if row >= 0 else range(0), max(row, 0)
            rest = lines[row + 1 :]
            more = re.compile(box.more.pattern if box.more else r"(?!)")
            stop = row + 1 + len([*takewhile(more.search, rest)])
            if box.below:
                text = "\n".join(rest)
                found = find(box.below.pattern, text)
                until = row + 1 + text.count("\n", 0, found.start() if found else 0)
                stop = until if found and until <= stop else row
            least, most = box.footer or (0, len(lines))
            if stop - row >= box.least and least <= len([*filter(None, lines[stop:])]) <= most:
                return box, range(row, stop), tops[row]
        return None, range(0), len(lines)


def _top(box: Box, lines: Sequence[str], row: int) -> int:
    """Return the row that belongs above a box, the box's own if none does, -1 if it is missing."""
    if box.above is None:
        return row
    rows = range(row - 1, max(row - 2 - box.between, -1), -1)
    return next((above for above in rows if find(box.above.pattern, lines[above])), -1)


# Any: what JSON holds
def _at(fields: Any, path: str) -> Any:
    for key in path.split("."):
        if isinstance(fields, list) and re.fullmatch(r"-?\d{1,4}", key):
            fields = dict(enumerate(fields, -len(fields) if key[0] == "-" else 0)).get(int(key))
        else:
            fields = fields.get(key) if isinstance(fields, dict) else None
    return fields


def _text(fields: Mapping[str, Any], path: str) -> str:
    found = _at(fields, path)
    return found if isinstance(found, str) else ""


def _is(found: object, value: object) -> bool:
    return found == value or (isinstance(value, list) and found in value)
