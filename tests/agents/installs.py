"""Installs real agent programs into the project's cache, each version in its own folder.

`python -m tests.agents.installs` installs all that are pinned.
`npm install` reports success also where a version has no build for this platform, so a program
counts as installed only when it tells its version.
"""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

CACHE = Path(__file__).parents[2] / ".cache" / "agents"
INSTALL_SECONDS = 600
VERSION_SECONDS = 60
# 0.169.0, 0.170.0-alpha.3
RELEASE_PATTERN = r"\d+\.\d+\.\d+(?:-\w[\w.-]*)?"
# Available versions: 0.86.2, 0.86.1
PUBLISHED_PATTERN = r"^Available versions: (.+)$"


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent program as a registry has it."""

    name: str
    """As in the API: `codex`."""
    package: str
    program: str
    versions: tuple[str, ...]
    """What the tests run on, newest first."""
    python: bool = False
    """It is on PyPI, not on npm."""
    node: str = ""
    """The Node.js that it needs, if it is newer than what most machines have."""


AGENTS = {
    agent.name: agent
    for agent in (
        Agent("codex", "@openai/codex", "codex", ("0.169.0", "0.166.0", "0.125.0", "0.101.0")),
        Agent("claude_code", "@anthropic-ai/claude-code", "claude", ("2.1.325", "2.1.105")),
    )
}

FURTHER_AGENTS = {
    # Each runs the short list of tests that all agents must pass.
    agent.name: agent
    for agent in (
        Agent("gemini_cli", "@google/gemini-cli", "gemini", ("0.61.0",)),
        Agent("copilot_cli", "@github/copilot", "copilot", ("1.0.102",)),
        Agent("opencode", "opencode-ai", "opencode", ("1.18.33", "1.18.18")),
    )
}

LANE_AGENTS = {
    # Described by a file; `make test-agents-newest` runs the short list on them.
    agent.name: agent
    for agent in (
        Agent("qwen_code", "@qwen-code/qwen-code", "qwen", ("0.24.4",)),
        Agent("cline", "cline", "cline", ("3.0.65",)),
        Agent("pi", "@mariozechner/pi-coding-agent", "pi", ("0.73.1",)),
        # 7.8.1 has no build for Linux in the registry.
        Agent("kilo", "@kilocode/cli", "kilo", ("7.7.7",)),
        Agent("aider", "aider-chat", "aider", ("0.86.2",), python=True),
        Agent("goose", "@aaif/goose-binary-linux-x64", "goose-binary-linux-x64", ("1.52.0",)),
        Agent("kimi_cli", "@moonshot-ai/kimi-code", "kimi", ("2.1.0",), node="node@22"),
    )
}

ALL_AGENTS = AGENTS | FURTHER_AGENTS | LANE_AGENTS


class InstallError(Exception):
    """An agent program could not be installed; the text says what was tried."""


def order(version: str) -> tuple[list[int], bool, list[int]]:
    """Return what versions are compared by: a pre-release comes before its release."""
    release = re.split("[^0-9.]", version)[0]
    return numbers(release), release == version, numbers(version.removeprefix(release))


def numbers(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", text)]


@functools.cache
def install(name: str, version: str) -> Path:
    """Return the program of this version, which runs; install it if needed.

    Raises:
        InstallError: it cannot be had, or does not run on this machine.
    """
    agent = ALL_AGENTS[name]
    folder = CACHE / f"{name}-{version}"
    program = folder / ("bin" if agent.python else "node_modules/.bin") / agent.program
    CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(CACHE / f"{name}.lock"):
        if not program.exists():
            (_from_pypi if agent.python else _from_npm)(folder, agent, version)
    if program_version(program) != version:
        raise InstallError(f"{agent.package} {version} does not run on this machine")
    return program


def program_version(program: Path) -> str | None:
    """Return the version that a program reports, None if it does not run."""
    try:
        told = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            timeout=VERSION_SECONDS,
            env={**os.environ, "PATH": path_of(program)},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(RELEASE_PATTERN, told.stdout + told.stderr)
    return found[0] if told.returncode == 0 and found else None


def path_of(program: Path) -> str:
    """Return a PATH on which the programs that came with it are first."""
    return f"{program.parent}:{os.environ['PATH']}"


def published(agent: Agent) -> tuple[str, list[str]]:
    """Return what the registry calls the latest version, and all that it has.

    Raises:
        InstallError: it cannot be asked.
    """
    if agent.python:
        told = _run(sys.executable, "-m", "pip", "index", "versions", "--pre", agent.package)
        versions = " ".join(re.findall(PUBLISHED_PATTERN, told, re.MULTILINE)).split(", ")
        return next(one for one in versions if order(one)[1]), versions
    found = json.loads(_npm("view", agent.package, "dist-tags", "versions", "--json"))
    return found["dist-tags"]["latest"], found["versions"]


def _from_npm(folder: Path, agent: Agent, version: str) -> None:
    """Install beside the folder and rename: it is never half an installation."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".partial-") as partial:
        inner = Path(partial) / "inner"
        inner.mkdir()
        packages = (f"{agent.package}@{version}", *filter(None, [agent.node]))
        _npm("install", "--prefix", str(inner), "--no-audit", "--no-fund", *packages)
        shutil.rmtree(folder, ignore_errors=True)
        inner.rename(folder)


def _from_pypi(folder: Path, agent: Agent, version: str) -> None:
    """Install in place, as a virtual environment knows its own; the program comes last."""
    _run(sys.executable, "-m", "venv", str(folder))
    _run(str(folder / "bin" / "python"), "-m", "pip", "install", f"{agent.package}=={version}")


def _npm(*words: str) -> str:
    return _run("npm", "--loglevel=error", *words)


def _run(*command: str) -> str:
    """Return what a command prints."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=True
        )
    except FileNotFoundError as error:
        raise InstallError(f"{command[0]} is not there: install Node.js 18 or newer") from error
    except subprocess.TimeoutExpired as error:
        raise InstallError(f"{' '.join(command)} took over {INSTALL_SECONDS} s") from error
    except subprocess.CalledProcessError as error:
        raise InstallError(f"{' '.join(command)}: {error.stderr.strip()}") from error
    return done.stdout


def main() -> int:
    """Install every agent that is tested, and say what is there."""
    try:
        for agent in (AGENTS | FURTHER_AGENTS).values():
            for version in agent.versions:
                print(f"{agent.name} {version}: ", end="", flush=True)
                install(agent.name, version)
                print("ready", flush=True)
    except InstallError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
