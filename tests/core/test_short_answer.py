"""Programs that are asked something short, and the variables of git that none is given."""

import os
import subprocess
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.programs import MOST_READ, ShortAnswer, ask, without_repository

NONE = ShortAnswer(None, "")
LONG = 60
"""Seconds that nothing here takes."""


def say(script: str, seconds: float = LONG, *, with_errors: bool = False) -> ShortAnswer:
    return ask(["/bin/sh", "-c", script], os.environ, seconds, with_errors=with_errors)


def test_what_a_program_says_is_returned_with_its_exit_code() -> None:
    assert say("echo 1.2; echo no >&2; exit 3") == ShortAnswer(3, "1.2\n")
    assert say("echo no >&2", with_errors=True) == ShortAnswer(0, "no\n")
    assert say("pwd; cat") == ShortAnswer(0, "/\n")
    assert say("printf '\\377'").text == "\ufffd"


@pytest.mark.parametrize("script", ["yes aaaa", f"head -c {MOST_READ + 1} /dev/zero"])
def test_a_program_that_says_too_much_does_not_answer(script: str) -> None:
    assert say(script) == NONE
    assert len(say(f"head -c {MOST_READ} /dev/zero").text) == MOST_READ


@pytest.mark.parametrize(
    "script",
    ["exec sleep 60", "sleep 60 & echo 1.2", "exec >&- 2>&-; sleep 60", "echo 1; sleep 60"],
)
def test_a_program_that_hangs_does_not_answer_and_nothing_of_it_is_left(
    script: str, tmp_path: Path
) -> None:
    held = tmp_path / "held"
    os.mkfifo(held)
    reader = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert say(f"exec 9>{held}; {script}", 0.3) == NONE
        os.set_blocking(reader, True)
        assert os.read(reader, 1) == b"", "ends when nobody holds it any more"
    finally:
        os.close(reader)


def test_an_answer_that_nobody_wants_any_more_is_not_waited_for() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"\n")
    try:
        assert ask(["/bin/sleep", str(LONG)], os.environ, LONG, leave=reader) == NONE
    finally:
        os.close(writer)
        os.close(reader)


def test_a_program_that_is_not_there_is_an_error_and_one_may_be_near(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OSError, match="no-such-program"):
        ask(["/no-such-program"], None, LONG)
    (tmp_path / "near").symlink_to("/bin/echo")
    monkeypatch.chdir(tmp_path)
    assert ask(["./near", "a"], None, LONG) == ShortAnswer(0, "a\n")


def test_what_git_knows_of_one_repository_is_left_out_and_nothing_else() -> None:
    listed = subprocess.run(
        ["git", "rev-parse", "--local-env-vars"], capture_output=True, text=True, check=True
    )
    names = listed.stdout.split()
    assert "GIT_DIR" in names
    other = {"GIT_AUTHOR_NAME": "Ada", "GIT_SSH_COMMAND": "ssh -4", "PATH": os.defpath}
    assert without_repository({**dict.fromkeys(names, "/elsewhere"), **other}) == other
