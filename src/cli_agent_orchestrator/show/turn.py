"""What one turn shows when it is opened: its outcome, what was found, said and changed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ..core.secrets import CUT, before_mask
from ..core.text import duration
from ..pipeline.findings import FindingAnswer, Tracked
from ..runs.report import TurnDetail
from ..usage.tokens import Tokens
from .diff import patches_html, read_patch
from .markup import Markup, joined, tag
from .timeline import badge, look_of

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
    """Return what there is of a turn; lines of its diff can be commented on if wanted."""
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
    """Return names and values as a list."""
    pairs = (tag("div", tag("dt", name), tag("dd", value)) for name, value in facts)
    return tag("dl", *pairs, class_="facts")


def tokens_words(used: Tokens) -> str:
    """Say what calls took: `12,300 in (10,000 cached), 450 out (200 reasoning)`."""
    cached = f" ({used.cached_input:,} cached)" if used.cached_input else ""
    reasoning = f" ({used.reasoning:,} reasoning)" if used.reasoning else ""
    return f"{used.input:,} in{cached}, {used.output:,} out{reasoning}"


def evidence_html(groups: Mapping[str, bool]) -> Markup:
    """Return which evidence groups the notes of a review touch."""
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
    """Return findings with what became of each."""
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
