"""The server of a command and its terminals; commands about these: ls, attach, output."""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import click

from ..client.client import Answer, ApiClient
from ..core.codec import Private
from ..core.models import Feature, TerminalStatus
from ..core.text import age, one_line, printable
from ..errors import ApiRefused, NotFound, OrchestratorError, UsageError
from ..hosting.connect import client_for
from ..hosting.user import read_server_config
from ..runs.record import run_of_session, short_name
from ..runs.view import find_agent, list_runs
from ..settings.layout import state_folder
from .complete import complete_agents
from .imports import current_folder, terminal_width
from .runs import LONGEST_FOLDER, SHORTEST_FOLDER, aligned, end_of, folded, room_for_last


def connected(
    environ: Mapping[str, str], api: str | None = None
) -> AbstractContextManager[ApiClient]:
    return client_for(environ, api)


NOT_TOLD = "-"


class Listed(Private, frozen=True):
    id: str
    name: str
    session: str
    provider: str
    status: str
    permissions: str
    folder: str
    role: str
    run: str
    """Its session, if it belongs to no run."""
    created: float | None
    raw: Answer

    @property
    def label(self) -> str:
        return f"{self.id} ({self.role})"

    @property
    def full_label(self) -> str:
        return f"{self.id} ({self.role} of {self.run})"

    def works_in(self, folder: Path) -> bool:
        told = self.raw.get("working_directory")
        if not isinstance(told, str) or not Path(told).is_absolute():
            return False
        # A loop of links, a name that is too long or no name at all.
        with suppress(OSError, RuntimeError, ValueError):
            return Path(told).resolve().is_relative_to(folder.resolve())
        return False


def read_terminal(raw: Mapping[str, Any]) -> Listed:
    session = _first(raw, "session_name", "tmux_session")
    status = _first(raw, "status")
    if not raw.get("alive", True):
        code = raw.get("exit_code")
        status = "dead" + ("" if code is None else f" (exit code {one_line(str(code))})")
    created = raw.get("created_at")
    return Listed(
        id=_first(raw, "id"),
        name=_first(raw, "name", "tmux_window"),
        session=session,
        provider=_first(raw, "provider"),
        status=status,
        permissions=_first(raw, "permissions"),
        folder=_first(raw, "working_directory"),
        role=_first(raw, "role", "name", "tmux_window"),
        run=run_of_session(session) or session,
        created=created if isinstance(created, int | float) else None,
        raw=dict(raw),
    )


def _first(raw: Mapping[str, Any], *names: str, otherwise: str = NOT_TOLD) -> str:
    value = next((raw[name] for name in names if raw.get(name) not in (None, "")), otherwise)
    return one_line(str(value))


def all_terminals(client: ApiClient) -> list[Listed]:
    """Return all terminals of all sessions; ask again for what a list does not tell."""
    found = []
    asks = {"status": client.get_terminal, "working_directory": client.get_working_directory}
    for session in client.list_sessions():
        name = session.get("name") or session.get("id") if isinstance(session, dict) else None
        if not isinstance(name, str):
            continue
        listed = client.get_session(name).get("terminals")
        for raw in listed if isinstance(listed, list) else client.list_terminals(name):
            if not (isinstance(raw, dict) and isinstance(raw.get("id"), str) and raw["id"]):
                continue
            for key, ask in asks.items():
                if key not in raw:
                    with suppress(ApiRefused):
                        raw = {**ask(raw["id"]), **raw}
            found.append(read_terminal({"session_name": name, **raw}))
    return found


def find_terminal(client: ApiClient, wanted: str) -> Listed:
    """Return the one terminal with that id, the beginning of it, or that role or name."""
    known = all_terminals(client)
    exact = [t for t in known if wanted in (t.id, t.name, t.role)]
    found = exact or [t for t in known if t.id.startswith(wanted)]
    if not found:
        of_one = len({t.run for t in known}) == 1
        raise NotFound("terminal", wanted, [t.label if of_one else t.full_label for t in known])
    if len(found) > 1:
        names = ", ".join(t.full_label for t in found)
        raise UsageError(f"{wanted!r} could be any of {names}; name it by its id")
    return found[0]


LEAVE = "Leave with Ctrl-b d"
LEAVE_NESTED = "Leave with Ctrl-b Ctrl-b d, or Ctrl-b d if your own tmux has another prefix"


def attach_command(socket: str, session: str, window: str, hint: str) -> tuple[str, ...]:
    return (
        *("tmux", "-u", "-L", socket),
        # A small terminal must not make the agent's window smaller.
        *("attach", "-f", "ignore-size", "-t", f"={session}:={window}", ";"),
        *("display-message", "-d", "8000", hint),  # for 8 s
    )


EXIT_UNCONFIRMED = 3
FOLDED_FIRST = ("PERMISSIONS", "AGE", "AGENT", "RUN")
"""Columns that a narrow terminal does not show."""
UNKNOWN_ADVICE = (
    "Nothing is typed into it. `cao attach {id}` shows it; "
    "`cao doctor` says whether its version was tested."
)

api = click.option("--api", metavar="URL", help="The server.  [CAO_API]")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@api
def ls(as_json: bool, api: str | None) -> None:
    """List agents: role, run, what each one does, how old it is, and where it works."""
    with connected(os.environ, api) as client:
        terminals = all_terminals(client)
    if as_json:
        click.echo(json.dumps([terminal.raw for terminal in terminals], indent=2))
    elif not terminals:
        click.echo("No terminals. Start a run with: cao run task.md")
    else:
        for line in table(terminals, time.time(), terminal_width()):
            click.echo(line)


