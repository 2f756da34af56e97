"""Commands that steer a run: pause, resume, send, set, skip, answer, stop."""

import os
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from ..client.client import ApiClient
from ..client.find import name_server
from ..core.text import one_line, printable
from ..errors import ApiRefused, NotFound, NotSteerable, UsageError
from ..pipeline.steering import Pause, Set, Skip, Stop, Unpause, Wish, demand_wish
from ..runs.control import check_live
from ..runs.record import forget_agents, session_name_of, short_name
from ..runs.view import (
    RunView,
    choose_live_run,
    choose_run,
    choose_run_to_resume,
    find_addressee,
    is_surely_run,
    list_runs,
    read_run,
    runs_that_fit,
)
from ..settings.config import state_folder
from ..settings.layout import run_folder
from ..settings.table import BY_NAME, CHANGEABLE_NAMES
from ..settings.values import read_change
from .complete import (
    complete_changes,
    complete_ended,
    complete_live_runs,
    complete_resumable_runs,
    complete_roles,
)
from .imports import confirm, importing
from .terminals import (
    EXIT_UNCONFIRMED,
    NOT_TOLD,
    Listed,
    all_terminals,
    api,
    connected,
    named_terminal,
    table,
)

LEAST_WORDS, MOST_WORDS = 1, 2
LOOSENED = "Nothing passes in this run without what it requires. Let it pass without?"
STANDARD_INPUT = "-"


@click.command()
@click.argument("run", required=False, shell_complete=complete_live_runs)
def pause(run: str | None) -> None:
    """Let RUN wait after its present turn; its agents stay. `cao resume` lets it go on.

    RUN is the ID that `cao runs` lists, the beginning of it, or its last letters. Leave it out for
    the run of this folder, or the only one that is running.

    \b
    cao pause
    cao pause k3f9
    """
    found = _live(run)
    steer(found, Pause())
    click.echo(f"Let it go on with: cao resume {found.id}")


