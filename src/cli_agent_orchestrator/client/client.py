"""The verbs of the server over HTTP, for the synchronous half of the product.

The client works against any server with the common routes. The features of ours (messages of any
size, an event stream) are used only if the server names them.
"""

import contextlib
import ipaddress
import json
import logging
import socket
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlencode

import httpx
import httpx_sse

from ..core import codec
from ..core.models import AgentView, Delivery, Feature, OutputMode, TerminalEvent, TerminalStatus
from ..errors import ApiRefused, ApiUnreachable, ConfigError, UsageError, in_words
from ..events import RunEvent, from_line
from ..settings.config import DEFAULT_API, LAST_PORT
from ..settings.values import PathText, Value, read_called, read_task

QUICK = httpx.Timeout(30, connect=5, pool=5)
FOLLOWING = httpx.Timeout(50, connect=5, pool=5)
"""Longer than three heartbeats of an event stream: after that it is dead."""
LIMITS = httpx.Limits(max_connections=None, keepalive_expiry=4)
"""Unused connections are kept shorter than servers keep them."""
ENDING = 503
"""With `Retry-After`: nothing was done, because the server ends."""
JSON = {"Content-Type": "application/json"}
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

STARTING = httpx.Timeout(None, connect=5, pool=5)
"""The server knows how long an agent may take to start (CAO_START_SECONDS)."""
TYPING = httpx.Timeout(60, connect=5, pool=5)
"""To type into a terminal, or to steer a run: one that is stopped ends its agents first."""
BEGINNING = httpx.Timeout(600, connect=5, pool=5)
"""A run begins when all of its agents have started; a work tree may have to be set up before."""
STEP_SECONDS = 600.0
LONGEST_STEP = 86_400.0
AROUND_STEP = 180.0
"""Seconds in which the agent of a step is started and ended."""
QUERY_LIMIT = 64_000
"""Bytes of a message in the address; servers take 64 KiB for the whole head of a request."""

logger = logging.getLogger(__name__)

# Any: JSON from a server that may not be ours.
Answer = dict[str, Any]
Event = TypeVar("Event")


def socket_transport(path: Path) -> httpx.HTTPTransport:
    # Reading certificates takes time, and nothing is encrypted here.
    return httpx.HTTPTransport(uds=str(path), verify=False, limits=LIMITS)


class _Stream:
    """Lets one thread end the read in which another one waits."""

    def __init__(self) -> None:
        self.stopped = False
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def attach(self, response: httpx.Response) -> None:
        network = response.extensions.get("network_stream")
        with self._lock:
            self._socket = network.get_extra_info("socket") if network is not None else None

    def stop(self) -> None:
        with self._lock:
            self.stopped = True
            if self._socket is not None:
                # Closing would not wake the reader. It may be over already.
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)


def path_of(*names: str) -> str:
    """Return names as a path; each stays one part of it."""
    for name in names:
        if name in ("", ".", ".."):
            raise UsageError(f"{name!r} is not the name of a terminal, session or run")
    return "/" + "/".join(quote(name, safe="", errors="replace") for name in names)


# Any: JSON
def body_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content and headers of a JSON body; fields that are None are left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    try:
        text = json.dumps(given, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"it cannot be sent: {error}") from None
    return {"content": text.encode("utf-8", "replace"), "headers": JSON}


def _read(method: str, path: str, response: httpx.Response) -> object:
    """Return the JSON of an answer; an error status is an ApiRefused.

    A server that is about to end has done nothing of what it was asked for.
    """
    try:
        answer = json.loads(response.content)
    except (ValueError, RecursionError):
        answer = None
    if not response.is_success:
        detail = answer.get("detail") if isinstance(answer, dict) else response.text[:500]
        if isinstance(detail, list):  # some servers send a list of problems
            detail = "; ".join(str(d.get("msg", d) if isinstance(d, dict) else d) for d in detail)
        text = "" if detail is None else str(detail)
        if response.status_code == ENDING and "Retry-After" in response.headers:
            server = str(response.url.join("/")).rstrip("/")
            request = f"{method} {path}"
            raise ApiUnreachable(server, text, maybe_received=False, request=request)
        raise ApiRefused(method, path, response.status_code, text)
    if answer is None:
        raise ApiRefused(method, path, response.status_code, "the answer is not JSON")
    return answer


