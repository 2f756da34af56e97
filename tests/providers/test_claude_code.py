"""Claude Code: screens, questions at the start, drafts, answers; see `test_all_agents.py`."""

import pytest

from cli_agent_orchestrator.providers import claude_code
from tests.providers.samples import COMPLETED, ERROR, IDLE, PROCESSING, UNKNOWN, WAITING, capture

RULE = "─" * 60
FOOTER = "  ⏸ manual mode on · ? for shortcuts"


def box(draft: str = "", footer: str = FOOTER) -> str:
    return f"{RULE}\n❯\xa0{draft}\n{RULE}\n{footer}\n"


FAILURE = "❯ Go on\n\n● API Error: 500 no\n\n✻ Baked for 1s\n\n"
EXPLAINED = "● API Error: 500 is what the log says.\n\n  It means that it failed.\n\n"
THOUGHT = "> Go\n\n✻ Thinking…\n\n  Let me see.\n\n● Here it is.\n\n"
BANNER = " ▐▛███▛█   Claude Code v2.1.325\n▝▜██████▀  Opus\n\n"
# In 2.0 all lines of a message but the first stand at the edge.
AT_THE_EDGE = "> Do this:\nfirst one thing\nthen another\n"
SAID = "❯ go\n\n● I wait.\n\n"
ANSWERED = f"{SAID}{RULE}\n❯\xa0\n{RULE}\n"
SPINS = ANSWERED.replace(RULE, f"✽ Gusting… (3s)\n\n{RULE}", 1)
WAITS = ANSWERED.replace(RULE, f"✻ Waiting for 2 background agents to finish\n\n{RULE}", 1)
TRANSCRIPT = f"{RULE}\n  Showing detailed transcript · ctrl+o to toggle · ctrl+e to show all\n"
FAILURES = [
    "API Error: Connection error.",
    "Credit balance is too low",
    "Claude usage limit reached. Your limit will reset at 3pm.",
    "5-hour limit reached ∙ resets 7pm",
    "You've hit your limit · resets 2am",
    "Invalid API key · Please run /login",
    "OAuth token revoked · Please run /login",
]
FOOTERS_OF_WORK = [
    "  ⏵⏵ bypass permissions on · 1 shell · ← for agents · ↓ to manage      ◐ medium · /effort",
    "  ⏸ manual mode on · 1 shell",
    "  ⏵⏵ bypass permissions on · 1 local agent · ctrl+x ctrl+k to stop agents · ↓ to manage",
    "  ? for shortcuts · 2 background tasks",
    # What its input box holds takes the place of what else it would say here.
    "  1 shell                                 ● high · /effort",
]
FOOTERS_OF_REST = [
    "  ⏸ manual mode on · /tasks to see subagents                          ◐ medium · /effort",
    "  ⏵⏵ bypass permissions on (shift+tab to cycle) · ← for agents",
    "  1 shell game was played",
]
# What a person has opened there may hide work.
FOOTERS_OPENED = [
    "  ! for bash mode                                                    ● high · /effort",
    "  ! for shell modedouble tap esc to     ctrl + shift + _\n  / for commands  clear input",
    "/model               Set the AI model for Claude Code (…\n/mobile              Show QR",
    "  ❯ /model                      Set the AI model for Claude Code (currently Opus 5.5)",
    '  No commands match "/zzzz"',
    "  ❯ + file1.txt\n    + file7.txt",
]
SCREENS = {
    "a failure": (FAILURE + box(), ERROR),
    "a draft below an old failure": (FAILURE + box("Go on again"), IDLE),
    "an answer that begins like an error": (f"❯ Why?\n\n{EXPLAINED}{box()}", COMPLETED),
    **{
        f"a frame of the spinner: {mark}": (f"❯ Go\n\n{mark} Gusting…\n\n{box()}", PROCESSING)
        for mark in "·✢✳✶✻✽*"
    },
    "a thought of an old version": (THOUGHT + box(), COMPLETED),
    "the mark of another system": (f"❯ Go\n\n⏺ Here it is.\n\n{box()}", COMPLETED),
    "the rest of an answer": (f"  the end of it.\n\n{box()}", COMPLETED),
    "a banner": (BANNER + box(), IDLE),
    "the output of a command of its own": (f"❯ /model\n  ⎿ \xa0Set model\n\n{box()}", IDLE),
    **{failure: (f"❯ Go\n  ⎿ \xa0{failure}\n\n{box()}", ERROR) for failure in FAILURES},
    "a failure below a message at the edge": (
        f"{AT_THE_EDGE}  ⎿ \xa0API Error: 400 no\n\n{box()}",
        ERROR,
    ),
    "a message at the edge": (f"{AT_THE_EDGE}\n{box()}", IDLE),
    **{footer: (ANSWERED + footer, PROCESSING) for footer in FOOTERS_OF_WORK},
    **{footer: (ANSWERED + footer, COMPLETED) for footer in FOOTERS_OF_REST},
    **{footer: (ANSWERED + footer, UNKNOWN) for footer in FOOTERS_OPENED},
    "a spinner above what a person has opened": (SPINS + FOOTERS_OPENED[0], PROCESSING),
    "a draft that speaks of work": (SAID + box("stop\n  esc to interrupt"), COMPLETED),
    "a draft that speaks of shells": (SAID + box("stop\n  2 shells"), COMPLETED),
    "sub-agents that are waited for": (WAITS + FOOTER, PROCESSING),
    "a transcript while a turn runs": (f"❯ go\n\n✽ Gusting… (3s)\n\n{TRANSCRIPT}", PROCESSING),
    "a transcript at rest": (f"❯ go\n\n● So.\n\n✻ Churned for 1s\n\n{TRANSCRIPT}", WAITING),
}


