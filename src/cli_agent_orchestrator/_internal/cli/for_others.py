"""What others are shown who have never seen the machine: no path begins where only it has one."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from cli_agent_orchestrator._internal.runs.reports.deeds import Deeds
from cli_agent_orchestrator._internal.runs.reports.report import Report

T = TypeVar("T")

# What a path may begin after: not another path; an option may have it at once (-I/x), an address
# may be one of a file, and slashes may be too many.
BEFORE = r"(?<![\w./-])(?P<before>file://|-[A-Za-z]{1,12}|)(?:(?<!:)/{1,8}(?=/))?"
END_OF_PATH = r"(?![\w-]|\.\w)"
ELSEWHERE = ("/home/", "/Users/", "/root/", "/tmp/", "/var/folders/")
# The folder of a person, or of files that do not last
ELSEWHERE_PATTERN = (
    rf"{BEFORE}(?:/private)?"
    r"(?:/(?:home|Users)/[\w.-]*\w|/(?:root|tmp)(?=/[\w.])|/var/folders(?:/[\w+]+){1,2})"
)


def for_others(found: Report, home: Path, state: Path) -> Report:
    """Return a report in which no path begins outside of the project, the state or home folder."""

    def short(text: str) -> str:
        return without_places(text, (found.wd, found.project), home, state)

    def place(text: str) -> str:
        in_tree = found.project not in ("", found.wd)
        is_own = Path(text).is_relative_to(found.wd) and not in_tree
        is_own = is_own or not Path(text).is_relative_to(state)
        return short(text) if is_own else f"{Path(text).relative_to(state)} in your state folder"

    def each(texts: Mapping[str, str]) -> dict[str, str]:
        return {short(name): short(text) for name, text in texts.items()}

    return replace(
        found,
        task=short(found.task),
        archive=place(found.archive),
        state_file=place(found.state_file),
        evidence=short(found.evidence),
        reason=short(found.reason),
        notes=each(found.notes),
        open_notes=each(found.open_notes),
        setbacks=each(found.setbacks),
        deeds=Deeds(
            tuple(map(short, found.deeds.changes)),
            short(found.deeds.proof),
            tuple(map(short, found.deeds.suspicions)),
            tuple(map(short, found.deeds.circles)),
            place(found.deeds.logs),
            tuple(map(short, found.deeds.repository)),
            tuple(map(short, found.deeds.before)),
            short(found.deeds.patch),
        ),
        diff=short(found.diff),
        turns=[replace(turn, outcome=short(turn.outcome)) for turn in found.turns],
        acts=[replace(act, text=short(act.text)) for act in found.acts],
    )


def without_places(text: str, folders: Sequence[str], home: Path, state: Path | None = None) -> str:
    """Return a page for others: paths begin in its folders, and the home folder is `~`.

    The state folder is named as such, wherever it is. Where the folder of another person or one
    for what does not last begins a path, its beginning is left out.

    >>> without_places("/home/ada/shop/a.py, /home/bob/x", ["/home/ada/shop"], Path("/home/ada"))
    'a.py, …/x'
    """
    own = ((folder, "", ".") for folder in folders)
    kept = (str(state or ""), "(state folder)/", "(state folder)")
    for folder, inside, itself in (*own, kept, (str(home), "~/", "~")):
        if len(folder) > 1 and folder in text:
            place = BEFORE + re.escape(folder)
            text = re.sub(f"{place}/", rf"\g<before>{inside}", text)
            text = re.sub(f"{place}{END_OF_PATH}", rf"\g<before>{itself}", text)
    if any(place in text for place in ELSEWHERE):
        text = re.sub(ELSEWHERE_PATTERN, r"\g<before>…", text)
    return text


def in_each_text(value: T, change: Callable[[str], str]) -> T:
    """Return a value in which every text is changed, however deep it lies.

    Words of ours stay as they are: members of an enumeration, and keys.
    """
    # Any: what it is made of is only known here.
    changed: Any = value
    if type(value) is str:
        changed = change(str(value))
    elif is_dataclass(value) and not isinstance(value, type):
        inside = {one.name: getattr(value, one.name) for one in fields(value) if one.init}
        new = {name: in_each_text(one, change) for name, one in inside.items()}
        changed = replace(value, **new)
    elif isinstance(value, Mapping):
        changed = {key: in_each_text(one, change) for key, one in value.items()}
    elif isinstance(value, list | tuple):
        changed = type(value)(in_each_text(one, change) for one in value)
    return cast(T, changed)


def shown_folder(wd: str, home: Path) -> str:
    """Return how a project is named to others: below the home folder, else by its name alone."""
    path = Path(wd)
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else path.name or wd
