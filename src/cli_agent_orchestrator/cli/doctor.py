"""`cao doctor`: what is installed, what is missing, and how to get it."""

import json
import os
import re
import shlex
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from ..client.client import ApiClient
from ..client.find import find_server, name_server
from ..core.models import BUILT_IN
from ..core.programs import Programs
from ..core.text import plural, printable
from ..errors import ApiError, ApiUnreachable, TmuxMissing, UsageError, in_words
from ..gates.checking import Sandbox, find_sandbox
from ..hosting.user import Program, ask_agent, find_program, login_command, read_user_file
from ..notices.decide import TABLE, read_notice_settings
from ..notices.send import NoticeProgram
from ..providers import PROVIDERS
from ..providers.base import Provider, find_version
from ..runs.deliver import DAY_SECONDS, known_runs, left_drafts, plan_cleanup
from ..settings.config import DEFAULT_PORT, ServerConfig, check_state_folder
from ..settings.layout import said_of_place
from ..settings.table import BY_NAME
from ..terminals.tmux import INSTALL_HINT, checked_version
from .clean import KEPT_DAYS
from .imports import own_command
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
SOCKET_PATTERN = r"cao-[0-9a-f]{8}"
"""How our tmux servers are called."""
LIBNOTIFY = "libnotify"
LIBNOTIFY_ELSEWHERE = {"apt-get": "libnotify-bin", "zypper": "libnotify-tools"}
"""What the package with notify-send is called, by what installs it."""
MB = 1_000_000
ROOM_MB = 16
"""With less free a run may not get far."""
SCREEN_ADVICE = (
    "a screen that is not recognized is shown as `unknown`, never as idle; "
    "`cao output ID --why` says why"
)
SIGNAL_ADVICE = f"its own signals are read all the same; without one, {SCREEN_ADVICE}"
OUR_DISTRIBUTION = "cao-loop"
IMPORT_NAME = "cli_agent_orchestrator"
AGENT = "agent "
WITHOUT_GIT = "without it there are no snapshots, undo, proof or work trees"
NO_ANSWER = "look what `{} {}` says"
ELSEWHERE = "or name another folder in CAO_STATE_DIR"
EXIT_MISSING = 1

StatVfs = Callable[[Path], os.statvfs_result]
Remark = tuple[str, str]
"""Something to know about an agent, and what that means for the user, if it means anything."""


