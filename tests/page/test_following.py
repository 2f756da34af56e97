"""Pages over real run folders, as they change."""

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager, nullcontext
from pathlib import Path

import pytest
from msgspec import structs
from msgspec.structs import replace

from cli_agent_orchestrator.core.ansi import Frame, frame_line, header_line
from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.models import (
    BUILT_IN,
    Choice,
    OutputMode,
    Question,
    TerminalStatus,
)
from cli_agent_orchestrator.errors import NotFound
from cli_agent_orchestrator.events import (
    EventKind,
    HandoffEvent,
    NotConverging,
    Paused,
    RunBegan,
    RunEnded,
    TurnBegan,
    TurnEnded,
)
from cli_agent_orchestrator.page.follow import fragment, watched
from cli_agent_orchestrator.page.stream import News, PageContext
from cli_agent_orchestrator.page.words import Page
from cli_agent_orchestrator.runs.record import write_record
from cli_agent_orchestrator.runs.service import RunService
from cli_agent_orchestrator.settings.layout import (
    replay_folder,
    run_folder,
    turns_folder,
)
from tests.page.view_data import check_page, part_of, written
from tests.runs.kept_runs import snapshots_in
from tests.server.run_rig import NOON, RUN, Rig
from tests.server.running import WAIT_SECONDS
from tests.show.reading import Elements

NEVER = 100 * WAIT_SECONDS
"""A page that is not woken shows nothing new: nobody waits so long for the next look."""
BEGAN = (
    RunBegan(NOON, f"cao-{RUN}", {"analyst": "a1"}, {"analyst": "codex"}, "/a"),
    TurnBegan(NOON, "analyst", 1, 1, 1, "a1", "codex"),
)
ASKS = HandoffEvent(
    NOON,
    EventKind.WAITING_FOR_PERSON,
    "a1",
    "analyst",
    status=TerminalStatus.WAITING_USER_ANSWER,
    question="May I?",
)
DONE = (
    TurnEnded(NOON + 5, "analyst", 1, 1, 1, "delivered", "summary received", 4.0, "/a/1"),
    RunEnded(NOON + 9, "PASS", 1, 0),
)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def context_of(rig: Rig) -> PageContext:
    runs = RunService(rig.state, rig.launcher, os.environ)
    return PageContext(
        rig.terminals, runs, rig.state, News(rig.state), SystemClock(), {}, lambda: [BUILT_IN]
    )


class Looking:
    """A tab: it waits for a page on which something is so."""

    def __init__(self, pages: AsyncGenerator[Page, None]) -> None:
        self._pages = pages

    async def until(self, is_so: Callable[[Page], bool]) -> Page:
        async with asyncio.timeout(WAIT_SECONDS):
            async for page in self._pages:
                if is_so(page):
                    return page
        raise AssertionError("there are no more pages")

    async def first(self) -> Page:
        return await self.until(lambda _: True)

    async def rest(self) -> list[Page]:
        async with asyncio.timeout(WAIT_SECONDS):
            return [page async for page in self._pages]

    async def says(self, words: str) -> Page:
        return await self.until(lambda page: words in written(page))


@asynccontextmanager
async def looking(context: PageContext, path: str = "/dashboard") -> AsyncGenerator[Looking, None]:
    async with aclosing(watched(path, replace(context, look_seconds=NEVER))) as pages:
        yield Looking(pages)
    assert context.terminals.listeners == 0  # type: ignore[attr-defined]


def holder_of(page: Page, part: str) -> str:
    return next(one.into for one in page.parts if one.id == part)


async def test_a_run_goes_from_group_to_group(rig: Rig) -> None:
    rig.terminals.add("a1")
    rig.terminals.asked = Question("Run: make clean?", (), "f00d")
    with rig.folder.locked():
        rig.happen(*BEGAN)
        async with looking(context_of(rig)) as tab:
            page = await tab.first()
            check_page(page)
            assert holder_of(page, f"run-{RUN}") == "working-rows"
            assert "round 1 of 3" in written(page)
            rig.happen(ASKS)
            page = await tab.says("The analyst asks: Run: make clean?")
            assert holder_of(page, f"run-{RUN}") == "needs-rows"
            rig.happen(*DONE)
            page = await tab.says("PASS")
            assert holder_of(page, f"run-{RUN}") == "done-rows"


async def test_a_new_run_appears_and_a_removed_one_goes(rig: Rig) -> None:
    (rig.folder.path.parent / "20261115-084037-yyyy").write_text("no folder")
    async with looking(context_of(rig)) as tab:
        await tab.first()
        other = "20261115-084037-zzzz"
        record = replace(rig.record, id=other, task_line="another one", started=NOON + 1)
        run_folder(rig.state, other).make()
        write_record(run_folder(rig.state, other), record)
        page = await tab.says("another one")
        rows = [part.id for part in page.parts if part.id.startswith("run-")]
        assert rows == [f"run-{other}", f"run-{RUN}"]
        shutil.rmtree(rig.folder.path)
        page = await tab.until(lambda page: f"run-{RUN}" not in [part.id for part in page.parts])
        assert "another one" in written(page)


