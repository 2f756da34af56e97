"""What a run leaves in its folder: its record, `run.json`, and its events, `events.jsonl`.

The record is written as a whole whenever it changes, so a list of runs reads nothing else. A killed
run cannot record that. It is detected: the record says `running`, but the lock is free.

An event is added by a single write, so a reader sees whole lines, and perhaps the beginning of one
that does not count yet. What a killed process has left of a line is cut off when the log is opened
again to be written.
"""

import os
import re
import string
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct, field
from msgspec.structs import replace

from .. import events
from ..core import codec
from ..core.clock import Clock
from ..core.codec import Private
from ..core.files import Folder
from ..core.models import MOST_RUNS, TreeFacts
from ..core.text import short_line
from ..errors import RunLocked, StateError
from ..settings.layout import EVENTS_FILE, RECORD_FILE, index_folder

VERSION = 2
"""Runs of version 1 kept their state, prompts and replies in the project."""
LINE_CHARACTERS = 200
# "## Fix the sum ##"
HEADING_PATTERN = r"#{1,6}[ \t]+(?P<title>[^\n]+?)[ \t#]*(?:\n|\Z)"


class RunStatus(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    INTERRUPTED = "interrupted"
    PASS = "PASS"
    FAIL = "FAIL"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def word(self) -> str:
        """What people are shown: `failed` is too much like the verdict FAIL."""
        return "error" if self is RunStatus.FAILED else str(self)

    @property
    def is_open(self) -> bool:
        """Is a process at work, or should one be?"""
        return self in (RunStatus.RUNNING, RunStatus.PAUSED)

    @property
    def is_verdict(self) -> bool:
        return self in (RunStatus.PASS, RunStatus.FAIL)


class SavedSetting(Struct, frozen=True):
    value: str
    source: str
    """Where it came from: option, environment, task, file or default."""

    @property
    def is_given(self) -> bool:
        return self.source in ("option", "environment")


class Fate(StrEnum):
    NOT_YET = ""
    APPLIED = "applied"
    REQUESTED = "requested"  # by a pull request
    DISCARDED = "discarded"


class SavedTree(TreeFacts, frozen=True):
    """The work tree of a run, known without reading anything that an agent could write."""

    folder: str
    common_dir: str = ""
    delivered: Fate = Fate.NOT_YET
    earlier: Fate = Fate.NOT_YET
    """What had become of the work before the tree was discarded."""
    pushed: str = ""
    """The remote that its branch was pushed to; empty if to none."""

    @property
    def is_applied(self) -> bool:
        """Is the work in the user's branch? It stays there when its own is removed."""
        return Fate.APPLIED in (self.delivered, self.earlier)

    @property
    def has_work(self) -> bool:
        return self.tip != self.base


class RunRecord(Private, frozen=True):
    id: str
    wd: str
    state_file: str = ""
    """Where scripts find its state; empty in a work tree."""
    task: str = field(default="")
    task_line: str = ""
    started: float = 0.0
    base: str = ""
    """The commit that was checked out when it began; empty if there was none."""
    branch: str = ""
    top: str = ""
    """What the paths in its snapshots begin at: its repository, else the work folder."""
    flow: str = "loop"
    status: RunStatus = RunStatus.RUNNING
    round: int = 0
    cycle: int = 0
    role: str = ""
    asking: str = ""
    """The role whose agent asks a person something; empty if none does."""
    stalled: str = ""
    """Why it does not converge, until an author has changed files; empty if it may, or passed."""
    ended: float | None = None
    verdict: RunStatus | None = None
    """How it stands if it is killed before it can record its end."""
    judged: float | None = None
    paused_seconds: float = 0.0
    """Seconds from each end to when it was resumed, all together."""
    providers: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, SavedSetting] = field(default_factory=dict)
    api: str = ""
    session_name: str = ""
    terminals: Mapping[str, str] = field(default_factory=dict)
    machine: str = ""
    pid: int = 0
    reason: str = ""
    to_resume: str = ""
    exit_code: int | None = None
    proof: str = ""
    proven: bool = False
    project: str = ""
    tree: SavedTree | None = None
    version: int = VERSION

    @property
    def max_rounds(self) -> int:
        """After so many it has failed; 0 if its settings do not have it as a number."""
        setting = self.settings.get("MAX_ROUNDS")
        text = "" if setting is None else setting.value
        return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0

    @property
    def discarded(self) -> bool:
        tree = self.tree
        return tree is not None and not tree.is_applied and tree.delivered is Fate.DISCARDED


def resumed_record(before: RunRecord, now: RunRecord, left: float) -> RunRecord:
    """Return the record of a run that goes on: when and with what it began, and its agents.

    `left` is when it was last at work. A setting that has another value now came from where it
    comes from now; but what was given by option or variable is not lost to a task or a file.
    """
    kept = {
        name: saved
        for name, saved in before.settings.items()
        if name in now.settings
        and (
            saved.value == now.settings[name].value
            or (saved.is_given and not now.settings[name].is_given)
        )
    }
    return replace(
        before,
        status=RunStatus.RUNNING,
        state_file=now.state_file,
        version=now.version,
        flow=now.flow,
        settings={**before.settings, **now.settings, **kept},
        pid=now.pid,
        ended=None,
        verdict=None,
        judged=None,
        paused_seconds=before.paused_seconds + max(now.started - left, 0.0),
        role="",
        asking="",
        reason="",
        to_resume="",
        exit_code=None,
    )


