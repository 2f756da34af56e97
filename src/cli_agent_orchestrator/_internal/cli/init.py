"""`cao init`: a task to fill in, and a file that explains every setting and proposes some."""

import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click

from cli_agent_orchestrator._internal.cli.command import own_command
from cli_agent_orchestrator._internal.cli.importing import importing
from cli_agent_orchestrator._internal.cli.printable import one_line
from cli_agent_orchestrator._internal.cli.proposals import (
    MARK_FILES,
    PACKAGE_MARK,
    READ_FILES,
    TEST_FOLDERS,
    InstalledAgent,
    Proposal,
    is_test_file,
    propose,
)
from cli_agent_orchestrator._internal.cli.trust import own_folder
from cli_agent_orchestrator._internal.gates import gates_text, read_gates
from cli_agent_orchestrator._internal.hosting.environment import read_server_config
from cli_agent_orchestrator._internal.layout import TASK_FILE
from cli_agent_orchestrator._internal.pipeline.task import TASK_HEADING, TEST_HEADING
from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator._internal.runs.gates.trust import Trust, commands_text
from cli_agent_orchestrator._internal.settings.file import commented_toml
from cli_agent_orchestrator._internal.settings.table import BY_NAME, SETTINGS_FILE
from cli_agent_orchestrator.errors import UsageError

GATES = "GATES"
PROJECT_MARKS = (SETTINGS_FILE, TASK_FILE, ".git")
"""What the top folder of a project has."""
LARGEST_MARK = 1024 * 1024
MOST_TESTS = 20
"""Files of tests that are looked at, of each folder."""
QUESTION = f"Set this in {SETTINGS_FILE}?"
TASK_TEMPLATE = f"""\
Write the task below the two headings, then start it with: cao run {TASK_FILE}
Text above the first heading is for you; no agent sees it.

Below the first heading: what is to be done, and what you know about the project. Which files
matter, what must not change, what done means. Analyst, programmer and reviewers work from it.

Below the second heading: what the tester does, step by step, and what must come out of it. Make
PASS and FAIL unambiguous. Only the tester gets it as a task. Without this heading the tester sees
to it that the project's tests pass and the change does what was asked.

{TASK_HEADING}


{TEST_HEADING}

"""


@click.command()
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
@click.option("--yes", "-y", is_flag=True, help="Take what is proposed without asking.")
def init(folder: Path, yes: bool) -> None:
    """Write task.md and cao.toml into FOLDER (here, if not given). Existing files stay as they are.

    The task is a template to fill in. In cao.toml every setting of `cao run` is explained, and
    those are set that suit the project: its test command, found by its files, also as a gate that
    decides; the flow; and an agent that is installed and, where that is known, signed in. In a
    terminal you are asked first. The gate that you have been shown may then be run (`cao trust
    --revoke` takes that back).

    \b
    cao init
    cao init ../shop --yes
    """
    is_new, above = not os.access(folder, os.F_OK), project_above(folder)
    has_task = os.path.lexists(folder / TASK_FILE)
    if is_new and not yes:
        _settle_new(folder)
    has_settings = os.path.lexists(folder / SETTINGS_FILE)
    proposals = [] if has_settings else _proposals(folder, _find_agents())
    if proposals and not yes and sys.stdin.isatty() and not click.confirm(QUESTION, default=True):
        proposals = []
    chosen = {one.name: (one.value, one.reason) for one in proposals}
    for name, text in ((TASK_FILE, TASK_TEMPLATE), (SETTINGS_FILE, commented_toml(chosen))):
        path = folder / name
        try:
            Folder(folder).create(name, text.encode())
        except FileExistsError:
            click.echo(f"{path} is there already and stays as it is")
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from error
        else:
            if is_new:
                click.echo(f"made the folder {folder}")
                is_new = False
            click.echo(f"{path} written")
            if name == SETTINGS_FILE and GATES in chosen:
                _allow_gate(folder, chosen[GATES][0])
    if above:
        click.echo(above)
    click.echo(_next_words(folder, has_task=has_task, lacks_agent=not _is_agent_installed()))


