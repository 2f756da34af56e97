"""The last lines of a run: what it came to and why, and what can be done next."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cli_agent_orchestrator._internal.cli.line import Line, Tone
from cli_agent_orchestrator._internal.cli.printable import one_line
from cli_agent_orchestrator._internal.pipeline.proof import NOT_PROVEN, PROVEN
from cli_agent_orchestrator._internal.pipeline.rounds import twice_as_many
from cli_agent_orchestrator._internal.runs.records.run_id import short_name
from cli_agent_orchestrator._internal.runs.reports.dry_run import BUILT_IN, DRY_RUN, is_dry
from cli_agent_orchestrator.events import (
    CheckEnded,
    FilesChanged,
    NotConverging,
    RunBegan,
    RunEnded,
    RunEvent,
    RunOpened,
    ServerChosen,
    TurnEnded,
)

PASS, RUNNING = "PASS", "RUNNING"
LONGEST_REASON = 300

SAVED = "The run is saved"
DELIVERY = (
    # what can be done with work on a branch, and the command for it
    ("See it on one page:        ", "report"),
    ("Bring it into your branch: ", "apply"),
    ("Open a pull request:       ", "pr"),
    ("Remove it:                 ", "discard"),
)
UNDELIVERED = (("Show it:   ", "diff"), ("Remove it: ", "discard"))
UNCOMMITTED = (("Remove both: ", "discard"),)
AGENTS_STAY = "End its agents, who stay:  "
NO_CHANGE = (
    "The scripted agent changed no code, so a gate that fails cannot pass: let a real one do the "
    "work (--provider), or give it a script that does"
)
NOT_RESUMED = "The run did not go on; it is saved as it was"
MORE_ROUNDS = "Go on with more rounds: "


def unfinished_words(resume: bool | None) -> str:
    """Say how a run goes on that ended without a verdict: `--no-resume` would begin a new one."""
    changed = ", with --resume instead of --no-resume," if resume is False else ""
    return f"{SAVED}. Run the same command again{changed} to resume"


UNFINISHED = unfinished_words(None)
RESUME_BY_ID = f"{SAVED}. `cao resume {{id}}` resumes it"
LOST = (
    "What was saved of the run is not there any more, so it cannot be resumed. `cao undo {id}` "
    "brings its folder back to the start"
)
RESUME_ANEW = f"{SAVED}, and its agents are ended. `cao resume {{id}}` resumes it with new ones"
"""The command that began a run looks for the agents that it had."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What is remembered of a run for its last lines, and these lines."""

    report: str
    """The command that tells the rest; `{id}` stands for the id of the run."""
    unfinished: str
    """What is said of a run that has begun and ends without a verdict; with `{id}`, too."""
    run: str = ""
    """The id of the run; empty if it has none."""
    attach_prefix: str = ""
    """What a command needs before it to reach the server of the run."""
    not_begun: str = "Nothing was started"
    """What is said of a run that ends before it begins."""
    is_dry: bool = False
    is_idle: bool = False
    """Is every agent the built-in one, and has none changed a file?"""
    against: str = ""
    """What the last turn or check has to say against the work."""
    by_gate: bool = False
    """Was that a check?"""
    circling: str = ""
    """Why the run does not converge, until an author has changed files."""

    def after(self, event: RunEvent) -> "Ending":
        """Return what is remembered after an event."""
        match event:
            case RunOpened():
                not_begun = NOT_RESUMED if event.resumed else "The run did not begin"
                return replace(self, run=event.run, not_begun=not_begun)
            case ServerChosen():
                return replace(self, attach_prefix=event.attach_prefix)
            case RunBegan():
                agents = set(event.providers.values())
                is_idle = agents == {BUILT_IN} and (self.is_idle or not event.resumed)
                return replace(self, is_dry=is_dry(agents), is_idle=is_idle)
            case FilesChanged(allowed=True):
                circling = "" if event.count > 0 else self.circling
                return replace(self, is_idle=False, circling=circling)
            case NotConverging():
                return replace(self, circling=event.text)
            case TurnEnded() | CheckEnded():
                by_gate = isinstance(event, CheckEnded)
                return replace(self, against=reason_of_fail(event), by_gate=by_gate)
        return self

    def tell(self, event: RunEnded) -> Line:
        """Return the last lines of a run, as one."""
        rounds = f"{event.round} round{'s' if event.round != 1 else ''}"
        if event.final_status == RUNNING:
            saved = f"{self._goes_on(event)}{self._agents_left(event.session_left)}"
            return Line(saved if event.round else self.not_begun, Tone.ALERT)
        tone = Tone.GOOD if event.final_status == PASS else Tone.BAD
        is_unproven = bool(event.proof) and not event.proven
        if is_unproven or (event.repository and event.final_status == PASS):
            tone = Tone.ALERT
        return Line("\n".join(self._verdict(event, rounds)), tone)

    def _verdict(self, event: RunEnded, rounds: str) -> Iterator[str]:
        """Yield the last lines of a run: short ones, which are read where they end."""
        run = short_name(self.run)
        verdict = f"{DRY_RUN}: " if self.is_dry else ""
        proof, *doubts = _proof_words(event, run)
        verdict += f"{event.final_status}{proof} after {rounds}"
        stop = self._stop(event.session_left)
        if event.branch:
            yield f"{verdict}, on branch {event.branch}"
            yield from filter(None, [*doubts, *_look_first(event)])
            yield from next_lines(DELIVERY, run)
            if event.session_left:
                yield f"  {AGENTS_STAY}{stop}"
            return
        yield verdict + (f" ({self._named(self.report)} says more)" if self.report else "")
        yield from filter(None, [*doubts, *_look_first(event)])
        if event.final_status != PASS:
            yield from self._after_fail(event, run)
        elif event.tree:
            yield "Its work tree and its branch are left, with nothing committed:"
            yield from next_lines(UNCOMMITTED, run)
        if event.session_left:
            yield f"Its agents stay. To end them: {stop}"

    def _after_fail(self, event: RunEnded, run: str) -> Iterator[str]:
        """Yield why a run failed, and where its work is if that is not in the user's folder."""
        yield from filter(None, [self.against, self.circling])
        if self.is_idle and self.by_gate:
            yield NO_CHANGE
        if event.tree:
            yield f"Its work is not committed. It is in {event.tree}"
            yield from next_lines(UNDELIVERED, run)
        if run:
            yield f"{MORE_ROUNDS}cao resume {run} --max-rounds {twice_as_many(event.round)}"

    def _goes_on(self, event: RunEnded) -> str:
        """Say how a run is resumed, if it can be."""
        if event.is_lost:
            return self._named(LOST)
        if event.to_resume:
            return f"{SAVED}. `{event.to_resume}` resumes it"
        is_anew = self.run and not event.session_left and self.unfinished.startswith(SAVED)
        return self._named(RESUME_ANEW if is_anew else self.unfinished)

    def _agents_left(self, session: str) -> str:
        """Say that the agents of a run that was stopped stay, and how they are found or ended."""
        if not session:
            return ""
        cao = f"{self.attach_prefix}cao"
        return f". Its agents stay: `{cao} ls` lists them, `{self._stop(session)}` ends them"

    def _stop(self, session: str) -> str:
        """Return the command that ends the agents of the run."""
        what = short_name(self.run) or f"--session {session}"
        return f"{self.attach_prefix}cao stop {what}"

    def _named(self, text: str) -> str:
        return text.replace("{id}", short_name(self.run))