class State(StrEnum):
    OK = "ok"
    NOTE = "note"
    MISSING = "missing"
    WRONG = "wrong"
    """It is there, and has to be put right."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    subject: str
    state: State
    detail: str
    advice: str = ""
    """What to know about it, one thing a line."""
    needed: bool = False
    """Is a run impossible without it?"""
    logged_out: bool = False
    """Is it an agent that says that nobody is logged in?"""
    mend: str = ""
    """The one command that mends it; empty if all is well, or if there is no such command."""


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


def _line(finding: Diagnosis) -> str:
    is_bad = finding.state is State.WRONG or (finding.state is State.MISSING and finding.needed)
    mark = finding.state.upper() if is_bad else str(finding.state)
    said = [*finding.advice.splitlines(), *([f"fix: {finding.mend}"] if finding.mend else [])]
    advice = [f"\n{'':9}{'':20}→ {line}" for line in said]
    return f"{mark:<9}{finding.subject:<20}{finding.detail}{''.join(advice)}"


def examine(
    programs: Programs,
    environ: Mapping[str, str],
    wd: Path,
    *,
    default_port: int = DEFAULT_PORT,
    statvfs: StatVfs = os.statvfs,
) -> Iterator[Diagnosis]:
    """Look at everything a run in a folder needs; each thing is told as soon as it is known."""
    config, user_file, fault = read_configuration(environ)
    agents = (partial(_agent, one, config, wd, programs) for one in PROVIDERS.values())
    looks = [partial(_tmux, environ, programs), partial(_git, environ, programs), *agents]
    asked = [programs.begin(look) for look in (*looks, partial(_sandbox, environ, programs))]
    version = ".".join(str(part) for part in sys.version_info[:3])
    yield Diagnosis("python", State.OK, f"{version}, {sys.executable}")
    for one in asked:
        yield one.result()
    yield _server(environ)
    yield _port(environ, default_port)
    yield _state_folder(config.state_dir, wd, statvfs)
    token = config.state_dir / "token"
    if token.exists():
        yield _token(token)
    file = config.config_dir / "config.toml"
    if fault:
        yield Diagnosis("configuration", State.WRONG, fault, f"correct {file}", needed=True)
    else:
        there = "read" if file.exists() else "not there, which is fine"
        yield Diagnosis("configuration", State.OK, f"{file} ({there})")
    for remark in remarks_on_variables(environ):
        yield Diagnosis("environment", State.NOTE, remark)
    yield _notices(user_file, file, environ)
    yield _leftovers(config.state_dir, environ)
    yield _sockets(config, environ)
    yield _distributions()


# Any: what a TOML file holds
def read_configuration(environ: Mapping[str, str]) -> tuple[ServerConfig, dict[str, Any], str]:
    """Return the settings, the user's own file, and what is wrong in it.

    What is wrong there counts as not written. A fault in the environment is raised.
    """
    config = ServerConfig.from_env(environ)
    for name in PROVIDERS:
        config.provider(name)
    user_file: dict[str, Any] = {}
    try:
        user_file = read_user_file(environ)
        own = ServerConfig.from_env(environ, user_file)
        for name in PROVIDERS:
            own.provider(name)
    except (UsageError, OSError) as error:
        return config, user_file, in_words(error)
    return own, user_file, ""


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
    lacking = (_lacking(findings, state) for state in (State.MISSING, State.WRONG))
    return not any(lacking) and bool(_agents(findings))


def conclude(findings: Sequence[Diagnosis], cao: str) -> str:
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
    names = {f.subject.removeprefix(AGENT): f for f in findings if f.subject.startswith(AGENT)}
    return {
        name: finding
        for name, finding in names.items()
        if name != BUILT_IN and finding.state is not State.MISSING
    }


def install_command(
    package: str, environ: Mapping[str, str], otherwise: Mapping[str, str] | None = None
) -> str:
    """Return the command that installs a package on this machine; empty if none is known.

    `otherwise` says what it is called where it has another name.
    """
    for program, words in INSTALLERS.items():
        if shutil.which(program, path=environ.get("PATH")):
            return f"{words} {(otherwise or {}).get(program, package)}"
    return ""


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


def _sandbox(environ: Mapping[str, str], programs: Programs) -> Diagnosis:
    found = find_sandbox(seconds=programs.seconds, leave=programs.left)
    if found.sandbox is not None:
        return Diagnosis("sandbox", State.OK, f"{found.sandbox}, for gates with sandbox = true")
    lacks_it = programs.find(Sandbox.BUBBLEWRAP) is None
    can_have_it = lacks_it and sys.platform == "linux"
    mend = install_command("bubblewrap", environ) if can_have_it else ""
    advice = "only gates with sandbox = true need one"
    return Diagnosis("sandbox", State.NOTE, found.problem, advice, mend=mend)


def _agent(provider: Provider, config: ServerConfig, wd: Path, programs: Programs) -> Diagnosis:
    subject = f"{AGENT}{provider.name}"
    if provider.name == BUILT_IN:
        return Diagnosis(subject, State.OK, "built in, for the demo and dry runs")
    wanted, program = find_program(provider, config, config.environ)
    if program is None:
        hint, detail = provider.install_hint, f"no {wanted} on the PATH"
        if hint.startswith("npm "):
            return Diagnosis(subject, State.MISSING, detail, mend=hint)
        return Diagnosis(subject, State.MISSING, detail, hint)
    found = ask_agent(provider.name, program, config, wd, programs)
    if not isinstance(found, Program):
        advice = NO_ANSWER.format(program, "--version")
        return Diagnosis(subject, State.MISSING, f"{program} {found.text}", advice)
    remarks = [
        *remarks_on_version(found.version, provider.tested_versions),
        remark_on_login(found.logged_in),
    ]
    advices = [advice for _, advice in remarks if advice]
    logged_out = found.logged_in is False
    return Diagnosis(
        subject,
        State.NOTE if advices else State.OK,
        ", ".join([version_words(found.version), found.path, *(text for text, _ in remarks)]),
        "\n".join(advices),
        logged_out=logged_out,
        mend=login_command(provider.name, found.path) if logged_out else "",
    )


def version_words(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version)) or "version unknown"


def remarks_on_version(
    version: tuple[int, ...], tested: tuple[tuple[int, ...], ...]
) -> Iterator[Remark]:
    """Say whether a version lies outside of those that were tested.

    What differs from the newest of them only behind MAJOR.MINOR counts as tested.
    """
    if not tested:
        text = "no version of it was tested; its screens are known from recordings only"
        yield text, SCREEN_ADVICE
        return
    oldest, newest = min(tested), max(tested)
    span = " to ".join(map(version_words, dict.fromkeys((oldest, newest))))
    if not version:
        yield f"version unknown; tested: {span}", SIGNAL_ADVICE
    elif version[:2] == newest[:2]:
        return
    elif version > newest:
        yield f"newer than any that was tested ({span})", SIGNAL_ADVICE
    elif version < oldest[: len(version)]:
        yield f"older than any that was tested ({span})", SIGNAL_ADVICE


def remark_on_login(logged_in: bool | None) -> Remark:
    if logged_in is None:
        return "it does not tell whether it is logged in", ""
    if logged_in:
        return "logged in", ""
    return "not logged in", "unless it works with a key of its own"


def _server(environ: Mapping[str, str]) -> Diagnosis:
    try:
        found = find_server(environ, name_server(environ))
    except (ApiUnreachable, UsageError) as error:
        return Diagnosis("server", State.NOTE, str(error))
    if found is None:
        return Diagnosis("server", State.OK, "none of yours runs; a run starts its own")
    version = "unknown"
    with ApiClient(found.url, transport=found.transport) as client, suppress(ApiError):
        version = client.health().get("version", version)
    return Diagnosis("server", State.OK, f"{found.url}, version {version}, {found.how}")


def _port(environ: Mapping[str, str], default_port: int) -> Diagnosis:
    """Say whether the port of `cao server` is free, ours or somebody else's."""
    named = environ.get("CAO_PORT", "").strip()
    if named == "0":
        return Diagnosis("port", State.OK, "any that is free (CAO_PORT=0)")
    number = int(named) if named.isdecimal() else default_port
    host = environ.get("CAO_HOST", "").strip() or "127.0.0.1"
    try:
        socket.create_connection((host, number), CONNECT_SECONDS).close()
    except OSError:
        return Diagnosis("port", State.OK, f"{number}, free")
    try:
        own = find_server(environ)
    except UsageError:
        # What keeps it from being asked is said of the state folder.
        return Diagnosis("port", State.NOTE, f"{number}, taken; it is not known by whom")
    if own is not None and own.url.endswith(f":{number}"):
        return Diagnosis("port", State.OK, f"{number}, your server")
    return Diagnosis(
        "port",
        State.NOTE,
        f"{number}, another program listens there",
        "runs need no port of their own; a server of yours takes another one",
        mend="cao server --port 0",
    )


