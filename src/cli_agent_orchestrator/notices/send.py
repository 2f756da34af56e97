"""Sends notices to the desktop, the web, a program; the run never waits for them.

Each channel has a thread of its own, so that a slow one delays no other. No error shows an address
or a token.
"""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import urlsplit

import httpx
from msgspec.structs import asdict

from ..core.clock import NOT_NOW, Retry
from ..core.programs import without_repository
from ..events import RunEvent
from ..version import __version__
from .decide import NoticeKind, NoticeSettings, Noticing, RunNotice

ANSWER_SECONDS = 10.0
COMMAND_SECONDS = 30.0
END_SECONDS = 5.0  # for a killed program
NOTIFY_SEND, OSASCRIPT = "notify-send", "osascript"
SCRIPT = (
    *("-e", "on run argv"),
    *("-e", "display notification (item 2 of argv) with title (item 1 of argv)"),
    *("-e", "end run"),
)
TAGS = {NoticeKind.PASS: "white_check_mark", NoticeKind.FAIL: "x", NoticeKind.NEEDS_YOU: "question"}


class NotSent(Exception):
    def __init__(self, why: str, *, again: bool = False) -> None:
        """`again`: is it worth another try?"""
        super().__init__(why)
        self.again = again


class Channel:
    name = ""  # in the user's configuration

    def send(self, notice: RunNotice) -> None:
        """Return when the notice has arrived; raise NotSent if it does not."""
        raise NotImplementedError

    def abort(self) -> None:
        """End what would not end with this process."""


def channels_of(settings: NoticeSettings, environ: Mapping[str, str]) -> list[Channel]:
    found: list[Channel] = []
    if settings.desktop:
        found.append(NoticeProgram(environ))
    if settings.ntfy:
        found.append(WebHook(settings.ntfy, "ntfy", settings.ntfy_token))
    if settings.webhook:
        found.append(WebHook(settings.webhook))
    if settings.command:
        found.append(NoticeProgram(environ, settings.command))
    return found


class NoticeProgram(Channel):
    """A program for each notice, run without a shell, in a process group of its own.

    The user's own gets JSON on its standard input; else it is the one for notifications of the
    desktop: `notify-send`, or `osascript` of a Mac.
    """

    def __init__(
        self, environ: Mapping[str, str], argv: Sequence[str] = (), seconds: float = COMMAND_SECONDS
    ) -> None:
        self.name = "command" if argv else "desktop"
        self._environ = without_repository(environ)
        self._argv = argv
        self._seconds = seconds
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None
        self._is_over = False

    @property
    def is_possible(self) -> bool:
        return any(map(self._find, self._argv[:1] or (NOTIFY_SEND, OSASCRIPT)))

    def send(self, notice: RunNotice) -> None:
        if self._argv:
            if not (program := self._find(self._argv[0])):
                raise NotSent("there is no such program, or it cannot be run")
            data = json.dumps(as_json(notice)).encode() + b"\n"
            self._run([program, *self._argv[1:]], data)
        elif program := self._find(NOTIFY_SEND):
            urgency = "critical" if notice.urgent else "normal"
            # Desktops read it as markup.
            text = notice.text.replace("&", "&amp;").replace("<", "&lt;")
            words = ["--app-name=cao", f"--urgency={urgency}", "--", notice.title, text]
            self._run([program, *words])
        elif program := self._find(OSASCRIPT):
            self._run([program, *SCRIPT, "--", notice.title, notice.text])
        else:
            raise NotSent("there is no notify-send (package libnotify-bin) and no osascript here")

    def abort(self) -> None:
        with self._lock:
            self._is_over = True
            if self._running is not None:
                _end(self._running)

    def _find(self, name: str) -> str | None:
        """Return where a program is; none is taken from the current folder."""
        found = shutil.which(Path(name).expanduser(), path=self._environ.get("PATH"))
        return found if found is not None and Path(found).is_absolute() else None

    def _run(self, argv: Sequence[str], data: bytes = b"") -> None:
        with self._lock:
            if self._is_over:
                raise NotSent("the run is over")
            try:
                process = self._running = subprocess.Popen(
                    argv,
                    env=self._environ,
                    cwd="/",
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError as error:
                raise NotSent(f"it cannot be run: {error.strerror}") from None
        try:
            process.communicate(data, timeout=self._seconds)
        except subprocess.TimeoutExpired:
            _end(process)
            raise NotSent(f"it was not done after {self._seconds:g} s, and was ended") from None
        finally:
            with self._lock:
                self._running = None
        if process.returncode:
            raise NotSent(f"it ended with exit code {process.returncode}")


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_SECONDS)


