"""`cao doctor`: what is installed, what is missing, and how to get it."""

import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from ..client.client import ApiClient
from ..client.find import Found, find_server, name_server
from ..core.models import BUILT_IN
from ..core.programs import Programs
from ..errors import ApiError, ApiUnreachable, TmuxMissing, UsageError, in_words
from ..gates.checking import Sandbox, find_sandbox
from ..hosting.user import Program, ask_agent, find_program, login_command, read_user_file
from ..providers import PROVIDERS
from ..providers.base import Provider, find_version
from ..settings.config import DEFAULT_PORT, ServerConfig, check_state_folder
from ..settings.layout import said_of_place
from ..settings.table import BY_NAME
from ..terminals.tmux import INSTALL_HINT, checked_version
from . import diagnose as upkeep
from .diagnose import Diagnosis, State, install_command
from .imports import own_command
from .interrupts import Interrupts
from .printable import printable
from .project import find_project, remarks_on_variables

SCREEN_ADVICE = (
    "a screen that is not recognized is shown as `unknown`, never as idle; "
    "`cao output ID --why` says why"
)
SIGNAL_ADVICE = f"its own signals are read all the same; without one, {SCREEN_ADVICE}"


@dataclass(frozen=True, slots=True)
class Remark:
    """Something to know about an agent."""

    text: str
    advice: str = ""
    """What it means for the user; empty if all is well."""


def version_words(version: tuple[int, ...]) -> str:
    """Return a version as people write it."""
    return ".".join(map(str, version)) or "version unknown"


def remarks_on_version(
    version: tuple[int, ...], tested: tuple[tuple[int, ...], ...]
) -> Iterator[Remark]:
    """Say whether a version lies outside of those that were tested.

    What differs from the newest of them only behind MAJOR.MINOR counts as tested.
    """
    if not tested:
        text = "no version of it was tested; its screens are known from recordings only"
        yield Remark(text, SCREEN_ADVICE)
        return
    oldest, newest = min(tested), max(tested)
    span = " to ".join(map(version_words, dict.fromkeys((oldest, newest))))
    if not version:
        yield Remark(f"version unknown; tested: {span}", SIGNAL_ADVICE)
    elif version[:2] == newest[:2]:
        return
    elif version > newest:
        yield Remark(f"newer than any that was tested ({span})", SIGNAL_ADVICE)
    elif version < oldest[: len(version)]:
        yield Remark(f"older than any that was tested ({span})", SIGNAL_ADVICE)


def remarks_on_login(found: Program) -> Iterator[Remark]:
    """Say whether an agent is logged in, if that is known."""
    if found.logged_in:
        yield Remark("logged in")
    elif found.logged_in is not None:
        yield Remark("not logged in", "unless it works with a key of its own")
    else:
        yield Remark("it does not tell whether it is logged in")


OUR_DISTRIBUTION = "cao-loop"
IMPORT_NAME = "cli_agent_orchestrator"
AGENT = "agent "
WITHOUT_GIT = "without it there are no snapshots, undo, proof or work trees"
NO_ANSWER = "look what `{} {}` says"
ELSEWHERE = "or name another folder in CAO_STATE_DIR"
EXIT_MISSING = 1


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def doctor(as_json: bool) -> None:
    """Say what is installed, what is missing, and by which command each fault is fixed.

    It asks programs for their versions, and agents that can tell it whether somebody is signed in;
    no model is asked anything. It changes nothing.

    Ends with 0 if a run with a real agent is possible, also if there is something to note, else
    with 1.
    """
    wd = find_project(Path.cwd(), Path.home()) or Path.cwd()
    findings = []
    with Programs(os.environ) as programs, Interrupts(notice="") as interrupts:
        interrupts.when_noted(programs.leave)
        for finding in examine(programs, os.environ, wd):
            if interrupts.noted is not None:
                sys.exit(interrupts.exit_code)
            findings.append(finding)
            if not as_json:
                click.echo(printable(_line(finding)))
    possible = is_run_possible(findings)
    if as_json:
        found = [asdict(finding) for finding in findings]
        click.echo(json.dumps({"run_possible": possible, "findings": found}, indent=2))
    else:
        cao = own_command(sys.argv[0], sys.executable, os.environ.get("PATH"))
        click.echo("\n" + conclude(findings, cao))
    sys.exit(0 if possible else EXIT_MISSING)


