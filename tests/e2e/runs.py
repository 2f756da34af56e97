"""Runs as a user starts them: `cao run` in a project, followed by its JSON events."""

import json
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.machine import Machine, ended_at_last

# Any: the events of a run are JSON
Event = dict[str, Any]

TASK = """\
*** ORIGINAL EXPLORE SUMMARY ***
Make the parser accept empty lines.

*** SCENARIO TEST ***
Run the parser on an empty file.
"""

REPLIES = {
    "analyst": "ANALYST_SUMMARY:\n\n## 5. Explicit handoff\n- change nothing (message {turn})",
    "analyst_review": (
        "REVIEW_RESULT: APPROVED\nREVIEW_NOTES:\n- artifacts, P1, downstream contract, handoff "
        "(message {turn})"
    ),
    "programmer": (
        "PROGRAMMER_SUMMARY:\n\n## Files changed\n- none\n\n## Behavior implemented\n- none "
        "(message {turn})"
    ),
    "programmer_review": (
        "REVIEW_RESULT: APPROVED\nREVIEW_NOTES:\n- code, test, risk, no issue (message {turn})"
    ),
    "tester": "RESULT: PASS\nEVIDENCE:\n- none (message {turn})",
}
FIVE_TURNS = list(REPLIES)
STATE = ".tmp/orchestrator-loop-state.json"


def rule(role: str, answer: str | None = None, **fields: str) -> str:
    """Return a rule of a script; fields are TOML already."""
    lines = [f"{name} = {value}\n" for name, value in fields.items()]
    text = json.dumps(REPLIES[role] if answer is None else answer)
    return f'[[rule]]\nrole = "{role}"\n{"".join(lines)}answer = {text}\n'


WRITES = rule("programmer", write='[{ path = "new.txt", content = "new\\n" }]')
ASKS = rule("programmer", misbehave='{ ask = "Go on?" }')
"""Waits for a person, however slow the machine is."""


def script(*first: str, seconds: float = 0) -> str:
    """Return a script with which a run passes; the rules given come before all others."""
    usual = (rule(role, seconds=str(seconds)) for role in REPLIES)
    return "\n".join([*first, *usual])


def prepare(machine: Machine, text: str) -> None:
    """Write the task, tell the agents what to do, and set up for short runs."""
    (machine.work / "task.md").write_text(TASK, encoding="utf-8")
    machine.script(text)
    machine.env |= {"PROVIDER": "scripted", "MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1"}


class Run:
    """A `cao run --json` that is under way."""

    def __init__(self, machine: Machine, *words: str) -> None:
        self.process = machine.start("run", "--json", *words)
        self.events: list[Event] = []
        self.errors = ""

    def until(self, is_it: Callable[[Event], bool]) -> Event:
        """Read on to an event."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))
            if is_it(self.events[-1]):
                return self.events[-1]
        raise AssertionError(f"the run ended without it: {self.events[-3:]} {self.end()}")

    def until_error(self, text: str) -> None:
        """Read standard error on to a line with a text in it."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if text in line.decode():
                return
        raise AssertionError(f"the run ended without saying {text!r}")

    def end(self) -> int:
        """Read on to the end and return the exit code."""
        output, errors = self.process.communicate(timeout=120)
        self.errors = errors.decode()
        self.events += [json.loads(line) for line in output.splitlines()]
        return self.process.wait()

    def interrupt(self, number: int = signal.SIGINT) -> None:
        self.process.send_signal(number)

    def told(self, name: str) -> list[Event]:
        return [event for event in self.events if event["type"] == name]


@contextmanager
def running(machine: Machine, *words: str) -> Iterator[Run]:
    """Run `cao run --json` and see to it that it ends."""
    run = Run(machine, *words)
    with ended_at_last(run.process):
        yield run


def cut_short(
    machine: Machine, *words: str, role: str = "programmer", number: signal.Signals = signal.SIGINT
) -> Run:
    """Take a run to the question of a role, and end it there by a signal."""
    with running(machine, *words) as run:
        run.until(at("waiting_for_person", role))
        run.interrupt(number)
        assert run.end() == (-number if number is signal.SIGKILL else 128 + number), run.errors
    return run


def events_of(output: str) -> list[Event]:
    """Return the events that a command printed as JSON."""
    return [json.loads(line) for line in output.splitlines()]


def at(name: str, role: str, **fields: object) -> Callable[[Event], bool]:
    """Return a question: is an event of this name, role and so on?"""
    wanted = {"type": name, "role": role, **fields}
    return lambda event: all(event.get(key) == value for key, value in wanted.items())


def state_of(machine: Machine) -> Any:
    return json.loads((machine.work / STATE).read_text(encoding="utf-8"))


def saved_of(machine: Machine) -> Any:
    """Return the state of the run that the project's state file names, from its own folder."""
    path = machine.home / "state" / "runs" / state_of(machine)["run"] / "state.json"
    return json.loads(path.read_text(encoding="utf-8"))


def archive_of(machine: Machine) -> Path:
    """Return where prompts and replies of the only run are kept."""
    (archive,) = (machine.home / "state" / "runs").glob("20*/turns")
    return archive


def replies_of(machine: Machine) -> dict[str, str]:
    """Return what was archived, without prompts."""
    return {
        path.name: path.read_text(encoding="utf-8").strip()
        for path in sorted(archive_of(machine).glob("*.md"))
        if not path.stem.endswith("-prompt")
    }


def prompts_with(machine: Machine, text: str) -> list[str]:
    found = archive_of(machine).glob("*-prompt.md")
    return sorted(path.name for path in found if text in path.read_text(encoding="utf-8"))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def assert_five_turns_once(machine: Machine) -> None:
    """Every role was asked once, in order, and every answer is the first of its agent."""
    replies = replies_of(machine)
    assert list(replies) == [f"{n:03d}-{role}.md" for n, role in enumerate(FIVE_TURNS, 1)]
    assert list(replies.values()) == [text.replace("{turn}", "1") for text in REPLIES.values()]


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll, as third-party clients do."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def runs_of(machine: Machine) -> list[Event]:
    found: list[Event] = json.loads(machine.cao("runs", "--json", code=0).stdout)
    return found


def run_folder_of(machine: Machine) -> Path:
    (folder,) = (machine.home / "state" / "runs").glob("2*")
    return folder


def record_of(machine: Machine) -> Event:
    data: Event = json.loads((run_folder_of(machine) / "run.json").read_text(encoding="utf-8"))
    return data


def alive_agents(machine: Machine) -> list[Event]:
    listed: list[Event] = json.loads(machine.cao("ls", "--json").stdout)
    return [terminal for terminal in listed if terminal["alive"]]


def answer(machine: Machine, role: str) -> None:
    """Answer what the agent of a role asks, as soon as it does."""
    pane = machine.panes()[record_of(machine)["terminals"][role]]
    wait_until(lambda: "Go on?" in machine.tmux("capture-pane", "-p", "-t", pane))
    machine.tmux("send-keys", "-t", pane, "1")
