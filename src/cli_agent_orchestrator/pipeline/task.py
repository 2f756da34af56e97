"""The task of a run: what is to be done, and the scenario that must pass in the end.

Any text is a task. A heading may mark each of the two parts; without one, the whole text is what is
to be done. Settings for this task may stand between two lines `---` at the very top. The other form
has two lines with stars, and both of them count: it is the form of scripts, and strict.
"""

import re
import tomllib
from collections.abc import Sequence
from difflib import get_close_matches

from ..core.codec import Private
from ..errors import ConfigError, PromptError
from ..settings.table import BY_KEY, IN_TASK, Setting
from ..settings.values import FLOW_NAME_PATTERN, read_role_providers, read_value, read_word
from .reply import clean_text, unfenced

EXPLORE_HEADER = "*** ORIGINAL EXPLORE SUMMARY ***"
SCENARIO_HEADER = "*** SCENARIO TEST ***"
TASK_HEADING = "# Task"
TEST_HEADING = "# Test"
PARTS = {
    # what a heading may say, in small letters: the heading it stands for
    **dict.fromkeys(("task", "what to do", "explore summary"), TASK_HEADING),
    **dict.fromkeys(("test", "tests", "how to test"), TEST_HEADING),
    **dict.fromkeys(("scenario", "scenario test", "test scenario"), TEST_HEADING),
    **dict.fromkeys(("acceptance", "acceptance test", "acceptance criteria"), TEST_HEADING),
}
# "## What to do": with four spaces it would be code
HEADING_PATTERN = r" {0,3}#{1,6}[ \t]"
HEADING_MARKS = " \t#*_:"
SETTINGS_MARK = "---"
LARGEST_TASK = 2 * 1024 * 1024
"""Bytes; with the replies that go with it, it must fit into one message."""
EXPECTED_FORM = f"""\
{EXPLORE_HEADER}
What is to be done, and what is known about the project.

{SCENARIO_HEADER}
What the tester does, and what must come out of it.
"""
MARKDOWN_FORM = f"""\
{TASK_HEADING}
What is to be done, and what is known about the project.

{TEST_HEADING}
What the tester does, and what must come out of it. This part may be left out.
"""


class Task(Private, frozen=True):
    explore_summary: str
    scenario_test: str
    """For the tester: how to find out whether it was done; empty if the flow is to say it."""
    text: str


def parse_task(text: str) -> Task:
    size = len(text.encode("utf-8", "replace"))
    if size > LARGEST_TASK:
        raise PromptError(
            f"the task has {size} bytes; agents can be told at most {LARGEST_TASK}: put the rest "
            "into a file of the project and name it in the task"
        )
    lines, settings = _split(text)
    below = settings.stop + 1 if settings.stop else 0
    headings: dict[str, list[int]] = {TASK_HEADING: [], TEST_HEADING: []}
    for number, line in unfenced(lines[below:]):
        words = " ".join(line.strip(HEADING_MARKS).lower().split())
        if words in PARTS and re.match(HEADING_PATTERN, line):
            headings[PARTS[words]].append(below + number)
    stars = _stars(lines)
    # Without headings, stars count in fenced code, too: so scripts have them.
    outside = {number for number, _ in unfenced(lines)}
    if stars & outside or (stars and not any(headings.values())):
        explore, scenario = _parse_stars(lines)
    else:
        explore, scenario = _parse_headings(lines, below, *headings.values())
    return Task(explore, scenario, text)


def _split(text: str) -> tuple[list[str], range]:
    """Return the lines of a task, and which of them are its settings."""
    lines = clean_text(text).split("\n")
    settings = range(0)
    if not _stars(lines) and lines[0].rstrip() == SETTINGS_MARK:
        rest = range(1, len(lines))
        end = next((n for n in rest if lines[n].rstrip() == SETTINGS_MARK), None)
        if end is None:
            raise PromptError(
                f"line 1 of the task begins settings with `{SETTINGS_MARK}`, but no line "
                f"`{SETTINGS_MARK}` ends them"
            )
        settings = range(1, end)
    return lines, settings


def _stars(lines: Sequence[str]) -> set[int]:
    headers = (EXPLORE_HEADER, SCENARIO_HEADER)
    return {number for number, line in enumerate(lines) if line.strip() in headers}


