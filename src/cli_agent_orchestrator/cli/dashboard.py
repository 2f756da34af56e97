"""`cao dashboard`: the page in the browser."""

import os
import re
import socket
import sys
import webbrowser
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import click
import httpx

from ..client.client import ApiClient
from ..client.find import Found, find_server, name_server
from ..core.files import Folder
from ..core.text import printable
from ..core.watch import Waker
from ..errors import ApiRefused, UsageError
from ..hosting.connect import find_or_start, run_own_server
from ..settings.layout import state_folder
from ..show.markup import tag
from .interrupts import Interrupts

# /dashboard/sign-in#b6Zk…
LINK_PATTERN = r"/dashboard/sign-in#[A-Za-z0-9_-]{16,200}"
WAY_FILE = "dashboard.html"
NOT_OURS = (
    "the server at {url} is not yours, so it makes no link for you; without --api and CAO_API the "
    "page is shown by your own server"
)
OPENED = "The page opens in your browser. If it does not, open this address:"
ONCE = "It works once, within five minutes, and signs the browser in for 30 days."
OWN = "No server was running, so this command runs one until Ctrl-C. Agents go on without it."


@click.command()
@click.option("--no-open", is_flag=True, help="Print the address, and open no browser.")
@click.option("--api", metavar="URL", help="The server.  [CAO_API]")
def dashboard(no_open: bool, api: str | None) -> None:
    """See your runs in the browser as they go on, and steer them there.

    Opens a page of the server on this machine; the address holds a code that works once. If no
    server runs, this command runs one until Ctrl-C. On a machine without a screen, let ssh bring
    the page to yours (ssh -L 9889:127.0.0.1:9889 HOST), then open the address there.
    """
    with ExitStack() as stack:
        started: list[Found] = []

        def start() -> Found:
            started.append(stack.enter_context(run_own_server(os.environ)))
            return started[0]

        named = name_server(os.environ, api)
        found = find_or_start(
            # One without a port, of a short command, shows no page.
            lambda lasting: find_server(os.environ, named, lasting=True),
            start,
            state_folder(os.environ),
        )
        address = found.url + ask_for_link(found)
        opens = not no_open and can_open(os.environ, sys.platform)
        lead = OPENED if opens else "Open this address in a browser:"
        click.echo(f"{lead}\n  {address}\n{ONCE}")
        if opens:
            webbrowser.open(way_to(state_folder(os.environ), address).as_uri())
        elif not no_open:
            port, host = httpx.URL(found.url).port, printable(socket.gethostname())
            way = f"ssh -L {port}:127.0.0.1:{port} {host}"
            click.echo(f"From another machine, type there first:  {way}")
        if started:
            click.echo(OWN)
            waker = Waker()
            with Interrupts("") as interrupts:
                interrupts.when_noted(waker.wake)
                while interrupts.noted is None:
                    waker.wait(86_400.0)


def ask_for_link(found: Found) -> str:
    if found.token is None and found.socket is None:
        raise UsageError(NOT_OURS.format(url=found.url))
    with ApiClient(found.url, token=found.token, transport=found.transport) as client:
        try:
            path = client.page_link()
        except ApiRefused as error:
            if error.status_code not in (404, 405):
                raise
            path = ""  # of another program, which has no page
    if not re.fullmatch(LINK_PATTERN, path):
        raise UsageError(NOT_OURS.format(url=found.url))
    return path


def can_open(environ: Mapping[str, str], platform: str) -> bool:
    """Is there a screen here on which a browser can open? Not over ssh."""
    if environ.get("SSH_CONNECTION"):
        return False
    return platform == "darwin" or any(map(environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))


def way_to(folder: Path, address: str) -> Path:
    """Return a file that leads a browser to an address.

    The browser is started with the name of that file: all users of a machine see the arguments of
    programs, and the address is for one of them alone.
    """
    lead = tag("meta", http_equiv="refresh", content=f"0;url={address}")
    html = tag("html", tag("head", lead, tag("title", "cao")), lang="en")
    Folder(folder).replace(WAY_FILE, f"<!doctype html>{html}".encode(), mode=0o600)
    return (folder / WAY_FILE).absolute()
