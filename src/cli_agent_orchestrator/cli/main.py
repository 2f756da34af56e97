"""The `cao` command: finds the subcommand, runs it, turns errors into a message and an exit code.

Exit codes: 0 done (a run: PASS), 1 a run ended with FAIL, 2 bad usage, configuration or task,
3 stopped by an error, 129, 130 and 143 ended by a signal, 141 nobody read the output any more.
"""

import gc
import logging
import os
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import click
from click.shell_completion import CompletionItem, shell_complete

from .. import errors
from ..core.text import one_line, printable
from ..version import __version__
from .imports import importing

GROUPS = {
    # group: commands, each with its function, which is imported when it is run, and its help
    "Run it": {
        "run": ("run:run", "Take a task through agents until it passes."),
        "demo": ("flow:demo", "See a whole run with built-in agents: no account, no network."),
        "init": ("init:init", "Write a task to fill in and a cao.toml that fits the project."),
        "flow": ("flow:flow", "List flows, draw one, try one: who works in which order."),
    },
    "See it": {
        "runs": ("runs:runs", "List runs: what they do, where, and how they ended."),
        "watch": ("runs:watch", "Follow a run under way."),
        "dashboard": ("dashboard:dashboard", "See runs in the browser, and steer them there."),
        "report": ("report:report", "Print a run on one page."),
        "replay": ("replay:replay", "Play what the agents of a run showed."),
        "diff": ("work:diff", "Show what a run, or one of its turns, changed in the files."),
        "ls": ("terminals:ls", "List agents: role, run, what each one does, where."),
        "output": ("terminals:output", "Print an agent's last answer, screen or status."),
    },
    "Steer it": {
        "send": ("steer:send", "Send a message to an agent, with its next prompt or now."),
        "answer": ("steer:answer", "Answer what an agent of a run asks."),
        "pause": ("steer:pause", "Pause a run after its present turn."),
        "resume": ("steer:resume", "Resume a run after a pause, a stop or a crash."),
        "set": ("steer:change", "Change a setting of a run under way."),
        "skip": ("steer:skip", "Count the review under way as approved."),
        "stop": ("steer:stop", "End a run, terminals or a whole session."),
        "attach": ("terminals:attach", "Look at a terminal and type into it (real tmux)."),
    },
    "Take the work": {
        "apply": ("work:apply", "Bring the work of a run's branch into yours."),
        "pr": ("work:pr", "Push a run's branch and open a pull request."),
        "discard": ("work:discard", "Remove a run's work tree and branch."),
        "undo": ("work:undo", "Take back what a run did to the files, all or since a turn."),
    },
    "Set up": {
        "doctor": ("doctor:doctor", "Check what is installed and what is missing."),
        "agent": ("agent:agent", "Add an agent of your own, and try one."),
        "server": ("serve:server", "Run the server that owns the terminals."),
        "trust": ("trust:trust", "Allow the commands of a project's own cao.toml."),
        "notify": ("notify:notify", "Choose how you are notified of runs, and try it."),
        "clean": ("clean:clean", "Remove what ended runs have left: agents, old records."),
        "completion": ("complete:completion", "Print the completion script of a shell."),
    },
}
COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}
MOVED = {
    # names of earlier versions, and names that people try first
    "status": "cao runs",
    "logs": "cao watch",
    "hint": "cao send",
    "explain": "cao output ROLE --why",
    "restore": "cao undo --to TURN",
}
STEERING = (
    *("init", "run", "demo", "pause", "resume", "send", "answer", "set", "skip", "stop", "attach"),
    *("undo", "apply", "pr", "discard", "clean", "trust"),
)
"""Commands that an agent may not use in its terminal; requests are refused by the server."""
HELP = ("-h", "--help")
COMPLETION = "_CAO_COMPLETE"


class LazyCommands(click.Group):
    """A group whose commands are imported when they are needed, so that --help is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        with importing():
            command = getattr(import_module(f"cli_agent_orchestrator.cli.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except click.UsageError as error:
            if args[0] in MOVED:
                text = f"`cao {args[0]}` is not a command: use `{MOVED[args[0]]}`"
                raise errors.UsageError(text) from None
            text = f"{error.message.rstrip('.')}{errors.suggestion(args[0], COMMANDS)}."
            raise click.UsageError(text, error.ctx) from error
        is_done = not ctx.resilient_parsing and not any(word in HELP for word in rest)
        if name in STEERING and is_done:
            from ..terminals.programs import check_outside

            check_outside(os.environ)
        return name, command, rest

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [
            CompletionItem(name, help=text)
            for name, (_, text) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in GROUPS.items():
            with formatter.section(title):
                width = len("completion")
                formatter.write_dl(
                    [(name.ljust(width), text) for name, (_, text) in commands.items()]
                )


@click.group(cls=LazyCommands, context_settings={"help_option_names": HELP})
@click.version_option(__version__, "-V", "--version", message="cao %(version)s")
def cao() -> None:
    """Run AI coding agents in tmux terminals, and take a task through them until it passes.

    \b
    Day one (`cao demo` shows a whole run without an account):
      cao doctor            # what is installed, and what is missing
      cao init              # in your project: writes task.md and cao.toml
      cao run task.md       # when you have filled in task.md
      cao runs              # what runs, and how runs ended
      cao dashboard         # the same in the browser
      cao apply             # bring the work into your branch
      cao undo              # or take it back

    `cao COMMAND --help` explains each command.
    """


def main(command: click.Command = cao) -> None:
    """Run the command line; every error ends here."""
    _fill_missing_streams()
    # Without a handler Python would write warnings of libraries to the screen.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        if asked := os.environ.get(COMPLETION):
            sys.exit(shell_complete(command, {}, "cao", COMPLETION, asked))
        # `main` of click would end with 1 if nobody reads, as a run that failed does.
        with command.make_context("cao", sys.argv[1:]) as context:
            command.invoke(context)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(errors.EXIT_INTERRUPTED)
    except KeyboardInterrupt:
        _report("")  # ends the line with the ^C of the terminal
        sys.exit(errors.EXIT_INTERRUPTED)
    except BrokenPipeError:
        sys.exit(errors.EXIT_CLOSED)
    except (errors.OrchestratorError, OSError) as error:
        where = ""
        try:
            Path.cwd()
        except OSError:
            where = "; the folder you are in was removed: go to another one"
        _report(f"cao: {errors.in_words(error)}{where}")
        sys.exit(errors.exit_code_of(error))
    except Exception as error:  # noqa: BLE001 - Python would end with 1, as a run that failed does
        if os.environ.get("CAO_DEBUG"):
            _report("".join(traceback.format_exception(error)))
        fault = f"{type(error).__name__}: {one_line(str(error)[:500])}"
        _report(
            f"cao {__version__}: internal error: {fault}. "
            "Please report it with the output of CAO_DEBUG=1"
        )
        sys.exit(errors.EXIT_ERROR)
    finally:
        _drop_what_cannot_be_written()
        # The process ends; without this it would look for garbage in all that was imported.
        gc.freeze()


def _fill_missing_streams() -> None:
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # It takes the lowest number that is free: the one that no other file is to get.
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8", closefd=False))


def _drop_what_cannot_be_written() -> None:
    """Python would try it again at the very end, complain, and end with a code of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _report(text: str) -> None:
    with suppress(OSError):
        click.echo(printable(text), err=True)
