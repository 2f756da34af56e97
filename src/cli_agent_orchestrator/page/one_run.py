"""The page of one run: does it need a person, how does it stand, and what has happened so far.

The frame never changes, so that what is open, typed or looked at in it stays; its parts do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import PurePosixPath

from ..core.models import Terminal
from ..core.text import duration, twice_as_many
from ..events import FilesChanged, HintTaken, PauseAsked, Steered, Unpaused, short_line
from ..pipeline.findings import Findings
from ..pipeline.flow import Planned, PlannedCheck, Stage, StageKind
from ..runs.record import RunStatus, short_name
from ..runs.registry import RunSummary
from ..runs.story import RunStory
from ..runs.turns import COMMAND, RunTurn
from ..settings import gates
from ..settings.gates import When
from ..show.diff import counts_html
from ..show.markup import Child, Markup, joined, tag
from ..show.timeline import badge, look_of, timeline
from ..show.turn import findings_html
from .all_runs import RunStanding, standing_of
from .asking import (
    AskedBy,
    RunControls,
    control_buttons,
    controls_of,
    hint_form,
    question_html,
    rounds_form,
)
from .context import Page, Part
from .words import (
    DOT,
    HOME,
    RunTokens,
    about,
    agent_badge,
    agent_path,
    ago,
    at_work,
    moment,
    name,
    run_path,
    run_tokens,
    span,
    took,
    with_code,
)
from .words import badge as badge_one_run

LONGEST_WHY = 240
LONGEST_WORD = 40


@lru_cache(maxsize=4096)
def turn_part(run: str, turn: RunTurn, changed: FilesChanged | None) -> Part:
    """Return the row of a turn; the same as before if nothing of it has changed."""
    number = f"turn-{turn.sequence}"
    # What an opened turn shows is another thing when it has ended: it is fetched again then.
    step = "?open" if turn.ended is None else ""
    shown = tag(
        "details",
        tag("summary", _line(turn, changed), class_="turn-line"),
        tag("div", tag("p", "Loading …", class_="muted"), data_into=True, class_="turn-body"),
        data_fragment=f"{run_path(run)}/turns/{turn.sequence}{step}",
    )
    return Part(number, tag("li", shown, id=number, class_="turn-row"), "turns")


def _came_to(turn: RunTurn) -> Markup:
    look = look_of(turn)
    return badge(replace(look, words=short_line(look.words, LONGEST_WORD)))


def _why(turn: RunTurn) -> Markup | None:
    """Say what stands behind the outcome, and what the agent had against the work."""
    quoted = f"“{turn.reason}”" if turn.reason else ""
    words = " ".join(filter(None, (turn.why, quoted)))
    return tag("span", short_line(words, LONGEST_WHY), class_="turn-why") if words else None


def _line(turn: RunTurn, changed: FilesChanged | None) -> Markup:
    return tag(
        "span",
        tag("span", str(turn.sequence), class_="turn-number"),
        tag("h3", name(turn.role)),
        _came_to(turn),
        tag("span", joined(_facts(turn, changed), DOT), class_="about"),
        _why(turn),
        class_="turn-words",
    )


def _facts(turn: RunTurn, changed: FilesChanged | None) -> Iterator[Child]:
    yield f"round {turn.round}" + (f", cycle {turn.cycle}" if turn.reviewed else "")
    yield "command" if turn.provider == COMMAND else name(turn.provider) or None
    if changed is not None:
        yield _changed(changed)
    if turn.ended is not None:
        yield moment(turn.ended, duration(turn.seconds))


def _changed(changed: FilesChanged) -> Markup:
    files = f"{changed.count} file{'' if changed.count == 1 else 's'}"
    if not changed.allowed:
        return tag("span", f"changed {files}, not its task", class_="warn")
    return joined((f"{files} ", counts_html(changed.added, changed.removed)))


LONGEST_TASK = 20_000
"""Characters of a task that are shown."""
LONGEST_LINE = 200
LONGEST_REASON = 2000
MOST_TOLD = 20
"""Warnings, or acts of people, that are shown: the last ones."""
STEPS = 200
"""Into so many steps the time of a run is divided: its picture grows by one at a time."""
LEAST_STEP = 2.0
GONE = "This run is not there any more: its folder was removed."
NOT_READABLE = "What is kept of this run cannot be read now."
DONE = tag("span", "✓", tag("span", " done", class_="hidden-words"), class_="done")
"""At a step of the plan that the present round has behind it."""
LAST_SEEN = " Below is what was last seen of it."


@dataclass(frozen=True, slots=True)
class RunView:
    """A run and what else its page tells."""

    story: RunStory
    terminals: Mapping[str, Terminal] = field(default_factory=dict)
    """The agents that this server has, by role."""
    asked: AskedBy | None = None
    """What an agent asks, with its choices."""
    tokens: RunTokens | None = None


def one_run(view: RunView, now: float) -> Page:
    """Return the page of a run."""
    story = view.story
    run = story.summary
    stand = standing_of(run, now)
    can = controls_of(run, review_under_way(story), pausing=is_pausing(story))
    turns = (
        turn_part(run.id, turn, story.changed.get(turn.sequence)) for turn in reversed(story.turns)
    )
    parts = (
        *_frame(),
        Part("head", _head(view, stand, now), "run-top"),
        Part("need", _need(view, stand), "need-area"),
        *_steering(view, can),
        *_agents(view),
        *_warned(story),
        Part("plan", _plan(story), "more"),
        *_told(story, now),
        Part("picture", _picture(story, now), "story"),
        *_findings(story),
        *_turns_frame(story),
        *turns,
    )
    return Page(f"{stand.words}: {short_line(run.task, 80)}", parts)


def with_notice(page: Page, words: str) -> Page:
    """Return a page that says first why it is not kept up to date any more."""
    seen = [part for part in page.parts if part.id != "notice"]
    still = LAST_SEEN if seen else ""
    html = tag("p", words, still, id="notice", class_="card card-bad", role="alert")
    return Page(page.title, (*seen[:1], Part("notice", html), *seen[1:]))


def is_pausing(story: RunStory) -> bool:
    """Was a pause asked for that has not begun, because a turn is under way?"""
    asked = [act for act in story.acts if isinstance(act, PauseAsked | Unpaused)]
    is_asked = bool(asked) and isinstance(asked[-1], PauseAsked)
    return is_asked and story.summary.status is RunStatus.RUNNING


def review_under_way(story: RunStory) -> RunTurn | None:
    """Return the last turn if it is a review without an end."""
    for last in story.turns[-1:]:
        if last.role in story.reviewers and last.ended is None:
            return last
    return None


def _frame() -> Iterator[Part]:
    way = tag("nav", tag("a", "All runs", href=HOME), id="way", class_="way", aria_label="Way back")
    yield Part("way", way)
    yield Part("run-top", tag("div", id="run-top"))
    # It is there before what it says, so that what comes into it is read out.
    yield Part("need-area", tag("div", id="need-area", role="status"))
    # Where there is no room for two columns, the turns come before what is looked at less.
    columns = (("side", "side"), ("story", "story"), ("more", "side side-more"))
    inner = (tag("div", id=number, class_=kind) for number, kind in columns)
    yield Part("frame", tag("div", *inner, id="frame"))


def _head(view: RunView, stand: RunStanding, now: float) -> Markup:
    run, record = view.story.summary, view.story.record
    task = record.task.strip()[:LONGEST_TASK]
    whole = tag("pre", task, class_="task") if task and task != run.task else None
    badges = [badge_one_run(stand.tone, stand.words), *_more_badges(view.story)]
    return tag(
        "header",
        tag("h1", short_line(run.task, LONGEST_LINE) or "(no task)"),
        tag("p", joined(badges, " "), class_="badges"),
        about([*_facts_one_run(view, now)]),
        tag("details", tag("summary", "The whole task"), whole, id="task") if whole else None,
        id="head",
        class_="run-head",
    )


def _more_badges(story: RunStory) -> Iterator[Markup]:
    if story.summary.status is RunStatus.PASS and story.proof:
        is_proven = story.proof.startswith("proven")
        yield badge_one_run(
            "good" if is_proven else "warn", "proven" if is_proven else "not proven"
        )
    if is_pausing(story):
        yield badge_one_run("warn", "pauses after this turn")


def _facts_one_run(view: RunView, now: float) -> Iterator[Child]:
    story, run = view.story, view.story.summary
    place = run.project or run.wd
    yield tag("span", name(PurePosixPath(place).name or place), title=place)
    yield f"flow {name(run.flow)}" if run.flow else None
    if run.round:
        yield f"round {run.round}" + (f" of {story.max_rounds}" if story.max_rounds else "")
    if run.is_live and run.role and not run.asking:
        yield at_work(run)
    yield _time(story, now)
    yield run_tokens(view.tokens) if view.tokens is not None else None
    yield tag("code", run.id)


def _time(story: RunStory, now: float) -> Markup:
    run = story.summary
    if run.ended is not None:
        spent = took(run.spent(run.ended))
        return moment(run.ended, f"ended {ago(now - run.ended)}, {spent}")
    words = span(run.spent(now)) if run.is_live else f"began {ago(now - run.started)}"
    return moment(run.started, words)


def _need(view: RunView, stand: RunStanding) -> Markup:
    """Return what a person is needed for; an empty element if for nothing."""
    told = [*_needs(view, stand)]
    tone = "card-needs" if stand.tone == "needs" else "card-bad"
    quiet = "card-quiet" if not stand.why else tone
    return tag("div", joined(told), id="need", class_=f"card {quiet}", hidden=not told)


def _needs(view: RunView, stand: RunStanding) -> Iterator[Markup]:
    run, record = view.story.summary, view.story.record
    if run.asking and run.is_live:
        yield from _asked(view)
    elif stand.why:
        yield tag("h2", "It needs you")
        yield tag("p", stand.why)
        if stand.words == "not converging":
            yield tag("p", "Give it a hint, or stop it.", class_="muted")
    if record.reason and not run.is_live:
        yield tag("p", with_code(record.reason[:LONGEST_REASON]), class_="reason")
    if run.status is RunStatus.FAIL:
        if run.circling:
            yield tag("p", f"It did not converge: {run.circling}")
        command = f"cao resume {short_name(run.id)} --max-rounds {twice_as_many(run.round)}"
        yield tag("p", "It can go on with more rounds: ", tag("code", command))
        report = f"cao report {short_name(run.id)} --format html"
        yield tag("p", "All of it as one file: ", tag("code", report))
        yield from _showed(run)
    if run.waiting and not run.is_live:
        yield _waits(run.waiting, short_name(run.id))


def _showed(run: RunSummary) -> Iterator[Markup]:
    links = [tag("a", name(role), href=agent_path(run.id, role)) for role in run.providers]
    if links:
        yield tag("p", "What its agents showed, from the start: ", joined(links, ", "))


def _asked(view: RunView) -> Iterator[Markup]:
    run = view.story.summary
    link = tag("a", "See its screen", href=agent_path(run.id, run.asking))
    yield tag("h2", f"The {name(run.asking)} asks you")
    if view.asked is not None:
        yield question_html(view.asked)
    elif view.story.question:
        yield tag("p", view.story.question[:LONGEST_REASON], class_="question")
    yield tag("p", link)


def _waits(branch: str, run: str) -> Markup:
    commands = (f"cao apply {run}", f"cao pr {run}", f"cao discard {run}")
    return tag(
        "p",
        "Its work waits on the branch ",
        tag("code", name(branch)),
        ": ",
        joined((tag("code", command) for command in commands), ", "),
        class_="muted",
    )


def _steering(view: RunView, can: RunControls) -> Iterator[Part]:
    run = view.story.summary
    buttons = control_buttons(run.id, can)
    if buttons is None:
        return
    title = tag("h2", "Steer it", id="steer-title")
    frame = tag("section", title, id="steer", class_="card", aria_labelledby="steer-title")
    yield Part("steer", frame, "side")
    yield Part("buttons", tag("div", buttons, id="buttons"), "steer")
    if can.steer:
        # Parts of their own: what is being typed in them stays when the buttons change.
        yield Part("hint", hint_form(run.id, sorted(run.providers)), "steer")
        yield Part("rounds", rounds_form(run.id, run.round, view.story.max_rounds), "steer")


def _agents(view: RunView) -> Iterator[Part]:
    run = view.story.summary
    if not run.providers:
        return
    frame = _section("agents", "Agents", tag("ul", id="agents-list", class_="agents"))
    yield Part("agents", frame, "more")
    for number, (role, provider) in enumerate(run.providers.items()):
        # By number: a name may be anything.
        html = _agent(view, role, provider, f"agent-{number}")
        yield Part(f"agent-{number}", html, "agents-list")


def _agent(view: RunView, role: str, provider: str, number: str) -> Markup:
    run, terminal = view.story.summary, view.terminals.get(role)
    if terminal is not None:
        status = agent_badge(terminal)
    elif run.is_live and role in run.terminals:
        status = badge_one_run("plain", "on another server")
    else:
        status = badge_one_run("plain", "ended")
    action = terminal.action if terminal is not None and terminal.alive else ""
    return tag(
        "li",
        tag("a", name(role), href=agent_path(run.id, role)),
        " ",
        tag("span", name(provider), class_="muted"),
        status,
        tag("span", short_line(action, LONGEST_LINE), class_="action") if action else None,
        id=number,
        class_="agent agent-now" if run.is_live and role == run.role else "agent",
    )


def _plan(story: RunStory) -> Markup:
    if not story.course:
        return tag("div", id="plan", hidden=True)
    is_live = story.summary.is_live
    reached, passed = _reached(story), story.summary.status is RunStatus.PASS
    steps = [
        _step(step, is_done=passed or place < reached, is_present=is_live and place == reached)
        for place, step in enumerate(story.course)
    ]
    last = tag("li", tag("span", "PASS", class_="stage"), DONE if passed else None)
    first = next(step.name for step in story.course if isinstance(step, Stage))
    note = f"A FAIL starts the next round at {name(first)}."
    listed = tag("ol", joined(steps), last, class_="plan")
    return _section("plan", "Plan", joined((listed, tag("p", note, class_="muted"))))


def _reached(story: RunStory) -> int:
    """Return the place in the course to which the turns of the last round have come; -1 if none."""
    reached = -1
    for turn in story.turns:
        # A gate may have several places: it is the next one.
        start = reached + 1 if turn.provider == COMMAND else 0
        places = range(start, len(story.course))
        if turn.round == story.turns[-1].round:
            reached = next((one for one in places if _is_of(turn, story.course[one])), reached)
    return reached


def _is_of(turn: RunTurn, step: Planned) -> bool:
    match step:
        case PlannedCheck():
            return turn.provider == COMMAND and turn.role == step.name
        case Stage(kind=StageKind.GATE):
            return turn.provider == COMMAND
    return turn.role in step.roles


def _who(step: Planned) -> str:
    """Say who works or decides in a step of the plan."""
    match step:
        case PlannedCheck(name=gates.PROOF):
            return "do new tests fail without the change?"
        case PlannedCheck(when=When.BASE):
            return "your command, before the first turn"
        case PlannedCheck() | Stage(kind=StageKind.GATE):
            return "your command says PASS or FAIL"
        case Stage(kind=StageKind.TEST):
            return f"{name(step.author)} says PASS or FAIL"
    return " ⇄ ".join(map(name, step.roles))


def _step(step: Planned, *, is_done: bool, is_present: bool) -> Markup:
    return tag(
        "li",
        tag("span", name(step.name), class_="stage"),
        tag("span", _who(step), class_="muted"),
        tag("span", "now", class_="now") if is_present else None,
        DONE if is_done else None,
        aria_current="step" if is_present else None,
    )


def _picture(story: RunStory, now: float) -> Markup:
    return _framed_picture(story.turns, _steady(story, now) if story.turns else 0.0)


@lru_cache(maxsize=64)
def _framed_picture(turns: tuple[RunTurn, ...], now: float) -> Markup:
    """Return the picture of the turns; the same as before if nothing of it has changed."""
    drawn = timeline(turns, now) if turns else tag("p", "No turn yet.", class_="none")
    return _section("picture", "Timeline", drawn)


def _steady(story: RunStory, now: float) -> float:
    """Return a time that moves in steps, so that the picture is not drawn anew all the time."""
    run = story.summary
    if not run.is_live:
        return run.ended or story.turns[-1].ended or story.turns[-1].began
    since = now - run.started
    # Of steps twice as long when it lasts twice as long.
    doublings = max(0, int(since / STEPS / LEAST_STEP).bit_length() - 1)
    step = LEAST_STEP * float(2**doublings)
    return max(now - since % step, story.turns[-1].began)


def _findings(story: RunStory) -> Iterator[Part]:
    found = [(reviewer, ledger) for reviewer, ledger in story.findings.items() if ledger.tracked]
    if not found:
        return
    count = sum(len(ledger.open) for _, ledger in found)
    frame = tag(
        "section",
        tag("h2", "Findings ", tag("span", f"{count} open", class_="count")),
        joined(_found(reviewer, ledger, number) for number, (reviewer, ledger) in enumerate(found)),
        id="findings",
        class_="card",
        aria_label="Findings",
    )
    yield Part("findings", frame, "story")


def _found(reviewer: str, ledger: Findings, number: int) -> Markup:
    """Return the findings of a reviewer: those that are open, and folded those that are not."""
    closed = [entry for entry in ledger.tracked if not entry.is_open]
    folded = tag(
        "details",
        tag("summary", f"{len(closed)} answered"),
        findings_html(closed),
        id=f"answered-{number}",
    )
    return joined(
        (
            tag("h3", name(reviewer)),
            findings_html(ledger.open) if ledger.open else None,
            folded if closed else None,
        )
    )


def _warned(story: RunStory) -> Iterator[Part]:
    if story.warnings:
        count = tag("span", str(len(story.warnings)), class_="count")
        summary = tag("summary", "Warnings ", count)
        lines = _lines([warning[:LONGEST_REASON] for warning in story.warnings])
        html = tag("details", summary, lines, id="warnings", class_="card")
        yield Part("warnings", html, "more")


def _told(story: RunStory, now: float) -> Iterator[Part]:
    """Yield the proof, and what people did to the run."""
    if story.proof:
        yield Part(
            "proof", _section("proof", "Proof", _lines([story.proof[:LONGEST_REASON]])), "story"
        )
    if story.acts:
        acts = _lines([_act(act, now) for act in story.acts])
        yield Part("acts", _section("acts", "What people did", acts), "more")


def _act(act: Steered, now: float) -> Markup:
    when = tag("span", moment(act.at, ago(now - act.at)), class_="muted")
    return joined((_act_words(act)[:LONGEST_REASON], when), " ")


def _act_words(act: Steered) -> str:
    """Say what a person did; a hint of several lines, such as a comment on code, keeps them."""
    if isinstance(act, HintTaken) and "\n" in act.text.strip():
        return f"hint for {act.role or 'the next prompt'}:\n{act.text.strip()}\n"
    return act.words


def _lines(lines: Sequence[Child]) -> Markup:
    items = (tag("li", line) for line in lines[-MOST_TOLD:])
    return tag("ul", joined(items), class_="told")


def _section(number: str, title: str, inner: Markup) -> Markup:
    return tag(
        "section",
        tag("h2", title, id=f"{number}-title"),
        inner,
        id=number,
        class_="card",
        aria_labelledby=f"{number}-title",
    )


def _turns_frame(story: RunStory) -> Iterator[Part]:
    frame = tag(
        "section",
        tag("h2", "Turns ", tag("span", "newest first", class_="muted"), id="turns-title"),
        tag("ol", id="turns", class_="turns"),
        id="turns-frame",
        aria_labelledby="turns-title",
    )
    yield Part("turns-frame", frame, "story")
    if not story.turns:
        none = tag("p", "No turn yet: its agents are being started.", id="no-turn", class_="none")
        yield Part("no-turn", none, "turns-frame")