BOX = box()


def screen(name: str) -> str:
    return capture(f"claude_code/{name}")


def test_the_last_answer_keeps_its_paragraphs() -> None:
    answer = claude_code.last_answer(screen("completed/2.1.325-completed_trigger_words.txt"))
    assert answer.startswith("Here is my report.")
    assert "\n\n❯ 1. Yes\n  2. No\n\n" in answer
    assert answer.endswith("API Error: 500 was only mentioned.")


HARD = ["  1. fix `a`", "", "\tb\\", "word " * 99 + "end", "漢🙂" * 300] * 20


@pytest.mark.parametrize(
    "text", ["\n".join(HARD), "x", "\n\nx\n", "x\n" * 500, "🙂" * 40_000, "\t" * 900]
)
def test_a_message_is_cut_into_pieces_that_count_as_the_words_of_the_user(text: str) -> None:
    pieces = claude_code.pieces(text)
    assert "".join(pieces) == text
    # JavaScript counts what is beyond the first plane twice, and a tab becomes four blanks.
    sizes = [len(one.replace("\t", "    ").encode("utf-16-le")) for one in pieces]
    assert max(sizes) <= 1600
    assert all(one.count("\n") <= 2 for one in pieces)


@pytest.mark.parametrize("text", ["x\n" * 501, "x" * 40_001])
def test_what_would_take_long_in_pieces_is_pasted_as_a_whole(text: str) -> None:
    assert claude_code.pieces(text) == [text]


def test_of_a_box_that_is_taller_than_the_screen_the_last_rows_are_read() -> None:
    rows = "  8. fix `h`\n\n  9. fix `i`\n"
    assert claude_code.draft(f"{rows}{RULE}\n{FOOTER}\n") == "8. fix `h`\n\n9. fix `i`"
    for other in (f"● no\n{rows}{RULE}\n{FOOTER}", f"{rows}{RULE}\n Use it?\n ❯ 1. Yes", rows):
        assert claude_code.draft(other) is None


def dialog(name: str) -> str:
    return screen(f"waiting_user_answer/{name}.txt")


