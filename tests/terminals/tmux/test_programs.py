"""How the engine starts programs and notices their ends, on a real tmux server."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import UsageError
from cli_agent_orchestrator.terminals.tmux import HUB_SESSION, Command
from tests.programs import python_program
from tests.terminals.tmux.rig import LONG_SLEEP, REPORTER, Rig, running_tmux

pytestmark = pytest.mark.tmux

SET_BY_TMUX = {
    *("TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TMUX", "TMUX_PANE", "PWD", "SHELL"),
    "COLORTERM",  # since 3.7
}

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


async def report_of(rig: Rig, command: Command, report: Path) -> dict[str, object]:
    """Run a program that writes down how it was started, and return that."""
    info = await rig.tmux.open_window("work", "reporter", command, "reporter")
    assert await rig.recorder.until_exited(info.pane) == 0
    told = json.loads(report.read_text())
    assert isinstance(told, dict)
    return told


@pytest.mark.parametrize("name", ["plain", "#[x] #{pid} #(id) ## it's $HOME; é %H ~"])
async def test_arguments_environment_and_folder_arrive_exactly_as_given(
    rig: Rig, tmp_path: Path, name: str
) -> None:
    report, folder = tmp_path / "report", tmp_path / name
    folder.mkdir()
    env = {f"V{number}": word for number, word in enumerate(HOSTILE_WORDS)}
    env |= {"REPORT": str(report), "PATH": "/only/this", "SHELL": "/bin/sh", "LANG": "C.UTF-8"}
    argv = (sys.executable, "-c", REPORTER, *HOSTILE_WORDS)
    told = await report_of(rig, Command(argv, str(folder), env), report)
    assert told["argv"] == HOSTILE_WORDS
    assert told["cwd"] == str(folder)
    assert isinstance(told["env"], dict)
    seen = {name: value for name, value in told["env"].items() if name not in SET_BY_TMUX}
    assert seen == {name: value for name, value in env.items() if name not in SET_BY_TMUX}
    assert told["env"]["SHELL"] == "/bin/sh"


async def test_a_command_of_one_word_is_not_run_by_a_shell(rig: Rig, tmp_path: Path) -> None:
    report = tmp_path / "report"
    program = tmp_path / "my $(touch oops) program;"
    program.write_text(python_program(REPORTER))
    program.chmod(0o755)
    told = await report_of(
        rig, Command((str(program),), str(tmp_path), {"REPORT": str(report)}), report
    )
    assert told["argv"] == []
    assert not (tmp_path / "oops").exists()


@pytest.mark.parametrize("term", [None, "dumb"])
async def test_a_program_is_told_of_a_capable_terminal_wherever_the_server_was_started(
    term: str | None,
) -> None:
    async with running_tmux(term) as rig:
        ask = 'echo "[$TERM $(tmux display-message -p "#{client_termname}")]"; exec cat'
        pane = await rig.run("sh", "-c", ask)
        await rig.recorder.until_shown(pane, "[screen-256color xterm-256color]")


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


async def test_what_tmux_would_misunderstand_is_refused(rig: Rig) -> None:
    sessions = ("", "a:b", "a.b", "$1", HUB_SESSION)
    programs: tuple[tuple[str, ...], ...] = (
        *((), ("",), ("A=1",), ("sleep", "\0"), ("sleep", "\ud800")),
    )
    for session, tag, argv in (
        *((session, "t", LONG_SLEEP) for session in sessions),
        *(("s", tag, LONG_SLEEP) for tag in ("", "a b")),
        *(("s", "t", argv) for argv in programs),
    ):
        with pytest.raises(UsageError):
            await rig.tmux.open_window(session, "w", Command(argv, "/", {}), tag)
    assert await rig.tmux.panes() == []


@pytest.mark.skipif(sys.platform == "darwin", reason="file names are UTF-8 there")
async def test_a_folder_whose_name_is_no_utf_8_can_be_used(rig: Rig, tmp_path: Path) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    Path(folder).mkdir()
    program = Command(("sh", "-c", "touch here; exit 8"), folder, {})
    info = await rig.tmux.open_window("s", "n", program, "t")
    assert await rig.recorder.until_exited(info.pane) == 8
    assert (Path(folder) / "here").exists()


async def test_the_exit_code_is_told_once(rig: Rig) -> None:
    ends = {"kill -9 $$": 137, "kill -TERM $$": 143, **{f"exit {n}": n for n in range(20)}}
    panes = {await rig.run("sh", "-c", end): code for end, code in ends.items()}
    for pane, code in panes.items():
        assert await rig.recorder.until_exited(pane) == code
    assert sorted(rig.recorder.exits) == sorted(panes.items())
    listed = {info.pane: (info.dead, info.exit_code) for info in await rig.tmux.panes()}
    assert listed == {pane: (True, code) for pane, code in panes.items()}


async def test_the_last_screen_comes_before_the_end(rig: Rig) -> None:
    # What a program writes right before its end tmux itself may lose.
    pane = await rig.run("sh", "-c", "seq 100; echo the last words; sleep 0.05; exit 1")
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
