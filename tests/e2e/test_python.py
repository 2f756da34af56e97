"""The package as a library: the examples of docs/python.md, and what they promise."""

import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

import pytest

import cli_agent_orchestrator as cao
from cli_agent_orchestrator.client.client import ApiClient
from tests.e2e.conftest import Machine
from tests.e2e.runs import TASK, prepare, rule, runs_of, script, state_of

pytestmark = [pytest.mark.tmux, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
BLOCK_PATTERN = r"(?ms)^```python\n(.*?)^```$"
EXAMPLES = re.findall(BLOCK_PATTERN, PAGE.read_text(encoding="utf-8"))


IMPORTS = "from pathlib import Path\nimport cli_agent_orchestrator as cao\n"


def python(machine: Machine, code: str) -> subprocess.CompletedProcess[str]:
    """Run a program in the project, on the user's machine."""
    return machine.new_process([sys.executable, "-c", IMPORTS + code])


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_of_the_page_runs(machine: Machine, number: int) -> None:
    (machine.work / "task.md").write_text(TASK, encoding="utf-8")
    with ExitStack() as stack:
        if "Client" in EXAMPLES[number]:
            stack.enter_context(machine.server())
        done = python(machine, EXAMPLES[number])
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) == 7


def test_the_page_names_all_that_is_public_all_events_and_all_verbs() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in cao.__all__ if f"cao.{name}" not in page] == []
    named = set(re.findall(r"`(\w+)`", page))
    assert {event.__name__ for event in get_args(cao.events.RunEvent)} <= named
    verbs = {name for name, value in vars(ApiClient).items() if callable(value)}
    assert {name for name in verbs if not name.startswith("_")} <= named


def test_a_result_says_what_stands_behind_a_pass_and_the_program_keeps_its_signals(
    machine: Machine,
) -> None:
    prepare(machine, script())
    done = python(
        machine,
        "import gc, signal\n"
        "def kept():\n"
        "    handlers = [signal.getsignal(number) for number in signal.valid_signals()]\n"
        "    return gc.isenabled(), gc.get_freeze_count(), handlers\n"
        "before = kept()\n"
        "for gates in ('quiet=true', 'quiet=false'):\n"
        "    result = cao.run(Path('task.md'), flow='solo', gates=gates, max_rounds=1)\n"
        "    print(result.final_status, repr(result.proof), kept() == before)",
    )
    proof = "not proven: no gate says which tests it runs"
    assert done.stdout == f"PASS {proof!r} True\nFAIL '' True\n", done.stderr


def test_runs_in_several_folders_go_on_side_by_side(machine: Machine) -> None:
    prepare(machine, script())
    done = python(
        machine,
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def run(name):\n"
        "    Path(name).mkdir()\n"
        "    return cao.run(Path('task.md').absolute(), wd=name)\n"
        "with ThreadPoolExecutor() as pool:\n"
        "    results = list(pool.map(run, ('one', 'two')))\n"
        "print(*(result.final_status for result in results), len({r.run for r in results}))\n",
    )
    assert done.stdout == "PASS PASS 2\n", done.stderr
    assert done.stderr == ""


def test_an_error_after_the_beginning_is_a_result_that_can_be_resumed(machine: Machine) -> None:
    prepare(machine, script(rule("programmer", misbehave='{ error = "usage limit" }')))
    said = "r = cao.run(Path('task.md')); print(r.final_status, r.exit_code, bool(r.reason))"
    done = python(machine, said)
    assert done.stdout == "RUNNING 3 True\n", done.stderr
    machine.script(script())
    assert python(machine, "print(cao.run(replace_terminals=True).passed)").stdout == "True\n"


def test_an_interrupt_stops_a_run_that_goes_on_with_the_next_call(machine: Machine) -> None:
    prepare(machine, script(rule("programmer", seconds="5")))
    code = "cao.run(Path('task.md'), on_event=lambda event: print(event, flush=True))"
    with subprocess.Popen(
        [sys.executable, "-c", IMPORTS + code],
        env=machine.env,
        cwd=machine.work,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            if line.startswith("TurnBegan") and "'programmer'" in line:
                process.send_signal(signal.SIGINT)
        assert process.stderr.read().endswith("KeyboardInterrupt\n")
    assert process.returncode == -signal.SIGINT
    assert state_of(machine)["final_status"] == "RUNNING"
    (listed,) = runs_of(machine)
    assert listed["status"] == "stopped"
    done = python(machine, "print(cao.run().passed)")
    assert done.stdout == "True\n", done.stderr


def test_a_run_of_the_server_is_steered(machine: Machine) -> None:
    prepare(machine, script(rule("programmer", seconds="2")))
    with machine.server():
        done = python(
            machine,
            "def follow(after, kind, field, value):\n"
            "    for event in client.run_events(run, after):\n"
            "        if isinstance(event, kind) and getattr(event, field) == value:\n"
            "            return event.seq\n"
            "with cao.Client.find() as client:\n"
            "    run = client.start_run(Path('task.md'), wd='.', provider='scripted')['id']\n"
            "    seq = follow(0, cao.events.TurnBegan, 'role', 'programmer')\n"
            "    told = [client.pause_run(run), client.change_setting(run, 'max_rounds', 3)]\n"
            "    seq = follow(seq, cao.events.TurnEnded, 'role', 'programmer')\n"
            "    told.append(client.stop_run(run))\n"
            "    print(client.get_run(run)['status'])\n"
            "    told.append(client.resume_run(run))\n"
            "    follow(seq, cao.events.RunEnded, 'final_status', 'PASS')\n"
            "    (listed,) = client.list_runs()\n"
            "    print(listed['status'], [asked['heard'] for asked in told])\n",
        )
    assert done.stdout == "stopped\nPASS [True, True, True, True]\n", done.stderr
    assert done.stderr == ""


WRONG = (
    ("cao.run('---\\ngates: true\\n---\\n# Task\\nDo it.')", "PromptError", "PROMPT, line 2: "),
    ("cao.run('task.md')", "UsageError", "pathlib.Path"),
    ("cao.run(Path('task.md'), max_rounds=[1])", "ConfigError", "max_rounds in cao.run"),
    ("cao.run(Path('task.md'), provider='nobody')", "UnknownName", "nobody"),
    ("cao.run(Path('task.md'), flow='nothing')", "UnknownName", "nothing"),
    ("cao.run(Path('task.md'), wd='nowhere')", "ConfigError", "wd in cao.run"),
    ("cao.Flow.load('nothing')", "UnknownName", "nothing"),
    ("cao.Client.find()", "ApiUnreachable", "cao server"),
    ("cao.Client.find('http://localhost:1')", "ApiUnreachable", "named by api="),
    ("cao.run(Path('task.md'), api='http://localhost:1')", "UsageError", "named by api="),
)


def test_what_cannot_be_right_is_raised(machine: Machine) -> None:
    (machine.work / "task.md").write_text(TASK, encoding="utf-8")
    code = "".join(
        f"try:\n    {call}\n"
        "except cao.errors.OrchestratorError as error:\n"
        "    print(type(error).__name__, str(error).replace(chr(10), ' '))\n"
        for call, _, _ in WRONG
    )
    done = python(machine, code)
    for (call, error, words), line in zip(WRONG, done.stdout.splitlines(), strict=True):
        assert line.startswith(f"{error} "), (call, line)
        assert words in line
    assert done.stderr == ""