@click.command()
@click.argument("run", required=False, shell_complete=complete_resumable_runs)
@click.option("--detach", is_flag=True, help="Start it again apart from this terminal.")
@click.option("--json", "as_json", is_flag=True, help="Started again: tell what happens as JSON.")
@click.option(
    "--replace-terminals",
    is_flag=True,
    help="Start it again with new agents for those that are lost or in error.",
)
@click.option(
    "--missing",
    type=click.Choice(BY_NAME["MISSING"].choices),
    help="If a reply did not come: ask again, take the agent's last answer, or skip a review.",
)
@click.option("--max-rounds", metavar="NUMBER", help="Let a run go on that has used up its rounds.")
@click.option(
    "--gate",
    "gates",
    metavar="NAME=COMMAND",
    multiple=True,
    help="Start it again with these commands that decide, instead of those it had.",
)
def resume(
    run: str | None,
    missing: str | None,
    max_rounds: str | None,
    gates: tuple[str, ...],
    **how: bool,
) -> None:
    """Let RUN go on: lift its pause, or start it again where it was interrupted.

    A run that was stopped, killed or ended by an error goes on in its own folder, with its own
    task and settings, as `cao run --resume` would do there; after `cao stop`, which ends the
    agents, with new ones. Without RUN it is the last run of this folder, or the one that is paused.

    \b
    cao resume
    cao resume k3f9 --detach
    cao resume k3f9 --replace-terminals      # new agents for those that are lost
    cao resume k3f9 --max-rounds 16          # more rounds after a FAIL
    cao resume k3f9 --gate tests='make test'  # another command that decides
    """
    state = state_folder(os.environ)
    found = choose_run_to_resume(list_runs(state), run, _here())
    if found.is_live:
        if missing or gates:
            option = "--missing" if missing else "--gate"
            raise UsageError(f"the run {found.id} is under way; {option} is for one that stopped")
        if max_rounds:
            raise UsageError(
                f"the run {found.id} is under way: cao set {found.id} max_rounds={max_rounds}"
            )
        steer(found, Unpause())
        return
    with importing():
        from ..runs.control import options_to_resume
        from .run import StartOptions, start

    options = options_to_resume(found, run_folder(state, found.id), max_rounds)
    anew = how["replace_terminals"] or not found.has_agents
    options_of_start = StartOptions(
        how["as_json"], how["detach"], replace_terminals=anew, run=found.id, by_id=True
    )
    given = {"MISSING": missing, "GATES": "\n".join(gates) or None}
    start({**options, **given}, None, options_of_start)


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN|ROLE|ID] TEXT", shell_complete=complete_ended)
@click.option("--now", is_flag=True, help="Type it at once, and confirm that it arrived.")
@api
def send(words: tuple[str, ...], now: bool, api: str | None) -> None:
    """Send TEXT to an agent; `-` reads it from standard input.

    An agent of a run under way gets it with its next prompt, in a block of its own, as said by a
    person; the report shows it. RUN alone means the next prompt of any role, ROLE the next one of
    that role, RUN/ROLE that of another run. RUN may be left out, as in `cao pause`.

    With --now the text is typed into the terminal at once, as it is for an agent that works in no
    run. Exits with 0 only if the agent took it, with 3 if that could not be seen. ID is what
    `cao ls` lists, as in `cao attach`.

    \b
    cao send "The parser is in src/reader.py."
    cao send tester "Use Python 3.12."
    cao send k3f9/tester --now - < message.txt
    """
    if not LEAST_WORDS <= len(words) <= MOST_WORDS:
        raise UsageError(
            'expected [RUN|ROLE|ID] and TEXT; put TEXT in quotes: cao send "Mind the tabs."'
        )
    target, text = words[0] if len(words) == MOST_WORDS else None, words[-1]
    text = sys.stdin.read() if text == STANDARD_INPUT else text
    run, role = find_addressee(list_runs(state_folder(os.environ)), target, _here())
    if run is not None and not now:
        steer(run, demand_wish({"do": "hint", "role": role, "text": text}))
        return
    if target is None or (run is not None and role is None):
        raise UsageError("--now needs one agent: name its role, such as cao send tester --now TEXT")
    with connected(os.environ, api) as client:
        delivery = client.send_input(named_terminal(client, target).id, text)
    removed = delivery.removed_characters
    if removed:
        click.echo(f"{removed} control characters were removed from the message.", err=True)
    if not delivery.confirmed:
        click.echo(f"Not confirmed: {one_line(delivery.detail)}", err=True)
        sys.exit(EXIT_UNCONFIRMED)
    click.echo("Sent; the agent is working on it")


@click.command(
    "set", epilog=f"These can change: {', '.join(name.lower() for name in CHANGEABLE_NAMES)}."
)
@click.argument("words", nargs=-1, metavar="[RUN] NAME=VALUE...", shell_complete=complete_changes)
def change(words: tuple[str, ...]) -> None:
    """Change settings of RUN from its next turn on.

    RUN may be left out, as in `cao pause`.

    \b
    cao set max_rounds=12
    cao set k3f9 max_review_cycles=5 response_timeout=3600
    """
    changes = [word.partition("=") for word in words if "=" in word]
    named = [word for word in words if "=" not in word]
    if not changes or len(named) > 1:
        raise UsageError("expected [RUN] and NAME=VALUE, for example: cao set max_rounds=12")
    for name, _, value in changes:
        read_change(name, value)
    found = _live(named[0] if named else None)
    wishes = [Set(name, value) for name, _, value in changes]
    _settle_loosening(found, wishes)
    for wish in wishes:
        steer(found, wish, agreed=True)


@click.command()
@click.argument("run", required=False, shell_complete=complete_live_runs)
def skip(run: str | None) -> None:
    """Count the review that is under way in RUN as approved, and go on. The report says so.

    RUN may be left out, as in `cao pause`. The reviewer is not interrupted; what it still writes
    does not count.

    \b
    cao skip
    cao skip k3f9
    """
    steer(_live(run), Skip())


