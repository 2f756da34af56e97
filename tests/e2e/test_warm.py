"""Commands that are forked do what new processes do."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import CAO, Machine


@pytest.mark.parametrize(
    "words",
    [
        ("--version",),
        ("run", "nowhere.md"),
        ("run", "-", "--provider", "nosuch"),
        ("dance",),
        ("runs", "--json"),
    ],
    ids=" ".join,
)
def test_a_forked_command_cannot_be_told_from_a_new_one(
    machine: Machine, words: tuple[str, ...]
) -> None:
    stdin = "ä task\n" * 20_000  # more than a pipe holds
    new = subprocess.run(
        [*CAO, *words],
        env=machine.env,
        cwd=machine.work,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert machine.warm.fits(machine.env)
    forked = machine.cao(*words, stdin=stdin)
    assert forked.returncode == new.returncode
    assert without_time(forked.stdout) == without_time(new.stdout)
    assert forked.stderr == new.stderr


def without_time(text: str) -> list[str]:
    """Return the lines of what a command printed, without the time at their beginning."""
    return [line[8:] if line[2:3] == ":" else line for line in text.splitlines()]


def test_each_has_its_own_folder_and_environment(machine: Machine) -> None:
    other = machine.home / "other"
    other.mkdir()
    machine.env["MAX_ROUNDS"] = "none"
    done = machine.cao("run", "nowhere.md", folder=other)
    assert (done.returncode, "MAX_ROUNDS is" in done.stderr) == (2, True), done.stderr
    del machine.env["MAX_ROUNDS"]
    done = machine.cao("run", "nowhere.md", folder=other)
    assert (done.returncode, f"{other}/nowhere.md" in done.stderr) == (2, True), done.stderr


def test_what_python_reads_when_it_starts_needs_a_new_one(machine: Machine) -> None:
    machine.env["PYTHONIOENCODING"] = "ascii"
    assert not machine.warm.fits(machine.env)
    assert machine.cao("--version").returncode == 0


def test_a_command_whose_end_nobody_wants_to_know_disturbs_no_other(machine: Machine) -> None:
    with Path(os.devnull).open("rb") as nothing:
        left = machine.warm.open(
            [*CAO[1:], "--version"], machine.env, machine.work, nothing.fileno()
        )
    for file in (left.stdout, left.stderr, left._answers):
        assert file is not None
        file.close()
    while Path(f"/proc/{left.pid}").exists():
        time.sleep(0.01)
    assert machine.cao("--version").returncode == 0
