"""`cao agent`: add an agent of your own, and learn how surely `cao` knows what any agent does.

An agent is tried on a server of its own, in an empty folder. Nothing is left of either.
"""

import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from ..client.client import Answer, ApiClient
from ..core.codec import toml_value
from ..core.files import Folder
from ..core.models import OutputMode, TerminalStatus
from ..core.text import printable
from ..errors import ApiRefused, ConfigError, UsageError, end_of_screen
from ..hosting.connect import run_own_server
from ..hosting.user import read_server_config
from ..pipeline.prompts import response_file_instruction
from ..providers import check_name, get_provider
from ..providers.base import Provider
from ..settings.config import ServerConfig
from ..settings.layout import response_folder
from ..terminals.programs import check_outside
from ..terminals.sending import PROBE
from ..terminals.service import QUIT_SECONDS
from ..terminals.tracker import SignalSource
from .complete import complete_providers
from .imports import confirm
from .interrupts import SIGNALS

HOW = "What starts it, as you would type it."
SURELY, BY_SILENCE, FAILED = "surely", "less surely", "no"
MESSAGE = "Read and change nothing. Your complete final response is the word `ready`.\n\n"
PROFILE = "programmer"
LOOK_SECONDS = 0.1
SETTLE_SECONDS = 10.0
"""How long a question, a failure, or a rest without the file, may last."""
TURN_SECONDS = 300.0
FILE = """\
program = {}
# tested = ["1.4.0"]             # versions that you have tried

[start]
args = {}
# workspace = ["--auto-edit"]    # what lets it work in its folder without asking

# What it showed at rest; docs/writing-a-provider.md makes [[box]] and [[marks]] of it:
{}
"""


@click.group()
def agent() -> None:
    """Add an agent of your own by a file in your config folder, and try one."""


@agent.command()
@click.argument("name")
@click.option("--command", metavar="COMMAND", prompt="What starts it", help=HOW)
@click.option("--yes", is_flag=True, help="Do not ask.")
def new(name: str, command: str, yes: bool) -> None:
    """Start an agent once, and write a file for it.

    It shows what it saw and proposes a file for an agent of this NAME. Nothing is sent to a model.

    \b
    cao agent new myagent --command "myagent --no-update"
    """
    file = read_server_config(os.environ).config_dir / "agents" / f"{name}.toml"
    check_name(file)
    if os.path.lexists(file):
        raise UsageError(f"{file} exists: edit it, then try it with `cao agent check {name}`")
    try:
        program, *args = shlex.split(command)
    except ValueError:
        program, args = "", []
    if os.sep in program:
        program = str(Path(program).expanduser().absolute())
    if shutil.which(program) is None:
        raise ConfigError("--command", command, "a program that exists, quoted as in a shell")
    with TemporaryDirectory(prefix="cao-agent-") as folder:
        draft = Path(folder, "agents", file.name)
        draft.parent.mkdir()
        draft.write_text(FILE.format(toml_value(program), toml_value(args), ""), encoding="utf-8")
        config = read_server_config({**os.environ, "CAO_CONFIG_DIR": folder})
        screen = try_agent(get_provider(name, config.config_dir), config)
    rows = "\n".join(f"#   {row}" for row in screen.splitlines() if row.strip())
    text = printable(FILE.format(toml_value(program), toml_value(args), rows))
    click.echo(f"\nProposed for {file}:\n\n{text}")
    if yes or confirm("Write this file?", "written"):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        Folder(file.parent, private=True).create(file.name, text.encode())
        click.echo(f"Written. Try it with a message: cao agent check {name}")


@agent.command()
@click.argument("name", shell_complete=complete_providers)
@click.option("--no-message", is_flag=True, help="Send nothing to its model.")
def check(name: str, no_message: bool) -> None:
    """Try an agent: start, message, end; print how each is known.

    Less surely means by change and rest of its screen alone. Ends with 0 if the agent works, 1 if
    not, 2 if its file has a fault.

    \b
    cao agent check myagent
    """
    config = read_server_config(os.environ)
    provider = get_provider(name, config.config_dir)
    if not no_message:
        click.echo("Its model gets one small message, which may cost; --no-message sends none.\n")
    try_agent(provider, config, message=not no_message)
    click.echo(f"\n{provider.name} works.")


