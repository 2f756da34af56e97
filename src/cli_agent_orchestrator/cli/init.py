"""`cao init`: a task to fill in, and a settings file that fits the project."""

import json
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

from ..core.files import Folder
from ..core.text import one_line
from ..errors import OrchestratorError, UsageError
from ..hosting.user import read_server_config
from ..pipeline.task import TASK_HEADING, TEST_HEADING
from ..settings.gates import USUAL_NAME, Trust, commands_text, gates_text, read_gates
from ..settings.layout import TASK_FILE
from ..settings.table import BY_NAME, SETTINGS_FILE
from ..settings.values import settings_toml
from ..work.git import find_repository
from .imports import confirm, importing, own_command
from .trust import own_folder

MARK_FILES = (
    *("Makefile", "pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "pytest.ini"),
    *("conftest.py", "requirements.txt", "requirements-dev.txt", "uv.lock", "poetry.lock"),
    *("package.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb"),
    *("go.mod", "Cargo.toml", "pom.xml", "mvnw", "build.gradle", "build.gradle.kts", "gradlew"),
)
"""All that is looked for."""
READ_FILES = (
    *("Makefile", "pyproject.toml", "setup.cfg", "tox.ini"),
    *("requirements.txt", "requirements-dev.txt", "package.json"),
)
"""Those whose text matters."""
TEST_FOLDERS = ("tests", "test")
"""Folders in which tests are looked for, besides the project's own."""
PACKAGE_MARK = "__init__.py"
# what unittest looks for
TEST_FILE_PATTERN = r"test\w*\.py"
IMPORT_PATTERN = r"(?m)^[ \t]*(?:import|from)[ \t]+{}\b"
# "test: build", and not "test := x"
MAKE_TARGET_PATTERN = r"(?m)^test[ \t]*:(?!=)"
NPM_PLACEHOLDER = "no test specified"
PYTHON_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "pytest.ini")
RUNNERS = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "bun.lockb": "bun"}


@dataclass(frozen=True, slots=True)
class Proposal:
    name: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class InstalledAgent:
    name: str
    detail: str
    """Its version, and whether somebody is logged in."""
    logged_out: bool


def propose(files: Mapping[str, str], agents: Sequence[InstalledAgent]) -> list[Proposal]:
    """Return what is proposed; `files` are the marks that are there, with the text of some."""
    tests = list(_test_command(files))
    return [*tests, *_flow(agents, has_gate=bool(tests)), *_provider(agents)]


def _test_command(files: Mapping[str, str]) -> Iterator[Proposal]:
    found = list(test_commands(files))
    if found:
        command = " && ".join(command for command, _ in found)
        reason = ", ".join(reason for _, reason in found)
        yield Proposal("PROJECT_TEST_CMD", command, reason)
        yield Proposal("GATES", f"{USUAL_NAME}={command}", f"{reason}; a PASS must pass it")


