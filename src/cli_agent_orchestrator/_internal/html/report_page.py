"""A run as one HTML file that can be sent around: it needs no server, no script and no network.

Nothing in it is a link to elsewhere. Its own rules (CSP) allow nothing but its stylesheet.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from cli_agent_orchestrator._internal.html.diff import counts_html, patches_html, read_patch
from cli_agent_orchestrator._internal.html.long_text import long_text
from cli_agent_orchestrator._internal.html.markup import Markup, joined, tag, text
from cli_agent_orchestrator._internal.html.outcome import badge, look_of
from cli_agent_orchestrator._internal.html.screen import color_rules, screen_lines
from cli_agent_orchestrator._internal.html.stylesheets import BASE, REPORT, stylesheet
from cli_agent_orchestrator._internal.html.timeline import timeline
from cli_agent_orchestrator._internal.html.turn import (
    facts_html,
    findings_html,
    tokens_words,
    turn_html,
)
from cli_agent_orchestrator._internal.pipeline.proof import BEFORE_TITLE
from cli_agent_orchestrator._internal.pipeline.state import FinalStatus
from cli_agent_orchestrator._internal.runs.records.journal import COMMAND
from cli_agent_orchestrator._internal.runs.reports.durations import duration
from cli_agent_orchestrator._internal.runs.reports.in_full import RunInFull
from cli_agent_orchestrator._internal.runs.reports.report import Report
from cli_agent_orchestrator._internal.runs.reports.story import TurnDetail
from cli_agent_orchestrator._internal.usage.tokens import NONE_USED

FRAME = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{rules}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="robots" content="noindex">
<title>{title}</title>
<style>{css}</style>
</head>
<body>
{body}
</body>
</html>
"""
RULES = "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'"
CIRCLED = "Where it did not converge for a while"
KINDS = {FinalStatus.PASS: "good", FinalStatus.FAIL: "bad", FinalStatus.RUNNING: "now"}


@dataclass(frozen=True, slots=True)
class PageWords:
    """What a report says in sentences, whatever kind of page it is on."""

    title: str
    facts: Sequence[tuple[str, str]]
    evidence_title: str
    setbacks: Mapping[str, str]
    """By where it was said."""
    notes: Mapping[str, str]
    """What reviewers last noted, by role."""
    open_notes: Mapping[str, str]
    acts: Sequence[str]
    """What people did, each with its time."""
    reproduce: str
    """Commands that begin the same run elsewhere."""
    made: str
    """By what the report was made, and when."""


@dataclass(frozen=True, slots=True)
class _Section:
    """A part of the page that has a heading."""

    id: str
    title: str
    content: Sequence[Markup]