def reason_of_fail(step: TurnEnded | CheckEnded) -> str:
    """Say in one line why a round failed: `tests: `make test` ended with exit code 1`."""
    who = step.gate if isinstance(step, CheckEnded) else step.role
    quoted = f"“{step.reason}”" if isinstance(step, TurnEnded) and step.reason else ""
    words = " ".join(filter(None, [step.why, quoted]))
    shown = one_line(words if len(words) <= LONGEST_REASON else f"{words[:LONGEST_REASON]}…")
    return f"{who}: {shown or 'FAIL'}"


def _proof_words(event: RunEnded, run: str) -> tuple[str, str, str]:
    """Return what the last lines say of a proof, what to look at and where, and what was before.

    What was proven was told by the proof itself; why something was not is said again.
    """
    # An earlier version told it in one sentence.
    missing = f"{NOT_PROVEN}: {event.gaps}" if event.gaps else event.proof
    words = f"{PROVEN}," if event.proven else missing and f"{missing};"
    where = f": cao report {run}" if run else ""
    return (
        words and f", {words}",
        event.look_at and f"Look at {event.look_at}{where}",
        event.before and f"Before the run and not committed: {event.before}",
    )


def delivery_words(branch: str, run: str) -> Iterator[str]:
    """Yield where the work of a run is, and how it comes to the user: a command on each line."""
    yield f"The work of {run} is on branch {branch}:"
    yield from next_lines(DELIVERY[1:], short_name(run))


def next_lines(ways: Sequence[tuple[str, str]], run: str) -> Iterator[str]:
    """Yield what can be done next, and the whole command for each."""
    yield from (f"  {words}cao {word} {run}" for words, word in ways)


def _look_first(event: RunEnded) -> Iterator[str]:
    """Yield what was changed that the user's next git command would go by."""
    yield from (f"Look first: {text}" for text in event.repository)
