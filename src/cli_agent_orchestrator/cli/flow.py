"""`cao flow` lists, draws and tries flows; `cao demo` shows one on a small broken project."""

import difflib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from ..core.files import Folder
from ..core.text import one_line, printable
from ..errors import UsageError
from ..events import PROOF
from ..hosting.environment import flows_of
from ..pipeline.flow import DONE, Amount, BlockSource, Flow, Repeat, Stage, StageKind
from ..pipeline.task import EXPLORE_HEADER, SCENARIO_HEADER
from ..runs.flows import Flows, is_path
from ..runs.record import is_run_id
from ..runs.view import Turn, view_run
from ..scripted_agent import DEMO_PROJECT, DEMO_SCRIPT
from ..settings.config import RunConfig, ServerConfig
from ..settings.gates import When
from ..settings.layout import (
    DRAFT_PREFIX,
    TASK_FILE,
    check_state_folder,
    config_folder,
    run_folder,
    runs_folder,
    state_folder,
    turns_folder,
)
from ..settings.table import BY_NAME
from ..show.report_text import text_table
from .complete import complete_flows
from .imports import own_command, terminal_width
from .narration import rows_of

SOURCES = {
    BlockSource.TASK: "the task",
    BlockSource.SCENARIO: "the scenario",
    BlockSource.OUTPUT: "the reply of",
    BlockSource.NOTES: "the last notes of",
    BlockSource.EVIDENCE: "why the last round failed",
    BlockSource.OPEN_NOTES: "open notes of",
    BlockSource.LAST_OPEN_NOTES: "open notes of the last round, of",
    BlockSource.TEST_COMMAND: "the project's test command",
}
AMOUNTS = {
    Amount.WHOLE: "",
    Amount.HANDOFF: ": the parts for a programmer",
    Amount.CHANGES: ": files changed and behavior",
}
REPEATS = {
    Repeat.SHOW: "",
    Repeat.REFER: "; once, then a reference",
    Repeat.OMIT: "; once",
    Repeat.ONLY_NEW: "; only to an agent that replaces another",
}


def as_text(flow: Flow) -> str:
    lines = [f"{flow.name}: {flow.description}", ""]
    width = max(len(stage.name) for stage in flow.stages)
    # The way back from every check to the first stage.
    rails = ["│ " if stage.kind is StageKind.WORK else "├─" for stage in flow.stages]
    rails = ["┌▶", *rails[1:-1], "└─"] if len(rails) > 1 else ["↺ "]
    for stage, rail in zip(flow.stages, rails, strict=True):
        lines.append(f"  {rail} {stage.name.ljust(width)}  {who(stage)}")
    lines += [f"     {DONE.ljust(width)}  PASS", ""]
    lines.append(f"A FAIL starts the next round at {flow.first.name}.")
    for role in flow.roles:
        lines += ["", f"{role.name} (profile {role.profile}) writes {role.response_file} and sees"]
        titles = [block.title or "OPEN NOTES …" for block in role.blocks]
        width = max(map(len, titles), default=0)
        for title, block in zip(titles, role.blocks, strict=True):
            whose = f" {' and '.join(block.of)}" if block.of else ""
            words = f"{SOURCES[block.source]}{whose}{AMOUNTS[block.amount]}{REPEATS[block.repeat]}"
            lines.append(f"  {title.ljust(width)}  {words}")
        if not role.blocks:
            lines.append("  nothing but its prompt")
    return "\n".join(lines)


def who(stage: Stage) -> str:
    match stage.kind:
        case StageKind.GATE:
            return "a command of yours says PASS or FAIL (--gate)"
        case StageKind.TEST:
            return f"{stage.author} says PASS or FAIL"
    return f"{stage.author} ⇄ {stage.reviewer}" if stage.reviewer else stage.author


TASK = f"{EXPLORE_HEADER}\nTry the flow.\n\n{SCENARIO_HEADER}\nIt runs to its end.\n"

where_option = click.option(
    "--wd", metavar="PATH", default=".", help="The project's folder.  [default: here]"
)


@click.group()
def flow() -> None:
    """List flows, draw one, try one.

    A flow says who works in a run, in which order, with which prompts. NAME is one of the list, or
    the path of a TOML file.
    """


