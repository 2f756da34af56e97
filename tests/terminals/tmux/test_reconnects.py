"""The engine when its connection or the whole tmux server goes away, and when it starts again."""

import asyncio
import os
import random
import signal
from contextlib import suppress

import pytest

from cli_agent_orchestrator.errors import TmuxCommandError, TmuxGone
from cli_agent_orchestrator.terminals.tmux import HUB_SESSION, Command
from tests.terminals.tmux.rig import LONG_SLEEP, Recorder, Rig

pytestmark = pytest.mark.tmux

SPEAKER = "echo hello; while read line; do echo said $line; done; exit 9"
FLOOD = "while :; do echo flooding flooding flooding flooding flooding; done"


async def client_pids(rig: Rig) -> list[int]:
    return [int(pid) for pid in (await rig.by_hand("list-clients", "-F", "#{client_pid}")).split()]


async def kill_client(rig: Rig) -> None:
    [pid] = await client_pids(rig)
    os.kill(pid, signal.SIGKILL)


async def until_connected_again(rig: Rig, times: int = 2) -> None:
    await rig.recorder.until(lambda: len(rig.recorder.connections) == times)


async def test_a_killed_connection_is_replaced_and_the_programs_live(rig: Rig) -> None:
    pane = await rig.run("sh", "-c", SPEAKER)
    await rig.recorder.until_shown(pane, "hello")
    await kill_client(rig)
    await until_connected_again(rig)
    panes, screens = rig.recorder.connections[-1]
    assert [(info.pane, info.tag, info.dead) for info in panes] == [(pane, "tag-0", False)]
    assert screens[pane].text.startswith("hello")
    assert len(rig.recorder.reasons) == 1
    await rig.tmux.paste(pane, b"again\n")
    await rig.recorder.until_shown(pane, "said again")
    await rig.tmux.press(pane, ["C-d"])
    assert await rig.recorder.until_exited(pane) == 9
    assert rig.recorder.exits == [(pane, 9)]


async def test_a_killed_server_is_replaced_by_an_empty_one(rig: Rig) -> None:
    await rig.run(*LONG_SLEEP)
    await rig.by_hand("kill-server")
    await until_connected_again(rig)
    assert rig.recorder.connections[-1] == ([], {})
    assert rig.recorder.order[-2:] == ["disconnected", "connected"]
    pane = await rig.run("sh", "-c", SPEAKER)
    await rig.recorder.until_shown(pane, "hello")


async def test_a_killed_hub_is_made_again_with_all_windows(rig: Rig) -> None:
    pane = await rig.run("sh", "-c", SPEAKER)
    await rig.by_hand("kill-session", "-t", HUB_SESSION)
    await until_connected_again(rig)
    [info] = rig.recorder.connections[-1][0]
    assert (info.pane, info.session) == (pane, "work")
    await rig.tmux.paste(pane, b"again\n")
    await rig.recorder.until_shown(pane, "said again")


async def test_what_was_asked_of_a_lost_connection_fails(rig: Rig) -> None:
    pane = await rig.run(*LONG_SLEEP)
    server = int(await rig.by_hand("display-message", "-p", "#{pid}"))
    os.kill(server, signal.SIGSTOP)
    pending = [asyncio.create_task(rig.tmux.scrollback(pane)) for _ in range(3)]
    pending.append(asyncio.create_task(rig.tmux.read_ansi(pane)))
    await asyncio.sleep(0)
    os.kill(server, signal.SIGKILL)
    results = await asyncio.gather(*pending, return_exceptions=True)
    assert [type(result) for result in results] == [TmuxGone] * 4


async def test_a_server_that_does_not_answer_is_given_up_and_found_again(rig: Rig) -> None:
    pane = await rig.run("sh", "-c", SPEAKER)
    await rig.recorder.until_shown(pane, "hello")
    recorder = Recorder()
    async with rig.second_tmux(recorder, patience=2) as tmux:
        server = int(await rig.by_hand("display-message", "-p", "#{pid}"))
        os.kill(server, signal.SIGSTOP)
        try:
            async with asyncio.timeout(60):
                with pytest.raises(TmuxGone, match="did not answer for 2 seconds"):
                    await tmux.scrollback(pane)
        finally:
            os.kill(server, signal.SIGCONT)
        await recorder.until(lambda: len(recorder.connections) > 1)
        await tmux.paste(pane, b"again\n")
        await recorder.until_shown(pane, "said again")
        assert (await tmux.scrollback(pane)).startswith("hello")


async def test_without_a_connection_every_verb_fails(rig: Rig) -> None:
    await rig.tmux.close()
    with pytest.raises(TmuxGone):
        await rig.tmux.panes()
    with pytest.raises(TmuxGone):
        await rig.tmux.paste("%1", b"x")
    with pytest.raises(TmuxGone):
        await rig.tmux.open_window("s", "n", Command(LONG_SLEEP, "/", {}), "t")


