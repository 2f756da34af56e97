"""What `--help` says to somebody who reads it for the first time."""

import re
import shlex

import click
import pytest

from cli_agent_orchestrator.cli.main import COMMANDS, cao


def commands_of(group: click.Group, path: tuple[str, ...] = ()) -> dict[str, click.Command]:
    """Return all commands by what is typed for them."""
    context = click.Context(group)
    found: dict[str, click.Command] = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found[" ".join((*path, name))] = command
        if isinstance(command, click.Group):
            found |= commands_of(command, (*path, name))
    return found


ALL = commands_of(cao)
TAKING = [
    name
    for name, command in ALL.items()
    if any(isinstance(part, click.Argument) for part in command.params)
]


def help_of(name: str) -> str:
    context = click.Context(ALL[name], info_name=f"cao {name}")
    return ALL[name].get_help(context)


def examples_of(name: str) -> list[list[str]]:
    """Return the words behind `cao` of each example in the help of a command."""
    lines = re.findall(r"^ +(?:\w+: +)?cao (.*?)(?: {2,}#.*| [<|>] .*)?$", help_of(name), re.M)
    return [shlex.split(line) for line in lines]


@pytest.mark.parametrize("name", TAKING)
def test_a_command_that_takes_something_shows_how_it_is_typed(name: str) -> None:
    assert any(" ".join(words).startswith(name) for words in examples_of(name)), help_of(name)


@pytest.mark.parametrize("name", ALL)
def test_every_example_can_be_typed_as_it_is(name: str) -> None:
    for first, *rest in examples_of(name):
        command, words = ALL[first], rest
        while isinstance(command, click.Group) and (words or command.no_args_is_help):
            first, words = f"{first} {words[0]}", words[1:]
            command = ALL[first]
        command.make_context(first, list(words))


@pytest.mark.parametrize("name", ALL)
def test_no_sentence_of_a_list_of_commands_is_cut(name: str) -> None:
    if isinstance(ALL[name], click.Group):
        assert "..." not in help_of(name).partition("Commands:")[2]


@pytest.mark.parametrize("name", [*ALL, ""])
def test_every_command_that_is_named_is_there(name: str) -> None:
    text = help_of(name) if name else cao.get_help(click.Context(cao))
    text = re.sub(r"\s+", " ", text)
    for words in re.findall("`cao (.*?)`", text):
        assert words.split()[0] in (*COMMANDS, "COMMAND"), words
