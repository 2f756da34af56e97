"""What the agent does in a turn: commands, files, the response file, and what goes wrong."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cli_agent_orchestrator.scripted_agent.agent import REFUSED_ANSWER
from tests.scripted_agent.driving import (
    PtyAgent,
    event_names,
    eventually,
    prompt_with_file,
    read_events,
)

Start = Callable[..., PtyAgent]

ECHO_HEAD = "Received "


@pytest.fixture
def play(on_pty: Start, tmp_path: Path) -> Callable[..., PtyAgent]:
    """Start an agent that obeys one rule, and send it a prompt that wants a response file."""

    def start(*lines: str) -> PtyAgent:
        agent = on_pty("\n".join(["[[rule]]", "turn = 1", *lines]))
        agent.wait_for("scripted ❯")
        agent.send(prompt_with_file(tmp_path / "response.md"))
        return agent

    return start


def answer_of(agent: PtyAgent) -> str:
    agent.wait_for_event("Stop")
    return str(read_events(agent.folder)[-1]["message"])


def test_commands_really_run_and_their_output_is_in_the_answer(play: Start) -> None:
    script = "import os, sys; os.write(1, b'to stdout;'); os.write(2, b'to stderr;'); sys.exit(3)"
    agent = play(
        f'run = [["{{python}}", "-c", "{script}"], ["{{python}}", "-c", "print(1 + 1)"]]',
        'answer = "RESULT: {result} {exit_code}\\n{output}"',
    )
    assert answer_of(agent) == "RESULT: FAIL 3\nto stdout;to stderr;2"
    assert event_names(agent.folder).count("PostToolUse") == 2


def test_a_command_sees_no_shell_and_no_input(play: Start) -> None:
    script = "import sys; print(sys.argv[1], len(sys.stdin.read()))"
    agent = play(f'run = [["{{python}}", "-c", "{script}", "$HOME; `id`"]]', 'answer = "{output}"')
    assert answer_of(agent) == "$HOME; `id` 0"


@pytest.mark.parametrize(
    ("program", "answer"),
    [("no-such-program", "127 no-such-program: No such file or directory"), ("./folder", "126 ")],
)
def test_a_command_that_cannot_run_has_an_exit_code(
    play: Start, tmp_path: Path, program: str, answer: str
) -> None:
    (tmp_path / "folder").mkdir()
    agent = play(f'run = [["{program}"]]', 'answer = "{exit_code} {output}"')
    assert answer_of(agent).startswith(answer)


def test_a_command_that_leaves_a_child_with_its_output_open_ends_all_the_same(play: Start) -> None:
    child = "import time; time.sleep(0.5)"
    script = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', '{child}']); print(1)"
    )
    agent = play(f'run = [["{{python}}", "-c", "{script}"]]', 'answer = "{output}"')
    assert answer_of(agent) == "1"


def test_files_are_written_and_changed(play: Start, tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text("a = 1\nb = 1\n")
    agent = play(
        'write = [{ path = "new/deep.py", content = "x" },',
        '{ path = "old.py", old = "= 1", new = "= 2" }]',
    )
    answer_of(agent)
    assert (tmp_path / "new" / "deep.py").read_text() == "x"
    assert (tmp_path / "old.py").read_text() == "a = 2\nb = 2\n"


@pytest.mark.parametrize("new", ["= 2", "= 1 + 1"])
def test_a_change_that_was_made_before_is_no_error(play: Start, tmp_path: Path, new: str) -> None:
    (tmp_path / "old.py").write_text(f"a {new}\n")
    agent = play(f'write = [{{ path = "old.py", old = "= 1", new = "{new}" }}]')
    answer_of(agent)
    assert (tmp_path / "old.py").read_text() == f"a {new}\n"


@pytest.mark.parametrize(
    ("write", "message"),
    [
        ('{ path = "missing.py", old = "a", new = "b" }', "missing.py cannot be changed"),
        ('{ path = "other.py", old = "a", new = "b" }', "other.py does not contain the text"),
        ('{ path = "way/out.txt", content = "x" }', "way/out.txt leads out of the working direct"),
    ],
)
def test_a_change_that_cannot_be_made_fails_the_turn(
    play: Start, tmp_path: Path, write: str, message: str
) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (tmp_path / "way").symlink_to(outside)
    (tmp_path / "other.py").write_text("x")
    agent = play(f"write = [{write}]")
    agent.wait_for_event("StopFailure")
    assert read_events(tmp_path)[-1]["message"].startswith(message)
    assert not (tmp_path / "response.md").exists()
    assert list(outside.iterdir()) == []


def test_the_response_file_holds_the_whole_answer(play: Start, tmp_path: Path) -> None:
    agent = play("answer = '''\none\n\n  two {round}.{cycle}\n'''")
    assert answer_of(agent) == "one\n\n  two 2.1"
    assert (tmp_path / "response.md").read_text() == "one\n\n  two 2.1\n"


def test_a_response_file_that_cannot_be_written_does_not_stop_the_turn(
    on_pty: Start, tmp_path: Path
) -> None:
    agent = on_pty("")
    agent.wait_for("scripted ❯")
    agent.send(prompt_with_file(tmp_path / "missing" / "response.md"))
    agent.wait_for("cannot write the response file")
    assert answer_of(agent).startswith(ECHO_HEAD)


def test_a_hanging_agent_stays_busy_whatever_is_pressed(play: Start, tmp_path: Path) -> None:
    agent = play("misbehave = { hang = true }")
    agent.wait_for("working")
    agent.type(b"\x1b")
    agent.type(b"\x03")
    agent.wait_for("working · 1s")
    assert not (tmp_path / "response.md").exists()
    assert event_names(tmp_path)[-1] == "UserPromptSubmit"


@pytest.mark.parametrize(("name", "written"), [("crash", False), ("crash_after_file", True)])
def test_an_agent_crashes_with_a_code(
    play: Start, tmp_path: Path, name: str, written: bool
) -> None:
    agent = play(f"misbehave = {{ {name} = 7 }}")
    assert agent.wait_for_end() == 7
    assert (tmp_path / "response.md").exists() is written
    assert event_names(tmp_path) == ["SessionStart", "UserPromptSubmit"]


def test_an_agent_can_crash_at_its_start(on_pty: Start, tmp_path: Path) -> None:
    assert on_pty("start_crash = 9").wait_for_end() == 9
    assert event_names(tmp_path) == []


@pytest.mark.parametrize("reopen", ["true", "false"])
def test_the_file_can_come_in_pieces(play: Start, tmp_path: Path, reopen: str) -> None:
    text = "abcdefghi"
    agent = play(
        f"answer = '{text}'", f"misbehave = {{ pieces = 5, pause = 0.1, reopen = {reopen} }}"
    )
    response = tmp_path / "response.md"
    sizes = set()

    def is_whole() -> bool:
        sizes.add(response.stat().st_size if response.exists() else 0)
        return max(sizes) == len(text) + 1

    eventually(is_whole, "the file is whole")
    assert answer_of(agent) == text
    assert sizes & {2, 4, 6, 8}


def test_the_file_can_come_after_the_turn(play: Start, tmp_path: Path) -> None:
    agent = play("answer = 'x'", "misbehave = { late_file = 0.5, pieces = 2, pause = 0.1 }")
    answer_of(agent)
    response = tmp_path / "response.md"
    assert not response.exists()
    eventually(lambda: response.exists() and response.read_text() == "x\n", "the file")


def test_an_error_is_shown_and_told(play: Start, tmp_path: Path) -> None:
    agent = play(r'misbehave = { error = "usage limit\nreached" }')
    agent.wait_for("▧ error: usage limit reached")
    agent.wait_for_event("StopFailure")
    assert read_events(tmp_path)[-1]["message"] == "usage limit\nreached"
    assert not (tmp_path / "response.md").exists()


@pytest.mark.parametrize("keys", [b"1", b"\x1b[B\x1b[A\r"])
def test_an_agent_goes_on_when_it_is_permitted(play: Start, keys: bytes) -> None:
    agent = play("answer = 'done'", "misbehave = { ask = 'run make' }")
    agent.wait_for("1. Yes")
    agent.type(keys)
    assert answer_of(agent) == "done"
    assert event_names(agent.folder)[2:] == ["PermissionRequest", "PostToolUse", "Stop"]


@pytest.mark.parametrize("keys", [b"n", b"\x03", b"\x1b[B\r"])
def test_an_agent_does_nothing_when_it_is_refused(play: Start, tmp_path: Path, keys: bytes) -> None:
    agent = play("answer = 'done'", "misbehave = { ask = 'run make' }")
    agent.wait_for("1. Yes")
    agent.type(keys)
    assert answer_of(agent) == REFUSED_ANSWER
    assert not (tmp_path / "response.md").exists()


def test_a_paste_into_a_question_is_lost(play: Start) -> None:
    agent = play("misbehave = { ask = 'run make' }")
    agent.wait_for("1. Yes")
    agent.paste("1")
    agent.type(b"x2")
    agent.wait_for_event("PermissionRequest")
    assert event_names(agent.folder)[-1] == "PermissionRequest"


@pytest.mark.parametrize("dialog", ["pass", "person"])
def test_a_start_up_question_comes_before_the_session(
    on_pty: Start, tmp_path: Path, dialog: str
) -> None:
    agent = on_pty(f"startup_dialog = '{dialog}'")
    agent.wait_for("1. Yes")
    assert event_names(tmp_path) == []
    agent.type(b"1")
    agent.wait_for("▢ ready")
    agent.wait_for_event("SessionStart")


def test_a_start_up_question_for_a_person_is_refused_by_a_blind_enter(on_pty: Start) -> None:
    agent = on_pty("startup_dialog = 'person'")
    agent.wait_for("1. Yes")
    agent.type(b"\r")
    assert agent.wait_for_end() == 1
