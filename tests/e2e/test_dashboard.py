"""`cao dashboard` with real servers: it finds one or runs one, and its link signs a browser in."""

import re
import stat
from pathlib import Path

import pytest

from cli_agent_orchestrator.cli.dashboard import can_open
from tests.e2e.conftest import Machine, ended_at_last
from tests.e2e.runs import free_port
from tests.page.rig import Browser
from tests.server.running import TOKEN, running_api
from tests.third_party import third_party

pytestmark = pytest.mark.tmux

ADDRESS_PATTERN = r"(http://127\.0\.0\.1:(\d+))/dashboard/sign-in#([\w-]+)"


def address_in(text: str) -> tuple[str, str]:
    """Return the server and the code that a text names."""
    found = re.search(ADDRESS_PATTERN, text)
    assert found, text
    return found[1], found[3]


def test_the_links_of_a_server_sign_people_in_until_its_token_is_removed(machine: Machine) -> None:
    machine.env.pop("DISPLAY", None)
    machine.env.pop("WAYLAND_DISPLAY", None)
    with machine.server() as server:
        done = machine.cao("dashboard", "--no-open", code=0)
        url, code = address_in(done.stdout)
        assert url == server.url
        assert "ssh" not in done.stdout
        with Browser(url) as browser:
            assert browser.sign_in(code) == 200
            key = browser.key
            with browser.updates() as updates:
                assert next(updates)["parts"]
            assert browser.sign_in(code) == 403
        port = server.url.rpartition(":")[2]
        assert f"ssh -L {port}:127.0.0.1:{port} " in machine.cao("dashboard").stdout
        a_browser_is_started_with_nothing_that_others_may_not_see(machine)
    with machine.server() as server, Browser(server.url, key=key) as browser:
        assert browser.get("/runs").status_code == 200
    (machine.home / "state" / "token").unlink()
    with machine.server() as server, Browser(server.url, key=key) as browser:
        assert browser.get("/runs").status_code == 401


def a_browser_is_started_with_nothing_that_others_may_not_see(machine: Machine) -> None:
    """All users of a machine see the words with which a program is started."""
    words = machine.home / "words"
    browser = machine.home / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {words}\n', encoding="utf-8")
    browser.chmod(0o700)
    machine.env |= {"DISPLAY": ":99", "BROWSER": f"{browser} %s"}
    machine.env.pop("SSH_CONNECTION", None)
    url, code = address_in(machine.cao("dashboard").stdout)
    seen = words.read_text(encoding="utf-8").strip()
    assert code not in seen
    assert seen.startswith("file://")
    way = Path(seen.removeprefix("file://"))
    assert f"{url}/dashboard/sign-in#{code}" in way.read_text(encoding="utf-8")
    assert stat.S_IMODE(way.stat().st_mode) == 0o600


def test_without_a_server_it_runs_one_at_the_port_that_is_set_until_it_is_ended(
    machine: Machine,
) -> None:
    machine.env["CAO_PORT"] = str(free_port())
    with ended_at_last(machine.start("dashboard", "--no-open")) as process:
        assert process.stdout is not None
        told = b""
        while b"until Ctrl-C" not in told:
            line = process.stdout.readline()
            assert line, process.communicate()
            told += line
        url, code = address_in(told.decode())
        assert url.endswith(f":{machine.env['CAO_PORT']}")
        with Browser(url) as browser:
            assert browser.sign_in(code) == 200
            assert browser.get("/runs").json() == []
            # It is the user's own: the next command finds it.
            again, _ = address_in(machine.cao("dashboard", "--no-open").stdout)
            assert again == url
        process.terminate()
        assert process.wait(60) == 0


def test_a_server_that_is_named_and_not_ours_or_has_no_page_makes_no_link(machine: Machine) -> None:
    def refusal(url: str) -> str:
        return machine.cao("dashboard", "--no-open", "--api", url, code=2).stderr

    with running_api(token=None) as theirs:
        assert f"the server at {theirs.url} is not yours" in refusal(theirs.url)
    with third_party() as recorder:
        refusal(recorder.url)
        assert not [one for one in recorder.asked if one.authorization or one.method == "POST"]
    with running_api() as other:
        machine.env["CAO_TOKEN"] = TOKEN
        assert f"the server at {other.url} is not yours" in refusal(other.url)


@pytest.mark.parametrize(
    ("environ", "platform", "expected"),
    [
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({}, "linux", False),
        ({"DISPLAY": ""}, "linux", False),
        ({}, "darwin", True),
        ({"DISPLAY": ":10", "SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, "linux", False),
        ({"SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, "darwin", False),
    ],
)
def test_a_browser_opens_only_where_its_user_sits(
    environ: dict[str, str], platform: str, expected: bool
) -> None:
    assert can_open(environ, platform) == expected
