"""`cao demo`: the real loop on a small broken project, with the built-in agents."""

import difflib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from textwrap import wrap

import click

from ..core.files import Folder
from ..errors import UsageError
from ..pipeline.flow_file import LOOP, PACKAGED
from ..runs.record import is_run_id
from ..runs.view import Turn, view_run
from ..scripted_agent import DEMO_PROJECT, DEMO_SCRIPT
from ..settings.config import RunConfig, ServerConfig, check_state_folder, state_folder
from ..settings.gates import PROOF, When
from ..settings.layout import DRAFT_PREFIX, TASK_FILE, run_folder, runs_folder, turns_folder
from ..settings.table import BY_NAME
from ..show.report_text import text_table
from .imports import importing, own_command

PROJECT_NAME = "shopping-basket"
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}

USUAL_WIDTH, WIDEST = 80, 100
INTRODUCTION = """\
There is now a small project with two faults:
  {project}

{who}
They follow a script, in real terminals; everything else is as in any run.
"""
WHO = {
    "loop": "Five agents work on it: an analyst, a programmer, a reviewer for each, and a tester. "
    "The tester's first PASS is not true. cao runs the tests itself, and believes them instead.",
    "pair": "Two agents work on it, a programmer and a reviewer. When they say that it is done, "
    "cao runs the tests itself, and believes them instead.",
    "solo": "One agent works on it, a programmer. When it says that it is done, cao runs the tests "
    "itself, and believes them instead.",
}
GATE_NAME = "tests"
GATE_WORDS = ("-B", "-m", "unittest")
CLAIMS = {
    "loop": "In round {round} the tester said PASS without running a test. cao ran them:",
    "pair": "In round {round} the reviewer approved what was done. cao ran the tests:",
    "solo": "In round {round} the programmer was done. cao ran the tests:",
}
PROVEN = """\
{claim} {failed}.

In round {last} they passed, and cao looked at what that is worth. {proof}."""
WHERE = """\

The project stays in
  {project}
Every prompt and reply is kept in
  {archive}
It is among your own runs now. On one page, and in the browser:
  {cao} report {run}
  {cao} dashboard
"""
NEXT_STEPS = """\
What to type next, in a project of your own

See what is installed, and what is missing:
  {cao} doctor

Write task.md and cao.toml, with explanations:
  {cao} init

When you have filled in task.md, let five Codex agents work on it (--provider chooses others):
  {cao} run task.md
"""

STOPPED = "The demo was stopped. Run the same command again to start over"


@click.command()
@click.option(
    "--flow",
    type=click.Choice(PACKAGED),
    default=LOOP,
    help="Who works: the usual five, a programmer with a reviewer, or a programmer alone.",
)
def demo(flow: str) -> None:
    """See a whole run: a small broken project, built-in agents, a false PASS, then a proven one.

    It needs tmux, and no account, no network and no settings. It leaves your own server alone.
    """
    folder = Path(tempfile.mkdtemp(prefix="cao-demo-"))
    project = folder / PROJECT_NAME
    shutil.copytree(DEMO_PROJECT, project, ignore=shutil.ignore_patterns("__pycache__"))
    _say(INTRODUCTION.format(project=project, who=WHO[flow]))
    with private_environment(folder, os.environ) as environ:
        code = _run(project, flow, environ)
        turns: Sequence[Turn] = ()
        kept = ""
        if code in (0, 1):
            state = state_folder(environ)
            [name] = filter(is_run_id, runs_folder(state).names())
            turns = view_run(run_folder(state, name)).turns
            kept = keep_run(run_folder(state, name), state_folder(os.environ))
    if turns:
        _show_result(project, flow, turns, kept)
    sys.exit(code)


def _run(project: Path, flow: str, environ: Mapping[str, str]) -> int:
    with importing():  # heavy, unlike --help
        from ..runs.request import RunRequest
        from .conduct import conduct
        from .progress import choose_view

    settings = {
        "WD": str(project),
        "PROMPT_FILE": str(project / TASK_FILE),
        "PROVIDER": "scripted",
        "CLEANUP_ON_EXIT": "1",
        "FLOW": flow,
        "GATES": json.dumps(
            {
                "name": GATE_NAME,
                # The interpreter that is first on the path, see below.
                "run": shlex.join([Path(sys.executable).name, *GATE_WORDS]),
                "when": [When.BASE, When.AFTER_TESTER],
            }
        ),
    }
    request = RunRequest(RunConfig.from_env(settings))
    view = choose_view(project, as_json=False, report="", unfinished=STOPPED)
    return conduct(request, view, environ, state_stays=False)


