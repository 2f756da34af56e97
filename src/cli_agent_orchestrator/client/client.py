"""The verbs of the server over HTTP, for the synchronous half of the product.

The client works against any server with the common routes. What ours can do beyond them (messages
of any size, an event stream) is used only if the server says that it can.
"""

import ipaddress
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import urlencode

import httpx
import httpx_sse

from ..core.models import AgentView, Delivery, Feature, OutputMode, TerminalEvent, TerminalStatus
from ..errors import ApiRefused, UsageError
from ..events import RunEvent, from_line
from ..settings.config import DEFAULT_API
from ..settings.values import PathText, Value, read_called, read_task
from .connection import Answer, Connection, body_of, segment

STARTING = httpx.Timeout(120, connect=5, pool=5)
"""Agents take their time to start."""
TYPING = httpx.Timeout(60, connect=5, pool=5)
BEGINNING = httpx.Timeout(600, connect=5, pool=5)
"""A run begins when all of its agents are there; a work tree may have to be set up before."""
STEERING = httpx.Timeout(60, connect=5, pool=5)
"""A run that is stopped ends its agents first."""
STEP_SECONDS = 600.0
LONGEST_STEP = 86_400.0
AROUND_STEP = 180.0
"""Seconds in which the agent of a step is started and ended."""

LONGEST_EVENT_ID = 200
"""A server of ours takes no longer one as a resume point."""
LONGEST_ACTION = 200
QUERY_LIMIT = 64_000
"""Bytes of a message in the address; servers take 64 KiB for the whole head of a request."""

logger = logging.getLogger(__name__)

Event = TypeVar("Event")


def is_loopback(url: str) -> bool:
    """Does an address lead to this very machine?"""
    try:
        host = httpx.URL(url).host
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except (httpx.InvalidURL, ValueError):
        return False


