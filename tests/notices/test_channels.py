"""Notices arrive, or it is said why not: by real servers and programs of this machine."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cli_agent_orchestrator.notices.decide import NoticeKind, RunNotice, read_notice_settings
from cli_agent_orchestrator.notices.send import NoticeProgram, NotSent, WebHook, channels_of

NOTICE = RunNotice(
    NoticeKind.NEEDS_YOU, "shop: needs you", "-- & <b>programmer</b> asks", "k3f9", "shop", 7.5
)
AS_JSON = {
    "type": "cao_notice",
    "kind": "needs_you",
    "title": "shop: needs you",
    "text": "-- & <b>programmer</b> asks",
    "run": "k3f9",
    "folder": "shop",
    "at": 7.5,
    "urgent": True,
}


class Hook:
    """A server on this machine that keeps what it is sent, and answers as it is told."""

    def __init__(self) -> None:
        self.answer = 200
        self.headers: dict[str, str] = {}
        self.body = b"{}"
        self.got: list[tuple[str, Any]] = []
        self.authorization: list[str | None] = []
        self.arrived = threading.Event()
        self.release = threading.Event()
        """Until it is set a server that is `slow` does not answer."""
        self.slow = False
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                hook.got.append((self.path, json.loads(data)))
                hook.authorization.append(self.headers["Authorization"])
                hook.arrived.set()
                if hook.slow:
                    hook.release.wait(60)
                try:
                    self.send_response(hook.answer)
                    for name, value in hook.headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(hook.body)
                except OSError:
                    pass  # nobody waits any more

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self.release.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def hook() -> Iterator[Hook]:
    with closing(Hook()) as found:
        yield found


def test_a_hook_gets_json_and_a_topic_title_text_and_priority(hook: Hook) -> None:
    WebHook(f"{hook.url}/a?b=c").send(NOTICE)
    assert (hook.got.pop(), hook.authorization.pop()) == (("/a?b=c", AS_JSON), None)
    WebHook(f"{hook.url}/my-topic", "ntfy", "tk_x").send(NOTICE)
    message = {
        "topic": "my-topic",
        "title": "shop: needs you",
        "message": "-- & <b>programmer</b> asks\nrun k3f9",
        "priority": 4,
        "tags": ["question"],
    }
    assert hook.got == [("/", message)]
    assert hook.authorization == ["Bearer tk_x"]
    paused = RunNotice(NoticeKind.PAUSED, "t", "x", "", "shop", 1.0)
    WebHook(f"{hook.url}/my-topic", "ntfy").send(paused)
    assert hook.got[1][1] == {
        **message,
        **{"title": "t", "message": "x", "priority": 3, "tags": []},
    }


@pytest.mark.parametrize(
    ("answer", "again"), [(404, False), (302, False), (429, True), (500, True)]
)
def test_a_refusal_is_told_and_some_are_worth_another_try(
    hook: Hook, answer: int, again: bool
) -> None:
    hook.answer, hook.headers = answer, {"Location": f"{hook.url}/elsewhere"}
    with pytest.raises(NotSent, match=f"the server answered {answer}") as caught:
        WebHook(f"{hook.url}/s3cr3t").send(NOTICE)
    assert caught.value.again is again
    assert "s3cr3t" not in str(caught.value)
    assert len(hook.got) == 1, "a redirect is not followed"


def test_a_server_that_cannot_be_reached_is_worth_another_try(hook: Hook) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}/s3cr3t"
    hook.slow = True
    for address, why in (
        (url, "no connection (ConnectError)"),
        (hook.url, "no answer within 0.2 s"),
    ):
        with pytest.raises(NotSent) as caught:
            WebHook(address, seconds=0.2).send(NOTICE)
        assert str(caught.value) == why
        assert caught.value.again


class Programs:
    """A folder of programs that write down what they are given."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "bin"
        self.folder.mkdir()
        self.given = folder / "given"
        self.environ = {
            "PATH": f"{self.folder}:{os.defpath}",
            "GIVEN": str(self.given),
            "GIT_DIR": "/of/a/hook",
        }

    def install(self, name: str, *lines: str) -> Path:
        path = self.folder / name
        path.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="utf-8")
        path.chmod(0o755)
        return path

    @property
    def lines(self) -> list[str]:
        return self.given.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path)


