"""Claude Code's status: what its screen and title say, and what may never change it."""

import pytest
from hypothesis import given

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.providers.claude_code import detect_status, title_status
from tests.providers.samples import COMPLETED, ERROR, IDLE, PROCESSING, UNKNOWN, WAITING, prose

RULE = "─" * 60
FOOTER = "  ⏸ manual mode on · ? for shortcuts"
BUSY_FOOTER = "  ⏸ manual mode on · esc to interrupt · ← for agents"
DIALOG = (
    f"{RULE}\n Bash command\n\n   make test\n\n Do you want to proceed?\n"
    " ❯ 1. Yes\n   2. No\n\n Esc to cancel · Tab to amend\n"
)
DIALOG_WITHOUT_FOOTER = (
    f"{RULE}\n Network request outside of sandbox\n\n Host: example.org\n\n"
    " Do you want to allow this connection?\n ❯ 1. Yes\n"
    "   2. No, and tell Claude what to do differently (esc)\n"
)


def box(draft: str = "", footer: str = FOOTER) -> str:
    return f"{RULE}\n❯\xa0{draft}\n{RULE}\n{footer}\n"


SIGNS = [
    "✻ Thinking… (12s · ↑ 3 tokens · esc to interrupt)",
    "· Working…",
    "* Retrying in 5s · attempt 2/10",
    "esc to interrupt",
    "⏸ manual mode on · esc to interrupt",
    "⎿  Interrupted · What should Claude do instead?",
    "⎿  API Error: 500 was only mentioned",
    "● API Error: 500 was only mentioned",
    "API Error: 401 quoted · Please run /login",
    "✻ Churned for 5s",
    "❯ 1. Yes",
    "  2. No",
    "❯ Fix it",
    "> Fix it",
    "❯\xa0",
    "❯\xa0draft",
    RULE,
    "╭──────────╮",
    "│\xa0>\xa0draft │",
    "Do you want to proceed?",
    "Esc to cancel · Tab to amend",
    "Enter to select · ↑/↓ to navigate · Esc to cancel",
    "Do you trust the files in this folder?",
    "WARNING: Claude Code running in Bypass Permissions mode",
    "? for shortcuts",
    "",
]
PROSE = prose(SIGNS)
ENDINGS = {
    "finished": (COMPLETED, f"\n✻ Churned for 5s · done 12:01 AM\n\n{box()}"),
    "finished, without the time it took": (COMPLETED, "\n" + box()),
    "finished, with a draft": (COMPLETED, "\n" + box("and now")),
    "thinking": (PROCESSING, f"\n✽ Gusting… (3s · ↓ 22 tokens)\n\n{box()}"),
    "streaming": (PROCESSING, "\n" + box(footer=BUSY_FOOTER)),
    "asking": (WAITING, "\n" + DIALOG),
    "asking about the network": (WAITING, "\n" + DIALOG_WITHOUT_FOOTER),
    "interrupted": (IDLE, f"  ⎿ \xa0Interrupted · What should Claude do instead?\n\n{box()}"),
    "failed": (ERROR, f"\n❯ Go on\n  ⎿ \xa0API Error: 400 no\n\n✻ Baked for 0s\n\n{box()}"),
    "failed, new": (ERROR, f"\n❯ Go on\n\n● API Error: 529 busy\n\n✻ Baked for 1s\n\n{box()}"),
}


def answer(prose: list[str]) -> str:
    """Return an answer as it is drawn: a mark at the edge, everything else indented."""
    rows = ["● Here is what I found."] + [f"  {line}".rstrip(" ") for line in prose]
    return "❯ Tell me\n\n" + "\n".join(rows) + "\n"


@given(prose=PROSE)
def test_prose_never_changes_the_status(prose: list[str]) -> None:
    for ending, (status, text) in ENDINGS.items():
        assert detect_status(answer(prose) + text, "✳ Claude Code") is status, ending


@pytest.mark.parametrize(
    ("title", "status"),
    [
        ("◐ Claude Code", PROCESSING),
        ("◑ Fix the tests", PROCESSING),
        ("⠂ Claude Code", PROCESSING),
        ("⠐ Fix the tests", PROCESSING),
        ("✳ Claude Code", None),
        ("✳ Working on ◐ symbols", None),
        ("Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA", None),
        ("host", None),
        ("", None),
    ],
)
def test_a_title_says_work_or_nothing(title: str, status: TerminalStatus | None) -> None:
    assert title_status(title) is status


def test_a_busy_title_goes_before_a_screen_that_looks_finished() -> None:
    screen = answer([]) + "\n" + box()
    assert detect_status(screen, "◐ Claude Code") is PROCESSING
    assert detect_status(screen, "✳ Claude Code") is COMPLETED


def test_a_dialog_goes_before_a_title_that_is_late() -> None:
    assert detect_status(DIALOG, "◐ Claude Code") is WAITING


def test_a_draft_below_an_old_failure_is_no_failure() -> None:
    screen = "❯ Go on\n\n● API Error: 500 no\n\n✻ Baked for 1s\n\n"
    assert detect_status(screen + box()) is ERROR
    assert detect_status(screen + box("Go on again")) is IDLE


def test_an_answer_that_begins_like_an_error_and_goes_on_is_an_answer() -> None:
    text = "❯ Why?\n\n● API Error: 500 is what the log says.\n\n  It means that it failed.\n\n"
    assert detect_status(text + box()) is COMPLETED