def stop_run(run: RunView) -> None:
    steer(run, Stop())
    now = read_run(run_folder(state_folder(os.environ), run.id))
    if now.is_live or now.is_unfinished:
        click.echo(f"Resume it, with new agents: cao resume {run.id}")


def _settle_loosening(run: RunView, wishes: Sequence[Wish]) -> None:
    """Ask whether the run may pass without what it requires now; raise if it may not."""
    with importing():
        from ..runs.control import NEEDS_PERSON, loosens

    folder = run_folder(state_folder(os.environ), run.id)
    if not run.is_live or not any(loosens(folder, wish) for wish in wishes):
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise NotSteerable(NEEDS_PERSON)
    if not click.confirm(f"{run.id}: {LOOSENED}", default=False, err=True):
        raise NotSteerable("nothing was changed")


def steer(run: RunView, wish: Wish, *, agreed: bool = False) -> None:
    """Ask something of a run, and print what it says; `agreed` is that of `ask_run`."""
    with importing():
        from ..runs.control import ask_run, check_wish
        from ..terminals.programs import check_no_gate_of

    check_wish(run, wish)
    check_no_gate_of(run.pid)
    asked = ask_run(run_folder(state_folder(os.environ), run.id), wish, agreed=agreed)
    click.echo(f"{run.id}: {printable(asked.text)}")


def _live(text: str | None) -> RunView:
    return choose_live_run(list_runs(state_folder(os.environ)), text, _here())


def _here() -> Path:
    return Path.cwd().resolve()


CANNOT_BE = (400, 409, 422)
"""How a server answers to what cannot be done."""


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN] [KEY]", shell_complete=complete_live_runs)
@click.option("--role", shell_complete=complete_roles, help="Who asks, if several do.")
@api
def answer(words: tuple[str, ...], role: str | None, api: str | None) -> None:
    """Press KEY in the terminal of the agent of RUN that asks something.

    KEY is what its dialog takes: 1, y, Enter, Escape, Down and so on. Without KEY the question and
    its choices are printed. RUN may be left out, as in `cao pause`. Exits with 3 if the agent is
    still asking, or asks something else.

    \b
    cao answer
    cao answer 1
    cao answer k3f9 --role tester Escape
    """
    if len(words) > MOST_WORDS:
        raise UsageError("expected [RUN] and KEY, for example: cao answer 1")
    runs = list_runs(state_folder(os.environ))
    names = {name for run in runs if run.is_live for name in (run.id, short_name(run.id))}
    *named, key = words if words and words[-1] not in names else (*words, "")
    run = choose_live_run(runs, named[0] if named else None, _here())
    check_live(run)
    with connected(os.environ, api) as client:
        if not key:
            _print_questions(client, run, role)
            return
        try:
            told = client.answer_question(run.id, key, role)
        except ApiRefused as error:
            if error.status_code in CANNOT_BE:
                raise NotSteerable(error.detail) from error
            raise
    click.echo(f"{run.id}: {one_line(str(told.get('text')))}")
    if told.get("heard") is not True:
        sys.exit(EXIT_UNCONFIRMED)


def _print_questions(client: ApiClient, run: RunView, role: str | None) -> None:
    asked = 0
    for name, terminal in run.terminals.items():
        question = client.get_question(terminal) if role in (None, name) else None
        if question is None:
            continue
        asked += 1
        click.echo(f"{name} asks: {printable(str(question.get('text')))}")
        for choice in question.get("choices") or ():
            click.echo(
                f"  {one_line(str(choice.get('key'))):<8} {one_line(str(choice.get('label')))}"
            )
        click.echo(f"Answer: cao answer {short_name(run.id)} --role {name} KEY")
    if not asked:
        raise NotSteerable(f"no agent of the run {run.id} asks anything")


