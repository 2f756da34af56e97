"""The terminal service with real tmux and the scripted agent."""

import asyncio
import re
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.models import OutputMode, Terminal, TerminalStatus
from cli_agent_orchestrator.errors import (
    BadFolder,
    InputRefused,
    NotFound,
    StartError,
    TmuxError,
    UnknownName,
    UsageError,
)
from cli_agent_orchestrator.terminals.service import TerminalService
from cli_agent_orchestrator.terminals.store import TerminalRow, TerminalStore
from tests.terminals.conftest import Ground

pytestmark = pytest.mark.tmux

IDLE = TerminalStatus.IDLE
COMPLETED = TerminalStatus.COMPLETED
PROCESSING = TerminalStatus.PROCESSING
WAITING = TerminalStatus.WAITING_USER_ANSWER
ERROR = TerminalStatus.ERROR

SCREEN_ONLY = "title = false\nevents = false\n"


async def reached(
    service: TerminalService, terminal: Terminal, *statuses: TerminalStatus
) -> TerminalStatus:
    """Wait on the event stream until a terminal has one of these statuses."""
    async with asyncio.timeout(60):
        async for event in service.subscribe():
            if event.terminal_id == terminal.id and event.status in statuses:
                return event.status
    raise AssertionError


async def gone(service: TerminalService, terminal: Terminal) -> None:
    async with asyncio.timeout(60):
        async for event in service.subscribe():
            if event.terminal_id == terminal.id and not event.alive:
                return


def processes_of(ground: Ground) -> list[str]:
    panes = set(ground.tmux("list-panes", "-a", "-F", "#{@cao_id} #{pane_pid}").split("\n"))
    return [pane for pane in panes if pane.strip() and not pane.startswith(" ")]


async def test_an_agent_is_started_takes_a_message_and_answers(ground: Ground) -> None:
    async with ground.service('startup_dialog = "pass"') as service:
        asked = replace(ground.new("peer_system_analyst"), role="analyst_review")
        terminal = await service.create_session(asked, "mine")
        assert terminal.status is IDLE
        assert terminal.session_name == "cao-mine"
        assert len(terminal.id) >= 8
        assert terminal.created_at
        assert terminal.role == "analyst_review"
        assert re.fullmatch("analyst_review-[0-9a-f]{4}", terminal.name)
        windows = ground.tmux("list-windows", "-t", "cao-mine", "-F", "#{window_name}")
        assert windows.split() == [terminal.name]
        message = "one line\nand another — with ünïcode 🙂\tand a tab\n"
        delivery = await service.send(terminal.id, message)
        assert (delivery.confirmed, delivery.enter_presses) == (True, 1)
        await reached(service, terminal, COMPLETED)
        answer = await service.output(terminal.id, OutputMode.LAST)
        assert sha256(message.encode()).hexdigest() in answer


MISBEHAVES = """
[[rule]]
turn = 1
seconds = 0.5
misbehave = { mislead = true }
[[rule]]
turn = 2
misbehave = { swallow_enter = 1 }
[[rule]]
turn = 3
misbehave = { ask = "delete everything" }
[[rule]]
turn = 4
misbehave = { error = "usage limit reached" }
[[rule]]
turn = 5
misbehave = { crash = 9 }
"""


@pytest.mark.parametrize("signals", ["", SCREEN_ONLY])
async def test_an_agent_that_misbehaves_in_every_turn_is_seen_through(
    ground: Ground, signals: str
) -> None:
    async with ground.service(signals + MISBEHAVES) as service:
        terminal = await service.create_session(ground.new())

        async def send_until(status: TerminalStatus) -> int:
            delivery = await service.send(terminal.id, "work")
            assert delivery.confirmed
            await reached(service, terminal, status)
            return delivery.enter_presses

        # Misleading words and flicker do not end a turn.
        await send_until(COMPLETED)
        assert "turn 1 over" in await service.output(terminal.id, OutputMode.SCREEN)
        assert await send_until(COMPLETED) == 2, "an Enter that got lost is pressed again"
        async with asyncio.timeout(60):
            while "turn 2 over" not in await service.output(terminal.id, OutputMode.SCREEN):
                await asyncio.sleep(0.01)
        # Nothing is typed into a question, and a key answers it.
        await send_until(WAITING)
        with pytest.raises(InputRefused, match="question"):
            await service.send(terminal.id, "yes")
        await service.press(terminal.id, "1")
        await reached(service, terminal, COMPLETED)
        # After an error it can be asked again.
        await send_until(ERROR)
        # Its screen may be first; its own word comes without another event.
        async with asyncio.timeout(60):
            while not signals and "usage limit" not in service.explain(terminal.id).reason:
                await asyncio.sleep(0.01)
        await service.send(terminal.id, "die")
        await gone(service, terminal)
        dead = service.terminal(terminal.id)
        assert (dead.status, dead.alive, dead.exit_code) == (ERROR, False, 9)
        with pytest.raises(InputRefused, match="ended"):
            await service.send(terminal.id, "hello?")
        await service.delete(terminal.id)
        assert service.sessions() == []


