"""Frozen settings of a server and of a run, checked when they are read.

Each comes as text under its variable's name, from the environment or from what `merge_settings`
made of options, environment, task and file.
"""

import os
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import platformdirs

from ..core.codec import convert
from ..errors import ConfigError, UsageError
from .gates import Gate, read_gates
from .layout import STATE_FILE
from .table import BY_NAME, KEPT_NAMES, PERMISSIONS, ValueKind
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
    read_word,
)

Part = TypeVar("Part", "Limits", "ReviewRules", "Condensation", "HandoffRules")

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
    found: dict[str, Any] = {}
    for key, kind, expected in (
        ("command", str, "a program's name or path"),
        ("args", tuple[str, ...], "a list of texts"),
        ("env", dict[str, str], "a table of texts"),
    ):
        if key in table:
            try:
                found[key] = convert(kind, table[key])
            except ValueError:
                raise ConfigError(f"providers.{name}.{key}", table[key], expected) from None
    if command := values.get(f"CAO_{name.upper()}_COMMAND"):
        found["command"] = command
    variable = f"CAO_{name.upper()}_ARGS"
    if text := values.get(variable):
        try:
            found["args"] = tuple(shlex.split(text))
        except ValueError as error:
            raise ConfigError(variable, text, f"shell-like words ({error})") from None
    return ProviderSettings(**found)


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
        # Whoever has set the bare name to allow less would not expect that a server ignores it.
        own = "CAO_AGENT_PERMISSIONS"
        allowing = own if environ.get(own, "").strip() else "AGENT_PERMISSIONS"
        return cls(
            state_dir=state_folder(environ),
            config_dir=config_folder(environ),
            host=environ.get("CAO_HOST") or "127.0.0.1",
            port=read_int(environ, "CAO_PORT", DEFAULT_PORT, 0, LAST_PORT),
            permissions=read_choice(environ, allowing, PERMISSIONS[0], PERMISSIONS),
            start_seconds=read_seconds(environ, "CAO_START_SECONDS", 60),
            environ=dict(environ),
            user_tables=tables,
        )

    def provider(self, name: str) -> ProviderSettings:
        return read_provider_settings(self.environ, name, self.user_tables.get(name, {}))

    @property
    def tmux_socket(self) -> str:
        return tmux_socket(self.state_dir)


# Any: as `field` returns it, so that it fits the field's own type
def _of(name: str, default: object) -> Any:
    """Declare a field that a setting decides."""
    return field(default=default, metadata={"name": name})


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a run goes on."""

    max_rounds: int = _of("MAX_ROUNDS", 8)
    """Rounds until a run without a PASS has failed."""
    max_review_cycles: int = _of("MAX_REVIEW_CYCLES", 3)
    """Cycles until a phase goes on without an approval."""


@dataclass(frozen=True, slots=True)
class ReviewRules:
    """When a reviewer's approval counts."""

    min_cycles: int = _of("MIN_REVIEW_CYCLES_BEFORE_APPROVAL", 2)
    """The first cycle in which it can count."""
    require_evidence: bool = _of("REQUIRE_REVIEW_EVIDENCE", True)
    """Must the notes show that the reviewer looked?"""
    evidence_min_match: int = _of("REVIEW_EVIDENCE_MIN_MATCH", 3)
    """How many evidence groups the notes must touch."""


