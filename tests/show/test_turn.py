"""What one turn shows when it is opened."""

import re

from msgspec.structs import replace

from cli_agent_orchestrator.core.models import Tokens
from cli_agent_orchestrator.pipeline.review import Finding, FindingAnswer, Tracked
from cli_agent_orchestrator.runs.report import TurnDetail
from cli_agent_orchestrator.show import turn as limits
from cli_agent_orchestrator.show.turn import long_text, turn_html
from tests.show.reading import Elements
from tests.show.test_diff import CHANGED
from tests.show.test_timeline import TURN

DETAIL = TurnDetail(TURN, "do it", "it is done", "› done", CHANGED, (), Tokens(1200, 1000, 30, 10))
UNFIXED, FIXED = FindingAnswer.UNFIXED, FindingAnswer.FIXED


def tracked(blocking: bool, *answers: FindingAnswer) -> Tracked:
    return Tracked(Finding("F1", blocking, "a.py:3", "the sum is wrong"), answers)


def test_it_shows_all_that_is_there() -> None:
    page = Elements(turn_html(DETAIL))
    assert page.is_closed
    for words in ("● delivered", "codex", "9.0 s", "it is done", "src/a.py", "› done", "do it"):
        assert words in page.written
    assert "1,200 in (1,000 cached), 30 out (10 reasoning)" in page.written
    parts = re.findall("<(?:h4|summary)>([^<]*)</(?:h4|summary)>", turn_html(DETAIL))
    assert parts == ["Reply", "Changes", "The agent&#x27;s screen at the end", "Prompt"]
    assert not page.of("button")
    assert Elements(turn_html(DETAIL, commentable=True)).of("button")


def test_what_is_not_there_is_not_shown() -> None:
    page = Elements(turn_html(TurnDetail(TURN, None, None, None))).written
    assert "It is not kept." in page
    for words in ("Prompt", "Changes", "Tokens", "screen", "Findings", "Evidence"):
        assert words not in page
    at_work = replace(TURN, outcome="", ended=None)
    page = Elements(turn_html(TurnDetail(at_work, "x", None, None))).written
    assert "Reply" not in page
    assert "Worked" not in page


def test_a_gate_has_an_output_and_no_agent() -> None:
    gate = replace(TURN, role="gate", provider="command", outcome="failed")
    page = Elements(turn_html(replace(DETAIL, turn=gate, usage=Tokens(5, 0, 3, None)))).written
    assert "Output" in page
    assert "Agent" not in page
    assert "5 in, 3 out" in page


def test_evidence_says_what_is_met_without_colour() -> None:
    groups = {"tests": True, "risk": False}
    page = Elements(turn_html(replace(DETAIL, evidence=groups))).written
    assert "✓ tests✗ risk (not touched)" in page


def test_a_finding_says_what_became_of_it() -> None:
    def fate(entry: Tracked) -> str:
        return Elements(turn_html(replace(DETAIL, findings=(entry,)))).written

    assert "F1 ✗ open blocking a.py:3 the sum is wrong" in fate(tracked(True))
    assert "F1 ✗ open, unfixed 2× blocking" in fate(tracked(True, UNFIXED, UNFIXED))
    assert "F1 ✓ fixed, unfixed 1× advisory" in fate(tracked(False, UNFIXED, FIXED))
    assert "F1 ✓ withdrawn blocking" in fate(tracked(True, FindingAnswer.WITHDRAWN))
    for is_blocking in (True, False):
        page = Elements(turn_html(replace(DETAIL, findings=(tracked(is_blocking),))))
        assert bool(page.of("span", "badge-bad")) is is_blocking


FIRST, MOST, LONGEST = (
    limits.FIRST_LINES,
    limits.FIRST_LINES + limits.LAST_LINES,
    limits.LONGEST_LINE,
)


def test_a_long_text_is_cut_in_its_middle_and_a_long_line_never_within_a_mask() -> None:
    assert long_text("\na\n b\n") == '<pre class="text">a\n b</pre>'
    assert long_text("x", "screen") == '<pre class="screen">x</pre>'
    assert "not shown" not in long_text("x\n" * MOST)
    page = long_text("\n".join(f"line {n}" for n in range(MOST + 1)))
    assert f"line {FIRST - 1}\n… 1 line is not shown …\nline {FIRST + 1}\n" in page
    assert "… 99,600 lines are not shown …" in long_text("x\n" * 100_000)
    assert "more characters" not in long_text("x" * LONGEST)
    line = f"{'x' * (LONGEST - 3)}(masked) and {'y' * 1000}"
    assert long_text(line).endswith("x… 1,013 more characters</pre>")