def examine(
    programs: Programs,
    environ: Mapping[str, str],
    wd: Path,
    *,
    default_port: int = DEFAULT_PORT,
    statvfs: upkeep.StatVfs = os.statvfs,
) -> Iterator[Diagnosis]:
    """Look at everything a run in a folder needs; each thing is told as soon as it is known."""
    config, user_file, fault = read_configuration(environ)
    agents = (partial(_agent, one, config, wd, programs) for one in PROVIDERS.values())
    looks = [partial(_tmux, environ, programs), partial(_git, environ, programs), *agents]
    asked = [programs.begin(look) for look in (*looks, partial(_sandbox, environ, programs))]
    yield _python()
    for one in asked:
        yield one.result()
    yield _server(environ)
    yield upkeep.port(environ, default_port)
    yield from _folders(config, wd, statvfs)
    yield _configuration(config.config_dir / "config.toml", fault)
    yield from map(_variable, remarks_on_variables(environ))
    yield upkeep.notices(user_file, config, environ)
    yield upkeep.leftovers(config.state_dir, environ)
    yield upkeep.sockets(config, environ)
    yield _distributions()


# Any: what a TOML file holds
def read_configuration(environ: Mapping[str, str]) -> tuple[ServerConfig, dict[str, Any], str]:
    """Return the settings, the user's own file, and what is wrong in it.

    What is wrong there counts as not written. A fault in the environment is raised.
    """
    config = ServerConfig.from_env(environ)
    _check_agents(config)
    user_file: dict[str, Any] = {}
    try:
        user_file = read_user_file(environ)
        own = ServerConfig.from_env(environ, user_file)
        _check_agents(own)
    except (UsageError, OSError) as error:
        return config, user_file, in_words(error)
    return own, user_file, ""


def _check_agents(config: ServerConfig) -> None:
    for name in PROVIDERS:
        config.provider(name)


def installed_agents(config: ServerConfig, wd: Path) -> dict[str, Diagnosis]:
    """Return what is to be known about each real agent that is installed, by name."""
    with Programs(config.environ) as programs:
        looks = (partial(_agent, one, config, wd, programs) for one in PROVIDERS.values())
        asked = [programs.begin(look) for look in looks]
        return _agents([one.result() for one in asked])


def is_agent_installed(config: ServerConfig, environ: Mapping[str, str]) -> bool:
    """Is there a real agent? None is asked anything."""
    real = (provider for provider in PROVIDERS.values() if provider.name != BUILT_IN)
    return any(find_program(provider, config, environ)[1] for provider in real)


def is_run_possible(findings: Sequence[Diagnosis]) -> bool:
    """Is all there that is needed, and at least one real agent?"""
    lacking = (_lacking(findings, state) for state in (State.MISSING, State.WRONG))
    return not any(lacking) and bool(_agents(findings))


def conclude(findings: Sequence[Diagnosis], cao: str) -> str:
    """Say what can be typed next; `cao` is how the command is called here."""
    missing, wrong = (_lacking(findings, state) for state in (State.MISSING, State.WRONG))
    if missing:
        return f"A run is not possible without: {', '.join(missing)}"
    if wrong:
        return f"A run is not possible until this is put right: {', '.join(wrong)}"
    # False comes first, and so does the usual agent.
    agents = sorted(_agents(findings).items(), key=lambda agent: agent[1].logged_out)
    if not agents:
        return (
            "No real agent is installed: see above how to get one. Without one these work:\n"
            f"  {cao} demo\n"
            f"  {cao} run task.md --provider {BUILT_IN}"
        )
    name, agent = agents[0]
    once = f" once {name} is logged in" if agent.logged_out else ""
    option = "" if name == BY_NAME["PROVIDER"].default else f" --provider {name}"
    return f"A run is possible{once}: {cao} init, then {cao} run task.md{option}"


def _lacking(findings: Sequence[Diagnosis], state: State) -> list[str]:
    return [f.subject for f in findings if f.needed and f.state is state]


