"""`cao flow`: lists flows, draws one, and tries one with the scripted agent."""

import json
import os
import shlex
import sys
import tempfile
from pathlib import Path

import click

from cli_agent_orchestrator._internal.cli.completing import complete_flows
from cli_agent_orchestrator._internal.cli.demo import private_environment
from cli_agent_orchestrator._internal.cli.flow_drawing import as_svg, as_text, who
from cli_agent_orchestrator._internal.cli.importing import importing
from cli_agent_orchestrator._internal.cli.printable import one_line, printable
from cli_agent_orchestrator._internal.config import config_folder
from cli_agent_orchestrator._internal.hosting.flows import flows_of
from cli_agent_orchestrator._internal.pipeline.flow import Flow, Role, StageKind
from cli_agent_orchestrator._internal.pipeline.task import EXPLORE_HEADER, SCENARIO_HEADER
from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator._internal.run_config import RunConfig
from cli_agent_orchestrator._internal.runs.flows import Flows

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
        from cli_agent_orchestrator._internal.cli.conduct import conduct
        from cli_agent_orchestrator._internal.cli.progress import PlainView
        from cli_agent_orchestrator._internal.runs.request import RunRequest

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
