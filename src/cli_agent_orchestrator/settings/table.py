"""The table of a run's settings: names, defaults, help, and what may be done with each.

The table drives the reading (`config.py`), the options of `cao run`, the commented `cao.toml`
that `cao init` writes, and the documentation.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from .layout import STATE_FILE

PERMISSIONS = ("workspace", "full", "ask")
"""What agents may do without asking; the first is the default."""
SETTINGS_FILE = "cao.toml"
PREFIX = "CAO_"
"""Before the name of a setting in the environment; `cao run` also reads the bare names."""
NEVER_BARE = ("WORKSPACE",)
"""Names that other programs give to something else: Jenkins to a folder."""
AGENTS = (
    *("codex", "claude_code", "kiro_cli", "q_cli", "gemini_cli", "copilot_cli", "opencode"),
    "scripted",
)
"""The agents that a server of ours knows; `providers/` has the table itself."""


class ValueKind(Enum):
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
    kind: ValueKind
    default: str
    """As text; empty if there is none, or if it depends on other settings."""
    help: str
    """One sentence for people."""
    minimum: int = 0
    """The least a COUNT may be."""
    choices: tuple[str, ...] = ()
    """What a CHOICE may be."""
    option: str = ""
    """The option of `cao run` that sets it; empty if there is none."""
    file_key: str = ""
    """Its name in `cao.toml` if it is not the variable's."""

    @property
    def key(self) -> str:
        return self.file_key or self.name.lower()

    @property
    def variable(self) -> str:
        return f"{PREFIX}{self.name}"

    @property
    def ways(self) -> str:
        """Name what sets it for one run: `--max-rounds or CAO_MAX_ROUNDS`."""
        return f"{self.option} or {self.variable}" if self.option else self.variable


