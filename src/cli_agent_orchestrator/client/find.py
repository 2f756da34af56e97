"""Which server a command uses, and what it is given.

1. The one that was named: `--api`, then CAO_API, then API, then CAO_PORT, then what a file names.
   If it is not there, that is an error; no other takes its place. A project's own file may have
   come from anybody: the server that it names must prove to be ours, too.
2. The one that runs in our state folder, then the one at the usual port: each only if it proves
   that it knows our token. Until it has, it is sent a challenge and nothing else.
3. None: the command runs a server of its own.

A token is sent to a server that proved to know it, and to one that the user named together with
CAO_TOKEN. Other servers that were named are used without one.
"""

import contextlib
import ipaddress
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import httpx

from ..core.files import Folder
from ..core.identity import (
    ADDRESS_FILE,
    LOOPBACK,
    PASSING,
    Found,
    is_answer,
    new_challenge,
    server_url,
)
from ..errors import ApiRefused, ApiUnreachable, ConfigError, in_words
from ..settings.config import (
    DEFAULT_PORT,
    LAST_PORT,
    check_state_folder,
    read_port,
    read_text,
    state_folder,
)
from ..settings.table import SETTINGS_FILE
from .client import ApiClient, is_loopback

PROOF_SECONDS = 5.0
"""How long a server may take for its proof, from the first byte to the last."""
STRANGER_SECONDS = 1.0
"""The same for one of which nothing is known but that it listens at the usual port of this machine:
if it says nothing, it delays every command by as much."""
PROOF_LIMIT = 16 * 1024
"""Bytes of such an answer."""
OPTION, ARGUMENT = "--api", "api="
"""What the user calls the option, in a command and in Python."""
USERS_OWN = (OPTION, ARGUMENT, "CAO_API", "API", "CAO_PORT")
"""Where a name is surely from the user; a file may have come with a project."""


@dataclass(frozen=True, slots=True)
class Named:
    """A server that somebody named."""

    url: str
    by: str
    """Where the name stands: `--api`, `CAO_API`, …"""


@dataclass(frozen=True, slots=True)
class Discovery:
    """What came of looking for a server."""

    found: Found | None
    """None: run one of your own."""
    remarks: tuple[str, ...] = ()
    """What was there and is not used, for people."""
    passing: Found | None = None
    """One that ends with a short command, where a lasting one is looked for."""


def name_server(
    environ: Mapping[str, str], option: str | None = None, *, bare: bool = False, by: str = OPTION
) -> Named | None:
    """Return the server that an option or the environment names; `API` only if `bare` counts.

    `by` is what the user calls the option.
    """
    variables = ("CAO_API", "API") if bare else ("CAO_API",)
    given = ((by, option), *((one, environ.get(one)) for one in variables))
    for name, text in given:
        if text and text.strip():
            return Named(text.strip().rstrip("/"), name)
    port = read_port(environ, 0)
    return Named(_usual_address(environ, port), "CAO_PORT") if port else None


def discover(
    environ: Mapping[str, str],
    named: Named | None = None,
    *,
    default_port: int = DEFAULT_PORT,
    lasting: bool = False,
) -> Discovery:
    """Find the server to use; raise ApiUnreachable if the one named is not there.

    Where a `lasting` one is wanted, one that ends with a short command is not the one to use.
    """
    tokens = tuple(known_tokens(environ))
    if named is not None:
        return Discovery(_use_named(named, environ, tokens))
    remarks: list[str] = []
    for one in _candidates(environ, default_port):
        proof = _ask_for_proof(one.url, tokens, one.seconds)
        if isinstance(proof, _Proof):
            found = Found(proof.url, proof.token, one.how, proved=True)
            if lasting and not one.lasting:
                return Discovery(None, tuple(remarks), passing=found)
            return Discovery(found, tuple(remarks))
        if proof is not None:
            remarks.append(
                f"the server at {one.url} ({one.how}) is not used: {proof}; if it is to be used, "
                f"name it: CAO_API={one.url}"
            )
    return Discovery(None, tuple(remarks))


def is_still_ours(found: Found) -> bool:
    """Does the server at that address prove (once more) that it knows the token?"""
    return found.token is not None and isinstance(_ask_for_proof(found.url, (found.token,)), _Proof)


