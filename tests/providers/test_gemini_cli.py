"""Gemini CLI: its screens and answers (played by `test_all_agents.py`), and its drafts."""

from tests.providers.samples import COMPLETED, IDLE, PROCESSING, UNKNOWN

BANNER = " ▝▜▄     Gemini CLI v0.61.0\n   ▝▜▄\n\n"
RULE = "─" * 120
BOX = f"{RULE}\n Shift+Tab to accept edits\n\n >   Type your message\n\n workspace\n /home/me\n"
AT_REST = f"\n\n? for shortcuts\n{BOX}"
QUEUE = f"{BANNER}\n  Queued (press ↑ to edit):\n    Fix it\n"
HINT = " Press Ctrl+O to expand pasted text\n? for shortcuts\n"
TAKEN = f"{BANNER}ℹ Initializing... Prompts will be queued.\n"
SCREENS = {
    "a message that waits": (f"{QUEUE}\n? for shortcuts\n{BOX}", PROCESSING),
    "a message that waits, with a hint": (f"{QUEUE}{HINT}{BOX}", PROCESSING),
    "a message that was taken during the start": (TAKEN + AT_REST, PROCESSING),
    "the same, answered": (f"{TAKEN}\n > Fix it\n\n✦ Done.\n{AT_REST}", COMPLETED),
    "a tool that ran": (f" > Do it\n\n╭──╮\n│ ✓  Shell ls │\n╰──╯\n{AT_REST}", COMPLETED),
    "a warning alone": (f"{BANNER}⚠  A warning\n   in two rows\n{AT_REST}", IDLE),
    "a message alone": (f"{BANNER} > Fix it\n{AT_REST}", IDLE),
    "a word of the start": (f"{BANNER}✦ A word of the start\n{AT_REST}", IDLE),
    "a box alone": (BOX, IDLE),
    "an answer whose head has scrolled away": (f"  the end of it\n{AT_REST}", COMPLETED),
    "no box: a banner": (BANNER, UNKNOWN),
    "no box: an answer": (" > Fix it\n\n✦ I will look at it.\n", UNKNOWN),
}
TOOL = "╭──╮\n│ ✓  Shell ls │\n╰──╯\n\n"
SAID = f"✦ I will.\n\n{TOOL}✦ Done:\n\n   - one\n  end\n"
ANSWERS = {
    "what was said last": (
        f" > Do it\n\n{SAID}\n\n{'? for shortcuts':>119}\n{BOX}",
        "Done:\n\n - one\nend",
    ),
    "nothing yet": (f"✦ Old.\n\n > Do it\n{AT_REST}", ""),
}


DRAFTS = {
    "the last thing on the screen": (f"{RULE}\n > line a\n   line b\n", "line a\nline b"),
    "not what stands above the rule": (f" > said before\n{RULE}\n > line a\n", "line a"),
}
