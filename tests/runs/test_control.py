"""The control file of a run: real files, watched as a run watches them."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

import pytest

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.files import Folder, NotPlain
from cli_agent_orchestrator.pipeline.steering import (
    LARGEST_LINE,
    Ask,
    Heard,
    Hint,
    Pause,
    Skip,
    Unpause,
    Wish,
    to_line,
)
from cli_agent_orchestrator.runs.control import Listener, write_ask
from cli_agent_orchestrator.settings.layout import CONTROL_FILE, run_folder

RUN = "20261115-084037-k3f9"
WAIT_SECONDS = 60.0


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = run_folder(tmp_path, RUN)
    folder.make()
    return folder


def ask(folder: Folder, wish: Wish) -> Ask:
    return write_ask(folder, wish, SystemClock())


def add(folder: Folder, data: bytes) -> None:
    """Write to the file as anybody could."""
    with (folder.path / CONTROL_FILE).open("ab") as file:
        file.write(data)


def size(folder: Folder) -> int:
    return (folder.path / CONTROL_FILE).stat().st_size


class Run:
    """Hears as a run does."""

    def __init__(self) -> None:
        self._heard: SimpleQueue[Heard] = SimpleQueue()
        self._warned: SimpleQueue[str] = SimpleQueue()
        self.hear = self._heard.put
        self.warn = self._warned.put

    def next(self) -> Heard:
        return self._heard.get(timeout=WAIT_SECONDS)

    def next_ask(self) -> Ask:
        """Return the next ask; rubbish is passed over."""
        while (heard := self.next()).ask is None:
            pass
        return heard.ask

    def next_warning(self) -> str:
        return self._warned.get(timeout=WAIT_SECONDS)

    @property
    def is_quiet(self) -> bool:
        return self._heard.empty() and self._warned.empty()


@contextmanager
def listening(folder: Folder, position: int = 0) -> Iterator[Run]:
    run = Run()
    with Listener(folder, position, run.hear, run.warn):
        yield run


class TestWriting:
    def test_asks_are_lines_with_id_and_time_for_the_owner_alone(self, folder: Folder) -> None:
        first, second = ask(folder, Pause()), ask(folder, Hint("tester", "a\nb"))
        path = folder.path / CONTROL_FILE
        assert path.read_text(encoding="utf-8").splitlines() == [to_line(first), to_line(second)]
        assert first.id != second.id
        assert 0 < first.at <= second.at
        assert path.stat().st_mode & 0o777 == 0o600

    def test_many_at_once_do_not_run_into_each_other(self, folder: Folder) -> None:
        text = "x" * 5000
        threads = [threading.Thread(target=ask, args=(folder, Hint(None, text))) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with listening(folder) as run:
            heard = [run.next() for _ in threads]
        assert all(one.ask and one.ask.wish == Hint(None, text) for one in heard)

    @pytest.mark.parametrize("kind", ["link", "pipe", "hard link", "folder"])
    def test_nothing_but_a_plain_file_is_written_to(self, folder: Folder, kind: str) -> None:
        path, other = folder.path / CONTROL_FILE, folder.path / "other"
        other.touch()
        match kind:
            case "link":
                path.symlink_to(other)
            case "pipe":
                os.mkfifo(path)
            case "hard link":
                path.hardlink_to(other)
            case "folder":
                path.mkdir()
        with pytest.raises(OSError) as caught:  # noqa: PT011 - which one, the next line says
            ask(folder, Pause())
        assert isinstance(caught.value, NotPlain | IsADirectoryError)
        assert other.read_bytes() == b""

    def test_what_did_not_fit_on_the_disk_is_not_said_to_be_asked(self, folder: Folder) -> None:
        done = subprocess.run(
            [sys.executable, "-c", NARROW, str(folder.root), *folder.parts],
            capture_output=True,
            text=True,
            check=True,
            timeout=WAIT_SECONDS,
        )
        assert done.stdout == "No space left on device\n"
        assert size(folder) == 20
        new = ask(folder, Skip())
        with listening(folder) as run:
            assert run.next_ask() == new


NARROW = """
import resource, sys
from pathlib import Path
from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.pipeline.steering import Pause
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.runs.control import write_ask