def test_commands(files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the commands that run the tests of a project, each with what speaks for it."""
    if re.search(MAKE_TARGET_PATTERN, files.get("Makefile", "")):
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
    if reason := _pytest_reason(files):
        if "uv.lock" in files:
            yield "uv run pytest", f"{reason}, and uv.lock is there"
        elif "poetry.lock" in files:
            yield "poetry run pytest", f"{reason}, and poetry.lock is there"
        else:
            yield "python3 -m pytest", reason
        return
    found = dict(_unittest_commands(files))
    mark = next((name for name in PYTHON_MARKS if name in files), "")
    if not found and mark:
        found = {"python3 -m unittest": f"{mark} is there"}
    for command, reason in found.items():
        yield command, f"{reason}, and nothing speaks of pytest"


def _pytest_reason(files: Mapping[str, str]) -> str:
    """Say what speaks for pytest in a project that has a mark of Python, or tests."""
    used = next((name for name in files if _imports(files, name, "pytest")), "")
    if used:
        return f"{used} imports pytest"
    if not any(name in files for name in PYTHON_MARKS) and not any(map(is_test_file, files)):
        return ""
    named = next((name for name in READ_FILES if "pytest" in files.get(name, "")), "")
    own = next((name for name in ("pytest.ini", "conftest.py") if name in files), "")
    return f"{named} speaks of pytest" if named else own and f"{own} is there"


def _unittest_commands(files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield commands that find all tests; one by itself looks only into packages."""
    for name in files:
        if not _imports(files, name, "unittest"):
            continue
        folder = name.rpartition("/")[0]
        apart = folder and f"{folder}/{PACKAGE_MARK}" not in files
        command = f"python3 -m unittest{f' discover -s {folder}' if apart else ''}"
        yield command, f"{name} imports unittest"


def is_test_file(name: str) -> bool:
    return re.fullmatch(TEST_FILE_PATTERN, name.rpartition("/")[2]) is not None


def _imports(files: Mapping[str, str], name: str, module: str) -> bool:
    pattern = IMPORT_PATTERN.format(module)
    return is_test_file(name) and re.search(pattern, files[name]) is not None


def has_npm_test(text: str) -> bool:
    """Has a package.json a script for its tests, other than the one it is made with?"""
    try:
        package = json.loads(text)
    except (ValueError, RecursionError):
        return False
    scripts = package.get("scripts") if isinstance(package, dict) else None
    script = scripts.get("test") if isinstance(scripts, dict) else None
    return isinstance(script, str) and bool(script.strip()) and NPM_PLACEHOLDER not in script


def _flow(agents: Sequence[InstalledAgent], *, has_gate: bool) -> Iterator[Proposal]:
    ready = [agent.name for agent in agents if not agent.logged_out]
    steps = "analysis, program and test, each by agents"
    if not has_gate:
        reason = f"there is no test command, so an agent has to test; {steps}"
        yield Proposal("FLOW", "loop", reason)
    elif len(ready) == 1:
        reason = f"{ready[0]} writes and reviews, and your tests decide; loop: {steps}"
        yield Proposal("FLOW", "pair", reason)
    else:
        several = "there are tests and several agents: " if ready else ""
        yield Proposal("FLOW", "loop", f"{several}{steps}; pair and solo have fewer agents")


def _provider(agents: Sequence[InstalledAgent]) -> Iterator[Proposal]:
    # False comes first, and so does the usual agent.
    ranked = sorted(agents, key=lambda agent: agent.logged_out)
    if not ranked:
        return
    first, others = ranked[0], [agent.name for agent in ranked[1:]]
    also = f"; also installed: {', '.join(others)}" if others else ""
    yield Proposal("PROVIDER", first.name, f"{first.detail}{also}")


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
    command, found by its files, also as a gate that decides; the flow; an agent that is installed
    and, where that is known, signed in; and in a git repository work trees, so that your files stay
    as they are until you apply the work. In a terminal you are asked first. The gate that you have
    been shown may then be run (`cao trust --revoke` takes that back).

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
    chosen = {one.name: one.value for one in proposals}
    for name, text in ((TASK_FILE, TASK_TEMPLATE), (SETTINGS_FILE, settings_toml(chosen))):
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
                _allow_gate(folder, chosen[GATES])
    if above:
        click.echo(above)
    click.echo(_next_words(folder, has_task=has_task, lacks_agent=not _is_agent_installed()))


def _settle_new(folder: Path) -> None:
    refusal = f"{folder} is not there; --yes makes it, and nothing was written"
    if not confirm(f"{folder} is not there. Make it?", refusal):
        raise click.Abort


def _allow_gate(folder: Path, gates: str) -> None:
    """Remember that a gate may be run that the user was shown and has put into the file."""
    commands = commands_text({GATES: gates_text(read_gates(gates))})
    Trust(own_folder()).allow(Path(os.path.realpath(folder)), commands, time.time())
    click.echo(one_line(f"Its gate may be run there: {commands}"))


def _find_agents() -> list[InstalledAgent]:
    with importing():  # heavy, unlike --help
        from .doctor import installed_agents

    found = installed_agents(read_server_config(os.environ), Path.cwd())
    return [InstalledAgent(name, one.detail, one.logged_out) for name, one in found.items()]


def _is_agent_installed() -> bool:
    with importing():
        from .doctor import is_agent_installed

    return is_agent_installed(read_server_config(os.environ), os.environ)


def _proposals(folder: Path, agents: list[InstalledAgent]) -> list[Proposal]:
    proposals = [*propose(read_marks(folder), agents), *_work_tree(folder)]
    click.echo(f"Proposed for {SETTINGS_FILE}:")
    for one in proposals:
        words = f"[gates] {one.value}" if one.name == GATES else _setting_words(one)
        click.echo(one_line(f"  {words}  ({one.reason})"))
    if not agents:
        click.echo("  no agent: none is installed")
    return proposals


def _work_tree(folder: Path) -> Iterator[Proposal]:
    """Propose work trees where they can be made: in a repository that has a commit."""
    with suppress(OrchestratorError, OSError):
        repository = find_repository(folder, os.environ)
        if repository is not None and repository.head:
            yield Proposal("WORKSPACE", "worktree", "your files stay as they are until cao apply")


def _setting_words(one: Proposal) -> str:
    value = "true" if one.name == "WORKSPACE" else one.value
    return f"{BY_NAME[one.name].key} = {value}"


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
