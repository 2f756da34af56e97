"""The engine on a real tmux server: windows, screens, input and ends of programs."""

import asyncio
import json
import os
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import TmuxCommandError, TmuxMissing, UsageError
from cli_agent_orchestrator.terminals.tmux import HUB_SESSION, Command, PaneScreen, Size, Tmux
from tests.terminals.tmux_rig import LONG_SLEEP, PATIENCE, REPORTER, Recorder, Rig, running_tmux

pytestmark = pytest.mark.tmux

SET_BY_TMUX = {"TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TMUX", "TMUX_PANE", "PWD", "SHELL"}

HOSTILE_WORDS = [
    "two words",
    "it's",
    '"double"',
    "ends with ;",
    ";",
    "\\;",
    "$HOME ${HOME} $(id) `id`",
    "#{pane_id} #(id) #[bold] ##",
    "%1 %H %%",
    "~",
    "{ brace }",
    "line\nbreak\n",
    "carriage\rreturn",
    "tab\tand \x1b escape \x7f",
    "non-ASCII é漢😀",
    "back\\slash\\n\\012",
    "",
    "-t",
    "--",
    "*?[a-z]",
    "x" * 100_000,
]
HOSTILE_BYTES = [
    b"plain",
    b'it\'s "quoted" $HOME `id` #{pid} %1 ~ {}',
    b"ends with ;",
    b";",
    b"-p",
    b"\n",
    b"line one\nline two\r\nline three\n\n",
    b"\ttabs\tand trailing spaces   ",
    b"%end 1700000000 1 1\n%exit\n",
    b"\\033 \\n \\",
    bytes(range(256)) * 2,
    "é漢😀\u009b".encode(),
    b"\xff\xfe not UTF-8",
    b"x" * 1_000,
    b"0123456789abcdef\n" * 3_000,
    b"0123456789abcdefghijklmno" * 20_000,
]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with running_tmux() as rig:
        yield rig


async def report_of(rig: Rig, command: Command, report: Path) -> dict[str, object]:
    """Run a program that writes down how it was started, and return that."""
    info = await rig.tmux.open_window("work", "reporter", command, "reporter")
    assert await rig.recorder.until_exited(info.pane) == 0
    told = json.loads(report.read_text())
    assert isinstance(told, dict)
    return told


# Starting programs


async def test_arguments_arrive_exactly_as_given(rig: Rig, tmp_path: Path) -> None:
    report = tmp_path / "report"
    argv = (sys.executable, "-c", REPORTER, *HOSTILE_WORDS)
    told = await report_of(rig, Command(argv, "/", {"REPORT": str(report)}), report)
    assert told["argv"] == HOSTILE_WORDS


async def test_a_command_of_one_word_is_not_run_by_a_shell(rig: Rig, tmp_path: Path) -> None:
    report = tmp_path / "report"
    program = tmp_path / "my $(touch oops) program;"
    program.write_text(f"#!{sys.executable}\n{REPORTER}")
    program.chmod(0o755)
    told = await report_of(
        rig, Command((str(program),), str(tmp_path), {"REPORT": str(report)}), report
    )
    assert told["argv"] == []
    assert not (tmp_path / "oops").exists()


async def test_the_environment_is_the_given_one(rig: Rig, tmp_path: Path) -> None:
    report = tmp_path / "report"
    env = {f"V{number}": word for number, word in enumerate(HOSTILE_WORDS)}
    env |= {"REPORT": str(report), "PATH": "/only/this", "SHELL": "/bin/sh", "LANG": "C.UTF-8"}
    told = await report_of(rig, Command((sys.executable, "-c", REPORTER), "/", env), report)
    assert isinstance(told["env"], dict)
    seen = {name: value for name, value in told["env"].items() if name not in SET_BY_TMUX}
    assert seen == {name: value for name, value in env.items() if name not in SET_BY_TMUX}
    assert told["env"]["SHELL"] == "/bin/sh"


