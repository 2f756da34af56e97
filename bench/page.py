"""The page in a real browser: how soon it shows what, what it weighs, and what watching costs."""

import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from bench.detached import Peak
from bench.figures import AtMost, Figure, percentile
from bench.machine import PROVIDER, Machine, Server, private_machine
from bench.runs import FILES, TASK
from bench.snapshots import make_project
from bench.usage import Meter
from bench.wire import Answer, EventStream, Wire
from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.scripted_agent import DEFAULT_SCRIPT
from tests.web.browser import Page, Windows, find_chromium, started_browser

TURNS = 200
ROUNDS = TURNS // 5
VIEWS = 7
RUNS = 3
CHANGES = 40
TABS, WINDOWS = 20, 4
WATCH_SECONDS = 10.0
SETTLE_SECONDS = 2.0
PATIENCE = 180.0

# Every round fails, so that there are many turns.
FAILING = """
[[rule]]
role = "tester"
answer = "RESULT: FAIL\\nEVIDENCE:\\n- none"
"""
# The run stays where it is; its analyst is free to be sent messages, its tester to be busy.
WAITING = """
[[rule]]
role = "programmer"
misbehave = { ask = "Go on?" }

[[rule]]
role = "analyst"
contains = "again"
seconds = 1
answer = "done"

[[rule]]
role = "tester"
contains = "be busy"
misbehave = { hang = true }
"""
# Much to show: the reply of the first turn, the changes of the third.
LARGE = """
[[rule]]
role = "analyst"
run = [["{python}", "-c", "print('a line of the reply <b>\\\\n' * 100000)"]]
answer = "ANALYST_SUMMARY:\\n{output}"

[[rule]]
role = "programmer"
run = [["{python}", "-c", "open('large.txt', 'w').write('a line of the file <b>\\\\n' * 230000)"]]
answer = "PROGRAMMER_SUMMARY: done"
"""
DEFAULT = DEFAULT_SCRIPT.read_text(encoding="utf-8")
SHORT = {"MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1", "PROVIDER": PROVIDER}
WATCH_BADGE = """() => {
    window.changes = [];
    let last = "";
    const look = () => {
        const words = document.querySelector("#agent-0 .badge")?.textContent ?? "";
        const now = performance.timeOrigin + performance.now();
        if (words !== last) window.changes.push([now, words]);
        last = words;
    };
    new MutationObserver(look).observe(document.body, {childList: true, subtree: true});
    look();
}"""


def measure() -> list[Figure]:
    if find_chromium() is None or importlib.util.find_spec("playwright") is None:
        print("page: nothing is measured, for there is no Chromium or no playwright: make test-web")
        return []
    with started_browser() as browser:
        windows = Windows(browser)
        with suppress(AssertionError):  # that a server has gone is no finding here
            measures = (_long_run, _large_run, _watched_run, _crowd_run)
            found = [figure for one in measures for figure in one(windows)]
            windows.close()
    return found


def _long_run(windows: Windows) -> Iterator[Figure]:
    """Measure the first view of a run that has done much, and what the page weighs."""
    with private_machine() as machine:
        machine.script(FAILING + DEFAULT)
        with machine.server() as server, _run_of(machine, server, MAX_ROUNDS=str(ROUNDS)) as run:
            _wait(lambda: _run(server, run)["status"] == "FAIL")
            page = _signed_in(windows, server)
            yield from _weight_figures(windows, server)
            seconds = [
                _first_view(page, f"{server.url}/dashboard/runs/{run}") for _ in range(VIEWS)
            ]
    note = f"median of {VIEWS}, longest {max(seconds):.2f} s; from the address to the last turn"
    name = f"first view of a run with {TURNS} turns"
    yield Figure(name, statistics.median(seconds), "s", AtMost(1), note=note)


def _large_run(windows: Windows) -> Iterator[Figure]:
    """Measure how soon turns with much to show are opened."""
    with private_machine() as machine:
        make_project(machine.work, FILES)
        machine.script(LARGE + DEFAULT)
        with machine.server() as server, _run_of(machine, server, PROOF="off") as run:
            _wait(lambda: _run(server, run)["status"] == "PASS")
            page = _signed_in(windows, server)
            for name, turn, part in (
                ("a reply of 100,000 lines", 1, "not shown"),
                ("a diff of 5 MB", 3, "not shown"),
            ):
                seconds = [_opened(page, server, run, turn, part) for _ in range(VIEWS)]
                note = (
                    f"median of {VIEWS}, longest {max(seconds):.2f} s; from the press to the text"
                )
                yield Figure(
                    f"turn with {name} is open",
                    statistics.median(seconds),
                    "s",
                    AtMost(1),
                    note=note,
                )


def _opened(page: Page, server: Server, run: str, turn: int, part: str) -> float:
    page.goto(f"{server.url}/dashboard/runs/{run}")
    row = page.locator(f"#turn-{turn}")
    row.wait_for()
    began = time.monotonic()
    row.locator("summary").first.click()
    row.get_by_text(part).first.wait_for(state="attached")
    return time.monotonic() - began


def _first_view(page: Page, address: str) -> float:
    page.goto("about:blank")
    began = time.monotonic()
    page.goto(address, wait_until="commit")
    page.locator("#turn-1").wait_for(state="attached")
    return time.monotonic() - began


def _weight_figures(windows: Windows, server: Server) -> Iterator[Figure]:
    """Yield what a browser fetches that was never here, data apart."""
    sizes: list[int] = []
    page = windows.open()
    page.on("requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"]))
    _sign_in(page, server)
    page.wait_for_load_state("load")
    yield Figure("weight of the page", sum(sizes) / 1e3, "KB", AtMost(120))