def one_line(text: str) -> str:
    text = text.strip()
    heading = re.match(HEADING_PATTERN, text)
    title = heading["title"] if heading else text.split("\n\n")[0]
    return short_line(" ".join(title.split()), LINE_CHARACTERS)


def without_secrets(url: str) -> str:
    """Return an address without the name and password that may stand in it."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def write_record(folder: Folder, record: RunRecord, *, lasting: bool = True) -> None:
    folder.replace(RECORD_FILE, codec.encode(record, indent=1), lasting=lasting)


def forget_agents(folder: Folder) -> None:
    """Record that the agents of a run that has ended are ended; one at work records it itself."""
    with suppress(BlockingIOError), folder.locked():
        record = read_record(folder)
        if record is not None and record.terminals:
            write_record(folder, replace(record, session_name="", terminals={}))


def read_record(folder: Folder) -> RunRecord | None:
    """Return the record in a run folder; None if there is none that can be used.

    The folder decides which run it is, not the file. A run of an earlier version is only listed.
    """
    try:
        record: RunRecord | None = decode_record(folder.read(RECORD_FILE))
    except OSError:
        return None
    return None if record is None else replace(record, id=folder.parts[-1])


# Any: of a kind with fewer fields
def decode_record(data: bytes, kind: Any = RunRecord) -> Any:
    """Return the record in a file, perhaps of a `kind` with fewer fields; None if it has none."""
    try:
        record = codec.decode(kind, data, needed=("status", "version"))
    except ValueError:
        return None
    return record if 1 <= record.version <= VERSION and record.wd else None


class EventReader:
    """Reads the events of a log as they come; the file may not be there yet."""

    def __init__(self, folder: Folder, after: int = 0) -> None:
        self._folder = folder
        self._after = after
        self._position = 0

    def read(self) -> Iterator[events.RunEvent]:
        try:
            file = self._folder.open_to_read(EVENTS_FILE)
        except FileNotFoundError:
            return
        with file:
            file.seek(self._position)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._position += len(whole)
        for line in whole.split(b"\n"):
            event = events.from_line(line)
            if event is not None and event.seq > self._after:
                self._after = event.seq
                yield event


def read_events(folder: Folder, after: int = 0) -> list[events.RunEvent]:
    return list(EventReader(folder, after).read())


@contextmanager
def keeping_runs_out(wd: Path, at_work: Callable[[], str] | None = None) -> Iterator[None]:
    """Hold the lock of a work folder; raise `RunLocked` if a run has it.

    `at_work` returns the id of the run that works there, if it is known.
    """
    with ExitStack() as held:
        try:
            held.enter_context(Folder(wd).locked())
        except BlockingIOError:
            run = at_work() if at_work else ""
            named, typed = (f": {run}", f" {run}") if run else ("", "")
            raise RunLocked(
                f"another run works in {wd}{named}. Follow it with `cao watch{typed}`, end it with "
                f"`cao stop{typed}`, or work in another folder"
            ) from None
        except OSError as error:
            raise StateError(f"{wd} cannot be locked: {error.strerror}") from error
        yield


@contextmanager
def run_index(state_folder: Path) -> Iterator[int]:
    """Hold the smallest number that no other run has; 0 if none can be had."""
    with ExitStack() as held:
        taken = 0
        # The number is a help and no more.
        with suppress(OSError):
            for number in range(MOST_RUNS):
                folder = index_folder(state_folder, number)
                folder.make()
                with suppress(BlockingIOError):
                    held.enter_context(folder.locked())
                    taken = number
                    break
        yield taken


SESSION_PREFIX = "cao-"
LETTERS = string.ascii_lowercase + string.digits
RANDOM_LETTERS = 4

# 20261115-084037-k3f9; runs of earlier versions: 20250131-120000, 20250131-120000-2
RUN_ID_PATTERN = r"[0-9]{8}-[0-9]{6}(-[0-9a-z]{1,8})?"


def new_run_id(clock: Clock) -> str:
    """Return an id that no run has: the local time and a few random letters."""
    tail = "".join(LETTERS[byte % len(LETTERS)] for byte in os.urandom(RANDOM_LETTERS))
    return f"{datetime.fromtimestamp(clock.now()):%Y%m%d-%H%M%S}-{tail}"


def is_run_id(text: str) -> bool:
    """Can this be the id of a run? Nothing else ever names a folder."""
    return re.fullmatch(RUN_ID_PATTERN, text, re.ASCII) is not None


def short_name(run_id: str) -> str:
    """Return what people can call a run by: its last letters.

    Not if they could be taken for a date, or for the id of a terminal.

    >>> short_name("20261115-084037-k3f9"), short_name("20261115-084037-2026")
    ('k3f9', '20261115-084037-2026')
    """
    tail = run_id.rpartition("-")[2]
    is_clear = len(tail) == RANDOM_LETTERS and re.fullmatch(r"[0-9a-f]*", tail) is None
    return tail if is_clear else run_id


def session_name_of(run_id: str) -> str:
    return f"{SESSION_PREFIX}{run_id}"


def run_of_session(session: str) -> str:
    name = session.removeprefix(SESSION_PREFIX)
    return name if name != session and is_run_id(name) else ""