@flow.command()
@where_option
def ls(wd: str) -> None:
    """List the flows: those of the package, yours and the project's."""
    for found in _flows(wd).all():
        words = found.flow.description if found.flow else f"cannot be used: {found.fault}"
        click.echo(f"{one_line(found.name):<12} {one_line(words)}  [{one_line(found.where)}]")


@flow.command()
@click.argument("name", shell_complete=complete_flows)
@where_option
def show(name: str, wd: str) -> None:
    """Draw the flow NAME: its stages, and what each role sees.

    \b
    cao flow show my-flow.toml
    """
    click.echo(printable(as_text(_flows(wd).find(name))))


@flow.command()
@click.argument("name", shell_complete=complete_flows)
@where_option
def check(name: str, wd: str) -> None:
    """Try the flow NAME: run it once with the scripted agent.

    It needs no account and no network. The gates are not run: they count as passed. Ends with 2 if
    the file has a fault, which is named.

    \b
    cao flow check my-flow.toml
    """
    found = _flows(wd).find(name)
    click.echo(f"{found.name}: {' → '.join(who(stage) for stage in found.stages)}")
    named = str(Path(name).expanduser().absolute()) if is_path(name) else name
    code = try_flow(found, named, Path(wd).expanduser() / ".cao")
    if code == 0:
        click.echo("It runs to its end.")
    else:
        click.echo("cao: the flow is well-formed, but it did not run to its end", err=True)
    sys.exit(code)


def _flows(wd: str) -> Flows:
    return flows_of(Path(wd).expanduser().absolute(), os.environ)


def try_flow(found: Flow, named: str, own: Path) -> int:
    """Run a flow once; `own` is the folder with the flows and the profiles of its project."""
    with tempfile.TemporaryDirectory(prefix="cao-flow-") as name:
        folder = Path(name)
        project = folder / "project"
        project.mkdir()
        if own.is_dir():
            shutil.copytree(own, project / own.name, symlinks=True)
        script = folder / "script.toml"
        script.write_text(script_for(found), encoding="utf-8")
        settings = {
            "PROMPT": TASK,
            "FLOW": named,
            "GATES": json.dumps({"name": "gate", "run": "true", "when": ["after_tester"]}),
            "RECORDING": "0",
            "PROOF": "off",
        }
        with private_environment(folder, script, os.environ) as environ:
            environ["CAO_CONFIG_DIR"] = str(config_folder(os.environ))
            return _run(project, settings, environ, "try")


def _run(project: Path, settings: Mapping[str, str], environ: Mapping[str, str], what: str) -> int:
    # Heavy, unlike --help.
    from ..runs.request import RunRequest
    from .conduct import conduct
    from .run import choose_view

    given = {"WD": str(project), "PROVIDER": "scripted", "CLEANUP_ON_EXIT": "1", **settings}
    request = RunRequest(RunConfig.from_env(given), given)
    view = choose_view(project, False, STOPPED.format(what=what))
    return conduct(request, view, environ, state_stays=False)


def script_for(found: Flow) -> str:
    rules = []
    for role in found.roles:
        stage = found.stage_of(role.name)
        answer = f"{role.name.upper()}_SUMMARY:\n\n## Files changed\n- none\n"
        if role.name == stage.reviewer:
            words = (f"- {group}: {one[0]}" for group, one in role.evidence.items())
            answer = "\n".join(["REVIEW_RESULT: APPROVED", "REVIEW_NOTES:", "- tried", *words])
        elif stage.kind is StageKind.TEST:
            answer = "RESULT: PASS\nEVIDENCE:\n- tried"
        contains = json.dumps(f"/{role.response_file}")
        rules.append(f"[[rule]]\ncontains = {contains}\nanswer = {json.dumps(answer)}\n")
    return "\n".join(rules)