async def test_a_run_grows_on_its_page(rig: Rig) -> None:
    with rig.folder.locked():
        rig.happen(*BEGAN)
        async with looking(context_of(rig), f"/dashboard/runs/{RUN}") as tab:
            page = await tab.first()
            check_page(page)
            assert "at work" in part_of(page, "turn-1").written
            rig.happen(NotConverging(NOON + 1, "Not converging: F1 is open."))
            await tab.says("F1 is open.")
            rig.happen(Paused(NOON + 2))
            await tab.says("It is paused")
            rig.happen(*DONE)
            page = await tab.says("PASS")
            assert "delivered" in part_of(page, "turn-1").written


@pytest.mark.parametrize("more", ["", "/agents/analyst"])
async def test_a_question_that_is_drawn_in_steps_can_be_answered(rig: Rig, more: str) -> None:
    """Nobody tells of the later ones, and a key for an earlier one would be refused."""
    rig.terminals.add("a1", f"cao-{RUN}")
    rig.terminals.change("a1", TerminalStatus.WAITING_USER_ANSWER)
    rig.terminals.asked = Question("May", (Choice("1", "Yes"),), "f00d")
    with rig.folder.locked():
        rig.happen(*BEGAN, ASKS)
        async with looking(context_of(rig), f"/dashboard/runs/{RUN}{more}") as tab:
            await tab.says("asks you")
            for step in ("May I d", "May I do", "May I do it?"):
                rig.terminals.asked = Question(step, (Choice("1", "Yes"),), f"<{step}>")
                page = await tab.says(step)
                assert f"<{step}>" in str(part_of(page, "need").of("button")[0]["data-body"])


@pytest.mark.parametrize("more", ["", "/agents/analyst"])
async def test_a_run_that_vanishes_says_so_and_keeps_the_rest(rig: Rig, more: str) -> None:
    rig.happen(*BEGAN, *DONE)
    async with looking(context_of(rig), f"/dashboard/runs/{RUN}{more}") as tab:
        before = await tab.first()
        if not more:
            rig.folder.replace("run.json", b"{")
            await tab.says("cannot be read")
        shutil.rmtree(rig.folder.path)
        page = await tab.says("not there any more")
        assert {part.id for part in page.parts} >= {part.id for part in before.parts}


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("", "✓ PASS"),
        (f"/runs/{RUN}", "✓ PASS"),
        (f"/runs/{RUN}/agents/analyst", "This agent has ended."),
    ],
)
async def test_when_the_server_ends_a_page_shows_how_all_stands(
    rig: Rig, rest: str, words: str
) -> None:
    with rig.folder.locked():
        rig.happen(*BEGAN)
        context = context_of(rig)
        async with looking(context, f"/dashboard{rest}") as tab:
            assert words not in written(await tab.first())
            rig.happen(*DONE)
            context.news.end()
            pages = await tab.rest()
            assert words in written(pages[-1])
        async with looking(context, f"/dashboard{rest}") as late:
            assert len(await late.rest()) == 1


async def test_the_screen_of_an_agent(rig: Rig) -> None:
    rig.terminals.add("a1", f"cao-{RUN}")
    rig.terminals.more_screens = asyncio.Queue()
    with rig.folder.locked():
        rig.happen(*BEGAN)
        async with looking(context_of(rig), f"/dashboard/runs/{RUN}/agents/analyst") as tab:
            for screen in ("one", "one\n\x1b[31mtwo", "three"):
                rig.terminals.more_screens.put_nowait(screen)
                page = await tab.says(screen[-3:])
            check_page(page)
            assert "The title says so" in part_of(page, "why").written
            rig.terminals.asked = Question("May I?", (), "f00d")
            rig.terminals.change("a1", TerminalStatus.WAITING_USER_ANSWER)
            page = await tab.says("It asks you")
            assert "disabled" in part_of(page, "message").of("textarea")[0]


@pytest.mark.parametrize(("more", "part"), [("", "agent-0"), ("/agents/analyst", "head")])
async def test_a_page_is_woken_by_each_status_of_an_agent(rig: Rig, more: str, part: str) -> None:
    """Of which its screen need not show anything."""
    rig.terminals.add("a1", f"cao-{RUN}")
    with rig.folder.locked():
        rig.happen(*BEGAN)
        async with looking(context_of(rig), f"/dashboard/runs/{RUN}{more}") as tab:
            await tab.first()
            rig.terminals.change("a1", TerminalStatus.PROCESSING)
            await tab.until(lambda page: "working" in part_of(page, part).written)
            rig.terminals.change("a1", TerminalStatus.IDLE)
            await tab.until(lambda page: "at rest" in part_of(page, part).written)


async def test_the_next_agent_of_a_role_does_not_show_the_screen_of_the_last(rig: Rig) -> None:
    rig.terminals.add("a1", f"cao-{RUN}")
    rig.terminals.screens = ["of the first"]
    with rig.folder.locked():
        rig.happen(*BEGAN)
        async with looking(context_of(rig), f"/dashboard/runs/{RUN}/agents/analyst") as tab:
            await tab.says("of the first")
            rig.terminals.add("a2", f"cao-{RUN}")
            rig.terminals.screens = []
            rig.happen(structs.replace(BEGAN[0], terminals={"analyst": "a2"}))
            await tab.until(lambda page: "of the first" not in written(page))