resource.setrlimit(resource.RLIMIT_FSIZE, (20, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
try:
    write_ask(Folder(Path(sys.argv[1]), tuple(sys.argv[2:])), Pause(), SystemClock())
except OSError as error:
    print(error.strerror)
"""


class TestListening:
    def test_what_was_asked_before_and_what_is_asked_now_is_heard_in_order(
        self, folder: Folder
    ) -> None:
        before = ask(folder, Pause())
        with listening(folder) as run:
            assert run.next() == Heard(before, size(folder))
            now = ask(folder, Unpause())
            assert run.next() == Heard(now, size(folder))
        assert run.is_quiet

    def test_what_was_asked_before_is_heard_before_anything_else_is_done(
        self, folder: Folder
    ) -> None:
        ask(folder, Pause())
        with listening(folder) as run:
            assert not run.is_quiet

    def test_what_was_heeded_is_not_heard_again(self, folder: Folder) -> None:
        ask(folder, Pause())
        heeded = size(folder)
        new = ask(folder, Skip())
        with listening(folder, heeded) as run:
            assert run.next() == Heard(new, size(folder))
        assert run.is_quiet

    def test_half_a_line_is_nothing_until_its_end_comes(self, folder: Folder) -> None:
        line = to_line(Ask("a1", 1.0, Pause())).encode()
        add(folder, line[:10])
        with listening(folder) as run:
            add(folder, line[10:])
            assert run.is_quiet
            add(folder, b"\n")
            assert run.next().ask == Ask("a1", 1.0, Pause())

    def test_half_a_line_that_was_left_does_not_spoil_the_next_ask(self, folder: Folder) -> None:
        add(folder, b'{"id": "a1", "at"')
        new = ask(folder, Pause())
        with listening(folder) as run:
            assert run.next_ask() == new

    @pytest.mark.parametrize(
        "rubbish",
        [
            b"nonsense\n",
            b"\n\n\n",
            b"\xff\x00\x1b[2J\n",
            b'{"do": "pause"}\n',
            b"[" * 100_000 + b"\n",
            b"x" * (LARGEST_LINE + 1),
        ],
    )
    def test_rubbish_is_passed_over_with_one_warning(self, folder: Folder, rubbish: bytes) -> None:
        with listening(folder) as run:
            add(folder, rubbish)
            new = ask(folder, Pause())
            assert run.next_ask() == new
            assert CONTROL_FILE in run.next_warning()
            add(folder, rubbish)
            assert ask(folder, Skip()) == run.next_ask()
        assert run.is_quiet

    def test_it_goes_on_listening_when_nobody_reads_the_warnings(self, folder: Folder) -> None:
        run = Run()

        def warn(text: str) -> None:
            run.warn(text)
            raise BrokenPipeError

        with Listener(folder, 0, run.hear, warn):
            add(folder, b"rubbish\n")
            assert CONTROL_FILE in run.next_warning()
            assert ask(folder, Pause()) == run.next_ask()

    def test_what_is_no_file_is_said_once(self, folder: Folder) -> None:
        (folder.path / CONTROL_FILE).mkdir()
        with listening(folder) as run:
            assert "nothing can be asked of the run" in run.next_warning()

    def test_another_file_in_its_place_is_read_from_its_beginning(self, folder: Folder) -> None:
        with listening(folder, 10_000) as run:
            new = ask(folder, Pause())
            assert run.next() == Heard(new, size(folder))

    def test_it_ends_at_once(self, folder: Folder) -> None:
        with listening(folder) as run:
            pass
        assert "control" not in [thread.name for thread in threading.enumerate()]
        ask(folder, Pause())
        assert run.is_quiet