def _agents(findings: Sequence[Diagnosis]) -> dict[str, Diagnosis]:
    """Return the real agents that are installed, by name."""
    names = {f.subject.removeprefix(AGENT): f for f in findings if f.subject.startswith(AGENT)}
    return {
        name: finding
        for name, finding in names.items()
        if name != BUILT_IN and finding.state is not State.MISSING
    }


def _sandbox(environ: Mapping[str, str], programs: Programs) -> Diagnosis:
    found = find_sandbox(seconds=programs.seconds, leave=programs.left)
    if found.sandbox is None:
        advice = "only gates with sandbox = true need one"
        lacks_it = programs.find(Sandbox.BUBBLEWRAP) is None
        can_have_it = lacks_it and sys.platform == "linux"
        mend = install_command("bubblewrap", environ) if can_have_it else ""
        return Diagnosis("sandbox", State.NOTE, found.problem, advice, mend=mend)
    return Diagnosis("sandbox", State.OK, f"{found.sandbox}, for gates with sandbox = true")


def _python() -> Diagnosis:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Diagnosis("python", State.OK, f"{version}, {sys.executable}")


def _tmux(environ: Mapping[str, str], programs: Programs) -> Diagnosis:
    mend = install_command("tmux", environ)
    advice = "" if mend else INSTALL_HINT
    program = programs.find("tmux")
    if program is None:
        detail = "no tmux on the PATH"
        return Diagnosis("tmux", State.MISSING, detail, advice, needed=True, mend=mend)
    answer = programs.ask([program, "-V"], with_errors=True)
    if answer.code is None:
        detail, look = f"{program} {answer.text}", NO_ANSWER.format(program, "-V")
        return Diagnosis("tmux", State.WRONG, detail, look, needed=True)
    try:
        version = checked_version(program, answer.code, answer.text)
    except TmuxMissing as error:
        # The fault itself ends with how it is installed where that is not known.
        fault = str(error).rpartition("; ")[0]
        return Diagnosis("tmux", State.MISSING, fault, advice, needed=True, mend=mend)
    return Diagnosis("tmux", State.OK, version, needed=True)


def _git(environ: Mapping[str, str], programs: Programs) -> Diagnosis:
    program = programs.find("git")
    if program is None:
        mend = install_command("git", environ)
        return Diagnosis("git", State.MISSING, "no git on the PATH", WITHOUT_GIT, mend=mend)
    answer = programs.ask([program, "--version"])
    if answer.code is None:
        return Diagnosis("git", State.MISSING, f"{program} {answer.text}", WITHOUT_GIT)
    version = find_version(answer.text)
    return Diagnosis("git", State.OK, f"{version_words(version)}, {program}")


def _agent(provider: Provider, config: ServerConfig, wd: Path, programs: Programs) -> Diagnosis:
    subject = f"{AGENT}{provider.name}"
    if provider.name == BUILT_IN:
        return Diagnosis(subject, State.OK, "built in, for the demo and dry runs")
    wanted, program = find_program(provider, config, config.environ)
    if program is None:
        hint = provider.install_hint
        detail, is_command = f"no {wanted} on the PATH", hint.startswith("npm ")
        if is_command:
            return Diagnosis(subject, State.MISSING, detail, mend=hint)
        return Diagnosis(subject, State.MISSING, detail, hint)
    found = ask_agent(provider.name, program, config, wd, programs)
    if isinstance(found, Program):
        return describe_agent(provider, found)
    advice = NO_ANSWER.format(program, "--version")
    return Diagnosis(subject, State.MISSING, f"{program} {found.text}", advice)


def describe_agent(provider: Provider, found: Program) -> Diagnosis:
    """Say all that is to be known about an agent that is installed."""
    remarks = [
        *remarks_on_version(found.version, provider.tested_versions),
        *remarks_on_login(found),
    ]
    advice = [remark.advice for remark in remarks if remark.advice]
    return Diagnosis(
        f"{AGENT}{provider.name}",
        State.NOTE if advice else State.OK,
        ", ".join([version_words(found.version), found.path, *(remark.text for remark in remarks)]),
        "\n".join(advice),
        logged_out=found.logged_in is False,
        mend=login_command(provider.name, found.path) if found.logged_in is False else "",
    )


