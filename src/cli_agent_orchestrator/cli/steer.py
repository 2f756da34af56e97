"""Commands that steer a run under way: pause, resume, send, set, skip, answer."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ..client.client import ApiClient
from ..errors import ApiRefused, NotSteerable, UsageError
from ..pipeline.steering import Pause, Set, Skip, Stop, Unpause, Wish, demand_wish
from ..runs.control import check_live
from ..runs.record import short_name
from ..runs.view import (
    RunView,
    choose_live_run,
    choose_run_to_resume,
    find_addressee,
    list_runs,
    read_run,
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
from .connect import connected
from .imports import importing
from .printable import one_line, printable
from .terminals import EXIT_UNCONFIRMED, api, named_terminal

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
    """End a run and its agents."""
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
    """Print what the agents of a run ask, each with the keys that answer it."""
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
