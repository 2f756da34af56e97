"""`cao doctor`: what is installed, what is missing, and how to get it."""

import json
import os
import shlex
import shutil
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Literal

import click
from msgspec import Struct
from msgspec.structs import asdict

from ..client.client import ApiClient
from ..client.find import find_server, name_server
from ..core.models import BUILT_IN
from ..core.programs import Programs
from ..core.text import plural, printable
from ..errors import ApiError, ApiUnreachable, TmuxMissing, UsageError, in_words
from ..gates.checking import BUBBLEWRAP, find_sandbox
from ..hosting.user import Program, ask_agent, find_program, login_command, read_user_file
from ..notices.decide import TABLE, read_notice_settings
from ..notices.send import NoticeProgram
from ..providers import every_provider, get_provider
from ..providers.base import Provider, find_version
from ..runs.deliver import DAY_SECONDS, known_runs, plan_cleanup
from ..settings.config import ServerConfig
from ..settings.layout import fault_of_state_folder, said_of_place
from ..settings.table import BY_NAME
from ..terminals.tmux import INSTALL_HINT, checked_version
from .agent import try_agent
from .clean import KEPT_DAYS
from .imports import MODULE, own_command
from .interrupts import Interrupts
from .run import find_project, remarks_on_variables

INSTALLERS = {
    # program that installs others: the words before the name of a package
    "apt-get": "sudo apt-get install",
    "dnf": "sudo dnf install",
    "pacman": "sudo pacman -S",
    "zypper": "sudo zypper install",
    "apk": "sudo apk add",
    "brew": "brew install",
}
CONNECT_SECONDS = 2.0
SCREEN_ADVICE = (
    "a screen that is not recognized is shown as `unknown`, never as idle; "
    "`cao output ID --why` says why"
)
SIGNAL_ADVICE = f"its own signals are read all the same; without one, {SCREEN_ADVICE}"
LOGINS = {
    None: ("it does not tell whether it is logged in", ""),
    True: ("logged in", ""),
    False: ("not logged in", "unless it works with a key of its own"),
}
OUR_DISTRIBUTION = "cao-loop"
AGENT = "agent "
WITHOUT_GIT = "without it there are no snapshots, undo, proof or work trees"
NO_ANSWER = "look what `{} {}` says"


State = Literal["ok", "note", "missing", "wrong"]
OK: Final = "ok"
NOTE: Final = "note"
MISSING: Final = "missing"
WRONG: Final = "wrong"


