"""Commands that steer a run: pause, resume, send, set, skip, answer, stop."""

import os
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import click

from ..client.client import ApiClient
from ..client.find import name_server
from ..core.files import Folder
from ..core.text import one_line, printable
from ..errors import ApiRefused, ApiUnreachable, NotFound, NotSteerable, UsageError
from ..pipeline.requests import Pause, Request, Set, Skip, Stop, Unpause, demand_request
from ..runs.control import (
    NEEDS_PERSON,
    ask_run,
    check_live,
    check_request,
    loosens,
    options_to_resume,
)
from ..runs.record import forget_agents, session_name_of, short_name
from ..runs.view import (
    Purpose,
    RunView,
    choose_run,
    find_addressee,
    is_surely_run,
    list_runs,
    read_run,
    runs_that_fit,
)
from ..settings.layout import run_folder, state_folder
from ..settings.table import BY_NAME, CHANGEABLE_NAMES
from ..settings.values import read_change
from ..terminals.programs import check_no_gate_of
from .complete import (
    complete_changes,
    complete_ended,
    complete_live_runs,
    complete_resumable_runs,
    complete_roles,
)
from .imports import confirm, current_folder
from .terminals import (
    EXIT_UNCONFIRMED,
    Listed,
    all_terminals,
    api,
    connected,
    named_terminal,
    table,
)


@click.command()
@click.argument("run", required=False, shell_complete=complete_live_runs)
def pause(run: str | None) -> None:
    """Let RUN wait after its present turn; its agents stay. `cao resume` lets it go on.

    RUN is the ID that `cao runs` lists, the beginning of it, or its last letters. Leave it out for
    the run of this folder, or the only one that is running.

    \b
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
    detach: bool,
    as_json: bool,
    replace_terminals: bool,
) -> None:
    """Let RUN go on: lift its pause, or start it again where it was interrupted.

    It keeps its folder, task and settings; after `cao stop`, which ends the agents, it gets new
    ones. Without RUN it is the last unfinished run of this folder, else the last one there, else
    the one that is paused; with --max-rounds, one with FAIL counts as unfinished.

    \b
    cao resume k3f9 --replace-terminals      # new agents for those that are lost
    cao resume k3f9 --max-rounds 16          # more rounds after a FAIL
    """
    to: Purpose = "extend" if max_rounds else "resume"
    found = choose_run(list_runs(state_folder(os.environ)), run, current_folder(), to)
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
    from .run import start

    options = options_to_resume(found, _folder_of(found), max_rounds)
    given = {**options, "MISSING": missing, "GATES": "\n".join(gates) or None}
    start(given, as_json=as_json, detach=detach, replace_terminals=replace_terminals, run=found.id)


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN|ROLE|ID] TEXT", shell_complete=complete_ended)
@click.option("--now", is_flag=True, help="Type it at once, and confirm that it arrived.")
@api
def send(words: tuple[str, ...], now: bool, api: str | None) -> None:
    """Send TEXT to an agent; `-` reads it from standard input.

    An agent of a run under way gets it with its next prompt: RUN means that of any role, ROLE that
    of one, RUN/ROLE that of another run. RUN may be left out, as in `cao pause`.

    With --now the text is typed into the terminal at once, as it is for an agent that works in no
    run, with the ID that `cao ls` lists, as in `cao attach`. Exits with 3 if it is not certain that
    the agent took it.

    \b
    cao send tester "Use Python 3.12."
    cao send k3f9/tester --now - < message.txt
    """
    if len(words) not in (1, 2):
        raise UsageError(
            'expected [RUN|ROLE|ID] and TEXT; put TEXT in quotes: cao send "Mind the tabs."'
        )
    target = words[0] if len(words) > 1 else None
    text = sys.stdin.read() if words[-1] == "-" else words[-1]
    run, role = find_addressee(list_runs(state_folder(os.environ)), target, current_folder())
    if run is not None and not now:
        steer(run, demand_request({"do": "hint", "role": role, "text": text}))
        return
    if target is None or (run is not None and role is None):
        raise UsageError("--now needs one agent: name its role, such as cao send tester --now TEXT")
    with connected(os.environ, api) as client:
        delivery = client.send_input(named_terminal(client, target).id, text)
    if removed := delivery.removed_characters:
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
    cao set k3f9 max_review_cycles=5 response_timeout=3600
    """
    changes = [word.partition("=") for word in words if "=" in word]
    named = [word for word in words if "=" not in word]
    if not changes or len(named) > 1:
        raise UsageError("expected [RUN] and NAME=VALUE, for example: cao set max_rounds=12")
    for name, _, value in changes:
        read_change(name, value)
    found = _live(named[0] if named else None)
    requests = [Set(name, value) for name, _, value in changes]
    if found.is_live and any(loosens(_folder_of(found), request) for request in requests):
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise NotSteerable(NEEDS_PERSON)
        question = "Nothing passes in this run without what it requires. Let it pass without?"
        if not click.confirm(f"{found.id}: {question}", default=False, err=True):
            raise NotSteerable("nothing was changed")
    for request in requests:
        steer(found, request, agreed=True)