@click.command()
@click.argument("names", nargs=-1, shell_complete=complete_ended)
@click.option("--session", "sessions", multiple=True, help="End all agents of a run or session.")
@click.option("--all", "here", is_flag=True, help="End all runs and agents of this folder.")
@click.option("--everywhere", is_flag=True, help="End all runs and agents there are; asks first.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@api
def stop(
    names: tuple[str, ...], sessions: tuple[str, ...], yes: bool, api: str | None, **which: bool
) -> None:
    """End a run or terminals: ask each agent to quit, and remove its window.

    NAMES are runs (the ID that `cao runs` lists, the beginning of it, or its last letters), which
    are ended as Ctrl-C would, but with their agents (of one that has ended: the agents it left); or
    terminals, by id or role. Without any name it is the run of this folder, or the only one that is
    running.

    --all, --everywhere and --session stop runs that are at work first, so that they are saved and
    can be resumed, and then end what agents are left. To a folder belong all that work in it or
    below it, and its runs in work trees.

    \b
    cao stop                  # the run of this folder, with its agents
    cao stop k3f9             # that run
    cao stop tester           # one agent of the run of this folder
    cao stop --all            # all runs and agents of this folder
    """
    runs = list_runs(state_folder(os.environ))
    others = [name for name in names if not is_surely_run(runs, name)]
    left = _stop_or_leave([choose_run(runs, one, _here()) for one in names if one not in others])
    swept = bool(sessions or any(which.values()))
    if not (names or swept):
        left = _stop_the_run(runs)
    own = [run.id for run in runs if run.lies_in(_here())]
    sweep = Sweep(sessions, _here(), own, **which)
    busy: Collection[str] = ()
    if swept:
        with connected(os.environ, api) as client:
            known = _known_terminals(client)
        live = sweep.live_runs(runs, known, is_named=name_server(os.environ, api) is not None)
        if not _agrees(sweep, known, live, yes):
            click.echo("Nothing was ended.")
            return
        busy = _stop_all(live)
    if others or left or swept:
        # Another server than before, if that was the one of a run that is stopped now.
        with connected(os.environ, api) as client:
            found = [one for one in _known_terminals(client) if sweep.takes(one)] if swept else []
            chosen = {one.id: one for one in found if one.run not in busy}
            named, more = _choose_named(client, runs, others)
            left += _stop_or_leave(more)
            chosen |= named | _choose_left(client, left)
            for terminal in chosen.values():
                client.exit_terminal(terminal.id)
                click.echo(f"Ended {terminal.label}")
        _note_ended(runs, chosen, left)


def _stop_or_leave(runs: Iterable[RunView]) -> list[RunView]:
    """End runs; return those that have ended and may have left their agents."""
    left = []
    for run in runs:
        if run.is_live:
            stop_run(run)
        elif run.has_agents or not run.is_readable:
            left.append(run)
        else:
            _say_none_left(run)
    return left


def _say_none_left(run: RunView) -> None:
    """Say of a run that has ended that it has no agents, and how it goes on if it can."""
    click.echo(f"{run.id}: It has ended, and has no agents any more.")
    if run.is_unfinished:
        click.echo(f"Resume it, with new agents: cao resume {run.id}")


def _stop_all(runs: Iterable[RunView]) -> Collection[str]:
    """End runs that are at work; return the ids of those that still are."""
    busy = []
    for run in runs:
        try:
            stop_run(run)
        except NotSteerable as error:
            # It has ended by itself, or cannot be asked; the others are still meant.
            click.echo(f"{run.id}: {printable(str(error))}")
        if read_run(run_folder(state_folder(os.environ), run.id)).is_live:
            busy.append(run.id)
            click.echo(f"{run.id}: It keeps its agents until it has stopped.")
    return busy


def _choose_left(client: ApiClient, runs: Sequence[RunView]) -> dict[str, Listed]:
    chosen: dict[str, Listed] = {}
    known = _known_terminals(client) if runs else []
    for run in runs:
        found = {one.id: one for one in known if one.session == session_name_of(run.id)}
        if not found:
            forget_agents(run_folder(state_folder(os.environ), run.id))
            _say_none_left(run)
        chosen |= found
    return chosen


def _stop_the_run(runs: Sequence[RunView]) -> list[RunView]:
    """End the run of this folder; return the one that has ended if only its agents are left."""
    own = [run for run in runs if run.works_in(_here())]
    left = [run for run in own if run.has_agents]
    if left and not any(run.is_live for run in own):
        return left[:1]
    if not any(run.is_live for run in runs):
        raise UsageError(
            "no run is running; name a terminal, --session NAME, --all (in this folder) or "
            "--everywhere; `cao ls` lists them"
        )
    stop_run(choose_live_run(runs, None, _here()))
    return []


def _note_ended(runs: Sequence[RunView], ended: Collection[str], asked: Sequence[RunView]) -> None:
    """Remember which runs have no agents any more, and say how those that were meant go on."""
    for run in runs:
        if not run.is_live and run.has_agents and set(run.terminals.values()) <= set(ended):
            forget_agents(run_folder(state_folder(os.environ), run.id))
            if run in asked and run.is_unfinished:
                click.echo(f"Resume the run, with new agents: cao resume {run.id}")


def _choose_named(
    client: ApiClient, runs: Sequence[RunView], names: Sequence[str]
) -> tuple[dict[str, Listed], list[RunView]]:
    """Return the terminals, by id, that are named, and the runs that are named after all."""
    chosen, meant = {}, []
    for name in names:
        fitting = runs_that_fit(runs, name)
        try:
            found = named_terminal(client, name)
        except NotFound:
            if not fitting:
                raise
            meant.append(choose_run(runs, name, _here()))
            continue
        there = [run.id for run in fitting if run.is_live or run.has_agents]
        if there:
            raise UsageError(
                f"{name!r} could be the run {there[0]} or the terminal {found.label}; write more"
            )
        chosen[found.id] = found
    return chosen, meant


def _known_terminals(client: ApiClient) -> list[Listed]:
    return [terminal for terminal in all_terminals(client) if terminal.id != NOT_TOLD]


@dataclass(frozen=True, slots=True)
class Sweep:
    """What --session, --all and --everywhere mean: many at once."""

    sessions: Collection[str]
    folder: Path
    own: Collection[str]
    """The ids of the folder's runs."""
    here: bool
    everywhere: bool

    def takes(self, terminal: Listed) -> bool:
        is_here = terminal.works_in(self.folder) or terminal.run in self.own
        is_named = not {terminal.session, terminal.run}.isdisjoint(self.sessions)
        return self.everywhere or is_named or (self.here and is_here)

    def live_runs(
        self, runs: Iterable[RunView], known: Iterable[Listed], *, is_named: bool
    ) -> list[RunView]:
        """Return the runs at work that are to be stopped, also those without agents yet.

        A server that is named has agents of its own runs alone.
        """
        taken = {terminal.run for terminal in known if self.takes(terminal)}
        if self.here:
            taken |= set(self.own)
        return [
            run
            for run in runs
            if run.is_live and (run.id in taken or (self.everywhere and not is_named))
        ]


def _agrees(sweep: Sweep, known: Sequence[Listed], live: Sequence[RunView], yes: bool) -> bool:
    """Say what is meant, and ask whether it is if that is everything."""
    unknown = set(sweep.sessions) - {name for one in known for name in (one.session, one.run)}
    if unknown:
        raise NotFound("session", unknown.pop(), sorted({one.session for one in known}))
    chosen = [terminal for terminal in known if sweep.takes(terminal)]
    if sweep.here and not (chosen or live):
        click.echo(f"No terminal works in {printable(str(sweep.folder))}.")
    if sweep.here and len(chosen) < len(known):
        elsewhere = len(known) - len(chosen)
        click.echo(f"{elsewhere} elsewhere: `cao ls` shows them, --everywhere ends them.")
    if yes or not sweep.everywhere or not (chosen or live):
        return True
    if chosen:
        for line in table(chosen, time.time()):
            click.echo(line)
    for run in live:
        click.echo(f"At work, to be stopped first: {one_line(run.label)}")
    refusal = "--everywhere would end all of these; add --yes if that is meant"
    return confirm("End all of these?", refusal)
