"""What a turn came to, in a form that needs no color: a mark, words and a class for both."""

from dataclasses import dataclass

from cli_agent_orchestrator._internal.html.markup import Markup, tag
from cli_agent_orchestrator._internal.pipeline.outcomes import AGAINST, BASE_FAILED
from cli_agent_orchestrator._internal.runs.records.turns import RunTurn


@dataclass(frozen=True, slots=True)
class OutcomeLook:
    """How an outcome is shown."""

    mark: str
    """One character."""
    kind: str
    """`good`, `bad`, `plain` or `now`; the stylesheet has a color for each."""
    words: str


WORDS = {
    "delivered": "delivered",
    "approved": "approved",
    "skipped": "skipped",
    "sent_back": "sent back",
    "cycles_used_up": "not approved, cycles used up",
    "passed": "passed",
    "cleared": "passed",
    "failed": "failed",
    "rounds_used_up": "failed, rounds used up",
    "base_passed": "passed before the run",
    "base_failed": "failed before the run",
}
GOOD = frozenset({"approved", "passed", "cleared", "base_passed"})
MARKS = {"sent_back": "↩", "cycles_used_up": "↩", "delivered": "●", "skipped": "–"}
NOT_FINISHED = OutcomeLook("○", "plain", "not finished")
AT_WORK = OutcomeLook("…", "now", "at work")
LEGEND = (
    OutcomeLook("●", "plain", "delivered"),
    OutcomeLook("✓", "good", "approved or passed"),
    OutcomeLook("↩", "bad", "sent back"),
    OutcomeLook("✗", "bad", "failed"),
    OutcomeLook("–", "plain", "skipped"),
    NOT_FINISHED,
    AT_WORK,
)
"""What the marks mean."""


def look_of(turn: RunTurn) -> OutcomeLook:
    """Return how a turn is shown; what a later version may call an outcome is shown plainly."""
    word = turn.outcome
    if not word:
        return AT_WORK if turn.ended is None else NOT_FINISHED
    if word in GOOD:
        return OutcomeLook("✓", "good", WORDS[word])
    if word in AGAINST or word == BASE_FAILED:
        return OutcomeLook(MARKS.get(word, "✗"), "bad", WORDS[word])
    return OutcomeLook(MARKS.get(word, "●"), "plain", WORDS.get(word, word))


def badge(look: OutcomeLook) -> Markup:
    """Return an outcome as a small label."""
    return tag("span", f"{look.mark} {look.words}", class_=f"badge badge-{look.kind}")
