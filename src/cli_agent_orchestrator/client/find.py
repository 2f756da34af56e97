"""Which server a command uses.

1. The one that was named: `--api`, then CAO_API, then API (for a run), then the `api` of a settings
   file. If it does not answer, that is an error.
2. The user's own, over the Unix socket in the state folder (`core/sockets.py`).
3. None: the command runs one of its own (`hosting/connect.py`).

A named server that is the user's own is reached over the socket as well, so that no token is sent.
Any other one is sent CAO_TOKEN, but only if the user has named it: a project's file may only name
the user's own server.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path

import httpx
from msgspec import Struct

from ..core.files import Folder
from ..core.sockets import ADDRESS_FILE, LASTING, NOWHERE, PASSING, find_socket
from ..errors import ApiError, ApiRefused, ApiUnreachable, ConfigError
from ..settings.layout import check_state_folder, state_folder
from ..settings.table import SETTINGS_FILE
from .client import ApiClient, is_loopback, socket_transport

OPTION, ARGUMENT = "--api", "api="
"""The name of the option, in a command and in Python."""
USERS_OWN = (OPTION, ARGUMENT, "CAO_API", "API")
"""These come from the user; a file may have come with a project."""
OWN_PATIENCE, PATIENCE = httpx.Timeout(2), httpx.Timeout(5)


class Named(Struct, frozen=True):
    url: str
    by: str
    """`--api`, `CAO_API`, …"""


class Found(Struct, frozen=True):
    url: str
    how: str
    socket: Path | None = None
    """Of the user's own server; None: it is reached at its address."""
    token: str | None = None

    @property
    def transport(self) -> httpx.BaseTransport | None:
        return socket_transport(self.socket) if self.socket else None


def name_server(
    environ: Mapping[str, str], option: str | None = None, *, bare: bool = False, by: str = OPTION
) -> Named | None:
    """Return the server that an option or the environment names; `API` only if `bare` counts."""
    variables = ("CAO_API", "API") if bare else ("CAO_API",)
    for name, text in ((by, option), *((one, environ.get(one)) for one in variables)):
        if text and text.strip():
            return Named(text.strip().rstrip("/"), name)
    return None


def find_server(
    environ: Mapping[str, str], named: Named | None = None, *, lasting: bool = False
) -> Found | None:
    """Find the server to use; raise if the one named does not answer.

    A `lasting` one does not end with a short command.
    """
    check_state_folder(state_folder(environ))
    own = _find_own(environ, LASTING)
    if named is None:
        return own or (None if lasting else _find_own(environ, PASSING))
    how = f"named by {named.by}"
    if own is not None and _is_same(own.url, named.url):
        return Found(own.url, how, own.socket)
    token = environ.get("CAO_TOKEN", "").strip() or None
    if token and not (token.isascii() and token.isprintable()):
        raise ConfigError("CAO_TOKEN", "(not shown)", "printable ASCII characters")
    try:
        with ApiClient(named.url) as server, contextlib.suppress(ApiRefused):  # any answer will do
            server.health(PATIENCE)
    except ConfigError as error:
        raise ConfigError(named.by, error.value, error.expected) from None
    except ApiUnreachable as error:
        where = f"{named.url} (named by {named.by})"
        maybe = error.maybe_received
        raise ApiUnreachable(where, error.reason, maybe_received=maybe) from error
    if named.by == SETTINGS_FILE:
        expected = f"your own server; to use this one, name it: CAO_API={named.url}"
        raise ConfigError(f"api in {SETTINGS_FILE}", named.url, expected)
    return Found(named.url, how, token=token if named.by in USERS_OWN else None)


def _find_own(environ: Mapping[str, str], name: str) -> Found | None:
    folder = state_folder(environ)
    path = find_socket(folder, name)
    if path is None:
        return None
    url = NOWHERE
    if name == LASTING:
        with contextlib.suppress(OSError):
            url = Folder(folder).read(ADDRESS_FILE).decode("utf-8", "replace").strip()
    try:
        with ApiClient(url, transport=socket_transport(path)) as server:
            server.health(OWN_PATIENCE)
    except (ApiError, ConfigError):
        # Killed or stopped: the next server that takes its place finds out.
        return None
    return Found(url, "yours, which runs already", path)


def _is_same(own: str, named: str) -> bool:
    try:
        one, other = httpx.URL(own), httpx.URL(named)
    except httpx.InvalidURL:
        return False
    same_host = one.host == other.host or (is_loopback(own) and is_loopback(named))
    return same_host and (one.port or 80) == (other.port or 80) and other.scheme == "http"
