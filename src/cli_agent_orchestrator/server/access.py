"""Who may talk to the server: Host, Origin and token are looked at before anything else.

Every web page its user opens can send requests to a local server, so being local is no proof of
anything. A page is recognized by what browsers cannot be talked out of sending:

- Host is the name the page was loaded from when its owner points that name at this machine
  (DNS rebinding), so only loopback names and names the user allowed are answered.
- Origin and Sec-Fetch-Site tell that a page is asking, so both must say it is our own.

The token keeps out everything else that runs on the machine. In its place the server's own page
shows a cookie and a key, see `PageAccess`. `check` decides; `Access` acts.

An agent can read the token, as it is the same user. What it sends from its terminal may look, not
steer: that is found out by the connection.
"""

import asyncio
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hmac import compare_digest

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import ServerEnding
from .answers import EarlyProblem, Problem

# localhost:9889   127.0.0.1   [::1]:9889
HOST_PATTERN = r"([a-z0-9._-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?"
PROOF_HEADER = "X-CAO-Proof"
LOOKED_AT = (
    b"host",
    b"origin",
    b"sec-fetch-site",
    b"sec-fetch-mode",
    b"sec-fetch-dest",
    b"authorization",
    b"cookie",
    PROOF_HEADER.lower().encode(),
)
USUAL_PORT = 80
ENDING = 503
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
FROM_AGENT = "requests from an agent's terminal may look, not steer; send this from your own"
OPEN_REQUESTS = (("GET", "/health"),)
"""What needs no token: it tells that the server is there."""
OVER_SOCKET = "socket"
"""The host of a client that came by the Unix socket, which only the user can open; its port is the
number of its process."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What the server's own page in a browser sends in place of a token."""

    method: str
    path: str
    target: str
    """Path and query, letter by letter."""
    host: str
    """As the browser knows it, with its port."""
    cookies: str
    proof: str
    """That of this very request."""


@dataclass(frozen=True, slots=True)
class AccessRules:
    """What a request must show."""

    token: str | None
    """None: no token is asked for. Host and Origin are checked all the same."""
    allowed_hosts: frozenset[str] = frozenset()
    """Names besides the loopback ones, as `host_name` returns them."""
    is_open: Callable[[str, str], bool] = lambda method, path: False
    """Is a request, by its method and path, one of the page that is answered for everybody? It
    holds nothing of the user's then."""
    is_signed_in: Callable[[PageRequest], bool] = lambda request: False
    """Does a request show who has signed in at this server?"""
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
    """Return hosts as `host_name` returns them; addresses that stand for all of them are no names.

    `fe80::1` gives `[fe80::1]`, `0.0.0.0` gives nothing.
    """
    plain = {host.lower().strip("[]") for host in hosts} - {"0.0.0.0", "::"}
    return frozenset(f"[{host}]" if ":" in host else host for host in plain)


def check(rules: AccessRules, scope: Scope) -> EarlyProblem | None:
    picked: dict[bytes, list[str]] = {name: [] for name in LOOKED_AT}
    for name, value in scope["headers"]:
        if name in picked:
            picked[name].append(value.decode("latin-1"))
    hosts = picked[b"host"]
    host = host_name(hosts[0]) if len(hosts) == 1 else None
    if host is None:
        return EarlyProblem(400, "the request needs exactly one well-formed Host header")
    if host not in LOOPBACK and host not in rules.allowed_hosts:
        return EarlyProblem(
            421,
            f"this server does not answer to the name {host}: "
            "use 127.0.0.1, or start the server with that name allowed",
        )
    method, path = scope["method"], scope["path"]
    is_page = rules.is_open(method, path)
    refused = _check_page(picked, may_be_led_to=is_page and method == "GET")
    if refused is not None or is_page or (method, path) in OPEN_REQUESTS:
        return refused
    return _check_token(rules, scope, picked)


