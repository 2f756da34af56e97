"""The task of a run: what was explored, and the scenario that must pass in the end."""

from dataclasses import dataclass, field

from cli_agent_orchestrator.errors import PromptError
from cli_agent_orchestrator.pipeline.reply import clean_text

EXPLORE_HEADER = "*** ORIGINAL EXPLORE SUMMARY ***"
SCENARIO_HEADER = "*** SCENARIO TEST ***"
LARGEST_TASK = 2 * 1024 * 1024
"""Bytes; with the replies that go with it, it must fit into one message."""
EXPECTED_FORM = f"""\
{EXPLORE_HEADER}
What is to be done, and what is known about the project.

{SCENARIO_HEADER}
What the tester does, and what must come out of it.
"""


@dataclass(frozen=True, slots=True)
class Task:
    """A task in its two parts."""

    explore_summary: str
    """For all roles: what is to be done."""
    scenario_test: str
    """For the tester: how to find out whether it was done."""
    text: str = field(repr=False)
    """The whole text, as the state file keeps it."""


def parse_task(text: str) -> Task:
    """Split a task at its two headers; what stands before the first is for people only."""
    size = len(text.encode("utf-8", "replace"))
    if size > LARGEST_TASK:
        raise PromptError(
            f"the task has {size} bytes; agents can be told at most {LARGEST_TASK}: put the rest "
            "into a file of the project and name it in the task"
        )
    lines = clean_text(text).split("\n")
    explore = _only_line(lines, EXPLORE_HEADER)
    scenario = _only_line(lines, SCENARIO_HEADER)
    if scenario < explore:
        raise _problem(f"`{SCENARIO_HEADER}` stands before `{EXPLORE_HEADER}`")
    return Task(
        explore_summary=_body(lines[explore + 1 : scenario], EXPLORE_HEADER),
        scenario_test=_body(lines[scenario + 1 :], SCENARIO_HEADER),
        text=text,
    )


def _only_line(lines: list[str], header: str) -> int:
    numbers = [number for number, line in enumerate(lines) if line.strip() == header]
    if not numbers:
        raise _problem(f"the line `{header}` is missing")
    if len(numbers) > 1:
        places = ", ".join(str(number + 1) for number in numbers)
        raise _problem(f"the line `{header}` must stand there once, but it does in lines {places}")
    return numbers[0]


def _body(lines: list[str], header: str) -> str:
    body = "\n".join(lines).strip()
    if not body:
        raise _problem(f"there is nothing below `{header}`")
    return body


def _problem(reason: str) -> PromptError:
    return PromptError(
        f"the task has not the expected form: {reason}. Expected:\n\n{EXPECTED_FORM}"
    )
