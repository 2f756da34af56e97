"""The table of a run's settings: names, defaults, help, and how the levels become one.

The first level that says something wins: option, environment, the top of the task, file
(`cao.toml`), default. At each level an empty value says nothing. The table drives the reading
(`run_config.py`), the options of `cao run`, the commented `cao.toml` that `cao init` writes, and
the documentation.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum, auto
from pathlib import Path
from typing import Any

from cli_agent_orchestrator._internal.characters import BREAKS, CONTROLS
from cli_agent_orchestrator._internal.config import (
    PERMISSIONS,
    read_bool,
    read_choice,
    read_int,
    read_seconds,
)
from cli_agent_orchestrator._internal.gates import gates_text, read_gates, read_gates_table
from cli_agent_orchestrator._internal.layout import STATE_FILE, TEMPORARY_FOLDER
from cli_agent_orchestrator._internal.plain_files import Folder, read_named
from cli_agent_orchestrator._internal.toml_text import read_toml
from cli_agent_orchestrator.errors import ConfigError, UsageError

SETTINGS_FILE = "cao.toml"
WORKTREE_TABLE = "worktree"
PREFIX = "CAO_"
"""Before the name of a setting in the environment; `cao run` also reads the bare names."""
NEVER_BARE = ("WORKSPACE",)
"""Names that other programs give to something else: Jenkins to a folder."""
LARGEST_SETTINGS = 1024 * 1024
MOST_PATHS = 100
PLAIN_PATHS = "paths in the project, without .., .git, commas and control characters"

AGENTS = (
    *("codex", "claude_code", "kiro_cli", "q_cli", "gemini_cli", "copilot_cli", "opencode"),
    "scripted",
)
"""The agents that a server of ours knows; `providers/` has the table itself."""

CONTROL_PATTERN = f"[{CONTROLS}{BREAKS}]"
"""What has no place in a path: a log, a prompt or a screen would take it for more than a name."""


class Kind(Enum):
    """What a setting's value looks like."""

    TEXT = auto()
    PATH = auto()
    URL = auto()
    FLAG = auto()
    CHOICE = auto()
    COUNT = auto()
    SECONDS = auto()
    GATES = auto()
    """Commands with names; the option can be given several times."""
    PATHS = auto()
    """Paths in the project; the option can be given several times."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a run."""

    name: str
    """The environment variable, without the prefix that it may have there."""
    kind: Kind
    default: str
    """As text; empty if there is none, or if it depends on other settings."""
    help: str
    """One sentence for people."""
    minimum: int = 0
    """The least a COUNT may be."""
    choices: tuple[str, ...] = ()
    """What a CHOICE may be."""
    word: str = ""
    """The option's name if it is not the variable's."""

    @property
    def key(self) -> str:
        """Name the setting as `cao.toml` does."""
        return self.name.lower()

    @property
    def variable(self) -> str:
        """Name the setting as the environment does."""
        return f"{PREFIX}{self.name}"

    @property
    def option(self) -> str:
        """Name the setting as the command line does."""
        return "--" + (self.word or self.key.replace("_", "-"))