def _settle_new(folder: Path) -> None:
    """Ask whether a folder is to be made; it may be a mistyped one."""
    if not sys.stdin.isatty():
        raise UsageError(f"{folder} is not there; --yes makes it, and nothing was written")
    click.confirm(f"{folder} is not there. Make it?", abort=True)


def _allow_gate(folder: Path, gates: str) -> None:
    """Remember that a gate may be run that the user was shown and has put into the file."""
    commands = commands_text({GATES: gates_text(read_gates(gates))})
    Trust(own_folder()).allow(Path(os.path.realpath(folder)), commands, time.time())
    click.echo(one_line(f"Its gate may be run there: {commands}"))


def _find_agents() -> list[InstalledAgent]:
    with importing():  # heavy, unlike --help
        from cli_agent_orchestrator._internal.cli.doctor import installed_agents

    found = installed_agents(read_server_config(os.environ), os.environ)
    return [InstalledAgent(name, one.detail, one.logged_out) for name, one in found.items()]


def _is_agent_installed() -> bool:
    with importing():
        from cli_agent_orchestrator._internal.cli.doctor import is_agent_installed

    return is_agent_installed(read_server_config(os.environ), os.environ)


def _proposals(folder: Path, agents: list[InstalledAgent]) -> list[Proposal]:
    """Return what is proposed for a folder, and show it."""
    proposals = propose(read_marks(folder), agents)
    click.echo(f"Proposed for {SETTINGS_FILE}:")
    for one in proposals:
        words = f"[gates] {one.value}" if one.name == GATES else _setting_words(one)
        click.echo(one_line(f"  {words}  ({one.reason})"))
    if not agents:
        click.echo("  no agent: none is installed")
    return proposals


def _setting_words(one: Proposal) -> str:
    return f"{BY_NAME[one.name].key} = {one.value}"


def read_marks(folder: Path) -> dict[str, str]:
    """Return the files of a folder by which a project is known, with the text of some.

    What is no regular file, a link for example, is not there.
    """
    found = {}
    project = Folder(folder)
    for name in MARK_FILES:
        with suppress(OSError):
            if project.status(name) is not None:
                data = project.read(name, LARGEST_MARK) if name in READ_FILES else b""
                found[name] = data.decode("utf-8", "replace")
    return found | dict(_read_tests(folder))


def _read_tests(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield files of Python's tests, those of folders behind the folder's name."""
    for place in ("", *TEST_FOLDERS):
        tests = Folder(folder, (place,) if place else ())
        before = f"{place}/" if place else ""
        with suppress(OSError):
            names = sorted(tests.names())
            if place and tests.status(PACKAGE_MARK) is not None:
                yield f"{before}{PACKAGE_MARK}", ""
            for name in list(filter(is_test_file, names))[:MOST_TESTS]:
                with suppress(OSError):
                    data = tests.read(name, LARGEST_MARK)
                    yield f"{before}{name}", data.decode("utf-8", "replace")


def project_above(folder: Path) -> str:
    """Say which folder above looks like the project's own; nothing if this one does, or none."""
    # Unlike `resolve` this does not mind links that lead in a circle.
    here = Path(os.path.realpath(folder))
    if _marks(here):
        return ""
    for parent in here.parents:
        if marks := _marks(parent):
            return one_line(
                f"Above it, in {parent}, there is {', '.join(marks)}: with a {SETTINGS_FILE} of "
                "its own, a run in this folder uses only what is in it"
            )
    return ""


def _marks(folder: Path) -> list[str]:
    return [name for name in PROJECT_MARKS if os.path.lexists(folder / name)]


def _next_words(folder: Path, *, has_task: bool, lacks_agent: bool) -> str:
    """Say what to do next, with a command that works: settings and task are found in the folder."""
    cao = own_command(sys.argv[0], sys.executable, os.environ.get("PATH"))
    if lacks_agent:
        todo, command = "install an agent; this says how", f"{cao} doctor"
    else:
        todo, command = "type", f"{cao} run {TASK_FILE}"
        if folder.resolve() != Path.cwd().resolve():
            command = f"cd {shlex.quote(str(folder))} && {command}"
    joint = "and" if lacks_agent else "then"
    todo = todo if has_task else f"fill in {folder / TASK_FILE}, {joint} {todo}"
    return f"Next: {todo}:\n  {command}"
