"""The server of a command and its terminals; commands about these: ls, attach, output."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from ..client.client import Answer, ApiClient
from ..core.models import Feature, TerminalStatus
from ..core.text import age, one_line, printable
from ..errors import ApiRefused, NotFound, OrchestratorError, TmuxMissing, UsageError
from ..hosting.connect import client_for
from ..hosting.user import read_server_config
from ..runs.record import run_of_session, short_name
from ..runs.view import find_agent, list_runs
from ..settings.config import state_folder
from .complete import complete_agents
from .imports import importing, terminal_width
from .runs import (
    LONGEST_FOLDER,
    SHORTEST_FOLDER,
    aligned,
    end_of,
    folded,
    room_for_last,
)


def connected(
    environ: Mapping[str, str], api: str | None = None
) -> AbstractContextManager[ApiClient]:
    return client_for(environ, api, importing=importing)


NOT_TOLD = "-"
FOREVER = 1e12
"""No Unix time is later."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A terminal as it is shown: each text in one line, `-` for what is not told."""

    id: str
    name: str
    session: str
    provider: str
    status: str
    permissions: str
    folder: str
    role: str
    """What the agent is for; the terminal's name if the server does not tell."""
    run: str
    """The run it belongs to; its session if it is none of a run."""
    created: float | None
    """Unix time of its start."""
    raw: Answer = field(repr=False)
    """What the server told."""

    @property
    def label(self) -> str:
        return f"{self.id} ({self.role})"

    @property
    def full_label(self) -> str:
        """As it is named beside terminals of other runs."""
        return f"{self.id} ({self.role} of {self.run})"

    def works_in(self, folder: Path) -> bool:
        told = self.raw.get("working_directory")
        if not isinstance(told, str) or not Path(told).is_absolute():
            return False
        try:
            return Path(told).resolve().is_relative_to(folder.resolve())
        except (OSError, RuntimeError, ValueError):
            # A loop of links, a name that is too long or no name at all: nobody works there.
            return False


def read_terminal(raw: Mapping[str, Any]) -> Listed:
    session = _word(raw, "session_name", "tmux_session")
    status = _word(raw, "status")
    if not raw.get("alive", True):
        code = raw.get("exit_code")
        status = "dead" + ("" if code is None else f" (exit code {one_line(str(code))})")
    created = raw.get("created_at")
    is_time = isinstance(created, int | float) and 0 <= created < FOREVER
    return Listed(
        id=_word(raw, "id"),
        name=_word(raw, "name", "tmux_window"),
        session=session,
        provider=_word(raw, "provider"),
        status=status,
        permissions=_word(raw, "permissions"),
        folder=_word(raw, "working_directory"),
        role=_word(raw, "role", "name", "tmux_window"),
        run=run_of_session(session) or session,
        created=created if is_time else None,
        raw=dict(raw),
    )


def all_terminals(client: ApiClient) -> list[Listed]:
    """Return all terminals of all sessions; what a list does not tell is asked for."""
    found = []
    sessions = [one for one in client.list_sessions() if isinstance(one, dict)]
    for name in (one.get("name") or one.get("id") for one in sessions):
        if not isinstance(name, str):
            continue
        listed = client.get_session(name).get("terminals")
        for raw in listed if isinstance(listed, list) else client.list_terminals(name):
            if isinstance(raw, dict):
                found.append(read_terminal(_completed(client, {"session_name": name, **raw})))
    return found


def _completed(client: ApiClient, raw: Answer) -> Answer:
    name = raw.get("id")
    asks = {"status": client.get_terminal, "working_directory": client.get_working_directory}
    for field_name, ask in asks.items():
        if isinstance(name, str) and name and field_name not in raw:
            with suppress(ApiRefused):
                raw = {**ask(name), **raw}
    return raw


def find_terminal(client: ApiClient, wanted: str) -> Listed:
    """Return the one terminal with that id, the beginning of it, or that role or name."""
    named = [t for t in all_terminals(client) if t.id != NOT_TOLD]
    exact = [t for t in named if wanted in (t.id, t.name, t.role)]
    found = exact or [t for t in named if t.id.startswith(wanted)]
    if not found:
        of_one = len({t.run for t in named}) == 1
        raise NotFound("terminal", wanted, [t.label if of_one else t.full_label for t in named])
    if len(found) > 1:
        names = ", ".join(t.full_label for t in found)
        raise UsageError(f"{wanted!r} could be any of {names}; name it by its id")
    return found[0]


def _word(raw: Mapping[str, Any], *names: str) -> str:
    value = next((raw[name] for name in names if raw.get(name) not in (None, "")), NOT_TOLD)
    return one_line(str(value))


USUAL_PREFIX = "C-b"
LEAVE_KEY = "d"
HINT_MILLISECONDS = 8000
OWN_TMUX = ("TMUX", "TMUX_PANE")
"""By these a program knows that it runs in a tmux; with them set, attaching is refused."""
# C-b, M-a, C-Space, F12
PREFIX_PATTERN = r"((?:[CMS]-)*)([!-~]|[A-Za-z][A-Za-z0-9]+)"
MODIFIERS = {"C": "Ctrl", "M": "Alt", "S": "Shift"}


