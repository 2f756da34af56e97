"""The terminal service with real tmux and the scripted agent."""

import asyncio
import re
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.models import (
    MESSAGE_LIMIT,
    NewTerminal,
    OutputMode,
    Terminal,
    TerminalStatus,
)
from cli_agent_orchestrator.errors import (
    BadFolder,
    BadMessage,
    InputRefused,
    MessageTooLarge,
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


def new(ground: Ground, profile: str = "tester") -> NewTerminal:
    return NewTerminal("scripted", profile, str(ground.work))


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


async def test_an_agent_is_started_takes_a_message_and_answers(
    service: TerminalService, ground: Ground
) -> None:
    terminal = await service.create_session(new(ground), "mine")
    assert terminal.status is IDLE
    assert terminal.session_name == "cao-mine"
    assert len(terminal.id) >= 8
    message = "one line\nand another — with ünïcode 🙂\tand a tab\n"
    delivery = await service.send(terminal.id, message)
    assert delivery.confirmed
    assert delivery.enter_presses == 1
    await reached(service, terminal, COMPLETED)
    answer = await service.output(terminal.id, OutputMode.LAST)
    assert sha256(message.encode()).hexdigest() in answer


async def test_a_window_is_named_after_the_role_of_its_agent(
    service: TerminalService, ground: Ground
) -> None:
    asked = replace(new(ground, "peer_system_analyst"), role="analyst_review")
    terminal = await service.create_session(asked, "named")
    assert re.fullmatch("analyst_review-[0-9a-f]{4}", terminal.name)
    assert terminal.role == "analyst_review"
    assert terminal.created_at
    windows = ground.tmux("list-windows", "-t", "cao-named", "-F", "#{window_name}")
    assert windows.split() == [terminal.name]


@pytest.mark.parametrize("size", [1, 500_000])
async def test_a_message_arrives_byte_by_byte(
    service: TerminalService, ground: Ground, size: int
) -> None:
    terminal = await service.create_session(new(ground))
    message = ("x" if size == 1 else "The quick ; brown $fox `jumps` 'over' \"it\" \\ é\n") * size
    message = message[:size]
    assert (await service.send(terminal.id, message)).confirmed
    await reached(service, terminal, COMPLETED)
    answer = await service.output(terminal.id, OutputMode.LAST)
    assert sha256(message.encode()).hexdigest() in answer


async def test_control_characters_are_removed_and_the_answer_says_so(
    service: TerminalService, ground: Ground
) -> None:
    terminal = await service.create_session(new(ground))
    delivery = await service.send(terminal.id, "safe\x1b[201~\x03 text\x00\x9b\r")
    assert delivery.confirmed
    assert delivery.removed_characters == 5
    await reached(service, terminal, COMPLETED)
    answer = await service.output(terminal.id, OutputMode.LAST)
    assert sha256(b"safe[201~ text").hexdigest() in answer


async def test_messages_that_cannot_be_typed_are_refused(
    service: TerminalService, ground: Ground
) -> None:
    terminal = await service.create_session(new(ground))
    with pytest.raises(BadMessage):
        await service.send(terminal.id, " \n\x1b")
    with pytest.raises(MessageTooLarge):
        await service.send(terminal.id, "x" * (MESSAGE_LIMIT + 1))


async def test_unknown_names_are_named_and_what_exists_is_listed(
    service: TerminalService, ground: Ground
) -> None:
    terminal = await service.create_session(new(ground))
    with pytest.raises(UnknownName, match=r"'nonesuch'.*codex.*scripted"):
        await service.create_session(replace(new(ground), provider="nonesuch"))
    with pytest.raises(UnknownName, match=r"'nobody'.*tester"):
        await service.create_session(replace(new(ground), agent_profile="nobody"))
    with pytest.raises(BadFolder, match="does not exist"):
        await service.create_session(replace(new(ground), working_directory="/no/such/folder"))
    with pytest.raises(BadFolder, match="absolute"):
        await service.create_session(replace(new(ground), working_directory="relative"))
    with pytest.raises(NotFound, match=terminal.id):
        service.terminal("ffff")
    with pytest.raises(NotFound, match=terminal.session_name):
        service.session("cao-nonesuch")
    with pytest.raises(UsageError, match="already"):
        await service.create_session(new(ground), terminal.session_name)
    with pytest.raises(UsageError, match="not usable"):
        await service.create_session(new(ground), "a:b; kill-server")
    with pytest.raises(UnknownName, match="Enter"):
        await service.press(terminal.id, "kill-server")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("start_crash = 7", "code 7"),
        ('startup_dialog = "person"', "sign-in"),
        ("start_delay = 600", "not ready"),
    ],
)
async def test_an_agent_that_cannot_be_started_leaves_nothing_behind(
    ground: Ground, script: str, expected: str
) -> None:
    ground.script(script)
    ground.config = replace(ground.config, start_seconds=2 if "delay" in script else 30)
    async with ground.service() as service:
        with pytest.raises(StartError, match=expected):
            await service.create_session(new(ground))
        assert service.sessions() == []
        assert processes_of(ground) == []
        assert list((ground.config.state_dir / "events").iterdir()) == []


