"""A report as an HTML page: what it says, without what belongs to this machine or is secret."""

import shlex
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from ..core.secrets import before_secret, masked_over_lines, masked_screen
from ..core.text import duration
from ..pipeline.state import FinalStatus
from ..proof.verdict import BEFORE_TITLE
from ..runs.record import RunRecord, SavedSetting
from ..runs.report import Report
from ..runs.story import RunInFull, TurnDetail
from ..runs.turns import COMMAND
from ..settings.table import PREFIX
from ..usage.tokens import NONE_USED
from .diff import counts_html, patches_html, read_patch
from .markup import Markup, joined, tag, text
from .report_words import (
    evidence_title,
    facts_of,
    grouped,
    in_each_text,
    last_notes,
    local_time,
    title_of,
)
from .screen import BASE, REPORT, color_rules, screen_lines, stylesheet
from .timeline import badge, look_of, timeline
from .turn import (
    FIRST_LINES,
    LAST_LINES,
    CutText,
    cut_text,
    facts_html,
    findings_html,
    long_text,
    tokens_words,
    turn_html,
)

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


REPLY_LINES = (150, 50)
PROMPT_LINES = (60, 20)
SCREEN_LINES = (30, 30)
"""Of each turn: the first and the last that are shown."""
TOLD = ("Folder", "Branch", "Agents", "Time")
"""Facts that mean something to whoever does not have the run."""
ONLY_HERE = ("WD", "STATE_FILE", "API", "PROMPT_FILE")
"""Settings that say nothing elsewhere."""


def html_page(
    found: Report,
    full: RunInFull,
    home: Path,
    made: str,
    steps: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Return the page of a report and a run that are for others already."""
    words = PageWords(
        title=title_of(found),
        facts=[(fact.name, fact.text) for fact in facts_of(found, home) if fact.name in TOLD],
        evidence_title=evidence_title(found.gate),
        setbacks=found.setbacks,
        notes=last_notes(found),
        open_notes=grouped(found.open_notes),
        acts=[f"{local_time(act.at)}: {act.text}" for act in found.acts],
        reproduce=reproduction(full.story.record),
        made=made,
    )
    return report_page(found, full, words, steps)


def run_for_others(full: RunInFull, clean: Callable[[str], str]) -> RunInFull:
    """Return a run for a page that is sent around: long texts are cut, and all are cleaned."""

    def cut(text: str, lines: tuple[int, int] = (FIRST_LINES, LAST_LINES)) -> str:
        whole = masked_over_lines(text)
        return CutText(clean(cut_text(whole, *lines, place=before_secret)))

    def shortened(detail: TurnDetail) -> TurnDetail:
        return replace(
            detail,
            reply=detail.reply and cut(detail.reply, REPLY_LINES),
            prompt=detail.prompt and cut(detail.prompt, PROMPT_LINES),
            screen=detail.screen and cut(masked_screen(detail.screen), SCREEN_LINES),
        )

    record = replace(full.story.record, task=cut(full.story.record.task))
    details = tuple(map(shortened, full.details))
    shown = replace(full, story=replace(full.story, record=record), details=details)
    return in_each_text(shown, clean)


def reproduction(record: RunRecord) -> str:
    """Return the commands that begin the same run elsewhere."""
    given = [
        f"{PREFIX}{name}={shlex.quote(saved.value)}"
        for name, saved in sorted(record.settings.items())
        if _counts(name, saved)
    ]
    at = f"git checkout {record.base[:12]}\n" if record.base else ""
    lines = [*given, "cao run task.md"]
    return f"{at}# task.md holds the whole task\n" + " \\\n".join(lines)


def _counts(name: str, saved: SavedSetting) -> bool:
    return bool(saved.value) and saved.source != "default" and name not in ONLY_HERE
