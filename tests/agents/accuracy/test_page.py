"""The page of figures, made of results that are made up."""

from dataclasses import replace

from tests.agents.accuracy.__main__ import DRIFT, PAGE, PLAIN, WILD, saved
from tests.agents.accuracy.measure import Measurement, PromptResult, TurnResult
from tests.agents.accuracy.page import figures, page, shortcomings
from tests.agents.accuracy.score import Mistake, Score

RIGHT = TurnResult("finished", "short answer", Score(delay=0.02), Score(delay=0.2))
WRONG = frozenset({Mistake.FALSE_FINISHED})
LIED = TurnResult("streaming", "list", Score(delay=0.03), Score(WRONG))
PROMPT = PromptResult(200_000, 0.2, presses=2)
NAME = "codex 1.2.3"


def saw(*turns: TurnResult, prompts: tuple[PromptResult, ...] = (PROMPT,)) -> Measurement:
    return Measurement(print, list(turns), list(prompts), screens=7)


def test_what_only_screens_told_wrongly_is_in_the_figures_and_no_shortcoming() -> None:
    found = figures(NAME, saw(RIGHT, LIED))
    assert found["summary"] == [
        "| codex 1.2.3 | **signals** | 2 | 7 | 0 | 0 | 0 | 0 | 0 | 0 | 20 / 30 | – | 0 |",
        "|  | screen alone |  |  | 1 | 0 | 0 | 0 | 0 | 0 | 200 / 200 | – |  |",
    ]
    assert found["prompts"] == ["| codex 1.2.3 | 1 | 0 | 1 | 200 / 200 |"]
    assert found["turns"][-1] == "| streaming | list | 1 | 0 | 30 / 30 | 1: false finished 1 |"
    assert found["lacking"] == []


def test_every_shortcoming_is_named() -> None:
    late = replace(RIGHT, signals=Score(delay=0.6))
    lied = replace(RIGHT, signals=Score(WRONG))
    asked = replace(RIGHT, signals=Score(frozenset({Mistake.FALSE_WAITING}), 0.02))
    stuck = replace(RIGHT, trouble="TimeoutError", sending="2 arrived")
    lost = replace(PROMPT, failure="0 arrived")
    found = saw(late, lied, asked, stuck, prompts=(lost, PROMPT))
    assert list(shortcomings(NAME, found)) == [
        "codex 1.2.3: false finished in 1 turns",
        "codex 1.2.3: false waiting in 1 turns",
        "codex 1.2.3: 1 turns could not be measured",
        "codex 1.2.3: 1 messages of turns not delivered once and exactly",
        "codex 1.2.3: 1 of 2 prompts not delivered",
        "codex 1.2.3: end of a turn known after 600 ms (p99)",
    ]


def test_the_page_in_the_documents_is_made_of_the_figures() -> None:
    assert page(saved(PLAIN), saved(WILD), saved(DRIFT)) == PAGE.read_text(encoding="utf-8")