async def test_unknown_names_are_named_and_what_exists_is_listed(
    service: TerminalService, ground: Ground
) -> None:
    terminal = await service.create_session(ground.new())
    for wrong in ({"provider": "nonesuch"}, {"agent_profile": "nobody"}):
        with pytest.raises(UnknownName):
            await service.create_session(replace(ground.new(), **wrong))
    for folder in ("/no/such/folder", "relative"):
        with pytest.raises(BadFolder):
            await service.create_session(replace(ground.new(), working_directory=folder))
    with pytest.raises(NotFound, match=terminal.id):
        service.terminal("ffff")
    with pytest.raises(NotFound, match=terminal.session_name):
        service.session("cao-nonesuch")
    with pytest.raises(UsageError, match="already"):
        await service.create_session(ground.new(), terminal.session_name)
    with pytest.raises(UsageError, match="not usable"):
        await service.create_session(ground.new(), "a:b; kill-server")
    with pytest.raises(UnknownName, match="Enter"):
        await service.press(terminal.id, "kill-server")
    await service.exit(terminal.id)
    assert ground.traces() == ("", [])


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("start_crash = 7", "code 7"),
        ('startup_dialog = "person"', "sign-in"),
        ("start_delay = 600", "not ready"),
        ("", r"no-such-agent.*CAO_SCRIPTED_COMMAND"),
    ],
)
async def test_an_agent_that_cannot_be_started_leaves_nothing_behind(
    ground: Ground, script: str, expected: str
) -> None:
    ground.script(script)
    if not script:
        environ = {**ground.config.environ, "CAO_SCRIPTED_COMMAND": "no-such-agent"}
        ground.config = replace(ground.config, environ=environ)
    ground.config = replace(ground.config, start_seconds=0.5 if "delay" in script else 30)
    async with ground.service() as service:
        with pytest.raises(StartError, match=expected):
            await service.create_session(ground.new())
        assert service.sessions() == []
        assert ground.traces() == ("", [])


@pytest.mark.parametrize(
    ("provider", "ready", "kept"),
    [("scripted", False, 0), ("of_old", True, 0), ("mistyped", True, 1)],
)
async def test_a_terminal_is_forgotten_if_it_was_never_finished_or_no_file_describes_its_agent(
    ground: Ground, provider: str, ready: bool, kept: int
) -> None:
    agents = ground.config.config_dir / "agents"
    agents.mkdir(parents=True)
    (agents / "mistyped.toml").write_text("program = 7", encoding="utf-8")
    work = str(ground.work)
    row = TerminalRow("a1", "x", provider, "cao-x", "tester", work, created_at=5.0, ready=ready)
    with closing(TerminalStore(ground.config.state_dir)) as store:
        store.save(row)
    async with ground.service() as service:
        assert service.sessions() == []
    with closing(TerminalStore(ground.config.state_dir)) as store:
        assert len(store.terminals()) == kept


async def test_a_restart_finds_every_terminal_with_its_right_status(ground: Ground) -> None:
    ground.script(
        '[[rule]]\ncontains = "hang"\nmisbehave = { hang = true }\n'
        '[[rule]]\ncontains = "ask"\nmisbehave = { ask = "sure" }\n'
        '[[rule]]\ncontains = "die"\nmisbehave = { crash = 4 }\n'
    )
    ground.config = replace(ground.config, permissions="ask")
    async with ground.service() as service:
        terminals = {}
        wanted = {"idle": IDLE, "hang": PROCESSING, "ask": WAITING, "die": ERROR, "do": COMPLETED}
        for word, status in wanted.items():
            new = replace(ground.new(), permissions="full" if word == "idle" else None)
            terminal = terminals[word] = await service.create_session(new)
            if word != "idle":
                await service.send(terminal.id, word, f"key-{word}")
                await reached(service, terminal, status)
        before = {word: service.terminal(t.id) for word, t in terminals.items()}
    ground.config = replace(ground.config, permissions="workspace")
    async with ground.service() as service:
        for word, status in wanted.items():
            found = service.terminal(terminals[word].id)
            assert found.status is status, word
            assert found.session_name == before[word].session_name
            assert found.exit_code == before[word].exit_code
            assert found.permissions == ("full" if word == "idle" else "ask")
        # What was typed before the restart is not typed again.
        again = await service.send(terminals["do"].id, "do", "key-do")
        assert again.confirmed
        assert "turn 2" not in await service.output(terminals["do"].id, OutputMode.FULL)


