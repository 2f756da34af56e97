"""A whole run with `cao run`: what it adds to the agents' own time, and what waiting costs."""

import json
import os
import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.resources import files
from pathlib import Path

from bench.figures import AtMost, Figure
from bench.machine import Machine, cao_words, private_machine, running
from bench.snapshots import make_project
from bench.usage import Meter, Spent

TASK = """\
*** ORIGINAL EXPLORE SUMMARY ***
Nothing is to be done; see how long that takes.

*** SCENARIO TEST ***
Say PASS.
"""
RUNS = 5
TURNS = 9
FILES = 300
CHANGED = ("update-index -z", "write-tree", "diff-tree")
"""What a look at changed files starts besides `ls-files`."""
WORK_SECONDS = 60.0
SETTLE_SECONDS = 5.0
PATIENCE = 120.0

SLOW_SCRIPT = f"""
[[rule]]
role = "analyst"
seconds = {WORK_SECONDS + 60:.0f}
"""


def measure() -> list[Figure]:
    alone = [_run() for _ in range(RUNS)]
    with_server = [_run_with_server() for _ in range(RUNS)]
    # One after the other, so that both see the same machine.
    pairs = [(_run_in_project(kept=True), _run_in_project(kept=False)) for _ in range(RUNS)]
    name = f"run of {TURNS} turns, agents answer at once"
    return [
        _figure(f"{name}, with a server of its own", alone),
        _figure(f"{name}, with a server that is there", with_server),
        *_overhead_figures(pairs),
        _git_figure(),
        *_waiting_figures(),
    ]


def _figure(name: str, runs: list[Spent]) -> Figure:
    seconds = [run.elapsed for run in runs]
    cpu = statistics.median(run.cpu for run in runs)
    note = (
        f"from the command to its end, the agents' own time included; median of {len(runs)}, "
        f"best {min(seconds):.2f} s; {cpu:.2f} s of CPU"
    )
    return Figure(name, statistics.median(seconds), "s", AtMost(1.2), note=note)


def _overhead_figures(pairs: list[tuple[Spent, Spent]]) -> list[Figure]:
    """Compare the best of each: what else the machine does only ever adds to a run."""
    kept, bare = [one for one, _ in pairs], [other for _, other in pairs]
    times = [[run.elapsed for run in runs] for runs in (kept, bare)]
    spans = [f"{min(one):.2f} to {max(one):.2f} s" for one in times]
    name = f"what snapshots add to a run of {TURNS} turns, {FILES} files"
    note = (
        f"best of {len(pairs)} each; {spans[0]} with them, {spans[1]} without git on the PATH: "
        "says nothing if these are far apart"
    )
    cpu = statistics.median(one.cpu - other.cpu for one, other in pairs)
    return [
        Figure(name, min(times[0]) - min(times[1]), "s", AtMost(0.5), note=note),
        Figure(f"{name}, CPU", cpu, "s"),
    ]


def _run_in_project(*, kept: bool) -> Spent:
    """Run in a repository, with snapshots or where there is no git that could take them."""
    with private_machine() as machine:
        make_project(machine.work, FILES)
        if not kept:
            machine.env["PATH"] = _all_but_git(machine.home / "programs", machine.env["PATH"])
        spent = _timed_run(machine)
        if kept != any(machine.state.glob("runs/*/snapshots.git/taken.json")):
            raise RuntimeError(f"snapshots were {'not ' if kept else ''}taken")
        return spent


def _git_figure() -> Figure:
    """Count what looks at the work folder start, in a run whose programmer changes a file twice."""
    packaged = files("cli_agent_orchestrator.scripted_agent") / "default.toml"
    rules = packaged.read_text(encoding="utf-8")
    role = 'role = "programmer"\n'
    before, _, after = rules.partition(role)
    answer = after[: after.index("[[rule]]")]
    writes = [
        f'{role}turn = {turn}\nwrite = [{{ path = "new.py", content = "x = {turn}" }}]\n{answer}'
        for turn in (1, 2)
    ]
    with private_machine() as machine:
        make_project(machine.work, FILES)
        programs, log = machine.home / "programs", machine.home / "git.log"
        programs.mkdir()
        wrapper = f'#!/bin/sh\nprintf "%s\\n" "$*" >> {log}\nexec {shutil.which("git")} "$@"\n'
        (programs / "git").write_text(wrapper, encoding="utf-8")
        (programs / "git").chmod(0o755)
        machine.env["PATH"] = f"{programs}{os.pathsep}{machine.env['PATH']}"
        _timed_run(machine, before + "[[rule]]\n".join([*writes, role + after]))
        commands = log.read_text(encoding="utf-8")
    looks = commands.count(" ls-files -t ")
    started = looks + sum(commands.count(f" {word}") for word in CHANGED)
    note = f"{started} processes in {looks} looks; 1 where nothing changed, 4 where files did"
    return Figure("git processes of a look, on average", started / looks, "", AtMost(2), note=note)