def try_agent(provider: Provider, config: ServerConfig, *, message: bool = False) -> str:
    """Start an agent, give it a message or only a sign, end it; print how each step is known.

    Returns what it shows at rest. A step that fails ends the command.
    """
    with private_server(config) as (client, work):
        step, began = "start", time.monotonic()
        try:
            # Without a profile: that may be a message of its own.
            profile = PROFILE if message else ""
            terminal = client.create_session(profile, provider=provider.name)["id"]
            _print(step, SURELY, f"ready after {time.monotonic() - began:.1f} s")
            why = client.explain(terminal)
            _print_known("ready", _sources(why, TerminalStatus.IDLE, TerminalStatus.COMPLETED))
            screen = client.get_output(terminal, OutputMode.SCREEN)
            step = "message" if message else "box"
            (_take_turn if message else _try_box)(client, terminal, work)
            began, keys = time.monotonic(), " ".join(provider.exit_keys)
            client.exit_terminal(terminal)
        except ApiRefused as error:
            _print(step, FAILED, error.summary)
        if time.monotonic() < began + QUIT_SECONDS:
            _print("exit", SURELY, f"by {keys}")
        else:
            _print("exit", BY_SILENCE, f"not by {keys}: its terminal was closed")
    return screen


@contextmanager
def private_server(config: ServerConfig) -> Iterator[tuple[ApiClient, Path]]:
    """Yield the client of a server for one agent, and an empty folder. A signal ends them, too."""
    check_outside(config.environ)

    def leave(number: int, frame: object) -> None:
        for other in SIGNALS:
            signal.signal(other, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in SIGNALS:
        signal.signal(number, leave)
    with TemporaryDirectory(prefix="cao-agent-", ignore_cleanup_errors=True) as folder:
        work = Path(folder, "work")
        work.mkdir()
        environ = {**config.environ, "CAO_STATE_DIR": f"{folder}/state"}
        with (
            run_own_server(environ, lasting=False) as found,
            ApiClient(found.url, transport=found.transport, working_directory=str(work)) as client,
        ):
            try:
                yield client, work
            finally:
                for session in client.list_sessions():
                    client.delete_session(session["name"])


def _print(step: str, how: str, detail: str, screen: str = "") -> None:
    click.echo(printable(f"{step:<9}{how:<13}{detail}{end_of_screen(screen)}"))
    if how == FAILED:
        sys.exit(1)


def _print_known(step: str, sources: set[str]) -> None:
    known = f"its {', '.join(sorted(sources))}" if sources else "change and rest of its screen"
    _print(step, SURELY if sources else BY_SILENCE, f"by {known}")


def _sources(why: Answer, *statuses: TerminalStatus, since: float = 0) -> set[str]:
    """Return who said since then that an agent has one of these; our own message does not count."""
    said = [one for one in why["evidence"] if one["status"] in statuses and one["at"] > since]
    return {one["source"] for one in said} - {SignalSource.SUBMISSION.value}


def _take_turn(client: ApiClient, terminal: str, work: Path) -> None:
    """Let it answer as in a run, and print how its work and the end of that are known."""
    responses, sent = response_folder(work), time.time()
    responses.make()
    file = responses.path / "agent_check.md"
    delivery = client.send_input(terminal, f"{MESSAGE}{response_file_instruction(file)}")
    if not delivery.confirmed:
        screen = client.get_output(terminal, OutputMode.SCREEN)
        _print("message", FAILED, delivery.detail, screen)
    _print("message", SURELY, delivery.detail)
    worked: set[str] = set()
    status, until = None, 0.0
    while not (status and status.at_rest and file.exists()):
        why = client.explain(terminal)
        worked |= _sources(why, TerminalStatus.PROCESSING, since=sent)
        if why["status"] != status:
            status = TerminalStatus(why["status"])
            works = status is TerminalStatus.PROCESSING
            until = time.monotonic() + (TURN_SECONDS if works else SETTLE_SECONDS)
        if time.monotonic() > until:
            screen = client.get_output(terminal, OutputMode.SCREEN)
            detail = f"without the file that it was asked for it is {status}: {why['reason']}"
            _print("reply", FAILED, detail, screen)
        time.sleep(LOOK_SECONDS)
    _print("reply", SURELY, "by the file that it was asked for")
    _print_known("working", worked)
    # An input box that is always there tells nothing of a turn.
    idle = _sources(why, TerminalStatus.IDLE, since=sent) & {*worked, SignalSource.TITLE.value}
    _print_known("end", idle | _sources(why, TerminalStatus.COMPLETED, since=sent))


def _try_box(client: ApiClient, terminal: str, work: Path) -> None:
    before = client.get_output(terminal, OutputMode.SCREEN).count(PROBE)
    for key, signs in ((PROBE, before + 1), ("BSpace", before)):
        client.press_key(terminal, key)
        until = time.monotonic() + SETTLE_SECONDS
        while (
            (screen := client.get_output(terminal, OutputMode.SCREEN)).count(PROBE) != signs
            # It has just changed.
            or not client.get_status(terminal).at_rest
        ):
            if time.monotonic() > until:
                _print("box", FAILED, "a sign that was typed did not appear, or stayed", screen)
            time.sleep(LOOK_SECONDS)
    _print("box", SURELY, "it took a sign and gave it back")
