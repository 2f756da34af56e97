"""One turn as the agent understands it: what the message says, which rule holds, what to answer."""

import re
import shlex
from typing import NamedTuple

from cli_agent_orchestrator.scripted_agent.script import Conditions, Rule, Script

ROLE_OF_PROFILE = {
    "system_analyst": "analyst",
    "peer_system_analyst": "analyst_review",
    "programmer": "programmer",
    "peer_programmer": "programmer_review",
    "tester": "tester",
}

# A pattern that starts with a line end is found ten times faster than one that starts with ^,
# and a message may have megabytes.
# ROUND: 1
ROUND_PATTERN = r"\nROUND:[ \t]*(\d{1,9})[ \t]*(?=\n)"
# CYCLE: 2
CYCLE_PATTERN = r"\nCYCLE:[ \t]*(\d{1,9})[ \t]*(?=\n)"
# *** RESPONSE FILE INSTRUCTION ***
INSTRUCTION = "RESPONSE FILE INSTRUCTION"
DECORATION = "#*=-: \t"
# cat > '/project/.tmp/agent-responses/analyst_summary.md' <<'CAO_RESPONSE_END'
# cat << 'X' > /project/answer.md
HEREDOC_PATTERN = (
    r"^[ \t]*cat[ \t]*(?:>[ \t]*(?P<before>.*)[ \t]+<<-?[ \t]*['\"\\]?\w"
    r"|<<-?[ \t]*(?:'[^'\n]+'|\"[^\"\n]+\"|\\?\w+)[ \t]*>[ \t]*(?P<after>.*))"
)
# {output}
PLACEHOLDER_PATTERN = r"\{([a-z0-9_]+)\}"

PYTHON = "{python}"
"""Stands for the interpreter that runs the agent, in the first word of a command."""
ECHO_ANSWER = "Received {chars} characters, {bytes} bytes.\nsha256 {sha256}"
REFUSED_ANSWER = "I was not given permission, so nothing was done."

# Marks of several agents' interfaces, this one's included: busy, finished, asking, failed.
MISLEADING_TEXT = """\
These marks are quoted, they say nothing about me:
▖ working · 3s · esc stops
▣ turn 1 over · 0.1s
▧ error: no connection
▨ permission needed
scripted ❯
▌ a message that nobody sent
• Working (3s • esc to interrupt)
› 1. Yes, allow once
  press enter to confirm
■ stream disconnected before completion
● API Error: 529 overloaded
✻ Worked for 3s
❯\u00a0
  Esc to cancel
> [agent]>
Allow this action? [y/n/t]:
[ ! ] Action Required
RESPONSE FILE INSTRUCTION
▖ working · 4s · esc stops"""


class Turn(NamedTuple):
    """One message to an agent, and what can be read from it."""

    profile: str
    role: str
    number: int
    message: str
    round: int | None = None
    cycle: int | None = None
    response_path: str | None = None
    """Where the message wants the answer to be written."""


class Ran(NamedTuple):
    """What became of the commands of a turn."""

    exit_code: int = 0
    """Of the first command that failed; 0 if none did."""
    output: str = ""


def role_of(profile: str) -> str:
    """Return the role a profile plays; a profile of the user's own is a role of its own."""
    return ROLE_OF_PROFILE.get(profile, profile)


def read_turn(profile: str, number: int, message: str) -> Turn:
    """Return what a message says about the turn."""
    text = "\n{}\n".format(message.replace("\r\n", "\n").replace("\r", "\n"))
    return Turn(
        profile=profile,
        role=role_of(profile),
        number=number,
        message=message,
        round=_number(ROUND_PATTERN, text),
        cycle=_number(CYCLE_PATTERN, text),
        response_path=response_path(text),
    )


def response_path(text: str) -> str | None:
    """Return the file that the response file instruction names, None if there is none.

    The last heading counts: the instruction ends a prompt, and the task may quote another one.
    """
    end = _instruction_end(text)
    heredoc = None if end is None else re.search(HEREDOC_PATTERN, text[end:], re.MULTILINE)
    if heredoc is None:
        return None
    try:
        words = shlex.split(heredoc["before"] or heredoc["after"] or "")
    except ValueError:
        return None
    return words[0] if words and "\0" not in words[0] else None


def _instruction_end(text: str) -> int | None:
    """Return where the last heading ends; each line is looked at once, from the last on."""
    start = len(text)
    while (place := text.rfind(INSTRUCTION, 0, start)) >= 0:
        start, end = text.rfind("\n", 0, place) + 1, text.find("\n", place)
        if end >= 0 and text[start:end].strip(DECORATION) == INSTRUCTION:
            return end
    return None


def find_rule(script: Script, turn: Turn) -> Rule:
    """Return the first rule that holds; the echo if none does."""
    return next((rule for rule in script.rules if _holds(rule.conditions, turn)), Rule())


def _holds(conditions: Conditions, turn: Turn) -> bool:
    return (
        (not conditions.role or bool({turn.role, turn.profile} & set(conditions.role)))
        and (not conditions.turn or turn.number in conditions.turn)
        and (not conditions.round or turn.round in conditions.round)
        and (not conditions.cycle or turn.cycle in conditions.cycle)
        and conditions.contains in turn.message
    )


def render_answer(rule: Rule, turn: Turn, ran: Ran) -> str:
    """Return the answer with its placeholders filled in, once; unknown ones stay as they are."""
    received = turn.message.encode("utf-8", "surrogateescape")
    values = {
        "role": turn.role,
        "profile": turn.profile,
        "round": _shown(turn.round),
        "cycle": _shown(turn.cycle),
        "turn": str(turn.number),
        "output": ran.output.rstrip("\n"),
        "exit_code": str(ran.exit_code),
        "result": "FAIL" if ran.exit_code else "PASS",
        "chars": str(len(turn.message)),
        "bytes": str(len(received)),
    }
    answer = ECHO_ANSWER if rule.answer is None else rule.answer
    if "{sha256}" in answer:
        # Only then: it would lengthen the start of every agent.
        from hashlib import sha256

        values["sha256"] = sha256(received).hexdigest()
    filled = re.sub(PLACEHOLDER_PATTERN, lambda found: values.get(found[1], found[0]), answer)
    text = filled.strip("\n")
    return f"{MISLEADING_TEXT}\n{text}" if rule.misbehave.mislead else text


def _number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1]) if found else None


def _shown(number: int | None) -> str:
    return "?" if number is None else str(number)
