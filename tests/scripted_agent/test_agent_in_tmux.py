"""The agent in a real tmux: what the server would see of it, by the screen alone."""

from collections.abc import Callable
from hashlib import sha256

import pytest

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.providers import scripted
from tests.scripted_agent.driving import TmuxAgent, eventually, read_events

pytestmark = pytest.mark.tmux

Start = Callable[..., TmuxAgent]

NO_SIGNALS = "title = false\nevents = false\n"


def test_misleading_words_do_not_change_what_the_screen_says(in_tmux: Start) -> None:
    agent = in_tmux(
        NO_SIGNALS
        + "[[rule]]\nturn = 1\nseconds = 1000\nmisbehave = { mislead = true }\n"
        + "[[rule]]\nmisbehave = { mislead = true }"
    )
    agent.send("go")
    eventually(lambda: "│ scripted ❯" in agent.screen(), "misleading words")
    assert agent.status() is TerminalStatus.PROCESSING
    agent.press("Escape")
    agent.wait_for(TerminalStatus.IDLE)
    agent.send("again")
    agent.wait_for(TerminalStatus.COMPLETED)


def test_an_error_shows_until_the_next_message(in_tmux: Start) -> None:
    agent = in_tmux("[[rule]]\nturn = 1\nmisbehave = { error = 'usage limit' }")
    agent.send("go")
    agent.wait_for(TerminalStatus.ERROR)
    agent.send("again")
    agent.wait_for(TerminalStatus.COMPLETED)


def test_a_question_waits_for_a_person(in_tmux: Start) -> None:
    agent = in_tmux("[[rule]]\nturn = 1\nmisbehave = { ask = 'run it' }")
    agent.send("go")
    agent.wait_for(TerminalStatus.WAITING_USER_ANSWER)
    assert agent.draft() is None
    agent.press("Down")
    eventually(lambda: "▸ 2. No" in agent.screen(), "the mark moves")
    agent.press("Up", "Enter")
    agent.wait_for(TerminalStatus.COMPLETED)


def test_the_keys_of_the_provider_pass_the_start_up_question(in_tmux: Start) -> None:
    agent = in_tmux("startup_dialog = 'pass'")
    agent.wait_for(TerminalStatus.WAITING_USER_ANSWER)
    dialog = scripted.startup_dialog(agent.screen())
    assert dialog is not None
    agent.press(*dialog.keys)
    agent.wait_for(TerminalStatus.IDLE)


def test_the_keys_of_the_provider_clear_the_box_and_quit(in_tmux: Start) -> None:
    agent = in_tmux()
    agent.wait_for(TerminalStatus.IDLE)
    assert agent.draft() == ""
    agent.paste(b"unsent")
    eventually(lambda: agent.draft() == "unsent", "the draft")
    agent.press(*scripted.PROVIDER.clear_keys)
    eventually(lambda: agent.draft() == "", "an empty box")
    agent.paste(b"unsent\nlines")
    eventually(lambda: agent.draft() == "[pasted 12 chars]", "the folded draft")
    agent.press(*scripted.PROVIDER.exit_keys)
    eventually(lambda: agent.exit_code == 0, "the end")
    assert agent.status() is TerminalStatus.UNKNOWN


def test_two_megabytes_arrive_byte_for_byte(in_tmux: Start) -> None:
    message = "".join(f"{number} grüße 漢字\n" for number in range(100_000))
    agent = in_tmux()
    agent.send(message)
    agent.wait_for_event("Stop")
    digest = sha256(message.encode()).hexdigest()
    assert digest in read_events(agent.folder)[-1]["message"]


LONG_LINES = "\n".join(f"{n}: " + "the quick brown 狐 " * (n % 20) + "end" for n in range(2000))


def test_an_answer_of_two_thousand_lines_is_read_back_whole(in_tmux: Start) -> None:
    agent = in_tmux(f"[[rule]]\nanswer = '''{LONG_LINES}'''")
    agent.send("go")
    agent.wait_for(TerminalStatus.COMPLETED)
    assert scripted.last_answer(agent.scrollback()) == LONG_LINES


@pytest.mark.parametrize("columns", [40, 200])
def test_another_width_changes_neither_status_nor_answer(in_tmux: Start, columns: int) -> None:
    answer = "a line that is longer than forty columns, " * 3 + "end"
    agent = in_tmux(f"[[rule]]\nanswer = '{answer}'")
    agent.send("go")
    agent.wait_for(TerminalStatus.COMPLETED)
    agent.tmux("resize-window", "-x", str(columns), "-y", "30")
    agent.paste(b"x" * 150)
    eventually(lambda: (agent.draft() or "").endswith("xxx"), "the draft")
    agent.wait_for(TerminalStatus.COMPLETED)
    assert agent.screen().count("scripted ❯") == 1
    assert scripted.last_answer(agent.scrollback()) == answer
