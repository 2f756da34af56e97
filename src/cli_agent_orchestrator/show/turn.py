"""The turns of a run: all of them as a picture, and what one of them shows when it is opened.

In the picture each role has a row and each turn a column, round by round. How wide a turn is drawn
says how long it took. What it came to is told by a mark and a color. A page says the same in words,
so to a screen reader it is one image.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..core.secrets import CUT, before_mask
from ..core.text import duration, plural
from ..pipeline.machine import BASE_FAILED
from ..pipeline.review import FindingAnswer, Tracked
from ..runs.report import TurnDetail
from ..runs.view import Turn
from ..usage.tokens import Tokens
from .diff import patches_html, read_patch
from .markup import Markup, joined, tag

FIRST_LINES = 300
LAST_LINES = 100
LONGEST_LINE = 2000
"""Characters."""


class CutText(str):
    """A text that is cut, and not cut again."""

    __slots__ = ()


def long_text(written: str, kind: str = "text") -> Markup:
    """Return a text as it is written; `kind` is a class: `text`, `screen`.

    >>> long_text("a < b")
    '<pre class="text">a &lt; b</pre>'
    """
    shown = written if isinstance(written, CutText) else cut_text(written)
    return tag("pre", shown, class_=kind)


def cut_text(
    written: str,
    first: int = FIRST_LINES,
    last: int = LAST_LINES,
    place: Callable[[str, int], int] = before_mask,
) -> CutText:
    """Return a text of at most so many lines, with one in the middle that says what is left out.

    `place` says where a line is cut that is to have at most so many characters.

    >>> cut_text("a\\nb\\nc\\nd", 1, 1)
    'a\\n… 2 lines are not shown …\\nd'
    """
    lines = written.strip("\n").split("\n")
    left = len(lines) - first - last
    if left > 0:
        word = "line is" if left == 1 else "lines are"
        lines[first : first + left] = [f"… {left:,} {word} not shown …"]
    return CutText("\n".join(_shortened(line, place(line, LONGEST_LINE)) for line in lines))


def _shortened(line: str, at: int) -> str:
    more = len(line) - at
    return f"{line[:at]}{CUT} {more:,} more characters" if more else line


NOT_KEPT = "It is not kept."


def turn_html(detail: TurnDetail, *, commentable: bool = False) -> Markup:
    return tag("div", *_parts(detail, commentable), class_="turn")


def _parts(detail: TurnDetail, commentable: bool) -> Iterator[Markup]:
    turn = detail.turn
    yield facts_html(_facts(detail))
    if turn.detail:
        yield tag("p", turn.detail, class_="turn-detail")
    if detail.evidence:
        yield _part("Evidence in the notes", evidence_html(detail.evidence))
    if detail.findings:
        yield _part("Findings", findings_html(detail.findings))
    if turn.outcome:
        said = NOT_KEPT if detail.reply is None else detail.reply
        yield _part("Output" if turn.is_gate else "Reply", long_text(said))
    if detail.patch:
        changed = patches_html(read_patch(detail.patch), commentable=commentable)
        yield _part("Changes", changed)
    if detail.screen:
        yield _fold("The agent's screen at the end", long_text(detail.screen, "screen"))
    if detail.prompt is not None:
        yield _fold("Prompt", long_text(detail.prompt))


def _facts(detail: TurnDetail) -> Iterator[tuple[str, str | Markup]]:
    turn = detail.turn
    yield "Outcome", badge(look_of(turn))
    if turn.provider and not turn.is_gate:
        yield "Agent", turn.provider
    if turn.ended is not None:
        yield "Worked", duration(turn.seconds)
    if detail.usage is not None:
        yield "Tokens", tokens_words(detail.usage)


def facts_html(facts: Iterable[tuple[str, str | Markup]]) -> Markup:
    pairs = (tag("div", tag("dt", name), tag("dd", value)) for name, value in facts)
    return tag("dl", *pairs, class_="facts")


def tokens_words(used: Tokens) -> str:
    """Say what calls took: `12,300 in (10,000 cached), 450 out (200 reasoning)`."""
    cached = f" ({used.cached_input:,} cached)" if used.cached_input else ""
    reasoning = f" ({used.reasoning:,} reasoning)" if used.reasoning else ""
    return f"{used.input:,} in{cached}, {used.output:,} out{reasoning}"


def evidence_html(groups: Mapping[str, bool]) -> Markup:
    items = (
        tag(
            "li",
            tag(
                "span",
                f"{'✓' if is_met else '✗'} {group}",
                class_=f"badge badge-{'good' if is_met else 'plain'}",
            ),
            tag("span", "" if is_met else " (not touched)", class_="hidden-words"),
        )
        for group, is_met in groups.items()
    )
    return tag("ul", *items, class_="evidence")


def findings_html(findings: Sequence[Tracked]) -> Markup:
    return tag("ul", *map(_finding_html, findings), class_="findings")


def _finding_html(entry: Tracked) -> Markup:
    finding = entry.finding
    severity = "blocking" if finding.blocking else "advisory"
    return tag(
        "li",
        tag("span", finding.id, class_="finding-id"),
        " ",
        _fate(entry),
        " ",
        tag("span", severity, class_="badge badge-plain"),
        joined([" ", tag("code", finding.where)]) if finding.where else None,
        " ",
        tag("span", finding.text),
    )


def _fate(entry: Tracked) -> Markup:
    """Say what became of a finding, and how often it was looked at in vain."""
    times = entry.answers.count(FindingAnswer.UNFIXED)
    again = f", unfixed {times}×" if times else ""
    if entry.is_open:
        kind = "bad" if entry.finding.blocking else "plain"
        return tag("span", f"✗ open{again}", class_=f"badge badge-{kind}")
    return tag("span", f"✓ {entry.answers[-1]}{again}", class_="badge badge-good")


def _part(title: str, content: Markup) -> Markup:
    return tag("section", tag("h4", title), content, class_="turn-part")


def _fold(title: str, content: Markup) -> Markup:
    return tag("details", tag("summary", title), content, class_="turn-fold")


@dataclass(frozen=True, slots=True)
class OutcomeLook:
    """How an outcome is shown."""

    mark: str
    """One character."""
    kind: str
    """`good`, `bad`, `plain` or `now`; the stylesheet has a color for each."""
    words: str


WORDS = {
    "delivered": "delivered",
    "approved": "approved",
    "skipped": "skipped",
    "sent_back": "sent back",
    "cycles_used_up": "not approved, cycles used up",
    "passed": "passed",
    "cleared": "passed",
    "failed": "failed",
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
"""What the marks mean."""


def look_of(turn: Turn) -> OutcomeLook:
    """Return how a turn is shown; what a later version may call an outcome is shown plainly."""
    word = turn.outcome
    if not word:
        return AT_WORK if turn.ended is None else NOT_FINISHED
    if turn.early:
        return EARLY
    if word in GOOD:
        return OutcomeLook("✓", "good", WORDS[word])
    if turn.is_setback or word == BASE_FAILED:
        return OutcomeLook(MARKS.get(word, "✗"), "bad", WORDS[word])
    return OutcomeLook(MARKS.get(word, "●"), "plain", WORDS.get(word, word))


def badge(look: OutcomeLook) -> Markup:
    return tag("span", f"{look.mark} {look.words}", class_=f"badge badge-{look.kind}")


ROW, HEAD, GAP = 26, 24, 3
"""Pixels: of a row, of the line with the rounds, between two turns."""
NARROWEST, WIDEST = 18, 66
"""Pixels of a turn."""
LEAST_WIDEST = 24
"""Pixels of the longest turn where there are many: so much wider it has to be to be seen."""
ROOM = 740
"""Pixels that the turns take together, if they can: beside the names, on most screens."""
CHARACTER = 7.3
"""Pixels that a character of a name takes at most, in the small letters of the picture."""
LONGEST_NAME = 20


@dataclass(frozen=True, slots=True)
class _Box:
    """Where a turn is drawn."""

    turn: Turn
    left: float
    width: float
    row: int


def timeline(turns: Sequence[Turn], now: float) -> Markup:
    """Return the turns of a run as a picture with its legend; nothing if there are none."""
    if not turns:
        return joined(())
    roles = _roles(turns)
    places = list(_places(turns, now))
    width = places[-1].left + places[-1].width + GAP
    height = HEAD + ROW * len(roles) + GAP
    drawing = tag(
        "svg",
        *_stripes(roles, width),
        *_rounds(places, height),
        *(_drawn(place, now) for place in places),
        role="img",
        aria_label=label_of(turns),
        class_="timeline-picture",
        **_size(width, height),
    )
    # Whoever uses a keyboard can scroll what is wider than the page.
    scrolls = tag(
        "div", drawing, class_="timeline-scroll", tabindex=0, role="group", aria_label="Turns"
    )
    both = tag("div", _names(roles, height), scrolls, class_="timeline-frame")
    return tag("div", both, _legend(turns), class_="timeline")


def label_of(turns: Sequence[Turn]) -> str:
    """Say in a sentence what the picture shows."""
    rounds = len({turn.round for turn in turns})
    counts: dict[str, int] = {}
    for turn in turns:
        words = look_of(turn).words
        counts[words] = counts.get(words, 0) + 1
    came = ", ".join(f"{count} {words}" for words, count in counts.items())
    return f"{plural(len(turns), 'turn')} in {plural(rounds, 'round')}: {came}"


def _roles(turns: Sequence[Turn]) -> list[str]:
    """Return who had a turn, in the order of the rows: agents before gates."""
    gates = {turn.role for turn in turns if turn.is_gate}
    return sorted(dict.fromkeys(turn.role for turn in turns), key=lambda role: role in gates)


def _places(turns: Sequence[Turn], now: float) -> Iterator[_Box]:
    rows = {role: row for row, role in enumerate(_roles(turns))}
    longest = max(_seconds(turn, now) for turn in turns) or 1.0
    widest = _widest(turns, [_seconds(turn, now) / longest for turn in turns])
    left, round = float(2 * GAP), turns[0].round
    for turn in turns:
        left += 2 * GAP if turn.round != round else 0
        round = turn.round
        width = NARROWEST + (widest - NARROWEST) * _seconds(turn, now) / longest
        yield _Box(turn, left, width, rows[turn.role])
        left += width + GAP


def _widest(turns: Sequence[Turn], parts: Sequence[float]) -> float:
    """Return how wide the longest turn is, so that all of them find room if they can.

    `parts` say how long each took, the longest 1.
    """
    gaps = GAP * (3 + len(turns) + 2 * len({turn.round for turn in turns}))
    left = ROOM - gaps - NARROWEST * len(turns)
    return min(max(NARROWEST + left / max(sum(parts), 1.0), LEAST_WIDEST), WIDEST)


def _seconds(turn: Turn, now: float) -> float:
    """Return how long a turn took, or has taken up to now."""
    return max(now - turn.began if turn.ended is None else turn.seconds, 0.0)


def _size(width: float, height: float) -> dict[str, str | int | float]:
    return {"width": round(width), "height": height, "viewBox": f"0 0 {width:.0f} {height}"}


def _names(roles: Sequence[str], height: float) -> Markup:
    """Return the names of the rows, which stay where they are when the turns are scrolled."""

    def short(role: str) -> str:
        return role if len(role) <= LONGEST_NAME else f"{role[: LONGEST_NAME - 1]}…"

    width = 8 + CHARACTER * min(LONGEST_NAME, max(map(len, roles)))
    names = (
        tag("text", short(role), x=4, y=HEAD + ROW * row + 17, class_="timeline-role")
        for row, role in enumerate(roles)
    )
    drawn = joined((*_stripes(roles, width), *names))
    # The turns say whose they are.
    return tag("svg", drawn, class_="timeline-names", aria_hidden="true", **_size(width, height))


def _stripes(roles: Sequence[str], width: float) -> Iterator[Markup]:
    for row in range(0, len(roles), 2):
        top = HEAD + ROW * row
        yield tag("rect", x=0, y=top, width=width, height=ROW, class_="timeline-stripe")


def _rounds(places: Sequence[_Box], height: float) -> Iterator[Markup]:
    shown: set[int] = set()
    for place in places:
        number = place.turn.round
        if number not in shown:
            shown.add(number)
            x = place.left - GAP
            yield tag("line", x1=x, y1=4, x2=x, y2=height, class_="timeline-round")
            # Where rounds are short there is no room for the word.
            word = f"Round {number}" if _room(places, number) > 9 * CHARACTER else str(number)
            yield tag("text", word, x=x + 4, y=16, class_="timeline-head")


def _room(places: Sequence[_Box], number: int) -> float:
    own = [place for place in places if place.turn.round == number]
    return own[-1].left + own[-1].width - own[0].left


def _drawn(place: _Box, now: float) -> Markup:
    turn, look = place.turn, look_of(place.turn)
    top = HEAD + ROW * place.row + GAP
    middle = place.left + place.width / 2
    spent = duration(_seconds(turn, now))
    said = f"{turn.sequence}. {turn.role}, {turn.place}: {look.words}, {spent}"
    box = tag(
        "rect",
        x=place.left,
        y=top,
        width=place.width,
        height=ROW - 2 * GAP,
        rx=4,
        class_=f"timeline-box timeline-{look.kind}",
    )
    mark = tag("text", look.mark, x=middle, y=top + 15, class_=f"timeline-mark mark-{look.kind}")
    return tag("g", tag("title", said), box, mark)


def _legend(turns: Sequence[Turn]) -> Markup:
    """Return what the marks mean that are there."""
    marks = {look_of(turn).mark for turn in turns}
    keys = (
        tag(
            "span",
            tag("span", look.mark, class_=f"badge badge-{look.kind}"),
            f" {look.words} ",
            class_="timeline-key",
        )
        for look in LEGEND
        if look.mark in marks
    )
    return tag("p", joined(keys, " "), " Wider boxes took longer.", class_="timeline-legend")