SETTINGS = (
    Setting(
        "PROMPT_FILE", Kind.PATH, "", "The task file; it wins over PROMPT given at the same place."
    ),
    Setting("PROMPT", Kind.TEXT, "", "The task itself, as text."),
    Setting("WD", Kind.PATH, "", "The project's folder (the current folder if not given)."),
    Setting(
        "PROVIDER",
        Kind.TEXT,
        "codex",
        f"The agent for all roles that name no other: {', '.join(AGENTS)}.",
    ),
    Setting("ANALYST_PROVIDER", Kind.TEXT, "", "The agent of the analyst."),
    Setting("ANALYST_REVIEW_PROVIDER", Kind.TEXT, "", "The agent that reviews the analyst."),
    Setting("PROGRAMMER_PROVIDER", Kind.TEXT, "", "The agent of the programmer."),
    Setting("PROGRAMMER_REVIEW_PROVIDER", Kind.TEXT, "", "The agent that reviews the programmer."),
    Setting("TESTER_PROVIDER", Kind.TEXT, "", "The agent of the tester."),
    Setting(
        "ROLE_PROVIDERS",
        Kind.TEXT,
        "",
        "The agents of further roles of a flow: NAME=AGENT, separated by commas.",
    ),
    Setting(
        "FLOW", Kind.TEXT, "loop", "The flow: who works in which order; a name or a TOML file."
    ),
    Setting(
        "GATES",
        Kind.GATES,
        "",
        "A command that cao runs itself and believes instead of an agent's word: NAME=COMMAND, "
        "such as tests='make test'. Several may be given.",
        word="gate",
    ),
    Setting(
        "WORKSPACE",
        Kind.CHOICE,
        "folder",
        "Where the agents work: in your folder, or in a worktree of their own, on a branch that "
        "you apply when you like it.",
        choices=("folder", "worktree"),
    ),
    Setting(
        "WORKTREE_SETUP",
        Kind.TEXT,
        "",
        "A command that prepares a new work tree, such as npm ci; setup below [worktree] in "
        "cao.toml.",
    ),
    Setting(
        "HELD_BACK",
        Kind.PATHS,
        "",
        "Files and folders of the project that agents do not have in their work tree: gates do. "
        "Separated by commas; several may be given.",
    ),
    Setting(
        "PROOF",
        Kind.CHOICE,
        "report",
        "Whether a PASS with gates is proven: new tests must fail on the base and pass now. off, "
        "report, or require: without proof it is a FAIL.",
        choices=("off", "report", "require"),
    ),
    Setting(
        "READONLY_ROLES",
        Kind.CHOICE,
        "warn",
        "When a reviewer or the tester changes files: warn, restore them, or off.",
        choices=("warn", "restore", "off"),
    ),
    Setting(
        "REVIEW_BOUND",
        Kind.CHOICE,
        "show",
        "When files change after the review that approved them: show it, or require another round.",
        choices=("show", "require"),
    ),
    Setting(
        "STALL",
        Kind.CHOICE,
        "warn",
        "When a run does not converge: warn, or stop it so that it can be resumed.",
        choices=("warn", "stop"),
    ),
    Setting("GATE_TIMEOUT", Kind.SECONDS, "1800", "How long such a command may take."),
    Setting(
        "AGENT_PERMISSIONS",
        Kind.CHOICE,
        "",
        "What agents may do without asking: workspace (default), full or ask; "
        "a project's own cao.toml may only say ask.",
        choices=PERMISSIONS,
        word="permissions",
    ),
    Setting("PROJECT_TEST_CMD", Kind.TEXT, "", "The command that runs the project's own tests."),
    Setting("MAX_ROUNDS", Kind.COUNT, "8", "Rounds until a run without a PASS has failed.", 1),
    Setting(
        "MAX_REVIEW_CYCLES", Kind.COUNT, "3", "Review cycles until a phase goes on unapproved.", 1
    ),
    Setting(
        "MIN_REVIEW_CYCLES_BEFORE_APPROVAL",
        Kind.COUNT,
        "2",
        "The first review cycle in which an approval counts.",
    ),
    Setting(
        "REQUIRE_REVIEW_EVIDENCE",
        Kind.FLAG,
        "1",
        "Count an approval only if its notes show what was looked at.",
    ),
    Setting(
        "REVIEW_EVIDENCE_MIN_MATCH",
        Kind.COUNT,
        "3",
        "How many of the reviewer's evidence groups the notes must touch.",
    ),
    Setting(
        "RESUME",
        Kind.FLAG,
        "",
        "Resume the saved run, or start a new one; if neither is said, one that is not finished "
        "is resumed.",
    ),
    Setting(
        "MISSING",
        Kind.CHOICE,
        "",
        "At resume, what is done about a reply that did not come: ask again, take the agent's last "
        "answer, or skip a review.",
        choices=("ask", "take", "skip"),
    ),
    Setting(
        "STATE_FILE",
        Kind.PATH,
        "",
        f"Where the run is saved (WD/{STATE_FILE} if not given).",
    ),
    Setting("CLEANUP_ON_EXIT", Kind.FLAG, "0", "End the agents when the run ends."),
    Setting(
        "API",
        Kind.URL,
        "",
        "The server; if not given, one of yours that runs, or one inside the run.",
    ),
    Setting("POLL_SECONDS", Kind.SECONDS, "2", "Maximum polling interval."),
    Setting("RESPONSE_TIMEOUT", Kind.SECONDS, "1800", "How long an agent may work on one turn."),
    Setting(
        "IDLE_GRACE_SECONDS",
        Kind.SECONDS,
        "30",
        "How long an agent may rest without having written its response file.",
    ),
    Setting(
        "STRICT_FILE_HANDOFF",
        Kind.FLAG,
        "1",
        "Take replies from response files only; if off, the last output will do without one.",
    ),
    Setting(
        "MAX_FILE_REMINDERS",
        Kind.COUNT,
        "1",
        "How often an agent is reminded to write its response file.",
    ),
    Setting(
        "CONDENSE_EXPLORE_ON_REPEAT",
        Kind.FLAG,
        "1",
        "Send the explore summary to each agent only once.",
    ),
    Setting(
        "CONDENSE_REVIEW_FEEDBACK", Kind.FLAG, "1", "Hand on notes and evidence, not whole replies."
    ),
    Setting("MAX_FEEDBACK_LINES", Kind.COUNT, "30", "Maximum lines of notes or evidence.", 1),
    Setting(
        "CONDENSE_UPSTREAM_ON_REPEAT",
        Kind.FLAG,
        "1",
        "Send the summary of an earlier phase only once a round.",
    ),
    Setting(
        "CONDENSE_CROSS_PHASE",
        Kind.FLAG,
        "1",
        "Hand on only the parts of a summary that the next phase needs.",
    ),
    Setting("MAX_CROSS_PHASE_LINES", Kind.COUNT, "40", "Maximum lines in those excerpts.", 1),
)
BY_NAME = {setting.name: setting for setting in SETTINGS}
BY_KEY = {setting.key: setting for setting in SETTINGS}

