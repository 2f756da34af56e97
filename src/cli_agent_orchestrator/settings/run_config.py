"""The settings of a run, read and checked.

Each comes as text under its variable's name, from the environment or from what `merge_settings`
made of options, environment, task and file.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ..errors import ConfigError
from .config import (
    DEFAULT_API,
    Condensation,
    HandoffRules,
    Limits,
    LoopRules,
    ReviewRules,
    read_bool,
    read_choice,
    read_int,
    read_seconds,
)
from .gates import Gate, read_gates
from .layout import STATE_FILE
from .table import BY_NAME, KEPT_NAMES
from .values import (
    canonical,
    check_path,
    expand_path,
    given,
    read_paths,
    read_role_providers,
    read_word,
)


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
        """Return the agent of a role."""
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
