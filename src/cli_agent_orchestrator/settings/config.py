"""Frozen settings, checked when they are read.

A setting comes from a mapping of text to text (the environment, an option, a file flattened to
the same names), which whoever reads settings hands over. Empty means unset. A bad value is a
`ConfigError` that names the variable, its value and what was expected.
"""

import os
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import platformdirs

from ..errors import ConfigError, UsageError, suggestion

DEFAULT_PORT = 9889
LAST_PORT = 65535
DEFAULT_API = f"http://localhost:{DEFAULT_PORT}"

PERMISSIONS = ("workspace", "full", "ask")
"""What agents may do without asking; the first is the default."""

MOST_SECONDS = 1e7
"""Months: whoever means "for ever" can say this, and no clock of the system overflows."""

TRUE_WORDS = ("1", "true", "yes", "on")
FALSE_WORDS = ("0", "false", "no", "off")


def read_text(values: Mapping[str, str], name: str, default: str) -> str:
    return values.get(name) or default


def read_bool(values: Mapping[str, str], name: str, default: bool) -> bool:
    text = values.get(name)
    if not text:
        return default
    word = text.strip().lower()
    if word not in TRUE_WORDS + FALSE_WORDS:
        raise ConfigError(name, text, "1/0, true/false, yes/no or on/off")
    return word in TRUE_WORDS


def read_int(
    values: Mapping[str, str], name: str, default: int, minimum: int, maximum: int | None = None
) -> int:
    text = values.get(name)
    if not text:
        return default
    limits = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    expected = f"a whole number {limits}"
    try:
        number = int(text)
    except ValueError:
        raise ConfigError(name, text, expected) from None
    if number < minimum or (maximum is not None and number > maximum):
        raise ConfigError(name, text, expected)
    return number


def read_port(values: Mapping[str, str], default: int) -> int:
    """Return the port in CAO_PORT; 0 stands for any that is free."""
    return read_int(values, "CAO_PORT", default, 0, LAST_PORT)


def read_seconds(values: Mapping[str, str], name: str, default: float) -> float:
    text = values.get(name)
    if not text:
        return default
    expected = f"a number of seconds from 0 to {MOST_SECONDS:.0f}"
    try:
        number = float(text)
    except ValueError:
        raise ConfigError(name, text, expected) from None
    if not 0 <= number <= MOST_SECONDS:
        raise ConfigError(name, text, expected)
    return number


def read_choice(values: Mapping[str, str], name: str, default: str, known: tuple[str, ...]) -> str:
    text = (values.get(name) or default).strip().lower()
    if text not in known:
        expected = f"one of {', '.join(known)}{suggestion(text, known)}"
        raise ConfigError(name, values.get(name), expected)
    return text


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """How the user adjusts one agent where the server runs."""

    command: str | None = None
    """The program to run instead of the usual one."""
    args: tuple[str, ...] = ()
    """Appended to the agent's arguments: a model, another endpoint."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Set in the agent's environment."""


def read_provider_settings(
    values: Mapping[str, str], name: str, table: Mapping[str, Any]
) -> ProviderSettings:
    """Return the settings of one agent: the environment first, then the user's own file.

    `CAO_CODEX_ARGS='-m "my model"'` is split like a shell would, and never run through one.
    """
    variable = f"CAO_{name.upper()}_ARGS"
    args = values.get(variable)
    own_args = _split_words(variable, args) if args else _text_list(table, name, "args")
    command = values.get(f"CAO_{name.upper()}_COMMAND") or table.get("command")
    if command is not None and not isinstance(command, str):
        raise ConfigError(f"providers.{name}.command", command, "a program's name or path")
    env = table.get("env", {})
    if not isinstance(env, dict) or not all(isinstance(v, str) for v in env.values()):
        raise ConfigError(f"providers.{name}.env", env, "a table of texts")
    return ProviderSettings(command, own_args, env)


