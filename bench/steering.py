"""A run that is paused in every turn, and given a hint in every pause: how soon it heeds that."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.figures import AtLeast, Figure, latency_figures
from bench.machine import Machine, private_machine, running
from bench.runs import run_words
from cli_agent_orchestrator.pipeline.requests import Hint, Pause, Request, Unpause
from cli_agent_orchestrator.runs.control import write_request
from cli_agent_orchestrator.settings.layout import run_folder, state_folder

RUNS = 5
PAUSE_MS = 100


def measure() -> list[Figure]:
    told = _Told()
    for _ in range(RUNS):
        with private_machine() as machine:
            _steer(machine, told)
    share = 100 * told.arrived / len(told.pauses)
    return [
        *latency_figures("a pause holds after the end of the turn", told.pauses, (None, PAUSE_MS)),
        Figure("hints that are in the next prompt", share, "%", AtLeast(100)),
    ]


@dataclass
class _Told:
    pauses: list[float] = field(default_factory=list)
    """Seconds from the end of a turn to the pause."""
    arrived: int = 0
    """Hints that the next agent was given."""


def _steer(machine: Machine, told: _Told) -> None:
    machine.env.pop("CAO_SCRIPTED_ARGS", None)
    words = run_words(machine, "--json")
    with running(words, machine.env, machine.work, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        _answer(machine, map(json.loads, process.stdout), told)


# Any: JSON
def _answer(machine: Machine, events: Iterator[dict[str, Any]], told: _Told) -> None:
    run, ended, hint = "", 0.0, ""
    for event in events:
        match event["type"]:
            case "run_opened":
                run = event["run"]
            case "turn_began":
                _ask(machine, run, Pause())
            case "dispatched" if hint:
                told.arrived += _was_told(
                    run_folder(state_folder(machine.env), run).path / "turns", hint
                )
                hint = ""
            case "turn_ended":
                ended = event["at"]
            case "paused":
                told.pauses.append(event["at"] - ended)
                hint = f"hint {len(told.pauses)}"
                _ask(machine, run, Hint(None, hint))
                _ask(machine, run, Unpause())


def _ask(machine: Machine, run: str, request: Request) -> None:
    write_request(run_folder(state_folder(machine.env), run), request)


def _was_told(archive: Path, hint: str) -> bool:
    """Is it in the newest prompt?"""
    newest = max(archive.glob("*-prompt.md"))
    return hint in newest.read_text(encoding="utf-8").splitlines()
