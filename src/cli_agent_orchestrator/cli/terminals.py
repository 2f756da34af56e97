"""Commands about terminals: ls, attach, send, output, stop, explain."""

import json
import os
import sys
import time
from typing import Any

import click

from cli_agent_orchestrator.cli.connect import connected
from cli_agent_orchestrator.cli.environment import read_server_config
from cli_agent_orchestrator.client import ApiClient
from cli_agent_orchestrator.errors import NotFound, OrchestratorError, TmuxMissing, UsageError
from cli_agent_orchestrator.models import TerminalStatus

EXIT_UNCONFIRMED = 3
UNKNOWN_ADVICE = (
    "Nothing is typed into it. `cao attach {id}` shows it; "
    "`cao doctor` says whether its version was tried."
)

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


@click.command()
@as_json
def ls(as_json: bool) -> None:
    """List sessions and terminals with their status."""
    with connected(os.environ) as client:
        terminals = all_terminals(client)
    if as_json:
        click.echo(json.dumps(terminals, indent=2))
        return
    if not terminals:
        click.echo("No terminals. Start a run with: cao run task.md")
        return
    rows = [("ID", "SESSION", "NAME", "AGENT", "STATUS")]
    rows += [
        (t["id"], t["session_name"], t["name"], t["provider"], _status_words(t)) for t in terminals
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


@click.command()
@click.argument("terminal")
def attach(terminal: str) -> None:
    """Look at TERMINAL and type into it, in a real tmux. Leave it with Ctrl-B D.

    TERMINAL is an id, the beginning of one, or a name.
    """
    with connected(os.environ) as client:
        found = find_terminal(client, terminal)
    socket = read_server_config(os.environ).tmux_socket
    target = f"={found['session_name']}:={found['name']}"
    env = {name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE")}
    # Among several who look at it, nobody's small terminal makes the agent's window smaller.
    try:
        os.execvpe(
            "tmux", ["tmux", "-u", "-L", socket, "attach", "-f", "ignore-size", "-t", target], env
        )
    except FileNotFoundError:
        raise TmuxMissing("tmux is not installed; `cao doctor` says how to get it") from None


@click.command()
@click.argument("terminal")
@click.argument("message", required=False)
def send(terminal: str, message: str | None) -> None:
    """Send MESSAGE to the agent in TERMINAL; without MESSAGE, what comes on standard input.

    Ends with 0 only if the agent took the message; with 3 if that could not be seen.
    """
    text = message if message is not None else sys.stdin.read()
    with connected(os.environ) as client:
        delivery = client.send_input(find_terminal(client, terminal)["id"], text)
    removed = delivery.removed_characters
    if removed:
        click.echo(f"{removed} control characters were removed from the message.", err=True)
    if not delivery.confirmed:
        click.echo(f"Not confirmed: {delivery.detail}", err=True)
        sys.exit(EXIT_UNCONFIRMED)
    click.echo(f"Sent: {delivery.detail}")


@click.command()
@click.argument("terminal")
@click.option("--full", "mode", flag_value="full", help="The whole scrollback.")
@click.option("--screen", "mode", flag_value="screen", help="What is visible now.")
@click.option("--last", "mode", flag_value="last", default="last", help="The last answer (usual).")
def output(terminal: str, mode: str) -> None:
    """Print the last answer of the agent in TERMINAL, its screen or its scrollback."""
    with connected(os.environ) as client:
        click.echo(client.get_output(find_terminal(client, terminal)["id"], mode))


@click.command()
@click.argument("terminals", nargs=-1)
@click.option("--session", "sessions", multiple=True, help="End all terminals of a session.")
@click.option("--all", "everything", is_flag=True, help="End all terminals.")
def stop(terminals: tuple[str, ...], sessions: tuple[str, ...], everything: bool) -> None:
    """End TERMINALS: ask each agent to quit, and remove its window."""
    if not (terminals or sessions or everything):
        raise UsageError("name a terminal, --session NAME or --all; `cao ls` lists them")
    with connected(os.environ) as client:
        known = all_terminals(client)
        chosen = {t["id"]: t for t in known if everything or t["session_name"] in sessions}
        unknown = set(sessions) - {t["session_name"] for t in known}
        if unknown:
            raise NotFound("session", unknown.pop(), sorted({t["session_name"] for t in known}))
        for name in terminals:
            found = find_terminal(client, name)
            chosen[found["id"]] = found
        for terminal in chosen.values():
            client.exit_terminal(terminal["id"])
            click.echo(f"Ended {terminal['id']} ({terminal['name']})")


@click.command()
@click.argument("terminal")
@as_json
def explain(terminal: str, as_json: bool) -> None:
    """Say why TERMINAL has the status it has: each signal, its value and age."""
    with connected(os.environ) as client:
        found = find_terminal(client, terminal)
        why = client.explain(found["id"])
    if as_json:
        click.echo(json.dumps(why, indent=2))
        return
    click.echo(f"{found['id']} ({found['name']}, {found['provider']}) is {why['status']}")
    click.echo(f"  reason: {why['reason']}")
    for piece in why["evidence"]:
        age = max(0.0, time.time() - piece["at"])
        says = (piece["status"] or "nothing").replace("_", " ")
        click.echo(f"  {age:8.1f} s ago  {piece['source']:<15} {says:<20} {piece['detail']}")
    if why["status"] == TerminalStatus.UNKNOWN:
        click.echo(UNKNOWN_ADVICE.format(id=found["id"]))


def all_terminals(client: ApiClient) -> list[dict[str, Any]]:
    """Return all terminals of all sessions."""
    found: list[dict[str, Any]] = []
    for session in client.list_sessions():
        found += client.get_session(session["name"])["terminals"]
    return found


def find_terminal(client: ApiClient, wanted: str) -> dict[str, Any]:
    """Return the one terminal with that id, the beginning of it, or that name."""
    terminals = all_terminals(client)
    exact = [t for t in terminals if wanted in (t["id"], t["name"])]
    found = exact or [t for t in terminals if t["id"].startswith(wanted)]
    if not found:
        raise NotFound("terminal", wanted, [f"{t['id']} ({t['name']})" for t in terminals])
    if len(found) > 1:
        names = ", ".join(t["id"] for t in found)
        raise OrchestratorError(f"{wanted!r} could be any of {names}; write more of the id")
    return found[0]


def _status_words(terminal: dict[str, Any]) -> str:
    if terminal.get("alive", True):
        return str(terminal["status"])
    code = terminal.get("exit_code")
    return "dead" + ("" if code is None else f" (exit code {code})")