SETTINGS = (
    Setting(
        "PROMPT_FILE",
        ValueKind.PATH,
        "",
        "The task file; it wins over PROMPT given at the same place.",
    ),
    Setting("PROMPT", ValueKind.TEXT, "", "The task itself, as text."),
    Setting(
        "WD",
        ValueKind.PATH,
        "",
        "The project's folder (the current folder if not given).",
        option="--wd",
    ),
    Setting(
        "PROVIDER",
        ValueKind.TEXT,
        "codex",
        f"The agent for all roles that name no other: {', '.join(AGENTS)}.",
        option="--provider",
    ),
    Setting("ANALYST_PROVIDER", ValueKind.TEXT, "", "The agent of the analyst.", option="--agent"),
    Setting(
        "ANALYST_REVIEW_PROVIDER",
        ValueKind.TEXT,
        "",
        "The agent that reviews the analyst.",
        option="--agent",
    ),
    Setting(
        "PROGRAMMER_PROVIDER", ValueKind.TEXT, "", "The agent of the programmer.", option="--agent"
    ),
    Setting(
        "PROGRAMMER_REVIEW_PROVIDER",
        ValueKind.TEXT,
        "",
        "The agent that reviews the programmer.",
        option="--agent",
    ),
    Setting("TESTER_PROVIDER", ValueKind.TEXT, "", "The agent of the tester.", option="--agent"),
    Setting(
        "ROLE_PROVIDERS",
        ValueKind.TEXT,
        "",
        "The agents of further roles of a flow: NAME=AGENT, separated by commas.",
        option="--agent",
    ),
    Setting(
        "FLOW",
        ValueKind.TEXT,
        "loop",
        "The flow: who works in which order; a name or a TOML file.",
        option="--flow",
    ),
    Setting(
        "GATES",
        ValueKind.GATES,
        "",
        "A command that cao runs itself and believes instead of an agent's word: NAME=COMMAND, "
        "such as tests='make test'; without NAME= it is called tests. Several may be given.",
        option="--gate",
    ),
    Setting(
        "WORKSPACE",
        ValueKind.CHOICE,
        "folder",
        "Where the agents work: in your folder, or in a work tree of their own, on a branch that "
        "you apply when you like it (worktree = true in cao.toml).",
        choices=("folder", "worktree"),
        option="--worktree",
        file_key="worktree",
    ),
    Setting(
        "WORKTREE_SETUP",
        ValueKind.TEXT,
        "",
        "A command that prepares a new work tree, such as npm ci.",
        file_key="setup",
    ),
    Setting(
        "HELD_BACK",
        ValueKind.PATHS,
        "",
        "Files and folders of the project that agents do not have in their work tree: gates do. "
        "Separated by commas; several may be given.",
        option="--held-back",
    ),
    Setting(
        "PROOF",
        ValueKind.CHOICE,
        "report",
        "Whether a PASS with gates is proven: new tests must fail on the base and pass now. off, "
        "report, or require: without proof it is a FAIL.",
        choices=("off", "report", "require"),
        option="--proof",
    ),
    Setting(
        "READONLY_ROLES",
        ValueKind.CHOICE,
        "warn",
        "When a reviewer or the tester changes files: warn, restore them, or off.",
        choices=("warn", "restore", "off"),
    ),
    Setting(
        "REVIEW_BOUND",
        ValueKind.CHOICE,
        "show",
        "When files change after the review that approved them: show it, or require: only what was "
        "approved passes, all else needs another round.",
        choices=("show", "require"),
    ),
    Setting(
        "STALL",
        ValueKind.CHOICE,
        "warn",
        "When a run does not converge: warn, or stop it so that it can be resumed.",
        choices=("warn", "stop"),
    ),
    Setting("GATE_TIMEOUT", ValueKind.SECONDS, "1800", "How long the command of a gate may take."),
    Setting(
        "AGENT_PERMISSIONS",
        ValueKind.CHOICE,
        "",
        "What agents may do without asking: workspace (default), full or ask; "
        "a project's own cao.toml may only say ask.",
        choices=PERMISSIONS,
        option="--permissions",
    ),
    Setting(
        "PROJECT_TEST_CMD", ValueKind.TEXT, "", "The command that runs the project's own tests."
    ),
    Setting(
        "MAX_ROUNDS",
        ValueKind.COUNT,
        "8",
        "Rounds until a run without a PASS has failed.",
        1,
        option="--max-rounds",
    ),
    Setting(
        "MAX_REVIEW_CYCLES",
        ValueKind.COUNT,
        "3",
        "Review cycles until a phase goes on unapproved.",
        1,
    ),
    Setting(
        "MIN_REVIEW_CYCLES_BEFORE_APPROVAL",
        ValueKind.COUNT,
        "2",
        "The first review cycle in which an approval counts.",
    ),
    Setting(
        "REQUIRE_REVIEW_EVIDENCE",
        ValueKind.FLAG,
        "1",
        "Count an approval only if its notes show what was looked at.",
    ),
    Setting(
        "REVIEW_EVIDENCE_MIN_MATCH",
        ValueKind.COUNT,
        "3",
        "How many of the reviewer's evidence groups the notes must touch.",
    ),
    Setting(
        "RESUME",
        ValueKind.FLAG,
        "",
        "Resume the saved run, or start a new one; if neither is said, one that is not finished "
        "is resumed.",
        option="--resume",
    ),
    Setting(
        "MISSING",
        ValueKind.CHOICE,
        "",
        "At resume, what is done about a reply that did not come: ask again, take the agent's last "
        "answer, or skip a review.",
        choices=("ask", "take", "skip"),
        option="--missing",
    ),
    Setting(
        "STATE_FILE",
        ValueKind.PATH,
        "",
        f"Where scripts find the run as it was saved (WD/{STATE_FILE} if not given).",
    ),
    Setting(
        "CLEANUP_ON_EXIT",
        ValueKind.FLAG,
        "0",
        "End the agents when the run ends. If not given, those of a run that passed are ended, "
        "unless you are attached to one.",
        option="--end-agents",
    ),
    Setting(
        "RECORDING",
        ValueKind.FLAG,
        "1",
        "Record the agents' screens, so that cao replay can show them.",
        option="--recording",
    ),
    Setting(
        "API",
        ValueKind.URL,
        "",
        "The server; if not given, one of yours that runs, or one inside the run.",
        option="--api",
    ),
    Setting("POLL_SECONDS", ValueKind.SECONDS, "2", "Maximum polling interval."),
    Setting(
        "RESPONSE_TIMEOUT", ValueKind.SECONDS, "1800", "How long an agent may work on one turn."
    ),
    Setting(
        "IDLE_GRACE_SECONDS",
        ValueKind.SECONDS,
        "30",
        "How long an agent may rest without having written its response file.",
    ),
    Setting(
        "STRICT_FILE_HANDOFF",
        ValueKind.FLAG,
        "1",
        "Take replies from response files only; if off, the last output will do without one.",
    ),
    Setting(
        "MAX_FILE_REMINDERS",
        ValueKind.COUNT,
        "1",
        "How often an agent is reminded to write its response file.",
    ),
    Setting(
        "CONDENSE_EXPLORE_ON_REPEAT",
        ValueKind.FLAG,
        "1",
        "Send the explore summary to each agent only once.",
    ),
    Setting(
        "CONDENSE_REVIEW_FEEDBACK",
        ValueKind.FLAG,
        "1",
        "Hand on notes and evidence, not whole replies.",
    ),
    Setting("MAX_FEEDBACK_LINES", ValueKind.COUNT, "30", "Maximum lines of notes or evidence.", 1),
    Setting(
        "CONDENSE_UPSTREAM_ON_REPEAT",
        ValueKind.FLAG,
        "1",
        "Send the summary of an earlier phase only once a round.",
    ),
    Setting(
        "CONDENSE_CROSS_PHASE",
        ValueKind.FLAG,
        "1",
        "Hand on only the parts of a summary that the next phase needs.",
    ),
    Setting("MAX_CROSS_PHASE_LINES", ValueKind.COUNT, "40", "Maximum lines in those excerpts.", 1),
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
    *("CLEANUP_ON_EXIT", "RECORDING", "HELD_BACK"),
)
CHANGEABLE_NAMES = tuple(name for name in KEPT_NAMES if name not in UNCHANGEABLE)
"""What may change while a run goes on; the others have been told to agents, or may do harm."""

OUT_OF_PROJECT = ("RESUME", "MISSING")
"""What a project's own file cannot say: it is about one run."""

IN_TASK = tuple(
    setting.name
    for setting in SETTINGS
    if setting.name in ("FLOW", "PROVIDER", *ROLE_SETTINGS)
    or (
        setting.kind in (ValueKind.FLAG, ValueKind.COUNT, ValueKind.SECONDS)
        and setting.name not in OUT_OF_PROJECT
    )
)
"""What a task can say, which may have come from anybody: how it is worked on and by whom. No
command, server, path or permission."""


def meant_by(word: str, known: Iterable[str] = AGENTS) -> list[str]:
    """Return the agents that a word could mean.

    >>> meant_by("Claude-Code"), meant_by("co"), meant_by("x")
    (['claude_code'], ['codex', 'copilot_cli'], [])
    """
    known = list(known)
    plain = word.strip().lower().replace("-", "_")
    if plain in known:
        return [plain]
    return [name for name in known if plain and name.startswith(plain)]


def full_name(word: str, known: Iterable[str] = AGENTS) -> str:
    """Return the name of the one agent that a word means, else the word as it is."""
    meant = meant_by(word, known)
    return meant.pop() if len(meant) == 1 else word