async def test_a_terminal_type_of_ones_own_wins(rig: Rig, tmp_path: Path) -> None:
    report = tmp_path / "report"
    env = {"REPORT": str(report), "TERM": "xterm-direct"}
    told = await report_of(rig, Command((sys.executable, "-c", REPORTER), "/", env), report)
    assert isinstance(told["env"], dict)
    assert told["env"]["TERM"] == "xterm-direct"


async def test_variables_of_one_window_do_not_reach_the_next(rig: Rig, tmp_path: Path) -> None:
    env = {"REPORT": str(tmp_path / "a"), "SECRET": "of the first"}
    await rig.tmux.open_window("work", "first", Command(LONG_SLEEP, "/", env), "first")
    report = tmp_path / "b"
    command = Command((sys.executable, "-c", REPORTER), "/", {"REPORT": str(report)})
    told = await report_of(rig, command, report)
    assert isinstance(told["env"], dict)
    assert "SECRET" not in told["env"]


async def test_no_variable_shows_on_a_command_line(rig: Rig) -> None:
    command = Command(LONG_SLEEP, "/", {"SECRET": "nobody-may-see-this"})
    info = await rig.tmux.open_window("work", "w", command, "t")
    assert (await rig.tmux.panes())[0].pid == info.pid
    process = await asyncio.create_subprocess_exec(
        "ps", "-axww", "-o", "args", stdout=asyncio.subprocess.PIPE
    )
    listed, _ = await process.communicate()
    assert b"nobody-may-see-this" not in listed


@pytest.mark.parametrize("name", ["plain", "#[x] #{pid} #(id) ##", "it's $HOME; é %H ~"])
async def test_the_program_starts_in_its_folder(rig: Rig, tmp_path: Path, name: str) -> None:
    report, folder = tmp_path / "report", tmp_path / name
    folder.mkdir()
    command = Command((sys.executable, "-c", REPORTER), str(folder), {"REPORT": str(report)})
    assert (await report_of(rig, command, report))["cwd"] == str(folder)


async def test_a_window_has_the_size_of_the_engine(rig: Rig) -> None:
    pane = await rig.run("sh", "-c", "stty size; sleep 1000")
    await rig.recorder.until_shown(pane, "40 120")


async def test_another_size_can_be_had(rig: Rig) -> None:
    await rig.tmux.close()
    other = Tmux(rig.socket, rig.recorder, size=Size(200, 50), environ=rig.environ)
    await other.start()
    command = Command(("sh", "-c", "stty size; sleep 1000"), "/", dict(os.environ))
    info = await other.open_window("work", "w", command, "t")
    await rig.recorder.until_shown(info.pane, "50 200")
    await other.kill_server()


@pytest.mark.parametrize(
    ("session", "tag", "argv"),
    [
        ("", "t", LONG_SLEEP),
        ("a:b", "t", LONG_SLEEP),
        ("a.b", "t", LONG_SLEEP),
        ("$1", "t", LONG_SLEEP),
        (HUB_SESSION, "t", LONG_SLEEP),
        ("s", "", LONG_SLEEP),
        ("s", "a b", LONG_SLEEP),
        ("s", "t", ()),
        ("s", "t", ("",)),
        ("s", "t", ("A=1",)),
        ("s", "t", ("sleep", "\0")),
        ("s", "t", ("sleep", "\ud800")),
    ],
)
async def test_what_tmux_would_misunderstand_is_refused(
    rig: Rig, session: str, tag: str, argv: tuple[str, ...]
) -> None:
    with pytest.raises(UsageError):
        await rig.tmux.open_window(session, "w", Command(argv, "/", {}), tag)
    assert await rig.tmux.panes() == []


# Structure


async def test_windows_and_sessions_are_listed_once_with_their_tags(rig: Rig) -> None:
    names = [("one", "a"), ("one", "b"), ("two", "c")]
    for session, tag in names:
        await rig.tmux.open_window(
            session, f"#{{name}} of {tag}:", Command(LONG_SLEEP, "/", {}), tag
        )
    listed = await rig.tmux.panes()
    assert sorted((info.session, info.tag) for info in listed) == names
    assert sorted(info.name for info in listed) == [f"#{{name}} of {tag}:" for _, tag in names]
    assert not any(info.dead for info in listed)


