"""How a browser signs in: by a link that works once, then by a key.

Cookies do not know ports: every other web server of this machine that the user visits is sent ours.
So there is none. The browser keeps the key in the storage of this very port and sends it as a
Bearer token.

    key      1763200000.90ab…      its expiry, and a MAC of that under the server's token

So a server that is started again knows the key, and a new token makes it worthless. Before the page
sends its key, the server proves that it knows the key: while it is down, another user of the
machine may listen at its port.
"""

import hmac
import re
from hashlib import sha256

LINK_SECONDS = 300.0
SIGNED_IN_SECONDS = 30 * 86_400
KEY_PATTERN = r"(?P<expiry>[0-9]{1,12})\.[0-9a-f]{64}"


def new_key(token: str, now: float) -> str:
    return _key(token, int(now) + SIGNED_IN_SECONDS)


def is_key(token: str, key: str, now: float) -> bool:
    read = re.fullmatch(KEY_PATTERN, key, re.ASCII)
    if read is None or int(read["expiry"]) <= now:
        return False
    return hmac.compare_digest(key, _key(token, int(read["expiry"])))


def server_proof(token: str, expiry: int, port: int, nonce: str) -> str:
    """Return what only a server that can make the key with this expiry can answer.

    It counts for one port: a program at another cannot pass the question on to our server.
    """
    return hmac.digest(_key(token, expiry).encode(), f"{port} {nonce}".encode(), sha256).hex()


def _key(token: str, expiry: int) -> str:
    return f"{expiry}.{hmac.digest(token.encode(), f'cao-page {expiry}'.encode(), sha256).hex()}"


class Links:
    """The codes of links that were not used yet; each works once, and not for long.

    `now` is seconds that never go back: a clock that is set back makes no link last longer.
    """

    def __init__(self) -> None:
        self._expiries: dict[str, float] = {}

    def add(self, code: str, now: float) -> None:
        self._expiries = {one: at for one, at in self._expiries.items() if at > now}
        self._expiries[code] = now + LINK_SECONDS

    def use(self, code: str, now: float) -> bool:
        """Is it the code of a link that was not used yet? It is used then."""
        return self._expiries.pop(code, now) > now
