"""The settings at the top of a task: what they may say, and which line is at fault.

---
flow = "pair"
max_rounds: 3          # both ways of writing will do
---

A task may have come from anybody. So it says how it is worked on and by which agents, but never
names a command, a server or a path, nor what agents may do without asking.
"""

import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches

from cli_agent_orchestrator._internal.pipeline.task import settings_lines
from cli_agent_orchestrator._internal.settings.table import (
    BY_KEY,
    IN_TASK,
    PREFIX,
    Setting,
    ValueKind,
)
from cli_agent_orchestrator._internal.settings.values import (
    FLOW_NAME_PATTERN,
    canonical,
    read_role_providers,
    read_word,
)
from cli_agent_orchestrator.errors import ConfigError, PromptError

PAIR_PATTERN = r"(?P<key>[A-Za-z][\w-]*)\s*[:=](?P<value>.*)"
# "make test  # all of them": the comment behind a value without quotation marks
COMMENT_PATTERN = r"(?:^|\s)#.*"
EXPECTED = {
    ValueKind.FLAG: "true or false",
    ValueKind.COUNT: "a whole number, at least {minimum}",
    ValueKind.SECONDS: "a number of seconds",
}


def read_front_matter(text: str, where: str) -> dict[str, str]:
    """Return the settings that a task makes, by variable name; `where` is how the user knows it."""
    found: dict[str, str] = {}
    for number, line in settings_lines(text):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        try:
            setting, value = _read_line(line)
            if setting.name in found:
                raise _fault(f"{setting.key} is set twice", "it once")
        except PromptError as error:
            raise PromptError(f"{where}, line {number}: {error}") from None
        found[setting.name] = value
    return found


def _read_line(line: str) -> tuple[Setting, str]:
    pair = re.fullmatch(PAIR_PATTERN, line.rstrip())
    if pair is None:
        raise _fault(f"{line.strip()!r} is no setting", "a line such as `max_rounds: 3`")
    setting = _setting(pair["key"])
    value = _value(pair["value"].strip())
    _check(setting, value)
    return setting, value


def _setting(word: str) -> Setting:
    key = word.lower().replace("-", "_")
    setting = BY_KEY.get(key)
    if setting is not None and setting.name in IN_TASK:
        return setting
    if setting is not None:
        ways = f"{setting.option} or {PREFIX}{setting.name}"
        raise PromptError(f"a task cannot set {key}; set it yourself, with {ways}")
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
    """Refuse a value that no run could have; an empty one says nothing."""
    if not value.strip():
        return
    given = {setting.name: value}
    if setting.kind in EXPECTED and canonical(setting.name, value) is None:
        expected = EXPECTED[setting.kind].format(minimum=setting.minimum)
        raise _bad_value(setting, value, expected)
    if setting.name == "FLOW" and not re.fullmatch(FLOW_NAME_PATTERN, value.strip()):
        raise _bad_value(setting, value, "the name of a flow; a file only by --flow or CAO_FLOW")
    try:
        _read_agents(given)
    except ConfigError as error:
        raise _bad_value(setting, value, error.expected) from None


def _read_agents(given: Mapping[str, str]) -> None:
    read_word(given, "PROVIDER")
    read_role_providers(given)


def _bad_value(setting: Setting, value: str, expected: str) -> PromptError:
    return _fault(f"{setting.key} is {value!r}", expected)


def _fault(fault: str, expected: str) -> PromptError:
    return PromptError(f"{fault}; expected {expected}")