async def test_many_windows_can_be_opened_at_once(rig: Rig) -> None:
    panes = await asyncio.gather(*(rig.run(*LONG_SLEEP) for _ in range(8)))
    listed = await rig.tmux.panes()
    assert {info.pane for info in listed} == set(panes)
    assert {info.session for info in listed} == {"work"}


async def test_only_the_windows_of_terminals_are_in_a_session(rig: Rig) -> None:
    await rig.run(*LONG_SLEEP)
    await rig.run(*LONG_SLEEP)
    assert len((await rig.by_hand("list-windows", "-t", "work")).splitlines()) == 2


async def test_a_window_that_nobody_waits_for_is_closed_again(rig: Rig) -> None:
    opening = asyncio.create_task(rig.run(*LONG_SLEEP))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    async with asyncio.timeout(PATIENCE):
        while await rig.tmux.panes():
            pass


async def test_closing_a_window_ends_its_program_and_tells_nothing_more(rig: Rig) -> None:
    closed, other = await rig.run(*LONG_SLEEP), await rig.run("sh", "-c", "read x; exit 4")
    await rig.tmux.close_window(closed)
    assert [info.pane for info in await rig.tmux.panes()] == [other]
    await rig.tmux.press(other, ["Enter"])
    await rig.recorder.until_exited(other)
    assert rig.recorder.exits == [(other, 4)]


async def test_closing_a_window_twice_does_no_harm(rig: Rig) -> None:
    pane = await rig.run(*LONG_SLEEP)
    await rig.tmux.close_window(pane)
    await rig.tmux.close_window(pane)


async def test_closing_a_session_closes_its_windows_alone(rig: Rig) -> None:
    await rig.run(*LONG_SLEEP, session="one")
    await rig.run(*LONG_SLEEP, session="one")
    other = await rig.run(*LONG_SLEEP, session="two")
    await rig.tmux.close_session("one")
    assert [info.pane for info in await rig.tmux.panes()] == [other]
    assert "one" not in await rig.by_hand("list-sessions")


# Screens


async def test_a_change_is_told_with_screen_and_title(rig: Rig) -> None:
    pane = await rig.run("sh", "-c", r"printf '\033]2;a:b #{pid} %%H\007hello\nworld'; sleep 1000")
    screen = await rig.recorder.until_shown(pane, "world")
    assert screen.text.splitlines()[:2] == ["hello", "world"]
    assert screen.text.count("\n") == 39
    assert screen.title == "a:b #{pid} %H"
    assert not screen.in_mode


async def test_a_program_that_sets_no_title_has_none(rig: Rig) -> None:
    pane = await rig.run("sh", "-c", "echo hello; sleep 1000")
    assert (await rig.recorder.until_shown(pane, "hello")).title == ""


async def test_a_title_alone_is_a_change(rig: Rig) -> None:
    pane = await rig.run("sh", "-c", r"echo here; read x; printf '\033]2;done\007'; sleep 1000")
    await rig.recorder.until_shown(pane, "here")
    await rig.tmux.press(pane, ["Enter"])
    await rig.recorder.until(lambda: rig.recorder.of(pane)[-1].title == "done")


async def test_changes_after_quiet_are_told(rig: Rig) -> None:
    pane = await rig.run("sh", "-c", "while read line; do echo said $line; done")
    for word in ("first", "second", "third"):
        await rig.tmux.paste(pane, word.encode() + b"\n")
        await rig.recorder.until_shown(pane, f"said {word}")


async def test_a_spinner_is_reported_as_long_as_it_turns_and_its_end_too(rig: Rig) -> None:
    spinner = 'for i in $(seq 40); do printf "\\rframe $i "; sleep 0.05; done; echo; echo "the end"'
    pane = await rig.run("sh", "-c", f"{spinner}; sleep 1000")
    await rig.recorder.until_shown(pane, "the end")
    frames = [screen.text for screen in rig.recorder.of(pane)]
    assert 3 < len(frames) < 35