async def test_a_new_engine_finds_the_living_and_the_dead(rig: Rig) -> None:
    living = await rig.run("sh", "-c", SPEAKER, raw_output=True)
    dying = await rig.run("sh", "-c", "echo last words; read x; exit 7")
    await rig.recorder.until_shown(living, "hello")
    await rig.recorder.until_shown(dying, "last words")
    await rig.tmux.close()
    await rig.by_hand("send-keys", "-t", dying, "Enter")
    while (await rig.by_hand("display-message", "-p", "-t", dying, "#{pane_dead}")).strip() != "1":
        pass
    recorder = Recorder()
    async with rig.second_tmux(recorder) as tmux:
        [(panes, screens)] = recorder.connections
        assert {info.pane: (info.tag, info.dead, info.exit_code) for info in panes} == {
            living: ("tag-0", False, None),
            dying: ("tag-1", True, 7),
        }
        assert "last words" in screens[dying].text
        await tmux.paste(living, b"again\n")
        await recorder.until(lambda: b"said again" in recorder.outputs.get(living, b""))
        await tmux.press(living, ["C-d"])
        assert await recorder.until_exited(living) == 9
        assert recorder.exits == [(living, 9)]


async def test_an_engine_can_be_closed_and_started_again(rig: Rig) -> None:
    pane = await rig.run("sh", "-c", SPEAKER)
    await kill_client(rig)
    await rig.recorder.until(lambda: bool(rig.recorder.reasons))
    await rig.tmux.close()
    await rig.tmux.start()
    await rig.tmux.paste(pane, b"again\n")
    await rig.recorder.until_shown(pane, "said again")
    assert len(await client_pids(rig)) == 1


async def test_programs_outlive_the_engine_and_nothing_else_does(rig: Rig) -> None:
    pane = await rig.run(*LONG_SLEEP)
    [client] = await client_pids(rig)
    assert os.getpgid(client) != os.getpgrp(), "a Ctrl-C for us is not one for it"
    await rig.tmux.close()
    assert await client_pids(rig) == []
    assert pane in await rig.by_hand("list-panes", "-a", "-F", "#{pane_id}")
    assert list(rig.scratch.iterdir()) == []


async def test_a_client_whose_owner_was_killed_is_ended(rig: Rig) -> None:
    await rig.run("sh", "-c", FLOOD)
    await rig.tmux.close()
    stale = await asyncio.create_subprocess_exec(
        *("tmux", "-L", rig.socket, "-C", "attach", "-t", HUB_SESSION),
        env=rig.environ,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1000,
    )
    assert stale.stdout is not None
    # It reads its first lines and no more: tmux has to keep the rest for it.
    await stale.stdout.readuntil(b"%output")
    recorder = Recorder()
    async with rig.second_tmux(recorder):
        await stale.communicate()
        assert stale.returncode == -signal.SIGKILL
        assert len(await client_pids(rig)) == 1


async def test_windows_opened_and_closed_wildly_do_not_bring_tmux_down(rig: Rig) -> None:
    dice = random.Random(7)

    async def live_and_die(session: str) -> None:
        pane = await rig.run("sh", "-c", dice.choice(["exit 3", "sleep 1000"]), session=session)
        # Refused if the program has ended, or if somebody else has closed its window.
        with suppress(TmuxCommandError):
            await rig.tmux.paste(pane, b"x" * dice.choice([1, 1000]))
        match dice.randrange(3):
            case 0:
                for info in await rig.tmux.panes():
                    if info.session == session:
                        await rig.tmux.close_window(info.pane)
            case _:
                await rig.tmux.close_window(pane)

    await asyncio.gather(*(live_and_die(f"s{number % 4}") for number in range(60)))
    assert await rig.tmux.panes() == []
    assert rig.recorder.reasons == []


async def test_a_listener_that_fails_does_not_end_the_connection(rig: Rig) -> None:
    class Faulty(Recorder):
        def connected(self, *args: object) -> None:
            raise RuntimeError("a fault of the listener")

    await rig.tmux.close()
    recorder = Faulty()
    async with rig.second_tmux(recorder) as tmux:
        info = await tmux.open_window("s", "n", Command(("sh", "-c", "exit 2"), "/", {}), "t")
        assert await recorder.until_exited(info.pane) == 2


@pytest.mark.parametrize("turns", range(0, 60, 20))
async def test_a_start_that_is_given_up_at_any_moment_harms_nobody(rig: Rig, turns: int) -> None:
    """A client that ended in the middle of its attach made one tmux in a hundred crash."""
    server = await rig.by_hand("display-message", "-p", "#{pid}")
    await rig.tmux.close()
    starting = asyncio.create_task(rig.tmux.start())
    for _ in range(turns):
        await asyncio.sleep(0)
    starting.cancel()
    with suppress(asyncio.CancelledError):
        await starting
    await rig.tmux.close()
    assert await client_pids(rig) == []
    assert await rig.by_hand("display-message", "-p", "#{pid}") == server
