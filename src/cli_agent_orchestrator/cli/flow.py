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
from contextlib import contextmanager
from html import escape
from itertools import groupby
from pathlib import Path
from textwrap import wrap

import click

from ..core.files import Folder
from ..core.text import one_line, printable
from ..errors import UsageError
from ..hosting.environment import flows_of
from ..pipeline.flow import DONE, Amount, Block, BlockSource, Flow, Repeat, Role, Stage, StageKind
from ..pipeline.flow_file import LOOP, PACKAGED
from ..pipeline.task import EXPLORE_HEADER, SCENARIO_HEADER
from ..runs.flows import Flows
from ..runs.record import is_run_id
from ..runs.view import Turn, view_run
from ..scripted_agent import DEMO_PROJECT, DEMO_SCRIPT
from ..settings.config import (
    RunConfig,
    ServerConfig,
    check_state_folder,
    config_folder,
    state_folder,
)
from ..settings.gates import PROOF, When
from ..settings.layout import DRAFT_PREFIX, TASK_FILE, run_folder, runs_folder, turns_folder
from ..settings.table import BY_NAME
from ..show.report_text import text_table
from .complete import complete_flows
from .imports import importing, own_command, terminal_width

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
OPEN_NOTES_TITLE = "OPEN NOTES …"

BOX_WIDTH, BOX_HEIGHT, GAP, MARGIN, TOP = 300, 64, 44, 30, 80
BACK_WIDTH, STEP = 90, 14
LINE_CHARACTERS = 52
STYLE = (
    "text{font-family:sans-serif;font-size:14px;fill:#1f2328}"
    ".name{font-weight:bold}.quiet{font-size:12px;fill:#57606a}"
    ".box{fill:#f6f8fa;stroke:#57606a}.gate{fill:#fff8c5}.test{fill:#ddf4ff}"
    ".line{fill:none;stroke:#57606a;stroke-width:1.5;marker-end:url(#tip)}"
)


def as_text(flow: Flow) -> str:
    lines = [f"{flow.name}: {flow.description}", ""]
    width = max(len(stage.name) for stage in flow.stages)
    for stage, rail in zip(flow.stages, _rails(flow), strict=True):
        lines.append(f"  {rail} {stage.name.ljust(width)}  {who(stage)}")
    lines += [f"     {DONE.ljust(width)}  PASS", ""]
    lines.append(f"A FAIL starts the next round at {flow.first.name}.")
    for role in flow.roles:
        lines += ["", *_role_lines(role)]
    return "\n".join(lines)


def _rails(flow: Flow) -> list[str]:
    """Return what is drawn before each stage: the way back from every check to the first one."""
    rails = ["│ " if stage.kind is StageKind.WORK else "├─" for stage in flow.stages]
    return ["┌▶", *rails[1:-1], "└─"] if len(rails) > 1 else ["↺ "]


def who(stage: Stage) -> str:
    match stage.kind:
        case StageKind.GATE:
            return "a command of yours says PASS or FAIL (--gate)"
        case StageKind.TEST:
            return f"{stage.author} says PASS or FAIL"
    return f"{stage.author} ⇄ {stage.reviewer}" if stage.reviewer else stage.author


def _role_lines(role: Role) -> Iterator[str]:
    yield f"{role.name} (profile {role.profile}) writes {role.response_file} and sees"
    titles = [block.title or OPEN_NOTES_TITLE for block in role.blocks]
    width = max(map(len, titles), default=0)
    for title, block in zip(titles, role.blocks, strict=True):
        yield f"  {title.ljust(width)}  {shown(block)}"
    if not role.blocks:
        yield "  nothing but its prompt"


def shown(block: Block) -> str:
    whose = f" {' and '.join(block.of)}" if block.of else ""
    return f"{SOURCES[block.source]}{whose}{AMOUNTS[block.amount]}{REPEATS[block.repeat]}"


