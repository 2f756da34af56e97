"""`cao notify`: who is told of runs, and whether it arrives."""

import os
import sys
import time

import click

from ..core.models import EXIT_ERROR, EXIT_USAGE
from ..core.text import one_line
from ..hosting.user import read_notices
from ..notices.decide import NoticeKind, NoticeSettings, RunNotice, TerminalWay, example, signal_of
from ..settings.config import config_folder
from .imports import importing

HOW = """\
Nobody is told of runs yet but the terminal in which one is shown. Write into
{file} what you like of this:

[notify]
desktop = true                          # notify-send, or a Mac's own notifications
ntfy = "https://ntfy.sh/my-topic"       # to your phone; a topic that nobody guesses
webhook = "https://example.com/hook"    # gets JSON
command = ["my-program", "argument"]    # gets JSON on its standard input
events = ["needs_you", "pass", "fail"]  # if you do not want all of them

Then try it with: cao notify test"""


@click.group(invoke_without_command=True)
@click.pass_context
def notify(ctx: click.Context) -> None:
    """Say who is told of runs: that an agent asks you, that a run passed, failed or stopped.

    Your own config.toml has it, in its table [notify]; no project can change it. `cao notify`
    shows what it says, or how it is written.

    \b
    cao notify
    cao notify test
    cao notify test --event needs_you
    """
    if ctx.invoked_subcommand is None:
        settings = read_notices(os.environ)
        for line in _words(settings):
            click.echo(line)


@notify.command()
@click.option(
    "--event",
    type=click.Choice([str(kind) for kind in NoticeKind]),
    default=str(NoticeKind.NEEDS_YOU),
    show_default=True,
    help="What is told.",
)
def test(event: str) -> None:
    """Send one notice on every channel, once, and say what came of it.

    Ends with 0 if all have arrived, 3 if one has not, 2 if nothing is configured.
    """
    with importing():  # httpx is heavy
        from ..notices.send import NotSent, channels_of

    settings = read_notices(os.environ)
    channels = channels_of(settings, os.environ)
    notice = example(NoticeKind(event), time.time())
    _ring(notice, settings.terminal)
    if not channels:
        click.echo(_how(), err=True)
        sys.exit(EXIT_USAGE)
    failed = False
    for channel in channels:
        try:
            channel.send(notice)
            came = "sent"
        except NotSent as error:
            came = f"not sent: {error}"
            failed = True
        click.echo(f"{channel.name:<9} {came}")
    if notice.kind not in settings.events:
        click.echo(f"Runs do not tell {event}: it is not among the events of [notify].")
    sys.exit(EXIT_ERROR if failed else 0)


def _ring(notice: RunNotice, way: TerminalWay) -> None:
    """Tell it here, as the live view does, if this is a terminal."""
    if not sys.stdout.isatty():
        click.echo("terminal  no terminal here")
        return
    click.echo(signal_of(notice, way), nl=False)
    click.echo(f"terminal  {way}")


def _words(settings: NoticeSettings) -> list[str]:
    if not settings.channels:
        return [_how()]
    events = ", ".join(str(kind) for kind in NoticeKind if kind in settings.events)
    return [
        f"told by   {', '.join(settings.channels)}; in the terminal of a run: {settings.terminal}",
        f"events    {events or 'none'}",
        "Try it with: cao notify test",
    ]


def _how() -> str:
    return HOW.format(file=one_line(str(config_folder(os.environ) / "config.toml")))