def _check_page(headers: dict[bytes, list[str]], *, may_be_led_to: bool) -> EarlyProblem | None:
    """Refuse what a web page asks for, unless the page is this server's own on a loopback name.

    Another page, or a file, may lead the user to ours: it sees nothing of it.
    """
    host = headers[b"host"][0].lower()
    origins = headers[b"origin"]
    own = host_name(host) in LOOPBACK and [o.lower() for o in origins] == [f"http://{host}"]
    if origins and not own:
        return EarlyProblem(403, "requests from web pages of another origin are refused")
    modes, places = headers[b"sec-fetch-mode"], headers[b"sec-fetch-dest"]
    if may_be_led_to and modes == ["navigate"] and places == ["document"]:
        # In a tab of its own, and not in a frame.
        return None
    if any(site not in ("none", "same-origin") for site in headers[b"sec-fetch-site"]):
        return EarlyProblem(403, "requests from web pages of another site are refused")
    return None


def _check_token(
    rules: AccessRules, scope: Scope, headers: dict[bytes, list[str]]
) -> EarlyProblem | None:
    if rules.token is None or _is_signed_in(rules, scope, headers):
        return None
    authorizations = headers[b"authorization"]
    scheme, _, given = authorizations[0].partition(" ") if len(authorizations) == 1 else ("",) * 3
    matches = compare_digest(given.strip().encode(), rules.token.encode())
    if scheme.lower() == "bearer" and matches:
        return None
    problem = "the token is wrong" if authorizations else "a token is needed"
    return EarlyProblem(
        401,
        f"{problem}: send 'Authorization: Bearer TOKEN'; "
        "the token is in the file 'token' of the server's state folder",
        {"WWW-Authenticate": "Bearer"},
    )


def _is_signed_in(rules: AccessRules, scope: Scope, headers: dict[bytes, list[str]]) -> bool:
    proofs = headers[PROOF_HEADER.lower().encode()]
    if len(proofs) != 1 or headers[b"authorization"]:
        return False
    host = headers[b"host"][0].lower()
    # Somebody at another port could pass on what our page has sent to him.
    if port_of(host) != scope["server"][1]:
        return False
    query = scope["query_string"]
    target = scope["raw_path"] + (b"?" + query if query else b"")
    cookies = "; ".join(headers[b"cookie"])
    return rules.is_signed_in(
        PageRequest(
            scope["method"], scope["path"], target.decode("latin-1"), host, cookies, proofs[0]
        )
    )


def port_of(host: str) -> int:
    """Return the port in a Host header that is well-formed.

    >>> port_of("[::1]:9889"), port_of("[::1]")
    (9889, 80)
    """
    port = host.rpartition("]")[2].rpartition(":")[2] if ":" in host.rpartition("]")[2] else ""
    return int(port) if port else USUAL_PORT


class Access:
    """ASGI middleware that lets through only what `check` has nothing against.

    A request that is given up because the server ends is told so.
    """

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            # The server speaks no WebSocket; closing before accepting answers 403.
            await send({"type": "websocket.close", "code": 1008})
            return
        refusal = await self._refusal(scope) if scope["type"] == "http" else None
        is_answered = False

        async def note(message: Message) -> None:
            nonlocal is_answered
            is_answered = True
            await send(message)

        try:
            await (refusal or self._app)(scope, receive, note)
        except asyncio.CancelledError:
            # Nobody else but the server itself ends a request.
            if not is_answered:
                await Problem(ENDING, str(ServerEnding()))(scope, receive, send)

    async def _refusal(self, scope: Scope) -> EarlyProblem | None:
        host, number = scope.get("client") or ("", None)
        is_own = host == OVER_SOCKET
        if not is_own and (refusal := check(self._rules, scope)) is not None:
            return refusal
        from_agent = self._rules.from_agent
        if from_agent is None or scope["method"] == "GET" or number is None:
            return None
        port = None if is_own else scope["server"][1]
        is_agents = await asyncio.to_thread(from_agent, number, port)
        return EarlyProblem(403, FROM_AGENT) if is_agents else None