async def test_what_comes_after_a_spinner_is_told_whenever_it_comes(rig: Rig) -> None:
    spin = 'for i in $(seq 20); do printf "\\rframe $i "; sleep 0.02; done; echo "turn $turn over"'
    pane = await rig.run("sh", "-c", f"turn=1; while :; do {spin}; read x; turn=$((turn+1)); done")
    for turn in (1, 2, 3):
        await rig.recorder.until_shown(pane, f"turn {turn} over")
        await rig.tmux.press(pane, ["Enter"])


async def test_a_screen_is_not_told_twice(rig: Rig) -> None:
    pane = await rig.run("sh", "-c", r"printf 'same\r'; while read x; do printf 'same\r'; done")
    await rig.recorder.until_shown(pane, "same")
    await rig.tmux.press(pane, ["C-c"])
    await rig.recorder.until_exited(pane)
    texts = [screen.text for screen in rig.recorder.of(pane)]
    assert len(texts) == len(set(texts))


async def test_lines_that_look_like_the_protocol_are_just_text(rig: Rig) -> None:
    fakes = ["%end 1 1 1", "%error 1 1 1", "%begin 1 1 1", "%output %1 x", "%exit", "%pause %1"]
    pane = await rig.python(f"print(*{fakes!r}, sep='\\n'); input()")
    screen = await rig.recorder.until_shown(pane, "%pause")
    assert screen.text.splitlines()[: len(fakes)] == fakes


async def test_screens_of_all_sessions_are_reported(rig: Rig) -> None:
    panes = [
        await rig.run("sh", "-c", f"echo I am {name}; sleep 1000", session=name)
        for name in ("one", "two", "three")
    ]
    for pane, name in zip(panes, ("one", "two", "three"), strict=True):
        await rig.recorder.until_shown(pane, f"I am {name}")


async def test_several_panes_are_read_in_one_go(rig: Rig) -> None:
    panes = [await rig.run("sh", "-c", f"echo number {n}; sleep 1000") for n in range(3)]
    for number, pane in enumerate(panes):
        await rig.recorder.until_shown(pane, f"number {number}")
    screens = await rig.tmux.read([*panes, "%999", panes[0]])
    assert list(screens) == panes
    assert [screen.text.split("\n")[0] for screen in screens.values()] == [
        "number 0",
        "number 1",
        "number 2",
    ]
    assert await rig.tmux.read([]) == {}


async def test_a_screen_can_be_read_with_its_colours(rig: Rig) -> None:
    pane = await rig.run("sh", "-c", r"printf '\033[2mdim\033[0m plain'; sleep 1000")
    await rig.recorder.until_shown(pane, "plain")
    assert "\x1b[2mdim\x1b[0m" in await rig.tmux.read_ansi(pane)


async def test_the_whole_scrollback_is_kept(rig: Rig) -> None:
    pane = await rig.python("for n in range(100_000): print('line', n)\nprint('all'); input()")
    await rig.recorder.until_shown(pane, "all")
    lines = (await rig.tmux.scrollback(pane)).splitlines()
    assert [line.strip() for line in lines[:100_000]] == [f"line {n}" for n in range(100_000)]


async def test_the_scrollback_joins_lines_that_were_wrapped(rig: Rig) -> None:
    pane = await rig.python("print('x' * 1000); print('all'); input()")
    await rig.recorder.until_shown(pane, "all")
    assert (await rig.tmux.scrollback(pane)).splitlines()[0] == "x" * 1000


@pytest.mark.parametrize("verb", ["read_ansi", "scrollback"])
async def test_a_pane_that_is_not_there_cannot_be_read(rig: Rig, verb: str) -> None:
    with pytest.raises(TmuxCommandError, match="%999"):
        await getattr(rig.tmux, verb)("%999")


