"""Agents that a file describes: what each key does, what bad files get, where files are found."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from msgspec import Struct
from msgspec.structs import fields

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.errors import AgentFault, UnknownName
from cli_agent_orchestrator.providers import every_provider, get_provider
from cli_agent_orchestrator.providers.base import Permissions, Provider
from cli_agent_orchestrator.providers.described import (
    LARGEST_FILE,
    LONGEST_PATTERN,
    Description,
    decode,
    load,
    make_provider,
)
from tests.providers.samples import (
    COMPLETED,
    ERROR,
    IDLE,
    PROCESSING,
    PROVIDERS,
    UNKNOWN,
    WAITING,
    launch_request,
    signal,
)

PROGRAM = 'program = "mine"\n'
BOX = "[[box]]\npattern = '^>(?: |$)'\nsample = '> draft'\n"
MUTED = r"""muted = { pattern = '(\x1b\[3m)·', sample = "\u001b[3m·" }"""
NOISE = "[screen]\nnoise = { pattern = ' +┃$', sample = ' ┃' }\n"
RULE = "{ pattern = '^─+$', sample = '───' }"


def described(text: str) -> Provider:
    text = text if "program =" in text else PROGRAM + text
    return make_provider("mine", decode(text.encode(), "mine.toml"), Path("/here"))


def mark(kind: str, pattern: str, more: str = "") -> str:
    return f"[[marks]]\nis = '{kind}'\npattern = '{pattern}'\nsample = '! it'\n{more}\n"


def test_with_a_program_alone_its_status_is_told_by_rest() -> None:
    agent = described("")
    assert agent.by_rest
    assert agent.detect_status("> anything\n") is UNKNOWN
    assert (agent.draft("> it\n"), agent.last_answer("> it\n")) == (None, "")
    assert (agent.title_status("Ready"), agent.read_signal("{}")) == (None, None)
    assert agent.startup_dialog("> 1. Yes\n") is None
    assert agent.launch(launch_request("/bin/mine")).argv == ("/bin/mine",)
    assert (agent.guards, agent.submit_keys, agent.record_pattern) == ({}, ("Enter",), "")
    assert not described(BOX).by_rest
    assert not any(one.by_rest for one in PROVIDERS.values())


@pytest.mark.parametrize(
    ("keys", "screen", "draft"),
    [
        ("", "old\n> one\n", "one"),
        ("", "> old\n> one\nnot of it\n", "one"),
        ("", "no box\n", None),
        (f"above = {RULE}", "───\n> one\n", "one"),
        (f"above = {RULE}", "> one\n", None),
        (f"above = {RULE}\nbetween = 1", "───\nmode\n> one\n", "one"),
        (f"above = {RULE}", "───\nmode\n> one\n", None),
        ("more = { pattern = '^  ', sample = '  x' }", "> one\n  two\nthree\n", "one\ntwo"),
        (f"below = {RULE}", "> one\n───\n", "one"),
        (f"below = {RULE}", "> one\n", None),
        (f"below = {RULE}\nmore = {{ pattern = '^ ', sample = ' x' }}", "> a\n b\n───\n", "a\nb"),
        (f"below = {RULE}\nmore = {{ pattern = '^ ', sample = ' x' }}", "> a\nb\n───\n", None),
        ("footer = [1, 2]", "> one\nfooter\n\nfooter\n", "one"),
        ("footer = [1, 2]", "> one\n", None),
        ("footer = [1, 2]", "> one\na\nb\nc\n", None),
        ("least = 2", "> one\n", None),
        ("placeholder = { pattern = 'Ask .*$', sample = 'Ask me' }", "> Ask me\n", ""),
        ("", "> \x1b[2mAsk me\x1b[0m\n", ""),
        (MUTED, "> \x1b[3mAsk\n\x1b[3m·\n", ""),
        ("line_mode = true", "> one\n\ntwo\n", "one\n\ntwo"),
        ("line_mode = true", "a draft that\nfills the screen\n", "a draft that\nfills the screen"),
        ("line_mode = true\nsent = { pattern = '^!', sample = '!' }", "> one\n! busy\n", None),
    ],
)
def test_a_box_is_found_by_its_rows_and_those_around_it(
    keys: str, screen: str, draft: str | None
) -> None:
    assert described(f"{BOX}{keys}\n").draft(screen) == draft


def test_a_mode_is_part_of_the_draft_and_noise_is_not() -> None:
    assert described(NOISE + BOX).draft("> it   ┃\n") == "it"
    agent = described("[[box]]\npattern = '^(?:>|(!)) '\nsample = '> x'\n")
    assert (agent.draft("> ls\n"), agent.draft("! ls\n")) == ("ls", "!ls")


TURN = "[screen]\nmessage = { pattern = '^# ', sample = '# Fix it' }\n"
BANNER = "banner = { pattern = '^Mine v', sample = 'Mine v1' }\n"


@pytest.mark.parametrize(
    ("keys", "screen", "status"),
    [
        ("", "> \n", IDLE),
        ("", "no box\n", UNKNOWN),
        (mark("working", "^!"), "! it\n> \n", PROCESSING),
        (mark("asking", "^!"), "! it\n", WAITING),
        (mark("working", "^!", "rows = 2"), "! it\n\nmore\n\n> \n", IDLE),
        (mark("working", "^!", "rows = 2"), "! it\n\n> \n", PROCESSING),
        (mark("working", "^!", "without_box = true"), "! it\n> \n", IDLE),
        (mark("working", "^!", "without_box = true"), "! it\n", PROCESSING),
        (mark("working", "^!", "where = 'below'"), "! it\n> \n", IDLE),
        (mark("working", "^!", "where = 'below'"), "> \n! it\n", PROCESSING),
        (mark("working", "^!", "where = 'above'"), "> \n! it\n", IDLE),
        (mark("finished", "^!", "where = 'turn'"), "! it\n> \n", COMPLETED),
        (TURN + mark("finished", "^!", "where = 'turn'"), "! it\n# Fix it\n> \n", IDLE),
        (TURN + mark("finished", "^!", "where = 'turn'"), "# Fix it\n! it\n> \n", COMPLETED),
        (TURN + BANNER + mark("finished", "^!"), "Mine v1\n! it\n> \n", IDLE),
        (TURN + BANNER + mark("failed", "^!"), "Mine v1\n! it\n> \n", ERROR),
        (TURN + mark("finished", "^!", "where = 'top'"), "\n! it\n> \n", COMPLETED),
        (TURN + mark("finished", "^!", "where = 'top'"), "more\n! it\n> \n", IDLE),
        (TURN + mark("finished", "^!", "where = 'top'"), "! it\n# Fix it\n> \n", IDLE),
        (mark("finished", "^!") + mark("failed", "it$"), "! a\nit\n> \n", ERROR),
        (mark("finished", "^!") + mark("failed", "it$"), "it\n! a\n> \n", COMPLETED),
        (mark("finished", "^!") + mark("interrupted", "it$"), "! it\n> \n", IDLE),
        ("[screen]\ngives_back = true\n" + mark("failed", "^!"), "! it\n> text\n", IDLE),
        (NOISE + mark("finished", "it$"), "! it  ┃\n> \n", COMPLETED),
    ],
)
def test_marks_tell_the_status(keys: str, screen: str, status: TerminalStatus) -> None:
    assert described(keys + BOX).detect_status(screen) is status


def test_a_paragraph_above_the_box_is_no_part_of_a_turn() -> None:
    answer = "answer = { pattern = '^! ((?:.|\\n)*)', sample = '! it' }\nmargin = 2\n"
    agent = described(f"{TURN}{answer}{BOX}caption = true\n")
    assert agent.last_answer("! old\n# Fix\n! one\n  two\n\nhint\n> \n") == "one\ntwo"


def test_a_title_tells_and_goes_before_the_screen() -> None:
    agent = described(BOX + mark("working", "^!", "where = 'title'"))
    assert (agent.title_status("! it"), agent.title_status("it")) == (PROCESSING, None)
    assert agent.detect_status("! it\n> \n") is IDLE
    assert agent.detect_status("> \n", "! it") is PROCESSING


def test_a_dialog_is_passed_by_its_keys() -> None:
    agent = described(
        "[[dialogs]]\nname = 'trust'\npattern = '^Trust\\?'\nsample = 'Trust?'\nkeys = ['1']\n"
    )
    found = agent.startup_dialog("Trust?\n")
    assert found is not None
    assert (found.name, found.keys, bool(found.advice)) == ("trust", ("1",), True)


START = """
[start]
args = ["--in", "{folder}", "{other}"]
full = ["--all"]
profile = ["--persona", "{profile}"]
env = { PLUGIN = "{here}/p" }
"""


def test_words_and_variables_are_filled_in() -> None:
    launch = described(START).launch(launch_request("/bin/mine", Permissions.FULL, "-x"))
    words = ("/bin/mine", "--in", "/work", "{other}", "--persona", "Test it.", "--all", "-x")
    assert (launch.argv, launch.env) == (words, {"PLUGIN": "/here/p"})
    without = described(START).launch(launch_request("/bin/mine", Permissions.ASK, prompt=" "))
    assert without.argv == words[:4]


RECORD = "[record]\npath = { pattern = 'a', sample = 'a' }\n"
EVENTS = """
[[events]]
when = { "a.b" = ["x", "y"], c = 1 }
is = "asking"
[record]
path = { pattern = '/mine/.*\\.jsonl$', sample = "/mine/1.jsonl" }
[[record.events]]
when = { c = "end" }
is = "failed"
[[record.events]]
when = { "d.0" = 1 }
is = "stopped"
answer = "d.-1.e"
"""


def test_lines_of_its_files_are_told_by_their_values() -> None:
    agent = described(EVENTS)
    assert agent.read_signal('{"a": {"b": "y"}, "c": 1}') == signal("waiting", "y")
    assert agent.read_signal('{"c": "end"}') == signal("failed", "end")
    listed = agent.read_signal('{"d": [1, {"e": "Done."}]}')
    assert listed == signal("stopped", "", answer="Done.")
    assert agent.read_signal('{"d": [1]}') is None
    assert agent.record_pattern == r"/mine/.*\.jsonl$"
    for line in ("", "[]", '{"c": []}', '{"a": "y", "c": 1}', '{"a": {"b": "z"}, "c": 1}'):
        assert agent.read_signal(line) is None


def test_an_agent_of_which_nothing_is_known_asks_by_common_signs() -> None:
    agent = described("")
    assert agent.detect_status("Hello.\nDelete all files? [Y/n] ") is WAITING
    assert agent.detect_status("Hello.\nWhat shall I do?\n> ") is UNKNOWN


def test_an_agent_like_another_takes_over_what_it_does_not_say() -> None:
    agent = described("like = 'gemini_cli'\n")
    assert agent.program == "mine"
    assert agent.guards == get_provider("gemini_cli").guards


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "the top"),
        ("program = ' '", "program"),
        ("program = 7", "program"),
        ("program = 'x'\nscren = {}", "the top"),
        ("program = 'x'\n[keys]\nexits = []", "keys"),
        ("program = 'x'\nlike = 'codex'", "like"),
        ("program = 'x'\nlike = ['opencode']", "like"),
        ("program", "the file"),
        ("\x00", "the file"),
        (PROGRAM + BOX.replace("'> draft'", "'draft'"), "box[1]"),
        (PROGRAM + BOX.replace("'^>", "'(^>"), "box[1]"),
        (PROGRAM + BOX.replace("'^>", f"'^>{'x?' * LONGEST_PATTERN}"), "box[1]"),
        (PROGRAM + BOX + "above = { pattern = '^─' }", "box[1].above"),
        (PROGRAM + BOX + "above = { pattern = '^─', sample = 'x' }", "box[1].above"),
        (PROGRAM + mark("busy", "^!"), "marks[1].is"),
        (PROGRAM + mark("working", "^!", "where = 'left'"), "marks[1].where"),
        (PROGRAM + "screen = { answer = { pattern = 'a', sample = 'a' } }", "screen.answer"),
        (PROGRAM + 'tested = ["1.2", "abc"]', "tested[2]"),
        (PROGRAM + "[keys]\nsubmit = []", "keys.submit"),
        (PROGRAM + "[[events]]\nwhen = {}\nis = 'working'", "events[1].when"),
        (
            PROGRAM + RECORD + "[[record.events]]\nwhen = {}\nis = 'working'",
            "record.events[1].when",
        ),
        (PROGRAM + mark("submitted", "^!"), "marks[1].is"),
        (PROGRAM + mark("ready", "^!"), "marks[1].is"),
        (PROGRAM + mark("finished", "^!", "where = 'title'"), "marks[1].is"),
    ],
)
def test_a_fault_names_the_file_and_the_key(text: str, place: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(AgentFault) as caught:
        load(file)
    assert (caught.value.where, caught.value.place) == (str(file), place)
    assert caught.value.expected


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("scren = {}", "screen"),
        ("[keys]\nexits = []", "exit"),
        (BOX + "abov = 1", "above"),
        (BOX + "above = { pattern = 'a', smple = 'a' }", "sample"),
        ("[[record.events]]\nwhenn = {}", "when"),
        (mark("busy", "^!"), "working"),
    ],
)
def test_what_could_be_written_is_named(text: str, known: str) -> None:
    with pytest.raises(AgentFault) as caught:
        described(text)
    assert known in caught.value.expected.replace(",", "").split()


def test_only_a_file_of_a_reasonable_size_is_read(tmp_path: Path) -> None:
    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "huge.toml").write_text(f"{PROGRAM}#{'x' * LARGEST_FILE}")
    (agents / "gone.toml").symlink_to(tmp_path / "nothing")
    (agents / "dir.toml").mkdir()
    os.mkfifo(agents / "pipe.toml")
    for name in ("codex", "code", "My-Own", "Gemini_CLI"):
        (agents / f"{name}.toml").write_text(PROGRAM)
    faults = {name for name, one in every_provider(tmp_path) if isinstance(one, AgentFault)}
    assert faults == {"huge", "gone", "dir", "pipe", "codex", "code", "My-Own", "Gemini_CLI"}


def test_the_users_own_agents_are_found_beside_ours(tmp_path: Path) -> None:
    file = tmp_path / "agents" / "my_own.toml"
    file.parent.mkdir()
    (tmp_path / "elsewhere.toml").write_text(PROGRAM)
    file.symlink_to(tmp_path / "elsewhere.toml")
    assert get_provider("my-own", tmp_path).program == "mine"
    assert get_provider("my", tmp_path) is get_provider("my_own", tmp_path)
    assert get_provider("codex", tmp_path) is PROVIDERS["codex"]
    with pytest.raises(UnknownName) as caught:
        get_provider("other", tmp_path)
    assert caught.value.known == (*PROVIDERS, "my_own")
    with pytest.raises(UnknownName):
        get_provider("my_own")
    file.write_text('program = "another one"\n')
    os.utime(file, (1, 1))
    assert get_provider("my_own", tmp_path).program == "another one"


PAGE = Path(__file__).parents[2] / "docs" / "writing-a-provider.md"


def example(heading: str) -> Provider:
    """Return the agent that the lines below a heading of the documentation describe."""
    below = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    lines = below.partition("\n## ")[0].splitlines()
    return described("\n".join(line[4:] for line in lines if line.startswith("    ")))


def test_the_examples_of_the_documentation_are_read() -> None:
    assert example("A surer file").detect_status("❯\n ◎ Working\n") is PROCESSING
    agent = example("Every key")
    screen = " > Fix it\n● Done.\n  All.\n\n────\n❯\n────\n ◎ Working\n"
    assert (agent.detect_status(screen), agent.last_answer(screen)) == (PROCESSING, "Done.\nAll.")


def keys_of(kind: type[Struct]) -> Iterator[str]:
    for one in fields(kind):
        yield one.encode_name
        for inner in (one.type, *get_args(one.type)):
            if isinstance(inner, type) and issubclass(inner, Struct) and inner is not kind:
                yield from keys_of(inner)


def test_every_key_is_in_the_documentation() -> None:
    words = set(re.findall(r"\w+", PAGE.read_text(encoding="utf-8")))
    assert [key for key in keys_of(Description) if key not in words] == []


EXAMPLES = sorted((Path(__file__).parents[2] / "docs" / "examples").glob("*.toml"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_untried_example_is_read_and_promises_nothing(file: Path) -> None:
    agent = load(file)
    assert agent.tested_versions == ()
    assert agent.by_rest