class ApiClient:
    """A server's terminals and runs. May be used by several threads."""

    def __init__(
        self,
        base_url: str = DEFAULT_API,
        *,
        provider: str = "codex",
        working_directory: str | None = None,
        token: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`provider` and `working_directory` are those of new terminals."""
        self._provider = provider
        self._working_directory = working_directory
        self.permissions = ""
        """What new terminals may do without asking; empty: what the server says."""
        self.run_index: int | None = None
        """The number of the run that new terminals belong to, if they belong to one."""
        self.record = False
        """Are the screens of new terminals recorded in the folder of their run?"""
        self._features: frozenset[str] | None = None
        self._server = Connection(base_url, token, transport)

    @property
    def base_url(self) -> str:
        return self._server.base_url

    def health(self) -> Answer:
        """Return what the server says about itself."""
        return self._server.ask_object("GET", "/health")

    def features(self) -> frozenset[str]:
        """Return what the server can do beyond the common routes; asks only once."""
        if self._features is None:
            try:
                named = self.health().get("features")
            except ApiRefused:
                named = None
            self._features = frozenset(map(str, named)) if isinstance(named, list) else frozenset()
        return self._features

    def create_session(
        self,
        agent_profile: str,
        *,
        provider: str | None = None,
        session_name: str | None = None,
        role: str | None = None,
    ) -> Answer:
        """Start an agent in a new session; the answer has `id` and `session_name`."""
        params = self._new_terminal(agent_profile, provider, role)
        if session_name is not None:
            params["session_name"] = session_name
        return self._server.ask_object("POST", "/sessions", STARTING, params=params)

    def create_terminal(
        self,
        session_name: str,
        agent_profile: str,
        *,
        provider: str | None = None,
        role: str | None = None,
    ) -> Answer:
        """Start an agent in a session that is there."""
        path = f"/sessions/{segment(session_name)}/terminals"
        params = self._new_terminal(agent_profile, provider, role)
        return self._server.ask_object("POST", path, STARTING, params=params)

    def list_sessions(self) -> list[Answer]:
        return self._server.ask_list("/sessions")

    def list_terminals(self, session_name: str) -> list[Answer]:
        return self._server.ask_list(f"/sessions/{segment(session_name)}/terminals")

    def get_session(self, session_name: str) -> Answer:
        return self._server.ask_object("GET", f"/sessions/{segment(session_name)}")

    def delete_session(self, session_name: str) -> None:
        self._server.ask("DELETE", f"/sessions/{segment(session_name)}")

    def get_terminal(self, terminal_id: str) -> Answer:
        return self._server.ask_object("GET", f"/terminals/{segment(terminal_id)}")

    def get_status(self, terminal_id: str) -> TerminalStatus:
        """Return what the agent is doing; a word we do not know counts as UNKNOWN."""
        return _status(self.get_terminal(terminal_id).get("status"))

    def send_input(
        self, terminal_id: str, message: str, *, idempotency_key: str | None = None
    ) -> Delivery:
        """Type a message into a terminal and submit it.

        With a key, a server of ours types it only once, however often it is asked to.
        """
        path = f"/terminals/{segment(terminal_id)}/input"
        request = self._message_content(message)
        if idempotency_key:
            request["headers"] = {**request.get("headers", {}), "Idempotency-Key": idempotency_key}
        return _delivery(self._server.ask_object("POST", path, TYPING, **request))

    def get_working_directory(self, terminal_id: str) -> Answer:
        """Return where the agent works, as `working_directory`."""
        return self._server.ask_object(
            "GET", f"/terminals/{segment(terminal_id)}/working-directory"
        )

    def press_key(self, terminal_id: str, key: str) -> None:
        self._server.ask("POST", f"/terminals/{segment(terminal_id)}/key", params={"key": key})

    def get_question(self, terminal_id: str) -> Answer | None:
        """Return what the agent asks: `text`, `choices`, `fingerprint`; None if it asks nothing."""
        path = f"/terminals/{segment(terminal_id)}/question"
        told = self._server.ask_object("GET", path).get("question")
        return told if isinstance(told, dict) else None

    def answer_agent(self, terminal_id: str, key: str, question: str | None = None) -> Answer:
        """Answer what the agent asks, with a key; the answer has `answered` and `text`.

        With the fingerprint of a question, this one and no other.
        """
        path = f"/terminals/{segment(terminal_id)}/answer"
        body = body_of({"key": key, "question": question})
        return self._server.ask_object("POST", path, TYPING, **body)

    def get_output(self, terminal_id: str, mode: str = OutputMode.FULL) -> str:
        path = f"/terminals/{segment(terminal_id)}/output"
        return str(
            self._server.ask_object("GET", path, params={"mode": str(mode)}).get("output") or ""
        )

    def get_view(self, terminal_id: str) -> AgentView:
        """Return what the agent shows, and where it keeps its own records."""
        path = f"/terminals/{segment(terminal_id)}/output"
        answer = self._server.ask_object("GET", path, params={"mode": str(OutputMode.SCREEN)})
        named = answer.get("records")
        records = named if isinstance(named, list) else []
        return AgentView(
            str(answer.get("output") or ""),
            tuple(record for record in records if isinstance(record, str)),
        )

    def get_last_output(self, terminal_id: str) -> str:
        """Return the agent's last answer."""
        return self.get_output(terminal_id, OutputMode.LAST)

    def explain(self, terminal_id: str) -> Answer:
        """Return why the terminal has its status."""
        return self._server.ask_object("GET", f"/terminals/{segment(terminal_id)}/explain")

    def exit_terminal(self, terminal_id: str) -> None:
        """Ask the agent to quit."""
        self._server.ask("POST", f"/terminals/{segment(terminal_id)}/exit")

    def delete_terminal(self, terminal_id: str) -> None:
        """End the agent."""
        self._server.ask("DELETE", f"/terminals/{segment(terminal_id)}")

    def events(
        self, after: str | None = None, opened: Callable[[], None] | None = None
    ) -> Iterator[TerminalEvent]:
        """Yield what happens to terminals, from the event `after` on if the server still has it.

        Ends when the server ends it, or when `close_events` is called from another thread. A
        connection that breaks is an ApiUnreachable; connecting again is up to the caller, who is
        told by `opened` that it is there. What cannot be read is left out.
        """
        stream = self._server.follow("/events", after or "", opened)
        return _readable(stream, _terminal_event)

    def close_events(self) -> None:
        """End all iterators over events, also those in which another thread waits."""
        self._server.close_streams()

    def run_step(
        self,
        agent_profile: str,
        prompt: str,
        *,
        provider: str | None = None,
        session_name: str | None = None,
        timeout: float = STEP_SECONDS,
        teardown: bool = True,
    ) -> Answer:
        """Start an agent, ask it one thing, end it; the answer has `last_message`.

        The agent has `timeout` seconds. It stays if `teardown` is false.
        """
        step = {
            "provider": provider or self._provider,
            "agent": agent_profile,
            "prompt": prompt,
            "working_directory": self._working_directory,
            "session_name": session_name,
            "permissions": self.permissions or None,
            "timeout": timeout,
            "teardown": teardown,
        }
        body = body_of(step)
        seconds = min(max(timeout, 0), LONGEST_STEP) + AROUND_STEP
        patience = httpx.Timeout(seconds, connect=5, pool=5)
        return self._server.ask_object("POST", "/terminals/run-step", patience, **body)

    def list_runs(self) -> list[Answer]:
        """Return all runs, the newest first."""
        return self._server.ask_list("/runs")

    def get_run(self, run: str) -> Answer:
        """Return a run with its settings and its turns."""
        return self._server.ask_object("GET", f"/runs/{segment(run)}")

    def get_turn(self, run: str, sequence: int) -> Answer:
        """Return a turn: prompt, reply, the agent's last screen, changes, tokens."""
        path = f"/runs/{segment(run)}/turns/{segment(str(sequence))}"
        return self._server.ask_object("GET", path)

    def start_run(
        self,
        task: PathText | None = None,
        *,
        wd: PathText,
        replace_terminals: bool = False,
        **settings: Value,
    ) -> Answer:
        """Start a run in the folder `wd` and return it when it has begun; it needs us no more.

        The task is a text or the `Path` of a file. `settings` are those of `cao.toml`.
        """
        named = read_task(task)
        file = named.get("prompt_file")
        new_run = {
            "wd": str(Path(wd).absolute()),
            "task": named.get("prompt"),
            "task_file": None if file is None else str(Path(str(file)).absolute()),
            "settings": read_called(settings, "start_run"),
            "replace_terminals": replace_terminals,
        }
        return self._server.ask_object("POST", "/runs", BEGINNING, **body_of(new_run))

    def run_events(self, run: str, after: int = 0) -> Iterator[RunEvent]:
        """Yield what has happened in a run after the event with the number `after`, and happens.

        Ends with the run, and otherwise as `events` does.
        """
        stream = self._server.follow(f"/runs/{segment(run)}/events", str(after or ""))
        return _readable(stream, _run_event)

    def pause_run(self, run: str) -> Answer:
        """Let a run wait after its present turn.

        As of all that steers a run, the answer has `heard` and `text`: what the run does now.
        """
        return self._steer(run, "pause")

    def resume_run(self, run: str) -> Answer:
        """Lift the pause of a run, or start one again that was interrupted."""
        return self._steer(run, "resume", BEGINNING)

    def stop_run(self, run: str) -> Answer:
        """End a run and its agents; it can be resumed."""
        return self._steer(run, "stop")

    def skip_review(self, run: str) -> Answer:
        """Count the review that is under way as approved."""
        return self._steer(run, "skip")

    def hint(self, run: str, text: str, role: str | None = None) -> Answer:
        """Tell an agent something with its next prompt; without a role, whoever is next."""
        return self._steer(run, "hint", text=text, role=role)

    def change_setting(self, run: str, name: str, value: str | float) -> Answer:
        """Let a run go on by another value of a setting."""
        return self._steer(run, "set", name=name, value=str(value))

    def answer_question(
        self, run: str, key: str, role: str | None = None, question: str | None = None
    ) -> Answer:
        """Answer what an agent of a run asks, with a key.

        With the fingerprint of a question, this one and no other.
        """
        return self._steer(run, "answer", text=key, role=role, question=question)

    def close(self) -> None:
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _steer(
        self, run: str, do: str, timeout: httpx.Timeout = STEERING, **fields: str | None
    ) -> Answer:
        path = f"/runs/{segment(run)}/{do}"
        body = body_of(fields) if fields else {}
        return self._server.ask_object("POST", path, timeout, **body)

    def _new_terminal(
        self, agent_profile: str, provider: str | None, role: str | None
    ) -> dict[str, str]:
        params = {"provider": provider or self._provider, "agent_profile": agent_profile}
        if self._working_directory is not None:
            params["working_directory"] = self._working_directory
        if self.permissions:
            params["permissions"] = self.permissions
        if self.run_index is not None:
            params["run_index"] = str(self.run_index)
        if role and Feature.ROLES in self.features():
            params["role"] = role
            if self.record:
                params["record"] = "true"
        return params

    def _message_content(self, message: str) -> dict[str, Any]:
        """Return where the message goes: into the body if the server reads it there."""
        if Feature.INPUT_BODY in self.features():
            return body_of({"message": message})
        whole = message.encode("utf-8", "replace").decode()
        size = len(urlencode({"message": whole}))
        if size > QUERY_LIMIT:
            raise UsageError(
                f"the message takes {size} bytes in an address, and the server at {self.base_url} "
                f"takes messages only there, up to {QUERY_LIMIT}: shorten it, or use `cao server`"
            )
        return {"params": {"message": whole}}


def _status(word: object) -> TerminalStatus:
    try:
        return TerminalStatus(str(word))
    except ValueError:
        return TerminalStatus.UNKNOWN


def _delivery(answer: Answer) -> Delivery:
    if "confirmed" not in answer:
        took = "took" if answer.get("success") else "did not take"
        return Delivery(False, f"the server {took} the message and does not say what became of it")
    return Delivery(
        confirmed=answer["confirmed"] is True,
        detail=str(answer.get("detail", "")),
        enter_presses=_count(answer.get("enter_presses")),
        removed_characters=_count(answer.get("removed_characters")),
    )


def _count(number: object) -> int:
    return number if isinstance(number, int) else 0


def _readable(
    stream: Iterator[httpx_sse.ServerSentEvent],
    read: Callable[[httpx_sse.ServerSentEvent], Event | None],
) -> Iterator[Event]:
    """Yield the events among what a server sends, whatever else it sends.

    What has no data is none: a sign of life looks like that, once an event has had an id.
    """
    complained = False
    for sse in stream:
        event = read(sse) if sse.data else None
        if event is not None:
            yield event
        elif sse.data and not complained:
            complained = True
            logger.warning("an event that cannot be read is left out: %.200r", sse.data[:200])


def _terminal_event(sse: httpx_sse.ServerSentEvent) -> TerminalEvent | None:
    try:
        fields = json.loads(sse.data)
        return TerminalEvent(
            id=sse.id if _can_be_sent_back(sse.id) else "",
            kind=sse.event,
            terminal_id=str(fields["terminal_id"]),
            session_name=str(fields.get("session_name", "")),
            status=_status(fields.get("status")),
            reason=str(fields.get("reason", "")),
            at=float(fields.get("at", 0)),
            alive=fields.get("alive") is not False,
            exit_code=fields.get("exit_code"),
            action=str(fields.get("action", ""))[:LONGEST_ACTION],
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def _run_event(sse: httpx_sse.ServerSentEvent) -> RunEvent | None:
    return from_line(sse.data)


def _can_be_sent_back(event_id: str) -> bool:
    return event_id.isascii() and event_id.isprintable() and len(event_id) <= LONGEST_EVENT_ID