async def test_raw_output_is_complete(rig: Rig) -> None:
    said = bytes(range(32, 256)) * 500 + b"\x1b]9;done\x07"
    script = (
        "import sys; sys.stdout.buffer.write(bytes(range(32, 256)) * 500 + b'\\x1b]9;done\\x07')\n"
        "sys.stdout.flush(); input()"
    )
    pane = await rig.run(sys.executable, "-c", script, raw_output=True)
    await rig.recorder.until(lambda: rig.recorder.outputs.get(pane, b"").endswith(b"done\x07"))
    assert rig.recorder.outputs[pane] == said


async def test_raw_output_is_only_told_where_it_was_asked_for(rig: Rig) -> None:
    pane = await rig.run("sh", "-c", "echo hello; sleep 1000")
    await rig.recorder.until_shown(pane, "hello")
    assert rig.recorder.outputs == {}


# Input


@pytest.mark.parametrize("data", HOSTILE_BYTES, ids=lambda data: repr(data[:20]))
async def test_a_paste_is_byte_exact(rig: Rig, tmp_path: Path, data: bytes) -> None:
    record = tmp_path / "record"
    pane = await rig.reader(record)
    await rig.tmux.paste(pane, data)
    await rig.recorder.until_shown(pane, f"got {len(data)}.")
    assert record.read_bytes() == data


async def test_a_program_that_knows_bracketed_paste_gets_one(rig: Rig, tmp_path: Path) -> None:
    record = tmp_path / "record"
    pane = await rig.reader(record, r"\x1b[?2004h")
    await rig.tmux.paste(pane, b"two\nlines")
    await rig.recorder.until_shown(pane, "got 21.")
    assert record.read_bytes() == b"\x1b[200~two\nlines\x1b[201~"


async def test_an_empty_paste_types_nothing(rig: Rig, tmp_path: Path) -> None:
    record = tmp_path / "record"
    pane = await rig.reader(record)
    await rig.tmux.paste(pane, b"")
    await rig.tmux.paste(pane, b"x")
    await rig.recorder.until_shown(pane, "got 1.")


async def test_nothing_of_a_paste_stays_behind(rig: Rig, tmp_path: Path) -> None:
    pane = await rig.reader(tmp_path / "record")
    await rig.tmux.paste(pane, b"secret")
    assert await rig.by_hand("list-buffers") == ""


async def test_keys_are_pressed_by_name(rig: Rig, tmp_path: Path) -> None:
    record = tmp_path / "record"
    pane = await rig.reader(record)
    await rig.tmux.press(pane, ["Enter", "Escape", "C-c", "Down", "-", ";"])
    await rig.recorder.until_shown(pane, "got 8.")
    assert record.read_bytes() == b"\r\x1b\x03\x1b[B-;"


async def test_copy_mode_is_told_and_left_before_a_paste(rig: Rig, tmp_path: Path) -> None:
    record = tmp_path / "record"
    pane = await rig.reader(record)
    await rig.by_hand("copy-mode", "-t", pane)
    await rig.recorder.until(lambda: rig.recorder.of(pane)[-1].in_mode)
    await rig.tmux.paste(pane, b"hello")
    screen = await rig.recorder.until_shown(pane, "got 5.")
    assert not screen.in_mode
    assert record.read_bytes() == b"hello"


async def test_copy_mode_is_left_before_a_key(rig: Rig, tmp_path: Path) -> None:
    record = tmp_path / "record"
    pane = await rig.reader(record)
    await rig.by_hand("copy-mode", "-t", pane)
    await rig.tmux.press(pane, ["Enter"])
    await rig.recorder.until_shown(pane, "got 1.")
    assert record.read_bytes() == b"\r"


async def test_a_dead_program_takes_no_input(rig: Rig) -> None:
    pane = await rig.run("sh", "-c", "exit 0")
    await rig.recorder.until_exited(pane)
    with pytest.raises(TmuxCommandError, match="has ended"):
        await rig.tmux.paste(pane, b"x")
    with pytest.raises(TmuxCommandError, match="has ended"):
        await rig.tmux.press(pane, ["Enter"])
    assert await rig.by_hand("list-buffers") == ""
    assert rig.recorder.reasons == []


