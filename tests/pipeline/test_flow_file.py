"""What a flow file becomes, and what its faults are called."""

import re
from contextlib import suppress
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
    # what is replaced, by what, where the fault is, and its words
    (
        'description = "',
        'descripton = "',
        "descripton",
        "unknown key `descripton`; expected `description`",
    ),
    ('description = "A', "description = [1]#", "description", "`description` is not text"),
    (
        'author = "writer"',
        'author = "poet"',
        "stages[1].author",
        "unknown role `poet`; expected one of writer, ",
    ),
    ('reviewer = "critic"', 'reviewer = "poet"', "stages[1].reviewer", "unknown role `poet`"),
    (
        'reviewer = "critic"',
        'reviewr = "critic"',
        "stages[1].reviewr",
        "unknown key `reviewr`; expected `reviewer`",
    ),
    ('tester = "user"', 'tester = "writer"', "stages[2]", "role `writer` has a turn already"),
    (
        'name = "trying"',
        'name = "writing"',
        "stages[2].name",
        "a second stage `writing`; expected another name",
    ),
    ('name = "trying"', 'name = "done"', "stages[2].name", "a stage cannot be named `done`"),
    (
        'name = "trying"',
        'name = "Try it"',
        "stages[2].name",
        "`name` is 'Try it'; expected a name of small",
    ),
    ('name = "trying"', "", "stages[2].name", "`name` is ''; expected a name"),
    (
        'tester = "user"',
        "",
        "stages[2]",
        "has none of author, tester, gate; expected one of: author",
    ),
    (
        'tester = "user"',
        'tester = "user"\ngate = true',
        "stages[2]",
        "`trying` has tester and gate",
    ),
    (
        'tester = "user"',
        'tester = "user"\nreviewer = "critic"',
        "stages[2].reviewer",
        "a tester with a reviewer; expected no reviewer",
    ),
    ("gate = true", "gate = 1", "stages[3].gate", "`gate` is not true; expected gate = true"),
    ("gate = true", 'gate = "make test"', "stages[3].gate", "`gate` is not true"),
    (
        "gate = true",
        'gate = true\nthen = "writing"',
        "stages[3].then",
        "never ends; expected a later stage",
    ),
    (
        "gate = true",
        'gate = true\nthen = "lunch"',
        "stages[3].then",
        "unknown stage `lunch`; expected one of",
    ),
    (
        'name = "writing"',
        'name = "writing"\nthen = "checking"',
        "stages[2]",
        "no way leads to stage `trying`",
    ),
    ("[roles.user]", "[roles.customer]", "stages[2].tester", "unknown role `user`"),
    (
        "[roles.user]",
        "[roles.user]\n[roles.x]",
        "roles.x",
        "role `x` has no turn; expected a stage",
    ),
    (
        'title = "THE CRITIC"',
        'titel = "x"',
        "roles.critic.titel",
        "unknown key `titel`; expected `title`",
    ),
    (
        'title = "THE CRITIC"',
        'title = "a=b"',
        "roles.critic.title",
        "`title` is 'a=b'; expected a line of text",
    ),
    (
        'profile = "programmer"',
        'profile = "../x"',
        "roles.critic.profile",
        "`profile` is '../x'; expected the name",
    ),
    (
        '"verdict.md"',
        '"../verdict.md"',
        "roles.user.response_file",
        "`response_file` is '../verdict.md'; expected",
    ),
    (
        '"verdict.md"',
        '"critic.md"',
        "roles.user.response_file",
        "`response_file` is 'critic.md', as that of `critic`",
    ),
    (
        '"customer"',
        '"writer"',
        "roles.user.terminal",
        "`terminal` is 'writer', as that of `writer`",
    ),
    (
        'show = "task"',
        'show = "tasks"',
        "roles.writer.sees[1].show",
        "`show` is 'tasks'; expected one of task, scenario",
    ),
    ('show = "task", ', "", "roles.writer.sees[1]", "a block without `show`; expected one of task"),
    (
        'title = "TASK", ',
        "",
        "roles.writer.sees[1].title",
        "`title` is ''; expected a line of text",
    ),
    (
        'repeat = "refer"',
        'repeat = "never"',
        "roles.writer.sees[1].repeat",
        "`repeat` is 'never'; expected one of show",
    ),
    (
        'repeat = "refer"',
        'of = "critic"',
        "roles.writer.sees[1].of",
        "`of` for task; expected none",
    ),
    (
        'repeat = "refer"',
        'amount = "whole"',
        "roles.writer.sees[1].amount",
        "an amount of task; expected show",
    ),
    (
        'show = "notes", of = "critic"',
        'show = "notes", of = "user"',
        "roles.writer.sees[2].of",
        "`of` names 'user'; expected one role of reviewers: critic",
    ),
    (
        'show = "notes", of = "critic"',
        'show = "notes"',
        "roles.writer.sees[2].of",
        "notes without `of`",
    ),
    (
        'of = ["critic"]',
        'of = ["critic", "x"]',
        "roles.writer.sees[3].of",
        "`of` names 'x'; expected roles of reviewers",
    ),
    (
        'of = ["critic"]',
        "of = 5",
        "roles.writer.sees[3].of",
        "open_notes without `of`, or of too many",
    ),
    (
        'of = ["critic"]',
        'of = "critic", title = "X"',
        "roles.writer.sees[3].title",
        "open notes with a title",
    ),
    (
        'of = ["critic"]',
        'of = "critic", repeat = "refer"',
        "roles.writer.sees[3].repeat",
        "open notes cannot be referred to",
    ),
    (
        'of = "writer", amount = "changes"',
        'of = ["writer", "user"]',
        "roles.critic.sees[1].of",
        "of too many; expected one role of the flow: w",
    ),
    (
        'amount = "changes"',
        'amount = "half"',
        "roles.critic.sees[1].amount",
        "`amount` is 'half'; expected one of whole",
    ),
    (
        'sees = [\n    { title = "TEXT"',
        'x = [\n    { title = "TEXT"',
        "roles.critic.x",
        "unknown key `x`",
    ),
    (
        "[roles.critic.evidence]",
        "[roles.user.evidence]",
        "roles.user.evidence",
        "a role that does not review",
    ),
    (
        '["style", "next word"]',
        '["style", 5]',
        "roles.critic.evidence.style",
        "`style` is no list of words",
    ),
    ('["style", "next word"]', "[]", "roles.critic.evidence.style", "`style` is no list of words"),
    (
        "[roles.user]",
        "[roles.user",
        "line 33, column 12",
        "Expected ']' at the end of a table declaration; exp",
    ),
    (
        'reviewer = "critic"',
        'author = "critic"',
        "line 6, column 18",
        "Cannot overwrite a value; expected a TOML",
    ),
]


