"""Commands that are forked do what new processes do."""

import pytest

from tests.e2e.conftest import CAO, Machine


@pytest.mark.parametrize("words", [("run", "-", "--provider", "nosuch"), ("dance",)])
def test_a_forked_command_cannot_be_told_from_a_new_one(
    machine: Machine, words: tuple[str, ...]
) -> None:
    stdin = "ä task\n" * 20_000  # more than a pipe holds
    new = machine.new_process([*CAO, *words], input=stdin)
    assert machine.warm.fits(machine.env)
    forked = machine.cao(*words, stdin=stdin)
    assert (forked.returncode, forked.stderr) == (new.returncode, new.stderr)
    # Without the time at the beginning.
    assert forked.stdout.split()[1:] == new.stdout.split()[1:]