async def test_a_missing_program_is_said_with_how_to_get_it(
    service: TerminalService, ground: Ground
) -> None:
    environ = {**ground.config.environ, "CAO_CODEX_COMMAND": "no-such-codex"}
    ground.config = replace(ground.config, environ=environ)
    await service.close()
    async with ground.service() as second:
        with pytest.raises(StartError, match=r"no-such-codex.*CAO_CODEX_COMMAND"):
            await second.create_session(replace(new(ground), provider="codex"))


async def test_a_start_up_dialog_that_is_safe_is_passed(ground: Ground) -> None:
    ground.script('startup_dialog = "pass"')
    async with ground.service() as service:
        terminal = await service.create_session(new(ground))
        assert terminal.status is IDLE


async def test_nothing_is_typed_into_an_agent_that_works(ground: Ground) -> None:
    ground.script("[[rule]]\nmisbehave = { hang = true }")
    async with ground.service() as service:
        terminal = await service.create_session(new(ground))
        assert (await service.send(terminal.id, "work")).confirmed
        assert service.terminal(terminal.id).status is PROCESSING
        with pytest.raises(InputRefused, match="working"):
            await service.send(terminal.id, "and this")


@pytest.mark.parametrize("signals", ["", SCREEN_ONLY])
async def test_nothing_is_typed_into_a_question_and_a_key_answers_it(
    ground: Ground, signals: str
) -> None:
    ground.script(signals + '[[rule]]\nmisbehave = { ask = "delete everything" }')
    async with ground.service() as service:
        terminal = await service.create_session(new(ground))
        assert (await service.send(terminal.id, "work")).confirmed
        await reached(service, terminal, WAITING)
        with pytest.raises(InputRefused, match="question"):
            await service.send(terminal.id, "yes")
        await service.press(terminal.id, "1")
        await reached(service, terminal, COMPLETED)


async def test_a_question_is_answered_only_where_one_is_asked(ground: Ground) -> None:
    ground.script('[[rule]]\nmisbehave = { ask = "delete everything" }')
    async with ground.service() as service:
        terminal = await service.create_session(new(ground))
        with pytest.raises(InputRefused, match="it asks nothing now"):
            await service.answer(terminal.id, "1")
        assert (await service.send(terminal.id, "work")).confirmed
        await reached(service, terminal, WAITING)
        with pytest.raises(UnknownName):
            await service.answer(terminal.id, "yes")
        assert not await service.answer(terminal.id, "Down", within=0)
        assert await service.answer(terminal.id, "1", within=60)
        await reached(service, terminal, COMPLETED)


@pytest.mark.parametrize("signals", ["", SCREEN_ONLY])
async def test_an_enter_that_got_lost_is_pressed_again(ground: Ground, signals: str) -> None:
    ground.script(signals + "[[rule]]\nmisbehave = { swallow_enter = 1 }")
    async with ground.service() as service:
        terminal = await service.create_session(new(ground))
        delivery = await service.send(terminal.id, "hello")
        assert delivery.confirmed
        assert delivery.enter_presses == 2