@pytest.mark.parametrize(("old", "new", "place", "words"), FAULTS)
def test_a_fault_is_named_with_its_place(old: str, new: str, place: str, words: str) -> None:
    assert old in TEXT
    with pytest.raises(FlowError) as raised:
        read(TEXT.replace(old, new, 1))
    assert words in str(raised.value)
    assert (raised.value.where, raised.value.place) == ("mine.toml", place), str(raised.value)
    assert str(raised.value).startswith(f"mine.toml, {place}: ")
    assert isinstance(raised.value, UsageError)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no `roles`; expected [roles.NAME]"),
        ("[roles.a]", "no `stages`; expected [[stages]]"),
        ("stages = 5\n[roles.a]", "stages: `stages` is something else"),
        ("[roles.a]\n[stages]\nname = 1", "stages: `stages` is something else"),
        ('stages = ["a"]\n[roles.a]', "stages[1]: this is no table; expected [[stages]]"),
        ('roles = 1\n[[stages]]\nname = "a"', "roles: `roles` is something else"),
        (
            '[roles]\nwriter = 1\n[[stages]]\nname = "a"\ntester = "writer"',
            "roles.writer: this is no t",
        ),
        (
            '[roles.writer]\nsees = 5\n[[stages]]\nname = "a"\ntester = "writer"',
            "roles.writer.sees: `sees` is no list",
        ),
        (
            '[roles.writer]\nsees = [\n 5]\n[[stages]]\nname = "a"\ntester = "writer"',
            "roles.writer.sees[1]: this is no table",
        ),
        (
            '[roles."A b"]\n[[stages]]\nname = "a"\ntester = "A b"',
            "roles.A b: a role cannot be named 'A b'",
        ),
        ('a = "\n', "line 1, column 6: Illegal character"),
    ],
)
def test_what_is_no_flow_at_all_is_refused(text: str, words: str) -> None:
    with pytest.raises(FlowError, match=re.escape(words)):
        read(text)


def test_a_flow_without_tester_and_gate_is_refused() -> None:
    text = TEXT[: TEXT.index('[[stages]]\nname = "trying"')] + TEXT[TEXT.index("[roles.writer]") :]
    text = text[: text.index("[roles.user]")]
    with pytest.raises(FlowError, match=r"nothing checks the work; expected a stage"):
        read(text)


@pytest.mark.parametrize(
    ("prompt", "where", "place", "words"),
    [
        (
            None,
            "mine.toml",
            "roles.critic",
            "no prompt for role `critic`; expected a template mine/critic.md",
        ),
        (" \n", "mine.toml", "roles.critic", "no prompt for role `critic`"),
        (
            "$context\n$rond\n$response_file",
            "critic",
            "line 2",
            "unknown placeholder `$rond`; expected $r",
        ),
        ("$context\n\nfor $5\n$response_file", "critic", "line 3", "a single `$`; expected $round"),
        ("$round\n\n$response_file\n", "critic", "line 3", "no `$context` in it"),
        ("$round\n$context\n", "critic", "line 2", "no `$response_file` in it"),
    ],
)
def test_a_fault_of_a_prompt_is_named_with_its_place(
    prompt: str | None, where: str, place: str, words: str
) -> None:
    templates = {**TEMPLATES, "critic": prompt} if prompt is not None else dict(TEMPLATES)
    if prompt is None:
        del templates["critic"]
    with pytest.raises(FlowError) as raised:
        read(TEXT, templates)
    expected = "mine.toml (mine/critic.md)" if where == "critic" else where
    assert (raised.value.where, raised.value.place) == (expected, place)
    assert words in str(raised.value)


@given(st.data())
def test_a_damaged_file_is_a_flow_or_a_named_fault(data: st.DataObject) -> None:
    lines = TEXT.split("\n")
    for _ in range(data.draw(st.integers(1, 3))):
        number = data.draw(st.integers(0, len(lines) - 1))
        other = data.draw(st.sampled_from(["", "x = 1", "[x]", "]", *lines]))
        lines[number] = other
    with suppress(FlowError):
        read("\n".join(lines))


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
    with pytest.raises(FlowError, match="17 roles; expected at most 16"):
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
    with pytest.raises(FlowError, match=r"title: `title` is"):
        read(TEXT.replace("THE CRITIC", title))


def test_prompts_are_not_shown_by_accident() -> None:
    assert "It costs" not in repr(read())
    assert "next word" not in repr(read())


def test_who_names_another_packaged_flow_is_told_which_there_are() -> None:
    with pytest.raises(UnknownName, match="there are: loop, pair, solo"):
        packaged_flow("duet")
    with pytest.raises(UnknownName, match="there are: writer, critic, user"):
        read().role("poet")
