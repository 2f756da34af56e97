"""Who may use the server: Host, Origin and token are checked before anything else.

Every web page that the user opens can send requests to a local server. A page is recognized by
headers that it cannot choose:

- Host is the name the page was loaded from when its owner points that name at this machine
  (DNS rebinding), so only loopback names and names the user allowed are answered.
- Origin and Sec-Fetch-Site show that a page is asking, so both must name our own.

The token keeps out everything else that runs on the machine. In its place the server's own page
has a key, see `page/sign_in.py`. An agent can read the token, as it is the same user: requests from
its terminal, recognized by the connection, may look, not steer.
"""

import asyncio
import re
from collections.abc import Callable, Iterable
from hmac import compare_digest

from msgspec import Struct
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import ServerEnding
from .answers import Problem

# localhost:9889   127.0.0.1   [::1]:9889
HOST_PATTERN = r"([a-z0-9._-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?"
HEADERS = (
    *(b"host", b"origin", b"authorization"),
    *(b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest"),
)
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
OPEN_REQUESTS = (("GET", "/health"),)
"""They need no token."""
OVER_SOCKET = "socket"
"""The host of a client on the Unix socket, which only the user can open; its port is its process
id."""


class AccessRules(Struct, frozen=True):
    """What a request must show."""

    token: str | None
    """None: no token is needed. Host and Origin are checked all the same."""
    allowed_hosts: frozenset[str] = frozenset()
    """Names besides the loopback ones, as `host_name` returns them."""
    is_open: Callable[[str, str], bool] = lambda method, path: False
    """Is a request, by its method and path, for a part of the page without any data of the user?"""
    is_signed_in: Callable[[str, str], bool] = lambda path, key: False
    """May the browser with this key, in place of a token, ask for what is at a path?"""
    from_agent: Callable[[int, int | None], bool] | None = None
    """Is a client in an agent's terminal? It is named by its port and ours, else, over the socket,
    by its process. Blocks. None: there are no agents here."""


def host_name(host: str) -> str | None:
    """Return the name in a Host header, lower case and without port, None if it is malformed.

    `LocalHost:9889` gives `localhost`, `[::1]:9889` gives `[::1]`.
    """
    match = re.fullmatch(HOST_PATTERN, host.lower(), re.ASCII)
    return match.group(1) if match else None


def allowed_names(hosts: Iterable[str]) -> frozenset[str]:
    """Return hosts as `host_name` returns them; `fe80::1` is `[fe80::1]`, `0.0.0.0` is none."""
    plain = {host.lower().strip("[]") for host in hosts} - {"0.0.0.0", "::"}
    return frozenset(f"[{host}]" if ":" in host else host for host in plain)


def check(rules: AccessRules, scope: Scope) -> Problem | None:
    picked: dict[bytes, list[str]] = {name: [] for name in HEADERS}
    for name, value in scope["headers"]:
        if name in picked:
            picked[name].append(value.decode("latin-1"))
    hosts = picked[b"host"]
    host = host_name(hosts[0]) if len(hosts) == 1 else None
    if host is None:
        return Problem(400, "the request needs exactly one well-formed Host header")
    if host not in LOOPBACK and host not in rules.allowed_hosts:
        return Problem(
            421,
            f"this server does not answer to the name {host}: "
            "use 127.0.0.1, or start the server with --host of that name",
        )
    method, path = scope["method"], scope["path"]
    is_page = rules.is_open(method, path)
    refused = _check_page(picked, may_be_led_to=is_page and method == "GET")
    if refused is not None or is_page or (method, path) in OPEN_REQUESTS:
        return refused
    return _check_token(rules, path, picked[b"authorization"])


def _check_page(headers: dict[bytes, list[str]], *, may_be_led_to: bool) -> Problem | None:
    """Refuse the requests of web pages but this server's own on a loopback name.

    Another page may have a link to ours: it sees nothing of it.
    """
    host = headers[b"host"][0].lower()
    origins = headers[b"origin"]
    own = host_name(host) in LOOPBACK and [o.lower() for o in origins] == [f"http://{host}"]
    if origins and not own:
        return Problem(403, "requests from web pages of another origin are refused")
    modes, places = headers[b"sec-fetch-mode"], headers[b"sec-fetch-dest"]
    if may_be_led_to and modes == ["navigate"] and places == ["document"]:
        # In a tab of its own, and not in a frame.
        return None
    if any(site not in ("none", "same-origin") for site in headers[b"sec-fetch-site"]):
        return Problem(403, "requests from web pages of another site are refused")
    return None


def _check_token(rules: AccessRules, path: str, given: list[str]) -> Problem | None:
    if rules.token is None:
        return None
    scheme, _, key = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    key = key.strip()
    is_token = compare_digest(key.encode(), rules.token.encode())
    if scheme.lower() == "bearer" and (is_token or rules.is_signed_in(path, key)):
        return None
    problem = "the token is wrong" if given else "a token is needed"
    return Problem(
        401,
        f"{problem}: send 'Authorization: Bearer TOKEN'; "
        "the token is in the file 'token' of the server's state folder",
        {"WWW-Authenticate": "Bearer"},
    )


class Access:
    """ASGI middleware that passes on only the requests that `check` does not refuse."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = await self._refusal(scope)
        is_answered = False

        async def note(message: Message) -> None:
            nonlocal is_answered
            is_answered = True
            await send(message)

        try:
            await (refusal or self._app)(scope, receive, note)
        except asyncio.CancelledError:
            # Only the server itself cancels a request: when it ends.
            if not is_answered:
                await Problem(503, str(ServerEnding()))(scope, receive, send)

    async def _refusal(self, scope: Scope) -> Problem | None:
        host, number = scope.get("client") or ("", None)
        is_own = host == OVER_SOCKET
        if not is_own and (refusal := check(self._rules, scope)) is not None:
            return refusal
        from_agent = self._rules.from_agent
        if from_agent is None or scope["method"] == "GET" or number is None:
            return None
        port = None if is_own else scope["server"][1]
        if not await asyncio.to_thread(from_agent, number, port):
            return None
        return Problem(
            403, "requests from an agent's terminal may look, not steer; send this from your own"
        )
