"""tmux control mode as bytes in, messages out, and words in, command lines out.

The rules of the wire:

- Lines end with LF alone. A chunk may end anywhere: in an escape, a character, a line.
- The answer to a command is a block: `%begin GUARD`, any lines, then `%end GUARD` or `%error GUARD`
  with the very same guard (time, number, flags). Lines of a block are not escaped, so a screen may
  show lines that look like the end of a block, or like any other message; only the guard decides.
- Bit 0 of the flags tells answers to our own commands from those to commands of others (the
  attaching itself, hooks).
- Outside blocks a line that starts with `%` is a notification. Anything else there is noise (a
  failing hook writes it) and is dropped.
- `%output` data is escaped: bytes below 0x20 and the backslash as three octal digits.
- One command a line, never an empty line: that would detach the client.
"""

import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from ...errors import UsageError

# Words that tmux reads as they stand; `%` and `=` have a meaning at the start of a line.
_plain_word = re.compile(r"[A-Za-z0-9_./@-]+")
# One escaped byte of `%output`: `\033`.
_escape = re.compile(rb"\\([0-7]{3})")
# What follows `%begin `: `1700000000 271 1`.
_guard = re.compile(rb"\d+ \d+ \d+")
# In `tmux 3.3a`, `tmux next-3.6`, `tmux openbsd-7.4`.
_version = re.compile(r"(\d+)\.(\d+)")


class Answer(Struct, frozen=True):
    ok: bool
    lines: tuple[bytes, ...]
    ours: bool

    @property
    def text(self) -> str:
        return b"\n".join(self.lines).decode("utf-8", "replace")


class PaneOutput(Struct, frozen=True):
    pane: str
    escaped: bytes


class Notice(Struct, frozen=True):
    """Any other notification: `%window-close @3` has the name `window-close`."""

    name: str
    rest: str


Message = Answer | PaneOutput | Notice


class Parser:
    """Turns the chunks of a control-mode stream into messages, however the stream is cut."""

    def __init__(self) -> None:
        self._tail = bytearray()
        """The beginning of a line; it grows in place, for a line may be as long as a scrollback."""
        self._ends: dict[bytes, bool] = {}
        """The two lines that may end the open block, and whether each means success."""
        self._lines: list[bytes] = []
        self._ours = False

    def feed(self, data: bytes) -> list[Message]:
        first, *others = data.split(b"\n")
        self._tail += first
        if not others:
            return []
        lines = [bytes(self._tail), *others]
        self._tail = bytearray(lines.pop())
        messages: list[Message] = []
        for line in lines:
            if line in self._ends:
                messages.append(Answer(self._ends[line], tuple(self._lines), self._ours))
                self._ends, self._lines = {}, []
            elif self._ends:
                self._lines.append(line)
            elif line.startswith(b"%"):
                messages += self._notification(line)
        return messages

    def _notification(self, line: bytes) -> list[Message]:
        name, _, rest = line.partition(b" ")
        if name == b"%begin":
            if _guard.fullmatch(rest):
                self._ends = {b"%end " + rest: True, b"%error " + rest: False}
                self._ours = bool(int(rest.rpartition(b" ")[2]) & 1)
            return []
        pane, _, data = rest.partition(b" ")
        if name == b"%output":
            return [PaneOutput(_ascii(pane), data)]
        if name == b"%extended-output":
            return [PaneOutput(_ascii(pane), data.partition(b" : ")[2])]
        return [Notice(_ascii(name[1:]), rest.decode("utf-8", "replace"))]


def _ascii(name: bytes) -> str:
    return name.decode("ascii", "replace")


def unescape(escaped: bytes) -> bytes:
    def byte_of(match: re.Match[bytes]) -> bytes:
        # \400 and above are no bytes; tmux never writes them, noise may.
        code = int(match[1], 8)
        return bytes((code,)) if code < 256 else match[0]

    return _escape.sub(byte_of, escaped)


def quote(word: str) -> str:
    """Return a word so that tmux reads it as one argument, unchanged, on one line.

    Characters that single quotes cannot hold go between double ones, where escapes are known.

    >>> quote("it's $HOME;")
    '\\'it\\'"\\'"\\'s $HOME;\\''
    """
    if _plain_word.fullmatch(word):
        return word
    inner = word.replace("'", "'\"'\"'").replace("\n", "'\"\\n\"'").replace("\r", "'\"\\r\"'")
    return f"'{inner}'"


