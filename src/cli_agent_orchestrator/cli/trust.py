"""`cao trust`: consent to the commands of projects' own files."""

import os
import shlex
import sys
import time
from datetime import datetime
from pathlib import Path

import click

from ..core.text import one_line, printable
from ..errors import UsageError
from ..runs.request import read_file_settings
from ..settings.gates import Trust, check_consent, command_lines, commands_text
from ..settings.layout import check_state_folder, state_folder

ASKED = "Allow them, here and as they are now?"


@click.command()
@click.option("--wd", metavar="PATH", default=".", help="The project's folder.  [default: here]")
@click.option("--list", "listing", is_flag=True, help="List what you have allowed, everywhere.")
@click.option("--revoke", is_flag=True, help="Take back what you have allowed in the folder.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def trust(wd: str, listing: bool, revoke: bool, yes: bool) -> None:
    """Allow the commands that a project's own cao.toml wants to be run.

    These are its gates, and what prepares a work tree. They are shown first. What you allow counts
    for that folder and for just these commands.
    """
    if listing and revoke:
        raise UsageError("say --list or --revoke, not both")
    folder = Path(os.path.realpath(wd))
    if not (listing or revoke or folder.is_dir()):
        raise UsageError(f"{one_line(wd)} is no folder; --wd names that of a project")
    known = Trust(own_folder())
    if listing:
        if not known.all():
            click.echo("No commands of any project are allowed.")
        for entry in known.all():
            since = datetime.fromtimestamp(entry.at)
            click.echo(f"{one_line(entry.folder)}  (since {since:%Y-%m-%d})")
            for line in command_lines(entry.commands):
                click.echo(f"  {printable(line)}")
    elif revoke:
        where = one_line(str(folder))
        if known.revoke(folder):
            click.echo(f"No command of {where} is allowed any more.")
        else:
            click.echo(f"Nothing of {where} was allowed.")
    else:
        _allow(known, folder, yes)


def own_folder() -> Path:
    folder = state_folder(os.environ)
    check_state_folder(folder)
    return folder


def settle_consent(commands: str, folder: Path, file: str = "", *, given: bool) -> None:
    """Ask about the commands of a project's own file that are not allowed yet.

    With the consent `given` they are allowed; without a terminal to ask in, that is an error. The
    `file` is named if it is not the `cao.toml` of the folder.
    """
    known = Trust(own_folder())
    if known.allows(folder, commands):
        return
    if not given:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            check_consent(known, folder, commands, file)
        _ask(folder, commands, file)
    known.allow(folder, commands, time.time())
    words = f"Allowed from now on in {one_line(str(folder))}; `{revocation(folder)}` takes it back"
    click.echo(words, err=True)


def revocation(folder: Path) -> str:
    where = "" if folder == Path(os.path.realpath(".")) else f" --wd {shlex.quote(str(folder))}"
    return one_line(f"cao trust --revoke{where}")


def _allow(known: Trust, folder: Path, yes: bool) -> None:
    commands = commands_text(read_file_settings({"WD": str(folder)}, {}, None))
    if not commands:
        click.echo(f"cao.toml in {one_line(str(folder))} wants no command to be run.")
        return
    if known.allows(folder, commands):
        click.echo("They are allowed already:")
        _show(folder, commands)
        return
    if yes:
        _show(folder, commands)
    else:
        _ask(folder, commands)
    known.allow(folder, commands, time.time())
    click.echo(f"Allowed. `{revocation(folder)}` takes it back.")


def _ask(folder: Path, commands: str, file: str = "") -> None:
    _show(folder, commands, file)
    try:
        agreed = click.confirm(ASKED, default=False, err=True)
    except click.Abort:
        click.echo(err=True)
        agreed = False
    if not agreed:
        raise UsageError("nothing was allowed, and nothing is run")


def _show(folder: Path, commands: str, file: str = "") -> None:
    asking = one_line(file or f"cao.toml in {folder}")
    click.echo(f"{asking} wants these commands to be run:", err=True)
    for line in command_lines(commands):
        click.echo(f"  {printable(line)}", err=True)
