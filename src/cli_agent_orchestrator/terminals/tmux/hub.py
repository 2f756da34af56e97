"""Finding tmux and making its server ours: version, environment, options, leftovers, the hub.

The server is started with next to no environment, and even that is taken out again: a program gets
the variables that its command names, and what tmux itself sets.
"""

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...errors import TmuxMissing
from .connection import ControlConnection
from .death import remind_of_children
from .protocol import (
    HUB_SESSION,
    Answer,
    PaneInfo,
    Size,
    command,
    list_line,
    option_lines,
    parse_panes,
    parse_version,
    unset_lines,
    windows_outside_hub,
)

OLDEST_VERSION = (3, 2)
INSTALL_HINT = "install it with `apt install tmux` or `brew install tmux`"
VERSION_SECONDS = 20.0
LONGEST_SOCKET_PATH = 103
"""Bytes of a path, where systems allow the least."""
LAST_WORDS_SECONDS = 2.0
LONGEST_VERSION = 200
MOST_SAID = 64 * 1024
"""Bytes that a program which is asked for its version may say."""
CLIENT_TERM = "xterm-256color"
"""What our client says it is, whatever the server runs in: some agents ask tmux for it."""
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMUX_TMPDIR")
CODE_LOOKS = (0.01, 0.03, 0.1)
"""Pauses between looks for the exit code of a program that has just ended."""


@dataclass(frozen=True, slots=True)
class TmuxServer:
    """A tmux server that is ours."""

    pid: int
    panes: list[PaneInfo]


def server_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the few variables that tmux itself needs; no secret is among them."""
    kept = {name: environ[name] for name in INHERITED if environ.get(name)}
    return {"TERM": CLIENT_TERM, "SHELL": "/bin/sh", **kept}


def check_socket_path(socket: str, env: Mapping[str, str]) -> None:
    """Refuse a folder in which no socket can be made, before tmux is waited for in vain."""
    folder = env.get("TMUX_TMPDIR") or "/tmp"
    size = len(os.fsencode(Path(folder, f"tmux-{os.getuid()}", socket)))
    if size > LONGEST_SOCKET_PATH:
        raise TmuxMissing(
            f"TMUX_TMPDIR ({folder}) is too long for a socket: {size} bytes with the socket's "
            f"name, at most {LONGEST_SOCKET_PATH}; set it to a shorter folder"
        )


async def read_version(program: str, env: Mapping[str, str]) -> str:
    """Return the version of tmux as it says it: `3.3a`; TmuxMissing if it cannot serve."""
    try:
        process = await asyncio.create_subprocess_exec(
            *(program, "-V"),
            env=env,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        reason = f"tmux was not found ({program}: {error.strerror}); {INSTALL_HINT}"
        raise TmuxMissing(reason) from error
    said = await _short_answer(process)
    if said is None:
        raise TmuxMissing(f"{program} -V did not answer within {VERSION_SECONDS:g} seconds")
    return checked_version(program, process.returncode, said.decode("utf-8", "replace"))


def checked_version(program: str, code: int | None, said: str) -> str:
    """Return the version of a tmux that has answered; TmuxMissing if it cannot serve."""
    text = " ".join(said.split())[:LONGEST_VERSION]
    if code != 0:
        raise TmuxMissing(f"{program} -V failed: {text}; {INSTALL_HINT}")
    version = parse_version(text)
    if version is not None and version < OLDEST_VERSION:
        raise TmuxMissing(f"{text} is too old, 3.2 or later is needed; {INSTALL_HINT}")
    return text.removeprefix("tmux ")


async def _short_answer(process: asyncio.subprocess.Process) -> bytes | None:
    """Return all that a program says; None if it hangs or prints without end."""
    assert process.stdout is not None
    try:
        async with asyncio.timeout(VERSION_SECONDS):
            await process.stdout.readexactly(MOST_SAID)
    except asyncio.IncompleteReadError as ended:
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), VERSION_SECONDS)
            return ended.partial
    except TimeoutError:
        pass
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        # Python waits for the end of what is said, too, and that has to be read.
        with suppress(TimeoutError):
            await asyncio.wait_for(process.communicate(), LAST_WORDS_SECONDS)
    return None


async def take_over(connection: ControlConnection, size: Size) -> TmuxServer:
    """Set the server up, end what an earlier life of ours left behind, say what lives there."""
    clients = command(
        "list-clients", "-t", f"={HUB_SESSION}", "-F", "#{client_control_mode}:#{client_pid}"
    )
    ask_pid, ask_environment = (
        command("display-message", "-p", "#{pid}"),
        command("show-environment", "-g"),
    )
    asked = [*option_lines(size), ask_pid, ask_environment, clients, list_line()]
    *_, pid, environment, listed_clients, listed = await connection.send(asked)
    _end_stale_clients(listed_clients, connection.pid)
    outside = windows_outside_hub(listed.lines)
    lines = [
        *unset_lines(environment.text.splitlines()),
        *(command("link-window", "-d", "-s", w, "-t", f"={HUB_SESSION}:") for w in outside),
    ]
    if lines:
        await connection.send(lines)
    return TmuxServer(int(pid.text), await _list_with_exit_codes(connection, int(pid.text)))


async def _list_with_exit_codes(connection: ControlConnection, server: int) -> list[PaneInfo]:
    """Return all tagged panes, the dead with their exit codes as far as they can be had."""
    for pause in (*CODE_LOOKS, None):
        [answer] = await connection.send([list_line()])
        panes = parse_panes(answer.lines)
        if pause is None or all(info.exit_code is not None for info in panes if info.dead):
            break
        remind_of_children(server)
        await asyncio.sleep(pause)
    return panes


def _end_stale_clients(listed: Answer, own: int) -> None:
    """End control clients whose owner was killed: tmux waits for them to read, for ever."""
    for line in listed.text.splitlines():
        control, _, pid = line.partition(":")
        if control == "1" and pid.isdecimal() and int(pid) != own:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(int(pid), signal.SIGKILL)