def _state_folder(folder: Path, wd: Path, statvfs: StatVfs) -> Diagnosis:
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
    detail = f"{folder}"
    if nearest != folder:
        detail += " (not there yet: the first start makes it)"
    remarks = [*said_of_place(folder, wd)]
    state = State.NOTE if remarks else State.OK
    with suppress(OSError):
        disk = statvfs(nearest)
        free = disk.f_bavail * disk.f_frsize
        # Some file systems know no numbers.
        if free < ROOM_MB * MB and disk.f_blocks:
            state = State.NOTE if free else State.WRONG
            left = f"has {free // MB} MB left; a run may need {ROOM_MB} MB" if free else "is full"
            detail += f", its disk {left}"
            remarks.append(f"make room there, {ELSEWHERE}")
    return Diagnosis("state folder", state, detail, "\n".join(remarks), needed=True)


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


# Any: what a TOML file holds
def _notices(user_file: Mapping[str, Any], file: Path, environ: Mapping[str, str]) -> Diagnosis:
    """Say who is told of runs, and whether others may read by which addresses."""
    try:
        settings = read_notice_settings(user_file.get(TABLE, {}))
    except UsageError as error:
        advice = f"correct {file}"
        return Diagnosis("notifications", State.WRONG, str(error), advice, needed=True)
    if not settings.channels:
        detail = "the terminal alone; `cao notify` says how others"
        return Diagnosis("notifications", State.OK, detail)
    told = ", ".join(settings.channels)
    if settings.has_secrets and file.stat().st_mode & 0o077:
        return Diagnosis(
            "notifications",
            State.NOTE,
            f"{told}; others may read {file}, which has their addresses",
            mend=f"chmod 600 {shlex.quote(str(file))}",
        )
    if settings.desktop and not NoticeProgram(environ).is_possible:
        detail = f"{told}; there is no notify-send, so the desktop is not told"
        mend = install_command(LIBNOTIFY, environ, LIBNOTIFY_ELSEWHERE)
        advice = "" if mend else f"install it with your package manager ({LIBNOTIFY})"
        return Diagnosis("notifications", State.NOTE, detail, advice, mend=mend)
    if settings.command and not NoticeProgram(environ, settings.command).is_possible:
        detail = f"{told}; the program of command is not there, or cannot be run"
        return Diagnosis("notifications", State.NOTE, detail, f"correct {file}")
    return Diagnosis("notifications", State.OK, f"{told}; `cao notify test` tries them")


