"""How a browser signs in: by a link that works once, then by a cookie and a key.

Cookies do not know ports: every other web server of this machine that the user visits is sent ours.
So a cookie alone opens nothing. The browser keeps a key beside it for pages of this very port. It
is never sent: whoever takes the port while our server is not there would get it. The page signs
each request with it instead, and what is signed names the server that the request is for.

    cookie   1.EXPIRY.NONCE.MAC
    key      a MAC of the same under another label
    proof    a MAC, under the key, of CHALLENGE HOST METHOD TARGET

The challenge is a new one at each start of the server, so that no proof can be kept for later; host
and port keep others from passing a request on to us. Cookie and key are made under a secret that
comes from the server's token: a server that is started again knows them, and a new token makes them
worthless. Nothing of them is kept on the server.
"""

import hmac
import re
from hashlib import sha256

LINK_SECONDS = 300.0
MOST_LINKS = 100
SIGNED_IN_SECONDS = 30 * 86_400
MOST_COOKIES = 10
"""So many of our name are tried: another server of this machine may have set one for its paths."""

# 1.1763200000.5f0c….90ab…
COOKIE_PATTERN = r"1\.(?P<expiry>[0-9]{1,12})\.(?P<nonce>[0-9a-f]{32})\.(?P<mac>[0-9a-f]{64})"


def request_words(challenge: str, host: str, method: str, target: str) -> str:
    return f"{challenge} {host} {method} {target}"


def signature(key: str, words: str) -> str:
    """Return what only who has a key can make of some words."""
    return hmac.digest(key.encode(), words.encode("utf-8", "replace"), sha256).hex()


class PageSecret:
    """What cookies and keys of one server are made under."""

    def __init__(self, token: str) -> None:
        self._secret = hmac.digest(token.encode(), b"cao-page", sha256)
        self.cookie_name = f"cao_page_{self._mac('name')[:8]}"
        """Different for servers of different tokens, which would else overwrite each other's."""

    def sign_in(self, now: float, nonce: str) -> tuple[str, str]:
        """Return a new cookie and its key; the nonce has 32 random hexadecimal digits."""
        words = f"1.{int(now) + SIGNED_IN_SECONDS}.{nonce}"
        return f"{words}.{self._mac('cookie', words)}", self._mac("key", words)

    def is_signed_in(self, cookies: str, request: str, proof: str, now: float) -> bool:
        """Does a Cookie header hold a cookie of ours, and is a request signed with its key?

        `request` is what is signed, see `request_words`; `proof` is the signature.
        """
        pairs = (pair.strip().partition("=") for pair in cookies.split(";"))
        own = [value for name, _, value in pairs if name == self.cookie_name]
        return any(self._fits(cookie, request, proof, now) for cookie in own[:MOST_COOKIES])

    def _fits(self, cookie: str, request: str, proof: str, now: float) -> bool:
        read = re.fullmatch(COOKIE_PATTERN, cookie, re.ASCII)
        if read is None or int(read["expiry"]) <= now:
            return False
        words = cookie.rpartition(".")[0]
        is_ours = hmac.compare_digest(read["mac"], self._mac("cookie", words))
        wanted = signature(self._mac("key", words), request)
        return is_ours and hmac.compare_digest(proof.encode(), wanted.encode())

    def _mac(self, label: str, words: str = "") -> str:
        return hmac.digest(self._secret, f"{label} {words}".encode(), sha256).hex()


class Links:
    """The links that nobody has used yet; each works once, and not for long.

    `now` is seconds that never go back: a clock that is set back makes no link last longer.
    """

    def __init__(self) -> None:
        # Not the codes themselves: looking up one tells by its time how near a guess was.
        self._expiries: dict[bytes, float] = {}

    def add(self, code: str, now: float) -> None:
        """Let a code, which nobody can guess, be used once; of too many the oldest is forgotten."""
        self._forget(now)
        while len(self._expiries) >= MOST_LINKS:
            del self._expiries[next(iter(self._expiries))]
        self._expiries[_digest(code)] = now + LINK_SECONDS

    def use(self, code: str, now: float) -> bool:
        """Is it the code of a link that was not used yet? It is used then."""
        self._forget(now)
        return self._expiries.pop(_digest(code), None) is not None

    def _forget(self, now: float) -> None:
        self._expiries = {one: at for one, at in self._expiries.items() if at > now}


def _digest(code: str) -> bytes:
    return sha256(code.encode("utf-8", "replace")).digest()