async def test_a_pane_that_is_not_there_takes_no_input(rig: Rig) -> None:
    with pytest.raises(TmuxCommandError, match="%999"):
        await rig.tmux.paste("%999", b"x")
    with pytest.raises(TmuxCommandError, match="%999"):
        await rig.tmux.press("%999", ["Enter"])
    assert await rig.by_hand("list-buffers") == ""


async def test_files_of_pastes_are_private_and_removed(rig: Rig, tmp_path: Path) -> None:
    pane = await rig.reader(tmp_path / "record")
    [folder] = rig.scratch.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    await rig.tmux.paste(pane, b"secret")
    assert list(folder.iterdir()) == []
    await rig.tmux.close()
    assert not folder.exists()


# Ends of programs


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$", 143)],
)
async def test_the_exit_code_is_told(rig: Rig, script: str, code: int) -> None:
    pane = await rig.run("sh", "-c", f"echo started; read x; {script}")
    await rig.recorder.until_shown(pane, "started")
    await rig.tmux.press(pane, ["Enter"])
    assert await rig.recorder.until_exited(pane) == code
    [info] = await rig.tmux.panes()
    assert (info.dead, info.exit_code) == (True, code)


async def test_programs_that_end_at_once_are_told_once_each(rig: Rig) -> None:
    panes = [await rig.run("sh", "-c", f"exit {code}") for code in range(20)]
    for pane in panes:
        await rig.recorder.until_exited(pane)
    assert sorted(rig.recorder.exits) == sorted(zip(panes, range(20), strict=True))


async def test_the_last_screen_comes_before_the_end(rig: Rig) -> None:
    pane = await rig.run("sh", "-c", "seq 100; echo the last words; exit 1")
    await rig.recorder.until_exited(pane)
    assert "the last words" in rig.recorder.of(pane)[-1].text
    assert rig.recorder.order[-1] == "exited"


async def test_a_program_that_cannot_be_found_ends(rig: Rig) -> None:
    pane = await rig.run("/no/such/program", "x")
    assert await rig.recorder.until_exited(pane) == 1


async def test_the_end_is_told_while_a_child_holds_the_terminal(rig: Rig) -> None:
    pane = await rig.run("sh", "-c", "trap '' HUP; (trap '' HUP; sleep 5) & exit 6")
    assert await rig.recorder.until_exited(pane) == 6


async def test_a_window_that_somebody_closes_is_an_end_without_code(rig: Rig) -> None:
    pane = await rig.run(*LONG_SLEEP)
    await rig.by_hand("kill-window", "-t", pane)
    assert await rig.recorder.until_exited(pane) is None


# Finding tmux


async def test_tmux_that_is_not_installed_is_said_with_advice(tmp_path: Path) -> None:
    tmux = Tmux("nowhere", Recorder(), program=str(tmp_path / "tmux"))
    with pytest.raises(TmuxMissing, match="apt install tmux"):
        await tmux.start()


@pytest.mark.parametrize("version", ["tmux 3.1c", "tmux 2.9"])
async def test_tmux_that_is_too_old_is_said_with_advice(tmp_path: Path, version: str) -> None:
    program = tmp_path / "tmux"
    program.write_text(f"#!/bin/sh\necho {version}\n")
    program.chmod(0o755)
    with pytest.raises(TmuxMissing, match=r"too old.*brew install tmux"):
        await Tmux("nowhere", Recorder(), program=str(program)).start()


async def test_screens_are_values(rig: Rig) -> None:
    pane = await rig.run("sh", "-c", "echo hello; sleep 1000")
    screen = await rig.recorder.until_shown(pane, "hello")
    assert (await rig.tmux.read([pane]))[pane] == screen
    assert isinstance(screen, PaneScreen)