class Diagnosis(Struct, frozen=True):
    subject: str
    state: State
    detail: str
    advice: str = ""
    """What to know about it, one thing a line."""
    needed: bool = False
    logged_out: bool = False
    mend: str = ""
    """The one command that repairs it, if there is one."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@click.option("--try", "tried", metavar="AGENT", help="Start it once; its model gets nothing.")
def doctor(as_json: bool, tried: str | None) -> None:
    """Say what is installed, what is missing, and by which command each fault is fixed.

    It asks programs for their versions, and agents whether they are signed in; no model is asked
    anything. Ends with 0 if a run with a real agent is possible, else with 1.
    """
    wd = find_project(Path.cwd(), Path.home()) or Path.cwd()
    config = read_configuration(os.environ)[0]
    provider = get_provider(tried, config.config_dir) if tried else None
    findings = []
    with Programs(os.environ) as programs, Interrupts(notice="") as interrupts:
        interrupts.when_noted(programs.leave)
        looks = examine(programs, os.environ, wd)
        for finding in [_agent(provider, config, wd, programs)] if provider else looks:
            if interrupts.noted is not None:
                sys.exit(interrupts.exit_code)
            findings.append(finding)
            if not as_json:
                is_bad = finding.state is WRONG or (finding.state is MISSING and finding.needed)
                mark = finding.state.upper() if is_bad else str(finding.state)
                lines = [f"{mark:<9}{finding.subject:<20}{finding.detail}"]
                lines += finding.advice.splitlines()
                lines += [f"fix: {finding.mend}"] if finding.mend else []
                click.echo(printable(f"\n{'':29}→ ".join(lines)))
    if provider:
        try_agent(provider, config)
        return
    cao = own_command(sys.argv[0], sys.executable, os.environ.get("PATH"))
    possible, conclusion = conclude(findings, cao)
    if as_json:
        found = [asdict(finding) for finding in findings]
        click.echo(json.dumps({"run_possible": possible, "findings": found}, indent=2))
    else:
        click.echo(f"\n{conclusion}")
    sys.exit(0 if possible else 1)


def examine(programs: Programs, environ: Mapping[str, str], wd: Path) -> Iterator[Diagnosis]:
    config, user_file, fault = read_configuration(environ)
    looks = [partial(_tmux, environ, programs), partial(_git, environ, programs)]
    looks += _looks_at_agents(config, wd, programs)
    asked = [programs.begin(look) for look in (*looks, partial(_sandbox, environ, programs))]
    yield Diagnosis("python", OK, f"{version_words(sys.version_info[:3])}, {sys.executable}")
    for one in asked:
        yield one.result()
    yield _server(environ)
    yield _port(config)
    yield _state_folder(config.state_dir, wd)
    token = config.state_dir / "token"
    if token.exists():
        yield _token(token)
    file = config.config_dir / "config.toml"
    if fault:
        yield Diagnosis("configuration", WRONG, fault, f"correct {file}", needed=True)
    else:
        there = "read" if file.exists() else "not there, which is fine"
        yield Diagnosis("configuration", OK, f"{file} ({there})")
    for remark in remarks_on_variables(environ):
        yield Diagnosis("environment", NOTE, remark)
    yield _notices(user_file, file, environ)
    yield _leftovers(config.state_dir, environ)
    yield _distributions()


# Any: what a TOML file holds
def read_configuration(environ: Mapping[str, str]) -> tuple[ServerConfig, dict[str, Any], str]:
    """Return the settings, the user's own file, and what is wrong in it.

    What is wrong there counts as not written. A fault in the environment is raised.
    """
    user_file: dict[str, Any] = {}
    fault = ""
    try:
        user_file = read_user_file(environ)
        config = ServerConfig.from_env(environ, user_file)
        for name, _ in every_provider(config.config_dir):
            config.provider(name)
    except (UsageError, OSError) as error:
        config, fault = ServerConfig.from_env(environ), in_words(error)
    return config, user_file, fault


def installed_agents(config: ServerConfig, wd: Path) -> dict[str, Diagnosis]:
    with Programs(config.environ) as programs:
        asked = [programs.begin(look) for look in _looks_at_agents(config, wd, programs)]
        return _agents([one.result() for one in asked])


def _agents(findings: Iterable[Diagnosis]) -> dict[str, Diagnosis]:
    found = {
        one.subject.removeprefix(AGENT): one
        for one in findings
        if one.subject.startswith(AGENT) and one.state not in (MISSING, WRONG)
    }
    found.pop(BUILT_IN, None)
    return found


def conclude(findings: Sequence[Diagnosis], cao: str) -> tuple[bool, str]:
    missing, wrong = (
        [one.subject for one in findings if one.needed and one.state is state]
        for state in (MISSING, WRONG)
    )
    if missing:
        return False, f"A run is not possible without: {', '.join(missing)}"
    if wrong:
        return False, f"A run is not possible until this is put right: {', '.join(wrong)}"
    # False comes first, and so does the usual agent.
    agents = sorted(_agents(findings).items(), key=lambda agent: agent[1].logged_out)
    if not agents:
        return False, (
            "No real agent is installed: see above how to get one. Without one these work:\n"
            f"  {cao} demo\n"
            f"  {cao} run task.md --provider {BUILT_IN}"
        )
    name, agent = agents[0]
    once = f" once {name} is logged in" if agent.logged_out else ""
    option = "" if name == BY_NAME["PROVIDER"].default else f" --provider {name}"
    return True, f"A run is possible{once}: {cao} init, then {cao} run task.md{option}"


def install_command(package: str, environ: Mapping[str, str]) -> str:
    for program, words in INSTALLERS.items():
        if shutil.which(program, path=environ.get("PATH")):
            return f"{words} {package}"
    return ""


def _tmux(environ: Mapping[str, str], programs: Programs) -> Diagnosis:
    program, fault = programs.find("tmux"), "no tmux on the PATH"
    if program is not None:
        answer = programs.ask([program, "-V"], with_errors=True)
        if answer.code is None:
            detail, advice = f"{program} {answer.text}", NO_ANSWER.format(program, "-V")
            return Diagnosis("tmux", WRONG, detail, advice, needed=True)
        try:
            version = checked_version(program, answer.code, answer.text)
            return Diagnosis("tmux", OK, version, needed=True)
        except TmuxMissing as error:
            fault = str(error).removesuffix(f"; {INSTALL_HINT}")
    mend = install_command("tmux", environ)
    advice = "" if mend else INSTALL_HINT
    return Diagnosis("tmux", MISSING, fault, advice, needed=True, mend=mend)


def _git(environ: Mapping[str, str], programs: Programs) -> Diagnosis:
    program = programs.find("git")
    if program is None:
        mend = install_command("git", environ)
        return Diagnosis("git", MISSING, "no git on the PATH", WITHOUT_GIT, mend=mend)
    answer = programs.ask([program, "--version"])
    if answer.code is None:
        return Diagnosis("git", MISSING, f"{program} {answer.text}", WITHOUT_GIT)
    return Diagnosis("git", OK, f"{version_words(find_version(answer.text))}, {program}")


def _sandbox(environ: Mapping[str, str], programs: Programs) -> Diagnosis:
    sandbox, problem = find_sandbox(seconds=programs.seconds, leave=programs.left)
    if sandbox:
        return Diagnosis("sandbox", OK, f"{sandbox}, for gates with sandbox = true")
    lacks_it = programs.find(BUBBLEWRAP) is None
    can_have_it = lacks_it and sys.platform == "linux"
    mend = install_command("bubblewrap", environ) if can_have_it else ""
    advice = "only gates with sandbox = true need one"
    return Diagnosis("sandbox", NOTE, problem, advice, mend=mend)


def _looks_at_agents(
    config: ServerConfig, wd: Path, programs: Programs
) -> Iterator[partial[Diagnosis]]:
    for name, one in every_provider(config.config_dir):
        if isinstance(one, Provider):
            yield partial(_agent, one, config, wd, programs)
        else:
            yield partial(Diagnosis, f"{AGENT}{name}", WRONG, str(one), "correct or remove it")


def _agent(provider: Provider, config: ServerConfig, wd: Path, programs: Programs) -> Diagnosis:
    subject = f"{AGENT}{provider.name}"
    if provider.name == BUILT_IN:
        return Diagnosis(subject, OK, "built in, for the demo and dry runs")
    wanted, program = find_program(provider, config, config.environ)
    if program is None:
        hint, detail = provider.install_hint, f"no {wanted} on the PATH"
        advice, mend = ("", hint) if hint.startswith("npm ") else (hint, "")
        return Diagnosis(subject, MISSING, detail, advice, mend=mend)
    found = ask_agent(provider.name, program, config, wd, programs)
    if not isinstance(found, Program):
        advice = NO_ANSWER.format(program, "--version")
        return Diagnosis(subject, MISSING, f"{program} {found.text}", advice)
    remarks = [*remarks_on_version(found.version, provider)]
    remarks.append(LOGINS[found.logged_in])
    advices = [advice for _, advice in remarks if advice]
    logged_out = found.logged_in is False
    return Diagnosis(
        subject,
        NOTE if advices else OK,
        ", ".join([version_words(found.version), found.path, *(text for text, _ in remarks)]),
        "\n".join(advices),
        logged_out=logged_out,
        mend=login_command(provider.name, found.path) if logged_out else "",
    )


def version_words(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version)) or "version unknown"


def remarks_on_version(version: tuple[int, ...], provider: Provider) -> Iterator[tuple[str, str]]:
    """Yield a remark and its advice if a version lies outside of those that were tested.

    The MAJOR.MINOR of the newest of them counts as tested.
    """
    tested = provider.tested_versions
    if not tested:
        own = "its file names no version as tested", f"`cao agent check {provider.name}` tries it"
        ours = "no version of it was tested; its screens are from recordings only", SCREEN_ADVICE
        yield own if provider.file else ours
        return
    oldest, newest = min(tested), max(tested)
    span = " to ".join(map(version_words, dict.fromkeys((oldest, newest))))
    if not version:
        yield f"version unknown; tested: {span}", SIGNAL_ADVICE
    elif version > newest and version[:2] != newest[:2]:
        yield f"newer than any that was tested ({span})", SIGNAL_ADVICE
    elif version < oldest[: len(version)] and version[:2] != newest[:2]:
        yield f"older than any that was tested ({span})", SIGNAL_ADVICE


def _server(environ: Mapping[str, str]) -> Diagnosis:
    try:
        found = find_server(environ, name_server(environ))
    except (ApiUnreachable, UsageError) as error:
        return Diagnosis("server", NOTE, str(error))
    if found is None:
        return Diagnosis("server", OK, "none of yours runs; a run starts its own")
    version = "unknown"
    with ApiClient(found.url, transport=found.transport) as client, suppress(ApiError):
        version = client.health().get("version", version)
    return Diagnosis("server", OK, f"{found.url}, version {version}, {found.how}")


def _port(config: ServerConfig) -> Diagnosis:
    if not config.port:
        return Diagnosis("port", OK, "any that is free (CAO_PORT=0)")
    try:
        socket.create_connection((config.host, config.port), CONNECT_SECONDS).close()
    except OSError:
        return Diagnosis("port", OK, f"{config.port}, free")
    # What keeps our server from being asked is said of the state folder.
    with suppress(UsageError):
        own = find_server(config.environ)
        if own is not None and own.url.endswith(f":{config.port}"):
            return Diagnosis("port", OK, f"{config.port}, your server")
    detail = f"{config.port}, another program listens there"
    advice = "runs need no port of their own; a server of yours takes another one"
    return Diagnosis("port", NOTE, detail, advice, mend="cao server --port 0")


def _state_folder(folder: Path, wd: Path) -> Diagnosis:
    fault, mend = fault_of_state_folder(folder)
    if fault:
        detail = f"the state folder {folder} {fault}"
        return Diagnosis("state folder", WRONG, detail, needed=True, mend=mend)
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.R_OK | os.W_OK | os.X_OK):
        detail = f"{folder} cannot be written"
        advice = "give yourself access, or name another folder in CAO_STATE_DIR"
        return Diagnosis("state folder", WRONG, detail, advice, needed=True)
    detail = str(folder)
    if nearest != folder:
        detail += " (not there yet: the first start makes it)"
    remarks = [*said_of_place(folder, wd)]
    advice = "\n".join(remarks)
    return Diagnosis("state folder", NOTE if remarks else OK, detail, advice, needed=True)


def _token(file: Path) -> Diagnosis:
    if file.stat().st_mode & 0o077:
        mend = f"rm {shlex.quote(str(file))}"
        detail, advice = f"{file}, others may read it", "the next start makes a new one"
        return Diagnosis("token", WRONG, detail, advice, needed=True, mend=mend)
    return Diagnosis("token", OK, f"{file}, for its owner alone", needed=True)


# Any: what a TOML file holds
def _notices(user_file: Mapping[str, Any], file: Path, environ: Mapping[str, str]) -> Diagnosis:
    try:
        settings = read_notice_settings(user_file.get(TABLE, {}))
    except UsageError as error:
        advice = f"correct {file}"
        return Diagnosis("notifications", WRONG, str(error), advice, needed=True)
    if not settings.channels:
        detail = "the terminal alone; `cao notify` says how others"
        return Diagnosis("notifications", OK, detail)
    told = ", ".join(settings.channels)
    if settings.has_secrets and file.stat().st_mode & 0o077:
        detail = f"{told}; others may read {file}, which has their addresses"
        mend = f"chmod 600 {shlex.quote(str(file))}"
        return Diagnosis("notifications", NOTE, detail, mend=mend)
    if settings.desktop and not NoticeProgram(environ).is_possible:
        detail = f"{told}; there is no notify-send, so the desktop is not told"
        advice = "install it with your package manager (libnotify)"
    elif settings.command and not NoticeProgram(environ, settings.command).is_possible:
        detail = f"{told}; the program of command is not there, or cannot be run"
        advice = f"correct {file}"
    else:
        return Diagnosis("notifications", OK, f"{told}; `cao notify test` tries them")
    return Diagnosis("notifications", NOTE, detail, advice)


def _leftovers(state: Path, environ: Mapping[str, str]) -> Diagnosis:
    try:
        runs = known_runs(state, environ)
        named = name_server(environ)
        before = time.time() - KEPT_DAYS * DAY_SECONDS
        plan = plan_cleanup(runs, before, named.url if named else "")
    except (OSError, UsageError) as error:
        return Diagnosis("leftovers", NOTE, f"not looked for: {in_words(error)}")
    parts = [f"agents of {plural(len(plan.agents), 'ended run')}"] if plan.agents else []
    parts += [f"records of {plural(len(plan.folders), 'old run')}"] if plan.folders else []
    if not parts:
        return Diagnosis("leftovers", OK, f"none of {plural(len(runs), 'run')}")
    advice = "`cao clean` shows it, and asks first"
    return Diagnosis("leftovers", NOTE, ", ".join(parts), advice, mend="cao clean --yes")


def _distributions() -> Diagnosis:
    names = set(metadata.packages_distributions().get(MODULE, ()))
    others = sorted(names - {OUR_DISTRIBUTION})
    if not others:
        return Diagnosis("installation", OK, OUR_DISTRIBUTION)
    detail = f"{', '.join(others)} has the same import name and is in the same environment"
    advice = f"or install {OUR_DISTRIBUTION} into an environment of its own"
    mend = f"{shlex.quote(sys.executable)} -m pip uninstall {shlex.join(others)}"
    return Diagnosis("installation", NOTE, detail, advice, mend=mend)
