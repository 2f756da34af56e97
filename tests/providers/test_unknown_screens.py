"""A screen that shows nothing of an agent's interface is unknown, never idle."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.providers import PROVIDERS
from cli_agent_orchestrator.providers.base import Provider
from tests.providers.samples import SCREENS
from tests.providers.test_screens import CAPTURES

MARKS = "›❯>•◦■●⏺⎿○◎◉·✢✳✶✻✽✦✕✗ℹ▸⬝┃╹▢▣▧▨▌│┆∙▒▖▘▝▗" + "".join(map(chr, range(0x2800, 0x2900)))
"""What the agents draw their interfaces with."""
NEW_MARKS = str.maketrans(dict.fromkeys("›❯>*!┃", "»"))
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
mixed_screens = st.lists(captured_lines | st.text(max_size=40), max_size=30).map("\n".join)

every_provider = pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)


@given(screen=screens, title=titles)
def test_a_screen_without_any_mark_is_unknown(screen: str, title: str | None) -> None:
    for provider in PROVIDERS.values():
        assert provider.detect_status(screen, title) is TerminalStatus.UNKNOWN, provider.name
        assert provider.startup_dialog(screen) is None, provider.name


@every_provider
def test_the_screen_of_another_agent_is_never_at_rest(provider: Provider) -> None:
    foreign = [file for file in CAPTURES if file.relative_to(SCREENS).parts[0] != provider.name]
    statuses = {provider.detect_status(file.read_text(encoding="utf-8")) for file in foreign}
    assert TerminalStatus.UNKNOWN in statuses
    assert not any(status.at_rest for status in statuses)


@every_provider
def test_an_agent_that_draws_its_input_box_anew_is_never_at_rest(provider: Provider) -> None:
    for file in CAPTURES:
        if file.relative_to(SCREENS).parts[0] == provider.name:
            text = file.read_text(encoding="utf-8").translate(NEW_MARKS)
            assert not provider.detect_status(text).at_rest, file


@given(screen=mixed_screens, title=st.none() | st.text(max_size=40))
def test_no_screen_is_too_strange_to_be_read(screen: str, title: str | None) -> None:
    for provider in PROVIDERS.values():
        assert provider.detect_status(screen, title) in TerminalStatus
        provider.startup_dialog(screen)
        provider.draft(screen)
        provider.last_answer(screen)
        provider.read_signal(screen)
