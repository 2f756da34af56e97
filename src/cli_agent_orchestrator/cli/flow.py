"""`cao flow`: lists flows, draws one, and tries one with the scripted agent."""

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path
from textwrap import wrap

import click

from ..core.files import Folder
from ..hosting.environment import flows_of
from ..pipeline.flow import DONE, Amount, Block, BlockSource, Flow, Repeat, Role, Stage, StageKind
from ..pipeline.task import EXPLORE_HEADER, SCENARIO_HEADER
from ..runs.flows import Flows
from ..settings.config import RunConfig, config_folder
from .complete import complete_flows
from .demo import private_environment
from .imports import importing
from .printable import one_line, printable

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
    """Return a flow as lines: its stages, and what each role sees."""
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
    """Say who works in a stage."""
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
    """Say what a block shows."""
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
        from .progress import PlainView

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
    """Give another project the profiles that a project has of its own."""
    theirs, ours = (Folder(folder, PROFILES) for folder in (project, to))
    for name in theirs.names():
        if name.endswith(".md"):
            ours.create(name, theirs.read(name))


def write_flow(found: Flow, folder: Path) -> Path:
    """Write a flow with its prompts to a folder and return the path of its file."""
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
