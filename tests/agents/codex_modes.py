"""Turns of Codex that are not of the plain kind: what a person does before them."""

from tests.agents.driving import Driven

NARROW = (60, 20)
LIMITS = {
    "x-codex-primary-used-percent": "96",
    "x-codex-primary-window-minutes": "300",
    "x-codex-secondary-used-percent": "92",
    "x-codex-secondary-window-minutes": "10080",
}
"""What the model says in the head of an answer when an account is nearly used up."""


async def begin_anew(driven: Driven, said: str = "before") -> None:
    """Begin another session, as a person does, after an answer."""
    await driven.prompts("/new")
    # The old ones say how to come back, the new ones clear the screen.
    await driven.sees(lambda screen: "To continue this session" in screen or said not in screen)


async def resume_second(driven: Driven, shown: str) -> None:
    """Go on with the second of the older sessions, as a person does who sees both."""
    await driven.prompts("/resume")
    await driven.shows("Resume a previous session")
    await driven.shows(shown)
    await driven.settles()  # keys are lost while the list is filled
    await driven.keys("Down", "Enter")
    await driven.hides("Resume a prev")
