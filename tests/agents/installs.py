"""Installs pinned real agent programs into the project's cache, each version in its own folder.

`python -m tests.agents.installs` installs them all, and says which it had to take instead.
`npm install` reports success also where a version has no build for this platform, so a program
counts as installed only when it tells its version. Where it cannot, the nearest version that can is
taken, and the note says so.
"""

import functools
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

CACHE = Path(__file__).parents[2] / ".cache" / "agents"
INSTALL_SECONDS = 600
VERSION_SECONDS = 60
MOST_TRIES = 12
RELEASE_PATTERN = r"\d+\.\d+\.\d+"


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent program as npm has it."""

    name: str
    """As in the API: `codex`."""
    package: str
    program: str
    versions: tuple[str, ...]
    """What the tests run on, newest first."""


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


@dataclass(frozen=True, slots=True)
class Installed:
    """A program that runs on this machine."""

    agent: str
    version: str
    program: Path
    note: str = ""
    """Why it is not the version that was asked for; empty if it is."""


class InstallError(Exception):
    """An agent program could not be installed; the text says what was tried."""


class NoSuchVersion(InstallError):
    """npm does not have this version."""


@functools.cache
def install(name: str, version: str, cache: Path = CACHE) -> Installed:
    """Return a running program of this version, or else of the nearest, installing it if needed.

    Raises:
        InstallError: no version near this one runs on this machine.
    """
    agent = (AGENTS | FURTHER_AGENTS)[name]
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / f"{name}.lock"):
        if _installed(agent, version, cache):
            return Installed(name, version, _program(agent, version, cache))
        for other in nearest_releases(version, _releases(agent)):
            if _installed(agent, other, cache):
                note = f"{agent.package} {version} cannot be had on this platform: {other} is taken"
                return Installed(name, other, _program(agent, other, cache), note)
    raise InstallError(f"{agent.package}: neither {version} nor a near version runs here")


def program_version(program: Path) -> str | None:
    """Return the version that a program reports, None if it does not run."""
    try:
        told = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=VERSION_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(RELEASE_PATTERN, told.stdout)
    return found[0] if told.returncode == 0 and found else None


def _folder(agent: Agent, version: str, cache: Path) -> Path:
    return cache / f"{agent.name}-{version}"


def _program(agent: Agent, version: str, cache: Path) -> Path:
    return _folder(agent, version, cache) / "node_modules" / ".bin" / agent.program


def _installed(agent: Agent, version: str, cache: Path) -> bool:
    """Tell whether this version runs, after installing it if it was never tried."""
    folder = _folder(agent, version, cache)
    if not folder.exists():
        try:
            _install_into(folder, agent, version)
        except NoSuchVersion:
            return False
    return program_version(_program(agent, version, cache)) == version


def _install_into(folder: Path, agent: Agent, version: str) -> None:
    """Install beside the folder and rename: it is never half an installation."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".partial-") as partial:
        inner = Path(partial) / "inner"
        inner.mkdir()
        package = f"{agent.package}@{version}"
        _npm("install", "--prefix", str(inner), "--no-audit", "--no-fund", package)
        inner.rename(folder)


def _releases(agent: Agent) -> list[str]:
    versions = json.loads(_npm("view", agent.package, "versions", "--json"))
    return [version for version in versions if re.fullmatch(RELEASE_PATTERN, version)]


def nearest_releases(version: str, releases: Iterable[str]) -> list[str]:
    """Return the other releases, the one that is fewest releases away first."""
    ordered = sorted({version, *releases}, key=_numbers)
    here = ordered.index(version)
    others = [other for other in ordered if other != version]
    return sorted(others, key=lambda other: abs(ordered.index(other) - here))[:MOST_TRIES]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _npm(*words: str) -> str:
    try:
        done = subprocess.run(
            ["npm", "--loglevel=error", *words],
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            check=True,
        )
    except FileNotFoundError as error:
        raise InstallError("npm is not there: install Node.js 18 or newer") from error
    except subprocess.TimeoutExpired as error:
        raise InstallError(f"npm {words[0]} took over {INSTALL_SECONDS} s") from error
    except subprocess.CalledProcessError as error:
        kind = NoSuchVersion if "ETARGET" in error.stderr else InstallError
        raise kind(f"npm {' '.join(words)}: {error.stderr.strip()}") from error
    return done.stdout


def main() -> int:
    """Install every agent that is tested, and say what is there."""
    try:
        for agent in (AGENTS | FURTHER_AGENTS).values():
            for version in agent.versions:
                print(f"{agent.name} {version}: ", end="", flush=True)
                print(install(agent.name, version).note or "ready", flush=True)
    except InstallError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