async def test_a_service_that_cannot_start_lets_go_of_its_folder(ground: Ground) -> None:
    usual = ground.config
    ground.config = replace(usual, environ={**usual.environ, "PATH": "/nonexistent"})
    service = TerminalService(ground.config, SystemClock())
    with pytest.raises(TmuxError):
        await service.start()
    ground.config = usual
    async with ground.service() as second:
        assert second.sessions() == []


async def test_windows_of_no_known_terminal_are_swept_at_the_start(ground: Ground) -> None:
    async with ground.service() as service:
        terminal = await service.create_session(ground.new())
    for name in ("terminals.sqlite3", "terminals.sqlite3-wal", "terminals.sqlite3-shm"):
        (ground.config.state_dir / name).unlink(missing_ok=True)
    async with ground.service() as service:
        assert service.sessions() == []
        assert terminal.id not in ground.tmux("list-panes", "-a", "-F", "#{@cao_id}")


async def test_when_the_tmux_server_dies_its_terminals_are_dead(
    service: TerminalService, ground: Ground
) -> None:
    terminal = await service.create_session(ground.new())
    ground.tmux("kill-server")
    await gone(service, terminal)
    assert not service.terminal(terminal.id).alive
    another = await service.create_session(ground.new())
    assert another.status is IDLE


async def test_the_whole_scrollback_and_the_whole_last_answer_can_be_read(ground: Ground) -> None:
    lines = "\n".join(f"line {number} of the answer" for number in range(2000))
    ground.script(f'{SCREEN_ONLY}[[rule]]\nanswer = """{lines}"""\nmisbehave = {{ lines = 5000 }}')
    async with ground.service() as service:
        terminal = await service.create_session(ground.new())
        await service.send(terminal.id, "print")
        await reached(service, terminal, COMPLETED)
        full = await service.output(terminal.id, OutputMode.FULL)
        assert full.count("\n") > 7_000
        assert (await service.output(terminal.id, OutputMode.LAST)).strip().endswith(lines)
        assert "turn 1 over" in await service.output(terminal.id, OutputMode.SCREEN)


async def test_an_agent_works_in_its_folder_with_an_environment_of_its_own(ground: Ground) -> None:
    if not Path("/proc").is_dir():
        pytest.skip("no /proc here")
    outer = {
        **{"TERM": "dumb", "TERM_PROGRAM": "vscode", "COLUMNS": "20", "KITTY_WINDOW_ID": "7"},
        **{"GIT_DIR": "/other/.git", "GIT_INDEX_FILE": "/other/index", "GIT_AUTHOR_NAME": "Ada"},
    }
    ground.config = replace(ground.config, environ={**ground.config.environ, **outer})
    # What lies there is not imported by the scripted agent.
    for name in ("json", "argparse", "tomllib", "cli_agent_orchestrator"):
        spy = f"open({str(ground.work / 'imported')!r}, 'w').close()\n"
        (ground.work / f"{name}.py").write_text(spy, encoding="utf-8")
    async with ground.service() as service:
        await service.create_session(ground.new())
        [(_, pid)] = [pane.split() for pane in processes_of(ground)]
        entries = Path(f"/proc/{pid}/environ").read_text().split("\0")
        assert Path(f"/proc/{pid}/cwd").readlink() == ground.work.resolve()
    assert not (ground.work / "imported").exists()
    environ = dict(entry.split("=", 1) for entry in entries if entry)
    ours = {name: environ[name] for name in environ if name.startswith("CAO_")}
    assert ours == {"CAO_STATE_DIR": str(ground.config.state_dir)}
    assert "HOME" in environ
    assert environ["TERM"] == "screen-256color"
    assert environ["TERM_PROGRAM"] == "tmux"
    assert environ.keys() & outer.keys() == {"TERM", "TERM_PROGRAM", "GIT_AUTHOR_NAME"}


async def test_an_agent_gets_the_permissions_and_the_number_of_its_own_run(ground: Ground) -> None:
    says = 'echo "$* <$CAO_RUN_INDEX>"'
    ground.program("codex", f'[ "$1" = --version ] || {says} >>"$PWD/started"\nexit 1\n')
    # The server may have been started by a run's own agent.
    environ = {**ground.config.environ, "CAO_RUN_INDEX": "7"}
    ground.config = replace(ground.config, environ=environ)
    wanted = replace(ground.new(), provider="codex")
    asked = (replace(wanted, permissions="full", run_index=0), wanted)
    started = ground.work / "started"
    async with ground.service() as service:
        for new, flag, number in zip(
            asked, ("danger-full-access", "workspace-write"), ("<0>", "<>"), strict=True
        ):
            with pytest.raises(StartError):
                await service.create_session(new)
            assert flag in started.read_text()
            assert started.read_text().splitlines()[-1].endswith(number)
            started.unlink()
