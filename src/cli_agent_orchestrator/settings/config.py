"""Frozen settings of a server and of a run, checked when they are read.

Each comes as text under its variable's name, from the environment or from what `merge_settings`
made of options, environment, task and file.
"""

import os
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import platformdirs

from ..errors import ConfigError, UsageError
from .gates import Gate, read_gates
from .layout import STATE_FILE
from .table import BY_NAME, KEPT_NAMES, PERMISSIONS
from .values import (
    canonical,
    check_path,
    expand_path,
    given,
    read_bool,
    read_choice,
    read_int,
    read_paths,
    read_role_providers,
    read_seconds,
    read_text,
    read_word,
)

DEFAULT_PORT = 9889
LAST_PORT = 65535
DEFAULT_API = f"http://localhost:{DEFAULT_PORT}"


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


def read_port(values: Mapping[str, str], default: int) -> int:
    """Return the port in CAO_PORT; 0 stands for any that is free."""
    return read_int(values, "CAO_PORT", default, 0, LAST_PORT)


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


@dataclass(frozen=True, slots=True)
class RunConfig:
    """What a run needs to know."""

    wd: Path
    """The project's folder, absolute (WD)."""
    state_file: Path
    """Where scripts find the run as it was saved, absolute (STATE_FILE)."""
    api: str = DEFAULT_API
    """The server's address, without a slash at its end (API)."""
    api_named_by: str = ""
    """Where the address stands; empty if none was given, and the server is to be looked for."""
    provider: str = "codex"
    """The agent for roles that name no other (PROVIDER)."""
    providers: Mapping[str, str] = field(default_factory=dict)
    """The agents of those roles that name one (ANALYST_PROVIDER and so on, ROLE_PROVIDERS)."""
    flow: str = "loop"
    """The flow, by its name or as the path of its file (FLOW)."""
    gates: tuple[Gate, ...] = ()
    """The commands that are believed (GATES)."""
    in_worktree: bool = False
    """Do the agents work in a work tree of their own? (WORKSPACE)"""
    worktree_setup: str = ""
    """Prepares a new work tree (WORKTREE_SETUP)."""
    held_back: tuple[str, ...] = ()
    """What gates have of the project's files and agents do not (HELD_BACK)."""
    readonly_roles: str = "warn"
    """What is done when a reviewer or tester changes files (READONLY_ROLES)."""
    gate_timeout: float = 1800
    """How long such a command may take if it says nothing else (GATE_TIMEOUT)."""
    permissions: str = ""
    """What agents may do without asking; empty: what the server says (AGENT_PERMISSIONS)."""
    prompt: str = field(default="", repr=False)
    """The task as text (PROMPT)."""
    prompt_file: Path | None = None
    """The task file, absolute; it wins over the text (PROMPT_FILE)."""
    project_test_cmd: str = ""
    """Runs the project's own tests (PROJECT_TEST_CMD)."""
    resume: bool | None = None
    """Resume, start anew, or (None) resume what is not finished (RESUME)."""
    missing: str = ""
    """At resume: what is done about a reply that did not come; empty: wait for it (MISSING)."""
    cleanup_on_exit: bool = False
    """Are the agents ended with the run? (CLEANUP_ON_EXIT)"""
    recording: bool = True
    """Are the agents' screens recorded? (RECORDING)"""
    rules: LoopRules = field(default_factory=LoopRules)
    handoff: HandoffRules = field(default_factory=HandoffRules)
    settings: Mapping[str, str] = field(default_factory=dict)
    """The values of all settings that a saved run keeps, by variable name."""

    @classmethod
    def from_env(cls, values: Mapping[str, str], api_named_by: str = "API") -> "RunConfig":
        """Read and check the settings: the environment, or what `merge_settings` returned.

        `api_named_by` says where an address among them is from.
        """
        texts = given(values)
        wd = _read_folder(texts, "WD")
        provider = read_word(texts, "PROVIDER") or BY_NAME["PROVIDER"].default
        return cls(
            wd=wd,
            state_file=wd / _read_path(texts, "STATE_FILE", STATE_FILE),
            api=_read_url(texts, "API", api_named_by),
            api_named_by=api_named_by if "API" in texts else "",
            provider=provider,
            providers=read_role_providers(texts),
            flow=texts.get("FLOW", BY_NAME["FLOW"].default).strip(),
            gates=read_gates(texts.get("GATES", "")),
            in_worktree=_read_choice(texts, "WORKSPACE") == "worktree",
            worktree_setup=texts.get("WORKTREE_SETUP", "").strip(),
            held_back=read_paths("HELD_BACK", texts.get("HELD_BACK", "")),
            readonly_roles=_read_choice(texts, "READONLY_ROLES"),
            gate_timeout=read_gate_timeout(texts),
            permissions=_read_choice(texts, "AGENT_PERMISSIONS"),
            prompt=texts.get("PROMPT", ""),
            prompt_file=(
                _read_path(texts, "PROMPT_FILE", "").absolute() if "PROMPT_FILE" in texts else None
            ),
            project_test_cmd=texts.get("PROJECT_TEST_CMD", "").strip(),
            resume=read_bool(texts, "RESUME", False) if "RESUME" in texts else None,
            missing=_read_choice(texts, "MISSING"),
            cleanup_on_exit=_read_flag(texts, "CLEANUP_ON_EXIT"),
            recording=_read_flag(texts, "RECORDING"),
            rules=read_rules(texts),
            handoff=read_handoff(texts),
            settings={
                name: canonical(name, texts.get(name, BY_NAME[name].default)) or ""
                for name in KEPT_NAMES
            },
        )

    @property
    def api_given(self) -> bool:
        """Was an address given? Only then a server that is not there is an error."""
        return bool(self.api_named_by)

    def provider_of(self, role: str) -> str:
        return self.providers.get(role, self.provider)

    def warnings(self, evidence_groups: int | None) -> tuple[str, ...]:
        """Return what is allowed but surely not meant, a line each.

        `evidence_groups` is the least that a reviewer has; None if there is none.
        """
        review, limits = self.rules.review, self.rules.limits
        lines = []
        if review.min_cycles > limits.max_review_cycles:
            lines.append(
                f"MIN_REVIEW_CYCLES_BEFORE_APPROVAL ({review.min_cycles}) is above "
                f"MAX_REVIEW_CYCLES ({limits.max_review_cycles}): no approval can count."
            )
        groups = review.evidence_min_match if evidence_groups is None else evidence_groups
        if review.require_evidence and review.evidence_min_match > groups:
            lines.append(
                f"REVIEW_EVIDENCE_MIN_MATCH ({review.evidence_min_match}) is above the number of "
                f"evidence groups ({groups}): no approval can count."
            )
        return tuple(lines)


