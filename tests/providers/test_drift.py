"""Captured screens and records, changed as the next version of an agent may change them.

A vendor changes words, signs, colours, borders, and the rows around the input box. So each screen
is drawn anew with a few of these changes, chosen by a seed, and read again: `faults` has what must
hold. An ordinary run takes a few drawings, `make test-slow` all (docs/accuracy.md has how many).
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cli_agent_orchestrator.core.models import Evidence, TerminalStatus
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.providers.base import AgentSignal, Provider, SignalKind, read_states
from cli_agent_orchestrator.providers.screen import find_all, strip_escapes
from cli_agent_orchestrator.terminals import tracker
from cli_agent_orchestrator.terminals.tracker import STATUS_OF_SIGNAL, SignalSource, Track
from tests.providers import test_claude_hooks, test_codex, test_copilot_cli, test_opencode
from tests.providers.samples import COMPLETED, ERROR, IDLE, PROCESSING, SCREENS, UNKNOWN, WAITING

AT_WORK, ENDS = {PROCESSING, WAITING}, {IDLE, COMPLETED, ERROR}
SEEDS = range(45)  # the first leaves a screen as it is
FEW = SEEDS[::15]

# Rows that show by themselves that an agent works, or asks.
MARKS = {
    "codex": r"s • esc to inter|^• Exploring|^ {0,2}› \d\. |^ .*([Ee]nter (to )?[cs]|\besc )|^ q ",
    "claude_code": r"^[·✢✳✶✻✽*] .*(…|Retr|Wait)|esc to int|\d shell|❯ \d\. |Esc |Enter to |pts?: ",
    "gemini_cli": r"^ [⠁-⣿] |● \d\. |Enter to ",
    "copilot_cli": r"^ [○◎◉●] Working|❯ \d\. |enter (to|accept)|esc \w",
    "opencode": r"^ +[⬝■]{4,} |enter (submit|confirm)|esc exit",
    "kilo": r"^ +[⬝■]{4,} |enter (submit|confirm)|esc exit",
    "qwen_code": r"· esc to cancel\)|\d (local|queued)|Waiting for user|^ +│ Connect a",
    "cline": r"^ [⠁-⣿] \S|^ Cline (needs|is asking)|Enter to ",
    "pi": r"^ [⠁-⣿] \S|^ ↑↓ navigate  enter",
    "kimi_cli": r"^ {1,2}([🌑-🌘]|[⠁-⣿] )|↑/?↓ (select|navigate)",
    "aider": r"Waiting for|\(Y\)es/\(N\)o.*:$",
    "goose": r"^[◐◓◑◒]  .*(?=\s*\Z)|^◆  ",
}
# The first row of an input box, up to what is typed.
BOXES = {
    "codex": r"^[›!]( |$)",
    "claude_code": r"^(│\xa0)?[❯>!#]\xa0",
    "gemini_cli": r"^ [>*!]( |$)",
    "copilot_cli": r"^[❯!]( |$)",
    "opencode": r"^ *┃(  |$)",
    "kilo": r"^ *┃",
    "qwen_code": r"^[>*!]( |$)",
    "cline": r"^ *❯( |$)",
    "pi": r"(?<=─\n)^(?![/~─])",
    "kimi_cli": r"^ │ [>!]",
    "aider": r"^>( |$)",
    "goose": r"^>( |$)",
}
AGENTS = list(MARKS)
LINE_BY_LINE = "aider", "goose"  # nothing is below what is typed
TALK, MARK, EDGE, BOX, HINT = KINDS = "talk", "mark", "edge", "box", "hint"


@dataclass(frozen=True)
class Drawing:
    """A screen: its rows, and what each of them is; what is typed in its box, None if not known."""

    provider: Provider
    name: str
    rows: tuple[tuple[str, str], ...]
    true: frozenset[TerminalStatus]
    title: str | None
    typed: str | None

    @property
    def text(self) -> str:
        return "\n".join(text for text, _ in self.rows)

    def of(self, *kinds: str) -> list[int]:
        return [number for number, row in enumerate(self.rows) if row[1] in kinds]

    def marks(self) -> list[str]:
        """Return the rows that still show that the agent works or asks."""
        known = rf"{MARKS[self.provider.name]}|{SIGN}"
        return [text for text, kind in self.rows if kind == MARK and re.search(known, text)]

    def edit(self, change: Callable[[str], str], *kinds: str) -> "Drawing":
        rows = ((change(text) if kind in kinds else text, kind) for text, kind in self.rows)
        return replace(self, rows=tuple(rows))

    def put(self, row: int, *texts: str) -> "Drawing":
        added = tuple((text, HINT) for text in texts)
        return replace(self, rows=(*self.rows[:row], *added, *self.rows[row:]))

    def without(self, rows: Iterable[int]) -> "Drawing":
        gone = {*rows}
        kept = tuple(row for number, row in enumerate(self.rows) if number not in gone)
        return replace(self, rows=kept)

    def with_draft(self, typed: str) -> "Drawing":
        first, *rest = self.of(BOX)
        begin = re.match(r"\s*(?:[│┃|!][\xa0 ](?=\S))?\S?", strip_escapes(self.rows[first][0]))
        gap = {"claude_code": "\xa0", "opencode": "  ", "kilo": "  "}.get(self.provider.name, " ")
        row = (f"\x1b[0m{begin and begin[0]}{gap}{typed}", BOX)
        one = self.without(rest)
        return replace(one, rows=(*one.rows[:first], row, *one.rows[first + 1 :]))


def draw(file: Path) -> Drawing:
    """Return a captured screen, with what its rows are."""
    agent = file.relative_to(SCREENS).parts[0]
    provider, is_colored = get_provider(agent), file.suffix == ".ansi"
    text = file.read_text(encoding="utf-8").rstrip("\n ")
    titled = file.with_suffix(".title")
    title = titled.read_text(encoding="utf-8").removesuffix("\n") if titled.exists() else None
    is_open = is_colored or ("undecidable" in file.parts and title is None)
    known = [provider.detect_status(text)] if is_open else file.parent.name.split("+")
    true = frozenset(map(TerminalStatus, known))
    lines = [strip_escapes(line).rstrip(" ") for line in text.split("\n")]
    kinds = [TALK] * len(lines)
    draft = provider.draft(text)
    plain = "\n".join(lines)
    boxes, marks = (
        [plain.count("\n", 0, found.start()) for found in find_all(patterns[agent], plain)]
        for patterns in (BOXES, MARKS)
    )
    if draft is not None and boxes:
        frames = (row + 1 for row in reversed(boxes) if row - 1 not in boxes)
        first = next(frames) if agent in ("opencode", "kilo") else boxes[-1]
        stop = first + (provider.draft(strip_escapes(text)) or draft).count("\n") + 1
        ends = (row for row in range(stop, len(lines)) if re.match(r" *[─╰╹▀]|$", lines[row]))
        near = range(first - 1, max(first - 7, -1), -1)
        top = next((row for row in near if re.match(r" *[─╭╌]| *┃$", lines[row])), first)
        below = next(ends, stop - 1) + 1
        if stop <= len(lines):  # else the box begins above what is in sight
            kinds[top:] = [EDGE] * (below - top) + [HINT] * (len(lines) - below)
            kinds[first:stop] = [BOX] * (stop - first)
    first = min((row for row, kind in enumerate(kinds) if kind != TALK), default=0)
    for row in marks:
        if true <= AT_WORK and sum(map(bool, lines[row:first])) < 9:
            kinds[row] = MARK
    rows = tuple(zip(text.split("\n"), kinds, strict=True))
    return Drawing(provider, file.stem, rows, true, title, draft if is_colored else None)


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
    *("  ⚠ 3 notices · f9 to view", f"{'◐ high · /pace':>110}", "  ✨ Neu: /hilfe", "▸ 2 tips"),
    *(" tab 补全   ctrl+p 命令", "  gpt-9 fast · 88% · main", "? help", f"  {'─' * 30}"),
)
BORDERS = ("━┃┏┓┗┛", "═║╔╗╚╝", "-|++++", "─│┌┐└┘", "      ")
COLOR = r"\x1b\[[\d;:]*m"
DIM = r"(\x1b\[(?:\d+;)*0?);?2m"
SIGN = rf"^((?:{COLOR}| ){{0,5}})[^\w\s⏸⏵←↑\x1b]"
WORD = rf"{COLOR}|(?<!\d)[^\W\d_]+"


def in_other_words(random: Random) -> Callable[[str], str]:
    vocabulary = random.choice(VOCABULARY).split()
    # A color stays as it is.
    return partial(re.sub, WORD, lambda m: m[0] if m[0] < " " else random.choice(vocabulary))


def words(screen: Drawing, random: Random) -> Drawing:
    return screen.edit(in_other_words(random), HINT, BOX if screen.typed == "" else HINT)


def row_below(screen: Drawing, random: Random) -> Drawing:
    if screen.provider.name in LINE_BY_LINE:
        return screen
    first = max(screen.of(BOX, EDGE), default=len(screen.rows) - 1) + 1
    blank = [""] * random.randint(0, 1)
    return screen.put(random.randint(first, len(screen.rows)), *blank, random.choice(ROWS))


def row_above(screen: Drawing, random: Random) -> Drawing:
    above = min(screen.of(BOX, EDGE), default=0)
    return screen.put(above, random.choice(ROWS), *[""] * random.randint(0, 1))


def rows_gone(screen: Drawing, random: Random) -> Drawing:
    rows = screen.of(random.choice([HINT, MARK]))
    return screen.without(random.sample(rows, random.randint(0, len(rows))))


def signs(screen: Drawing, random: Random) -> Drawing:
    bullets = str.maketrans(dict.fromkeys("•◦●⏺✦", random.choice("▪‣◆➤-")))
    prompt = partial(re.sub, "[›❯>]", random.choice(["»", "λ", "→", r"\g<0>"]), count=1)
    return screen.edit(lambda text: text.translate(bullets), TALK).edit(prompt, BOX)


def spaces(screen: Drawing, random: Random) -> Drawing:
    indent = random.choice(["", " ", "    ", "\xa0\xa0"])
    gap = random.choice([" ", "  ", "\xa0"])
    return screen.edit(lambda text: indent + text.lstrip(" ").replace("  ", gap), HINT)


def colors(screen: Drawing, random: Random) -> Drawing:
    """Take all colours away, or draw what is dim in a colour."""
    others = [(DIM, rf"\1{color}m") for color in ("", ";38;5;244", ";38;2;90;90;90")]
    return screen.edit(partial(re.sub, *random.choice([(COLOR, ""), *others])), *KINDS)


def borders(screen: Drawing, random: Random) -> Drawing:
    other = str.maketrans(dict(zip("─│╭╮╰╯", random.choice(BORDERS), strict=True)))
    return screen.edit(lambda text: text.translate(other), TALK, EDGE, BOX, HINT)


def scrolled(screen: Drawing, random: Random) -> Drawing:
    return screen.without(range(random.randint(0, min(screen.of(MARK, EDGE, BOX), default=0))))


def mark_redrawn(screen: Drawing, random: Random) -> Drawing:
    """Draw marks with another sign, or in other words; with neither as before it is no mark."""
    sign, other_words = random.choice("◍⟳✤⧗"), in_other_words(random)
    by_sign = random.random() < 0.5

    def change(text: str, kind: str) -> tuple[str, str]:
        if by_sign or (screen.true == {PROCESSING} and not re.match(SIGN, text)):
            return re.sub(SIGN, rf"\1{sign}", text), kind
        return other_words(text), kind if re.match(SIGN, text) else HINT

    rows = (change(*row) if row[1] == MARK else row for row in screen.rows)
    return replace(screen, rows=tuple(rows))


def title(screen: Drawing, random: Random) -> Drawing:
    return replace(screen, title=random.choice([None, "", "app", "Neu: app"]))


CHANGES = (
    *(words, row_below, row_above, rows_gone, signs, spaces, colors, borders, scrolled),
    *(mark_redrawn, title),
)


def change(screen: Drawing, seed: int) -> tuple[Drawing, set[str]]:
    """Return a screen as a later version may draw it, and the names of what was changed."""
    random = Random(f"{screen.provider.name} {screen.name} {seed}")
    chosen = random.sample(CHANGES, min(seed, random.randint(1, 4)))
    for one in chosen:
        screen = one(screen, random)
    return screen, {one.__name__ for one in chosen}


def faults(screen: Drawing) -> Iterator[str]:
    """Yield what does not hold although it must, whatever a vendor changes.

    Work that is shown, by the title or by a mark, is no end. At rest the input box is found, or the
    screen is unknown and the sender tries. What is typed into an empty box is all that is read
    there, and a person's draft stays in sight.
    """
    read = screen.provider.draft
    status, draft = screen.provider.detect_status(screen.text, screen.title), read(screen.text)
    told = screen.provider.title_status(screen.title or "") in AT_WORK
    if screen.true <= AT_WORK and (told or screen.marks()) and status in ENDS:
        yield f"{status} while work is shown"
    if screen.true <= ENDS and (status in AT_WORK or (draft is None and status is not UNKNOWN)):
        yield f"{status} at rest, draft {draft!r}"
    if not screen.of(BOX) or draft is None:
        return
    above = range(min(screen.of(BOX, EDGE)))
    if read(screen.without(above).put(0, "  Some talk.", "").text) != draft:
        yield "the draft depends on what is above the box"
    if screen.typed == "" and (found := read(screen.with_draft("x").text)) not in ("x", None):
        yield f"a typed x is read as {found!r}"
    below = [text for text, kind in screen.rows[max(screen.of(BOX)) :] if kind == HINT and text]
    lines = (screen.typed or "").split("\n")
    # Where nothing is below the box, nothing tells its last rows from what may be there.
    if not all(line.strip() in draft for line in (lines if below else lines[:1])):
        yield f"the draft is read as {draft!r}"


def find_faults(agent: str, seeds: Iterable[int]) -> list[str]:
    """Return what does not hold in the drawings of an agent's screens."""
    found = []
    for screen, seed in product(drawings(agent), seeds):
        drawn, changes = change(screen, seed)
        found += [f"{agent} {screen.name} {seed} {changes}: {fault}" for fault in faults(drawn)]
    return found


