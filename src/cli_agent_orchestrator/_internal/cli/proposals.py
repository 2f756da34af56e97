"""What `cao init` proposes for a project: from the files in its folder and the agents there are."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cli_agent_orchestrator._internal.gates import USUAL_NAME

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
    """A setting, and why it is proposed."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class InstalledAgent:
    """An agent that is installed."""

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
    """Would unittest look into a file of that name?"""
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
