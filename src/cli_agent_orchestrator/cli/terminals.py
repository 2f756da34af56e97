"""The server of a command and its terminals; commands about these: ls, attach, output."""

import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
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
from .imports import importing
from .runs import (
    LONGEST_FOLDER,
    SHORTEST_FOLDER,
    end_of,
    fitted,
    room_for_last,
    terminal_width,
    without,
)


def connected(
    environ: Mapping[str, str], api: str | None = None
) -> AbstractContextManager[ApiClient]:
    """Return a client of the server to use, for as long as the context lasts."""
    return client_for(environ, api, importing=importing)


NOT_TOLD = "-"
NO_SUCH_THING = 404
NO_SUCH_ROUTE = (404, 405, 501)


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
        """Does the agent work in a folder, or below it?"""
        told = self.raw.get("working_directory")
        if not isinstance(told, str) or not Path(told).is_absolute():
            return False
        try:
            return Path(told).resolve().is_relative_to(folder.resolve())
        except (OSError, RuntimeError, ValueError):
            # A loop of links, a name that is too long or no name at all: nobody works there.
            return False


def read_terminal(raw: Mapping[str, Any]) -> Listed:
    """Return a terminal as a server tells it."""
    session = _word(raw, "session_name", "tmux_session")
    return Listed(
        id=_word(raw, "id"),
        name=_word(raw, "name", "tmux_window"),
        session=session,
        provider=_word(raw, "provider"),
        status=_status_words(raw),
        permissions=_word(raw, "permissions"),
        folder=_word(raw, "working_directory"),
        role=_word(raw, "role", "name", "tmux_window"),
        run=run_of_session(session) or session,
        created=_time(raw.get("created_at")),
        raw=dict(raw),
    )


def all_terminals(client: ApiClient) -> list[Listed]:
    """Return all terminals of all sessions."""
    terminals = _listed(client)
    if terminals is None:
        raise OrchestratorError(
            f"the server at {client.base_url} cannot list its terminals; name one by its id"
        )
    return terminals


def find_terminal(client: ApiClient, wanted: str) -> Listed:
    """Return the one terminal with that id, the beginning of it, or that role or name."""
    terminals = _listed(client)
    if terminals is None:
        return _asked_for(client, wanted)
    named = [t for t in terminals if t.id != NOT_TOLD]
    exact = [t for t in named if wanted in (t.id, t.name, t.role)]
    found = exact or [t for t in named if t.id.startswith(wanted)]
    if not found:
        of_one = len({t.run for t in named}) == 1
        raise NotFound("terminal", wanted, [t.label if of_one else t.full_label for t in named])
    if len(found) > 1:
        names = ", ".join(t.full_label for t in found)
        raise UsageError(f"{wanted!r} could be any of {names}; name it by its id")
    return found[0]


def _asked_for(client: ApiClient, wanted: str) -> Listed:
    """Return the terminal with that id, of a server that cannot list what it has."""
    try:
        return read_terminal({"id": wanted, **client.get_terminal(wanted)})
    except ApiRefused as error:
        if error.status_code == NO_SUCH_THING:
            raise UsageError(f"the server has no terminal with the id {wanted!r}") from error
        raise


def _listed(client: ApiClient) -> list[Listed] | None:
    """Return all terminals, None if the server cannot list them."""
    try:
        sessions = client.list_sessions()
    except ApiRefused as error:
        if error.status_code in NO_SUCH_ROUTE:
            return None
        raise
    return [
        read_terminal(_completed(client, raw))
        for name in map(_session_name, sessions)
        if name
        for raw in _terminals_of(client, name)
    ]


def _terminals_of(client: ApiClient, session: str) -> Iterator[Answer]:
    try:
        listed = client.get_session(session).get("terminals")
        if not isinstance(listed, list):
            listed = client.list_terminals(session)
    except UsageError:  # it has a name that cannot be asked for
        listed = [{}]
    for raw in listed:
        if isinstance(raw, dict):
            yield {"session_name": session, **raw}