def test_whatever_a_vendor_changes_work_is_no_end_and_what_rests_can_be_sent_to() -> None:
    assert [fault for agent in AGENTS for fault in find_faults(agent, FEW)] == []


@pytest.mark.slow
@pytest.mark.parametrize("agent", AGENTS)
def test_whatever_a_vendor_changes_in_all_drawings(agent: str) -> None:
    assert find_faults(agent, SEEDS) == []


SAMPLES: dict[str, Mapping[str, AgentSignal | None]] = {
    "codex": test_codex.SIGNALS,
    "claude_code": test_claude_hooks.SIGNALS,
    "copilot_cli": test_copilot_cli.SIGNALS,
    "opencode": test_opencode.SIGNALS,
}
LINES: dict[str, Iterable[str]] = {
    "kilo": test_opencode.SIGNALS,
    "pi": test_opencode.SIGNALS,
    "qwen_code": (
        '{"type": "user", "message": {"content": [{"type": "tool_result"}]}}',
        '{"type": "control_request", "request": {"tool_name": "Shell"}}',
        '{"type": "assistant", "message": {"content": [{"type": "text", "text": "Done."}]}}',
    ),
    "cline": (
        '{"event": "agent.turn-started"}',
        '{"event": "agent.run-finished", "properties": {"status": "completed"}}',
    ),
    "aider": ('{"event": "message_send_starting"}', '{"event": "at rest"}'),
    "goose": ('{"goose": "thinking"}', '{"goose": "waiting"}'),
}
for name, lines in LINES.items():
    SAMPLES[name] = {line: get_provider(name).read_signal(line) for line in lines}