def read_rules(texts: Mapping[str, str]) -> LoopRules:
    """Return what decides where a reply leads to, from settings by variable name."""
    return LoopRules(
        limits=Limits(
            max_rounds=_read_count(texts, "MAX_ROUNDS"),
            max_review_cycles=_read_count(texts, "MAX_REVIEW_CYCLES"),
        ),
        review=ReviewRules(
            min_cycles=_read_count(texts, "MIN_REVIEW_CYCLES_BEFORE_APPROVAL"),
            require_evidence=_read_flag(texts, "REQUIRE_REVIEW_EVIDENCE"),
            evidence_min_match=_read_count(texts, "REVIEW_EVIDENCE_MIN_MATCH"),
        ),
        condensation=Condensation(
            explore_on_repeat=_read_flag(texts, "CONDENSE_EXPLORE_ON_REPEAT"),
            review_feedback=_read_flag(texts, "CONDENSE_REVIEW_FEEDBACK"),
            max_feedback_lines=_read_count(texts, "MAX_FEEDBACK_LINES"),
            upstream_on_repeat=_read_flag(texts, "CONDENSE_UPSTREAM_ON_REPEAT"),
            cross_phase=_read_flag(texts, "CONDENSE_CROSS_PHASE"),
            max_cross_phase_lines=_read_count(texts, "MAX_CROSS_PHASE_LINES"),
        ),
        is_review_bound=_read_choice(texts, "REVIEW_BOUND") == "require",
        stops_at_stall=_read_choice(texts, "STALL") == "stop",
        proof=_read_choice(texts, "PROOF"),
    )


def read_handoff(texts: Mapping[str, str]) -> HandoffRules:
    """Return how long replies are waited for, from settings by variable name."""
    return HandoffRules(
        poll_seconds=_read_duration(texts, "POLL_SECONDS"),
        response_timeout=_read_duration(texts, "RESPONSE_TIMEOUT"),
        idle_grace=_read_duration(texts, "IDLE_GRACE_SECONDS"),
        strict=_read_flag(texts, "STRICT_FILE_HANDOFF"),
        max_reminders=_read_count(texts, "MAX_FILE_REMINDERS"),
    )


def read_gate_timeout(texts: Mapping[str, str]) -> float:
    """Return how long the command of a gate may take that says nothing else."""
    return _read_duration(texts, "GATE_TIMEOUT")


def _read_flag(texts: Mapping[str, str], name: str) -> bool:
    return read_bool(texts, name, BY_NAME[name].default == "1")


def _read_count(texts: Mapping[str, str], name: str) -> int:
    return read_int(texts, name, int(BY_NAME[name].default), BY_NAME[name].minimum)


def _read_duration(texts: Mapping[str, str], name: str) -> float:
    return read_seconds(texts, name, float(BY_NAME[name].default))


def _read_choice(texts: Mapping[str, str], name: str) -> str:
    usual = BY_NAME[name].default
    return read_choice(texts, name, usual, BY_NAME[name].choices) if name in texts else usual


def _read_url(texts: Mapping[str, str], name: str, named_by: str) -> str:
    text = texts.get(name, DEFAULT_API).strip()
    expected = "the http or https address of a server, such as " + DEFAULT_API
    try:
        url = urlsplit(text)
        complete = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:
        complete = False
    if not complete or any(character.isspace() for character in text):
        raise ConfigError(named_by, text, expected)
    return text.rstrip("/")


def _read_folder(texts: Mapping[str, str], name: str) -> Path:
    path = _read_path(texts, name, ".")
    try:
        folder = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise ConfigError(name, str(path), "a folder that exists") from error
    check_path(name, str(folder))
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise ConfigError(name, str(folder), "a folder whose path is text in UTF-8") from None
    if not folder.is_dir():
        raise ConfigError(name, str(path), "a folder")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigError(name, str(folder), "a folder that you may read and write")
    return folder


def _read_path(texts: Mapping[str, str], name: str, default: str) -> Path:
    return expand_path(name, texts.get(name, default))