@dataclass(frozen=True, slots=True)
class Condensation:
    """What is shortened before it is handed on."""

    explore_on_repeat: bool = _of("CONDENSE_EXPLORE_ON_REPEAT", True)
    """Send the explore summary once to each terminal."""
    review_feedback: bool = _of("CONDENSE_REVIEW_FEEDBACK", True)
    """Hand on notes and evidence, not whole replies."""
    max_feedback_lines: int = _of("MAX_FEEDBACK_LINES", 30)
    """Maximum lines of notes or evidence."""
    upstream_on_repeat: bool = _of("CONDENSE_UPSTREAM_ON_REPEAT", True)
    """Send an earlier phase's summary once a round."""
    cross_phase: bool = _of("CONDENSE_CROSS_PHASE", True)
    """Hand on only what the next phase needs."""
    max_cross_phase_lines: int = _of("MAX_CROSS_PHASE_LINES", 40)
    """Maximum lines handed to the next phase."""


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

    poll_seconds: float = _of("POLL_SECONDS", 2)
    """Maximum polling interval."""
    response_timeout: float = _of("RESPONSE_TIMEOUT", 1800)
    """How long an agent may work on one turn."""
    idle_grace: float = _of("IDLE_GRACE_SECONDS", 30)
    """How long an agent may rest without a response file."""
    strict: bool = _of("STRICT_FILE_HANDOFF", True)
    """Is the response file the only way a reply is taken?"""
    max_reminders: int = _of("MAX_FILE_REMINDERS", 1)
    """How often an agent is reminded to write the file."""


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
        wd = _read_folder(texts)
        task = texts.get("PROMPT_FILE")
        return cls(
            wd=wd,
            state_file=wd / expand_path("STATE_FILE", texts.get("STATE_FILE", STATE_FILE)),
            api=_read_url(texts.get("API", DEFAULT_API).strip(), api_named_by),
            api_named_by=api_named_by if "API" in texts else "",
            provider=read_word(texts, "PROVIDER") or BY_NAME["PROVIDER"].default,
            providers=read_role_providers(texts),
            flow=_read(texts, "FLOW"),
            gates=read_gates(texts.get("GATES", "")),
            in_worktree=_read(texts, "WORKSPACE") == "worktree",
            worktree_setup=_read(texts, "WORKTREE_SETUP"),
            held_back=read_paths("HELD_BACK", texts.get("HELD_BACK", "")),
            readonly_roles=_read(texts, "READONLY_ROLES"),
            gate_timeout=read_gate_timeout(texts),
            permissions=_read(texts, "AGENT_PERMISSIONS"),
            prompt=texts.get("PROMPT", ""),
            prompt_file=expand_path("PROMPT_FILE", task).absolute() if task else None,
            project_test_cmd=_read(texts, "PROJECT_TEST_CMD"),
            resume=_read(texts, "RESUME") if "RESUME" in texts else None,
            missing=_read(texts, "MISSING"),
            cleanup_on_exit=_read(texts, "CLEANUP_ON_EXIT"),
            recording=_read(texts, "RECORDING"),
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
        limits=_read_all(Limits, texts),
        review=_read_all(ReviewRules, texts),
        condensation=_read_all(Condensation, texts),
        is_review_bound=_read(texts, "REVIEW_BOUND") == "require",
        stops_at_stall=_read(texts, "STALL") == "stop",
        proof=_read(texts, "PROOF"),
    )


def read_handoff(texts: Mapping[str, str]) -> HandoffRules:
    """Return how long replies are waited for, from settings by variable name."""
    return _read_all(HandoffRules, texts)


def read_gate_timeout(texts: Mapping[str, str]) -> float:
    """Return how long the command of a gate may take that says nothing else."""
    return float(_read(texts, "GATE_TIMEOUT"))


def _read_all(kind: type[Part], texts: Mapping[str, str]) -> Part:
    """Return a part of the settings of which every field names its variable."""
    return kind(**{one.name: _read(texts, one.metadata["name"]) for one in fields(kind)})


# Any: what the table says of a setting's kind
def _read(texts: Mapping[str, str], name: str) -> Any:
    """Return a setting as the table has it; its default if it is not given."""
    setting = BY_NAME[name]
    match setting.kind:
        case ValueKind.FLAG:
            return read_bool(texts, name, setting.default == "1")
        case ValueKind.COUNT:
            return read_int(texts, name, int(setting.default), setting.minimum)
        case ValueKind.SECONDS:
            return read_seconds(texts, name, float(setting.default))
        case ValueKind.CHOICE if name in texts:
            return read_choice(texts, name, setting.default, setting.choices)
    return texts.get(name, setting.default).strip()


def _read_url(text: str, named_by: str) -> str:
    try:
        url = urlsplit(text)
        complete = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:
        complete = False
    if not complete or any(character.isspace() for character in text):
        expected = f"the http or https address of a server, such as {DEFAULT_API}"
        raise ConfigError(named_by, text, expected)
    return text.rstrip("/")


def _read_folder(texts: Mapping[str, str]) -> Path:
    path = expand_path("WD", texts.get("WD", "."))
    try:
        folder = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise ConfigError("WD", str(path), "a folder that exists") from error
    check_path("WD", str(folder))
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise ConfigError("WD", str(folder), "a folder whose path is text in UTF-8") from None
    if not folder.is_dir():
        raise ConfigError("WD", str(path), "a folder")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigError("WD", str(folder), "a folder that you may read and write")
    return folder