NAMES = {"type", "event", "hook", "goose", "hook_event_name", "subtype", "notification_type"}
NEW = {"traceId": "7f", "cost": {"usd": 0.1, "parts": [1, None]}, "isNew": True}
SAID = {SignalKind.ANSWERED, SignalKind.ERRED}
OVER = {kind for kind, status in STATUS_OF_SIGNAL.items() if status in ENDS} - SAID


def renamed(value: Any, names: Set[str], new: dict[str, Any]) -> Any:  # JSON
    """Return a record with other values of these names and with new fields, at any depth."""
    if not isinstance(value, dict):
        return value
    named = {key for key in value.keys() & names if isinstance(value[key], str)}
    inner = {key: renamed(one, names, new) for key, one in value.items()}
    return inner | {key: f"v9.{value[key]}" for key in named} | new


@pytest.mark.parametrize("agent", SAMPLES)
def test_new_fields_change_no_signal_and_new_kinds_of_records_end_nothing(agent: str) -> None:
    read = get_provider(agent).read_signal
    for line, expected in SAMPLES[agent].items():
        record = json.loads(line)
        assert read(json.dumps(renamed(record, set(), NEW))) == expected, line
        within = {key: renamed(value, NAMES, {}) for key, value in record.items()}
        for new in (renamed(record, NAMES, {}), within):
            found = read(json.dumps(new))
            assert new == record or found is None or found.kind not in OVER, new


