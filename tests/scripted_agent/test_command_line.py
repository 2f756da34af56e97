"""Starting the program: its options, and what a bad start is told."""

import subprocess
import sys
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import UsageError
from cli_agent_orchestrator.scripted_agent.__main__ import main, read_options

MODULE = "cli_agent_orchestrator.scripted_agent"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "--profile is missing"),
        (["--profile"], "--profile needs a value"),
        (["--profile="], "--profile needs a value"),
        (["--model", "x"], "there is no option '--model'"),
        (["x"], "there is no option 'x'"),
    ],
)
def test_a_bad_option_is_named(arguments: list[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read_options(arguments)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[[rule]]\nseconds = -1", "script.toml: rule 1: seconds is -1, expected a number"),
        (b"title = ", "script.toml: Invalid value (at end of document)"),
        (b"answer = '\xff'", "script.toml is not UTF-8"),
        (None, "script.toml cannot be read: No such file or directory"),
    ],
)
def test_a_bad_script_ends_the_program_with_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, problem: str
) -> None:
    path = tmp_path / "script.toml"
    if content is not None:
        path.write_bytes(content)
    assert main(["--profile", "tester", "--script", str(path)]) == 2
    assert problem in capsys.readouterr().err


def test_a_script_can_be_checked_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0
    assert capsys.readouterr().out == "default.toml: 5 rules\n"


def test_without_a_terminal_the_program_ends_with_code_2() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", MODULE, "--profile", "tester"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        2,
        "scripted agent: the scripted agent needs a terminal\n",
    )