def as_svg(flow: Flow) -> str:
    """Return a flow as a picture: its stages from top to bottom, and the ways back."""
    boxes = [*(_box(stage, number) for number, stage in enumerate(flow.stages))]
    downs = [_down(number, stage) for number, stage in enumerate(flow.stages)]
    checks = [n for n, stage in enumerate(flow.stages) if stage.kind is not StageKind.WORK]
    backs = [_back(number, MARGIN + BOX_WIDTH, order) for order, number in enumerate(checks)]
    width = MARGIN + BOX_WIDTH + BACK_WIDTH + STEP * len(checks)
    height = _top(len(flow.stages)) + 30
    words = wrap(flow.description, LINE_CHARACTERS)[:2]
    head = [_text(MARGIN, 30, flow.name, "name")]
    head += [_text(MARGIN, 50 + 16 * n, line, "quiet") for n, line in enumerate(words)]
    done = _text(MARGIN + BOX_WIDTH // 2, _top(len(flow.stages)) + 14, "PASS", "name", "middle")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(flow.name)}: {escape(flow.description)}</title>",
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#57606a"/></marker></defs>',
        *head,
        *boxes,
        *downs,
        *backs,
        done,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _top(number: int) -> int:
    return TOP + number * (BOX_HEIGHT + GAP)


def _box(stage: Stage, number: int) -> str:
    top, middle = _top(number), MARGIN + BOX_WIDTH // 2
    words = "your command (--gate)" if stage.kind is StageKind.GATE else who(stage)
    return (
        f'<rect class="box {stage.kind}" x="{MARGIN}" y="{top}" width="{BOX_WIDTH}" '
        f'height="{BOX_HEIGHT}" rx="8"/>'
        f"{_text(middle, top + 27, stage.name, 'name', 'middle')}"
        f"{_text(middle, top + 48, words, 'quiet', 'middle')}"
    )


def _down(number: int, stage: Stage) -> str:
    middle, start = MARGIN + BOX_WIDTH // 2, _top(number) + BOX_HEIGHT
    label = "" if stage.kind is StageKind.WORK else _text(middle + 8, start + 25, "PASS", "quiet")
    if stage.reviewer:
        label = _text(middle + 8, start + 25, "approved", "quiet")
    return f'<path class="line" d="M{middle} {start}V{_top(number + 1) - 3}"/>{label}'


def _back(number: int, right: int, order: int) -> str:
    start, end = _top(number) + BOX_HEIGHT // 2, _top(0) + BOX_HEIGHT // 2
    out = right + 46 + STEP * order
    return (
        f'<path class="line" d="M{right} {start}H{out}V{end + STEP * min(order, 2)}H{right + 3}"/>'
        f"{_text(right + 6, start - 6, 'FAIL', 'quiet')}"
    )


def _text(x: int, y: int, words: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'


TASK = f"{EXPLORE_HEADER}\nTry the flow.\n\n{SCENARIO_HEADER}\nIt runs to its end.\n"
PROFILES = (".cao", "profiles")
NOT_TO_ITS_END = "cao: the flow is well-formed, but it did not run to its end"

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
        told = found.flow.description if found.flow else f"cannot be used: {found.fault}"
        click.echo(f"{one_line(found.name):<12} {one_line(told)}  [{one_line(found.where)}]")


@flow.command()
@click.argument("name", shell_complete=complete_flows)
@click.option("--svg", is_flag=True, help="Print it as a picture (SVG).")
@where_option
def show(name: str, svg: bool, wd: str) -> None:
    """Draw the flow NAME: its stages, and what each role sees.

    \b
    cao flow show pair
    cao flow show my-flow.toml --svg > my-flow.svg
    """
    found = _flows(wd).find(name)
    click.echo(printable(as_svg(found) if svg else as_text(found)), nl=not svg)


@flow.command()
@click.argument("name", shell_complete=complete_flows)
@where_option
def check(name: str, wd: str) -> None:
    """Try the flow NAME: run it once with the scripted agent.

    That happens in a folder of its own. It needs tmux, and no account and no network. Its gates are
    not run: they count as passed. Ends with 2 if the file has a fault, which is named with its
    line.

    \b
    cao flow check my-flow.toml
    """
    found = _flows(wd).find(name)
    click.echo(f"{found.name}: {' → '.join(who(stage) for stage in found.stages)}")
    code = try_flow(found, Path(wd).expanduser().absolute())
    click.echo("It runs to its end." if code == 0 else NOT_TO_ITS_END, err=code != 0)
    sys.exit(code)


def _flows(wd: str) -> Flows:
    return flows_of(Path(wd).expanduser().absolute(), os.environ)


def try_flow(found: Flow, of: Path) -> int:
    """Run a flow of a project once, in a folder of its own, and return the run's exit code."""
    with importing():  # heavy, unlike --help
        from ..runs.request import RunRequest
        from .conduct import conduct
        from .run import PlainView

    with tempfile.TemporaryDirectory(prefix="cao-flow-") as name:
        folder = Path(name)
        project = folder / "project"
        project.mkdir()
        copy_profiles(of, project)
        script = folder / "script.toml"
        script.write_text(script_for(found), encoding="utf-8")
        settings = {
            "WD": str(project),
            "PROMPT": TASK,
            "PROVIDER": "scripted",
            "FLOW": str(write_flow(found, folder)),
            "GATES": json.dumps({"name": "gate", "run": "true", "when": ["after_tester"]}),
            "CLEANUP_ON_EXIT": "1",
            "RECORDING": "0",
            "PROOF": "off",
        }
        with private_environment(folder, os.environ) as environ:
            environ["CAO_CONFIG_DIR"] = str(config_folder(os.environ))
            environ["CAO_SCRIPTED_ARGS"] = shlex.join(["--script", str(script)])
            request = RunRequest(RunConfig.from_env(settings), settings)
            return conduct(request, PlainView(project), environ, state_stays=False)


def copy_profiles(project: Path, to: Path) -> None:
    theirs, ours = (Folder(folder, PROFILES) for folder in (project, to))
    for name in theirs.names():
        if name.endswith(".md"):
            ours.create(name, theirs.read(name))


def write_flow(found: Flow, folder: Path) -> Path:
    prompts = folder / found.name
    prompts.mkdir()
    for role, template in found.source.templates.items():
        (prompts / f"{role}.md").write_text(template, encoding="utf-8")
    path = folder / f"{found.name}.toml"
    path.write_text(found.source.text, encoding="utf-8")
    return path


def script_for(found: Flow) -> str:
    """Return a script by which every role of a flow answers so that the run passes."""
    rules = (
        f"[[rule]]\ncontains = {json.dumps('/' + role.response_file)}\n"
        f"answer = {json.dumps(_answer(found, role))}\n"
        for role in found.roles
    )
    return "\n".join(rules)


def _answer(found: Flow, role: Role) -> str:
    stage = found.stage_of(role.name)
    if role.name == stage.reviewer:
        words = (f"- {group}: {one[0]}" for group, one in role.evidence.items())
        return "\n".join(["REVIEW_RESULT: APPROVED", "REVIEW_NOTES:", "- tried", *words])
    if stage.kind is StageKind.TEST:
        return "RESULT: PASS\nEVIDENCE:\n- tried"
    return f"{role.name.upper()}_SUMMARY:\n\n## Files changed\n- none\n"


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
        from .run import choose_view

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
    return terminal_width() or USUAL_WIDTH


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