COMMANDS = ("GATES", "WORKTREE_SETUP")
"""What the orchestrator runs itself; out of a project's own file only if the user agrees."""

PROVIDER_SUFFIX = "_PROVIDER"
ROLE_SETTINGS = (*(name for name in BY_NAME if name.endswith(PROVIDER_SUFFIX)), "ROLE_PROVIDERS")
"""What names the agent of some role."""

NOT_KEPT = (
    "PROMPT_FILE",
    "PROMPT",
    "WD",
    "RESUME",
    "MISSING",
    "STATE_FILE",
    "API",
    "PROVIDER",
    "FLOW",
)
KEPT_NAMES = tuple(name for name in BY_NAME if name not in (*NOT_KEPT, *ROLE_SETTINGS))
"""What a run goes on with when it is resumed; task, flow, server and agents are kept too."""

UNCHANGEABLE = (
    *("GATES", "WORKSPACE", "WORKTREE_SETUP", "AGENT_PERMISSIONS", "PROJECT_TEST_CMD"),
    *("CLEANUP_ON_EXIT", "HELD_BACK"),
)
CHANGEABLE_NAMES = tuple(name for name in KEPT_NAMES if name not in UNCHANGEABLE)
"""What may change while a run goes on; the others have been told to agents, or may do harm."""

LARGEST_NUMBER_BITS = 64
"""More is no number of anything here."""

OUT_OF_PROJECT = ("RESUME", "MISSING")
"""What a project's own file cannot say: it is about one run."""

IN_TASK = tuple(
    setting.name
    for setting in SETTINGS
    if setting.name in ("FLOW", "PROVIDER", *ROLE_SETTINGS)
    or (
        setting.kind in (Kind.FLAG, Kind.COUNT, Kind.SECONDS) and setting.name not in OUT_OF_PROJECT
    )
)
"""What a task can say, which may have come from anybody: how it is worked on and by whom. No
command, server, path or permission."""

FLOW_NAME_PATTERN = r"[a-z][a-z0-9_]*"
"""A flow by its name; the path of a file is for the user alone to give."""

FROM_FILE_FOLDER = ("PROMPT_FILE", "WD")

OVERRULED = {
    # a name that is set at one level silences these at the levels below it
    "PROMPT": ("PROMPT_FILE",),
    "PROMPT_FILE": ("PROMPT",),
    "PROVIDER": ROLE_SETTINGS,
}


