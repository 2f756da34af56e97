"""The table of a run's settings: names, defaults, help, and what may be done with each.

The table drives the reading (`config.py`), the options of `cao run`, the commented `cao.toml`
that `cao init` writes, and the documentation.
"""

from collections.abc import Iterable
from enum import Enum, auto

from msgspec import Struct

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
    *("qwen_code", "cline", "pi", "kilo", "aider", "goose", "kimi_cli"),
    "scripted",
)
"""The agents that a server of ours knows; `providers/` has the table itself."""


class ValueKind(Enum):
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


class Setting(Struct, frozen=True):
    name: str
    """The environment variable, without the prefix that it may have there."""
    kind: ValueKind
    default: str = ""
    minimum: int = 0
    choices: tuple[str, ...] = ()
    option: str = ""
    file_key: str = ""
    kept: bool = True
    """Does a resumed run go on with it? Task, flow, server and agents are saved by themselves."""
    changeable: bool = True
    """May it change while a run goes on? The others have been told to agents, or may do harm."""
    help: str = ""

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


TEXT, PATH, URL, FLAG, CHOICE, COUNT, SECONDS, GATES, PATHS = ValueKind
# fmt: off
SETTINGS = (
    Setting("PROMPT_FILE", PATH, kept=False,
            help="The task file; it wins over PROMPT given at the same place."),
    Setting("PROMPT", TEXT, kept=False, help="The task itself, as text."),
    Setting("WD", PATH, option="--wd", kept=False,
            help="The project's folder (the current folder if not given)."),
    Setting("PROVIDER", TEXT, "codex", option="--provider", kept=False,
            help=f"The agent for all roles that name no other: {', '.join(AGENTS)}, or your own."),
    Setting("ANALYST_PROVIDER", TEXT, option="--agent", kept=False,
            help="The agent of the analyst."),
    Setting("ANALYST_REVIEW_PROVIDER", TEXT, option="--agent", kept=False,
            help="The agent that reviews the analyst."),
    Setting("PROGRAMMER_PROVIDER", TEXT, option="--agent", kept=False,
            help="The agent of the programmer."),
    Setting("PROGRAMMER_REVIEW_PROVIDER", TEXT, option="--agent", kept=False,
            help="The agent that reviews the programmer."),
    Setting("TESTER_PROVIDER", TEXT, option="--agent", kept=False, help="The agent of the tester."),
    Setting("ROLE_PROVIDERS", TEXT, option="--agent", kept=False,
            help="The agents of further roles of a flow: NAME=AGENT, separated by commas."),
    Setting("FLOW", TEXT, "loop", option="--flow", kept=False,
            help="The flow: who works in which order; a name or a TOML file."),
    Setting("GATES", GATES, option="--gate", changeable=False,
            help="A command that cao runs itself and believes instead of an agent's word: "
                 "NAME=COMMAND, such as tests='make test'; without NAME= it is called tests. "
                 "Several may be given."),
    Setting("WORKSPACE", CHOICE, "folder", choices=("folder", "worktree"), option="--worktree",
            file_key="worktree", changeable=False,
            help="Where the agents work: in your folder, or in a work tree of their own, on a "
                 "branch that you apply when you like it (worktree = true in cao.toml)."),
    Setting("WORKTREE_SETUP", TEXT, file_key="setup", changeable=False,
            help="A command that prepares a new work tree, such as npm ci."),
    Setting("HELD_BACK", PATHS, option="--held-back", changeable=False,
            help="Files and folders of the project that agents do not have in their work tree: "
                 "gates do. Separated by commas; several may be given."),
    Setting("PROOF", CHOICE, "report", choices=("off", "report", "require"), option="--proof",
            help="Whether a PASS with gates is proven: new tests must fail on the base and pass "
                 "now. off, report, or require: without proof it is a FAIL."),
    Setting("READONLY_ROLES", CHOICE, "warn", choices=("warn", "restore", "off"),
            help="When a reviewer or the tester changes files: warn, restore them, or off."),
    Setting("REVIEW_BOUND", CHOICE, "show", choices=("show", "require"),
            help="When files change after the review that approved them: show it, or require: "
                 "only what was approved passes, all else needs another round."),
    Setting("STALL", CHOICE, "warn", choices=("warn", "stop"),
            help="When a run does not converge: warn, or stop it so that it can be resumed."),
    Setting("GATE_TIMEOUT", SECONDS, "1800", help="How long the command of a gate may take."),
    Setting("AGENT_PERMISSIONS", CHOICE, choices=PERMISSIONS, option="--permissions",
            changeable=False,
            help="What agents may do without asking: workspace (default), full or ask; a "
                 "project's own cao.toml may only say ask."),
    Setting("PROJECT_TEST_CMD", TEXT, changeable=False,
            help="The command that runs the project's own tests."),
    Setting("MAX_ROUNDS", COUNT, "8", minimum=1, option="--max-rounds",
            help="Rounds until a run without a PASS has failed."),
    Setting("MAX_REVIEW_CYCLES", COUNT, "3", minimum=1,
            help="Review cycles until a phase goes on unapproved."),
    Setting("MIN_REVIEW_CYCLES_BEFORE_APPROVAL", COUNT, "2",
            help="The first review cycle in which an approval counts."),
    Setting("REQUIRE_REVIEW_EVIDENCE", FLAG, "1",
            help="Count an approval only if its notes show what was looked at."),
    Setting("REVIEW_EVIDENCE_MIN_MATCH", COUNT, "3",
            help="How many of the reviewer's evidence groups the notes must touch."),
    Setting("RESUME", FLAG, option="--resume", kept=False,
            help="Resume the saved run, or start a new one; if neither is said, one that is not "
                 "finished is resumed."),
    Setting("MISSING", CHOICE, choices=("ask", "take", "skip"), option="--missing", kept=False,
            help="At resume, what is done about a reply that did not come: ask again, take the "
                 "agent's last answer, or skip a review."),
    Setting("STATE_FILE", PATH, kept=False,
            help=f"Where scripts find the run as it was saved (WD/{STATE_FILE} if not given)."),
    Setting("CLEANUP_ON_EXIT", FLAG, "0", option="--end-agents", changeable=False,
            help="End the agents when the run ends. If not given, those of a run that passed are "
                 "ended, unless you are attached to one."),
    Setting("RECORDING", FLAG, "1", option="--recording", changeable=False,
            help="Record the agents' screens, so that cao replay can show them."),
    Setting("API", URL, option="--api", kept=False,
            help="The server; if not given, one of yours that runs, or one inside the run."),
    Setting("POLL_SECONDS", SECONDS, "2", help="Maximum polling interval."),
    Setting("RESPONSE_TIMEOUT", SECONDS, "1800", help="How long an agent may work on one turn."),
    Setting("IDLE_GRACE_SECONDS", SECONDS, "30",
            help="How long an agent may rest without having written its response file."),
    Setting("STRICT_FILE_HANDOFF", FLAG, "1",
            help="Take replies from response files only; if off, the last output will do without "
                 "one."),
    Setting("MAX_FILE_REMINDERS", COUNT, "1",
            help="How often an agent is reminded to write its response file."),
    Setting("CONDENSE_EXPLORE_ON_REPEAT", FLAG, "1",
            help="Send the explore summary to each agent only once."),
    Setting("CONDENSE_REVIEW_FEEDBACK", FLAG, "1",
            help="Hand on notes and evidence, not whole replies."),
    Setting("MAX_FEEDBACK_LINES", COUNT, "30", minimum=1,
            help="Maximum lines of notes or evidence."),
    Setting("CONDENSE_UPSTREAM_ON_REPEAT", FLAG, "1",
            help="Send the summary of an earlier phase only once a round."),
    Setting("CONDENSE_CROSS_PHASE", FLAG, "1",
            help="Hand on only the parts of a summary that the next phase needs."),
    Setting("MAX_CROSS_PHASE_LINES", COUNT, "40", minimum=1,
            help="Maximum lines in those excerpts."),
)
# fmt: on
BY_NAME = {setting.name: setting for setting in SETTINGS}
BY_KEY = {setting.key: setting for setting in SETTINGS}