@pytest.mark.parametrize("signals", ["", SCREEN_ONLY])
async def test_misleading_words_and_flicker_do_not_end_a_turn(ground: Ground, signals: str) -> None:
    ground.script(signals + "[[rule]]\nseconds = 0.5\nmisbehave = { mislead = true }")
    async with ground.service() as service:
        terminal = await service.create_session(new(ground))
        assert (await service.send(terminal.id, "hello")).confirmed
        await reached(service, terminal, COMPLETED)
        assert service.terminal(terminal.id).status is COMPLETED


async def test_an_error_of_the_agent_is_an_error_and_it_can_be_asked_again(ground: Ground) -> None:
    ground.script('[[rule]]\nturn = 1\nmisbehave = { error = "usage limit reached" }')
    async with ground.service() as service:
        terminal = await service.create_session(new(ground))
        assert (await service.send(terminal.id, "hello")).confirmed
        await reached(service, terminal, ERROR)
        # Its screen may be first; its own word comes without another event.
        async with asyncio.timeout(60):
            while "usage limit" not in service.explain(terminal.id).reason:
                await asyncio.sleep(0.01)
        assert (await service.send(terminal.id, "again")).confirmed
        await reached(service, terminal, COMPLETED)


async def test_a_dead_agent_is_said_to_be_dead_with_its_exit_code(ground: Ground) -> None:
    ground.script("[[rule]]\nmisbehave = { crash = 9 }")
    async with ground.service() as service:
        terminal = await service.create_session(new(ground))
        await service.send(terminal.id, "die")
        await gone(service, terminal)
        dead = service.terminal(terminal.id)
        assert (dead.status, dead.alive, dead.exit_code) == (ERROR, False, 9)
        with pytest.raises(InputRefused, match="ended"):
            await service.send(terminal.id, "hello?")
        await service.delete(terminal.id)
        assert service.sessions() == []


async def test_a_repeated_request_is_not_typed_twice(
    service: TerminalService, ground: Ground
) -> None:
    terminal = await service.create_session(new(ground))
    first = await service.send(terminal.id, "once", "key-1")
    await reached(service, terminal, COMPLETED)
    assert await service.send(terminal.id, "once", "key-1") == first
    assert (await service.output(terminal.id, OutputMode.FULL)).count("turn 1 over") == 1
    assert "turn 2 over" not in await service.output(terminal.id, OutputMode.FULL)
    with pytest.raises(BadMessage, match="another message"):
        await service.send(terminal.id, "something else", "key-1")


async def test_the_same_request_at_the_same_time_is_typed_once(
    service: TerminalService, ground: Ground
) -> None:
    terminal = await service.create_session(new(ground))
    both = await asyncio.gather(*(service.send(terminal.id, "once", "k") for _ in range(2)))
    assert both[0] == both[1]
    assert both[0].confirmed


async def test_a_refused_message_can_be_sent_again_under_its_key(ground: Ground) -> None:
    ground.script('[[rule]]\nturn = 1\nmisbehave = { ask = "go on" }')
    async with ground.service() as service:
        terminal = await service.create_session(new(ground))
        await service.send(terminal.id, "work")
        await reached(service, terminal, WAITING)
        with pytest.raises(InputRefused):
            await service.send(terminal.id, "more", "key-2")
        await service.press(terminal.id, "1")
        await reached(service, terminal, COMPLETED)
        assert (await service.send(terminal.id, "more", "key-2")).confirmed


@pytest.mark.parametrize(("provider", "ready"), [("scripted", False), ("of_old", True)])
async def test_a_terminal_that_was_never_finished_or_has_no_provider_any_more_is_forgotten(
    ground: Ground, provider: str, ready: bool
) -> None:
    row = TerminalRow("a1", "x", provider, "cao-x", "tester", str(ground.work), 5.0, ready=ready)
    with closing(TerminalStore(ground.config.state_dir)) as store:
        store.save(row)
    async with ground.service() as service:
        assert service.sessions() == []
    with closing(TerminalStore(ground.config.state_dir)) as store:
        assert store.terminals() == []