def command(*words: str) -> str:
    """Return one line: `send-keys -t '%1' -- C-c`."""
    return " ".join(map(quote, words))


def literal(text: str) -> str:
    """Return text so that it stands for itself where tmux expands formats.

    `#` is doubled. That is no way out before `[`, where tmux keeps both: there the bracket becomes
    a format that yields itself.

    >>> literal("a#{b}")
    'a##{b}'
    """
    return text.replace("#", "##").replace("##[", "###{l:[}")


def parse_version(text: str) -> tuple[int, int] | None:
    found = _version.search(text)
    return (int(found[1]), int(found[2])) if found else None


HUB_SESSION = "cao-hub"
"""The session that every terminal's window is linked into: tmux reports output of one alone."""

NAME_PATTERN = r"[A-Za-z0-9_-]+"
"""Names that tmux takes over unchanged and that are no special targets."""

PANE_FORMAT = (
    "#{pane_id}:#{window_id}:#{pane_pid}:#{pane_dead}:#{pane_dead_status}:#{pane_dead_signal}"
    ":#{@cao_raw}:#{window_activity}:#{@cao_id}:#{session_name}:#{window_name}"
)
STATE_FORMAT = (
    "#{pane_id}:#{pane_dead}:#{pane_dead_status}:#{pane_dead_signal}:#{pane_in_mode}:#{pane_title}"
)
LIST_PANES = command("list-panes", "-a", "-F", PANE_FORMAT)
LIST_STATES = command("list-panes", "-s", "-t", f"={HUB_SESSION}", "-F", STATE_FORMAT)

LIST_COST = 3
"""Asking for the state of one pane costs tmux as much as listing this many."""


class Command(Struct, frozen=True):
    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    """The whole environment of the program; tmux adds TERM, TMUX and the like."""
    raw_output: bool = False
    """Does the listener get every byte that it writes?"""


class PaneInfo(Struct, frozen=True):
    pane: str
    window: str
    session: str
    name: str
    tag: str
    pid: int | None
    """None for a program that has ended, where tmux forgets it (3.8)."""
    dead: bool
    exit_code: int | None
    """A signal counts as 128 + its number."""
    raw_output: bool = False
    wrote_at: float = 0.0
    """The second, in unix time, in which its program last wrote something."""


class PaneScreen(Struct, frozen=True):
    """What a terminal shows, with its state as read in the same moment."""

    pane: str
    text: str
    title: str
    in_mode: bool
    """Is it in copy mode, which eats keys?"""
    dead: bool = False
    exit_code: int | None = None


def parse_panes(lines: Iterable[bytes]) -> list[PaneInfo]:
    """Return the panes that carry a tag, each once, under its real session instead of the hub."""
    found: dict[str, PaneInfo] = {}
    for line in lines:
        info = parse_pane(line)
        if info is None or not info.tag:
            continue
        known = found.get(info.pane)
        if known is None or known.session == HUB_SESSION:
            found[info.pane] = info
    return list(found.values())


def windows_outside_hub(lines: Iterable[bytes]) -> list[str]:
    listed = [info for line in lines if (info := parse_pane(line)) is not None and info.tag]
    inside = {info.window for info in listed if info.session == HUB_SESSION}
    return list(dict.fromkeys(info.window for info in listed if info.window not in inside))


def parse_pane(line: bytes) -> PaneInfo | None:
    """Return the pane that a line in PANE_FORMAT describes, None if it is not in that format."""
    fields = line.decode("utf-8", "replace").split(":", 10)
    if len(fields) < 11 or not (fields[2].isdecimal() or fields[2] == ""):
        return None
    pane, window, pid, dead, status, killed_by, raw, wrote_at, tag, session, name = fields
    code = exit_code(status, killed_by)
    return PaneInfo(
        pane=pane,
        window=window,
        session=session,
        name=name,
        tag=tag if re.fullmatch(NAME_PATTERN, tag) else "",
        pid=int(pid) if pid else None,
        # While a child of the program holds the terminal open, tmux knows the exit code of the
        # program but does not call the pane dead.
        dead=dead == "1" or code is not None or not pid,
        exit_code=code,
        raw_output=raw == "1",
        wrote_at=float(wrote_at) if wrote_at.isdecimal() else 0.0,
    )


