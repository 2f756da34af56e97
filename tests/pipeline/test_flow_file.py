"""What a flow file becomes, and what its faults are called."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.errors import FlowError, UnknownName, UsageError
from cli_agent_orchestrator.pipeline.flow import (
    Amount,
    Block,
    BlockSource,
    Flow,
    FlowSource,
    Repeat,
    Stage,
    StageKind,
)
from cli_agent_orchestrator.pipeline.flow_file import PACKAGED, packaged_flow, read_flow

TEXT = """\
description = "A writer, a critic, a test and a gate."

[[stages]]
name = "writing"
author = "writer"
reviewer = "critic"

[[stages]]
name = "trying"
tester = "user"

[[stages]]
name = "checking"
gate = true

[roles.writer]
sees = [
    { title = "TASK", show = "task", repeat = "refer" },
    { title = "NOTES", show = "notes", of = "critic" },
    { show = "last_open_notes", of = ["critic"] },
]

[roles.critic]
profile = "programmer"
title = "THE CRITIC"
sees = [
    { title = "TEXT", show = "output", of = "writer", amount = "changes" },
]

[roles.critic.evidence]
style = ["style", "next word"]

[roles.user]
response_file = "verdict.md"
terminal = "customer"
"""
PROMPT = "ROUND: $round\nCYCLE: $cycle\n\n$context\n\nIt costs $$5.\n\n$response_file\n"
TEMPLATES = dict.fromkeys(("writer", "critic", "user"), PROMPT)


def read(text: str = TEXT, templates: dict[str, str] | None = None) -> Flow:
    source = FlowSource(text, TEMPLATES if templates is None else templates)
    return read_flow(source, "mine", "mine.toml")


def test_a_flow_is_read() -> None:
    flow = read()
    assert (flow.name, flow.description) == ("mine", "A writer, a critic, a test and a gate.")
    assert flow.stages == (
        Stage("writing", StageKind.WORK, "trying", "writer", "critic"),
        Stage("trying", StageKind.TEST, "checking", "user"),
        Stage("checking", StageKind.GATE, "done"),
    )
    assert [role.name for role in flow.roles] == ["writer", "critic", "user"]
    assert flow.has_gate
    assert flow.least_evidence == 1
    assert flow.scenario.startswith("The project's tests pass and the change does what was asked.")


def test_what_is_not_said_of_a_role_follows_from_its_name() -> None:
    writer, critic, user = read().roles
    assert (writer.terminal, writer.profile, writer.response_file) == (
        "writer",
        "writer",
        "writer.md",
    )
    assert (writer.title, critic.title) == ("WRITER", "THE CRITIC")
    assert (critic.profile, user.terminal, user.response_file) == (
        "programmer",
        "customer",
        "verdict.md",
    )
    assert critic.evidence == {"style": ("style", "next word")}
    assert user.blocks == ()
    assert user.template == PROMPT


def test_a_name_of_several_words_is_a_title_of_several_words() -> None:
    templates = {
        "first_writer" if name == "writer" else name: TEMPLATES[name] for name in TEMPLATES
    }
    text = re.sub(r'"writer"|roles\.writer', lambda it: it[0].replace("w", "first_w"), TEXT)
    assert read(text, templates).role("first_writer").title == "FIRST WRITER"


def test_blocks_say_what_a_role_sees() -> None:
    writer, critic, _ = read().roles
    assert writer.blocks == (
        Block("TASK", BlockSource.TASK, repeat=Repeat.REFER),
        Block("NOTES", BlockSource.NOTES, ("critic",)),
        Block("", BlockSource.LAST_OPEN_NOTES, ("critic",)),
    )
    assert critic.blocks == (Block("TEXT", BlockSource.OUTPUT, ("writer",), Amount.CHANGES),)


def test_roles_stand_in_the_order_of_their_turns() -> None:
    start, rest = TEXT.index("[roles.writer]"), TEXT.index("[roles.user]")
    turned = TEXT[:start] + TEXT[rest:] + "\n" + TEXT[start:rest]
    assert read(turned).roles == read().roles


def test_stages_may_stand_in_any_order_if_they_say_what_follows() -> None:
    text = TEXT.replace('name = "writing"', 'name = "writing"\nthen = "checking"')
    text = text.replace('name = "trying"', 'name = "trying"\nthen = "done"')
    text = text.replace('name = "checking"', 'name = "checking"\nthen = "trying"')
    assert [stage.name for stage in read(text).stages] == ["writing", "checking", "trying"]


FAULTS = [
    # what is replaced, by what, in which line the fault is, and its words
    ('description = "', 'descripton = "', 1, "unknown key `descripton`; expected `description`"),
    ('description = "A', "description = [1]#", 1, "`description` is not text"),
    ('author = "writer"', 'author = "poet"', 5, "unknown role `poet`; expected one of writer, "),
    ('reviewer = "critic"', 'reviewer = "poet"', 6, "unknown role `poet`"),
    ('reviewer = "critic"', 'reviewr = "critic"', 6, "unknown key `reviewr`; expected `reviewer`"),
    ('tester = "user"', 'tester = "writer"', 8, "role `writer` has a turn already"),
    ('name = "trying"', 'name = "writing"', 9, "a second stage `writing`; expected another name"),
    ('name = "trying"', 'name = "done"', 9, "a stage cannot be named `done`"),
    ('name = "trying"', 'name = "Try it"', 9, "`name` is 'Try it'; expected a name of small"),
    ('name = "trying"', "", 8, "`name` is ''; expected a name"),
    ('tester = "user"', "", 8, "has none of author, tester, gate; expected one of: author"),
    ('tester = "user"', 'tester = "user"\ngate = true', 8, "`trying` has tester and gate"),
    (
        'tester = "user"',
        'tester = "user"\nreviewer = "critic"',
        11,
        "a tester with a reviewer; expected no reviewer",
    ),
    ("gate = true", "gate = 1", 14, "`gate` is not true; expected gate = true"),
    ("gate = true", 'gate = "make test"', 14, "`gate` is not true"),
    ("gate = true", 'gate = true\nthen = "writing"', 15, "never ends; expected a later stage"),
    ("gate = true", 'gate = true\nthen = "lunch"', 15, "unknown stage `lunch`; expected one of"),
    (
        'name = "writing"',
        'name = "writing"\nthen = "checking"',
        9,
        "no way leads to stage `trying`",
    ),
    ("[roles.user]", "[roles.customer]", 10, "unknown role `user`"),
    ("[roles.user]", "[roles.user]\n[roles.x]", 34, "role `x` has no turn; expected a stage"),
    ('title = "THE CRITIC"', 'titel = "x"', 25, "unknown key `titel`; expected `title`"),
    ('title = "THE CRITIC"', 'title = "a=b"', 25, "`title` is 'a=b'; expected a line of text"),
    ('profile = "programmer"', 'profile = "../x"', 24, "`profile` is '../x'; expected the name"),
    ('"verdict.md"', '"../verdict.md"', 34, "`response_file` is '../verdict.md'; expected"),
    ('"verdict.md"', '"critic.md"', 34, "`response_file` is 'critic.md', as that of `critic`"),
    ('"customer"', '"writer"', 35, "`terminal` is 'writer', as that of `writer`"),
    ('show = "task"', 'show = "tasks"', 18, "`show` is 'tasks'; expected one of task, scenario"),
    ('show = "task", ', "", 18, "a block without `show`; expected one of task"),
    ('title = "TASK", ', "", 18, "`title` is ''; expected a line of text"),
    ('repeat = "refer"', 'repeat = "never"', 18, "`repeat` is 'never'; expected one of show"),
    ('repeat = "refer"', 'of = "critic"', 18, "`of` for task; expected none"),
    ('repeat = "refer"', 'amount = "whole"', 18, "an amount of task; expected show"),
    (
        'show = "notes", of = "critic"',
        'show = "notes", of = "user"',
        19,
        "`of` names 'user'; expected one role of reviewers: critic",
    ),
    ('show = "notes", of = "critic"', 'show = "notes"', 19, "notes without `of`"),
    ('of = ["critic"]', 'of = ["critic", "x"]', 20, "`of` names 'x'; expected roles of reviewers"),
    ('of = ["critic"]', "of = 5", 20, "open_notes without `of`, or of too many"),
    ('of = ["critic"]', 'of = "critic", title = "X"', 20, "open notes with a title"),
    ('of = ["critic"]', 'of = "critic", repeat = "refer"', 20, "open notes cannot be referred to"),
    (
        'of = "writer", amount = "changes"',
        'of = ["writer", "user"]',
        27,
        "of too many; expected one role of the flow: w",
    ),
    ('amount = "changes"', 'amount = "half"', 27, "`amount` is 'half'; expected one of whole"),
    ('sees = [\n    { title = "TEXT"', 'x = [\n    { title = "TEXT"', 26, "unknown key `x`"),
    ("[roles.critic.evidence]", "[roles.user.evidence]", 30, "a role that does not review"),
    ('["style", "next word"]', '["style", 5]', 31, "`style` is no list of words"),
    ('["style", "next word"]', "[]", 31, "`style` is no list of words"),
    ("[roles.user]", "[roles.user", 33, "Expected ']' at the end of a table declaration; exp"),
    ('reviewer = "critic"', 'author = "critic"', 6, "Cannot overwrite a value; expected a TOML"),
]


@pytest.mark.parametrize(("old", "new", "line", "words"), FAULTS)
def test_a_fault_is_named_with_its_line(old: str, new: str, line: int, words: str) -> None:
    assert old in TEXT
    with pytest.raises(FlowError) as raised:
        read(TEXT.replace(old, new, 1))
    assert words in str(raised.value)
    assert (raised.value.where, raised.value.line) == ("mine.toml", line), str(raised.value)
    assert str(raised.value).startswith(f"mine.toml, line {line}: ")
    assert isinstance(raised.value, UsageError)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no `roles`; expected [roles.NAME]"),
        ("[roles.a]", "no `stages`; expected [[stages]]"),
        ("stages = 5\n[roles.a]", "line 1: `stages` is something else"),
        ("[roles.a]\n[stages]\nname = 1", "line 2: `stages` is something else"),
        ('stages = ["a"]\n[roles.a]', "line 1: this is no table; expected [[stages]]"),
        ('roles = 1\n[[stages]]\nname = "a"', "line 1: `roles` is something else"),
        ('[roles]\nwriter = 1\n[[stages]]\nname = "a"\ntester = "writer"', "line 2: this is no t"),
        (
            '[roles.writer]\nsees = 5\n[[stages]]\nname = "a"\ntester = "writer"',
            "line 2: `sees` is no list",
        ),
        (
            '[roles.writer]\nsees = [\n 5]\n[[stages]]\nname = "a"\ntester = "writer"',
            "line 3: this is no table",
        ),
        (
            '[roles."A b"]\n[[stages]]\nname = "a"\ntester = "A b"',
            "line 1: a role cannot be named 'A b'",
        ),
        ('a = "\n', "line 1: Illegal character"),
    ],
)
def test_what_is_no_flow_at_all_is_refused(text: str, words: str) -> None:
    with pytest.raises(FlowError, match=re.escape(words)):
        read(text)


def test_a_flow_without_tester_and_gate_is_refused() -> None:
    text = TEXT[: TEXT.index('[[stages]]\nname = "trying"')] + TEXT[TEXT.index("[roles.writer]") :]
    text = text[: text.index("[roles.user]")]
    with pytest.raises(FlowError, match=r"line 3: .* nothing checks the work; expected a stage"):
        read(text)


@pytest.mark.parametrize(
    ("prompt", "where", "line", "words"),
    [
        (None, "mine.toml", 23, "no prompt for role `critic`; expected a template mine/critic.md"),
        (" \n", "mine.toml", 23, "no prompt for role `critic`"),
        (
            "$context\n$rond\n$response_file",
            "critic",
            2,
            "unknown placeholder `$rond`; expected $r",
        ),
        ("$context\n\nfor $5\n$response_file", "critic", 3, "a single `$`; expected $round"),
        ("$round\n\n$response_file\n", "critic", 3, "no `$context` in it"),
        ("$round\n$context\n", "critic", 2, "no `$response_file` in it"),
    ],
)
def test_a_fault_of_a_prompt_is_named_with_its_line(
    prompt: str | None, where: str, line: int, words: str
) -> None:
    templates = {**TEMPLATES, "critic": prompt} if prompt is not None else dict(TEMPLATES)
    if prompt is None:
        del templates["critic"]
    with pytest.raises(FlowError) as raised:
        read(TEXT, templates)
    expected = "mine.toml (mine/critic.md)" if where == "critic" else where
    assert (raised.value.where, raised.value.line) == (expected, line)
    assert words in str(raised.value)


def line_of_fault(text: str) -> int:
    try:
        read(text)
    except FlowError as error:
        return error.line
    return 0


@given(st.data())
def test_a_damaged_file_is_a_flow_or_a_named_fault(data: st.DataObject) -> None:
    lines = TEXT.split("\n")
    for _ in range(data.draw(st.integers(1, 3))):
        number = data.draw(st.integers(0, len(lines) - 1))
        other = data.draw(st.sampled_from(["", "x = 1", "[x]", "]", *lines]))
        lines[number] = other
    assert 0 <= line_of_fault("\n".join(lines)) <= len(lines) + 1


@pytest.mark.parametrize("name", PACKAGED)
def test_packaged_flows_are_good(name: str) -> None:
    flow = packaged_flow(name)
    assert flow.description
    assert flow.stages[-1].then == "done"
    again = read_flow(flow.source, flow.name, "again")
    assert again == flow
    assert replace(again, name="x") != flow


def test_the_flow_of_the_specification_has_its_roles() -> None:
    """Scenario: Each role resolves to the correct file"""
    assert [
        (role.name, role.terminal, role.profile, role.response_file)
        for role in packaged_flow("loop").roles
    ] == [
        ("analyst", "analyst", "system_analyst", "analyst_summary.md"),
        ("analyst_review", "peer_analyst", "peer_system_analyst", "analyst_review.md"),
        ("programmer", "programmer", "programmer", "programmer_summary.md"),
        ("programmer_review", "peer_programmer", "peer_programmer", "programmer_review.md"),
        ("tester", "tester", "tester", "test_result.md"),
    ]
    assert [(stage.name, stage.then) for stage in packaged_flow("loop").stages] == [
        ("analyst", "programmer"),
        ("programmer", "tester"),
        ("tester", "done"),
    ]


def test_a_project_cannot_start_any_number_of_agents() -> None:
    names = [f"r{number}" for number in range(17)]
    stages = "".join(f'[[stages]]\nname = "{name}"\ntester = "{name}"\n' for name in names)
    roles = "".join(f"[roles.{name}]\n" for name in names)
    prompts = dict.fromkeys(names, PROMPT)
    with pytest.raises(FlowError, match="line 68: 17 roles; expected at most 16"):
        read(stages + roles, prompts)
    fewer = stages.replace('[[stages]]\nname = "r16"\ntester = "r16"\n', "")
    assert len(read(fewer + roles.replace("[roles.r16]\n", ""), prompts).roles) == 16


@pytest.mark.parametrize("title", ["A", "Ä b", "x" * 100])
def test_a_title_is_a_line(title: str) -> None:
    assert read(TEXT.replace("THE CRITIC", title)).role("critic").title == title


@pytest.mark.parametrize(
    "title", ["", " a", "a ", "x" * 101, "a=b", "a\\nb", "a\\u2028b", "\\u0085"]
)
def test_what_is_more_or_less_than_a_line_is_no_title(title: str) -> None:
    with pytest.raises(FlowError, match="line 25: `title` is"):
        read(TEXT.replace("THE CRITIC", title))


def test_prompts_are_not_shown_by_accident() -> None:
    assert "It costs" not in repr(read())
    assert "next word" not in repr(read())


def test_who_names_another_packaged_flow_is_told_which_there_are() -> None:
    with pytest.raises(UnknownName, match="there are: loop, pair, solo"):
        packaged_flow("duet")
    with pytest.raises(UnknownName, match="there are: writer, critic, user"):
        read().role("poet")
