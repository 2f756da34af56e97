"""Makes the pictures of the documentation from real runs: `make pictures`.

The demo's project is worked on in a terminal, whose screen becomes the picture of the live view.
Beside it there are a run whose agent asks something and one that is at work. All of them are on the
page then, of which each view is taken in both sizes and colours.
"""

import importlib
import io
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from cli_agent_orchestrator.show.markup import color_rules, joined, screen_lines, tag
from tests.cli.panes import Pane
from tests.e2e.conftest import CAO, Machine, inherited
from tests.e2e.runs import rule
from tests.e2e.warm import WarmCao
from tests.web.browser import DESK, LOOKS, Look, Page, Windows, look_at, started_browser
from tests.web.demo_runs import new_project, prepare_demo, run_ids, start_run
from tests.web.visits import sign_in

ROOT = Path(__file__).parents[2]
PICTURES, CACHE = ROOT / "docs" / "pictures", ROOT / ".cache"
COLUMNS, ROWS = 104, 24
LENGTHS = (2.4, 1.3, 3.2, 1.1, 2.8)

ASKED = """# Task
The prices of the shop are to be read from a file.

# Test
All tests pass, and a price that is changed in the file is charged.
"""
SLOW = """# Task
Totals are to be rounded to whole cents.

# Test
All tests pass, and so does a new one with half a cent.
"""
FIRST = (
    rule(
        "programmer", contains='"read from a file"', misbehave='{ ask = "Run: pip install tomli" }'
    ),
    rule("programmer", contains='"rounded to whole cents"', seconds="3600"),
    rule("analyst", contains='"read from a file"'),
    rule("analyst", contains='"rounded to whole cents"'),
)
STYLE = """
body { margin: 0; background: #1b1b1b }
.screen { display: inline-block; padding: 12px 16px; font: 14px/1.25 "DejaVu Sans Mono", monospace }
.screen div { min-height: 1.25em; white-space: pre }
"""


@contextmanager
def own_machine() -> Iterator[Machine]:
    """Yield a machine with nothing on it, and leave nothing of it behind."""
    warm = WarmCao(inherited())
    # Not among temporary files, where agents may write: a run would warn of it.
    with tempfile.TemporaryDirectory(prefix="pictures-", dir=CACHE) as home:
        machine = Machine(Path(home), warm)
        try:
            yield machine
        finally:
            machine.shut_down()
            warm.close()


def take_live_view(page: Page, machine: Machine, project: Path) -> str:
    """Run the demo in a terminal, take a picture in its second round, and return its run's id."""
    known = run_ids(machine)
    begin = f"cd {project} && exec {shlex.join(CAO)} run task.md"
    place = Path(machine.env.get("TMUX_TMPDIR", "/tmp"))
    name = f"pictures-{machine.home.name}"
    shown = r"(?s)Round 2 of .*▶ programmer .*working +0:0[1-9].*hint"
    with closing(Pane(place, "sh", "-c", begin, name=name, env=machine.env)) as pane:
        pane.resize(COLUMNS, ROWS)
        pane.tmux("set-option", "-g", "remain-on-exit", "on")
        pane.until(lambda lines: re.search(shown, "\n".join(lines)))
        save(drawn(page, pane.tmux("capture-pane", "-e", "-p")), "live-view")
        pane.until_shown("PASS, proven")
    (run,) = run_ids(machine) - known
    return run


def drawn(page: Page, screen: str) -> bytes:
    """Return a picture of a terminal's screen."""
    lines = joined(tag("div", line) for line in screen_lines(screen.rstrip("\n")))
    page.set_content(f"<style>{STYLE}{color_rules()}</style>{tag('div', lines, class_='screen')}")
    png: bytes = page.locator(".screen").first.screenshot()
    return png


def take_views(page: Page, views: dict[str, str]) -> None:
    """Take every view in every size and colour."""
    for name, address in views.items():
        page.goto(address)
        page.locator("h1").wait_for()
        take_looks(page, name)


def take_turn(page: Page, run: str) -> None:
    """Take the first turn of the programmer, opened, with what it changed."""
    page.goto(run)
    turn = page.locator("#turns > li").filter(
        has=page.get_by_role("heading", name="programmer", exact=True)
    )
    turn.last.locator("summary").first.click()
    turn.last.locator(".diff-added").first.wait_for()
    take_looks(page, "one-turn", lambda: turn.last.evaluate("one => one.scrollIntoView()"))


def take_looks(page: Page, name: str, settle: Callable[[], object] = lambda: None) -> None:
    for look in LOOKS:
        look_at(page, look)
        settle()
        save(page.screenshot(clip=seen(page, look)), f"{name}-{suffix(look)}")
    look_at(page, DESK)


def seen(page: Page, look: Look) -> dict[str, float]:
    """Return what is seen of a page, without the empty room below a short one."""
    main = page.locator("main").bounding_box()
    height = min(main["y"] + main["height"], look.size["height"])
    return {"x": 0, "y": 0, "width": look.width, "height": height}


def save(png: bytes, name: str) -> None:
    """Save a picture with a table of 256 colours, which is more than enough for a page."""
    image = importlib.import_module("PIL.Image")
    picture = image.open(io.BytesIO(png)).quantize(256, dither=image.Dither.NONE)
    picture.save(PICTURES / f"{name}.png", optimize=True)
    print(f"docs/pictures/{name}.png")


def suffix(look: Look) -> str:
    return f"{look.width}{'-dark' if look.scheme == 'dark' else ''}"


def take_all(page: Page, machine: Machine, folder: Path) -> None:
    """Begin three runs, and take pictures of them."""
    with machine.server() as server:
        asking = start_run(machine, new_project(folder, "web-shop", ASKED))
        start_run(machine, new_project(folder, "checkout", SLOW))
        demo = take_live_view(page, machine, new_project(folder, "shopping-basket"))
        sign_in(page, machine, server)
        runs = f"{server.url}/dashboard/runs"
        take_views(
            page,
            {
                "all-runs": f"{server.url}/dashboard",
                "one-run": f"{runs}/{demo}",
                "question": f"{runs}/{asking}",
                "one-agent": f"{runs}/{asking}/agents/programmer",
                "new-run": f"{server.url}/dashboard/new",
            },
        )
        take_turn(page, f"{runs}/{demo}")


def main() -> int:
    PICTURES.mkdir(exist_ok=True)
    CACHE.mkdir(exist_ok=True)
    with (
        started_browser() as browser,
        own_machine() as machine,
        tempfile.TemporaryDirectory(prefix="cao-") as folder,
    ):
        prepare_demo(machine, *FIRST, seconds=LENGTHS)
        windows = Windows(browser)
        take_all(windows.open(), machine, Path(folder))
        windows.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
