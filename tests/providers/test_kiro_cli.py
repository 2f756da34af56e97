"""Kiro CLI: its classic interface line by line, and what is known of the newer one."""

from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.providers.base import LaunchRequest, Permissions
from tests.providers.samples import (
    COMPLETED,
    ERROR,
    IDLE,
    PROCESSING,
    UNKNOWN,
    WAITING,
    launch_request,
)

BANNER = (
    "Jump into building with Kiro:\n\n1. Ask a question or describe a task\n"
    "2. Use /context add <file>\n\nModel: auto (/model to change)\n\n"
)
ASKED = "[builder] 16% λ > Fix the failing test\n\n"
ANSWER = "> The test passes now.\n\nIt was a typo.\n\n"
PROMPT = "[builder] 17% λ > \n"
TOOL = "🛠️  Using tool: execute_bash\n ⋮\n ● I will run the following command:\nmake test\n\n"
QUESTION = "Allow this action? Use 't' to trust (always allow) this tool. [y/n/t]:\n\n"
FAILURE = "Kiro is having trouble responding right now:\n   0: no route to host\n\n"
TRUST_ALL = (
    "  Kiro is running in trust all tools mode\n\n  All tools run without asking.\n\n"
    "  ❯ No, exit\n    Yes, I accept\n    Yes, and don't ask again\n\n"
    "  esc to cancel · ↑↓ to navigate · ↵ to select\n"
)


SCREENS = {str(number): row for number, row in enumerate([
    (BANNER + PROMPT, IDLE),
    (BANNER + "1% > \n", IDLE),
    (BANNER + "[builder]>\n", IDLE),
    (BANNER + "[builder] !> \n", IDLE),
    (BANNER + "> \n", IDLE),
    (BANNER + "!> \n", IDLE),
    (BANNER + "[builder] 1% > a draft\n", IDLE),
    ("[builder] 1% > Fix it\n> It is fixed.\n" + PROMPT, COMPLETED),
    (ASKED + "⠋ Thinking...\n", PROCESSING),
    (ASKED + "> The test\nnow passes\n", PROCESSING),
    (ASKED + "> The test\n", UNKNOWN),
    (ASKED + ANSWER, PROCESSING),
    (ASKED + TOOL, PROCESSING),
    (ASKED + ANSWER + PROMPT, COMPLETED),
    (ASKED + ANSWER + "[builder] 17% λ > a draft\n", COMPLETED),
    (ASKED + ANSWER + " ▸ Credits: 0.24 • Time: 3s\n\n" + PROMPT, COMPLETED),
    ("the end of a long answer\n ▸ Credits: 0.24 • Time: 3s\n\n" + PROMPT, COMPLETED),
    ("> Fix it\n\n> It is fixed.\n\n> \n", COMPLETED),
    ("> Fix it\n\n⠋ Thinking...\n", PROCESSING),
    (ASKED + TOOL + QUESTION, WAITING),
    (ASKED + TOOL + QUESTION + PROMPT, WAITING),
    (ASKED + TOOL + QUESTION + "[builder] 17% λ > y\n", WAITING),
    (ASKED + TOOL + QUESTION + "[builder] 17% λ > y\n\n" + TOOL, PROCESSING),
    (ASKED + TOOL + QUESTION + "[builder] 17% λ > y\n\n" + ANSWER + PROMPT, COMPLETED),
    (ASKED + FAILURE + PROMPT, ERROR),
    (ASKED + FAILURE + "[builder] 17% > Again\n\n" + ANSWER + PROMPT, COMPLETED),
    (ASKED + "> It said:\n\n" + FAILURE + "but then it worked.\n\n" + PROMPT, COMPLETED),
    (ASKED + "> It asks:\n\n" + QUESTION + "and I said yes.\n\n" + PROMPT, COMPLETED),
    (BANNER, UNKNOWN),
    ("> Fix it\n\n> It is fixed.\n\n> a draft or an answer\n", UNKNOWN),
    ("│ ask a question or describe a task\n  builder · auto · ◔ 5%\n", IDLE),
    ("  It is fixed.\n\n ▸ Credits: 0.24 • Time: 3s\n\n Ask a question or describe a task\n",
     COMPLETED),
    ("⠹ Kiro is working · Type to queue\n ask a question or describe a task\n", PROCESSING),
    ("  shell requires approval\n  ❯ Yes, single permission\n    Trust, always allow\n"
     "    No (Tab to edit)\n\n  ESC to close\n", WAITING),
    (TRUST_ALL, WAITING),
    ("  Kiro is working on it, I said.\n\n ask a question or describe a task\n", IDLE),
])}  # fmt: skip


