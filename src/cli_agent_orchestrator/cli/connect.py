"""The server of a command, and what is said about others that are not used."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..client.client import Answer, ApiClient
from ..errors import ApiRefused, NotFound, OrchestratorError, UsageError
from ..hosting.connect import client_for
from ..runs.record import run_of_session
from .imports import importing
from .printable import one_line


def connected(
    environ: Mapping[str, str], api: str | None = None
) -> AbstractContextManager[ApiClient]:
    """Return a client of the server to use, for as long as the context lasts."""
    return client_for(environ, api, importing=importing)


NOT_TOLD = "-"
NO_SUCH_THING = 404
NO_SUCH_ROUTE = (404, 405, 501)


@dataclass(frozen=True, slots=True)
class Listed:
    """A terminal as it is shown: each text in one line, `-` for what is not told."""

    id: str
    name: str
    session: str
    provider: str
    status: str
    permissions: str
    folder: str
    role: str
    """What the agent is for; the terminal's name if the server does not tell."""
    run: str
    """The run it belongs to; its session if it is none of a run."""
    created: float | None
    """Unix time of its start."""
    raw: Answer = field(repr=False)
    """What the server told."""

    @property
    def label(self) -> str:
        return f"{self.id} ({self.role})"

    @property
    def full_label(self) -> str:
        """As it is named beside terminals of other runs."""
        return f"{self.id} ({self.role} of {self.run})"

    def works_in(self, folder: Path) -> bool:
        """Does the agent work in a folder, or below it?"""
        told = self.raw.get("working_directory")
        if not isinstance(told, str) or not Path(told).is_absolute():
            return False
        try:
            return Path(told).resolve().is_relative_to(folder.resolve())
        except (OSError, RuntimeError, ValueError):
            # A loop of links, a name that is too long or no name at all: nobody works there.
            return False


def read_terminal(raw: Mapping[str, Any]) -> Listed:
    """Return a terminal as a server tells it."""
    session = _word(raw, "session_name", "tmux_session")
    return Listed(
        id=_word(raw, "id"),
        name=_word(raw, "name", "tmux_window"),
        session=session,
        provider=_word(raw, "provider"),
        status=_status_words(raw),
        permissions=_word(raw, "permissions"),
        folder=_word(raw, "working_directory"),
        role=_word(raw, "role", "name", "tmux_window"),
        run=run_of_session(session) or session,
        created=_time(raw.get("created_at")),
        raw=dict(raw),
    )


def all_terminals(client: ApiClient) -> list[Listed]:
    """Return all terminals of all sessions."""
    terminals = _listed(client)
    if terminals is None:
        raise OrchestratorError(
            f"the server at {client.base_url} cannot list its terminals; name one by its id"
        )
    return terminals


def find_terminal(client: ApiClient, wanted: str) -> Listed:
    """Return the one terminal with that id, the beginning of it, or that role or name."""
    terminals = _listed(client)
    if terminals is None:
        return _asked_for(client, wanted)
    named = [t for t in terminals if t.id != NOT_TOLD]
    exact = [t for t in named if wanted in (t.id, t.name, t.role)]
    found = exact or [t for t in named if t.id.startswith(wanted)]
    if not found:
        of_one = len({t.run for t in named}) == 1
        raise NotFound("terminal", wanted, [t.label if of_one else t.full_label for t in named])
    if len(found) > 1:
        names = ", ".join(t.full_label for t in found)
        raise UsageError(f"{wanted!r} could be any of {names}; name it by its id")
    return found[0]


def _asked_for(client: ApiClient, wanted: str) -> Listed:
    """Return the terminal with that id, of a server that cannot list what it has."""
    try:
        return read_terminal({"id": wanted, **client.get_terminal(wanted)})
    except ApiRefused as error:
        if error.status_code == NO_SUCH_THING:
            raise UsageError(f"the server has no terminal with the id {wanted!r}") from error
        raise


def _listed(client: ApiClient) -> list[Listed] | None:
    """Return all terminals, None if the server cannot list them."""
    try:
        sessions = client.list_sessions()
    except ApiRefused as error:
        if error.status_code in NO_SUCH_ROUTE:
            return None
        raise
    return [
        read_terminal(_completed(client, raw))
        for name in map(_session_name, sessions)
        if name
        for raw in _terminals_of(client, name)
    ]


def _terminals_of(client: ApiClient, session: str) -> Iterator[Answer]:
    try:
        listed = client.get_session(session).get("terminals")
        if not isinstance(listed, list):
            listed = client.list_terminals(session)
    except UsageError:  # it has a name that cannot be asked for
        listed = [{}]
    for raw in listed:
        if isinstance(raw, dict):
            yield {"session_name": session, **raw}


def _completed(client: ApiClient, raw: Answer) -> Answer:
    """Ask for the status and the folder where the list does not tell them."""
    name = raw.get("id")
    if not isinstance(name, str) or not name:
        return raw
    if "status" not in raw:
        raw = {**_or_nothing(client.get_terminal, name), **raw}
    if "working_directory" not in raw:
        raw = {**_or_nothing(client.get_working_directory, name), **raw}
    return raw


def _or_nothing(ask: Callable[[str], Answer], name: str) -> Answer:
    try:
        return ask(name)
    except (ApiRefused, UsageError):
        return {}


def _session_name(session: object) -> str:
    if isinstance(session, dict):
        session = session.get("name") or session.get("id")
    return session if isinstance(session, str) else ""


def _word(raw: Mapping[str, Any], *names: str) -> str:
    value = next((raw[name] for name in names if raw.get(name) not in (None, "")), NOT_TOLD)
    return one_line(str(value))


def _time(value: object) -> float | None:
    try:
        at = float(value) if isinstance(value, int | float) else math.inf
    except OverflowError:
        return None
    return at if math.isfinite(at) else None


def _status_words(raw: Mapping[str, Any]) -> str:
    if raw.get("alive", True):
        return _word(raw, "status")
    code = raw.get("exit_code")
    return "dead" + ("" if code is None else f" (exit code {one_line(str(code))})")