def _completed(client: ApiClient, raw: Answer) -> Answer:
    """Ask for the status and the folder where the list does not tell them."""
    name = raw.get("id")
    if not isinstance(name, str) or not name:
        return raw
    if "status" not in raw:
        raw = {**_or_nothing(client.get_terminal, name), **raw}
    if "working_directory" not in raw:
        raw = {**_or_nothing(client.get_working_directory, name), **raw}
    return raw


def _or_nothing(ask: Callable[[str], Answer], name: str) -> Answer:
    try:
        return ask(name)
    except (ApiRefused, UsageError):
        return {}


def _session_name(session: object) -> str:
    if isinstance(session, dict):
        session = session.get("name") or session.get("id")
    return session if isinstance(session, str) else ""


def _word(raw: Mapping[str, Any], *names: str) -> str:
    value = next((raw[name] for name in names if raw.get(name) not in (None, "")), NOT_TOLD)
    return one_line(str(value))


def _time(value: object) -> float | None:
    try:
        at = float(value) if isinstance(value, int | float) else math.inf
    except OverflowError:
        return None
    return at if math.isfinite(at) else None


def _status_words(raw: Mapping[str, Any]) -> str:
    if raw.get("alive", True):
        return _word(raw, "status")
    code = raw.get("exit_code")
    return "dead" + ("" if code is None else f" (exit code {one_line(str(code))})")


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


def outside_tmux(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which a tmux can be attached to from inside another one."""
    return {name: value for name, value in environ.items() if name not in OWN_TMUX}


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
    if width is not None:
        # The run by the letters that name it, and no column that says nothing.
        rows = [(row[0], row[1], short_name(row[2]), *row[3:]) for row in rows]
        rows = [tuple(row[n] for n in told) for row in rows]
        rows = _narrowed(rows, width)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    if width is not None:
        widths[-1] = max(width - sum(widths[:-1]) - 2 * (len(widths) - 1), SHORTEST_FOLDER)
        rows = [(*row[:-1], end_of(row[-1], widths[-1])) for row in rows]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield fitted("  ".join(cells).rstrip(), width)


def _narrowed(rows: list[tuple[str, ...]], width: int) -> list[tuple[str, ...]]:
    """Return rows with room for the last part of each folder: what tells least goes first."""
    part = max(len(Path(row[-1]).name) for row in rows) + len("…/")
    for name in FOLDED_FIRST:
        if room_for_last(rows, width) >= min(max(part, SHORTEST_FOLDER), LONGEST_FOLDER):
            break
        rows = without(rows, name)
    return rows


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
    if NOT_TOLD in (found.session, found.name):
        raise OrchestratorError(f"the server does not say in which window of tmux {found.id} is")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "attach needs a terminal, for input and output; "
            f"`cao output {found.id} --screen` prints what it shows"
        )
    socket = read_server_config(os.environ).tmux_socket
    hint = leave_words(*read_prefixes(socket, os.environ))
    click.echo(hint)
    command = attach_command(socket, found.session, found.name, hint)
    os.execvpe(command[0], command, outside_tmux(os.environ))


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
    evidence = why.get("evidence")
    for piece in evidence if isinstance(evidence, list) else ():
        if not isinstance(piece, dict):
            continue
        age = f"{_age(piece.get('at'), now):>8} s ago"
        when = f"{'earlier':>14}" if piece.get("found") is True else age
        says = _told(piece, "status", "nothing").replace("_", " ")
        detail = _told(piece, "detail")
        yield f"  {when}  {_told(piece, 'source'):<15} {says:<20} {detail}".rstrip()


def _age(at: object, now: float) -> str:
    try:
        return f"{max(0.0, now - at):.1f}" if isinstance(at, int | float) else NOT_TOLD
    except OverflowError:
        return NOT_TOLD


def _told(answer: Mapping[str, Any], name: str, otherwise: str = NOT_TOLD) -> str:
    value = answer.get(name)
    return otherwise if value is None else one_line(str(value))
