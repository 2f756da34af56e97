"""What is read on every captured screen; a new capture needs no code.

    screens/<provider>/<status>/<version>-<case>.txt     the visible text; the folder says what is
                                                         right, `idle+completed` that either is
    screens/<provider>/<status>/<version>-<case>.title   the pane's title at that moment, if known
    screens/<provider>/undecidable/<status>/…            the text alone cannot tell: it is judged
                                                         only together with its title
    screens/<provider>/drafts/<version>-<case>.ansi      with escape sequences, for tests of `draft`

A screen with a title is judged with and without it. Folders of agents that have no provider are
left alone.

A screen that shows nothing of an agent's interface is unknown, never idle.
"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.providers.base import Provider
from cli_agent_orchestrator.providers.questions import read_question
from tests.providers.samples import PROVIDERS, SCREENS

CAPTURES = sorted(file for name in PROVIDERS for file in (SCREENS / name).rglob("*.txt"))
COLORED = sorted(SCREENS.glob("*/drafts/*.ansi"))

TRUST = "trust this folder"
SIGN_IN = ("sign in", "")
API_KEY = ("use this API key", "")
RISK = ("accept the risk of skipping permissions", "")
DIALOGS = {
    # By agent and by file or case: the name of a start-up dialog, and the keys that pass it.
    "claude_code": {
        "trust_dialog": (TRUST, "Enter"),
        "2.1.325-trust_dialog": (f"{TRUST} (choosing yes)", "End"),
        "flags-bypass_untrusted": (f"{TRUST} (choosing yes)", "End"),
        "api_key_dialog": API_KEY,
        "flags-apikey_dialog": API_KEY,
        "bypass_dialog": RISK,
        "flags-bypass_sandbox_dialog": RISK,
        "theme_dialog": ("first set-up", ""),
        "not_logged_in": SIGN_IN,
        "not_logged_in_error": SIGN_IN,
        "settings_dialog": ("settings with errors", ""),
    },
    "codex": {
        "trust_dialog": (TRUST, "1"),
        "update_dialog": ("update notice", "2"),
        "login_dialog": ("sign in", ""),
        "rate-limit-nudge": ("approaching rate limits", "2"),
        "model_migration_dialog": ("new model", "2"),
        "hooks_dialog": ("review of hooks", ""),
    },
    "copilot_cli": {"trust_dialog": (TRUST, "1"), "signed_out": ("sign in", "")},
    "gemini_cli": {"trust_dialog": (TRUST, ""), "sign_in_dialog": SIGN_IN, "key_dialog": SIGN_IN},
    "aider": {
        "no_git_dialog": ("create a git repository", "nEnter"),
        "openrouter_dialog": ("sign in", ""),
    },
    "goose": {"telemetry_dialog": ("share usage data", "")},
    "kimi_cli": {"trust_dialog": (TRUST, "Enter")},
    "qwen_code": {"sign_in_dialog": SIGN_IN},
    "cline": {"sign_in_dialog": SIGN_IN},
    "scripted": {
        "startup_pass": ("may I work in this folder", "1"),
        "startup_person": ("sign-in", ""),
    },
}
FEW_ROWS = "line a\nline b"
ROWS = f"{FEW_ROWS}\n\nline d"
MANY_ROWS = (
    "line one of draft\n\nline three which is quite long "
    f"{' '.join(map(str, range(1, 33)))}\n{' '.join(map(str, range(33, 61)))}\nend"
)
THREE_ROWS = "first line\n\nthird line of a draft [[answer:hello there]]"
TYPED = {"typed_draft": "one short draft", "several_lines": ROWS, "two_lines": FEW_ROWS}
MENUS = {"at_menu": "@", "hash": "#"}
QUESTIONS = ("approval_exec", "permission", "permission_prompt", "question", "trust_dialog")
DRAFTS: dict[str, dict[str, str | None]] = {
    # By agent and by file or case; all other input boxes are empty, those of QUESTIONS not there.
    "claude_code": {
        "draft": "draft of\ntwo lines",
        "titled-draft": "draft of\ntwo lines",
        "1.0.100-draft": "Second prompt [SLOW 4]",
        "several_lines": "Immediately [TEXT]multi\nline\nprompt [SLOW 10]",
        "folded_paste": "[Pasted text #1 +899 lines]",
        "2.1.325-folded_paste": "[Pasted text #10 +49 lines]",
    },
    "codex": {
        "typed_draft": "draft of a prompt",
        "second_prompt_pasted": "[[hold:4]] second",
        "several_lines": MANY_ROWS,
        "folded_paste": "[Pasted Content 3000 chars]",
        "shell_empty": "!",
        "shell_typed": "!ls",
    },
    "copilot_cli": {
        **TYPED,
        "folded_paste": "[Paste #1 - 30 lines]",
        "shell_empty": "!Execute shell command",
        "shell_typed": "!ls",
        "interrupted": "Int [SLOW 20]",
    },
    "gemini_cli": {
        **TYPED,
        "folded_paste": "[Pasted Text: 30 lines]",
        "shell_empty": "!",
        "shell_typed": "!ls",
    },
    "aider": {
        "draft": "third line of a draft [[pause:3]][[slow:4]]"
        "[[answer:some words of an answer that is streamed over a while]]",
    },
    "goose": {"draft": THREE_ROWS},
    "kimi_cli": {
        "draft": THREE_ROWS,
        "folded_paste": "[paste #1 +201 lines]",
        "menu": "/",
        "shell": "!",
        "shell_typed": "!ls",
    },
    "qwen_code": {
        **TYPED,
        **MENUS,
        "folded_paste": "[Pasted Content 80 chars]",
        "slash_menu": "/",
        "shell_empty": "!",
        "shell_typed": "!ls",
        "sign_in_dialog": None,
        "interrupted": "stop me [[slow:30]][[lines:30]]",
        "interrupted_early": "stop me early [[pause:30]][[lines:30]]",
    },
    "cline": {
        **TYPED,
        **MENUS,
        "folded_paste": f"[{' '.join(map(str, range(1, 20)))}... Pasted +30 lines]",
        "slash_menu": "/",
        "shell_empty": "!",
        "help": "?",
    },
    "pi": {
        **TYPED,
        **MENUS,
        "folded_paste": "[paste #1 +30 lines]",
        "slash_menu": None,
        "shell_empty": "!",
        "help": "?",
    },
    "kilo": {**TYPED, **MENUS, "folded_paste": "[Pasted ~30 lines]", "shell_empty": None},
    "opencode": {
        **TYPED,
        "folded_paste": "[Pasted ~30 lines]",
        "shell_empty": 'Run a command… "git status"',
        "shell_typed": "ls",
    },
}


def capture_id(file: Path) -> str:
    return str(file.relative_to(SCREENS).with_suffix(""))


def case_of(file: Path) -> str:
    """Return the name of a capture without its version."""
    version, _, case = file.stem.partition("-")
    return case if version[0].isdecimal() else file.stem


@pytest.mark.parametrize("file", COLORED, ids=capture_id)
def test_a_draft_is_told_from_a_placeholder(file: Path) -> None:
    agent, case = file.relative_to(SCREENS).parts[0], case_of(file)
    drafts = DRAFTS[agent]
    expected = drafts.get(file.stem, drafts.get(case, None if case in QUESTIONS else ""))
    assert get_provider(agent).draft(file.read_text(encoding="utf-8")) == expected


@pytest.mark.parametrize("file", CAPTURES, ids=capture_id)
def test_a_screen_gives_the_status_and_the_dialog_of_the_start(file: Path) -> None:
    provider = get_provider(file.relative_to(SCREENS).parts[0])
    accepted = [TerminalStatus(word) for word in file.parent.name.split("+")]
    text = file.read_text(encoding="utf-8")
    status = provider.detect_status(text)
    if "undecidable" not in file.parts:
        assert status in accepted
    if (titled := file.with_suffix(".title")).exists():
        title = titled.read_text(encoding="utf-8").removesuffix("\n")
        assert provider.detect_status(text, title) in accepted
    raw = text.replace("\n", "\r\n")
    assert provider.detect_status(raw) is status, "the line ends of a raw terminal change nothing"
    dialogs = DIALOGS.get(provider.name, {})
    found = provider.startup_dialog(text)
    expected = dialogs.get(file.stem, dialogs.get(case_of(file)))
    assert (found and (found.name, "".join(found.keys))) == expected
    assert found is None or found.advice


MARKS = "›❯>•◦■●⏺⎿○◎◉·✢✳✶✻✽✦✕✗ℹ▸⬝┃╹▢▣▧▨▌│┆∙▒▖▘▝▗" + "".join(map(chr, range(0x2800, 0x2900)))
"""What the agents draw their interfaces with."""
NEW_MARKS = str.maketrans(dict.fromkeys("›❯>*!┃─", "»"))
"""Every sign that an input box is known by, drawn in another way."""

# Letter by letter: `st.text` would take the agents' own phrases from our modules.
letters = st.characters(exclude_categories=("Cc", "Cs"), exclude_characters=MARKS)
lines = st.lists(letters, max_size=30).map("".join)
near_misses = st.sampled_from(
    [
        *("Ready", "idle", "completed", "Done.", "Working…", "Thinking...", "error: no", "failed"),
        *("$ make test", "» Ask me", "λ ", "100% left", "? for shortcuts", "(esc)", "[y/n]"),
        *("─" * 40, "╭" + "─" * 40 + "╮", "╰" + "─" * 40 + "╯", "╔════╗", "1. Yes", "  2. No"),
    ]
)
screens = st.lists(lines | near_misses, max_size=40).map("\n".join)
host_names = st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True)
at_rest = st.sampled_from(["Ready", "◇  Ready (app)", "✳ Claude Code", "scripted"])
titles = st.none() | host_names | at_rest

captured_lines = st.sampled_from(
    sorted({line for file in CAPTURES for line in file.read_text(encoding="utf-8").split("\n")})
)
strange = st.sampled_from(
    [
        *("x" * 50_000, "漢字" * 9_000, "\u202e\u200d\ufeff" * 99, "\x1b[" * 999, "\x1b]0;"),
        *("(" * 5_000, "\n" * 2_000, "1s · " * 2_000, "• " * 2_000, " " * 9_000 + "x", "\ud800"),
    ]
)
mixed_screens = st.lists(captured_lines | strange | st.text(max_size=40), max_size=30).map(
    "\n".join
)

LIKE = {
    # One program under two names, a bare `>` for a prompt, or a `>` between two rules.
    "qwen_code": ("claude_code",),
    "kiro_cli": ("q_cli", "aider"),
    "q_cli": ("kiro_cli", "aider"),
    "opencode": ("kilo",),
    "kilo": ("opencode",),
}
every_provider = pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)


@given(screen=screens, title=titles)
def test_a_screen_without_any_mark_is_unknown(screen: str, title: str | None) -> None:
    for provider in PROVIDERS.values():
        assert provider.detect_status(screen, title) is TerminalStatus.UNKNOWN, provider.name
        assert provider.startup_dialog(screen) is None, provider.name


@every_provider
def test_the_screen_of_another_agent_is_never_at_rest(provider: Provider) -> None:
    kin = {provider.name, *LIKE.get(provider.name, ())}
    foreign = [file for file in CAPTURES if file.relative_to(SCREENS).parts[0] not in kin]
    statuses = {provider.detect_status(file.read_text(encoding="utf-8")) for file in foreign}
    assert TerminalStatus.UNKNOWN in statuses
    assert not any(status.at_rest for status in statuses)


@given(screen=mixed_screens, title=st.none() | st.text(max_size=40))
def test_no_screen_is_too_strange_to_be_read(screen: str, title: str | None) -> None:
    for provider in PROVIDERS.values():
        assert provider.detect_status(screen, title) in TerminalStatus
        provider.startup_dialog(screen)
        provider.draft(screen)
        provider.last_answer(screen)
        provider.read_signal(screen)
    read_question(screen)
