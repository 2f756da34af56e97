"""Where a server is; light, so that the server itself need not import what its clients do."""

from dataclasses import dataclass

LOOPBACK = "127.0.0.1"
ADDRESS_FILE = "server"
"""The file in the state folder in which a server tells where it is."""
PASSING = "passing"
"""The last word there if it ends with a short command."""


@dataclass(frozen=True, slots=True)
class Found:
    """A server to be used."""

    url: str
    token: str | None
    """What it is to be sent; None if nothing."""
    how: str
    """Why it is the one, in words."""
    named: bool = False
    proved: bool = False
    """Has it shown that it knows the token?"""


def server_url(host: str, port: int) -> str:
    """Return the address of a server that listens there, as its own machine reaches it."""
    host = {"0.0.0.0": LOOPBACK, "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
