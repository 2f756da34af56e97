"""The page of one run: does it need a person, its state, and its story.

The frame never changes, so that open, typed and scrolled things in it stay; its parts do.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import PurePosixPath

from msgspec.structs import replace

from .. import events
from ..core.text import age, duration, plural, short_line, twice_as_many
from ..events import FilesChanged, HintTaken
from ..pipeline.flow import Planned, PlannedCheck, Stage, StageKind
from ..pipeline.requests import LARGEST_HINT
from ..pipeline.review import Findings
from ..runs.record import RunStatus, short_name
from ..runs.view import RunView, Turn
from ..settings.gates import When
from ..show.diff import counts_html
from ..show.markup import Child, Markup, joined, tag
from ..show.report_text import proof_words
from ..show.turn import badge as outcome_badge
from ..show.turn import findings_html, look_of, timeline
from .all_runs import RunStanding, standing_of
from .words import (
    ALL_RUNS,
    DOT,
    LOADING,
    Page,
    Part,
    RunOnPage,
    about,
    agent_badge,
    agent_path,
    at_work,
    badge,
    button,
    folded,
    form,
    moment,
    name,
    question_html,
    round_of,
    run_path,
    section,
    text_area,
    time_of,
    waits_words,
    way_back,
    with_code,
)

LONGEST_WHY = 240
LONGEST_WORD = 40
LONGEST_TASK = 20_000
LONGEST_LINE = 200
LONGEST_REASON = 2000
MOST_TOLD = 20
"""Warnings, or acts of people, that are shown: the last ones."""
PICTURE_SECONDS = 5.0
"""After which the picture of a live run is drawn anew."""
STOP_WORDS = (
    "Stop this run and end its agents? It is saved, and can be resumed later with new agents."
)
SKIP_WORDS = "Count the review that is under way as approved, without its verdict?"
GONE = "This run is not there any more: its folder was removed."
NOT_READABLE = "What is kept of this run cannot be read now."
DONE = tag("span", "✓", tag("span", " done", class_="hidden-words"), class_="done")
"""At the steps of the plan that this round has completed."""
LAST_SEEN = " Below is what was last seen of it."
FRAME = (
    way_back(ALL_RUNS),
    Part("run-top", tag("div", id="run-top")),
    # Exists before its text, so that a screen reader reads what is put into it.
    Part("need-area", tag("div", id="need-area", role="status")),
    # Without room for two columns, the turns come before the less important parts.
    Part(
        "frame",
        tag(
            "div",
            tag("div", id="side", class_="side"),
            tag("div", id="story", class_="story"),
            tag("div", id="more", class_="side side-more"),
            id="frame",
        ),
    ),
)

TURNS = Part(
    "turns-frame",
    tag(
        "section",
        tag("h2", "Turns ", tag("span", "newest first", class_="muted"), id="turns-title"),
        tag("ol", id="turns", class_="turns"),
        id="turns-frame",
        aria_labelledby="turns-title",
    ),
    "story",
)
NO_TURN = Part(
    "no-turn",
    tag("p", "No turn yet: its agents are being started.", id="no-turn", class_="none"),
    "turns-frame",
)


def one_run(page: RunOnPage, now: float) -> Page:
    run = page.run
    stand = standing_of(run, now)
    changed = {event.sequence: event for event in run.changes}
    turns = (turn_part(run.id, turn, changed.get(turn.sequence)) for turn in reversed(run.turns))
    parts = (
        *FRAME,
        Part("head", _head(page, stand, now), "run-top"),
        Part("need", _need(page, stand), "need-area"),
        *_steering(run),
        *_agents(page),
        *_facts(page, now),
        *_findings(page.findings),
        TURNS,
        *(turns if run.turns else [NO_TURN]),
    )
    return Page(f"{stand.words}: {short_line(run.task_line, 80)}", parts)


def with_notice(page: Page, words: str) -> Page:
    seen = [part for part in page.parts if part.id != "notice"]
    still = LAST_SEEN if seen else ""
    html = tag("p", words, still, id="notice", class_="card card-bad", role="alert")
    return Page(page.title, (*seen[:1], Part("notice", html), *seen[1:]))


def _head(page: RunOnPage, stand: RunStanding, now: float) -> Markup:
    run = page.run
    badges = [badge(stand.tone, stand.words)]
    if run.status is RunStatus.PASS and run.proof_check is not None:
        is_proven = run.proof_check.proven
        words = "proven" if is_proven else "not proven"
        badges.append(badge("good" if is_proven else "warn", words))
    if run.is_pausing:
        badges.append(badge("warn", "pauses after this turn"))
    place = run.project or run.wd
    facts = about(
        tag("span", name(PurePosixPath(place).name or place), title=place),
        f"flow {name(run.flow)}" if run.flow else None,
        round_of(run),
        at_work(run) if run.is_live and run.role and not run.asking else None,
        time_of(run, now),
        f"on {name(run.machine)}" if run.machine else None,
        page.tokens,
        tag("code", run.id),
    )
    task = run.task.strip()[:LONGEST_TASK]
    is_long = bool(task) and task != run.task_line
    return tag(
        "header",
        tag("h1", short_line(run.task_line, LONGEST_LINE) or "(no task)"),
        tag("p", joined(badges, " "), class_="badges"),
        facts,
        folded("The whole task", tag("pre", task, class_="task"), "task") if is_long else None,
        id="head",
        class_="run-head",
    )


def _need(page: RunOnPage, stand: RunStanding) -> Markup:
    told = [*_needs(page, stand)]
    tone = "quiet" if not stand.why else "needs" if stand.tone == "needs" else "bad"
    return tag("div", *told, id="need", class_=f"card card-{tone}", hidden=not told)


def _needs(page: RunOnPage, stand: RunStanding) -> Iterator[Markup]:
    run, short = page.run, short_name(page.run.id)
    if run.asking and run.is_live:
        yield tag("h2", f"The {name(run.asking)} asks you")
        if page.asked is not None:
            yield question_html(page.asked, run.terminals.get(run.asking, ""))
        elif run.question:
            yield tag("p", run.question[:LONGEST_REASON], class_="question")
        yield tag("p", tag("a", "See its screen", href=agent_path(run.id, run.asking)))
    elif stand.why:
        yield tag("h2", "It needs you")
        yield tag("p", stand.why)
        if stand.words == "not converging":
            yield tag("p", "Give it a hint, or stop it.", class_="muted")
    if run.reason and not run.is_live:
        yield tag("p", with_code(run.reason[:LONGEST_REASON]), class_="reason")
    if run.status is RunStatus.FAIL:
        if run.stalled:
            yield tag("p", f"It did not converge: {run.stalled}")
        command = f"cao resume {short} --max-rounds {twice_as_many(run.round)}"
        yield tag("p", "It can go on with more rounds: ", tag("code", command))
        report = f"cao report {short} --format html"
        yield tag("p", "All of it as one file: ", tag("code", report))
        links = [tag("a", name(role), href=agent_path(run.id, role)) for role in run.providers]
        if links:
            yield tag("p", "What its agents showed, from the start: ", joined(links, ", "))
    if waits := waits_words(run, *(f"cao {do} {short}" for do in ("apply", "pr", "discard"))):
        yield waits


def _steering(run: RunView) -> Iterator[Part]:
    is_paused = run.status is RunStatus.PAUSED
    path = f"/runs/{run.id}"
    buttons = []
    if is_paused or run.is_unfinished:
        buttons.append(button("Resume", "button-main", data_post=f"{path}/resume"))
    if run.is_live and run.is_pausing:
        buttons.append(button("Do not pause", "button-main", data_post=f"{path}/resume"))
    elif run.is_live and not is_paused:
        buttons.append(button("Pause after this turn", data_post=f"{path}/pause"))
    last = run.turns[-1] if run.turns else None
    if run.is_live and last is not None and last.role in run.reviewers and last.ended is None:
        # Bound to this review: if it is over, nothing is skipped.
        meant = json.dumps({"role": last.role, "round": last.round, "cycle": last.cycle})
        skip = f"{path}/skip"
        buttons.append(
            button("Skip this review", data_post=skip, data_body=meant, data_confirm=SKIP_WORDS)
        )
    if run.is_live:
        stop = f"{path}/stop"
        buttons.append(
            button("Stop the run", "button-bad", data_post=stop, data_confirm=STOP_WORDS)
        )
    if not buttons:
        return
    yield Part("steer", section("steer", "Steer it"), "side")
    row = tag("div", *buttons, class_="buttons")
    yield Part("buttons", tag("div", row, id="buttons"), "steer")
    if run.is_live:
        # Parts of their own: text typed in them stays when the buttons change.
        yield Part("hint", folded("Give a hint", _hint_form(run), "hint", "fold"), "steer")
        yield Part(
            "rounds", folded("Change its rounds", _rounds_form(run), "rounds", "fold"), "steer"
        )


def _hint_form(run: RunView) -> Markup:
    options = (tag("option", name(role), value=role) for role in sorted(run.providers))
    nobody = tag("option", "whoever is next", value="")
    return form(
        f"/runs/{run.id}/hint",
        "Send the hint",
        tag("label", "Hint", for_="hint-text"),
        text_area("hint", "text", maxlength=LARGEST_HINT),
        tag("p", "The agent gets it with its next prompt.", id="hint-note", class_="muted"),
        tag("label", "For", for_="hint-role"),
        tag("select", nobody, *options, id="hint-role", name="role"),
    )


def _rounds_form(run: RunView) -> Markup:
    box = tag(
        "input",
        id="rounds-value",
        name="value",
        type="number",
        min=max(run.round, 1),
        value=run.max_rounds or None,
        required=True,
    )
    return form(
        f"/runs/{run.id}/set",
        "Set",
        tag("label", "Rounds at most", for_="rounds-value"),
        box,
        tag("input", type="hidden", name="name", value="max_rounds"),
        kind="form form-row",
    )


def _agents(page: RunOnPage) -> Iterator[Part]:
    run = page.run
    if not run.providers:
        return
    frame = section("agents", "Agents", tag("ul", id="agents-list", class_="agents"))
    yield Part("agents", frame, "more")
    for number, (role, provider) in enumerate(run.providers.items()):
        terminal = page.terminals.get(role)
        if terminal is not None:
            status = agent_badge(terminal)
        else:
            is_elsewhere = run.is_live and role in run.terminals
            status = badge("plain", "on another server" if is_elsewhere else "ended")
        action = terminal.action if terminal is not None and terminal.alive else ""
        html = tag(
            "li",
            tag("a", name(role), href=agent_path(run.id, role)),
            " ",
            tag("span", name(provider), class_="muted"),
            status,
            tag("span", short_line(action, LONGEST_LINE), class_="action") if action else None,
            # A name may be anything.
            id=f"agent-{number}",
            class_="agent agent-now" if run.is_live and role == run.role else "agent",
        )
        yield Part(f"agent-{number}", html, "agents-list")


def _facts(page: RunOnPage, now: float) -> Iterator[Part]:
    run = page.run
    if run.warnings:
        title = joined(("Warnings ", tag("span", str(len(run.warnings)), class_="count")))
        lines = _lines([warning[:LONGEST_REASON] for warning in run.warnings])
        yield Part("warnings", folded(title, lines, "warnings", "card"), "more")
    plan = _plan(run, page.course) if page.course else tag("div", id="plan", hidden=True)
    yield Part("plan", plan, "more")
    if proof := proof_words(run):
        html = section("proof", "Proof", _lines([proof[:LONGEST_REASON]]))
        yield Part("proof", html, "story")
    if run.acts:
        told = []
        for act in run.acts:
            words = act.words
            if isinstance(act, HintTaken) and "\n" in act.text.strip():
                # A comment on code has several lines.
                words = f"hint for {act.role or 'the next prompt'}:\n{act.text.strip()}\n"
            when = tag("span", moment(act.at, f"{age(now - act.at)} ago"), class_="muted")
            told.append(joined((words[:LONGEST_REASON], when), " "))
        yield Part("acts", section("acts", "What people did", _lines(told)), "more")
    yield Part("picture", _picture(run, now), "story")


def _plan(run: RunView, course: Sequence[Planned]) -> Markup:
    reached, passed = _reached(run.turns, course), run.status is RunStatus.PASS
    steps = []
    for place, step in enumerate(course):
        is_present = run.is_live and place == reached
        steps.append(
            tag(
                "li",
                tag("span", name(step.name), class_="stage"),
                tag("span", _who(step), class_="muted"),
                tag("span", "now", class_="now") if is_present else None,
                DONE if passed or place < reached else None,
                aria_current="step" if is_present else None,
            )
        )
    last = tag("li", tag("span", "PASS", class_="stage"), DONE if passed else None)
    first = next(step.name for step in course if isinstance(step, Stage))
    note = tag("p", f"A FAIL starts the next round at {name(first)}.", class_="muted")
    return section("plan", "Plan", tag("ol", *steps, last, class_="plan"), note)


def _reached(turns: Sequence[Turn], course: Sequence[Planned]) -> int:
    def is_of(turn: Turn, step: Planned) -> bool:
        match step:
            case PlannedCheck():
                return turn.is_gate and turn.role == step.name
            case Stage(kind=StageKind.GATE):
                return turn.is_gate
        return turn.role in step.roles

    reached = -1
    for turn in turns:
        # Of the places of a gate, the next one.
        places = range(reached + 1 if turn.is_gate else 0, len(course))
        if turn.round == turns[-1].round:
            reached = next((one for one in places if is_of(turn, course[one])), reached)
    return reached


def _who(step: Planned) -> str:
    match step:
        case PlannedCheck(name=events.PROOF):
            return "do new tests fail without the change?"
        case PlannedCheck(when=When.BASE):
            return "your command, before the first turn"
        case PlannedCheck() | Stage(kind=StageKind.GATE):
            return "your command says PASS or FAIL"
        case Stage(kind=StageKind.TEST):
            return f"{name(step.author)} says PASS or FAIL"
    return " ⇄ ".join(map(name, step.roles))


def _picture(run: RunView, now: float) -> Markup:
    if not run.turns:
        return section("picture", "Timeline", tag("p", "No turn yet.", class_="none"))
    last = run.turns[-1]
    if not run.is_live:
        return _drawn(run.turns, run.ended or last.ended or last.began)
    return _drawn(run.turns, max(now - now % PICTURE_SECONDS, last.began))


@lru_cache(maxsize=64)
def _drawn(turns: tuple[Turn, ...], now: float) -> Markup:
    return section("picture", "Timeline", timeline(turns, now))


def _findings(findings: Mapping[str, Findings]) -> Iterator[Part]:
    found = {reviewer: ledger for reviewer, ledger in findings.items() if ledger.tracked}
    if not found:
        return
    lists: list[Child] = []
    for number, (reviewer, ledger) in enumerate(found.items()):
        closed = [entry for entry in ledger.tracked if not entry.is_open]
        lists.append(tag("h3", name(reviewer)))
        if ledger.open:
            lists.append(findings_html(ledger.open))
        if closed:
            answered = f"{len(closed)} answered"
            lists.append(folded(answered, findings_html(closed), f"answered-{number}"))
    count = sum(len(ledger.open) for ledger in found.values())
    heading = tag("h2", "Findings ", tag("span", f"{count} open", class_="count"))
    frame = tag("section", heading, *lists, id="findings", class_="card", aria_label="Findings")
    yield Part("findings", frame, "story")


def _lines(lines: Sequence[Child]) -> Markup:
    return tag("ul", *(tag("li", line) for line in lines[-MOST_TOLD:]), class_="told")


@lru_cache(maxsize=4096)
def turn_part(run: str, turn: Turn, changed: FilesChanged | None) -> Part:
    number = f"turn-{turn.sequence}"
    look = look_of(turn)
    facts: list[Child] = [turn.place, "command" if turn.is_gate else name(turn.provider) or None]
    if changed is not None and not changed.allowed:
        words = f"changed {plural(changed.count, 'file')}, not its task"
        facts.append(tag("span", words, class_="warn"))
    elif changed is not None:
        counts = counts_html(changed.added, changed.removed)
        facts.append(joined((f"{plural(changed.count, 'file')} ", counts)))
    if turn.ended is not None:
        facts.append(moment(turn.ended, duration(turn.seconds)))
    quoted = f"“{turn.reason}”" if turn.reason else ""
    why = short_line(" ".join(filter(None, (turn.why, quoted))), LONGEST_WHY)
    line = tag(
        "span",
        tag("span", str(turn.sequence), class_="turn-number"),
        tag("h3", name(turn.role)),
        outcome_badge(replace(look, words=short_line(look.words, LONGEST_WORD))),
        tag("span", joined((fact for fact in facts if fact), DOT), class_="about"),
        tag("span", why, class_="turn-why") if why else None,
        class_="turn-words",
    )
    # An opened turn is fetched again when it has ended.
    step = "?open" if turn.ended is None else ""
    shown = tag(
        "details",
        tag("summary", line, class_="turn-line"),
        tag("div", LOADING, data_into=True, class_="turn-body"),
        data_fragment=f"{run_path(run)}/turns/{turn.sequence}{step}",
    )
    return Part(number, tag("li", shown, id=number, class_="turn-row"), "turns")
