"""The turns of a run: all of them as a picture, and one of them in full.

In the picture each role has a row and each turn a column, round by round. A wider box took longer;
a mark and a color show its outcome. The page says the same in words, so to a screen reader the
picture is one image.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ..core.models import Tokens
from ..core.secrets import CUT, before_mask
from ..core.text import duration, plural
from ..events import Meaning
from ..pipeline.review import FindingAnswer, Tracked
from ..runs.view import Turn
from ..usage.tokens import NONE_USED
from .diff import patches_html, read_patch
from .markup import Markup, joined, tag

if TYPE_CHECKING:
    # A server imports nothing of the pipeline before a turn is looked at.
    from ..runs.report import TurnDetail

FIRST_LINES = 300
LAST_LINES = 100
LONGEST_LINE = 2000


def long_text(written: str, kind: str = "text") -> Markup:
    """Return a text as it is written, cut if it is long; `kind` is a class: `text`, `screen`."""
    return tag("pre", cut_text(written), class_=kind)


def cut_text(
    written: str, first: int = FIRST_LINES, last: int = LAST_LINES, longest: int = LONGEST_LINE
) -> str:
    """Return a text of at most so many lines, with a note about those left out in the middle.

    >>> cut_text("a\\nb\\nc\\nd", 1, 1)
    'a\\n… 2 lines are not shown …\\nd'
    """
    lines = written.strip("\n").split("\n")
    left = len(lines) - first - last
    if left > 0:
        word = "line is" if left == 1 else "lines are"
        lines[first : first + left] = [f"… {left:,} {word} not shown …"]
    cut = []
    for line in lines:
        at = before_mask(line, longest)
        more = len(line) - at
        cut.append(f"{line[:at]}{CUT} {more:,} more characters" if more else line)
    return "\n".join(cut)


def turn_html(detail: "TurnDetail", *, commentable: bool = False) -> Markup:
    turn = detail.turn
    facts: list[tuple[str, str | Markup]] = [("Outcome", badge(look_of(turn)))]
    if turn.provider and not turn.is_gate:
        facts.append(("Agent", turn.provider))
    if turn.ended is not None:
        facts.append(("Worked", duration(turn.seconds)))
    if detail.usage is not None:
        facts.append(("Tokens", tokens_words(detail.usage)))
    parts = [facts_html(facts)]
    if turn.detail:
        parts.append(tag("p", turn.detail, class_="turn-detail"))
    if detail.evidence:
        parts.append(_part("Evidence in the notes", evidence_html(detail.evidence)))
    if detail.findings:
        parts.append(_part("Findings", findings_html(detail.findings)))
    if turn.outcome:
        said = "It is not kept." if detail.reply is None else detail.reply
        parts.append(_part("Output" if turn.is_gate else "Reply", long_text(said)))
    if detail.patch:
        changed = patches_html(read_patch(detail.patch), commentable=commentable)
        parts.append(_part("Changes", changed))
    if detail.screen:
        screen = long_text(detail.screen, "screen")
        parts.append(_fold("The agent's screen at the end", screen))
    if detail.prompt is not None:
        parts.append(_fold("Prompt", long_text(detail.prompt)))
    return tag("div", *parts, class_="turn")


def facts_html(facts: Iterable[tuple[str, str | Markup]]) -> Markup:
    pairs = (tag("div", tag("dt", name), tag("dd", value)) for name, value in facts)
    return tag("dl", *pairs, class_="facts")


def tokens_words(used: Tokens | None) -> str:
    if used is None:
        return ""
    cached = f" ({used.cached_input:,} cached)" if used.cached_input else ""
    reasoning = f" ({used.reasoning:,} reasoning)" if used.reasoning else ""
    return f"{used.input:,} in{cached}, {used.output:,} out{reasoning}"


def tokens_of_all(used: Sequence[Tokens | None]) -> str:
    known = [one for one in used if one is not None]
    partly = f" (of {len(known)} of {len(used)} turns)" if 0 < len(known) < len(used) else ""
    unknown = "not known" if used else ""
    return f"{tokens_words(sum(known, NONE_USED))}{partly}" if known else unknown


def evidence_html(groups: Mapping[str, bool]) -> Markup:
    items = []
    for group, is_met in groups.items():
        kind, mark = ("good", "✓") if is_met else ("plain", "✗")
        shown = tag("span", f"{mark} {group}", class_=f"badge badge-{kind}")
        said = tag("span", "" if is_met else " (not touched)", class_="hidden-words")
        items.append(tag("li", shown, said))
    return tag("ul", *items, class_="evidence")


def findings_html(findings: Sequence[Tracked]) -> Markup:
    items = []
    for entry in findings:
        finding = entry.finding
        times = entry.answers.count(FindingAnswer.UNFIXED)
        again = f", unfixed {times}×" if times else ""
        if entry.is_open:
            kind, fate = "bad" if finding.blocking else "plain", f"✗ open{again}"
        else:
            kind, fate = "good", f"✓ {entry.answers[-1]}{again}"
        severity = "blocking" if finding.blocking else "advisory"
        parts = (
            tag("span", finding.id, class_="finding-id"),
            tag("span", fate, class_=f"badge badge-{kind}"),
            tag("span", severity, class_="badge badge-plain"),
            tag("code", finding.where) if finding.where else None,
            tag("span", finding.text),
        )
        items.append(tag("li", joined(parts, " ")))
    return tag("ul", *items, class_="findings")


def _part(title: str, content: Markup) -> Markup:
    return tag("section", tag("h4", title), content, class_="turn-part")


def _fold(title: str, content: Markup) -> Markup:
    return tag("details", tag("summary", title), content, class_="turn-fold")


class OutcomeLook(Struct, frozen=True):
    mark: str
    kind: str
    words: str


WORDS = {
    "cycles_used_up": "not approved, cycles used up",
    "cleared": "passed",
    "rounds_used_up": "failed, rounds used up",
    "base_passed": "passed before the run",
    "base_failed": "failed before the run",
}
GOOD = frozenset({"approved", "passed", "cleared", "base_passed"})
MARKS = {"sent_back": "↩", "cycles_used_up": "↩", "delivered": "●", "skipped": "–"}
NOT_FINISHED = OutcomeLook("○", "plain", "not finished")
AT_WORK = OutcomeLook("…", "now", "at work")
EARLY = OutcomeLook("✓", "plain", "approved, second look follows")
LEGEND = (
    OutcomeLook("●", "plain", "delivered"),
    OutcomeLook("✓", "good", "approved or passed"),
    OutcomeLook("↩", "bad", "sent back"),
    OutcomeLook("✗", "bad", "failed"),
    OutcomeLook("–", "plain", "skipped"),
    NOT_FINISHED,
    AT_WORK,
)


def look_of(turn: Turn) -> OutcomeLook:
    """Return how a turn is shown; an unknown outcome, of a later version, is shown plainly."""
    word = turn.outcome
    if not word:
        return AT_WORK if turn.ended is None else NOT_FINISHED
    if turn.early:
        return EARLY
    words = WORDS.get(word, word.replace("_", " "))
    if word in GOOD:
        return OutcomeLook("✓", "good", words)
    if turn.is_setback or word == Meaning.BASE_FAILED:
        return OutcomeLook(MARKS.get(word, "✗"), "bad", words)
    return OutcomeLook(MARKS.get(word, "●"), "plain", words)


def badge(look: OutcomeLook) -> Markup:
    return tag("span", f"{look.mark} {look.words}", class_=f"badge badge-{look.kind}")


# All in pixels.
ROW, HEAD, GAP = 26, 24, 3
"""Of a row, of the line with the rounds, between two turns."""
NARROWEST, WIDEST = 18, 66
LEAST_WIDEST = 24
"""Of the longest turn where there are many: so that it is seen to be longer."""
ROOM = 740
"""For all turns, if possible: beside the names, on most screens."""
CHARACTER = 7.3
"""Of a character of a name, at most."""
LONGEST_NAME = 20


def timeline(turns: Sequence[Turn], now: float) -> Markup:
    if not turns:
        return joined(())
    gates = {turn.role for turn in turns if turn.is_gate}
    roles = sorted(dict.fromkeys(turn.role for turn in turns), key=lambda role: role in gates)
    boxes, heads, width = _boxes(turns, roles, now)
    height = HEAD + ROW * len(roles) + GAP
    rounds = []
    # Where rounds are short there is no room for the word.
    for number, (begins, room) in heads.items():
        x = begins - GAP
        word = f"Round {number}" if room > 9 * CHARACTER else str(number)
        line = tag("line", x1=x, y1=4, x2=x, y2=height, class_="timeline-round")
        rounds += [line, tag("text", word, x=x + 4, y=16, class_="timeline-head")]
    drawing = tag(
        "svg",
        *_stripes(len(roles), width),
        *rounds,
        *boxes,
        role="img",
        aria_label=label_of(turns),
        class_="timeline-picture",
        **_size(width, height),
    )
    # With a tabindex, the keyboard can scroll what is wider than the page.
    scrolls = tag(
        "div", drawing, class_="timeline-scroll", tabindex=0, role="group", aria_label="Turns"
    )
    both = tag("div", _names(roles, height), scrolls, class_="timeline-frame")
    marks = {look_of(turn).mark for turn in turns}
    keys = []
    for look in LEGEND:
        if look.mark in marks:
            shown = tag("span", look.mark, class_=f"badge badge-{look.kind}")
            keys.append(tag("span", shown, f" {look.words} ", class_="timeline-key"))
    legend = tag("p", joined(keys, " "), " Wider boxes took longer.", class_="timeline-legend")
    return tag("div", both, legend, class_="timeline")


def label_of(turns: Sequence[Turn]) -> str:
    rounds = len({turn.round for turn in turns})
    counts = Counter(look_of(turn).words for turn in turns)
    came = ", ".join(f"{count} {words}" for words, count in counts.items())
    return f"{plural(len(turns), 'turn')} in {plural(rounds, 'round')}: {came}"


def _boxes(
    turns: Sequence[Turn], roles: Sequence[str], now: float
) -> tuple[list[Markup], dict[int, tuple[float, float]], float]:
    spent = [max(now - turn.began if turn.ended is None else turn.seconds, 0.0) for turn in turns]
    longest = max(spent) or 1.0
    # The longest turn is as wide as the room for all of them allows.
    gaps = GAP * (3 + len(turns) + 2 * len({turn.round for turn in turns}))
    left_over = ROOM - gaps - NARROWEST * len(turns)
    widest = NARROWEST + left_over / max(sum(spent) / longest, 1.0)
    widest = min(max(widest, LEAST_WIDEST), WIDEST)
    boxes = []
    heads: dict[int, tuple[float, float]] = {}
    left, round = float(2 * GAP), turns[0].round
    for turn, seconds in zip(turns, spent, strict=True):
        left += 2 * GAP if turn.round != round else 0
        round = turn.round
        width = NARROWEST + (widest - NARROWEST) * seconds / longest
        look, top = look_of(turn), HEAD + ROW * roles.index(turn.role) + GAP
        said = f"{turn.sequence}. {turn.role}, {turn.place}: {look.words}, {duration(seconds)}"
        size: dict[str, float] = {"x": left, "y": top, "width": width, "height": ROW - 2 * GAP}
        box = tag("rect", **size, rx=4, class_=f"timeline-box timeline-{look.kind}")
        kind = f"timeline-mark mark-{look.kind}"
        mark = tag("text", look.mark, x=left + width / 2, y=top + 15, class_=kind)
        boxes.append(tag("g", tag("title", said), box, mark))
        begins, _ = heads.get(round, (left, 0.0))
        heads[round] = begins, left + width - begins
        left += width + GAP
    return boxes, heads, left


def _size(width: float, height: float) -> dict[str, str | int | float]:
    return {"width": round(width), "height": height, "viewBox": f"0 0 {width:.0f} {height}"}


def _names(roles: Sequence[str], height: float) -> Markup:
    shown = [r if len(r) <= LONGEST_NAME else f"{r[: LONGEST_NAME - 1]}…" for r in roles]
    width = 8 + CHARACTER * max(map(len, shown))
    names = (
        tag("text", name, x=4, y=HEAD + ROW * row + 17, class_="timeline-role")
        for row, name in enumerate(shown)
    )
    drawn = joined((*_stripes(len(roles), width), *names))
    # The turns say whose they are.
    return tag("svg", drawn, class_="timeline-names", aria_hidden="true", **_size(width, height))


def _stripes(rows: int, width: float) -> Iterator[Markup]:
    for row in range(0, rows, 2):
        top = HEAD + ROW * row
        yield tag("rect", x=0, y=top, width=width, height=ROW, class_="timeline-stripe")