@click.command()
@click.argument("run", required=False, shell_complete=complete_live_runs)
def skip(run: str | None) -> None:
    """Count the review that is under way in RUN as approved, and go on. The report says so.

    RUN may be left out, as in `cao pause`. What the reviewer still writes does not count.

    \b
    cao skip k3f9
    """
    steer(_live(run), Skip())


def steer(run: RunView, request: Request, *, agreed: bool = False) -> None:
    check_request(run, request)
    check_no_gate_of(run.pid)
    asked = ask_run(_folder_of(run), request, agreed=agreed)
    click.echo(f"{run.id}: {printable(asked.text)}")


def _live(text: str | None) -> RunView:
    return choose_run(list_runs(state_folder(os.environ)), text, current_folder(), "steer")


def _folder_of(run: RunView) -> Folder:
    return run_folder(state_folder(os.environ), run.id)


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN] [KEY]", shell_complete=complete_live_runs)
@click.option("--role", shell_complete=complete_roles, help="Who asks, if several do.")
@api
def answer(words: tuple[str, ...], role: str | None, api: str | None) -> None:
    """Press KEY in the terminal of the agent of RUN that asks something.

    KEY is what its dialog takes: 1, y, Enter, Escape, Down and so on. Without it the question and
    its choices are printed. RUN may be left out, as in `cao pause`. Exits with 3 if the agent is
    still asking.

    \b
    cao answer 1
    cao answer k3f9 --role tester Escape
    """
    if len(words) > 2:
        raise UsageError("expected [RUN] and KEY, for example: cao answer 1")
    runs = list_runs(state_folder(os.environ))
    names = {name for run in runs if run.is_live for name in (run.id, short_name(run.id))}
    *named, key = words if words and words[-1] not in names else (*words, "")
    run = choose_run(runs, named[0] if named else None, current_folder(), "steer")
    check_live(run)
    with connected(os.environ, api) as client:
        if not key:
            _print_questions(client, run, role)
            return
        try:
            told = client.answer_question(run.id, key, role)
        except ApiRefused as error:
            if error.status_code in (400, 409, 422):
                raise NotSteerable(error.detail) from error
            raise
    click.echo(f"{run.id}: {one_line(str(told.get('text')))}")
    if told.get("heard") is not True:
        sys.exit(EXIT_UNCONFIRMED)


def _print_questions(client: ApiClient, run: RunView, role: str | None) -> None:
    asking = {
        name: question
        for name, terminal in run.terminals.items()
        if role in (None, name) and (question := client.get_question(terminal)) is not None
    }
    if not asking:
        raise NotSteerable(f"no agent of the run {run.id} asks anything")
    for name, question in asking.items():
        click.echo(f"{name} asks: {printable(str(question.get('text')))}")
        for choice in question.get("choices") or ():
            click.echo(
                f"  {one_line(str(choice.get('key'))):<8} {one_line(str(choice.get('label')))}"
            )
        click.echo(f"Answer: cao answer {short_name(run.id)} --role {name} KEY")


