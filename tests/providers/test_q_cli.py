"""Q CLI: the same lines as Kiro CLI's classic interface, under its own name."""

import pytest

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.providers import q_cli
from cli_agent_orchestrator.providers.base import LaunchRequest, Permissions, Profile

ASKED = "[reviewer] > Look at it\n\n"
ANSWER = "> It is good.\n\n"


@pytest.mark.parametrize(
    ("screen", "status"),
    [
        ("Welcome to Amazon Q!\n\n[reviewer] > \n", TerminalStatus.IDLE),
        ("Welcome to Amazon Q!\n\n> \n", TerminalStatus.IDLE),
        (ASKED + "⠹ Thinking...\n", TerminalStatus.PROCESSING),
        (ASKED + ANSWER + "[reviewer] > \n", TerminalStatus.COMPLETED),
        (
            ASKED + "Allow this action? Use 't' to trust. [y/n/t]:\n\n[reviewer] > \n",
            TerminalStatus.WAITING_USER_ANSWER,
        ),
        (
            ASKED + "Amazon Q is having trouble responding right now:\n   0: no\n\n[reviewer] > \n",
            TerminalStatus.ERROR,
        ),
        ("", TerminalStatus.UNKNOWN),
    ],
)
def test_its_screens_are_read_line_by_line(screen: str, status: TerminalStatus) -> None:
    assert q_cli.detect_status(screen, "any title") is status


def test_drafts_and_answers_are_read_line_by_line() -> None:
    assert q_cli.draft(ASKED + "\x1b[92m>\x1b[0m Yes.\n\n[reviewer] > more\n") == "more"
    assert q_cli.last_answer(ASKED + ANSWER + "[reviewer] > \n") == "It is good."


def test_a_chat_is_started_with_the_profile_as_its_first_message() -> None:
    request = LaunchRequest(
        program="/opt/bin/q",
        version=(1, 19),
        args=("--agent", "mine"),
        working_directory="/home/me/app",
        profile=Profile("tester", "Tests.", "You are the tester."),
        permissions=Permissions.WORKSPACE,
        event_file="/state/events/t1.jsonl",
    )
    *argv, message = q_cli.launch(request).argv
    flags = ["--trust-tools=fs_read,fs_write,execute_bash", "--agent", "mine"]
    assert argv == ["/opt/bin/q", "chat", *flags, "--"]
    assert message.startswith("You are the tester.")


def test_it_has_neither_signals_nor_startup_questions() -> None:
    assert q_cli.title_status("any") is None
    assert q_cli.read_signal("{}") is None
    assert q_cli.startup_dialog(ASKED) is None