USUAL_WIDTH, WIDEST = 80, 100
INTRODUCTION = """\
There is now a small project with two faults:
  {project}

Five agents work on it: an analyst, a programmer, a reviewer for each, and a tester. The tester's \
first PASS is not true. cao runs the tests itself, and believes them instead. They follow a \
script, in real terminals; everything else is as in any run.
"""
PROVEN = """\
In round {round} the tester said PASS without running a test. cao ran them: {failed}.

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

STOPPED = "The {what} was stopped. Run the same command again to start over"


@click.command()
def demo() -> None:
    """See a whole run: a small broken project, built-in agents, a false PASS, then a proven one.

    It needs tmux, and no account, no network and no settings. It leaves your own server alone.
    """
    folder = Path(tempfile.mkdtemp(prefix="cao-demo-"))
    project = folder / "shopping-basket"
    shutil.copytree(DEMO_PROJECT, project, ignore=shutil.ignore_patterns("__pycache__"))
    say(INTRODUCTION.format(project=project))
    settings = {
        "PROMPT_FILE": str(project / TASK_FILE),
        "GATES": json.dumps(
            {
                "name": "tests",
                # The interpreter that is first on the path, see below.
                "run": shlex.join([Path(sys.executable).name, "-B", "-m", "unittest"]),
                "when": [When.BASE, When.AFTER_TESTER],
            }
        ),
    }
    with private_environment(folder, DEMO_SCRIPT, os.environ) as environ:
        code = _run(project, settings, environ, "demo")
        turns: Sequence[Turn] = ()
        kept = ""
        if code in (0, 1):
            state = state_folder(environ)
            [name] = filter(is_run_id, runs_folder(state).names())
            turns = view_run(run_folder(state, name)).turns
            kept = keep_run(run_folder(state, name), state_folder(os.environ))
    if turns:
        _show_result(project, turns, kept)
    sys.exit(code)


@contextmanager
def private_environment(
    folder: Path, script: Path, environ: Mapping[str, str]
) -> Iterator[dict[str, str]]:
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
        "CAO_SCRIPTED_ARGS": shlex.join(["--script", str(script)]),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), environ.get("PATH", "")]),
    }
    try:
        yield own
    finally:
        socket = ServerConfig.from_env(own).tmux_socket
        words = ["tmux", "-L", socket, "display-message", "-p", "#{socket_path}", ";"]
        with suppress(OSError):
            done = subprocess.run(
                [*words, "kill-server"], capture_output=True, text=True, timeout=10, check=False
            )
            if path := done.stdout.strip():
                Path(path).unlink(missing_ok=True)
        shutil.rmtree(state, ignore_errors=True)


def keep_run(demo: Folder, own: Path) -> str:
    """Copy the run of the demo to the user's own; return its id, empty if that is impossible."""
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


def _show_result(project: Path, turns: Sequence[Turn], kept: str) -> None:
    click.secho("\nWhat the agents changed\n", bold=True)
    for old in sorted(DEMO_PROJECT.rglob("*.py")):
        name = old.relative_to(DEMO_PROJECT)
        was, now = (path.read_text(encoding="utf-8").splitlines() for path in (old, project / name))
        for line in difflib.unified_diff(was, now, f"before/{name}", f"after/{name}", lineterm=""):
            click.secho(line, fg={"+": "green", "-": "red", "@": "cyan"}.get(line[:1]))
    cao = own_command(sys.argv[0], sys.executable, os.environ.get("PATH"))
    click.secho("\nTimeline\n", bold=True)
    click.echo(text_table(turns, terminal_width() or USUAL_WIDTH))
    click.secho("\nWhat was proven\n", bold=True)
    say(what_was_proven(turns))
    if kept:
        archive = turns_folder(run_folder(state_folder(os.environ), kept))
        say(WHERE.format(project=project, archive=archive.path, cao=cao, run=kept))
    say(NEXT_STEPS.format(cao=cao))


def what_was_proven(turns: Sequence[Turn]) -> str:
    failed = next((turn for turn in turns if turn.outcome == "failed"), None)
    proof = next((turn for turn in reversed(turns) if turn.role == PROOF), None)
    if failed is None or proof is None:
        return "Nothing: the run did not come that far."
    words = proof.why[:1].upper() + proof.why[1:]
    return PROVEN.format(round=failed.round, failed=failed.verdict, last=proof.round, proof=words)


def say(text: str) -> None:
    width = min(terminal_width() or USUAL_WIDTH, WIDEST)
    for line in text.split("\n"):
        click.echo("\n".join(rows_of(line, 0 if line.startswith(" ") else width)))
