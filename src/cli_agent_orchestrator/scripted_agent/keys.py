"""Bytes of a terminal become keys, typed text and pastes; and the box they are collected in.

A paste arrives between `ESC[200~` and `ESC[201~` and is kept as it is, byte for byte: what is no
UTF-8 survives as surrogates. Chunks may be cut anywhere.
"""

import codecs
import re
from enum import Enum
from typing import NamedTuple

PASTE_START = b"\x1b[200~"
PASTE_END = b"\x1b[201~"
FOLD_CHARS = 200
"""A paste longer than this, or of several lines, is shown by its length alone."""

# ESC[A, a sequence that is cut off at the end, a control character, or text
TOKEN_PATTERN = (
    rb"(?P<sequence>\x1b(?:\[[0-?]*[ -/]*[@-~]|O[@-~]))"
    rb"|(?P<cut>\x1b(?:\[[0-?]*[ -/]*|O)?\Z)"
    rb"|(?P<control>[\x00-\x1f\x7f])"
    rb"|(?P<text>[^\x00-\x1f\x7f]+)"
)


class Key(Enum):
    """A key that is not text."""

    ENTER = "Enter"
    BACKSPACE = "Backspace"
    CLEAR = "Ctrl-U"
    INTERRUPT = "Ctrl-C"
    END = "Ctrl-D"
    ESCAPE = "Esc"
    UP = "Up"
    DOWN = "Down"


class Typed(NamedTuple):
    """Text that came key by key."""

    text: str


class Pasted(NamedTuple):
    """Text that came as one paste."""

    text: str


Input = Key | Typed | Pasted

CONTROLS: dict[bytes, Input] = {
    b"\r": Key.ENTER,
    b"\n": Typed("\n"),
    b"\t": Typed("\t"),
    b"\x7f": Key.BACKSPACE,
    b"\x08": Key.BACKSPACE,
    b"\x15": Key.CLEAR,
    b"\x03": Key.INTERRUPT,
    b"\x04": Key.END,
    b"\x1b": Key.ESCAPE,
}
SEQUENCES: dict[bytes, Input] = {
    b"\x1b[A": Key.UP,
    b"\x1bOA": Key.UP,
    b"\x1b[B": Key.DOWN,
    b"\x1bOB": Key.DOWN,
}


class KeyReader:
    """Turns chunks of bytes into inputs."""

    def __init__(self) -> None:
        self._cut = b""
        self._paste: bytearray | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    @property
    def undecided(self) -> bool:
        """Is there an ESC that may be the key or the start of a sequence?"""
        return bool(self._cut)

    def decide(self) -> list[Input]:
        """Return what an undecided ESC was, now that nothing followed it."""
        was_key, self._cut = self._cut == b"\x1b", b""
        return [Key.ESCAPE] if was_key else []

    def feed(self, data: bytes) -> list[Input]:
        """Return the inputs that are complete with this chunk."""
        found: list[Input] = []
        while data:
            data = (
                self._read_keys(data, found)
                if self._paste is None
                else self._end_paste(data, found)
            )
        return found

    def _read_keys(self, data: bytes, found: list[Input]) -> bytes:
        """Read up to the start of a paste, and return what comes after it."""
        data, self._cut = self._cut + data, b""
        for token in re.finditer(TOKEN_PATTERN, data):
            piece = token[0]
            match token.lastgroup:
                case "text":
                    self._add_text(piece, token.end() == len(data), found)
                case "cut":
                    self._cut = piece
                case "sequence" if piece == PASTE_START:
                    self._paste = bytearray()
                    return data[token.end() :]
                case _:
                    key = CONTROLS.get(piece) or SEQUENCES.get(piece)
                    found.extend([key] if key else [])
        return b""

    def _add_text(self, piece: bytes, more_may_follow: bool, found: list[Input]) -> None:
        text = self._decoder.decode(piece, final=not more_may_follow)
        if text:
            found.append(Typed(text))

    def _end_paste(self, data: bytes, found: list[Input]) -> bytes:
        """Collect a paste, and return what comes after its end."""
        assert self._paste is not None
        searched = max(0, len(self._paste) - len(PASTE_END) + 1)
        self._paste += data
        end = self._paste.find(PASTE_END, searched)
        if end < 0:
            return b""
        found.append(Pasted(self._paste[:end].decode("utf-8", "surrogateescape")))
        rest = bytes(self._paste[end + len(PASTE_END) :])
        self._paste = None
        return rest


class Part(NamedTuple):
    """A stretch of the box: typed text, or one folded paste."""

    text: str
    folded: bool = False


class Box(NamedTuple):
    """The unsent message."""

    parts: tuple[Part, ...] = ()

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)

    def shown(self) -> str:
        """Return what people see of it; a folded paste shows as `[pasted 12345 chars]`."""
        return "".join(
            f"[pasted {len(part.text)} chars]" if part.folded else part.text for part in self.parts
        )

    def typed(self, text: str) -> "Box":
        if self.parts and not self.parts[-1].folded:
            return Box((*self.parts[:-1], Part(self.parts[-1].text + text)))
        return Box((*self.parts, Part(text)))

    def pasted(self, text: str) -> "Box":
        if len(text) > FOLD_CHARS or "\n" in text or "\r" in text:
            return Box((*self.parts, Part(text, folded=True)))
        return self.typed(text) if text else self

    def backspaced(self) -> "Box":
        """Return the box without its last character, or without a folded paste at its end."""
        if not self.parts:
            return self
        last = self.parts[-1]
        shorter = "" if last.folded else last.text[:-1]
        return Box((*self.parts[:-1], Part(shorter)) if shorter else self.parts[:-1])