COMMANDS = ("GATES", "WORKTREE_SETUP")
"""What the orchestrator runs itself; out of a project's own file only if the user agrees."""

PROVIDER_SUFFIX = "_PROVIDER"
ROLE_SETTINGS = (*(name for name in BY_NAME if name.endswith(PROVIDER_SUFFIX)), "ROLE_PROVIDERS")
"""What names the agent of some role."""

KEPT_NAMES = tuple(one.name for one in SETTINGS if one.kept)
CHANGEABLE_NAMES = tuple(one.name for one in SETTINGS if one.kept and one.changeable)

OUT_OF_PROJECT = ("RESUME", "MISSING")
"""What a project's own file cannot say: it is about one run."""

IN_TASK = tuple(
    one.name
    for one in SETTINGS
    if one.name in ("FLOW", "PROVIDER", *ROLE_SETTINGS)
    or (one.kind in (FLAG, COUNT, SECONDS) and one.name not in OUT_OF_PROJECT)
)
"""What a task can say, which may have come from anybody: how it is worked on and by whom. No
command, server, path or permission."""


def meant_by(word: str, known: Iterable[str] = AGENTS) -> list[str]:
    known = list(known)
    plain = word.strip().lower().replace("-", "_")
    if plain in known:
        return [plain]
    return [name for name in known if plain and name.startswith(plain)]


def full_name(word: str, known: Iterable[str] = AGENTS) -> str:
    meant = meant_by(word, known)
    return meant.pop() if len(meant) == 1 else word
