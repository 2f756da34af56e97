"""Installs pinned real agent programs into the project's cache, each version in its own folder.

`python -m tests.agents.installs` installs them all.
`npm install` reports success also where a version has no build for this platform, so a program
counts as installed only when it tells its version.
"""

import functools
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

CACHE = Path(__file__).parents[2] / ".cache" / "agents"
INSTALL_SECONDS = 600
VERSION_SECONDS = 60
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
        Agent("qwen_code", "@qwen-code/qwen-code", "qwen", ("0.24.4",)),
        Agent("cline", "cline", "cline", ("3.0.65",)),
        Agent("pi", "@mariozechner/pi-coding-agent", "pi", ("0.73.1",)),
        # 7.8.1 has no build for Linux in the registry.
        Agent("kilo", "@kilocode/cli", "kilo", ("7.7.7",)),
    )
}


class InstallError(Exception):
    """An agent program could not be installed; the text says what was tried."""


@functools.cache
def install(name: str, version: str) -> Path:
    """Return the program of this version, which runs; install it if needed.

    Raises:
        InstallError: it cannot be had, or does not run on this machine.
    """
    agent = (AGENTS | FURTHER_AGENTS)[name]
    folder = CACHE / f"{name}-{version}"
    program = folder / "node_modules" / ".bin" / agent.program
    CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(CACHE / f"{name}.lock"):
        if not folder.exists():
            _install_into(folder, f"{agent.package}@{version}")
    if program_version(program) != version:
        raise InstallError(f"{agent.package} {version} does not run on this machine")
    return program


def program_version(program: Path) -> str | None:
    """Return the version that a program reports, None if it does not run."""
    try:
        told = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=VERSION_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(RELEASE_PATTERN, told.stdout + told.stderr)
    return found[0] if told.returncode == 0 and found else None


def _install_into(folder: Path, package: str) -> None:
    """Install beside the folder and rename: it is never half an installation."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".partial-") as partial:
        inner = Path(partial) / "inner"
        inner.mkdir()
        _npm("install", "--prefix", str(inner), "--no-audit", "--no-fund", package)
        inner.rename(folder)


def _npm(*words: str) -> None:
    try:
        subprocess.run(
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
        raise InstallError(f"npm {' '.join(words)}: {error.stderr.strip()}") from error


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
