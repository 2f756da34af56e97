"""Frozen settings of a server and of a run, checked when they are read.

Each comes as text under its variable's name, from the environment or from what `merge_settings`
made of options, environment, task and file.
"""

import os
import shlex
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import fields

from ..core.codec import Private, convert
from ..errors import ConfigError
from .gates import Gate
from .layout import STATE_FILE, config_folder, state_folder
from .table import BY_NAME, KEPT_NAMES, PERMISSIONS
from .values import (
    canonical,
    check_path,
    expand_path,
    given,
    read_choice,
    read_count,
    read_role_providers,
    read_seconds,
    read_value,
    read_word,
)

Part = TypeVar("Part", bound=Struct)

DEFAULT_PORT = 9889
LAST_PORT = 65535
START_SECONDS = 60.0
DEFAULT_API = f"http://localhost:{DEFAULT_PORT}"


class ProviderSettings(Struct, frozen=True):
    command: str | None = None
    args: tuple[str, ...] = ()
    """Appended to the agent's arguments: a model, another endpoint."""
    env: Mapping[str, str] = field(default_factory=dict)


def own_agents(config_dir: Path | None) -> dict[str, Path]:
    """Return the files in which the user describes agents, by the agents' names."""
    files = (config_dir / "agents").glob("*.toml") if config_dir else ()
    return {file.stem: file for file in sorted(files)}


def tmux_socket(state_dir: Path) -> str:
    """Name a tmux server of our own, one for each state folder, whatever path leads there."""
    return "cao-" + sha256(os.fsencode(os.path.realpath(state_dir))).hexdigest()[:8]


class ServerConfig(Private, frozen=True):
    state_dir: Path
    config_dir: Path
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    permissions: str = PERMISSIONS[0]
    """What agents may do without asking if a request does not say it (CAO_AGENT_PERMISSIONS)."""
    start_seconds: float = START_SECONDS
    """How long an agent may take until it can be given work (CAO_START_SECONDS)."""
    environ: Mapping[str, str] = field(default_factory=dict)
    user_tables: Mapping[str, Any] = field(default_factory=dict)
    """The `[providers.NAME]` tables of the user's `config.toml`."""

    @classmethod
    def from_env(
        cls, environ: Mapping[str, str], user_file: Mapping[str, Any] | None = None
    ) -> "ServerConfig":
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
            port=read_count("CAO_PORT", environ.get("CAO_PORT") or f"{DEFAULT_PORT}", 0, LAST_PORT),
            permissions=read_choice(allowing, environ.get(allowing) or PERMISSIONS[0], PERMISSIONS),
            start_seconds=read_seconds(
                "CAO_START_SECONDS", environ.get("CAO_START_SECONDS") or f"{START_SECONDS}"
            ),
            environ=dict(environ),
            user_tables=tables,
        )

    def provider(self, name: str) -> ProviderSettings:
        """Return the settings of one agent: the environment first, then the user's own file."""
        table = self.user_tables.get(name, {})
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
        if command := self.environ.get(f"CAO_{name.upper()}_COMMAND"):
            found["command"] = command
        variable = f"CAO_{name.upper()}_ARGS"
        if text := self.environ.get(variable):
            try:
                found["args"] = tuple(shlex.split(text))
            except ValueError as error:
                raise ConfigError(variable, text, f"shell-like words ({error})") from None
        return ProviderSettings(**found)

    @property
    def tmux_socket(self) -> str:
        return tmux_socket(self.state_dir)


# Any: as `field` returns it, so that it fits the field's own type
def _of(name: str) -> Any:
    """Declare a field that a setting of the table decides; that explains it, too."""
    return field(default=read_value({}, name), name=name)


def read_all(kind: type[Part], texts: Mapping[str, str]) -> Part:
    return kind(**_decided(kind, texts))