def known_tokens(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the tokens we know: CAO_TOKEN, and that of our state folder."""
    token = environ.get("CAO_TOKEN", "").strip()
    if token and not (token.isascii() and token.isprintable()):
        raise ConfigError("CAO_TOKEN", "(not shown)", "printable ASCII characters")
    if token:
        yield token
    folder = state_folder(environ)
    check_state_folder(folder)
    with contextlib.suppress(OSError):
        kept = Folder(folder).read("token").decode("utf-8", "replace").strip()
        if kept.isascii() and kept.isprintable() and kept:
            yield kept


def announced_server(environ: Mapping[str, str]) -> "Candidate | None":
    """Return what the server of the state folder tells there of itself, None if it has ended."""
    try:
        pid, url, *passing = Folder(state_folder(environ)).read(ADDRESS_FILE).decode().split()
        os.kill(int(pid), 0)
    except (OSError, ValueError, OverflowError):
        return None
    if passing not in ([], [PASSING]):
        return None
    return Candidate(url, "of your state folder", lasting=not passing)


def _usual_address(environ: Mapping[str, str], port: int) -> str:
    return server_url(read_text(environ, "CAO_HOST", LOOPBACK), port)


@dataclass(frozen=True, slots=True)
class Candidate:
    """Where a server of ours may be."""

    url: str
    how: str
    """Where the address is from, in words."""
    seconds: float = PROOF_SECONDS
    """How long it may take for its proof."""
    lasting: bool = True
    """Does it last longer than one short command?"""


def _candidates(environ: Mapping[str, str], default_port: int) -> Iterator[Candidate]:
    announced = announced_server(environ)
    if announced:
        yield announced
    # CAO_PORT=0: any port will do, so there is no usual one.
    usual = _usual_address(environ, default_port)
    is_announced = announced is not None and usual == announced.url
    if not environ.get("CAO_PORT") and not is_announced:
        seconds = STRANGER_SECONDS if is_loopback(usual) else PROOF_SECONDS
        yield Candidate(usual, "at the usual port", seconds)


def _use_named(named: Named, environ: Mapping[str, str], tokens: tuple[str, ...]) -> Found:
    how = f"named by {named.by}"
    _check_presence(named)
    found = Found(named.url, None, how, named=True)
    if named.by in USERS_OWN:
        found = replace(found, token=environ.get("CAO_TOKEN", "").strip() or None)
    if found.token is None and tokens and is_loopback(named.url):
        proof = _ask_for_proof(named.url, tokens)
        if isinstance(proof, _Proof):
            return replace(found, url=proof.url, token=proof.token, proved=True)
    if named.by == SETTINGS_FILE:
        raise ConfigError(
            f"api in {SETTINGS_FILE}",
            named.url,
            f"a server that proves to be yours; if this one is to be used, name it: "
            f"CAO_API={named.url}",
        )
    return found


def _check_presence(named: Named) -> None:
    """Raise if nobody answers there; any answer will do."""
    try:
        with ApiClient(named.url) as client, contextlib.suppress(ApiRefused):
            client.health()
    except ConfigError as error:
        raise ConfigError(named.by, error.value, error.expected) from None
    except ApiUnreachable as error:
        raise ApiUnreachable(
            f"{named.url} (named by {named.by})",
            error.reason,
            maybe_received=error.maybe_received,
        ) from error


@dataclass(frozen=True, slots=True)
class _Proof:
    url: str
    """The address that was proved: with a number, so that it leads to nobody else."""
    token: str


def _ask_for_proof(
    url: str, tokens: tuple[str, ...], seconds: float = PROOF_SECONDS
) -> _Proof | str | None:
    """Return the proof of a server, in words why there is none, or None if nobody is there."""
    address = _parsed(url)
    if address is None:
        return "its address cannot be read"
    challenge = new_challenge()
    path = f"/identity?challenge={challenge}"
    deadline = time.monotonic() + seconds
    try:
        with socket.create_connection(address, seconds) as connection:
            peer: tuple[str, int] = connection.getpeername()[:2]
            body = _get(connection, path, _netloc(peer), deadline)
    except TimeoutError:
        return f"it did not answer within {seconds:.0f} s"
    except (OSError, UnicodeError) as error:
        refused = isinstance(error, ConnectionRefusedError | socket.gaierror)
        return None if refused else f"it did not answer ({in_words(error)})"
    for token in tokens:
        if is_answer(_identity(body), token, challenge, peer):
            return _Proof(f"http://{_netloc(peer)}", token)
    return "it does not prove that it knows your token (another user's, or an older version?)"


def _parsed(url: str) -> tuple[str, int] | None:
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        return None
    port = 80 if parts.port is None else parts.port
    usable = parts.scheme == "http" and parts.host and 0 < port <= LAST_PORT
    return (parts.host, port) if usable else None


def _netloc(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ipaddress.ip_address(host).version == 6 else f"{host}:{port}"


def _get(connection: socket.socket, path: str, host: str, deadline: float) -> bytes:
    """Return the body of an answer.

    By hand: a stranger who answers drop by drop, or without end, is not waited for any longer.
    """
    connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode("ascii"))
    answer = b""
    while len(answer) < PROOF_LIMIT:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("too slow")
        connection.settimeout(left)
        received = connection.recv(PROOF_LIMIT)
        if not received:
            break
        answer += received
    return answer.partition(b"\r\n\r\n")[2]


def _identity(body: bytes) -> str:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    return str(answer.get("identity", "")) if isinstance(answer, dict) else ""
