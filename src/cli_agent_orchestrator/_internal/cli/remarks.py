"""What is to be said about an agent that is installed: its version, and whether it is logged in."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

LOGIN_QUESTIONS = {
    # agent: (first version that knows the question, the question); older ones might take it as work
    "codex": ((0, 101), ("login", "status")),
    "claude_code": ((2, 1, 105), ("auth", "status")),
}

LOGIN_COMMANDS = {"codex": ("login",)}
"""The words after the program that log somebody in; the others ask for it when they start."""

SCREEN_ADVICE = (
    "a screen that is not recognized is shown as `unknown`, never as idle; "
    "`cao explain ID` says why"
)
SIGNAL_ADVICE = f"its own signals are read all the same; without one, {SCREEN_ADVICE}"


@dataclass(frozen=True, slots=True)
class Program:
    """What the program of an agent told about itself."""

    path: str
    version: tuple[int, ...]
    """Empty if it could not be read."""
    logged_in: bool | None
    """None if it cannot be asked."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something to know about an agent."""

    text: str
    advice: str = ""
    """What it means for the user; empty if all is well."""


def version_words(version: tuple[int, ...]) -> str:
    """Return a version as people write it."""
    return ".".join(map(str, version)) or "version unknown"


def login_question(name: str, version: tuple[int, ...]) -> tuple[str, ...]:
    """Return the arguments that ask an agent whether it is logged in, none if it cannot tell."""
    since, question = LOGIN_QUESTIONS.get(name, ((), ()))
    return question if version >= since else ()


def login_command(name: str, path: str) -> str:
    """Return the command by which somebody logs in."""
    return shlex.join([path, *LOGIN_COMMANDS.get(name, ())])


def remarks_on_version(
    version: tuple[int, ...], tested: tuple[tuple[int, ...], ...]
) -> Iterator[Remark]:
    """Say whether a version lies outside of those that were tested.

    What differs from the newest of them only behind MAJOR.MINOR counts as tested.
    """
    if not tested:
        text = "no version of it was tested; its screens are known from recordings only"
        yield Remark(text, SCREEN_ADVICE)
        return
    oldest, newest = min(tested), max(tested)
    span = " to ".join(map(version_words, dict.fromkeys((oldest, newest))))
    if not version:
        yield Remark(f"version unknown; tested: {span}", SIGNAL_ADVICE)
    elif version[:2] == newest[:2]:
        return
    elif version > newest:
        yield Remark(f"newer than any that was tested ({span})", SIGNAL_ADVICE)
    elif version < oldest[: len(version)]:
        yield Remark(f"older than any that was tested ({span})", SIGNAL_ADVICE)


def remarks_on_login(found: Program) -> Iterator[Remark]:
    """Say whether an agent is logged in, if that is known."""
    if found.logged_in:
        yield Remark("logged in")
    elif found.logged_in is not None:
        yield Remark("not logged in", "unless it works with a key of its own")
    else:
        yield Remark("it does not tell whether it is logged in")
