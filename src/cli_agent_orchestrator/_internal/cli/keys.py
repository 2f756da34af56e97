"""What the keys mean that a person presses in the live view of a run.

    keys, wishes = press(keys, data, picture)

Pure. `data` is what was read from the terminal, cut anywhere: what is not a whole key yet is kept
for later. Only an Escape may be whole or not; `data` is empty when nothing has followed it.

`p`, `s`, `h` and `a` do what `offers` says. After `h` a line is typed: Enter sends it, Escape or an
empty line does not. What is pasted never presses a key, and its line ends are spaces: nothing but
a key that a person presses steers a run.
"""

import re
from codecs import utf_8_decode
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cli_agent_orchestrator._internal.characters import BREAKS, CONTROLS, HALVES
from cli_agent_orchestrator._internal.cli.picture import Picture
from cli_agent_orchestrator._internal.pipeline.asks import (
    LARGEST_HINT,
    Hint,
    Pause,
    Skip,
    Unpause,
    Wish,
)

ESCAPE = "\x1b"
ENTER = ("\r", "\n")
ERASE = ("\x7f", "\b")
ERASE_LINE = "\x15"
PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"
BEGUN_PATTERN = r"\x1b(?:O|\[[0-?]{0,30}[ -/]{0,4})?"
"""Arrow keys and their like: what may become one, and what is one. The bounds keep it short."""
KEY_PATTERN = r"\x1b\[[0-?]{0,30}[ -/]{0,4}[@-~]|\x1bO[^\x1b]|\x1b[^\x1b]|[^\x1b]|\x1b"
BREAK_PATTERN = f"[\r{BREAKS}]"
DROPPED_PATTERN = f"[{CONTROLS}{HALVES}]"


@dataclass(frozen=True, slots=True)
class Keys:
    """What has been pressed and has not been done yet."""

    unread: bytes = b""
    """The beginning of a key."""
    line: str | None = None
    """The hint that is being typed; None if none is."""
    pasting: bool = False
    attach_to: str = ""
    """The role whose `cao attach` is shown."""

    @property
    def is_escaping(self) -> bool:
        """Would an Escape have been pressed if nothing followed?"""
        return self.unread.startswith(ESCAPE.encode())


def offers(picture: Picture) -> Mapping[str, str]:
    """Return which keys do something now, and what: a word each."""
    if picture.final_status:
        return {}
    offered = {}
    agent = picture.agent(picture.present)
    if agent is not None and agent.terminal_id and picture.question is None:
        offered["a"] = "attach"
    if picture.run and picture.round:
        held = picture.pausing or picture.paused is not None
        offered |= {"h": "hint", "p": "resume" if held else "pause"}
        if picture.is_review:
            offered["s"] = "skip"
    return offered


def press(keys: Keys, data: bytes, picture: Picture) -> tuple[Keys, tuple[Wish, ...]]:
    """Return what is left to be done after more was read, and what the person wishes."""
    pressed, unread = _split(keys.unread + data, is_all=not data)
    keys = replace(keys, unread=unread)
    wishes: list[Wish] = []
    for key in pressed:
        keys, wish = _press(keys, key, picture)
        if wish is not None:
            wishes.append(wish)
    return keys, tuple(wishes)


def _split(data: bytes, is_all: bool) -> tuple[list[str], bytes]:
    """Return the keys in what was read, and what is not a whole key yet."""
    text, used = utf_8_decode(data, "ignore")
    begun = re.search(rf"{BEGUN_PATTERN}\Z", text)
    if begun is None or is_all:
        return re.findall(KEY_PATTERN, text, re.DOTALL), data[used:]
    whole = re.findall(KEY_PATTERN, text[: begun.start()], re.DOTALL)
    return whole, begun[0].encode() + data[used:]


def _press(keys: Keys, key: str, picture: Picture) -> tuple[Keys, Wish | None]:
    if key in (PASTE_BEGINS, PASTE_ENDS):
        return replace(keys, pasting=key == PASTE_BEGINS), None
    if keys.line is not None:
        return _type(keys, keys.line, key, picture)
    word = "" if keys.pasting else offers(picture).get(key, "")
    attach_to = picture.present if word == "attach" and not keys.attach_to else ""
    keys = replace(keys, attach_to=attach_to, line="" if word == "hint" else None)
    wishes: Mapping[str, Wish] = {"pause": Pause(), "resume": Unpause(), "skip": Skip()}
    return keys, wishes.get(word)


def _type(keys: Keys, line: str, key: str, picture: Picture) -> tuple[Keys, Wish | None]:
    """Return what a key does to the line that is being typed."""
    if key in ENTER and not keys.pasting:
        wanted = line.strip() and "h" in offers(picture)
        return replace(keys, line=None), Hint(None, line.strip()) if wanted else None
    if key == ESCAPE:
        return replace(keys, line=None), None
    if key in ERASE:
        return replace(keys, line=line[:-1]), None
    if key == ERASE_LINE:
        return replace(keys, line=""), None
    if key.startswith(ESCAPE):
        return keys, None
    typed = re.sub(DROPPED_PATTERN, "", re.sub(BREAK_PATTERN, " ", key))
    return replace(keys, line=(line + typed)[:LARGEST_HINT]), None