@click.command()
@click.argument("names", nargs=-1, shell_complete=complete_ended)
@click.option("--session", "sessions", multiple=True, help="End all agents of a run or session.")
@click.option("--all", "here", is_flag=True, help="End all runs and agents of this folder.")
@click.option("--everywhere", is_flag=True, help="End all runs and agents there are; asks first.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@api
def stop(
    names: tuple[str, ...],
    sessions: tuple[str, ...],
    here: bool,
    everywhere: bool,
    yes: bool,
    api: str | None,
) -> None:
    """End a run or terminals: ask each agent to quit, and remove its window.

    NAMES are runs, as in `cao pause`, or terminals, by id or role; without any it is the run of
    this folder, or the only one that is running. A run at work is saved, and can be resumed. Of one
    that has ended, the agents it left are ended.

    To a folder belong all that work in it or below it, and its runs in work trees.

    \b
    cao stop                  # the run of this folder, with its agents
    cao stop tester           # one agent of the run of this folder
    cao stop --all            # all runs and agents of this folder
    """
    runs, folder = list_runs(state_folder(os.environ)), current_folder()
    is_wide = bool(sessions or here or everywhere)
    others = [name for name in names if not is_surely_run(runs, name)]
    meant = [choose_run(runs, name, folder) for name in names if name not in others]
    if not (names or is_wide):
        meant = [choose_run(runs, None, folder, "stop")]
    agents: list[Listed] = []
    if is_wide or others:
        with connected(os.environ, api) as client:
            known = all_terminals(client)
            agents, more = _choose_named(client, runs, others)
        meant += more
    if is_wide:
        own = {run.id for run in runs if here and run.lies_in(folder)}
        chosen = _choose_widely(known, sessions, folder if here else None, own, everywhere)
        # A server that is named has agents of its own runs alone.
        every = everywhere and name_server(os.environ, api) is None
        # Those of a folder also if they have no agents yet.
        taken = own | {one.run for one in chosen}
        live = [run for run in runs if run.is_live and (every or run.id in taken)]
        if here and not (chosen or live):
            click.echo(f"No terminal works in {printable(str(folder))}.")
        if here and (elsewhere := len(known) - len(chosen)):
            click.echo(f"{elsewhere} elsewhere: `cao ls` shows them, --everywhere ends them.")
        if everywhere and not yes and (chosen or live):
            for line in table(chosen, time.time()) if chosen else ():
                click.echo(line)
            for run in live:
                click.echo(f"At work, to be stopped first: {one_line(run.label)}")
            if not confirm("End all of these?", "ended"):
                return
        agents, meant = agents + chosen, meant + live
    left, busy = _stop_runs(meant, is_wide)
    if agents or left:
        wanted = {one.id for one in agents if one.run not in busy}
        try:
            _end_agents(api, runs, wanted, left)
        except ApiUnreachable:
            # It was the server of a run that was stopped, and ended just now.
            _end_agents(api, runs, wanted, left)


def _choose_widely(
    known: Sequence[Listed],
    sessions: Sequence[str],
    folder: Path | None,
    own: Collection[str],
    everywhere: bool,
) -> list[Listed]:
    unknown = set(sessions) - {name for one in known for name in (one.session, one.run)}
    if unknown:
        raise NotFound("session", unknown.pop(), sorted({one.session for one in known}))
    return [
        one
        for one in known
        if everywhere
        or not {one.session, one.run}.isdisjoint(sessions)
        or (folder and (one.run in own or one.works_in(folder)))
    ]


def _choose_named(
    client: ApiClient, runs: Sequence[RunView], names: Iterable[str]
) -> tuple[list[Listed], list[RunView]]:
    chosen, meant = [], []
    for name in names:
        fitting = runs_that_fit(runs, name)
        try:
            found = named_terminal(client, name)
        except NotFound:
            if not fitting:
                raise
            meant.append(choose_run(runs, name, current_folder()))
            continue
        there = [run.id for run in fitting if run.is_live or run.has_agents]
        if there:
            raise UsageError(
                f"{name!r} could be the run {there[0]} or the terminal {found.label}; write more"
            )
        chosen.append(found)
    return chosen, meant


def _stop_runs(runs: Sequence[RunView], is_wide: bool) -> tuple[list[RunView], list[str]]:
    """Stop runs; return those that ended before and left agents, and the ids of those at work.

    If many are meant, one that cannot be stopped keeps no other from it.
    """
    left, busy = [], []
    for run in {run.id: run for run in runs}.values():
        if not run.is_live:
            if run.has_agents or not run.is_readable:
                left.append(run)
            else:
                _say_none_left(run)
            continue
        try:
            steer(run, Stop())
        except NotSteerable as error:
            # It has ended by itself, or cannot be asked.
            if not is_wide:
                raise
            click.echo(f"{run.id}: {printable(str(error))}")
        now = read_run(_folder_of(run))
        _say_how_to_resume(now)
        if now.is_live:
            busy.append(run.id)
            click.echo(f"{run.id}: It keeps its agents until it has stopped.")
    return left, busy


def _end_agents(
    api: str | None, runs: Iterable[RunView], wanted: Collection[str], left: Collection[RunView]
) -> None:
    """End terminals, and the agents that ended runs have left; the runs forget theirs."""
    with connected(os.environ, api) as client:
        known = all_terminals(client)
        ended = {one.id: one for one in known if one.id in wanted}
        for run in left:
            found = {one.id: one for one in known if one.session == session_name_of(run.id)}
            if not found:
                forget_agents(_folder_of(run))
                _say_none_left(run)
            ended |= found
        for terminal in ended.values():
            client.exit_terminal(terminal.id)
            click.echo(f"Ended {terminal.label}")
    for run in runs:
        if not run.is_live and run.has_agents and ended.keys() >= {*run.terminals.values()}:
            forget_agents(_folder_of(run))
            if run in left:
                _say_how_to_resume(run)


def _say_none_left(run: RunView) -> None:
    click.echo(f"{run.id}: It has ended, and has no agents any more.")
    _say_how_to_resume(run)


def _say_how_to_resume(run: RunView) -> None:
    if run.is_live or run.is_unfinished:
        click.echo(f"Resume it, with new agents: cao resume {run.id}")