def _all_but_git(folder: Path, path: str) -> str:
    """Fill a folder with links to all programs of a PATH but git; return the PATH of it."""
    folder.mkdir()
    for place in path.split(os.pathsep):
        for program in Path(place).glob("*"):
            if program.name != "git":
                # The first of a name is the one that counts.
                with suppress(FileExistsError):
                    (folder / program.name).symlink_to(program.absolute())
    return str(folder)


def _run() -> Spent:
    with private_machine() as machine:
        return _timed_run(machine)


def _run_with_server() -> Spent:
    with private_machine() as machine:
        machine.env.pop("CAO_SCRIPTED_ARGS", None)
        with machine.server() as server:
            machine.env["API"] = server.url
            return _timed_run(machine)


def _timed_run(machine: Machine, script: str = "") -> Spent:
    # The agent's own script passes the task after nine turns.
    machine.env.pop("CAO_SCRIPTED_ARGS", None)
    if script:
        machine.script(script)
    words = run_words(machine, "--json")
    meter = Meter([], own=True)
    done = subprocess.run(
        words, env=machine.env, cwd=machine.work, capture_output=True, text=True, check=True
    )
    spent = meter.spent()
    events = [json.loads(line) for line in done.stdout.splitlines()]
    turns = sum(event["type"] == "turn_ended" for event in events)
    if turns != TURNS:
        raise RuntimeError(f"the run took {turns} turns, not {TURNS}")
    return spent


def run_words(machine: Machine, *options: str) -> list[str]:
    """Return the command line of a run with scripted agents."""
    task = machine.work / "task.md"
    task.write_text(TASK, encoding="utf-8")
    machine.env["CAO_PORT"] = "0"
    return [*cao_words(), "run", str(task), "--provider", "scripted", *options]


def _waiting_figures() -> list[Figure]:
    """Measure two runs at a time while their agents work: one tells lines, one has a terminal."""
    with ExitStack() as stack:
        plain = stack.enter_context(_waiting_run(in_terminal=False))
        live = stack.enter_context(_waiting_run(in_terminal=True))
        time.sleep(SETTLE_SECONDS)
        meters = [Meter([plain]), Meter([live])]
        time.sleep(WORK_SECONDS)
        spent = [meter.spent() for meter in meters]
    return [
        _waiting_figure("its own server included", spent[0], AtMost(0.4)),
        _waiting_figure("and shows it in a terminal", spent[1], None),
    ]


@contextmanager
def _waiting_run(*, in_terminal: bool) -> Iterator[int]:
    """Run `cao run` with an agent that works for long; yield its process id once it does."""
    with private_machine() as machine, _output(in_terminal) as output:
        machine.script(SLOW_SCRIPT)
        words = run_words(machine)
        with running(words, machine.env, machine.work, stdout=output) as process:
            end = time.monotonic() + PATIENCE
            while not _agent_works(machine.state / "events"):
                if time.monotonic() > end:
                    raise RuntimeError("the run's agent did not begin to work")
                time.sleep(0.1)
            yield process.pid


@contextmanager
def _output(in_terminal: bool) -> Iterator[int]:
    """Yield where a run may write to: a terminal that is read to its end, or nowhere."""
    if not in_terminal:
        yield subprocess.DEVNULL
        return
    screen, device = os.openpty()
    reader = threading.Thread(target=_drain, args=(screen,), daemon=True)
    reader.start()
    try:
        yield device
    finally:
        os.close(device)
        reader.join()
        os.close(screen)


def _drain(screen: int) -> None:
    with suppress(OSError):  # the other side is closed
        while os.read(screen, 65536):
            pass


def _agent_works(events: Path) -> bool:
    return any("UserPromptSubmit" in file.read_text() for file in events.glob("*.jsonl"))


def _waiting_figure(name: str, spent: Spent, target: AtMost | None) -> Figure:
    return Figure(
        f"CPU of `cao run` while an agent works {WORK_SECONDS:.0f} s, {name}",
        100 * spent.load,
        "% of a core",
        target,
    )
