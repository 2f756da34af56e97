"""Runs the agent: `python -m cli_agent_orchestrator.scripted_agent --profile NAME`."""

import os
import sys
from pathlib import Path

from ..core.clock import SystemClock
from ..errors import UsageError
from . import DEFAULT_SCRIPT
from .agent import Agent
from .console import Console, Quit, Terminal
from .script import Script, Signals, parse_script

USAGE = "usage: scripted_agent --profile NAME [--events FILE] [--script FILE] [--check]"


def main(arguments: list[str]) -> int:
    try:
        options = read_options(arguments)
        script = load_script(Path(options.get("--script", DEFAULT_SCRIPT)))
        if "--check" in options:
            sys.stdout.write(f"{script.name}: {len(script.rule)} rules\n")
            return 0
        return run_agent(options, script)
    except UsageError as error:
        sys.stderr.write(f"scripted agent: {error}\n")
        return 2


def read_options(arguments: list[str]) -> dict[str, str]:
    """Return the options; by hand, as `argparse` would lengthen the start by a sixth."""
    options: dict[str, str] = {}
    left = iter(arguments)
    for name in left:
        name, _, value = name.partition("=")
        if name == "--check":
            options[name] = name
        elif name in ("--profile", "--events", "--script"):
            options[name] = value or next(left, "")
        else:
            raise UsageError(f"there is no option {name!r}\n{USAGE}")
        if not options[name]:
            raise UsageError(f"{name} needs a value\n{USAGE}")
    if "--profile" not in options and "--check" not in options:
        raise UsageError(f"--profile is missing\n{USAGE}")
    return options


def load_script(path: Path) -> Script:
    try:
        return parse_script(path.read_text(encoding="utf-8"), path.name)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8: {error}") from error


def run_agent(options: dict[str, str], script: Script) -> int:
    if not (os.isatty(0) and os.isatty(1)):
        raise UsageError("the scripted agent needs a terminal")
    signals = Signals(script, options.get("--events"))
    terminal = Terminal()
    try:
        with terminal.taken_over():
            console = Console(terminal, signals, SystemClock())
            return Agent(console, Path.cwd(), signals, script, options["--profile"]).run()
    except Quit as quit_:
        return quit_.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