def merge_settings(*levels: Mapping[str, str | None]) -> dict[str, str]:
    """Return the settings that are given, by variable name; an earlier level wins over a later one.

    `--provider scripted` is meant for all roles, so it also silences an `analyst_provider` of the
    file; likewise a task given as text silences a task file of a lower level.
    """
    merged: dict[str, str] = {}
    silenced: set[str] = set()
    for level in levels:
        here = {name: text for name, text in given(level).items() if name not in silenced}
        for name in here:
            silenced.update((name, *OVERRULED.get(name, ())))
        merged.update(here)
    return merged


def find_sources(**levels: Mapping[str, str | None]) -> dict[str, str]:
    """Return by its word the level that each setting comes from which `merge_settings` returns."""
    sources: dict[str, str] = {}
    above: list[Mapping[str, str | None]] = []
    for word, level in levels.items():
        above.append(level)
        for name in merge_settings(*above):
            sources.setdefault(name, word)
    return sources


def read_environment(environ: Mapping[str, str], *, bare: bool) -> dict[str, str]:
    """Return the settings that the environment names, by their bare names.

    `CAO_MAX_ROUNDS` wins over `MAX_ROUNDS`, which is read only if `bare` names are.
    """
    prefixed = {name: environ.get(f"{PREFIX}{name}") for name in BY_NAME}
    others = {name: text for name, text in environ.items() if name not in NEVER_BARE}
    return merge_settings(prefixed, others if bare else {})


def name_as_given(
    name: str,
    options: Mapping[str, str | None],
    environ: Mapping[str, str],
    file: str,
    called: str = "",
) -> str:
    """Name a setting as whoever gave it did: `--max-rounds`, `CAO_MAX_ROUNDS`, or in a file.

    `called` is the function whose arguments the options are, if they are.
    """
    if (options.get(name) or "").strip():
        return f"{BY_NAME[name].key} in {called}" if called else BY_NAME[name].option
    bare = [] if name in NEVER_BARE else [name]
    for variable in [f"{PREFIX}{name}", *bare]:
        if environ.get(variable, "").strip():
            return variable
    return f"{BY_NAME[name].key} in {file}"


def given(level: Mapping[str, str | None]) -> dict[str, str]:
    """Return what one level says: the known names that are not empty, their paths checked."""
    texts = {name: text for name in BY_NAME if (text := level.get(name)) and text.strip()}
    for name, text in texts.items():
        if BY_NAME[name].kind is Kind.PATH:
            check_path(name, text)
    return texts