def look_lines(panes: Sequence[str], among: int) -> list[str]:
    """Return the commands that read these panes: first their states, then their screens.

    `among` is the number of all panes: for many of them one list of all states is cheaper. In this
    order no screen is older than its state.
    """
    lines = [_look_lines(pane) for pane in panes]
    if len(panes) * LIST_COST >= among > LIST_COST:
        states = [LIST_STATES]
    else:
        states = [state for state, _ in lines]
    return [*states, *(screen for _, screen in lines)]


@lru_cache(1000)
def _look_lines(pane: str) -> tuple[str, str]:
    return (
        command("display-message", "-p", "-t", pane, STATE_FORMAT),
        command("capture-pane", "-p", "-t", pane),
    )


def parse_looks(panes: Sequence[str], answers: Sequence[Answer]) -> dict[str, PaneScreen]:
    states, bodies = answers[: len(answers) - len(panes)], answers[len(answers) - len(panes) :]
    lines = (line for state in states if state.ok for line in state.lines)
    # display-message answers for a pane that does not exist, too, with empty fields.
    heads = {line.partition(b":")[0]: line for line in lines}
    seen = {}
    for pane, body in zip(panes, bodies, strict=True):
        head = heads.get(pane.encode())
        if body.ok and head is not None:
            _, dead, status, killed_by, mode, title = head.decode("utf-8", "replace").split(":", 5)
            in_mode, code = mode not in ("", "0"), exit_code(status, killed_by)
            seen[pane] = PaneScreen(pane, body.text, title, in_mode, dead == "1", code)
    return seen


def exit_code(status: str, killed_by: str) -> int | None:
    """Return the exit code from tmux's two fields: `killed_by` may be `9` or `TERM`."""
    if status.isdecimal():
        return int(status)
    if killed_by.isdecimal():
        return 128 + int(killed_by)
    try:
        return 128 + signal.Signals[f"SIG{killed_by}"].value
    except KeyError:
        return None


PLACEHOLDER = ("cat", "-")
"""A program that does nothing, for windows that only hold a session open."""
PLACEHOLDER_WINDOW = "cao-placeholder"
COLUMNS, ROWS = 120, 40
DEFAULT_SHELL = "/bin/sh"
ENDED = "cao: the program has ended"
TOUCHED = "cao: a person has pressed a key"
"""The answers of a guarded command that was not carried out."""
TOUCHED_AT = "#{?session_attached,#{session_activity},0}"

SERVER_OPTIONS = {
    "exit-empty": "off",
    "escape-time": "0",
    "focus-events": "off",
    # Known to every terminal database, and it has colors.
    "default-terminal": "screen-256color",
}
SESSION_OPTIONS = {
    "history-limit": "200000",
    "update-environment": "",
    "status": "off",
    "set-titles": "off",
    "destroy-unattached": "off",
    "mouse": "off",
}
WINDOW_OPTIONS = {
    # Keeps the exit code and the last screen of a program.
    "remain-on-exit": "on",
    # No line of tmux's own on that screen.
    "remain-on-exit-format": "",
    "allow-rename": "off",
    "automatic-rename": "off",
}

NEW_SESSION_SIZE = ("-x", str(COLUMNS), "-y", str(ROWS))
ATTACH = (
    *("new-session", "-A", "-E", "-s", HUB_SESSION, "-n", PLACEHOLDER_WINDOW),
    *(*NEW_SESSION_SIZE, "-f", "ignore-size", "--", *PLACEHOLDER),
)
"""Attaches the control client to the hub, made if need be; it has no say in the size of windows."""

OPTION_LINES = [
    *(command("set-option", "-s", name, value) for name, value in SERVER_OPTIONS.items()),
    *(command("set-option", "-g", name, value) for name, value in SESSION_OPTIONS.items()),
    *(command("set-option", "-gw", name, value) for name, value in WINDOW_OPTIONS.items()),
    command("set-option", "-g", "default-size", f"{COLUMNS}x{ROWS}"),
    command("set-option", "-t", f"={HUB_SESSION}:", "default-size", f"{COLUMNS}x{ROWS}"),
]
"""The commands that make the server ours. A version may refuse an option, which does no harm."""


def unset_lines(environment: Sequence[str]) -> list[str]:
    names = (line.partition("=")[0].lstrip("-") for line in environment)
    return [command("set-environment", "-g", "-u", name) for name in names if name]


