"""Which question is it? A key that was meant for one must not answer another."""

from hashlib import sha256

from cli_agent_orchestrator._internal.models import Question, TerminalStatus
from cli_agent_orchestrator._internal.providers.questions import ShownQuestion, read_question
from cli_agent_orchestrator._internal.terminals.live_terminal import LiveTerminal

FINGERPRINT_LENGTH = 32


def question_of(live: LiveTerminal, start_id: str, screen: str | None = None) -> Question | None:
    """Return what an agent asks now, None if it does not wait for an answer.

    `start_id` is that of the service: after a new start it counts from the beginning. `screen` is
    what the terminal shows, where that is known better than it was told.
    """
    if live.status is not TerminalStatus.WAITING_USER_ANSWER:
        return None
    asked = read_question(live.text if screen is None else screen)
    return Question(asked.text, asked.choices, _fingerprint(live, start_id, asked))


def keys_for(live: LiveTerminal, key: str) -> list[str]:
    """Return what is to be pressed for a key that answers what an agent asks."""
    asked = read_question(live.text)
    picks = any(choice.key == key for choice in asked.choices)
    return [key, *(asked.then if picks else ())]


def _fingerprint(live: LiveTerminal, start_id: str, asked: ShownQuestion) -> str:
    """Return what stands for this terminal, this asking, and what is shown of it."""
    facts = "\0".join((start_id, live.row.id, str(live.asked), asked.shown))
    return sha256(facts.encode("utf-8", "replace")).hexdigest()[:FINGERPRINT_LENGTH]