def _split_words(variable: str, text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigError(variable, text, f"shell-like words ({error})") from None


def _text_list(table: Mapping[str, Any], name: str, key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"providers.{name}.{key}", value, "a list of texts")
    return tuple(value)


def _read_permissions(values: Mapping[str, str]) -> str:
    """Return what agents may do without asking; the bare name counts for a server as well.

    Whoever has set it to allow less would not expect that a server ignores it.
    """
    own = "CAO_AGENT_PERMISSIONS"
    name = own if values.get(own, "").strip() else "AGENT_PERMISSIONS"
    return read_choice(values, name, PERMISSIONS[0], PERMISSIONS)


def state_folder(values: Mapping[str, str]) -> Path:
    """Return where the server keeps its store, token and event files (CAO_STATE_DIR)."""
    own = values.get("CAO_STATE_DIR")
    return Path(own).expanduser() if own else platformdirs.user_state_path("cao", appauthor=False)


def check_state_folder(folder: Path) -> None:
    """Refuse a state folder in which another user could put something; it need not exist yet."""
    try:
        status = folder.lstat()
    except OSError:
        return
    if stat.S_ISLNK(status.st_mode):
        fault = "is a symbolic link; set CAO_STATE_DIR to the folder to which it leads"
    elif status.st_uid != os.geteuid():
        fault = (
            f"belongs to another user (number {status.st_uid}, you are {os.geteuid()}); "
            "set CAO_STATE_DIR to a folder of your own"
        )
    elif stat.S_ISDIR(status.st_mode) and status.st_mode & 0o022:
        fault = f"can be written by others; fix it with: chmod go-w {shlex.quote(str(folder))}"
    else:
        return
    raise UsageError(f"the state folder {folder} {fault}")


def tmux_socket(state_dir: Path) -> str:
    """Name a tmux server of our own, one for each state folder, whatever path leads there."""
    return "cao-" + sha256(os.fsencode(os.path.realpath(state_dir))).hexdigest()[:8]


def config_folder(values: Mapping[str, str]) -> Path:
    """Return where the user's own `config.toml` and profiles are (CAO_CONFIG_DIR)."""
    own = values.get("CAO_CONFIG_DIR")
    return Path(own).expanduser() if own else platformdirs.user_config_path("cao", appauthor=False)


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """What the server half needs to know."""

    state_dir: Path
    """Store, token, event files and lock (CAO_STATE_DIR)."""
    config_dir: Path
    """The user's own profiles and `config.toml` (CAO_CONFIG_DIR)."""
    host: str = "127.0.0.1"
    """Where to listen (CAO_HOST)."""
    port: int = DEFAULT_PORT
    """Where to listen (CAO_PORT)."""
    permissions: str = PERMISSIONS[0]
    """What agents may do without asking if a request does not say it (CAO_AGENT_PERMISSIONS)."""
    start_seconds: float = 60
    """How long an agent may take until it can be given work (CAO_START_SECONDS)."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What agents inherit."""
    user_tables: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The `[providers.NAME]` tables of the user's `config.toml`."""

    @classmethod
    def from_env(
        cls, environ: Mapping[str, str], user_file: Mapping[str, Any] | None = None
    ) -> "ServerConfig":
        """Read the settings; `user_file` is the parsed `config.toml` of the user's own folder."""
        tables = (user_file or {}).get("providers", {})
        if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
            raise ConfigError("providers", tables, "tables such as [providers.codex]")
        return cls(
            state_dir=state_folder(environ),
            config_dir=config_folder(environ),
            host=read_text(environ, "CAO_HOST", "127.0.0.1"),
            port=read_port(environ, DEFAULT_PORT),
            permissions=_read_permissions(environ),
            start_seconds=read_seconds(environ, "CAO_START_SECONDS", 60),
            environ=dict(environ),
            user_tables=tables,
        )

    def provider(self, name: str) -> ProviderSettings:
        """Return how the user adjusted one agent."""
        return read_provider_settings(self.environ, name, self.user_tables.get(name, {}))

    @property
    def tmux_socket(self) -> str:
        return tmux_socket(self.state_dir)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a run goes on."""

    max_rounds: int = 8
    """Rounds until a run without a PASS has failed (MAX_ROUNDS)."""
    max_review_cycles: int = 3
    """Cycles until a phase goes on without an approval (MAX_REVIEW_CYCLES)."""


@dataclass(frozen=True, slots=True)
class ReviewRules:
    """When a reviewer's approval counts."""

    min_cycles: int = 2
    """The first cycle in which it can count (MIN_REVIEW_CYCLES_BEFORE_APPROVAL)."""
    require_evidence: bool = True
    """Must the notes show that the reviewer looked? (REQUIRE_REVIEW_EVIDENCE)"""
    evidence_min_match: int = 3
    """How many evidence groups the notes must touch (REVIEW_EVIDENCE_MIN_MATCH)."""


@dataclass(frozen=True, slots=True)
class Condensation:
    """What is shortened before it is handed on."""

    explore_on_repeat: bool = True
    """Send the explore summary once to each terminal (CONDENSE_EXPLORE_ON_REPEAT)."""
    review_feedback: bool = True
    """Hand on notes and evidence, not whole replies (CONDENSE_REVIEW_FEEDBACK)."""
    max_feedback_lines: int = 30
    """Maximum lines of notes or evidence (MAX_FEEDBACK_LINES)."""
    upstream_on_repeat: bool = True
    """Send an earlier phase's summary once a round (CONDENSE_UPSTREAM_ON_REPEAT)."""
    cross_phase: bool = True
    """Hand on only what the next phase needs (CONDENSE_CROSS_PHASE)."""
    max_cross_phase_lines: int = 40
    """Maximum lines handed to the next phase (MAX_CROSS_PHASE_LINES)."""


@dataclass(frozen=True, slots=True)
class LoopRules:
    """Everything that decides what a reply leads to."""

    limits: Limits = field(default_factory=Limits)
    review: ReviewRules = field(default_factory=ReviewRules)
    condensation: Condensation = field(default_factory=Condensation)
    is_review_bound: bool = False
    """Does a PASS count only for the files that were approved? (REVIEW_BOUND)"""
    stops_at_stall: bool = False
    """Is a run stopped that does not converge? (STALL)"""
    proof: str = "report"
    """Is what was done proven: off, report, require? (PROOF)"""


@dataclass(frozen=True, slots=True)
class HandoffRules:
    """How long to wait for a reply, and what to do without one."""

    poll_seconds: float = 2
    """Maximum polling interval (POLL_SECONDS)."""
    response_timeout: float = 1800
    """How long an agent may work on one turn (RESPONSE_TIMEOUT)."""
    idle_grace: float = 30
    """How long an agent may rest without a response file (IDLE_GRACE_SECONDS)."""
    strict: bool = True
    """Is the response file the only way a reply is taken? (STRICT_FILE_HANDOFF)"""
    max_reminders: int = 1
    """How often an agent is reminded to write the file (MAX_FILE_REMINDERS)."""
