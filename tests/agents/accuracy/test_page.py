"""The page of figures, made of results that are made up."""

from dataclasses import asdict, replace
from pathlib import Path

from tests.agents.accuracy.measure import LARGEST, PromptResult, TurnResult, prompt_sizes
from tests.agents.accuracy.page import Saw, merged, page, parted, shortcomings
from tests.agents.accuracy.score import Mistake, Score
from tests.agents.accuracy.taking import share
from tests.agents.accuracy.wild import NEWEST, wild_modes
from tests.agents.driving import KINDS, hard_text

RIGHT = TurnResult("finished", "short answer", Score(delay=0.02), Score(delay=0.2))
WRONG = frozenset({Mistake.FALSE_FINISHED})
LIED = TurnResult("streaming", "list", Score(delay=0.03), Score(WRONG))
PROMPT = PromptResult(200_000, 0.2, presses=2)


def saw(*turns: TurnResult, prompts: tuple[PromptResult, ...] = (PROMPT,)) -> Saw:
    return Saw(
        "codex",
        "1.2.3",
        "a machine",
        screens=7,
        turns=[asdict(turn) for turn in turns],
        prompts=[asdict(prompt) for prompt in prompts],
    )


def test_the_page_has_what_signals_and_what_screens_told() -> None:
    text = page([saw(RIGHT, LIED)])
    assert "| codex 1.2.3 | **signals** | 2 | 7 | 0 | 0 | 0 | 0 | 0 | 0 | 20 / 30 | – | 0 |" in text
    assert "|  | screen alone |  |  | 1 | 0 | 0 | 0 | 0 | 0 | 200 / 200 | – |  |" in text
    assert "| codex 1.2.3 | 1 | 0 | 1 | 200 / 200 |" in text
    assert "| streaming | list | 1 | 0 | 30 / 30 | 1: false finished 1 |" in text


def test_what_the_screen_alone_gets_wrong_is_no_shortcoming() -> None:
    assert list(shortcomings([saw(RIGHT, LIED)])) == []


def test_every_shortcoming_is_named() -> None:
    late = replace(RIGHT, signals=Score(delay=0.6))
    lied = replace(RIGHT, signals=Score(WRONG))
    stuck = replace(RIGHT, trouble="TimeoutError", sending="2 arrived")
    lost = replace(PROMPT, failure="0 arrived")
    assert list(shortcomings([saw(late, lied, stuck, prompts=(lost, PROMPT))])) == [
        "codex 1.2.3: false finished in 1 turns",
        "codex 1.2.3: 1 turns could not be measured",
        "codex 1.2.3: 1 messages of turns not delivered once and exactly",
        "codex 1.2.3: 1 of 2 prompts not delivered",
        "codex 1.2.3: end of a turn known after 600 ms (p99)",
    ]


def test_a_false_question_is_a_shortcoming_and_named_with_the_way_of_use() -> None:
    false = replace(RIGHT, signals=Score(frozenset({Mistake.FALSE_WAITING}), 0.02))
    used = replace(saw(false), wild=True)
    assert list(shortcomings([used])) == ["codex 1.2.3 as people use it: false waiting in 1 turns"]


def test_what_was_not_measured_anew_stands_as_it_was() -> None:
    names = ["codex 1.2.3", "codex 0.9.0"]
    older = replace(saw(RIGHT), version="0.9.0", machine="an older machine")
    plain_page = merged("", page([saw(RIGHT, LIED), older]), names)
    used = replace(saw(RIGHT), wild=True, prompts=())
    both = merged(plain_page, page([used]), names)
    kept = [line for line in plain_page.splitlines() if line.startswith(("| codex", "## codex"))]
    assert len(kept) == 6
    assert [line for line in both.splitlines() if line in kept] == [*kept]
    assert "## codex 1.2.3 as people use it" in both
    assert merged(both, page([used]), names) == both


def test_the_page_in_the_documents_is_one_that_can_be_added_to() -> None:
    summary = (Path(__file__).parents[3] / "docs" / "accuracy.md").read_text(encoding="utf-8")
    details = Path(__file__).with_name("details.md").read_text(encoding="utf-8")
    text = f"{summary}\n{details}"
    assert parted(text) == (summary, details)
    names = [f"{kind.agent} {kind.version}" for kind in KINDS]
    assert merged(text, page([]), names) == text


def test_every_way_of_use_has_its_turns() -> None:
    for kind in KINDS:
        modes = wild_modes(kind)
        wanted = 30 if kind in NEWEST else 10
        for state in {mode.state for mode in modes} - {"silence in an answer"}:
            alike = [mode for mode in modes if mode.state == state]
            assert sum(share(mode, modes, wanted) for mode in alike) >= wanted
            assert len({mode.name for mode in alike}) == len(alike)


def test_prompts_have_every_size_once() -> None:
    sizes = prompt_sizes(500)
    assert (len(sizes), min(sizes), max(sizes)) == (500, 1, LARGEST)


def test_a_hard_text_has_its_size_and_ends_that_nobody_trims() -> None:
    for size in (1, 2, 3, 7, 100, 4_999, LARGEST):
        text = hard_text(size)
        assert len(text.encode()) == size
        assert text == text.strip()