def _watched_run(windows: Windows) -> Iterator[Figure]:
    """Measure a run that waits: its changes on the page, and what watchers cost."""
    with private_machine() as machine:
        machine.script(WAITING + DEFAULT)
        with machine.server() as server, _run_of(machine, server) as run:
            _wait(lambda: _run(server, run)["asking"] == "programmer")
            page = _signed_in(windows, server)
            yield from _change_figures(page, server, run)
            yield from _watching_figures(page, server, run)


def _change_figures(page: Page, server: Server, run: str) -> Iterator[Figure]:
    terminal = _run(server, run)["terminals"]["analyst"]
    page.goto(f"{server.url}/dashboard/runs/{run}")
    page.locator("#agent-0").wait_for()
    page.evaluate(WATCH_BADGE)
    late: list[float] = []
    with EventStream(server) as events, Wire(server) as wire:
        for _ in range(CHANGES // 2):
            wire.ask("POST", f"/terminals/{terminal}/input", {"message": "again"})
            for status in (TerminalStatus.PROCESSING, TerminalStatus.COMPLETED):
                events.wait_for(terminal, status)
                told = time.time() * 1000
                late.append(max(0.0, _seen(page, len(late)) - told))
    note = f"{len(late)} changes, p50 {percentile(late, 50):.0f} ms, longest {max(late):.0f} ms"
    name = "a status change is on the page, after the event stream told it, p95"
    yield Figure(name, percentile(late, 95), "ms", AtMost(150), note=note)


def _seen(page: Page, count: int) -> float:
    """Return when the page showed the next change, after so many others."""
    # The first is how the page was when it was opened.
    page.wait_for_function("count => window.changes.length > count", arg=count + 1)
    at: float = page.evaluate("count => window.changes[count][0]", count + 1)
    return at


def _watching_figures(page: Page, server: Server, run: str) -> Iterator[Figure]:
    terminal = _run(server, run)["terminals"]["tester"]
    page.goto("about:blank")
    with Wire(server) as wire:
        wire.ask("POST", f"/terminals/{terminal}/input", {"message": "be busy"})
    alone = _load(server)
    page.goto(f"{server.url}/dashboard/runs/{run}/agents/tester")
    page.locator(".screen").first.wait_for()
    watched = _load(server)
    page.goto("about:blank")
    after = _load(server)
    note = f"CPU of the server while the agent's spinner turns; unwatched it takes {alone:.2f} %"
    yield Figure("a watched agent adds", watched - alone, "% of a core", AtMost(3), note=note)
    yield Figure("… after the tab is closed", max(0.0, after - alone), "% of a core", AtMost(0.2))


def _load(server: Server) -> float:
    time.sleep(SETTLE_SECONDS)
    meter = Meter([server.pid])
    time.sleep(WATCH_SECONDS)
    return 100 * meter.spent().load


def _crowd_run(windows: Windows) -> Iterator[Figure]:
    """Measure what many tabs take, and whether a run goes on as it does without them."""
    with private_machine() as machine:
        machine.script(DEFAULT)
        with machine.server() as server:
            alone = statistics.median(_seconds_to_pass(machine, server) for _ in range(RUNS))
            with Peak(server.pid) as peak:
                _open_tabs(windows, server)
                seconds = [_seconds_to_pass(machine, server) for _ in range(RUNS)]
    name = f"memory of the server at most, {TABS} tabs"
    yield Figure(name, peak.bytes / 1e6, "MB", AtMost(120))
    note = f"median of {RUNS}, all passed, longest {max(seconds):.2f} s; baseline: without a tab"
    watched = statistics.median(seconds)
    yield Figure("a short run that they show passes after", watched, "s", None, alone, note)


def _open_tabs(windows: Windows, server: Server) -> None:
    """Let all runs be looked at; a window has no more than six connections to a server."""
    for _ in range(WINDOWS):
        first = _signed_in(windows, server)
        for tab in [
            first,
            *(windows.another_tab(first.context) for _ in range(TABS // WINDOWS - 1)),
        ]:
            tab.goto(f"{server.url}/dashboard")
            tab.locator("h1").wait_for()


def _seconds_to_pass(machine: Machine, server: Server) -> float:
    began = time.monotonic()
    with _run_of(machine, server) as run:
        _wait(lambda: _run(server, run)["status"] == "PASS")
    return time.monotonic() - began


def _signed_in(windows: Windows, server: Server) -> Page:
    page = windows.open()
    _sign_in(page, server)
    return page


def _sign_in(page: Page, server: Server) -> None:
    with Wire(server) as wire:
        page.goto(server.url + wire.ask("POST", "/dashboard/links")["path"])
    page.wait_for_url(f"{server.url}/dashboard")
    page.locator("h1").wait_for()


@contextmanager
def _run_of(machine: Machine, server: Server, **settings: str) -> Iterator[str]:
    """Let the server start a run, and see to it that it ends."""
    asked = {"wd": str(machine.work), "task": TASK, "settings": {**SHORT, **settings}}
    with Wire(server) as wire:
        run = str(wire.ask("POST", "/runs", asked)["id"])
    try:
        yield run
    finally:
        if _run(server, run)["status"] == "running":
            with Wire(server) as wire:
                wire.ask("POST", f"/runs/{run}/stop")


def _run(server: Server, run: str) -> Answer:
    with Wire(server) as wire:
        return wire.ask("GET", f"/runs/{run}")


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("what was waited for did not come")
        time.sleep(0.1)