def _server(environ: Mapping[str, str]) -> Diagnosis:
    try:
        found = find_server(environ, name_server(environ))
    except (ApiUnreachable, UsageError) as error:
        return Diagnosis("server", State.NOTE, str(error))
    if found is None:
        return Diagnosis("server", State.OK, "none of yours runs; a run starts its own")
    return Diagnosis("server", State.OK, f"{found.url}, {_version(found)}, {found.how}")


def _version(found: Found) -> str:
    with ApiClient(found.url, transport=found.transport) as client:
        try:
            return f"version {client.health().get('version', 'unknown')}"
        except ApiError:
            return "version unknown"


def _folders(config: ServerConfig, wd: Path, statvfs: upkeep.StatVfs) -> Iterator[Diagnosis]:
    yield _state_folder(config.state_dir, wd, statvfs)
    token = config.state_dir / "token"
    if token.exists():
        yield _token(token)


def _configuration(file: Path, fault: str) -> Diagnosis:
    if fault:
        advice = f"correct {file}"
        return Diagnosis("configuration", State.WRONG, fault, advice, needed=True)
    there = "read" if file.exists() else "not there, which is fine"
    return Diagnosis("configuration", State.OK, f"{file} ({there})")


def _token(file: Path) -> Diagnosis:
    status = file.stat()
    again = "the next start makes a new one"
    if not status.st_size:
        return Diagnosis("token", State.NOTE, f"{file}, empty", again, needed=True)
    if status.st_mode & 0o077:
        mend = f"rm {shlex.quote(str(file))}"
        detail = f"{file}, others may read it"
        return Diagnosis("token", State.WRONG, detail, again, needed=True, mend=mend)
    return Diagnosis("token", State.OK, f"{file}, for its owner alone", needed=True)


def _variable(remark: str) -> Diagnosis:
    return Diagnosis("environment", State.NOTE, remark)


def _state_folder(folder: Path, wd: Path, statvfs: upkeep.StatVfs) -> Diagnosis:
    try:
        check_state_folder(folder)
    except UsageError as error:
        # The fault itself ends with the command that mends it, if there is one.
        fault, _, mend = str(error).partition("; fix it with: ")
        return Diagnosis("state folder", State.WRONG, fault, needed=True, mend=mend)
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.R_OK | os.W_OK | os.X_OK):
        detail, advice = f"{folder} cannot be written", f"give yourself access, {ELSEWHERE}"
        return Diagnosis("state folder", State.WRONG, detail, advice, needed=True)
    there = "" if nearest == folder else " (not there yet: the first start makes it)"
    room, lacking = upkeep.room(nearest, statvfs)
    remarks = [*said_of_place(folder, wd), *([f"make room there, {ELSEWHERE}"] if lacking else [])]
    state = State.NOTE if remarks and room is State.OK else room
    detail = ", ".join(filter(None, [f"{folder}{there}", lacking]))
    return Diagnosis("state folder", state, detail, "\n".join(remarks), needed=True)


def _distributions() -> Diagnosis:
    names = set(metadata.packages_distributions().get(IMPORT_NAME, ()))
    others = sorted(names - {OUR_DISTRIBUTION})
    if not others:
        return Diagnosis("installation", State.OK, OUR_DISTRIBUTION)
    other = ", ".join(others)
    return Diagnosis(
        "installation",
        State.NOTE,
        f"{other} has the same import name and is in the same environment",
        f"or install {OUR_DISTRIBUTION} into an environment of its own",
        mend=f"{shlex.quote(sys.executable)} -m pip uninstall {shlex.join(others)}",
    )


def _line(finding: Diagnosis) -> str:
    is_bad = finding.state is State.WRONG or (finding.state is State.MISSING and finding.needed)
    mark = finding.state.upper() if is_bad else str(finding.state)
    said = [*finding.advice.splitlines(), *([f"fix: {finding.mend}"] if finding.mend else [])]
    advice = [f"\n{'':9}{'':20}→ {line}" for line in said]
    return f"{mark:<9}{finding.subject:<20}{finding.detail}{''.join(advice)}"
