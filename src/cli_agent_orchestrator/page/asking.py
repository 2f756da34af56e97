"""What a person can do about a run or its agent: answer, let it go on, steer it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ..core.models import Question
from ..pipeline.steering import LARGEST_HINT
from ..runs.record import RunStatus
from ..runs.view import RunView, Turn
from ..show.markup import Markup, joined, tag
from .words import ask_button, name

LONGEST_QUESTION = 4000
"""Characters of what an agent asks; its screen has all of it."""
LONGEST_LABEL = 200
KEYS = (
    ("Enter", "Enter"),
    ("Escape", "Esc"),
    ("Up", "↑"),
    ("Down", "↓"),
    ("Left", "←"),
    ("Right", "→"),
    *((digit, digit) for digit in "123456789"),
    ("y", "y"),
    ("n", "n"),
)
"""Keys that answer most questions, and what stands on their buttons."""
NAMES = {"Up": "arrow up", "Down": "arrow down", "Left": "arrow left", "Right": "arrow right"}
STOP_WORDS = (
    "Stop this run and end its agents? It is saved, and can be resumed later with new agents."
)
SKIP_WORDS = "Count the review that is under way as approved, without its verdict?"


@dataclass(frozen=True, slots=True)
class AskedBy:
    """A question, and the terminal of the agent that asks it."""

    terminal_id: str
    question: Question


def question_html(asked: AskedBy) -> Markup:
    """Return what an agent asks, with its choices; without any, the keys that answer most."""
    text = asked.question.text[:LONGEST_QUESTION] or "It asks something."
    words = tag("p", text, class_="question")
    if not asked.question.choices:
        return joined((words, key_buttons(asked)))
    choices = (
        _answer(f"{choice.key}  {choice.label[:LONGEST_LABEL]}".strip(), choice.key, asked)
        for choice in asked.question.choices
    )
    return joined((words, tag("div", joined(choices), class_="buttons")))


def key_buttons(asked: AskedBy) -> Markup:
    """Return small buttons that press a key each."""
    buttons = joined(_answer(words, key, asked, NAMES.get(key)) for key, words in KEYS)
    label = "Keys that answer it"
    return tag("div", buttons, class_="buttons keys", role="group", aria_label=label)


def _answer(words: str, key: str, asked: AskedBy, label: str | None = None) -> Markup:
    # Bound to this very question: if it has gone, nothing is pressed.
    return tag(
        "button",
        words,
        type="button",
        class_="button",
        data_post=f"/terminals/{asked.terminal_id}/answer",
        data_body=json.dumps({"key": key, "question": asked.question.fingerprint}),
        aria_label=label,
    )


def control_buttons(run: RunView, review: Turn | None) -> Markup | None:
    """Return the buttons that steer a run; None if nothing can be asked of it.

    `review` is under way.
    """
    is_paused, main = run.status is RunStatus.PAUSED, "button-main"
    offered: list[tuple[bool, str, str, dict[str, str]]] = [
        (is_paused or run.is_unfinished, "Resume", "resume", {"kind": main}),
        (run.is_pausing, "Do not pause", "resume", {"kind": main}),
        (not (run.is_pausing or is_paused), "Pause after this turn", "pause", {}),
    ]
    if review is not None:
        # Bound to this very review: if it is over, nothing is skipped.
        meant = {"role": review.role, "round": review.round, "cycle": review.cycle}
        skipping = {"body": json.dumps(meant), "sure": SKIP_WORDS}
        offered.append((True, "Skip this review", "skip", skipping))
    offered.append((True, "Stop the run", "stop", {"kind": "button-bad", "sure": STOP_WORDS}))
    buttons = [
        ask_button(words, f"/runs/{run.id}/{do}", **more)
        for is_offered, words, do, more in (offered if run.is_live else offered[:1])
        if is_offered
    ]
    return tag("div", joined(buttons), class_="buttons") if buttons else None


def hint_form(run: str, roles: Sequence[str]) -> Markup:
    """Return the form by which an agent is told something with its next prompt."""
    options = (tag("option", name(role), value=role) for role in roles)
    form = tag(
        "form",
        tag("label", "Hint", for_="hint-text"),
        tag(
            "textarea",
            id="hint-text",
            name="text",
            rows=4,
            required=True,
            maxlength=LARGEST_HINT,
            aria_describedby="hint-note",
        ),
        tag("p", "The agent gets it with its next prompt.", id="hint-note", class_="muted"),
        tag("label", "For", for_="hint-role"),
        tag(
            "select",
            tag("option", "whoever is next", value=""),
            joined(options),
            id="hint-role",
            name="role",
        ),
        tag("button", "Send the hint", class_="button", type="submit"),
        class_="form",
        data_post=f"/runs/{run}/hint",
    )
    return tag("details", tag("summary", "Give a hint"), form, id="hint", class_="fold")


def rounds_form(run: str, present: int, most: int) -> Markup:
    """Return the form by which a run is given more rounds, or fewer."""
    form = tag(
        "form",
        tag("label", "Rounds at most", for_="rounds-value"),
        tag(
            "input",
            id="rounds-value",
            name="value",
            type="number",
            min=max(present, 1),
            value=most or None,
            required=True,
        ),
        tag("input", type="hidden", name="name", value="max_rounds"),
        tag("button", "Set", class_="button", type="submit"),
        class_="form form-row",
        data_post=f"/runs/{run}/set",
    )
    return tag("details", tag("summary", "Change its rounds"), form, id="rounds", class_="fold")