def _leftovers(state: Path, environ: Mapping[str, str]) -> Diagnosis:
    try:
        runs = known_runs(state, environ)
        named = name_server(environ)
        before = time.time() - KEPT_DAYS * DAY_SECONDS
        plan = plan_cleanup(runs, before, named.url if named else "")
        drafts = len(left_drafts(state))
    except (OSError, UsageError) as error:
        return Diagnosis("leftovers", State.NOTE, f"not looked for: {in_words(error)}")
    parts = [
        f"agents of {plural(len(plan.agents), 'ended run')}" if plan.agents else "",
        f"records of {plural(len(plan.folders), 'old run')}" if plan.folders else "",
        f"{plural(drafts, 'record')} of runs that never began" if drafts else "",
    ]
    if not any(parts):
        return Diagnosis("leftovers", State.OK, f"none of {plural(len(runs), 'run')}")
    advice = "`cao clean` shows it, and asks first"
    found = ", ".join(filter(None, parts))
    return Diagnosis("leftovers", State.NOTE, found, advice, mend="cao clean --yes")


def _sockets(config: ServerConfig, environ: Mapping[str, str]) -> Diagnosis:
    """Say which sockets are left of tmux servers of ours that have ended, but the present one's."""
    folder = Path(environ.get("TMUX_TMPDIR") or "/tmp", f"tmux-{os.getuid()}")
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError:
        names = []
    ours = [name for name in names if re.fullmatch(SOCKET_PATTERN, name)]
    stale = [name for name in ours if name != config.tmux_socket and _is_stale(folder / name)]
    if not stale:
        return Diagnosis("tmux sockets", State.OK, "none of servers that have ended")
    paths = shlex.join(str(folder / name) for name in stale)
    detail = f"{plural(len(stale), 'socket')} of tmux servers that have ended"
    return Diagnosis("tmux sockets", State.NOTE, detail, mend=f"rm {paths}")


def _is_stale(path: Path) -> bool:
    """Is it a socket at which nobody listens any more?"""
    if not path.is_socket():
        return False
    with socket.socket(socket.AF_UNIX) as trial:
        trial.settimeout(CONNECT_SECONDS)
        try:
            trial.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def _distributions() -> Diagnosis:
    names = set(metadata.packages_distributions().get(IMPORT_NAME, ()))
    others = sorted(names - {OUR_DISTRIBUTION})
    if not others:
        return Diagnosis("installation", State.OK, OUR_DISTRIBUTION)
    return Diagnosis(
        "installation",
        State.NOTE,
        f"{', '.join(others)} has the same import name and is in the same environment",
        f"or install {OUR_DISTRIBUTION} into an environment of its own",
        mend=f"{shlex.quote(sys.executable)} -m pip uninstall {shlex.join(others)}",
    )
