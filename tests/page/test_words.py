"""What all pages say in the same way."""

from urllib.parse import unquote

from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.models import Tokens
from cli_agent_orchestrator.page.words import agent_path, at_work, name, quoted, run_tokens
from tests.runs.views import a_run
from tests.show.reading import Elements


def test_who_works() -> None:
    assert Elements(at_work(a_run())).written == "programmer works"
    assert Elements(at_work(a_run(role="lint"))).written == "gate lint runs"
    assert Elements(at_work(a_run(role="proof"))).written == "the proof runs"
    assert Elements(at_work(a_run(providers={}))).written == "programmer works"


def test_tokens_say_exactly_how_many() -> None:
    shown = run_tokens(Tokens(48_200, 39_000, 2_100, None), is_whole=True)
    read = Elements(shown)
    assert read.written == "48k in, 2100 out"
    assert read.of("span")[0]["title"] == "Tokens: 48,200 in (39,000 cached), 2,100 out"
    partly = run_tokens(Tokens(5, 0, 3, None), is_whole=False)
    assert Elements(partly).written == "at least 5 in, 3 out"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_name_is_one_word_of_an_address(word: str) -> None:
    assert "/" not in quoted(word)
    assert unquote(quoted(word)) == word
    assert agent_path("r", word) == f"/dashboard/runs/r/agents/{quoted(word)}"
    assert len(name(word * 99)) <= 60