QUESTION = " Do you trust the files in this folder?\n\n"
TWICE = f"❯ claude\n{QUESTION} ❯ No, exit\n   Yes, proceed\n\n{QUESTION}{{}}\n Enter to confirm\n"
MOVED = (
    dialog("2.1.105-trust_dialog").replace(" ❯ 1. Yes", "   1. Yes").replace("   2. No", " ❯ 2. No")
)
QUOTED = "  Do you trust the files in this folder?\n\n  ❯ 1. Yes, proceed\n    2. No, exit\n"
UNKNOWN_ANSWERS = " Quick safety check: Is this yours?\n\n ❯ Maybe\n   Never\n\n Enter to confirm\n"
TRUST = "trust this folder"
SECOND_STEPS = {
    f"the second step of {name}": dialog(name)
    .replace(" ❯ No, exit", "   No, exit")
    .replace("   Yes, I trust this folder", " ❯ Yes, I trust this folder")
    for name in ("2.1.325-trust_dialog", "2.1.325-flags-bypass_untrusted")
}
CHOOSE = "trust this folder (choosing yes)"
QUESTIONS = {
    **{name: (text, (TRUST, "Enter")) for name, text in SECOND_STEPS.items()},
    "a mark that somebody moved": (MOVED, (CHOOSE, "Home")),
    "a mark above yes": (TWICE.format(" ❯ No, exit\n   Yes, proceed"), (CHOOSE, "End")),
    "a mark at yes": (TWICE.format("   No, exit\n ❯ Yes, proceed"), (TRUST, "Enter")),
    "a mark below yes": (TWICE.format("   Yes, proceed\n ❯ No, exit"), (CHOOSE, "Home")),
    **{
        heading: (f" {heading}\n\n ❯ 1. Use it\n   2. Go on without\n", ("new MCP servers", ""))
        for heading in (
            "New MCP server found in .mcp.json: docs",
            "3 new MCP servers found in .mcp.json",
        )
    },
    "unknown answers": (UNKNOWN_ANSWERS, (TRUST, "")),
    "an answer that quotes the question": (f"● It says:\n\n{QUOTED}\n{BOX}", None),
}


def drawn(row: str) -> str:
    return BOX.replace("❯\xa0", row)


MODES = {"!\xa0ls -l": "!ls -l", "#\xa0ls -l": "#ls -l", "│\xa0!\xa0ls -l   │": "!ls -l"}
SCREENS |= {row: (drawn(row), IDLE) for row in MODES}
DRAFTS = {
    **{row: (drawn(row), expected) for row, expected in MODES.items()},
    "an empty box in shell mode": (drawn("!\xa0"), "!"),
    "a suggestion behind it": (
        drawn("\x1b[39m❯\xa0run the \x1b[7mt\x1b[0;2m\x1b[39mests\x1b[0m"),
        "run the",
    ),
    "the cursor in its middle": (
        drawn("\x1b[39m❯\xa0run \x1b[7mt\x1b[0m\x1b[39mhe tests"),
        "run the tests",
    ),
}
TOOL = "● Bash(make\n      test)\n  ⎿ \xa0ok\n\n"
LINES = [f"line {number}" for number in range(2000)]
LONG = "\n  ".join(LINES)
ANSWERS = {
    "a long one": (f"❯ Go\n\n● {LONG}\n\n✻ Baked for 3s\n\n{BOX}", "\n".join(LINES)),
    "not a command and its output": (f"❯ Go\n\n● I run it.\n\n{TOOL}{BOX}", "I run it."),
    **{
        name: (screen(f"{name}.txt"), expected)
        for name, expected in {
            "completed/2.1.325-completed": "Slow answer after 6 s. DONE-SLOW",
            "completed/2.1.325-classic-completed_tool": "Final answer. DONE-TOOL",
            "completed/2.1.325-ask_answered": "Final answer. DONE-ASK",
            "completed/1.0.100-completed_after_interrupt": "Final answer. DONE-ASK",
            "completed/2.0.67-completed_tool": "Final answer. DONE-RUN",
            "error/1.0.100-api_error_400": "",
            "idle/2.1.325-idle_fresh": "",
            "processing/2.1.325-processing": "",
        }.items()
    },
}