@contextmanager
def private_environment(folder: Path, environ: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield an environment with a state folder and a tmux server of its own, and end both."""
    state = folder / "state"
    own = {
        name: value
        for name, value in environ.items()
        if name not in BY_NAME and not name.startswith("CAO_")
    }
    own |= {
        "CAO_STATE_DIR": str(state),
        "CAO_CONFIG_DIR": str(folder / "config"),
        "CAO_PORT": "0",
        "CAO_SCRIPTED_ARGS": shlex.join(["--script", str(DEMO_SCRIPT)]),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), environ.get("PATH", "")]),
    }
    try:
        yield own
    finally:
        _end_tmux(ServerConfig.from_env(own).tmux_socket)
        shutil.rmtree(state, ignore_errors=True)


def keep_run(demo: Folder, own: Path) -> str:
    """Put the run of the demo among the user's own; return its id, empty if that cannot be."""
    name = demo.parts[-1]
    try:
        check_state_folder(own)
        draft = run_folder(own, DRAFT_PREFIX + name)
        draft.make()
        shutil.copytree(demo.path, draft.path, dirs_exist_ok=True)
        draft.rename_to(name)
    except (OSError, UsageError):
        return ""
    return name


def _end_tmux(socket: str) -> None:
    """End the tmux server of a socket and remove the socket; there may be none."""
    try:
        path = _tmux(socket, "display-message", "-p", "#{socket_path}")
        _tmux(socket, "kill-server")
    except OSError:
        return
    if path:
        Path(path).unlink(missing_ok=True)


def _tmux(socket: str, *words: str) -> str:
    done = subprocess.run(
        ["tmux", "-L", socket, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    return done.stdout.strip()


def _show_result(project: Path, flow: str, turns: Sequence[Turn], kept: str) -> None:
    """Say what came of it; `kept` is its id among the user's own runs, empty if it is none."""
    click.secho("\nWhat the agents changed\n", bold=True)
    for line in diff_lines(DEMO_PROJECT, project):
        click.secho(line, fg=DIFF_STYLES.get(line[:1]))
    cao = own_command(sys.argv[0], sys.executable, os.environ.get("PATH"))
    click.secho("\nTimeline\n", bold=True)
    click.echo(text_table(turns, _width()))
    click.secho("\nWhat was proven\n", bold=True)
    _say(what_was_proven(turns, flow))
    if kept:
        archive = turns_folder(run_folder(state_folder(os.environ), kept))
        _say(WHERE.format(project=project, archive=archive.path, cao=cao, run=kept))
    _say(NEXT_STEPS.format(cao=cao))


def what_was_proven(turns: Sequence[Turn], flow: str) -> str:
    """Return what the gate said against the first claim, and what was proven in the end."""
    failed = next((turn for turn in turns if turn.outcome == "failed"), None)
    proof = next((turn for turn in reversed(turns) if turn.role == PROOF), None)
    if failed is None or proof is None:
        return "Nothing: the run did not come that far."
    claim = CLAIMS[flow].format(round=failed.round)
    words = proof.why[:1].upper() + proof.why[1:]
    return PROVEN.format(claim=claim, failed=failed.verdict, last=proof.round, proof=words)


def _say(text: str) -> None:
    click.echo(wrapped(text, min(_width(), WIDEST)))


def _width() -> int:
    """Return how wide the terminal is; what goes elsewhere is made for a usual one."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or USUAL_WIDTH
    except OSError:
        return USUAL_WIDTH


def wrapped(text: str, width: int) -> str:
    """Return a text with lines of that width, broken between words.

    An indented line stays whole: it is a path or a command, to be copied.
    """
    lines: list[str] = []
    for whole, group in groupby(text.split("\n"), key=lambda line: line[:1] in ("", " ")):
        block = list(group)
        if not whole:
            words = " ".join(block)
            block = wrap(words, width, break_long_words=False, break_on_hyphens=False)
        lines += block
    return "\n".join(lines)


def diff_lines(before: Path, after: Path) -> Iterator[str]:
    """Yield what was changed in the files that a folder had before."""
    for old in sorted(path for path in before.rglob("*") if path.is_file()):
        name = old.relative_to(before)
        if "__pycache__" in name.parts:
            continue
        new = after / name
        yield from difflib.unified_diff(
            old.read_text(encoding="utf-8").splitlines(),
            new.read_text(encoding="utf-8").splitlines() if new.is_file() else [],
            f"before/{name}",
            f"after/{name}",
            lineterm="",
        )
