"""`cao notify`: the channels of notices, and a test of them."""

import os
import sys
import time

import click

from ..core.text import one_line
from ..errors import EXIT_ERROR, EXIT_USAGE
from ..hosting.user import read_notices
from ..notices.decide import NoticeKind, example, signal_of
from ..settings.layout import config_folder

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
    shows what it says, or how it is written; `cao notify test` tries it.
    """
    if ctx.invoked_subcommand is not None:
        return
    settings = read_notices(os.environ)
    if not settings.channels:
        click.echo(_how())
        return
    events = ", ".join(str(kind) for kind in NoticeKind if kind in settings.events)
    channels = ", ".join(settings.channels)
    click.echo(f"told by   {channels}; in the terminal of a run: {settings.terminal}")
    click.echo(f"events    {events or 'none'}")
    click.echo("Try it with: cao notify test")


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
    # With httpx, which is heavy.
    from ..notices.send import NotSent, channels_of

    settings = read_notices(os.environ)
    channels = channels_of(settings, os.environ)
    notice = example(NoticeKind(event), time.time())
    if sys.stdout.isatty():  # as the live view does
        click.echo(signal_of(notice, settings.terminal), nl=False)
        click.echo(f"terminal  {settings.terminal}")
    else:
        click.echo("terminal  no terminal here")
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


def _how() -> str:
    return HOW.format(file=one_line(str(config_folder(os.environ) / "config.toml")))