class WebHook(Channel):
    def __init__(
        self, url: str, name: str = "webhook", token: str = "", seconds: float = ANSWER_SECONDS
    ) -> None:
        self.name = name
        self._url = url
        self._token = token
        self._seconds = seconds

    def send(self, notice: RunNotice) -> None:
        """Post it; no redirect is followed, and only the head of the answer is read."""
        headers = {"User-Agent": f"cao/{__version__}"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        url, message = self._url, as_json(notice)
        if self.name == "ntfy":
            parts = urlsplit(self._url)
            url = parts._replace(path="/").geturl()
            message = {
                "topic": parts.path.removeprefix("/"),
                "title": notice.title,
                "message": f"{notice.text}\nrun {notice.run}" if notice.run else notice.text,
                "priority": 4 if notice.urgent else 3,  # high, or the usual one
                "tags": [TAGS[notice.kind]] if notice.kind in TAGS else [],
            }
        try:
            with (
                httpx.Client(trust_env=False, timeout=self._seconds) as client,
                client.stream("POST", url, json=message, headers=headers) as answer,
            ):
                code = answer.status_code
        except httpx.TimeoutException:
            raise NotSent(f"no answer within {self._seconds:g} s", again=True) from None
        except httpx.TransportError as error:
            # Its words could hold the address.
            raise NotSent(f"no connection ({type(error).__name__})", again=True) from None
        except httpx.InvalidURL:
            raise NotSent("its address is none") from None
        if code >= 300:
            moved = ": another address, which is not followed" if code < 400 else ""
            again = code >= 500 or code in NOT_NOW
            raise NotSent(f"the server answered {code}{moved}", again=again)


# Any: JSON
def as_json(notice: RunNotice) -> dict[str, Any]:
    return {"type": "cao_notice", **asdict(notice), "urgent": notice.urgent}


RETRY_SECONDS = 30.0
LAST_SECONDS = 5.0


class Outbox:
    def __init__(self, channel: Channel, warn: Callable[[str], None], retry_seconds: float) -> None:
        self._channel = channel
        self._warn = warn
        self._retry_seconds = retry_seconds
        self._waiting: SimpleQueue[RunNotice | None] = SimpleQueue()
        self._aborted = threading.Event()
        self._problem = ""
        self._has_warned = False
        self._thread: threading.Thread | None = None

    def put(self, notice: RunNotice | None) -> None:
        """Let a notice be sent; None ends the thread when all are sent."""
        self._waiting.put(notice)
        if self._thread is None and notice is not None:
            name = f"notices by {self._channel.name}"
            self._thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> None:
        if self._thread is not None:
            self._thread.join(max(seconds, 0.0))
            if self._thread.is_alive():
                self._fail(self._problem or "it took too long at the end of the run")

    def abort(self) -> None:
        self._aborted.set()
        self._channel.abort()

    def _work(self) -> None:
        while (notice := self._waiting.get()) is not None and not self._aborted.is_set():
            try:
                self._deliver(notice)
            except Exception as fault:  # noqa: BLE001 - it would end the thread in silence
                self._fail(_of_ours(fault))

    def _deliver(self, notice: RunNotice) -> None:
        self._problem = ""
        retry = Retry(time.monotonic(), limit=self._retry_seconds)
        while not self._aborted.is_set():
            try:
                return self._channel.send(notice)
            except NotSent as failure:
                self._problem = str(failure)
                retry = retry.after_failure()
                now = time.monotonic()
                if not failure.again or retry.is_over(now):
                    return self._fail(self._problem)
                self._aborted.wait(retry.next_try(now) - now)

    def _fail(self, why: str) -> None:
        if not self._has_warned and not self._aborted.is_set():
            self._has_warned = True
            name = self._channel.name
            self._warn(f"no notice by {name}: {why}; `cao notify test` tries all channels")


class Sender:
    def __init__(
        self,
        channels: Sequence[Channel],
        kinds: Collection[NoticeKind] = frozenset(NoticeKind),
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._noticing = Noticing(kinds)
        self._has_warned = False
        self._warnings: SimpleQueue[str] = SimpleQueue()
        self._boxes = [Outbox(channel, self._warnings.put, retry_seconds) for channel in channels]

    def tell(self, event: RunEvent) -> None:
        """Send a notice of an event if it is worth one; never blocks."""
        try:
            notice = self._noticing.hear(event)
        except Exception as fault:  # noqa: BLE001 - a notice that fails must not end the run
            if not self._has_warned:
                self._has_warned = True
                self._warnings.put(f"no notices: {_of_ours(fault)}")
            return
        if notice is not None:
            for box in self._boxes:
                box.put(notice)

    def pop_warnings(self) -> list[str]:
        found = []
        with suppress(Empty):
            while True:
                found.append(self._warnings.get_nowait())
        return found

    def close(self, seconds: float = LAST_SECONDS) -> None:
        """Wait some seconds for the notices under way, and give up the rest."""
        try:
            until = time.monotonic() + seconds
            for box in self._boxes:
                box.put(None)
            for box in self._boxes:
                box.wait(until - time.monotonic())
        finally:
            for box in self._boxes:
                box.abort()


def _of_ours(fault: Exception) -> str:
    """Name a fault; its text may hold an address or a token."""
    return f"a fault in cao, {type(fault).__name__}"
