"""`cao init`: a task to fill in and a file in which every setting is explained."""

import os
import shlex
import sys
from pathlib import Path

import click

from cli_agent_orchestrator.cli.command import own_command
from cli_agent_orchestrator.cli.printable import one_line
from cli_agent_orchestrator.errors import UsageError
from cli_agent_orchestrator.pipeline.task import EXPLORE_HEADER, SCENARIO_HEADER
from cli_agent_orchestrator.plain_files import Folder
from cli_agent_orchestrator.settings import SETTINGS_FILE, commented_toml

TASK_FILE = "task.md"
PROJECT_MARKS = (SETTINGS_FILE, TASK_FILE, ".git")
"""What the top folder of a project has."""
TASK_TEMPLATE = f"""\
Write the task below the two lines with stars, then start it with: cao run {TASK_FILE}
What stands up here is for you; no agent sees it.

Below the first line: what is to be done, and what you know about the project. Which files matter,
what must not change, what done means. Analyst, programmer and reviewers work from it.

Below the second line: what the tester does, step by step, and what must come out of it. Say it such
that PASS and FAIL cannot be confused. Only the tester gets it as a task.

{EXPLORE_HEADER}


{SCENARIO_HEADER}

"""


@click.command()
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
def init(folder: Path) -> None:
    """Write task.md and cao.toml into FOLDER (here, if not given). Existing files stay as they are.

    The task is a template to fill in. In cao.toml every setting of `cao run` is explained, and none
    is set.
    """
    is_new, above = not os.access(folder, os.F_OK), project_above(folder)
    for name, text in ((TASK_FILE, TASK_TEMPLATE), (SETTINGS_FILE, commented_toml())):
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
    if above:
        click.echo(above)
    click.echo(f"Next: fill in {folder / TASK_FILE}, then type:\n  {_next_command(folder)}")


def project_above(folder: Path) -> str:
    """Say which folder above looks like the project's own; nothing if this one does, or none."""
    # Unlike `resolve` this does not mind links that lead in a circle.
    here = Path(os.path.realpath(folder))
    if _marks(here):
        return ""
    for parent in here.parents:
        if marks := _marks(parent):
            return one_line(
                f"Above it, in {parent}, there is {', '.join(marks)}: a run uses only what is in "
                "the folder where it is started"
            )
    return ""


def _marks(folder: Path) -> list[str]:
    return [name for name in PROJECT_MARKS if os.path.lexists(folder / name)]


def _next_command(folder: Path) -> str:
    """Return the command that starts the task: settings and task are looked for where one is."""
    cao = own_command(sys.argv[0], sys.executable, os.environ.get("PATH"))
    run = f"{cao} run {TASK_FILE}"
    here = folder.resolve() == Path.cwd().resolve()
    return run if here else f"cd {shlex.quote(str(folder))} && {run}"