@pytest.mark.parametrize("mark", "·✢✳✶✻✽*")
def test_every_frame_of_the_spinner_is_known(mark: str) -> None:
    assert detect_status(f"❯ Go\n\n{mark} Gusting…\n\n{box()}") is PROCESSING


def test_a_thought_of_an_old_version_is_no_spinner() -> None:
    text = "> Go\n\n✻ Thinking…\n\n  Let me see.\n\n● Here it is.\n\n"
    assert detect_status(text + box()) is COMPLETED


def test_the_mark_of_another_system_is_an_answer() -> None:
    assert detect_status(f"❯ Go\n\n⏺ Here it is.\n\n{box()}") is COMPLETED


def test_the_rest_of_an_answer_is_an_answer_and_a_banner_is_none() -> None:
    assert detect_status(f"  the end of it.\n\n{box()}") is COMPLETED
    assert detect_status(f" ▐▛███▛█   Claude Code v2.1.325\n▝▜██████▀  Opus\n\n{box()}") is IDLE


def test_the_output_of_a_command_of_its_own_is_no_answer() -> None:
    assert detect_status(f"❯ /model\n  ⎿ \xa0Set model to opus\n\n{box()}") is IDLE


@pytest.mark.parametrize(
    "notice",
    [
        "API Error: Connection error.",
        "Credit balance is too low",
        "Claude usage limit reached. Your limit will reset at 3pm.",
        "5-hour limit reached ∙ resets 7pm",
        "You've hit your limit · resets 2am",
        "Invalid API key · Please run /login",
        "OAuth token revoked · Please run /login",
    ],
)
def test_a_notice_below_a_message_that_tells_of_a_failure_is_an_error(notice: str) -> None:
    assert detect_status(f"❯ Go\n  ⎿ \xa0{notice}\n\n{box()}") is ERROR


def test_a_message_whose_lines_stand_at_the_edge_is_followed_by_its_failure() -> None:
    text = "> Do this:\nfirst one thing\nthen another\n  ⎿ \xa0API Error: 400 no\n\n"
    assert detect_status(text + box()) is ERROR
    assert detect_status("> Do this:\nall of it\n\n" + box()) is IDLE


ANSWERED = f"❯ go\n\n● I wait.\n\n{'─' * 40}\n❯\xa0\n{'─' * 40}\n"


@pytest.mark.parametrize(
    "footer",
    [
        "  ⏵⏵ bypass permissions on · 1 shell · ← for agents · ↓ to manage      ◐ medium · /effort",
        "  ⏸ manual mode on · 1 shell",
        "  1 shell · ↓ to manage",
        "  ⏵⏵ bypass permissions on · 1 local agent · ctrl+x ctrl+k to stop agents · ↓ to manage",
        "  ? for shortcuts · 2 background tasks",
        # What its input box holds takes the place of what else it would say here.
        "  1 shell                                 ● high · /effort",
        "  ⏵⏵ accept edits on · 2 local agents  ● high · /effort",
    ],
)
def test_what_runs_on_below_the_input_box_is_work(footer: str) -> None:
    assert detect_status(ANSWERED + footer) is PROCESSING


@pytest.mark.parametrize(
    "footer",
    [
        "  ⏸ manual mode on · /tasks to see subagents                          ◐ medium · /effort",
        "  ⏵⏵ bypass permissions on (shift+tab to cycle) · ← for agents",
        "  1 shell game was played",
    ],
)
def test_what_only_speaks_of_agents_below_the_input_box_is_no_work(footer: str) -> None:
    assert detect_status(ANSWERED + footer) is COMPLETED


@pytest.mark.parametrize(
    "footer",
    [
        "  ! for bash mode                                                    ● high · /effort",
        "  ! for shell modedouble tap esc to     ctrl + shift + _\n  / for commands  clear input",
        "/model               Set the AI model for Claude Code (…\n/mobile              Show QR",
        "  ❯ /model                      Set the AI model for Claude Code (currently Opus 5.5)",
        '  No commands match "/zzzz"',
        "    + file1.txt\n    + file7.txt",
        "  ❯ + file1.txt\n    + file7.txt",
    ],
)
def test_what_a_person_has_opened_below_the_input_box_may_hide_work(footer: str) -> None:
    assert detect_status(ANSWERED + footer) is UNKNOWN
    spins = ANSWERED.replace("─", "✽ Gusting… (3s)\n\n─", 1)
    assert detect_status(spins + footer) is PROCESSING


@pytest.mark.parametrize("row", ["  esc to interrupt", "  2 shells"])
def test_a_draft_that_speaks_of_work_is_no_work(row: str) -> None:
    assert detect_status(answer([]) + "\n" + box(f"stop\n{row}")) is COMPLETED


def test_sub_agents_that_are_waited_for_are_work() -> None:
    waits = "✻ Waiting for 2 background agents to finish\n\n"
    shown = ANSWERED.replace("─", waits + "─", 1)
    assert detect_status(shown) is PROCESSING


@pytest.mark.parametrize("kind", ["✽ Gusting… (3s)", "✻ Churned for 1s"])
def test_a_transcript_that_a_person_reads_is_no_question_while_a_turn_runs(kind: str) -> None:
    footer = "  Showing detailed transcript · ctrl+o to toggle · ctrl+e to show all"
    shown = f"❯ go\n\n● I wait.\n\n{kind}\n\n{'─' * 40}\n{footer}\n"
    works = PROCESSING if "…" in kind else WAITING
    assert detect_status(shown) is works