def attach_command(socket: str, session: str, window: str, hint: str) -> tuple[str, ...]:
    """Return what attaches to a window and shows there for a while how to leave it.

    Among several who look at it, nobody's small terminal makes the agent's window smaller.
    """
    return (
        *("tmux", "-u", "-L", socket),
        *("attach", "-f", "ignore-size", "-t", f"={session}:={window}", ";"),
        *("display-message", "-d", str(HINT_MILLISECONDS), hint.replace("#", "##")),
    )


def leave_words(prefix: str, outer_prefix: str | None) -> str:
    """Say how an agent's window is left; `outer_prefix` is that of the person's own tmux, if any.

    >>> leave_words("C-b", None)
    'Leave with Ctrl-b d'
    """
    key = key_words(prefix)
    if outer_prefix != prefix:
        return f"Leave with {key} {LEAVE_KEY}"
    return f"Leave with {key} {key} {LEAVE_KEY} (the first {key} is for your own tmux)"


def key_words(key: str) -> str:
    """Return a key of tmux as it is written on a keyboard; the usual one for what is none.

    >>> key_words("C-Space")
    'Ctrl-Space'
    """
    found = re.fullmatch(PREFIX_PATTERN, key)
    if found is None or key == "None":
        return key_words(USUAL_PREFIX)
    modifiers = (MODIFIERS[letter] for letter in found[1].split("-") if letter)
    return "-".join((*modifiers, found[2]))


def read_prefixes(socket: str, environ: Mapping[str, str]) -> tuple[str, str | None]:
    """Return the prefix keys of the agents' tmux, and of the one that the command is typed in."""
    inner = _prefix(["-L", socket], environ)
    return inner, _prefix([], environ) if environ.get("TMUX") else None


def _prefix(server: Sequence[str], environ: Mapping[str, str]) -> str:
    try:
        shown = subprocess.run(
            ["tmux", *server, "show-options", "-gv", "prefix"],
            env=dict(environ),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError:
        raise TmuxMissing("tmux is not installed; `cao doctor` says how to get it") from None
    return shown.stdout.strip() or USUAL_PREFIX


EXIT_UNCONFIRMED = 3
FOLDED_FIRST = ("PERMISSIONS", "AGE", "AGENT")
"""Columns that a narrow terminal does not show."""
UNKNOWN_ADVICE = (
    "Nothing is typed into it. `cao attach {id}` shows it; "
    "`cao doctor` says whether its version was tested."
)

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
api = click.option("--api", metavar="URL", help="The server.  [CAO_API]")


@click.command()
@as_json
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
    """Yield terminals as columns that fit a width, if one is given: the last is cut first."""
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
    told = [n for n in range(len(rows[0])) if {row[n] for row in rows[1:]} - {NOT_TOLD}]
    if width is None:
        yield from aligned(rows)
        return
    # The run by the letters that name it, and no column that says nothing.
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

    From inside your own tmux press Ctrl-b twice: Ctrl-b Ctrl-b d. It is said again when you attach.

    TERMINAL is what `cao ls` lists: an id or the beginning of one; or the role of an agent in the
    run of this folder, or, behind the name of a run, in another one.

    \b
    cao attach tester
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
    hint = leave_words(*read_prefixes(socket, os.environ))
    click.echo(hint)
    command = attach_command(socket, found.session, found.name, hint)
    environ = {name: value for name, value in os.environ.items() if name not in OWN_TMUX}
    os.execvpe(command[0], command, environ)


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

    TERMINAL is as in `cao attach`. Characters that would control your terminal are shown as �,
    unless --raw is given. What --why calls `earlier` was so before the server began.

    \b
    cao output programmer
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
    """Return the terminal that a text names: by role, by RUN/ROLE, by id or name."""
    agent = find_agent(list_runs(state_folder(os.environ)), text, Path.cwd().resolve())
    if agent is None:
        return find_terminal(client, text)
    try:
        return find_terminal(client, agent)
    except NotFound as error:
        raise NotFound(f"terminal of {text}", agent, error.known) from None


def _print_why(client: ApiClient, found: Listed, as_json: bool) -> None:
    if Feature.EXPLAIN not in client.features():
        raise OrchestratorError(f"the server at {client.base_url} cannot explain a status")
    why = client.explain(found.id)
    if as_json:
        click.echo(json.dumps(why, indent=2))
        return
    status = _told(why, "status")
    click.echo(f"{found.role} ({found.id}, {found.provider}) is {status}")
    click.echo(f"  reason: {_told(why, 'reason')}")
    for line in _evidence_lines(why, time.time()):
        click.echo(line)
    if status == TerminalStatus.UNKNOWN:
        click.echo(UNKNOWN_ADVICE.format(id=found.id))


def _evidence_lines(why: Answer, now: float) -> Iterator[str]:
    for piece in why.get("evidence") or ():
        age = f"{max(0.0, now - piece['at']):.1f}" if "at" in piece else NOT_TOLD
        when = f"{'earlier':>14}" if piece.get("found") is True else f"{age:>8} s ago"
        says = _told(piece, "status", "nothing").replace("_", " ")
        detail = _told(piece, "detail")
        yield f"  {when}  {_told(piece, 'source'):<15} {says:<20} {detail}".rstrip()


def _told(answer: Mapping[str, Any], name: str, otherwise: str = NOT_TOLD) -> str:
    value = answer.get(name)
    return otherwise if value is None else one_line(str(value))
