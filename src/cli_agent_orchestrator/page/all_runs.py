"""The page of all runs: first those that need a person, then those at work, then the ended."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import PurePosixPath

from msgspec import Struct

from ..core.models import DRY_RUN, is_dry
from ..core.secrets import masked
from ..core.text import plural, short_line
from ..runs.record import RunStatus, short_name
from ..runs.view import RunView
from ..show.markup import Markup, tag
from .words import (
    HOME,
    NEW_RUN,
    Page,
    Part,
    RunOnPage,
    about,
    agent_path,
    at_work,
    badge,
    button,
    fetched,
    name,
    round_of,
    run_path,
    section,
    time_of,
    waits_words,
    with_code,
)

FORGOTTEN_SECONDS = 7 * 86400.0
"""After this a run that broke needs nobody any more."""


class RunGroup(StrEnum):
    NEEDS = "needs"
    WORKING = "working"
    DONE = "done"


class RunStanding(Struct, frozen=True):
    group: RunGroup
    words: str
    tone: str
    """needs, now, good, bad or plain: a key of MARKS."""
    why: str = ""
    rank: int = 0
    """The most urgent have the lowest."""


BROKEN = {
    RunStatus.INTERRUPTED: "Its process was killed. It is saved and can be resumed.",
    RunStatus.FAILED: "An error stopped it. It is saved and can be resumed.",
}
VERDICTS = {RunStatus.PASS: "good", RunStatus.FAIL: "bad"}


def standing_of(run: RunView, now: float) -> RunStanding:
    stalled = run.stalled[:1].upper() + run.stalled[1:]
    if run.is_live and run.asking:
        why = f"The {name(run.asking)} asks you something."
        return RunStanding(RunGroup.NEEDS, run.words, "needs", why)
    if run.is_live and run.status is RunStatus.PAUSED:
        why = f"It is paused and waits for you. {stalled}".strip()
        return RunStanding(RunGroup.NEEDS, run.words, "needs", why, 2)
    if run.is_live and stalled:
        return RunStanding(RunGroup.NEEDS, "not converging", "needs", stalled, 1)
    if run.is_live:
        return RunStanding(RunGroup.WORKING, run.words, "now")
    since = now - (run.ended or run.started)
    if run.is_unfinished and run.status in BROKEN and since < FORGOTTEN_SECONDS:
        return RunStanding(RunGroup.NEEDS, run.words, "bad", BROKEN[run.status], 3)
    is_played = run.status.is_verdict and is_dry(run.providers.values())
    words = f"{run.words} ({DRY_RUN})" if is_played else run.words
    return RunStanding(RunGroup.DONE, words, VERDICTS.get(run.status, "plain"))


MOST_DONE = 50
"""The others are fetched when they are opened."""
OLDER = f"{HOME}/older"
LONGEST_QUESTION = 200
LONGEST_ERROR = 300
TITLES = {RunGroup.NEEDS: "Needs you", RunGroup.WORKING: "Working", RunGroup.DONE: "Done"}
EMPTY = {RunGroup.NEEDS: "Nothing needs you.", RunGroup.WORKING: "Nothing is running."}
BEGIN = tag(
    "section",
    tag("h2", "No runs yet"),
    tag("p", "A run takes a task through analyst, reviews, programmer and tester to a PASS."),
    tag("p", tag("a", "Start one here", href=NEW_RUN), ", or in a project's folder:"),
    tag("pre", "cao run task.md", class_="command"),
    tag("p", "To see one without an account or a project of your own:"),
    tag("pre", "cao demo", class_="command"),
    id="begin",
    class_="card",
)
RESUMABLE_RANK = 2
"""From here on the person is to resume the run."""


def all_runs(rows: Sequence[RunOnPage], older: int, now: float) -> Page:
    new = tag("a", "New run", href=NEW_RUN, class_="button button-main")
    head = tag("header", tag("h1", "Runs"), new, id="runs", class_="page-head")
    if not rows:
        return Page("No runs yet", (Part("runs", head), Part("begin", BEGIN)))
    groups: dict[RunGroup, list[tuple[RunOnPage, RunStanding]]] = {group: [] for group in RunGroup}
    for row in rows:
        stand = standing_of(row.run, now)
        groups[stand.group].append((row, stand))
    groups[RunGroup.NEEDS].sort(key=lambda found: found[1].rank)
    parts = [Part("runs", head)]
    for group, found in groups.items():
        holder = f"{group}-rows"
        inner = tag("ul", id=holder, class_="rows")
        frame = section(group, f"{TITLES[group]} ", inner, kind=f"group group-{group}")
        count = tag("span", str(len(found)), id=f"{group}-count", class_="count")
        parts += [Part(group, frame), Part(f"{group}-count", count, f"{group}-title")]
        if not found and group in EMPTY:
            none = tag("p", EMPTY[group], id=f"{group}-none", class_="none")
            parts.append(Part(f"{group}-none", none, group))
        parts += [Part(f"run-{row.run.id}", _row(row, stand, now), holder) for row, stand in found]
    if older:
        more = fetched("older", f"Show {plural(older, 'older run')}", OLDER, None)
        parts.append(Part("older", more))
    needs, working = len(groups[RunGroup.NEEDS]), len(groups[RunGroup.WORKING])
    title = f"{plural(working, 'run')} working" if working else "Runs"
    if needs:
        title = f"({needs}) {plural(needs, 'run')} need{'s' if needs == 1 else ''} you"
    return Page(title, tuple(parts))


def older_runs(rows: Sequence[RunOnPage], now: float) -> Markup:
    found = (_row(row, standing_of(row.run, now), now) for row in rows)
    return tag("ul", *found, class_="rows")


def done_first(runs: Sequence[RunView], now: float) -> tuple[list[RunView], list[RunView]]:
    ended = [run for run in runs if standing_of(run, now).group is RunGroup.DONE]
    later = {run.id for run in ended[MOST_DONE:]}
    shown = [run for run in runs if run.id not in later]
    return shown, ended[MOST_DONE:]


def _row(row: RunOnPage, stand: RunStanding, now: float) -> Markup:
    run = row.run
    status = badge(stand.tone, stand.words)
    if run.is_unproven:
        status = badge("warn", f"{stand.words}, not proven")
    error = None
    if stand.why and not run.is_live and run.reason.strip():
        # The first line of the error: can resuming help?
        first = masked(run.reason.strip()).split("\n", 1)[0]
        error = tag("p", with_code(short_line(first, LONGEST_ERROR)), class_="muted")
    place = run.project or run.wd
    is_working = stand.group is RunGroup.WORKING
    facts = about(
        tag("span", name(PurePosixPath(place).name or place or "?"), title=place),
        name(run.flow),
        round_of(run),
        at_work(run) if run.role and is_working else None,
        time_of(run, now) if run.started else None,
        row.tokens,
        tag("code", short_name(run.id), title=run.id),
    )
    task = short_line(run.task_line, 200) or "(no task)"
    return tag(
        "li",
        status,
        tag("h3", tag("a", task, href=run_path(run.id))),
        _why(row, stand) if stand.why else None,
        error,
        waits_words(run, f"cao apply {short_name(run.id)}"),
        facts,
        id=f"run-{run.id}",
        class_=f"run run-{stand.tone}",
    )


def _why(row: RunOnPage, stand: RunStanding) -> Markup:
    run, words, way = row.run, stand.why, None
    if run.asking and run.is_live:
        asks = short_line(row.asked.text, LONGEST_QUESTION) if row.asked else ""
        words = f"The {name(run.asking)} asks: {asks}" if asks else words
        path = agent_path(run.id, run.asking)
        way = tag("a", "Answer", href=path, class_="button button-small")
    elif stand.rank >= RESUMABLE_RANK:
        way = button("Resume", "button-small", data_post=f"/runs/{run.id}/resume")
    return tag("p", words, " " if way else None, way, class_="why")