def told(screen: Drawing, seed: int) -> Iterator[TerminalStatus]:
    """Yield what is told for a minute after a signal of work, while the screen is drawn anew."""
    provider, random, asks = screen.provider, Random(seed), screen.true == {WAITING}
    # The mark comes and goes, as where an answer streams; a question stays.
    frames = [screen] if asks else [screen, screen.without(screen.of(MARK))]
    looks = [provider.detect_status(frame.text, screen.title) for frame in frames]
    by_title = provider.title_status(screen.title or "")
    # Where nothing tells of a question, something tells of work.
    kinds = [SignalKind.WAITING] * asks + [SignalKind.WORKING, SignalKind.SUBMITTED]
    signals, source = SAMPLES[provider.name].values(), SignalSource.HOOK
    known = [one for kind in kinds for one in signals if one and one.kind is kind]
    if provider.name == "codex":
        source = SignalSource.STREAM if asks else SignalSource.RECORD
        known = read_states(b"\x1b]7501;state=blocked:app=codex\x07")[0] if asks else known
    track = tracker.observe_signal(Track(keeps_record=True), source, known[0], 0)
    for at in range(1, 60):
        seen = Evidence(SignalSource.SCREEN, random.choice(looks), "", at)
        title = Evidence(SignalSource.TITLE, by_title, "", at) if by_title else None
        track = tracker.observe_screen(track, seen, title, True)
        yield from (tracker.judge(track, at + later).status for later in (0, 0.9))


@pytest.mark.parametrize("agent", SAMPLES)
def test_no_end_is_told_while_a_signal_says_work(agent: str) -> None:
    for screen, seed in product(drawings(agent), FEW):
        drawn, changes = change(screen, seed)
        if screen.true == {PROCESSING} or (screen.true == {WAITING} and drawn.marks()):
            assert not any(status.at_rest for status in told(drawn, seed)), (screen.name, changes)
