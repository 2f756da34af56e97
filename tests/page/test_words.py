"""What all pages say in the same way."""

from datetime import UTC, datetime
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.page.words import (
    RunTokens,
    agent_badge,
    agent_path,
    at_work,
    badge,
    moment,
    name,
    quoted,
    run_tokens,
)
from cli_agent_orchestrator.usage.tokens import Tokens
from tests.page.view_data import a_terminal
from tests.runs.views import NOON, a_run
from tests.show.reading import Elements


def test_who_works() -> None:
    assert Elements(at_work(a_run())).written == "programmer works"
    assert Elements(at_work(a_run(role="lint"))).written == "gate lint runs"
    assert Elements(at_work(a_run(role="proof"))).written == "the proof runs"
    assert Elements(at_work(a_run(providers={}))).written == "programmer works"


def test_a_time_says_exactly_when() -> None:
    read = Elements(moment(NOON, "2 h ago"))

    [shown] = read.of("time")
    assert read.written == "2 h ago"
    assert datetime.fromisoformat(str(shown["datetime"])) == datetime.fromtimestamp(NOON, UTC)
    assert shown["title"] == "2023-11-14 22:13:20 UTC"


def test_tokens_say_exactly_how_many() -> None:
    shown = run_tokens(RunTokens(Tokens(48_200, 39_000, 2_100, None), is_whole=True))
    read = Elements(shown or "")

    assert read.written == "48k in, 2100 out"
    assert read.of("span")[0]["title"] == "Tokens: 48,200 in (39,000 cached), 2,100 out"


@pytest.mark.parametrize(
    ("status", "words", "tone"),
    [
        (TerminalStatus.UNKNOWN, "● not known", "plain"),
        (TerminalStatus.IDLE, "● at rest", "plain"),
        (TerminalStatus.PROCESSING, "… working", "now"),
        (TerminalStatus.COMPLETED, "● at rest", "plain"),
        (TerminalStatus.WAITING_USER_ANSWER, "! asks you", "needs"),
        (TerminalStatus.ERROR, "✗ error", "bad"),
    ],
)
def test_the_status_of_an_agent(status: TerminalStatus, words: str, tone: str) -> None:
    read = Elements(agent_badge(a_terminal(status=status)))

    assert read.written == words
    assert read.of("span", f"badge-{tone}")


def test_every_badge_has_a_mark_and_words() -> None:
    assert Elements(badge("good", "PASS")).written == "✓ PASS"
    assert Elements(badge("warn", "not proven")).written == "! not proven"
    assert Elements(agent_badge(a_terminal(alive=False))).written == "✗ its program has ended"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_name_is_one_word_of_an_address(word: str) -> None:
    assert "/" not in quoted(word)
    assert unquote(quoted(word)) == word
    assert agent_path("r", word) == f"/dashboard/runs/r/agents/{quoted(word)}"


def test_a_name_stays_on_a_short_line() -> None:
    assert name("a\n b") == "a b"
    assert len(name("x" * 500)) <= 60
