"""Captured screens, drawn as the next version of an agent may draw them.

A vendor changes words, glyphs, colours, borders, spaces, and the rows around the input box. So each
captured screen is drawn anew with a few of these changes, chosen by a seed, and read again:
`faults` has what must hold whatever changes.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.providers import PROVIDERS, get_provider
from cli_agent_orchestrator.providers.base import Provider
from cli_agent_orchestrator.providers.screen import strip_escapes
from tests.providers.samples import COMPLETED, ERROR, IDLE, PROCESSING, SCREENS, UNKNOWN, WAITING

AGENTS = [name for name in PROVIDERS if name != "scripted" and (SCREENS / name).exists()]
AT_WORK, ENDS = {PROCESSING, WAITING}, {IDLE, COMPLETED, ERROR}
PROBE = "x"

# Rows that show by themselves that an agent works, or asks.
MARKS = {
    "codex": r"esc to interrupt|^• Exploring|^ {0,2}› \d\. |^  .*\b[Ee]nter (to )?(con|sub)",
    "claude_code": r"^[·✢✳✶✻✽*] \S|esc to interr|\d shell|❯ \d\. |Esc to |Enter to ",
    "gemini_cli": r"^ [⠁-⣿] |● \d\. |Enter to ",
    "copilot_cli": r"^ [○◎◉●] Working|❯ \d\. |enter (to|accept)",
    "opencode": r"^ +[⬝■]{4,} |enter (submit|confirm)",
}
# The first row of an input box, up to what is typed.
BOXES = {
    "codex": r"^[›!]( |$)",
    "claude_code": r"^(│\xa0)?[❯>!#]\xa0",
    "gemini_cli": r"^ [>*!]( |$)",
    "copilot_cli": r"^[❯!]( |$)",
    "opencode": r"^ *┃(  |$)",
}
TALK, MARK, EDGE, BOX, HINT = KINDS = "talk", "mark", "edge", "box", "hint"


@dataclass(frozen=True)
class Drawing:
    """A screen: its rows, and what each of them is."""

    agent: str
    name: str
    rows: tuple[tuple[str, str], ...]
    true: frozenset[TerminalStatus]
    title: str | None = None
    typed: str | None = None
    """What is in its input box, None if that is not known."""

    @property
    def provider(self) -> Provider:
        return get_provider(self.agent)

    @property
    def text(self) -> str:
        return "\n".join(text for text, _ in self.rows)

    @property
    def status(self) -> TerminalStatus:
        return self.provider.detect_status(self.text, self.title)

    def of(self, *kinds: str) -> list[int]:
        return [number for number, row in enumerate(self.rows) if row[1] in kinds]

    def edit(self, change: Callable[[str], str], *kinds: str) -> "Drawing":
        rows = ((change(text) if kind in kinds else text, kind) for text, kind in self.rows)
        return replace(self, rows=tuple(rows))

    def put(self, row: int, *texts: str) -> "Drawing":
        added = tuple((text, HINT) for text in texts)
        return replace(self, rows=(*self.rows[:row], *added, *self.rows[row:]))

    def keep(self, rows: Callable[[int, str], bool]) -> "Drawing":
        kept = (row for number, row in enumerate(self.rows) if rows(number, row[1]))
        return replace(self, rows=tuple(kept))

    def drafted(self, typed: str) -> "Drawing":
        """Return it with this in its box, as a person would type it."""
        first, *rest = self.of(BOX)
        head = re.match(r"\s*(?:[│┃|!]\xa0)?\S?[ \xa0]{0,2}", strip_escapes(self.rows[first][0]))
        begin = head[0] if head else ""
        blank = "" if begin[-1:].isspace() else "  " if self.agent == "opencode" else " "
        row = (f"\x1b[0m{begin}{blank}{typed}", BOX)
        return replace(self, rows=(*self.rows[:first], row, *self.rows[first + 1 + len(rest) :]))


def draw(file: Path) -> Drawing:
    """Return a captured screen, with what its rows are."""
    agent, name = file.relative_to(SCREENS).parts[0], file.stem
    provider = get_provider(agent)
    text = file.read_text(encoding="utf-8").rstrip("\n ")
    titled = file.with_suffix(".title")
    title = titled.read_text(encoding="utf-8").removesuffix("\n") if titled.exists() else None
    colored = file.suffix == ".ansi"
    words = [provider.detect_status(text)] if colored else file.parent.name.split("+")
    true = frozenset(map(TerminalStatus, words))
    draft = provider.draft(text)
    shown = provider.draft(strip_escapes(text)) or draft or ""
    lines = [strip_escapes(line).rstrip(" ") for line in text.split("\n")]
    kinds = [TALK] * len(lines)
    if draft is not None:
        boxes = [row for row, line in enumerate(lines) if re.search(BOXES[agent], line)]
        first = boxes[-1]
        if agent == "opencode":
            first = max(row for row in boxes if row - 1 not in boxes) + 1
        stop = first + shown.count("\n") + 1
        ends = (row for row in range(stop, len(lines)) if re.match(r" *[─╰╹▀]|$", lines[row]))
        below = next(ends, stop - 1) + 1
        near = range(first - 1, max(first - 7, -1), -1)
        above = next((row for row in near if re.match(r"[─╭]| *┃$", lines[row])), first)
        kinds[above:] = [HINT] * (len(lines) - above)
        kinds[above:below] = [EDGE] * (below - above)
        kinds[first:stop] = [BOX] * (stop - first)
    found = [row for row, line in enumerate(lines) if re.search(MARKS[agent], line)]
    if true == {PROCESSING}:
        found = [row for row in found if is_mark(provider, lines, row, found)]
    if true <= AT_WORK:
        for row in found:
            kinds[row] = MARK
    rows = tuple(zip(text.split("\n"), kinds, strict=True))
    return Drawing(agent, name, rows, true, title, draft if colored else None)


def is_mark(provider: Provider, lines: list[str], row: int, marks: list[int]) -> bool:
    """Does this row alone show that the agent works?"""
    others = ["" if number in marks and number != row else line for number, line in enumerate(lines)]
    return provider.detect_status("\n".join(others)) is PROCESSING


@cache
def drawings(agent: str) -> list[Drawing]:
    folder = SCREENS / agent
    return [draw(file) for file in sorted([*folder.rglob("*.txt"), *folder.rglob("*.ansi")])]


VOCABULARY = (
    "Type here anything that comes next press for help model left mode notices hold turn",
    "Frag mich etwas Taste für Hilfe drücken abbrechen übrig Modell Modus Hinweise Eingabe",
    "输入 消息 按 回车 取消 模型 帮助 剩余 模式",
    "Введите сообщение нажмите для справки модель режим отмена осталось",
    "اكتب رسالة اضغط للمساعدة النموذج وضع إلغاء",
)
ROWS = (
    "  ⚠ 3 notices · f9 to view",
    f"{'◐ high · /pace':>110}",
    "  ✨ Neu: /hilfe zeigt alles",
    "▸ 2 tips",
    " tab 补全   ctrl+p 命令",
    "  gpt-9 fast · 88% · main",
    "? help",
    f"  {'─' * 30}",
)
BORDERS = ("━┃┏┓┗┛", "═║╔╗╚╝", "-|++++", "─│┌┐└┘", "      ")
COLOR = r"\x1b\[[\d;:]*m"
DIM = r"(\x1b\[(?:\d+;)*0?);?2m"
SIGN = rf"^((?:{COLOR}| ){{0,5}})[^\w\s⏸⏵\x1b]"
WORD = rf"{COLOR}|(?<!\d)[^\W\d_]+"


def in_other_words(random: Random) -> Callable[[str], str]:
    vocabulary = random.choice(VOCABULARY).split()

    def change(text: str) -> str:
        return re.sub(WORD, lambda m: m[0] if m[0][0] == "\x1b" else random.choice(vocabulary), text)

    return change


def words(screen: Drawing, random: Random) -> Drawing:
    kinds = (HINT, BOX) if screen.typed == "" else (HINT,)
    return screen.edit(in_other_words(random), *kinds)


def row_below(screen: Drawing, random: Random) -> Drawing:
    first = max(screen.of(BOX, EDGE), default=len(screen.rows) - 1) + 1
    row = random.randint(first, len(screen.rows))
    return screen.put(row, *random.choice([[], [""]]), random.choice(ROWS))


def row_above(screen: Drawing, random: Random) -> Drawing:
    blank = random.choice([[], [""]])
    return screen.put(min(screen.of(BOX, EDGE), default=0), random.choice(ROWS), *blank)


def row_gone(screen: Drawing, random: Random) -> Drawing:
    hints = screen.of(HINT)
    gone = random.sample(hints, random.randint(0, len(hints)))
    return screen.keep(lambda row, kind: row not in gone)


def glyphs(screen: Drawing, random: Random) -> Drawing:
    bullets = str.maketrans(dict.fromkeys("•◦●⏺✦", random.choice("▪‣◆➤-")))
    screen = screen.edit(lambda text: text.translate(bullets), TALK)
    if random.random() < 0.5:
        return screen
    sign = random.choice("»λ$→")
    return screen.edit(lambda text: re.sub("[›❯>]", sign, text, count=1), BOX)


def spaces(screen: Drawing, random: Random) -> Drawing:
    indent = random.choice(["", " ", "    ", "\xa0\xa0"])
    gap = random.choice([" ", "  ", "\xa0"])
    return screen.edit(lambda text: indent + text.lstrip(" ").replace("  ", gap), HINT)


def colors(screen: Drawing, random: Random) -> Drawing:
    """Take all colours away, or draw what is dim in a colour."""
    old, new = random.choice(
        [(COLOR, ""), (DIM, r"\1;38;5;244m"), (DIM, r"\1;38;2;90;90;90m"), (DIM, r"\1m")]
    )
    return screen.edit(lambda text: re.sub(old, new, text), *KINDS)


def borders(screen: Drawing, random: Random) -> Drawing:
    signs = str.maketrans(dict(zip("─│╭╮╰╯", random.choice(BORDERS), strict=True)))
    return screen.edit(lambda text: text.translate(signs), TALK, EDGE, BOX, HINT)


def scrolled(screen: Drawing, random: Random) -> Drawing:
    begin = random.randint(0, min(screen.of(MARK, EDGE, BOX), default=0))
    return screen.keep(lambda row, kind: row >= begin)


def mark_gone(screen: Drawing, random: Random) -> Drawing:
    marks = screen.of(MARK)
    gone = random.sample(marks, random.randint(0, len(marks)))
    return screen.keep(lambda row, kind: row not in gone)


def mark_redrawn(screen: Drawing, random: Random) -> Drawing:
    """Draw a mark with another sign, or in other words; one of them stays."""
    sign, other_words = random.choice("◍⟳✤⧗"), in_other_words(random)
    by_sign = random.random() < 0.5

    def change(text: str) -> str:
        if by_sign or screen.true == {PROCESSING} and not re.match(SIGN, text):
            return re.sub(SIGN, rf"\1{sign}", text)
        return other_words(text)

    return screen.edit(change, MARK)


def title(screen: Drawing, random: Random) -> Drawing:
    return replace(screen, title=random.choice([None, "", "app", "Neu: app"]))


CHANGES = (
    words, row_below, row_above, row_gone, glyphs, spaces, colors, borders, scrolled, mark_gone, mark_redrawn, title,
)  # fmt: skip


def change(screen: Drawing, seed: int) -> tuple[Drawing, list[str]]:
    """Return a screen as a later version may draw it, and the names of what was changed."""
    random = Random(f"{screen.agent} {screen.name} {seed}")
    chosen = random.sample(CHANGES, min(seed, random.randint(1, 4)))
    for one in chosen:
        screen = one(screen, random)
    return screen, [one.__name__ for one in chosen]


def shows_work(screen: Drawing) -> bool:
    told = screen.provider.title_status(screen.title or "")
    return told in AT_WORK or (screen.true <= AT_WORK and bool(screen.of(MARK)))


def faults(screen: Drawing) -> Iterator[str]:
    """Yield what does not hold although it must, whatever a vendor changes."""
    status, draft = screen.status, screen.provider.draft(screen.text)
    if screen.true <= AT_WORK and shows_work(screen) and status in ENDS:
        yield f"{status} while work is shown"
    if screen.true <= ENDS and status in AT_WORK:
        yield f"{status} at rest"
    if screen.true <= ENDS and draft is None and status is not UNKNOWN:
        yield "no box and not unknown"
    if not screen.of(BOX) or draft is None:
        return
    top = min(screen.of(BOX, EDGE))
    elsewhere = screen.keep(lambda row, kind: row >= top).put(0, "  Some talk.", "")
    if screen.provider.draft(elsewhere.text) != draft:
        yield "the draft depends on the conversation"
    if screen.typed == "":
        found = screen.provider.draft(screen.drafted(PROBE).text)
        if found not in (PROBE, None):
            yield f"a probe is read as {found!r}"
    lines = (screen.typed or "").split("\n")
    # Where nothing is below the box, nothing tells its last rows from what may be there.
    below = [text for text, kind in screen.rows[max(screen.of(BOX)) :] if kind == HINT and text]
    if not all(line.strip() in draft for line in (lines if below else lines[:1])):
        yield f"the draft is read as {draft!r}"