async def test_the_page_that_starts_a_run_offers_what_can_be_used(rig: Rig) -> None:
    flows = rig.project / ".cao" / "flows"
    flows.mkdir(parents=True)
    (flows / "broken.toml").write_bytes(b"[[[ \xff")
    context = context_of(rig)
    async with looking(context, "/dashboard/new") as tab:
        page = await tab.first()
        context.news.end()
        assert await tab.rest() == []
    check_page(page)
    offered = {one.get("value") for one in part_of(page, "new").of("option")}
    assert {str(rig.project), "loop", "pair", "solo"} <= offered
    assert "broken" not in offered


OF_RUN = f"/dashboard/runs/{RUN}"
NO_PAGE = ("/dashboard/what", "/elsewhere", "http://[::1/dashboard", "/dashboard/runs/stray",
           "/dashboard/runs/20261115-084037-none", "/dashboard/runs/%2e%2e",
           f"{OF_RUN}/agents/nobody", f"{OF_RUN}/agents/analyst/more")  # fmt: skip
NO_PIECE = ("/dashboard/what", f"{OF_RUN}/turns/9", f"{OF_RUN}/turns/{'9' * 50}",
            f"{OF_RUN}/turns/²", "/dashboard/runs/20261115-084037-none/turns/1",
            f"{OF_RUN}/agents/nobody/scrollback", f"{OF_RUN}/replay/analyst/0",
            f"{OF_RUN}/replay/..%2f..%2fx/0")  # fmt: skip


async def test_what_is_not_there_is_not_found(rig: Rig) -> None:
    rig.happen(*BEGAN)
    (rig.folder.path.parent / "stray").mkdir()
    for path in NO_PAGE:
        with pytest.raises(NotFound):
            watched(path, context_of(rig))
    for path in NO_PIECE:
        with pytest.raises(NotFound):
            await fragment(path, context_of(rig))


async def test_an_opened_turn(rig: Rig) -> None:
    rig.happen(*BEGAN, *DONE)
    turns_folder(rig.folder).create("001-analyst.md", b"<b>the reply</b>")
    html = await fragment(f"/dashboard/runs/{RUN}/turns/1?open", context_of(rig))
    assert "<b>the reply</b>" in Elements(html).written
    assert f"/dashboard/runs/{RUN}/agents/analyst" in [
        one["href"] for one in Elements(html).of("a")
    ]
    # On the page of the agent that would be a link to itself.
    own = await fragment(f"/dashboard/runs/{RUN}/turns/1?own", context_of(rig))
    assert not Elements(own).of("a")


@pytest.mark.parametrize("is_live", [True, False])
async def test_only_what_a_living_run_changed_can_be_commented_on(rig: Rig, is_live: bool) -> None:
    rig.happen(*BEGAN, *DONE[: 1 if is_live else 2])
    snapshots = snapshots_in(rig.folder, rig.project)
    snapshots.take(0, "start")
    (rig.project / "a.txt").write_text("new\n")
    snapshots.take(1, "analyst")
    with rig.folder.locked() if is_live else nullcontext():
        html = await fragment(f"/dashboard/runs/{RUN}/turns/1", context_of(rig))
    assert "new" in Elements(html).written
    assert bool(Elements(html).of("button")) == is_live


async def test_what_an_agent_has_shown_before(rig: Rig) -> None:
    rig.terminals.add("a1")
    rig.terminals.outputs[OutputMode.FULL] = "older\nnewer"
    rig.happen(*BEGAN)
    html = await fragment(f"/dashboard/runs/{RUN}/agents/analyst/scrollback", context_of(rig))
    assert Elements(html).written == "oldernewer"


async def test_a_recording_opens_where_something_is_shown(rig: Rig) -> None:
    rig.happen(*BEGAN, *DONE)
    frames = [Frame(0.1, {}), Frame(0.2, {0: " ", 1: "\x1b[31m\x1b[0m"}), Frame(0.3, {1: "hello"})]
    lines = [header_line(int(NOON), 20, 3, "analyst"), *map(frame_line, frames)]
    replay_folder(rig.folder).make()
    replay_folder(rig.folder).create("analyst.cast", b"\n".join(lines) + b"\n")
    html = await fragment(f"/dashboard/runs/{RUN}/replay/analyst", context_of(rig))
    assert "Step 3 of 3, 0.3 s after its start" in Elements(html).written


async def test_older_runs_are_fetched(rig: Rig) -> None:
    rig.happen(*BEGAN, *DONE)
    for number in range(60):
        one = f"20261114-0840{number:02d}-k{number:03d}"
        run_folder(rig.state, one).make()
        write_record(run_folder(rig.state, one), replace(rig.record, started=NOON - number - 1))
    html = await fragment("/dashboard/older", context_of(rig))
    assert len(Elements(html).of("li", "run")) == 11
