"""`cao init`: a task to fill in, and a settings file that fits the project."""

import json
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..core.files import Folder
from ..core.models import BUILT_IN
from ..core.text import one_line
from ..errors import OrchestratorError, UsageError
from ..hosting.user import read_server_config, startable_agents
from ..pipeline.task import TASK_HEADING, TEST_HEADING
from ..settings.gates import USUAL_NAME, Trust, commands_text, gates_text, read_gates
from ..settings.layout import TASK_FILE
from ..settings.table import BY_NAME, SETTINGS_FILE
from ..settings.values import settings_toml
from ..work.git import find_repository
from .imports import own_command
from .run import find_project
from .trust import own_folder

if TYPE_CHECKING:
    from .doctor import Diagnosis

MARK_FILES = (
    *("Makefile", "pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "pytest.ini"),
    *("conftest.py", "requirements.txt", "requirements-dev.txt", "uv.lock", "poetry.lock"),
    *("package.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb"),
    *("go.mod", "Cargo.toml", "pom.xml", "mvnw", "build.gradle", "build.gradle.kts", "gradlew"),
)
READ_FILES = (
    *("Makefile", "pyproject.toml", "setup.cfg", "tox.ini"),
    *("requirements.txt", "requirements-dev.txt", "package.json"),
)
# import pytest        def test_empty():
PYTEST_PATTERN = r"(?m)^[ \t]*(?:import|from)[ \t]+pytest\b|^(?:async )?def test_"
UNITTEST_PATTERN = r"(?m)^[ \t]*(?:import|from)[ \t]+unittest\b"
PACKAGE_MARK = "__init__.py"
PYTHON_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "pytest.ini")
RUNNERS = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "bun.lockb": "bun"}


Proposal = tuple[str, str, str]
"""A setting, its value, and the reason for it."""


def propose(files: Mapping[str, str], agents: Mapping[str, "Diagnosis"]) -> Iterator[Proposal]:
    """Yield proposed settings; `files` are the marks in the folder, with the text of some."""
    found = dict(test_commands(files))
    if found:
        command, reason = " && ".join(found), ", ".join(found.values())
        yield "PROJECT_TEST_CMD", command, reason
        yield "GATES", f"{USUAL_NAME}={command}", f"{reason}; a PASS must pass it"
    ready = [name for name, agent in agents.items() if not agent.logged_out]
    steps = "analysis, program and test, each by agents"
    if not found:
        reason = f"there is no test command, so an agent has to test; {steps}"
        yield "FLOW", "loop", reason
    elif len(ready) == 1:
        reason = f"{ready[0]} writes and reviews, and your tests decide; loop: {steps}"
        yield "FLOW", "pair", reason
    else:
        several = "there are tests and several agents: " if ready else ""
        yield "FLOW", "loop", f"{several}{steps}; pair and solo have fewer agents"
    # False comes first, and so does the usual agent.
    ranked = sorted(agents, key=lambda name: agents[name].logged_out)
    if ranked:
        also = f"; also installed: {', '.join(ranked[1:])}" if ranked[1:] else ""
        yield "PROVIDER", ranked[0], f"{agents[ranked[0]].detail}{also}"


