"""Finds the persona an agent is started with: a Markdown file with YAML front matter.

    ---
    name: tester
    description: Tries the scenario and says PASS or FAIL.
    ---
    You are the tester. …

The packaged ones are replaced by files of the same name in the folders that are searched first.
A folder may belong to a project from anywhere, so a file is taken for what it says and no more:
one that is no profile is an error that names the file and shows nothing of it.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from cli_agent_orchestrator._internal.providers.base import Profile
from cli_agent_orchestrator.errors import UnknownName, UsageError

PACKAGED = Path(__file__).parent.parent / "profiles"

NAME_PATTERN = r"[A-Za-z0-9_-]+"
FRONT_MATTER_PATTERN = r"(?ms)---[ \t]*\n(.*?)^---[ \t]*$"
MAX_BYTES = 100_000
"""A profile travels as one argument of a command; the system takes no more than 128 KiB."""


class _PlainLoader(yaml.SafeLoader):
    """YAML without references: a few lines of them can stand for more than any memory holds."""

    # Any: as in the library, which has no types here.
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError
        return super().compose_node(parent, index)


def find_profile(name: str, folders: Sequence[Path]) -> Profile:
    """Return the profile of that name from the first folder that has it, the packaged ones last."""
    if re.fullmatch(NAME_PATTERN, name):
        for folder in (*folders, PACKAGED):
            file = folder / f"{name}.md"
            if file.is_file():
                return _read(name, file)
    raise UnknownName("profile", name, profile_names(folders))


def profile_folders(project: Path, config_folder: Path) -> tuple[Path, Path]:
    """Return where profiles are besides the package: the project's own, then the user's own."""
    return project / ".cao" / "profiles", config_folder / "profiles"


def profile_names(folders: Sequence[Path]) -> tuple[str, ...]:
    """Return the names of all profiles there are, in alphabetical order."""
    files = [file for folder in (*folders, PACKAGED) for file in folder.glob("*.md")]
    return tuple(
        sorted(
            {
                file.stem
                for file in files
                if re.fullmatch(NAME_PATTERN, file.stem) and file.is_file()
            }
        )
    )


def _read(name: str, file: Path) -> Profile:
    text = _text(file)
    front = re.match(FRONT_MATTER_PATTERN, text)
    if front is None:
        raise _bad(file, "does not begin with front matter: name and description between two '---'")
    fields = _fields(front[1], file)
    if fields.get("name", name) != name:
        raise _bad(file, f"has another name in its front matter; {name!r} was expected")
    description = fields.get("description", "")
    if not isinstance(description, str):
        raise _bad(file, "has a description that is no text")
    prompt = text[front.end() :].strip()
    if not prompt:
        raise _bad(file, "has no text below its front matter")
    return Profile(name, description.strip(), prompt)


def _text(file: Path) -> str:
    try:
        with file.open("rb") as source:
            data = source.read(MAX_BYTES + 1)
    except OSError as error:
        raise _bad(file, f"cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise _bad(file, f"has more than {MAX_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _bad(file, f"is not UTF-8 (byte {error.start})") from None
    if "\0" in text:
        raise _bad(file, "has a zero byte in it")
    return text.replace("\r\n", "\n")


def _fields(source: str, file: Path) -> dict[str, Any]:  # whatever YAML holds
    try:
        fields = yaml.load(source, _PlainLoader)
    except yaml.MarkedYAMLError as error:
        # The error's own text would quote the file.
        place = f" in line {error.problem_mark.line + 2}" if error.problem_mark else ""
        raise _bad(file, f"has front matter that is no YAML{place}: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise _bad(file, "has front matter that is no YAML") from None
    if not isinstance(fields, dict):
        raise _bad(file, "has front matter without `name:` and `description:`")
    return fields


def _bad(file: Path, reason: str) -> UsageError:
    return UsageError(f"the profile {str(file)!r} {reason}")