def table(terminals: Iterable[Listed], now: float, width: int | None = None) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [
        ("ID", "ROLE", "RUN", "AGENT", "STATUS", "AGE", "PERMISSIONS", "FOLDER")
    ]
    rows += [
        (
            *(one.id, one.role, one.run, one.provider, one.status),
            NOT_TOLD if one.created is None else age(now - one.created),
            *(one.permissions, one.folder),
        )
        for one in terminals
    ]
    if width is None:
        yield from aligned(rows)
        return
    # The run by the letters that name it, and no column that says nothing.
    told = [n for n in range(len(rows[0])) if {row[n] for row in rows[1:]} - {NOT_TOLD}]
    rows = [(row[0], row[1], short_name(row[2]), *row[3:]) for row in rows]
    rows = [tuple(row[n] for n in told) for row in rows]
    part = max(len(Path(row[-1]).name) for row in rows) + len("…/")
    rows = folded(rows, FOLDED_FIRST, width, min(max(part, SHORTEST_FOLDER), LONGEST_FOLDER))
    most = max(room_for_last(rows, width), SHORTEST_FOLDER)
    yield from aligned([(*row[:-1], end_of(row[-1], most)) for row in rows], width)


@click.command()
@click.argument("terminal", shell_complete=complete_agents)
@api
def attach(terminal: str, api: str | None) -> None:
    """Look at TERMINAL and type into it, in a real tmux. Leave it with Ctrl-b d.

    TERMINAL is what `cao ls` lists: an id or the beginning of one; or the role of an agent in the
    run of this folder, or, behind the name of a run, in another one.

    \b
    cao attach k3f9/tester
    """
    with connected(os.environ, api) as client:
        found = named_terminal(client, terminal)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "attach needs a terminal, for input and output; "
            f"`cao output {found.id} --screen` prints what it shows"
        )
    socket = read_server_config(os.environ).tmux_socket
    hint = LEAVE_NESTED if os.environ.get("TMUX") else LEAVE
    click.echo(hint)
    command = attach_command(socket, found.session, found.name, hint)
    # With these, by which a program knows that it runs in a tmux, attaching is refused.
    os.environ.pop("TMUX", None)
    os.environ.pop("TMUX_PANE", None)
    os.execvp(command[0], command)


@click.command()
@click.argument("terminal", shell_complete=complete_agents)
@click.option("--full", "mode", flag_value="full", help="The whole scrollback.")
@click.option("--screen", "mode", flag_value="screen", help="What is visible now.")
@click.option(
    "--last", "mode", flag_value="last", default="last", help="The last answer (default)."
)
@click.option(
    "--why", "mode", flag_value="why", help="Why it has its status: each signal, value and age."
)
@click.option("--raw", is_flag=True, help="As it is, control characters and all: for pipes.")
@click.option("--json", "as_json", is_flag=True, help="With --why: print JSON.")
@api
def output(terminal: str, mode: str, raw: bool, as_json: bool, api: str | None) -> None:
    """Print the last answer of the agent in TERMINAL, its screen, its scrollback or its status.

    TERMINAL is as in `cao attach`. What --why calls `earlier` was so before the server began.

    \b
    cao output k3f9/tester --screen
    cao output analyst --why
    """
    with connected(os.environ, api) as client:
        if mode == "why":
            _print_why(client, named_terminal(client, terminal), as_json)
            return
        text = client.get_output(named_terminal(client, terminal).id, mode)
    if raw:
        click.echo(text.encode("utf-8", "surrogatepass"), nl=False)
    else:
        # A screen has empty rows below what is on it, which would push that out of sight.
        click.echo(printable(text.rstrip() if mode == "screen" else text))


def named_terminal(client: ApiClient, text: str) -> Listed:
    agent = find_agent(list_runs(state_folder(os.environ)), text, current_folder())
    try:
        return find_terminal(client, agent or text)
    except NotFound as error:
        if agent is None:
            raise
        raise NotFound(f"terminal of {text}", agent, error.known) from None


def _print_why(client: ApiClient, found: Listed, as_json: bool) -> None:
    if Feature.EXPLAIN not in client.features():
        raise OrchestratorError(f"the server at {client.base_url} cannot explain a status")
    why = client.explain(found.id)
    if as_json:
        click.echo(json.dumps(why, indent=2))
        return
    status = _first(why, "status")
    click.echo(f"{found.role} ({found.id}, {found.provider}) is {status}")
    click.echo(f"  reason: {_first(why, 'reason')}")
    for piece in why.get("evidence") or ():
        seconds = f"{max(0.0, time.time() - piece['at']):.1f}" if "at" in piece else NOT_TOLD
        when = f"{'earlier':>14}" if piece.get("found") is True else f"{seconds:>8} s ago"
        says = _first(piece, "status", otherwise="nothing").replace("_", " ")
        line = f"  {when}  {_first(piece, 'source'):<15} {says:<20} {_first(piece, 'detail')}"
        click.echo(line.rstrip())
    if status == TerminalStatus.UNKNOWN:
        click.echo(UNKNOWN_ADVICE.format(id=found.id))