LATER = "a line of its work\n" * 20
QUESTIONS = {
    "trusting all tools": (TRUST_ALL, ("trust all tools", "")),
    "trusting all tools, scrolled up": (TRUST_ALL + LATER, None),
    "an answer": (ASKED + ANSWER + PROMPT, None),
    "half of a question": ("  ❯ No, exit\n    Yes, I accept\n", None),
}
GREEN = "\x1b[38;5;10m> \x1b[39m"


DRAFTS = {str(number): row for number, row in enumerate([
    (BANNER + PROMPT, ""),
    ("\x1b[35m[builder]\x1b[0m 3% > fix the test\n", "fix the test"),
    (f"{ASKED}{GREEN}Done.\n\n[builder] 17% > one\ntwo\n\nthree\n", "one\ntwo\n\nthree"),
    (f"{ASKED}{GREEN}Done.\n\n\x1b[35m> \x1b[0mfix it\n", "fix it"),
    (f"\x1b[35m> \x1b[0mGo\n\n{GREEN}Done.\n\n\x1b[35m> \x1b[0mfix it\n", "fix it"),
    (f"\x1b[35m> \x1b[0mGo\n\n{GREEN}Done.\n\n\x1b[35m> \x1b[0m\n", ""),
    (f"{ASKED}{GREEN}It is\n", None),
    (ASKED + "⠋ Thinking...\n", None),
    (ASKED + TOOL, None),
    ("\x1b[92m>\x1b[39m It is fixed.\n> a draft\n", "a draft"),
    ("> a draft that fills\nthe screen\n", "> a draft that fills\nthe screen"),
    ("a draft that fills the screen\n" * 3, "a draft that fills the screen\n" * 2
     + "a draft that fills the screen"),
    (" ask a question or describe a task\n", ""),
])}  # fmt: skip
ANSWERS = {str(number): row for number, row in enumerate([
    (ASKED + ANSWER + PROMPT, "The test passes now.\n\nIt was a typo."),
    (ASKED + "> First I look.\n\n" + TOOL + ANSWER + PROMPT,
     "The test passes now.\n\nIt was a typo."),
    (ASKED + "> I run it.\n\n" + TOOL, "I run it."),
    (ASKED + ANSWER + "[builder] 17% > Go on\n\n" + FAILURE + PROMPT, ""),
    (BANNER + PROMPT, ""),
])}  # fmt: skip


def request(permissions: Permissions, version: tuple[int, ...], prompt: str) -> LaunchRequest:
    program = "/opt/bin/kiro-cli"
    return launch_request(program, permissions, "--model", "auto", version=version, prompt=prompt)


def test_the_profile_is_the_first_message() -> None:
    argv = (
        get_provider("kiro_cli").launch(request(Permissions.ASK, (), "--you are\nthe tester")).argv
    )
    assert argv[-2] == "--"
    assert argv[-1].startswith("--you are\nthe tester\n\n")
    assert "READY" in argv[-1]


def test_the_classic_interface_is_asked_for_where_it_is_not_the_default() -> None:
    versions = ((), (1, 29, 3), (2, 0, 0), (3, 1))
    launch = get_provider("q_cli").launch
    words = [launch(request(Permissions.ASK, version, "")).argv[1:3] for version in versions]
    assert words == [("chat", "--model")] * 2 + [("chat", "--legacy-ui")] * 2