async def test_a_restart_finds_every_terminal_with_its_right_status(ground: Ground) -> None:
    ground.script(
        '[[rule]]\ncontains = "hang"\nmisbehave = { hang = true }\n'
        '[[rule]]\ncontains = "ask"\nmisbehave = { ask = "sure" }\n'
        '[[rule]]\ncontains = "die"\nmisbehave = { crash = 4 }\n'
    )
    async with ground.service() as service:
        terminals = {}
        wanted = {"idle": IDLE, "hang": PROCESSING, "ask": WAITING, "die": ERROR, "do": COMPLETED}
        for word, status in wanted.items():
            terminal = terminals[word] = await service.create_session(new(ground))
            if word != "idle":
                await service.send(terminal.id, word, f"key-{word}")
                await reached(service, terminal, status)
        before = {word: service.terminal(t.id) for word, t in terminals.items()}
    async with ground.service() as service:
        for word, status in wanted.items():
            found = service.terminal(terminals[word].id)
            assert found.status is status, word
            assert found.session_name == before[word].session_name
            assert found.exit_code == before[word].exit_code
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
        terminal = await service.create_session(new(ground))
    for name in ("terminals.sqlite3", "terminals.sqlite3-wal", "terminals.sqlite3-shm"):
        (ground.config.state_dir / name).unlink(missing_ok=True)
    async with ground.service() as service:
        assert service.sessions() == []
        assert terminal.id not in ground.tmux("list-panes", "-a", "-F", "#{@cao_id}")


async def test_when_the_tmux_server_dies_its_terminals_are_dead(
    service: TerminalService, ground: Ground
) -> None:
    terminal = await service.create_session(new(ground))
    ground.tmux("kill-server")
    await gone(service, terminal)
    assert not service.terminal(terminal.id).alive
    another = await service.create_session(new(ground))
    assert another.status is IDLE


async def test_exit_asks_the_agent_to_quit_and_removes_the_terminal(
    service: TerminalService, ground: Ground
) -> None:
    terminal = await service.create_session(new(ground))
    await service.exit(terminal.id)
    with pytest.raises(NotFound):
        service.terminal(terminal.id)
    assert processes_of(ground) == []


async def test_exit_ends_an_agent_that_is_busy_as_well(ground: Ground) -> None:
    ground.script("[[rule]]\nmisbehave = { hang = true }")
    async with ground.service() as service:
        terminal = await service.create_session(new(ground))
        await service.send(terminal.id, "hang")
        await service.exit(terminal.id)
        assert processes_of(ground) == []


async def test_deleting_a_session_ends_all_its_terminals(
    service: TerminalService, ground: Ground
) -> None:
    await service.create_session(new(ground), "a")
    await service.create_terminal("cao-a", new(ground))
    other = await service.create_session(new(ground), "b")
    await service.delete_session("cao-a")
    assert [session.name for session in service.sessions()] == ["cao-b"]
    assert len(processes_of(ground)) == 1
    assert service.terminal(other.id).alive


async def test_the_whole_scrollback_and_the_whole_last_answer_can_be_read(
    ground: Ground,
) -> None:
    lines = "\n".join(f"line {number} of the answer" for number in range(2000))
    ground.script(f'{SCREEN_ONLY}[[rule]]\nanswer = """{lines}"""\nmisbehave = {{ lines = 20000 }}')
    async with ground.service() as service:
        terminal = await service.create_session(new(ground))
        await service.send(terminal.id, "print")
        await reached(service, terminal, COMPLETED)
        full = await service.output(terminal.id, OutputMode.FULL)
        assert full.count("\n") > 22_000
        assert (await service.output(terminal.id, OutputMode.LAST)).strip().endswith(lines)
        assert "turn 1 over" in await service.output(terminal.id, OutputMode.SCREEN)