def test_commands(files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    # "test: build", and not "test := x"
    if re.search(r"(?m)^test[ \t]*:(?!=)", files.get("Makefile", "")):
        yield "make test", "the Makefile has a target test"
        return
    yield from _python(files)
    if has_npm_test(files.get("package.json", "")):
        runner = next((word for name, word in RUNNERS.items() if name in files), "npm")
        command = f"{runner} run test" if runner == "bun" else f"{runner} test"
        yield command, "package.json has a script test"
    if "go.mod" in files:
        yield "go test -v ./...", "go.mod is there"
    if "Cargo.toml" in files:
        yield "cargo test", "Cargo.toml is there"
    if "pom.xml" in files:
        yield ("./mvnw test" if "mvnw" in files else "mvn test"), "pom.xml is there"
    elif gradle := next((name for name in files if name.startswith("build.gradle")), None):
        yield ("./gradlew test" if "gradlew" in files else "gradle test"), f"{gradle} is there"


def _python(files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    mark = next((name for name in PYTHON_MARKS if name in files), "")
    signs = [f"{name} is for pytest" for name in files if _says(files, name, PYTEST_PATTERN)]
    if mark or any(map(is_test_file, files)):
        signs += [
            f"{name} speaks of pytest" for name in READ_FILES if "pytest" in files.get(name, "")
        ]
        signs += [f"{name} is there" for name in ("pytest.ini", "conftest.py") if name in files]
    if signs:
        for lock, runner in (("uv.lock", "uv run"), ("poetry.lock", "poetry run")):
            if lock in files:
                yield f"{runner} pytest", f"{signs[0]}, and {lock} is there"
                return
        yield "python3 -m pytest", signs[0]
        return
    found = {}
    for name in files:
        if _says(files, name, UNITTEST_PATTERN):
            # By itself it looks only into packages.
            folder = name.rpartition("/")[0]
            apart = folder and f"{folder}/{PACKAGE_MARK}" not in files
            command = f"python3 -m unittest{f' discover -s {folder}' if apart else ''}"
            found[command] = f"{name} imports unittest"
    if not found and mark:
        found = {"python3 -m unittest": f"{mark} is there"}
    for command, reason in found.items():
        yield command, f"{reason}, and nothing speaks of pytest"


def is_test_file(name: str) -> bool:
    # what unittest looks for
    return re.fullmatch(r"test\w*\.py", name.rpartition("/")[2]) is not None


def _says(files: Mapping[str, str], name: str, pattern: str) -> bool:
    return is_test_file(name) and re.search(pattern, files[name]) is not None


def has_npm_test(text: str) -> bool:
    """Has a package.json a script for its tests, other than the placeholder of npm?"""
    try:
        package = json.loads(text)
    except (ValueError, RecursionError):
        return False
    scripts = package.get("scripts") if isinstance(package, dict) else None
    script = scripts.get("test") if isinstance(scripts, dict) else None
    return isinstance(script, str) and bool(script.strip()) and "no test specified" not in script


GATES = "GATES"
LARGEST_MARK = 1024 * 1024
MOST_TESTS = 20
TASK_TEMPLATE = f"""\
Write the task below the two headings, then start it with: cao run {TASK_FILE}
Text above the first heading is for you; no agent sees it.

Below the first heading: what is to be done, and what you know about the project. Which files
matter, what must not change, what done means. Analyst, programmer and reviewers work from it.

Below the second heading: what the tester does, step by step, and the expected result. Make PASS and
FAIL unambiguous. Only the tester gets it as a task. Without this heading the tester checks that the
project's tests pass and that the change does what was asked.

{TASK_HEADING}


{TEST_HEADING}

"""


@click.command()
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
@click.option("--yes", "-y", is_flag=True, help="Take what is proposed without asking.")
def init(folder: Path, yes: bool) -> None:
    """Write task.md and cao.toml into FOLDER (here, if not given). Existing files stay as they are.

    The task is a template to fill in. cao.toml gets the settings that suit the project: its test
    command, also as a gate that decides; the flow; an agent that is installed; and in a git
    repository work trees. In a terminal you are asked first. The gate that you have been shown may
    then be run (`cao trust --revoke` takes that back).

    \b
    cao init ../shop --yes
    """
    is_new, above = not os.access(folder, os.F_OK), find_project(folder, Path.home())
    has_task = os.path.lexists(folder / TASK_FILE)
    if is_new and not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"{folder} is not there; --yes makes it, and nothing was written")
        click.confirm(f"{folder} is not there. Make it?", abort=True)
    has_settings = os.path.lexists(folder / SETTINGS_FILE)
    proposals = [] if has_settings else _show_proposals(folder)
    question = f"Set this in {SETTINGS_FILE}?"
    if proposals and not yes and sys.stdin.isatty() and not click.confirm(question, default=True):
        proposals = []
    chosen = {name: value for name, value, _ in proposals}
    for name, text in ((TASK_FILE, TASK_TEMPLATE), (SETTINGS_FILE, settings_toml(chosen))):
        path = folder / name
        try:
            Folder(folder).create(name, text.encode())
        except FileExistsError:
            click.echo(f"{path} is there already and stays as it is")
            continue
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from error
        if is_new:
            click.echo(f"made the folder {folder}")
            is_new = False
        click.echo(f"{path} written")
        if name == SETTINGS_FILE and GATES in chosen:
            # The user was shown the gate, and has put it into the file.
            commands = commands_text({GATES: gates_text(read_gates(chosen[GATES]))})
            Trust(own_folder()).allow(Path(os.path.realpath(folder)), commands, time.time())
            click.echo(one_line(f"Its gate may be run there: {commands}"))
    if above:
        own = f"with a {SETTINGS_FILE} of its own, a run in this folder uses only what is in it"
        click.echo(one_line(f"Above it, {above} is a project: {own}"))
    click.echo(_next_words(folder, has_task=has_task))


def _show_proposals(folder: Path) -> list[Proposal]:
    # Heavy, unlike --help.
    from .doctor import installed_agents

    agents = installed_agents(read_server_config(os.environ), Path.cwd())
    proposals = [*propose(read_marks(folder), agents)]
    with suppress(OrchestratorError, OSError):
        repository = find_repository(folder, os.environ)
        if repository is not None and repository.head:
            reason = "your files stay as they are until cao apply"
            proposals.append(("WORKSPACE", "worktree", reason))
    click.echo(f"Proposed for {SETTINGS_FILE}:")
    for name, value, reason in proposals:
        shown = "true" if name == "WORKSPACE" else value
        words = f"[gates] {value}" if name == GATES else f"{BY_NAME[name].key} = {shown}"
        click.echo(one_line(f"  {words}  ({reason})"))
    if not agents:
        click.echo("  no agent: none is installed")
    return proposals


def read_marks(folder: Path) -> dict[str, str]:
    """Return the files by which a project is known, and its Python tests, with the text of some.

    Only regular files count: a link does not.
    """
    found = {}
    project = Folder(folder)
    for name in MARK_FILES:
        with suppress(OSError):
            if project.status(name) is not None:
                data = project.read(name, LARGEST_MARK) if name in READ_FILES else b""
                found[name] = data.decode("utf-8", "replace")
    for place in ("", "tests", "test"):
        tests = Folder(folder, (place,) if place else ())
        before = f"{place}/" if place else ""
        with suppress(OSError):
            names = sorted(filter(is_test_file, tests.names()))
            if place and tests.status(PACKAGE_MARK) is not None:
                found[f"{before}{PACKAGE_MARK}"] = ""
            for name in names[:MOST_TESTS]:
                with suppress(OSError):
                    data = tests.read(name, LARGEST_MARK)
                    found[f"{before}{name}"] = data.decode("utf-8", "replace")
    return found


def _next_words(folder: Path, *, has_task: bool) -> str:
    cao = own_command(sys.argv[0], sys.executable, os.environ.get("PATH"))
    if startable_agents(read_server_config(os.environ)) == [BUILT_IN]:
        joint, todo, command = "and", "install an agent; this says how", f"{cao} doctor"
    else:
        joint, todo, command = "then", "type", f"{cao} run {TASK_FILE}"
        if folder.resolve() != Path.cwd().resolve():
            command = f"cd {shlex.quote(str(folder))} && {command}"
    todo = todo if has_task else f"fill in {folder / TASK_FILE}, {joint} {todo}"
    return f"Next: {todo}:\n  {command}"