def report_page(
    found: Report,
    full: RunInFull,
    words: PageWords,
    steps: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Return a report as a whole HTML file.

    `steps` are screens with their escapes, by role, if the run was recorded.
    """
    sections = [one for one in _sections(found, full, words, steps or {}) if any(one.content)]
    body = joined(
        [
            _head(found, full, words, sections),
            tag("main", *map(_section_html, sections)),
            tag("footer", tag("p", words.made), class_="report-foot"),
        ],
        "\n",
    )
    css = f"\n{stylesheet(BASE)}{stylesheet(REPORT)}{color_rules() if steps else ''}"
    digest = b64encode(sha256(css.encode()).digest()).decode()
    title = text(f"{words.title}: {full.story.summary.task}")
    return FRAME.format(rules=RULES.format(digest), title=title, css=css, body=body)


def _head(found: Report, full: RunInFull, words: PageWords, sections: Sequence[_Section]) -> Markup:
    places = (tag("li", tag("a", one.title, href=f"#{one.id}")) for one in sections)
    return tag(
        "header",
        tag("p", f"Report of the run {full.story.summary.id}", class_="report-kind"),
        tag(
            "div",
            tag("h1", words.title),
            tag("p", found.task, class_="report-task"),
            class_=f"verdict verdict-{KINDS[found.status]}",
        ),
        facts_html(words.facts),
        tag("nav", tag("ul", *places), class_="report-nav", aria_label="Parts of the report"),
        class_="report-head",
    )


def _section_html(section: _Section) -> Markup:
    heading = tag("h2", section.title)
    return tag("section", heading, *section.content, id=section.id)


def _sections(
    found: Report, full: RunInFull, words: PageWords, steps: Mapping[str, Sequence[str]]
) -> Iterator[_Section]:
    story = full.story
    yield _Section("look-first", "Look first", list(_alerts(found)))
    yield _Section("course", "Course", list(_course(found, full, words)))
    yield _Section("proof", "Proof and evidence", list(_proof(found, words)))
    yield _Section("findings", "Findings", list(_findings(full, words)))
    yield _Section("changes", "Changes", list(_changes(full)))
    yield _Section("turns", "Turns", [_turns(full.details)] if full.details else [])
    yield _Section("screens", "Screens", [_steps_html(*pair) for pair in steps.items()])
    yield _Section("effort", "Time and tokens", list(_effort(full.details)))
    yield _Section("people", "What people did", [_list(words.acts)] if words.acts else [])
    task = [long_text(story.record.task)] if story.record.task.strip() else []
    yield _Section("task", "The whole task", task)
    yield _Section("reproduce", "How to reproduce it", [tag("pre", words.reproduce, class_="text")])


def _alerts(found: Report) -> Iterator[Markup]:
    """Yield what should be read before anything else is believed."""
    for line in found.deeds.repository:
        yield tag("p", line, class_="notice notice-bad")
    if found.status is not FinalStatus.PASS:
        for line in found.deeds.circles:
            yield tag("p", f"Not converging: {line}", class_="notice notice-warn")
    if found.reason:
        yield tag("p", f"Stopped: {found.reason}", class_="notice notice-warn")


def _course(found: Report, full: RunInFull, words: PageWords) -> Iterator[Markup]:
    turns = full.story.turns
    if turns:
        last = max(turn.ended or turn.began for turn in turns)
        yield timeline(turns, full.story.summary.ended or last)
    if words.setbacks:
        said = (f"{where}: {why}" for where, why in words.setbacks.items())
        yield joined([tag("h3", "Why it took more than one try"), _list(list(said))])
    if found.deeds.circles and found.status is FinalStatus.PASS:
        yield joined([tag("h3", CIRCLED), _list(found.deeds.circles)])


def _proof(found: Report, words: PageWords) -> Iterator[Markup]:
    deeds = found.deeds
    if deeds.proof:
        yield tag("p", deeds.proof, class_="proof-words")
    if deeds.suspicions:
        yield _list(deeds.suspicions)
    if deeds.patch:
        yield patches_html(read_patch(deeds.patch))
    if deeds.before:
        yield joined([tag("p", BEFORE_TITLE), _list(deeds.before)])
    if found.evidence:
        yield joined([tag("h3", words.evidence_title), long_text(found.evidence)])


def _findings(full: RunInFull, words: PageWords) -> Iterator[Markup]:
    for role, ledger in full.story.findings.items():
        if ledger.tracked:
            yield joined([tag("h3", f"Of {role}"), findings_html(ledger.tracked)])
    for role, notes in words.notes.items():
        yield joined([tag("h3", f"Last notes of {role}"), long_text(notes)])
    for where, notes in words.open_notes.items():
        yield joined([tag("h3", f"Still open after the last cycle: {where}"), long_text(notes)])


def _changes(full: RunInFull) -> Iterator[Markup]:
    if full.patch.strip():
        files = read_patch(full.patch)
        counted = f"{len(files)} file{'' if len(files) == 1 else 's'} "
        added, removed = sum(one.added for one in files), sum(one.removed for one in files)
        yield tag("p", counted, counts_html(added, removed))
        yield patches_html(files)


def _turns(details: Sequence[TurnDetail]) -> Markup:
    return tag("ul", *(tag("li", _turn_item(one)) for one in details), class_="turns")


def _turn_item(detail: TurnDetail) -> Markup:
    turn = detail.turn
    cycle = f", cycle {turn.cycle}" if turn.reviewed else ""
    summary = tag(
        "summary",
        tag("h3", f"{turn.sequence}. {turn.role}"),
        badge(look_of(turn)),
        tag("span", f"round {turn.round}{cycle} · {duration(turn.seconds)}", class_="muted"),
    )
    whole = turn_html(detail)
    return tag("details", summary, whole, class_="turn-item", id=f"turn-{turn.sequence}")


def _steps_html(role: str, screens: Sequence[str]) -> Markup:
    figures = (
        tag(
            "figure",
            tag("figcaption", f"Step {number} of {len(screens)}"),
            tag("pre", joined(screen_lines(screen), "\n"), class_="screen"),
        )
        for number, screen in enumerate(screens, 1)
    )
    return tag("details", tag("summary", role), *figures, class_="turn-fold steps")


def _effort(details: Sequence[TurnDetail]) -> Iterator[Markup]:
    """Yield how long each role worked, and the tokens it took as far as they are known."""
    if not details:
        return
    roles = dict.fromkeys(one.turn.role for one in details)
    groups = [(role, [one for one in details if one.turn.role == role]) for role in roles]
    rows = [_effort_row(role, own) for role, own in (*groups, ("all", list(details)))]
    head = tag("tr", *(tag("th", name, scope="col") for name in EFFORT))
    yield tag("table", tag("thead", head), tag("tbody", *rows), class_="table")


EFFORT = ("Role", "Agent", "Turns", "Worked", "Tokens")


def _effort_row(role: str, own: Sequence[TurnDetail]) -> Markup:
    agents = dict.fromkeys(one.turn.provider for one in own if one.turn.provider != COMMAND)
    used = [one.usage for one in own if one.usage is not None]
    asked = [one for one in own if one.turn.provider != COMMAND]
    known = tokens_words(sum(used, NONE_USED)) if used else "not known" if asked else ""
    partly = f" (of {len(used)} of {len(asked)} turns)" if 0 < len(used) < len(asked) else ""
    cells = (
        role,
        "" if role == "all" else ", ".join(agents) or "command",
        str(len(own)),
        duration(sum(one.turn.seconds for one in own)),
        f"{known}{partly}",
    )
    pairs = zip(EFFORT, cells, strict=True)
    return tag("tr", *(tag("td", cell, data_name=name) for name, cell in pairs))


def _list(lines: Sequence[str]) -> Markup:
    return tag("ul", *(tag("li", line) for line in lines), class_="plain-list")
