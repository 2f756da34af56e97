"""`cao completion`: the script that makes a shell complete `cao`."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
COMPLETE_VARIABLE = "_CAO_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    bash: cao completion bash > ~/.local/share/bash-completion/completions/cao
    zsh:  cao completion zsh > a folder of your $fpath, as _cao
    fish: cao completion fish > ~/.config/fish/completions/cao.fish

    If the folder is not there yet, make it first: mkdir -p FOLDER
    """
    root = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    click.echo(kind(root, {}, "cao", COMPLETE_VARIABLE).source())