async def test_an_agent_works_in_its_folder_with_an_environment_of_its_own(
    ground: Ground,
) -> None:
    if not Path("/proc").is_dir():
        pytest.skip("no /proc here")
    outer = {
        **{"TERM": "dumb", "TERM_PROGRAM": "vscode", "COLUMNS": "20", "KITTY_WINDOW_ID": "7"},
        **{"GIT_DIR": "/other/.git", "GIT_INDEX_FILE": "/other/index", "GIT_AUTHOR_NAME": "Ada"},
    }
    ground.config = replace(ground.config, environ={**ground.config.environ, **outer})
    async with ground.service() as service:
        await service.create_session(new(ground))
        [(_, pid)] = [pane.split() for pane in processes_of(ground)]
        entries = Path(f"/proc/{pid}/environ").read_text().split("\0")
        assert Path(f"/proc/{pid}/cwd").readlink() == ground.work.resolve()
    environ = dict(entry.split("=", 1) for entry in entries if entry)
    assert not [name for name in environ if name.startswith("CAO_")]
    assert "HOME" in environ
    assert environ["TERM"] == "screen-256color"
    assert environ["TERM_PROGRAM"] == "tmux"
    assert environ.keys() & outer.keys() == {"TERM", "TERM_PROGRAM", "GIT_AUTHOR_NAME"}


async def test_the_scripted_agent_imports_nothing_from_the_project(
    service: TerminalService, ground: Ground
) -> None:
    for name in ("json", "argparse", "tomllib", "cli_agent_orchestrator"):
        spy = f"open({str(ground.work / 'imported')!r}, 'w').close()\n"
        (ground.work / f"{name}.py").write_text(spy, encoding="utf-8")
    await service.create_session(new(ground))
    assert not (ground.work / "imported").exists()


@pytest.mark.parametrize(
    ("asked", "flag"),
    [("full", "danger-full-access"), ("ask", "on-request"), (None, "workspace-write")],
)
async def test_an_agent_gets_the_permissions_of_the_request_that_creates_it(
    ground: Ground, asked: str | None, flag: str
) -> None:
    codex = ground.work.parent / "codex"
    codex.write_text('#!/bin/sh\n[ "$1" = --version ] || echo "$*" >>args\nexit 1\n')
    codex.chmod(0o700)
    environ = {**ground.config.environ, "CAO_CODEX_COMMAND": str(codex)}
    ground.config = replace(ground.config, environ=environ)
    wanted = NewTerminal("codex", "tester", str(ground.work), asked)
    async with ground.service() as service:
        with pytest.raises(StartError):
            await service.create_session(wanted)
    assert flag in (ground.work / "args").read_text()


async def test_an_agent_finds_the_number_of_its_run_and_of_no_other(ground: Ground) -> None:
    codex = ground.work.parent / "codex"
    codex.write_text(
        '#!/bin/sh\n[ "$1" = --version ] || echo "number <$CAO_RUN_INDEX>" >>seen\nexit 1\n'
    )
    codex.chmod(0o700)
    # The server may have been started by a run's own agent.
    ours = {"CAO_CODEX_COMMAND": str(codex), "CAO_RUN_INDEX": "7"}
    ground.config = replace(ground.config, environ={**ground.config.environ, **ours})
    wanted = NewTerminal("codex", "tester", str(ground.work))
    async with ground.service() as service:
        for new in (replace(wanted, run_index=0), wanted):
            with pytest.raises(StartError):
                await service.create_session(new)
    seen = (ground.work / "seen").read_text().splitlines()
    assert set(seen) == {"number <0>", "number <>"}


async def test_permissions_are_told_and_remembered(ground: Ground) -> None:
    ground.config = replace(ground.config, permissions="ask")
    async with ground.service() as service:
        usual = await service.create_session(new(ground))
        full = await service.create_session(replace(new(ground), permissions="full"))
        assert (usual.permissions, full.permissions) == ("ask", "full")
    ground.config = replace(ground.config, permissions="workspace")
    async with ground.service() as service:
        assert service.terminal(usual.id).permissions == "ask"
        assert service.terminal(full.id).permissions == "full"