def _parse_stars(lines: Sequence[str]) -> tuple[str, str]:
    starts = []
    for header in (EXPLORE_HEADER, SCENARIO_HEADER):
        numbers = [number for number, line in enumerate(lines) if line.strip() == header]
        if not numbers:
            raise _problem(f"the line `{header}` is missing")
        _check_single(numbers, f"the line `{header}`")
        starts += numbers
    explore, scenario = starts
    if scenario < explore:
        raise _problem(f"`{SCENARIO_HEADER}` stands before `{EXPLORE_HEADER}`")
    return (
        _body(lines[explore + 1 : scenario], EXPLORE_HEADER),
        _body(lines[scenario + 1 :], SCENARIO_HEADER),
    )


def _parse_headings(
    lines: Sequence[str], begin: int, task: Sequence[int], test: Sequence[int]
) -> tuple[str, str]:
    _check_single(task, "the heading of the task")
    _check_single(test, "the heading of the test")
    if task and test and test[0] < task[0]:
        raise _problem(f"`{lines[test[0]].strip()}` stands before `{lines[task[0]].strip()}`")
    end = test[0] if test else len(lines)
    scenario = "\n".join(lines[end + 1 :]).strip()
    if task:
        return _body(lines[task[0] + 1 : end], lines[task[0]].strip()), scenario
    explore = "\n".join(lines[begin:end]).strip()
    if not explore:
        raise PromptError("the task is empty: write what is to be done")
    return explore, scenario


def _check_single(numbers: Sequence[int], what: str) -> None:
    if len(numbers) > 1:
        places = ", ".join(str(number + 1) for number in numbers)
        raise _problem(f"{what} must stand there once, but it does in lines {places}")


def _body(lines: Sequence[str], header: str) -> str:
    body = "\n".join(lines).strip()
    if not body:
        raise _problem(f"there is nothing below `{header}`")
    return body


def _problem(reason: str) -> PromptError:
    return PromptError(
        f"the task file isn't in the expected format: {reason}. Expected:\n\n{MARKDOWN_FORM}\n"
        f"or, with stars:\n\n{EXPECTED_FORM}"
    )


PAIR_PATTERN = r"(?P<key>[A-Za-z][\w-]*)\s*[:=](?P<value>.*)"
# "make test  # all of them": the comment behind a value without quotation marks
COMMENT_PATTERN = r"(?:^|\s)#.*"


def read_front_matter(text: str, where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    lines, settings = _split(text)
    for number in settings:
        line = lines[number]
        if not line.strip() or line.strip().startswith("#"):
            continue
        try:
            pair = re.fullmatch(PAIR_PATTERN, line.rstrip())
            if pair is None:
                raise _fault(f"{line.strip()!r} is no setting", "a line such as `max_rounds: 3`")
            setting = _setting(pair["key"])
            value = _value(pair["value"].strip())
            if value.strip():  # an empty one says nothing
                _check(setting, value)
            if setting.name in found:
                raise _fault(f"{setting.key} is set twice", "it once")
        except PromptError as error:
            raise PromptError(f"{where}, line {number + 1}: {error}") from None
        found[setting.name] = value
    return found


def _setting(word: str) -> Setting:
    key = word.lower().replace("-", "_")
    setting = BY_KEY.get(key)
    if setting is not None and setting.name in IN_TASK:
        return setting
    if setting is not None:
        raise PromptError(f"a task cannot set {key}; set it yourself, with {setting.ways}")
    known = [name.lower() for name in IN_TASK]
    close = get_close_matches(key, known)
    raise _fault(f"there is no setting {word}", " or ".join(close) or f"one of {', '.join(known)}")


def _value(text: str) -> str:
    if not text.startswith(('"', "'")):
        return re.sub(COMMENT_PATTERN, "", text).strip()
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        value = None
    if not isinstance(value, str):
        raise _fault(f"{text} is no text in quotation marks", "both of them, and nothing behind")
    return value


def _check(setting: Setting, value: str) -> None:
    fault, given = f"{setting.key} is {value!r}", {setting.name: value}
    if setting.name == "FLOW" and not re.fullmatch(FLOW_NAME_PATTERN, value.strip()):
        raise _fault(fault, "the name of a flow; a file only by --flow or CAO_FLOW")
    try:
        read_value(given, setting.name)
        read_word(given, "PROVIDER")
        read_role_providers(given)
    except ConfigError as error:
        raise _fault(fault, error.expected) from None


def _fault(fault: str, expected: str) -> PromptError:
    return PromptError(f"{fault}; expected {expected}")
