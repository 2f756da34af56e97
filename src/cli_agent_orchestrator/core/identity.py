"""How a server proves that it knows a token that nobody sends.

The client sends a challenge, a random number. The answer is a MAC of it under the token, and of the
address at which the server took the connection: an answer that a stranger fetched elsewhere is of
no use to him. The label keeps the answers from being worth anything for another purpose.
"""

import hmac
import re
import secrets
from dataclasses import dataclass
from hashlib import sha256

LABEL = "cao-identity"
CHALLENGE_PATTERN = "^[0-9a-f]{64}$"


def new_challenge() -> str:
    """Return a challenge that was never used before."""
    return secrets.token_hex(32)


def answer_challenge(token: str, challenge: str, address: tuple[str, int]) -> str:
    """Return what only those can say who know the token; `address` is IP address and port.

    A challenge has a fixed form, so that no two different questions look the same.
    """
    if not re.fullmatch(CHALLENGE_PATTERN, challenge, re.ASCII):
        raise ValueError("a challenge has 64 hexadecimal digits")
    host, port = address
    text = f"{LABEL} {challenge} {port} {host}"
    return hmac.new(token.encode(), text.encode(), sha256).hexdigest()


def is_answer(given: str, token: str, challenge: str, address: tuple[str, int]) -> bool:
    """Does an answer show that whoever listens at that address knows the token?"""
    expected = answer_challenge(token, challenge, address)
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


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