def is_loopback(url: str) -> bool:
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
        """Of new terminals; empty: the server's own."""
        self.run_index: int | None = None
        self.record = False
        """Are the screens of new terminals recorded in the folder of their run?"""
        self._features: frozenset[str] | None = None
        expected = f"an address such as {DEFAULT_API}"
        try:
            url = httpx.URL(base_url)
        except httpx.InvalidURL:
            raise ConfigError("API", base_url, expected) from None
        if url.userinfo:
            raise ConfigError("API", "(not shown)", f"{expected}, without user and password")
        if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
            raise ConfigError("API", base_url, expected)
        if url.port is not None and not 0 < url.port <= LAST_PORT:
            raise ConfigError("API", base_url, f"{expected}, with a port from 1 to {LAST_PORT}")
        self.base_url = str(url).rstrip("/")
        self._streams: weakref.WeakSet[_Stream] = weakref.WeakSet()
        self._http = httpx.Client(
            base_url=self.base_url,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=QUICK,
            transport=transport or httpx.HTTPTransport(verify=url.scheme == "https", limits=LIMITS),
            # No proxy and no .netrc: the token goes to the server and nowhere else.
            trust_env=False,
        )

    def health(self, timeout: httpx.Timeout = QUICK) -> Answer:
        return self._ask_object("GET", "/health", timeout)

    def page_link(self) -> str:
        """Return the path of a link that signs a browser in, once."""
        return str(self._ask_object("POST", "/dashboard/links").get("path"))

    def features(self) -> frozenset[str]:
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
        return self._ask_object("POST", "/sessions", STARTING, params=params)

    def create_terminal(
        self,
        session_name: str,
        agent_profile: str,
        *,
        provider: str | None = None,
        role: str | None = None,
    ) -> Answer:
        path = path_of("sessions", session_name, "terminals")
        params = self._new_terminal(agent_profile, provider, role)
        return self._ask_object("POST", path, STARTING, params=params)

    def list_sessions(self) -> list[Answer]:
        return self._ask_list("/sessions")

    def list_terminals(self, session_name: str) -> list[Answer]:
        return self._ask_list(path_of("sessions", session_name, "terminals"))

    def get_session(self, session_name: str) -> Answer:
        return self._ask_object("GET", path_of("sessions", session_name))

    def delete_session(self, session_name: str) -> None:
        self._ask("DELETE", path_of("sessions", session_name))

    def get_terminal(self, terminal_id: str) -> Answer:
        return self._ask_object("GET", path_of("terminals", terminal_id))

    def get_status(self, terminal_id: str) -> TerminalStatus:
        return _status(self.get_terminal(terminal_id).get("status"))

    def send_input(
        self, terminal_id: str, message: str, *, idempotency_key: str | None = None
    ) -> Delivery:
        """Type a message into a terminal and submit it; with the same key only once."""
        path = path_of("terminals", terminal_id, "input")
        if Feature.INPUT_BODY in self.features():
            request = body_of({"message": message})
        else:
            whole = message.encode("utf-8", "replace").decode()
            size = len(urlencode({"message": whole}))
            if size > QUERY_LIMIT:
                raise UsageError(
                    f"the message takes {size} bytes in an address, and the server at "
                    f"{self.base_url} takes messages only there, up to {QUERY_LIMIT}: shorten it, "
                    "or use `cao server`"
                )
            request = {"params": {"message": whole}}
        if idempotency_key:
            request["headers"] = {**request.get("headers", {}), "Idempotency-Key": idempotency_key}
        answer = self._ask_object("POST", path, TYPING, **request)
        if "confirmed" not in answer:
            took = "took" if answer.get("success") else "did not take"
            said = f"the server {took} the message and does not say what became of it"
            return Delivery(False, said)
        confirmed = answer["confirmed"] is True
        return codec.repaired(Delivery, {"detail": "", **answer, "confirmed": confirmed})

    def get_working_directory(self, terminal_id: str) -> Answer:
        return self._ask_object("GET", path_of("terminals", terminal_id, "working-directory"))

    def press_key(self, terminal_id: str, key: str) -> None:
        self._ask("POST", path_of("terminals", terminal_id, "key"), params={"key": key})

    def get_question(self, terminal_id: str) -> Answer | None:
        """Return the agent's question (`text`, `choices`, `fingerprint`); None if it has none."""
        asking = self._ask_object("GET", path_of("terminals", terminal_id, "question"))
        question = asking.get("question")
        return question if isinstance(question, dict) else None

    def answer_agent(self, terminal_id: str, key: str, question: str | None = None) -> Answer:
        """Press a key that answers the agent's question, if it has this fingerprint.

        The answer has `answered` and `text`.
        """
        path = path_of("terminals", terminal_id, "answer")
        return self._ask_object("POST", path, TYPING, **body_of({"key": key, "question": question}))

    def get_output(self, terminal_id: str, mode: str = OutputMode.FULL) -> str:
        return str(self._output(terminal_id, mode).get("output") or "")

    def get_view(self, terminal_id: str) -> AgentView:
        answer = self._output(terminal_id, OutputMode.SCREEN)
        screen, records = str(answer.get("output") or ""), answer.get("records")
        return codec.repaired(AgentView, {"screen": screen, "records": records})

    def get_last_output(self, terminal_id: str) -> str:
        return self.get_output(terminal_id, OutputMode.LAST)

    def explain(self, terminal_id: str) -> Answer:
        return self._ask_object("GET", path_of("terminals", terminal_id, "explain"))

    def exit_terminal(self, terminal_id: str) -> None:
        self._ask("POST", path_of("terminals", terminal_id, "exit"))

    def delete_terminal(self, terminal_id: str) -> None:
        self._ask("DELETE", path_of("terminals", terminal_id))

    def events(
        self, after: str | None = None, opened: Callable[[], None] | None = None
    ) -> Iterator[TerminalEvent]:
        """Yield what happens to terminals, after the event `after` if the server still has it.

        Ends when the server ends it, or when `close_events` is called from another thread. A
        connection that breaks is an ApiUnreachable; the caller connects again. `opened` is called
        when the stream begins. Events that cannot be read are left out.
        """
        return self._follow("/events", after or "", _terminal_event, opened)

    def close_events(self) -> None:
        """End all iterators over events, also those in which another thread waits."""
        for stream in list(self._streams):
            stream.stop()

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
        body = body_of(
            {
                "provider": provider or self._provider,
                "agent": agent_profile,
                "prompt": prompt,
                "working_directory": self._working_directory,
                "session_name": session_name,
                "permissions": self.permissions or None,
                "timeout": timeout,
                "teardown": teardown,
            }
        )
        seconds = min(max(timeout, 0), LONGEST_STEP) + AROUND_STEP
        patience = httpx.Timeout(seconds, connect=5, pool=5)
        return self._ask_object("POST", "/terminals/run-step", patience, **body)

    def list_runs(self) -> list[Answer]:
        return self._ask_list("/runs")

    def get_run(self, run: str) -> Answer:
        return self._ask_object("GET", path_of("runs", run))

    def get_turn(self, run: str, sequence: int) -> Answer:
        """Return a turn: prompt, reply, the agent's last screen, changes, tokens."""
        return self._ask_object("GET", path_of("runs", run, "turns", str(sequence)))

    def start_run(
        self,
        task: PathText | None = None,
        *,
        wd: PathText,
        replace_terminals: bool = False,
        **settings: Value,
    ) -> Answer:
        """Start a run in the folder `wd` and return it when it has begun.

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
        return self._ask_object("POST", "/runs", BEGINNING, **body_of(new_run))

    def run_events(self, run: str, after: int = 0) -> Iterator[RunEvent]:
        """Yield the events of a run after the number `after`, until the run ends; see `events`."""
        path = path_of("runs", run, "events")
        return self._follow(path, str(after or ""), lambda sse: from_line(sse.data))

    def pause_run(self, run: str) -> Answer:
        """Let a run wait after its present turn.

        As of all that steers a run, the answer has `heard` and `text`, which says what it does now.
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
        """Add a text to the next prompt of an agent; without a role, of the next one."""
        return self._steer(run, "hint", text=text, role=role)

    def change_setting(self, run: str, name: str, value: str | float) -> Answer:
        return self._steer(run, "set", name=name, value=str(value))

    def answer_question(
        self, run: str, key: str, role: str | None = None, question: str | None = None
    ) -> Answer:
        return self._steer(run, "answer", text=key, role=role, question=question)

    def close(self) -> None:
        self.close_events()
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask_object(
        self, method: str, path: str, timeout: httpx.Timeout = QUICK, **request: Any
    ) -> Answer:
        answer = self._ask(method, path, timeout, **request)
        if not isinstance(answer, dict):
            raise ApiRefused(method, path, 200, "the answer is not a JSON object")
        return answer

    def _ask_list(self, path: str) -> list[Answer]:
        answer = self._ask("GET", path)
        if not isinstance(answer, list):
            raise ApiRefused("GET", path, 200, "the answer is not a list")
        return answer

    # Any: what httpx takes
    def _ask(
        self, method: str, path: str, timeout: httpx.Timeout = QUICK, **request: Any
    ) -> object:
        try:
            response = self._http.request(method, path, timeout=timeout, **request)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise self._failure(method, path, error) from error
        return _read(method, path, response)

    def _follow(
        self,
        path: str,
        after: str,
        read: Callable[[httpx_sse.ServerSentEvent], Event | None],
        opened: Callable[[], None] | None = None,
    ) -> Iterator[Event]:
        stream = _Stream()
        # At once: it may be ended before the first read.
        self._streams.add(stream)
        headers = {"Last-Event-ID": after} if after else {}

        def received() -> Iterator[Event]:
            complained = False
            try:
                with httpx_sse.connect_sse(
                    self._http, "GET", path, headers=headers, timeout=FOLLOWING
                ) as source:
                    if source.response.status_code != 200:
                        source.response.read()
                        _read("GET", path, source.response)
                    stream.attach(source.response)
                    if opened is not None:
                        opened()
                    if stream.stopped:
                        return
                    for sse in source.iter_sse():
                        # A message without data is a sign of life.
                        event = read(sse) if sse.data else None
                        if event is not None:
                            yield event
                        elif sse.data and not complained:
                            complained = True
                            words = "an event that cannot be read is left out: %.200r"
                            logger.warning(words, sse.data[:200])
            except httpx_sse.SSEError:
                raise ApiRefused("GET", path, 200, "the answer is no event stream") from None
            except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
                if not stream.stopped:
                    raise self._failure("GET", path, error) from error

        return received()

    def _failure(self, method: str, path: str, error: Exception) -> ApiUnreachable:
        # Never the whole address: it may hold the message.
        reason = in_words(error) or type(error).__name__
        if isinstance(error, NEVER_SENT):
            reason += "; is the server running? `cao server` starts one"
        return ApiUnreachable(
            self.base_url,
            reason,
            maybe_received=not isinstance(error, NEVER_SENT),
            request=f"{method} {path}",
        )

    def _steer(
        self, run: str, do: str, timeout: httpx.Timeout = TYPING, **fields: str | None
    ) -> Answer:
        body = body_of(fields) if fields else {}
        return self._ask_object("POST", path_of("runs", run, do), timeout, **body)

    def _output(self, terminal_id: str, mode: str) -> Answer:
        path = path_of("terminals", terminal_id, "output")
        return self._ask_object("GET", path, params={"mode": str(mode)})

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


def _status(word: object) -> TerminalStatus:
    try:
        return TerminalStatus(str(word))
    except ValueError:
        return TerminalStatus.UNKNOWN


def _terminal_event(sse: httpx_sse.ServerSentEvent) -> TerminalEvent | None:
    fields = codec.object_of(sse.data)
    fields |= {"id": sse.id, "kind": sse.event, "status": str(_status(fields.get("status")))}
    with contextlib.suppress(ValueError):
        usual = {"session_name": "", "reason": "", "at": 0.0}
        return codec.repaired(TerminalEvent, {**usual, **fields})
    return None
