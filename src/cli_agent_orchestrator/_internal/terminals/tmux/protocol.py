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
from dataclasses import dataclass, field

PLAIN_WORD_PATTERN = r"[A-Za-z0-9_./@-]+"
"""Words that tmux reads as they stand; `%` and `=` have a meaning at the start of a line."""

ESCAPE_PATTERN = rb"\\([0-7]{3})"
"""One escaped byte of `%output`: `\\033`."""

GUARD_PATTERN = rb"\d+ \d+ \d+"
"""What follows `%begin `: `1700000000 271 1`."""

VERSION_PATTERN = r"(\d+)\.(\d+)"
"""In `tmux 3.3a`, `tmux next-3.6`, `tmux openbsd-7.4`."""

_plain_word = re.compile(PLAIN_WORD_PATTERN)
_escape = re.compile(ESCAPE_PATTERN)
_guard = re.compile(GUARD_PATTERN)


@dataclass(frozen=True, slots=True)
class Answer:
    """What one command answered."""

    ok: bool
    lines: tuple[bytes, ...]
    ours: bool
    """Is it the answer to a command that was sent over this connection?"""

    @property
    def text(self) -> str:
        """The lines as text; what is not UTF-8 is replaced."""
        return b"\n".join(self.lines).decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class PaneOutput:
    """A program wrote something. Call `unescape` on the data when it is wanted."""

    pane: str
    escaped: bytes


@dataclass(frozen=True, slots=True)
class Notice:
    """Any other notification: `%window-close @3` has the name `window-close`."""

    name: str
    rest: str


Message = Answer | PaneOutput | Notice


@dataclass(frozen=True, slots=True)
class _Block:
    """An answer that has begun."""

    ends: dict[bytes, bool]
    """The two lines that may end it, and whether each means success."""
    ours: bool
    lines: list[bytes] = field(default_factory=list)


class Parser:
    """Turns the chunks of a control-mode stream into messages, however the stream is cut."""

    def __init__(self) -> None:
        self._tail = bytearray()
        """The beginning of a line; it grows in place, for a line may be as long as a scrollback."""
        self._block: _Block | None = None

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages that are complete with this chunk."""
        first, *others = data.split(b"\n")
        self._tail += first
        if not others:
            return []
        lines = [bytes(self._tail), *others]
        self._tail = bytearray(lines.pop())
        messages: list[Message] = []
        for line in lines:
            block = self._block
            message = self._outside(line) if block is None else self._inside(line, block)
            if message is not None:
                messages.append(message)
        return messages

    def _inside(self, line: bytes, block: _Block) -> Answer | None:
        ok = block.ends.get(line)
        if ok is None:
            block.lines.append(line)
            return None
        self._block = None
        return Answer(ok, tuple(block.lines), block.ours)

    def _outside(self, line: bytes) -> PaneOutput | Notice | None:
        if not line.startswith(b"%"):
            return None
        name, _, rest = line.partition(b" ")
        if name == b"%output":
            pane, _, escaped = rest.partition(b" ")
            return PaneOutput(_ascii(pane), escaped)
        if name == b"%begin":
            self._block = _begun(rest)
            return None
        if name == b"%extended-output":
            pane, _, after = rest.partition(b" ")
            return PaneOutput(_ascii(pane), after.partition(b" : ")[2])
        return Notice(_ascii(name[1:]), rest.decode("utf-8", "replace"))


def _begun(guard: bytes) -> _Block | None:
    if not _guard.fullmatch(guard):
        return None
    ends = {b"%end " + guard: True, b"%error " + guard: False}
    return _Block(ends, ours=bool(int(guard.rpartition(b" ")[2]) & 1))


def _ascii(name: bytes) -> str:
    return name.decode("ascii", "replace")


def unescape(escaped: bytes) -> bytes:
    """Return what a program really wrote."""
    if b"\\" not in escaped:
        return escaped
    return _escape.sub(_byte_of, escaped)


def _byte_of(match: re.Match[bytes]) -> bytes:
    # \400 and above are no bytes; tmux never writes them, noise may.
    code = int(match[1], 8)
    return bytes((code,)) if code < 256 else match[0]


def quote(word: str) -> str:
    """Return a word so that tmux reads it as one argument, unchanged, on one line.

    Nothing is special between single quotes, but a line cannot hold a line feed: those, carriage
    returns and single quotes stand between double quotes, where escapes are known.

    >>> quote("it's $HOME;")
    '\\'it\\'"\\'"\\'s $HOME;\\''
    """
    if "\0" in word:
        raise ValueError("an argument of a tmux command cannot hold a NUL character")
    if _plain_word.fullmatch(word):
        return word
    inner = word.replace("'", "'\"'\"'").replace("\n", "'\"\\n\"'").replace("\r", "'\"\\r\"'")
    return f"'{inner}'"


def command(*words: str) -> str:
    """Return the line of one command with its arguments.

    >>> command("send-keys", "-t", "%1", "--", "C-c")
    "send-keys -t '%1' -- C-c"
    """
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
    """Return major and minor version from what `tmux -V` says, None for one without a number.

    >>> parse_version("tmux 3.3a")
    (3, 3)
    """
    found = re.search(VERSION_PATTERN, text)
    return (int(found[1]), int(found[2])) if found else None