def open_lines(session: str, name: str, tag: str, program: Command) -> list[str]:
    """Return the commands that open a window, or raise for what tmux would misunderstand.

    The window is made in the hub, so that not a byte of its output is missed, and linked into its
    session. It goes by a temporary name until then: a command that follows a failed one finds
    nothing, rather than another terminal. The session, if it is new, is held open by a placeholder,
    because variables given to new-session would stay in the session for every later window.
    """
    if not re.fullmatch(NAME_PATTERN, session) or session == HUB_SESSION:
        raise UsageError(f"session name {session!r}: use letters, digits, `-` and `_`")
    if not re.fullmatch(NAME_PATTERN, tag):
        raise UsageError(f"terminal id {tag!r}: use letters, digits, `-` and `_`")
    argv = program.argv
    if not argv or not argv[0] or (len(argv) == 1 and "=" in argv[0]):
        raise UsageError(f"{argv!r} is no command that can be run")
    words = (name, program.cwd, *argv, *program.env.keys(), *program.env.values())
    try:
        sendable = b"\0" not in "".join(words).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        sendable = False
    if not sendable:
        raise UsageError("a command, its folder and environment cannot hold NUL or half characters")
    if len(argv) == 1:
        # tmux would hand a single word to a shell.
        argv = ("/usr/bin/env", "--", *argv)
    variables = [word for item in program.env.items() for word in ("-e", "=".join(item))]
    hub, target = f"={HUB_SESSION}:", f"={session}:"
    temporary_name = f"cao-new-{tag}"
    temporary = f"{hub}={temporary_name}"
    marks = {"@cao_id": tag} | ({"@cao_raw": "1"} if program.raw_output else {})
    return [
        command(
            *("new-session", "-d", "-E", "-s", session, "-n", PLACEHOLDER_WINDOW),
            *(*NEW_SESSION_SIZE, "--", *PLACEHOLDER),
        ),
        # tmux sets SHELL to this option, whatever the environment says.
        command("set-option", "-t", hub, "default-shell", DEFAULT_SHELL),
        command("set-option", "-t", hub, "default-shell", program.env.get("SHELL", DEFAULT_SHELL)),
        command(
            *("new-window", "-d", "-P", "-F", PANE_FORMAT, "-n", temporary_name, "-t", hub),
            *("-c", literal(program.cwd), *variables, "--", *argv),
        ),
        *(command("set-option", "-p", "-t", temporary, mark, marks[mark]) for mark in marks),
        # tmux gives a new pane the name of the machine for a title.
        command("select-pane", "-t", temporary, "-T", ""),
        command("link-window", "-d", "-s", temporary, "-t", target),
        command("kill-window", "-t", f"{target}={PLACEHOLDER_WINDOW}"),
        command("rename-window", "-t", temporary, literal(name)),
    ]


NEW_WINDOW = 3
"""The place of new-window among the answers to `open_lines`; link-window is third from the end."""
LINK_WINDOW = -3


def guarded(pane: str, words: Sequence[str], *, answers: int = 1) -> str:
    """Return a command that is carried out only while the pane's program lives.

    It has one answer more than what it guards, up to two.

    tmux 3.3a crashes when something is pasted into a dead pane, and a program may end at any time:
    only tmux itself can look and act in one step.
    """
    report = command("display-message", "-p", ENDED)
    if answers == 2:
        report = command("if-shell", "-F", "1", report)
    return command("if-shell", "-F", "-t", pane, "#{pane_dead}", report, command(*words))


def if_untouched(session: str, touched_at: int, words: Sequence[str]) -> tuple[str, ...]:
    """Return a command of two answers, which only says so if a person has pressed a key since."""
    same = f"#{{==:{TOUCHED_AT},{touched_at}}}"
    report = command("display-message", "-p", TOUCHED)
    return ("if-shell", "-F", "-t", f"={session}:", same, command(*words), report)


def paste_lines(
    pane: str, buffer: str, path: str, *, keep_bytes: bool, brackets: bool
) -> list[str]:
    """Return the commands that paste a file; `keep_bytes` for versions that rewrite pastes.

    With `brackets` tmux adds those of a bracketed paste if the program has asked for them.
    """
    flags = ("-r", "-d", *(("-p",) if brackets else ()), *(("-S",) if keep_bytes else ()))
    return [
        command("load-buffer", "-b", buffer, literal(path)),
        command("copy-mode", "-q", "-t", pane),
        guarded(pane, ("paste-buffer", *flags, "-b", buffer, "-t", pane)),
        # Only there if the paste did not take place.
        command("delete-buffer", "-b", buffer),
    ]


def flow_line(panes: Sequence[str], state: str) -> str:
    return command("refresh-client", *(w for pane in panes for w in ("-A", f"{pane}:{state}")))