def read_role_providers(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the agent of each role for which one is named.

    `{"TESTER_PROVIDER": "codex", "ROLE_PROVIDERS": "designer=kiro_cli"}` becomes
    `{"designer": "kiro_cli", "tester": "codex"}`.
    """
    found: dict[str, str] = {}
    text = texts.get("ROLE_PROVIDERS", "")
    for item in filter(str.strip, text.split(",")):
        role, equals, agent = (part.strip() for part in item.partition("="))
        if not equals or not role or not is_word(agent):
            raise ConfigError("ROLE_PROVIDERS", text, "NAME=AGENT, separated by commas")
        found[role] = agent
    for name in ROLE_SETTINGS:
        if name.endswith(PROVIDER_SUFFIX) and texts.get(name, "").strip():
            found[name.removesuffix(PROVIDER_SUFFIX).lower()] = read_word(texts, name)
    return found


def read_word(texts: Mapping[str, str], name: str) -> str:
    """Return the name of an agent, empty if none is given."""
    word = texts.get(name, "").strip()
    if word and not is_word(word):
        raise ConfigError(name, texts[name], "the name of an agent, such as codex or claude_code")
    return word


def is_word(text: str) -> bool:
    """Could it be the name of an agent?"""
    return text.replace("_", "").replace("-", "").isalnum()


def read_paths(name: str, text: str) -> tuple[str, ...]:
    """Return the paths that a text names, separated by commas or line breaks.

    `"tests/acceptance/, ./scenario.md"` becomes `("tests/acceptance", "scenario.md")`.
    """
    found = []
    for path in filter(None, map(str.strip, re.split("[,\n]", text))):
        parts = [part for part in path.split("/") if part not in ("", ".")]
        own = parts[:1] not in ([], [TEMPORARY_FOLDER])
        plain = path.isprintable() and {"..", ".git"}.isdisjoint(map(str.lower, parts))
        if path.startswith("/") or not own or not plain:
            raise ConfigError(name, path, PLAIN_PATHS)
        found.append("/".join(parts))
    if len(found) > MOST_PATHS:
        raise ConfigError(name, f"{len(found)} paths", f"at most {MOST_PATHS}")
    return tuple(dict.fromkeys(found))


def check_path(name: str, text: str) -> None:
    """Refuse a path that would be more than a path wherever it is written."""
    if re.search(CONTROL_PATTERN, text):
        raise ConfigError(name, text, "a path without control characters")


def expand_path(name: str, text: str) -> Path:
    """Return a path in which `~` and `~user` are replaced."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ConfigError(name, text, f"a path ({error})") from None


def read_project_settings(project: Path) -> dict[str, str]:
    """Return the settings of a project's own file, by variable name; none if there is no file."""
    path = project / SETTINGS_FILE
    try:
        data = Folder(project).read(SETTINGS_FILE, LARGEST_SETTINGS)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    return _parse(data, path)


def read_settings_file(path: Path) -> dict[str, str]:
    """Return the settings of a TOML file that the user has named, by variable name."""
    try:
        data = read_named(path, LARGEST_SETTINGS)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    return _parse(data, path)


def _parse(data: bytes, path: Path) -> dict[str, str]:
    try:
        table = read_toml(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not a TOML file in UTF-8: {error}") from error
    return flatten_settings(table, path)


def flatten_settings(table: Mapping[str, Any], path: Path) -> dict[str, str]:
    """Turn the parsed table of a settings file into text by variable name.

    `{"max_rounds": 4, "prompt_file": "task.md"}` of `/p/cao.toml` becomes
    `{"MAX_ROUNDS": "4", "PROMPT_FILE": "/p/task.md"}`: the path is meant from the file's folder.
    """
    return dict(_flatten(key, value, path) for key, value in _without_tables(table, path))


def _without_tables(table: Mapping[str, Any], path: Path) -> Iterator[tuple[str, Any]]:
    """Yield keys and values, those of `[worktree]` under their long names."""
    for key, value in table.items():
        if key != WORKTREE_TABLE or not isinstance(value, dict):
            yield key, value
            continue
        for inner, text in value.items():
            long_key = f"{WORKTREE_TABLE}_{inner}"
            if long_key not in BY_KEY:
                raise ConfigError(f"{inner} of {key} in {path.name}", _shown(text), "setup alone")
            if long_key in table:
                raise ConfigError(f"{long_key} in {path.name}", _shown(text), "only one of the two")
            yield long_key, text


def _flatten(key: str, value: object, path: Path) -> tuple[str, str]:
    setting = BY_KEY.get(key)
    where = f"{key} in {path.name}"
    if setting is None:
        raise ConfigError(where, _shown(value), "a known setting" + _suggestion(key))
    if setting.kind is Kind.PATH and isinstance(value, str):
        check_path(where, value)
    match value:
        case bool():
            return setting.name, "true" if value else "false"
        case int() if value.bit_length() > LARGEST_NUMBER_BITS:
            raise ConfigError(where, _shown(value), "a smaller number")
        case int() | float():
            return setting.name, str(value)
        case dict() if setting.kind is Kind.GATES:
            return setting.name, read_gates_table(value, f" in {path.name}")
        case list() if setting.kind is Kind.PATHS:
            return setting.name, _paths_text(value, where)
        case str() if setting.name in FROM_FILE_FOLDER and value.strip() and value[0] != "~":
            return setting.name, str(path.parent / value)
        case str():
            return setting.name, value
        case _:
            raise ConfigError(where, _shown(value), "text, a number, true or false")


def _paths_text(items: list[object], where: str) -> str:
    for item in items:
        if not isinstance(item, str) or len(read_paths(where, item)) != 1:
            raise ConfigError(where, _shown(item), PLAIN_PATHS)
    return "\n".join(map(str, items))


def _shown(value: object) -> object:
    """Return what can be told of a value; Python does not print all that a file can hold."""
    match value:
        case int() if value.bit_length() > LARGEST_NUMBER_BITS:
            return f"a number of {value.bit_length()} bits"
        case list():
            return "a list"
        case dict():
            return "a table"
    return value


def _suggestion(key: str) -> str:
    if key == "providers":
        return "; how an agent is started stands in your own configuration, never in a project"
    close = get_close_matches(key.lower().replace("-", "_"), BY_KEY)
    return f"; did you mean {' or '.join(close)}?" if close else f": {', '.join(BY_KEY)}"


def canonical(name: str, text: str) -> str | None:
    """Return a setting's value in the one form in which values are compared, None if it is none.

    `yes` and `on` become `1`, `08` becomes `8`, `2.50` becomes `2.5`.
    """
    setting = BY_NAME[name]
    values = {name: text.strip()}
    try:
        match setting.kind:
            case Kind.FLAG:
                return str(int(read_bool(values, name, setting.default == "1")))
            case Kind.CHOICE:
                return read_choice(values, name, setting.default, ("", *setting.choices))
            case Kind.COUNT:
                return str(read_int(values, name, int(setting.default), setting.minimum))
            case Kind.SECONDS:
                return f"{read_seconds(values, name, float(setting.default)):.15g}"
            case Kind.GATES:
                return gates_text(read_gates(text))
            case Kind.PATHS:
                return "\n".join(read_paths(name, text))
    except ConfigError:
        return None
    return values[name]


def read_change(key: str, text: str) -> tuple[str, str]:
    """Return the variable and the value of a setting that is to change in a run under way.

    `("max-rounds", "012")` becomes `("MAX_ROUNDS", "12")`.
    """
    name = key.strip().upper().replace("-", "_").removeprefix("CAO_")
    if name not in CHANGEABLE_NAMES:
        known = ", ".join(one.lower() for one in CHANGEABLE_NAMES)
        raise UsageError(f"{key.strip()!r} cannot be changed in a run; these can: {known}")
    value = canonical(name, text)
    if value is None or not text.strip():
        raise ConfigError(name.lower(), text, _expected(BY_NAME[name]))
    return name, value


def _expected(setting: Setting) -> str:
    match setting.kind:
        case Kind.FLAG:
            return "1 or 0"
        case Kind.COUNT:
            return f"a whole number of at least {setting.minimum}"
        case Kind.CHOICE:
            return f"one of {', '.join(setting.choices)}"
    return "a number of seconds"


def commented_toml(chosen: Mapping[str, tuple[str, str]] | None = None) -> str:
    """Return a `cao.toml` in which every setting is explained.

    Set are only those that are `chosen`: text and reason by variable name.
    """
    parts = ["# Settings of `cao run`. An option or an environment variable wins over this file.\n"]
    # A table takes all keys that follow it.
    for setting in sorted(SETTINGS, key=lambda one: one.kind is Kind.GATES):
        if setting.name in OUT_OF_PROJECT:
            continue
        if setting.kind is Kind.GATES:
            parts.append(_gates_toml(setting, chosen))
            continue
        line = f"# {setting.key} = {_toml_value(setting)}\n"
        if chosen and setting.name in chosen:
            text, reason = chosen[setting.name]
            line = f"# Proposed: {_plain(reason)}\n{setting.key} = {_quoted(text)}\n"
        parts.append(f"# {setting.help}\n{line}")
    return "\n".join(parts)


def _gates_toml(setting: Setting, chosen: Mapping[str, tuple[str, str]] | None) -> str:
    if not chosen or setting.name not in chosen:
        return f'# {setting.help}\n# [{setting.key}]\n# tests = "make test"\n'
    text, reason = chosen[setting.name]
    rows = [f"{gate.name} = {_quoted(gate.run)}" for gate in read_gates(text)]
    lines = [f"# {setting.help}", f"# Proposed: {_plain(reason)}", f"[{setting.key}]", *rows]
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    """Return a text as TOML has it; JSON writes the same, but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _plain(text: str) -> str:
    """Return a text that stays within a comment."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _toml_value(setting: Setting) -> str:
    match setting.kind:
        case Kind.COUNT | Kind.SECONDS:
            return setting.default
        case Kind.FLAG:
            return "false" if setting.default in ("", "0") else "true"
        case Kind.PATHS:
            return "[]"
        case _:
            return f'"{setting.default}"'