WRITE_ARGUMENTS = 'printf "%s\\n" "$@" > "$GIVEN"'


def test_a_desktop_is_told_and_takes_nothing_for_an_option_or_markup(programs: Programs) -> None:
    programs.install("notify-send", WRITE_ARGUMENTS)
    NoticeProgram(programs.environ).send(NOTICE)
    text = "-- &amp; &lt;b>programmer&lt;/b> asks"
    assert programs.lines == [
        *("--app-name=cao", "--urgency=critical", "--", "shop: needs you", text)
    ]


def test_a_mac_is_told_by_its_own_program(programs: Programs) -> None:
    programs.environ["PATH"] = str(programs.folder)
    programs.install("osascript", 'for word in "$@"; do echo "$word" >> "$GIVEN"; done')
    NoticeProgram(programs.environ).send(NOTICE)
    assert programs.lines[-3:] == ["--", "shop: needs you", NOTICE.text]
    assert programs.lines[1] == "on run argv"


def test_no_program_is_taken_from_the_folder_we_are_in(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs.install("notify-send", WRITE_ARGUMENTS)
    monkeypatch.chdir(programs.folder)
    for path in (".", ""):
        with pytest.raises(NotSent, match="no notify-send"):
            NoticeProgram({**programs.environ, "PATH": path}).send(NOTICE)


def test_a_command_gets_json_in_no_project_and_without_a_shell(programs: Programs) -> None:
    programs.install("tell", WRITE_ARGUMENTS, 'pwd >> "$GIVEN"; echo "$GIT_DIR" >> "$GIVEN"',
                     'cat >> "$GIVEN"')  # fmt: skip
    NoticeProgram(programs.environ, ["tell", "$HOME; exit 1", "*"]).send(NOTICE)
    *words, data = programs.lines
    assert words == ["$HOME; exit 1", "*", "/", ""]
    assert json.loads(data) == AS_JSON


@pytest.mark.parametrize(
    ("name", "why"), [("tell", "it ended with exit code 7"), ("other", "no such program")]
)
def test_a_command_that_fails_is_told_and_not_repeated(
    programs: Programs, name: str, why: str
) -> None:
    programs.install(name, "exit 7")
    with pytest.raises(NotSent, match=why) as caught:
        NoticeProgram(programs.environ, ["tell"]).send(NOTICE)
    assert not caught.value.again


def test_a_command_that_takes_too_long_is_ended_with_all_of_its_group(programs: Programs) -> None:
    fifo = programs.folder / "fifo"
    os.mkfifo(fifo)
    programs.install("tell", f'sleep 600 > "{fifo}" &', "wait")
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(NotSent, match="not done after 1 s, and was ended") as caught:
            NoticeProgram(programs.environ, ["tell"], 1).send(NOTICE)
        assert not caught.value.again
        os.set_blocking(reader, True)
        # The end of it comes when nobody holds the other side any more.
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)


def test_an_abort_ends_a_command_and_lets_no_other_begin(programs: Programs) -> None:
    fifo = programs.folder / "fifo"
    os.mkfifo(fifo)
    programs.install("tell", f'echo begun > "{fifo}"', "exec sleep 600")
    command = NoticeProgram(programs.environ, ["tell"])
    failed: list[str] = []

    def send() -> None:
        try:
            command.send(NOTICE)
        except NotSent as error:
            failed.append(str(error))

    thread = threading.Thread(target=send)
    thread.start()
    assert fifo.read_text(encoding="utf-8") == "begun\n"
    command.abort()
    thread.join()
    assert failed == ["it ended with exit code -9"]
    with pytest.raises(NotSent, match="the run is over"):
        command.send(NOTICE)


def test_the_channels_are_those_that_are_configured() -> None:
    assert channels_of(read_notice_settings({}), {}) == []
    table = {
        "desktop": True,
        "ntfy": "https://ntfy.sh/a",
        "webhook": "https://x/y",
        "command": ["tell"],
    }
    found = channels_of(read_notice_settings(table), {})
    assert [channel.name for channel in found] == ["desktop", "ntfy", "webhook", "command"]
