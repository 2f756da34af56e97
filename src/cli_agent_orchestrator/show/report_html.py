"""A report as one HTML file that needs nothing else."""

import shlex
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace

from ..core.secrets import masked, masked_screen
from ..core.text import duration, plural
from ..proof.verdict import BEFORE_TITLE
from ..runs.record import RunRecord, RunStatus
from ..runs.report import Report, TurnDetail
from ..settings.table import PREFIX
from .diff import counts_html, patches_html, read_patch
from .markup import Markup, color_rules, joined, screen_lines, tag, text
from .report_text import (
    STALLED,
    evidence_title,
    facts_of,
    grouped,
    last_notes,
    local_time,
    proof_words,
    title_of,
)
from .turn import (
    FIRST_LINES,
    LAST_LINES,
    LONGEST_LINE,
    badge,
    cut_text,
    facts_html,
    findings_html,
    long_text,
    look_of,
    timeline,
    tokens_of_all,
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
TONES = {RunStatus.PASS: "good", RunStatus.FAIL: "bad"}
NOTE = 100
"""Room for the words about what is cut: what was shortened is not cut again."""
ONLY_HERE = ("WD", "STATE_FILE", "API", "PROMPT_FILE")


def report_page(found: Report, made: str, steps: Mapping[str, Sequence[str]]) -> str:
    """Return a full report as a whole HTML file.

    `made` says what made it, and when; `steps` are recorded screens with their escapes, by role.
    """
    run = found.run
    acts = [f"{local_time(act.at)}: {act.words}" for act in run.acts]
    titled: tuple[tuple[str, str, Sequence[Markup]], ...] = (
        ("look-first", "Look first", [*_alerts(found)]),
        ("course", "Course", [*_course(found)]),
        ("proof", "Proof and evidence", [*_proof(found)]),
        ("findings", "Findings", [*_findings(found)]),
        ("changes", "Changes", [*_changes(found.patch)]),
        ("turns", "Turns", [_turns(found.details)] if found.details else []),
        ("screens", "Screens", [_steps_html(*pair) for pair in steps.items()]),
        ("effort", "Time and tokens", [_effort(found.details)] if found.details else []),
        ("people", "What people did", [_list(acts)] if acts else []),
        ("task", "The whole task", [long_text(run.task)] if run.task.strip() else []),
        ("reproduce", "How to reproduce it", [tag("pre", reproduction(run), class_="text")]),
    )
    sections = [one for one in titled if one[2]]
    title = title_of(found)
    told = ("Folder", "Branch", "Agents", "Time")
    facts = [(name, words) for name, words in facts_of(found) if name in told]
    links = (tag("li", tag("a", name, href=f"#{place}")) for place, name, _ in sections)
    head = tag(
        "header",
        tag("p", f"Report of the run {run.id}", class_="report-kind"),
        tag(
            "div",
            tag("h1", title),
            tag("p", run.task_line, class_="report-task"),
            class_=f"verdict verdict-{TONES.get(run.status, 'now')}",
        ),
        facts_html(facts),
        tag("nav", tag("ul", *links), class_="report-nav", aria_label="Parts of the report"),
        class_="report-head",
    )
    main = (tag("section", tag("h2", name), *inner, id=place) for place, name, inner in sections)
    foot = tag("footer", tag("p", made), class_="report-foot")
    body = joined([head, tag("main", *main), foot], "\n")
    sheets = (Path(__file__).with_name(f"{name}.css") for name in ("base", "report"))
    css = "\n" + "".join(sheet.read_text(encoding="utf-8") for sheet in sheets)
    css += color_rules() if steps else ""
    digest = b64encode(sha256(css.encode()).digest()).decode()
    named = text(f"{title}: {run.task_line}")
    return FRAME.format(rules=RULES.format(digest), title=named, css=css, body=body)


def _alerts(found: Report) -> Iterator[Markup]:
    run = found.run
    for line in run.repository:
        yield tag("p", line, class_="notice notice-bad")
    if run.status is not RunStatus.PASS:
        for line in run.stalls:
            yield tag("p", f"Not converging: {line}", class_="notice notice-warn")
    if run.reason and not run.status.is_verdict:
        yield tag("p", f"Stopped: {run.reason}", class_="notice notice-warn")


def _course(found: Report) -> Iterator[Markup]:
    run = found.run
    if run.turns:
        last = max(turn.ended or turn.began for turn in run.turns)
        yield timeline(run.turns, run.ended or last)
    if found.setbacks:
        said = [f"{where}: {why}" for where, why in found.setbacks.items()]
        yield joined([tag("h3", "Why it took more than one try"), _list(said)])
    if run.stalls and run.status is RunStatus.PASS:
        yield joined([tag("h3", STALLED), _list(run.stalls)])


def _proof(found: Report) -> Iterator[Markup]:
    if proof := proof_words(found.run):
        yield tag("p", proof, class_="proof-words")
    if found.suspicions:
        yield _list(found.suspicions)
    if found.proof_patch:
        yield patches_html(read_patch(found.proof_patch))
    if found.before:
        yield joined([tag("p", BEFORE_TITLE), _list(found.before)])
    if found.evidence:
        yield joined([tag("h3", evidence_title(found.gate)), long_text(found.evidence)])


def _findings(found: Report) -> Iterator[Markup]:
    for role, ledger in found.findings.items():
        if ledger.tracked:
            yield joined([tag("h3", f"Of {role}"), findings_html(ledger.tracked)])
    for role, notes in last_notes(found).items():
        yield joined([tag("h3", f"Last notes of {role}"), long_text(notes)])
    for where, notes in grouped(found.open_notes).items():
        yield joined([tag("h3", f"Still open after the last cycle: {where}"), long_text(notes)])


def _changes(patch: str) -> Iterator[Markup]:
    if patch.strip():
        files = read_patch(patch)
        added, removed = (sum(one.count(mark) for one in files) for mark in "+-")
        yield tag("p", f"{plural(len(files), 'file')} ", counts_html(added, removed))
        yield patches_html(files)


def _turns(details: Sequence[TurnDetail]) -> Markup:
    items = []
    for detail in details:
        turn = detail.turn
        summary = tag(
            "summary",
            tag("h3", f"{turn.sequence}. {turn.role}"),
            badge(look_of(turn)),
            tag("span", f"{turn.place} · {duration(turn.seconds)}", class_="muted"),
        )
        whole = turn_html(detail)
        number = f"turn-{turn.sequence}"
        items.append(tag("li", tag("details", summary, whole, class_="turn-item", id=number)))
    return tag("ul", *items, class_="turns")


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


def _effort(details: Sequence[TurnDetail]) -> Markup:
    roles = dict.fromkeys(one.turn.role for one in details)
    groups = {role: [one for one in details if one.turn.role == role] for role in roles}
    rows = []
    for role, own in (*groups.items(), ("all", details)):
        asked = [one for one in own if not one.turn.is_gate]
        agents = dict.fromkeys(one.turn.provider for one in asked)
        cells = {
            "Role": role,
            "Agent": "" if role == "all" else ", ".join(agents) or "command",
            "Turns": str(len(own)),
            "Worked": duration(sum(one.turn.seconds for one in own)),
            "Tokens": tokens_of_all([one.usage for one in asked]),
        }
        rows.append(tag("tr", *(tag("td", cell, data_name=name) for name, cell in cells.items())))
    head = tag("tr", *(tag("th", name, scope="col") for name in cells))
    return tag("table", tag("thead", head), tag("tbody", *rows), class_="table")


def _list(lines: Sequence[str]) -> Markup:
    return tag("ul", *(tag("li", line) for line in lines), class_="plain-list")


def shortened(found: Report, clean: Callable[[str], str]) -> Report:
    """Return a full report whose long texts are cut, and are cleaned as a whole before that."""

    def cut(text: str, first: int = FIRST_LINES, last: int = LAST_LINES) -> str:
        return clean(cut_text(masked(text), first, last, LONGEST_LINE - NOTE))

    details = tuple(
        replace(
            detail,
            reply=detail.reply and cut(detail.reply, 150, 50),
            prompt=detail.prompt and cut(detail.prompt, 60, 20),
            screen=detail.screen and cut(masked_screen(detail.screen), 30, 30),
        )
        for detail in found.details
    )
    return replace(found, run=replace(found.run, task=cut(found.run.task)), details=details)


def reproduction(record: RunRecord) -> str:
    given = [
        f"{PREFIX}{name}={shlex.quote(saved.value)}"
        for name, saved in sorted(record.settings.items())
        if saved.value and saved.source != "default" and name not in ONLY_HERE
    ]
    at = f"git checkout {record.base[:12]}\n" if record.base else ""
    return f"{at}# task.md holds the whole task\n" + " \\\n".join([*given, "cao run task.md"])