def _decided(kind: type[Struct], texts: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in fields(kind):
        if one.encode_name != one.name:
            found[one.name] = read_value(texts, one.encode_name)
        elif isinstance(one.type, type) and issubclass(one.type, Struct):
            found[one.name] = read_all(one.type, texts)
    return found


class ReviewRules(Struct, frozen=True):
    min_cycles: int = _of("MIN_REVIEW_CYCLES_BEFORE_APPROVAL")
    require_evidence: bool = _of("REQUIRE_REVIEW_EVIDENCE")
    evidence_min_match: int = _of("REVIEW_EVIDENCE_MIN_MATCH")


class Condensation(Struct, frozen=True):
    explore_on_repeat: bool = _of("CONDENSE_EXPLORE_ON_REPEAT")
    review_feedback: bool = _of("CONDENSE_REVIEW_FEEDBACK")
    max_feedback_lines: int = _of("MAX_FEEDBACK_LINES")
    upstream_on_repeat: bool = _of("CONDENSE_UPSTREAM_ON_REPEAT")
    cross_phase: bool = _of("CONDENSE_CROSS_PHASE")
    max_cross_phase_lines: int = _of("MAX_CROSS_PHASE_LINES")


class HandoffRules(Struct, frozen=True):
    poll_seconds: float = _of("POLL_SECONDS")
    response_timeout: float = _of("RESPONSE_TIMEOUT")
    idle_grace: float = _of("IDLE_GRACE_SECONDS")
    strict: bool = _of("STRICT_FILE_HANDOFF")
    max_reminders: int = _of("MAX_FILE_REMINDERS")


class LoopRules(Struct, frozen=True):
    max_rounds: int = _of("MAX_ROUNDS")
    max_review_cycles: int = _of("MAX_REVIEW_CYCLES")
    review: ReviewRules = field(default_factory=ReviewRules)
    condensation: Condensation = field(default_factory=Condensation)
    review_bound: str = _of("REVIEW_BOUND")
    stall: str = _of("STALL")
    proof: str = _of("PROOF")
    readonly_roles: str = _of("READONLY_ROLES")


class RunConfig(Private, frozen=True):
    wd: Path
    state_file: Path
    """Where scripts find the run as it was saved, absolute (STATE_FILE)."""
    api: str = DEFAULT_API
    api_named_by: str = ""
    """Where the address stands; empty if none was given, and the server is to be looked for."""
    provider: str = BY_NAME["PROVIDER"].default
    providers: Mapping[str, str] = field(default_factory=dict)
    flow: str = _of("FLOW")
    gates: tuple[Gate, ...] = _of("GATES")
    in_worktree: bool = False
    worktree_setup: str = _of("WORKTREE_SETUP")
    held_back: tuple[str, ...] = _of("HELD_BACK")
    gate_timeout: float = _of("GATE_TIMEOUT")
    permissions: str = _of("AGENT_PERMISSIONS")
    """Empty: what the server says."""
    prompt: str = field(default="")
    prompt_file: Path | None = None
    project_test_cmd: str = _of("PROJECT_TEST_CMD")
    resume: bool | None = None
    missing: str = _of("MISSING")
    """Empty: wait for the reply."""
    cleanup_on_exit: bool = _of("CLEANUP_ON_EXIT")
    recording: bool = _of("RECORDING")
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
            in_worktree=read_value(texts, "WORKSPACE") == "worktree",
            prompt=texts.get("PROMPT", ""),
            prompt_file=expand_path("PROMPT_FILE", task).absolute() if task else None,
            resume=read_value(texts, "RESUME") if "RESUME" in texts else None,
            settings={name: canonical(name, texts.get(name, "")) or "" for name in KEPT_NAMES},
            **_decided(cls, texts),
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
        review, most_cycles = self.rules.review, self.rules.max_review_cycles
        lines = []
        if review.min_cycles > most_cycles:
            lines.append(
                f"MIN_REVIEW_CYCLES_BEFORE_APPROVAL ({review.min_cycles}) is above "
                f"MAX_REVIEW_CYCLES ({most_cycles}): no approval can count."
            )
        groups = review.evidence_min_match if evidence_groups is None else evidence_groups
        if review.require_evidence and review.evidence_min_match > groups:
            lines.append(
                f"REVIEW_EVIDENCE_MIN_MATCH ({review.evidence_min_match}) is above the number of "
                f"evidence groups ({groups}): no approval can count."
            )
        return tuple(lines)


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
