"""What a flow file becomes, and what its faults are called."""

import re

import pytest

from cli_agent_orchestrator.errors import FlowError, UnknownName
from cli_agent_orchestrator.pipeline.flow import (
    Amount,
    Block,
    BlockSource,
    Flow,
    FlowSource,
    Repeat,
    Role,
    Stage,
    StageKind,
    course_of,
)
from cli_agent_orchestrator.pipeline.flow_file import PACKAGED, packaged_flow, read_flow
from cli_agent_orchestrator.settings.gates import Gate, When

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


def test_a_flow_is_read_and_what_is_not_said_of_a_role_follows_from_its_name() -> None:
    flow = read()
    assert (flow.name, flow.description) == ("mine", "A writer, a critic, a test and a gate.")
    assert flow.stages == (
        Stage("writing", StageKind.WORK, "trying", "writer", "critic"),
        Stage("trying", StageKind.TEST, "checking", "user"),
        Stage("checking", StageKind.GATE, "done"),
    )
    told = (
        Block("TASK", BlockSource.TASK, repeat=Repeat.REFER),
        Block("NOTES", BlockSource.NOTES, ("critic",)),
        Block("", BlockSource.LAST_OPEN_NOTES, ("critic",)),
    )
    text = Block("TEXT", BlockSource.OUTPUT, ("writer",), Amount.CHANGES)
    words = {"style": ("style", "next word")}
    assert flow.roles == (
        Role("writer", "writer", "writer", "writer.md", "WRITER", PROMPT, told),
        Role("critic", "critic", "programmer", "critic.md", "THE CRITIC", PROMPT, (text,), words),
        Role("user", "customer", "user", "verdict.md", "USER", PROMPT, ()),
    )
    assert flow.scenario.startswith("The project's tests pass and the change does what was asked.")


def test_a_name_of_several_words_is_a_title_of_several_words() -> None:
    text = TEXT.replace("critic", "the_critic").replace('title = "THE CRITIC"', "")
    assert read(text, {**TEMPLATES, "the_critic": PROMPT}).role("the_critic").title == "THE CRITIC"


def test_roles_stand_in_the_order_of_their_turns() -> None:
    start, rest = TEXT.index("[roles.writer]"), TEXT.index("[roles.user]")
    turned = TEXT[:start] + TEXT[rest:] + "\n" + TEXT[start:rest]
    assert read(turned).roles == read().roles


# what is replaced, by what; where the fault is, and its words
FAULTS = [
    ('description = "', 'descripton = "', "descripton", "unknown key `descripton`"),
    ('description = "A', "description = [1]#", "description", "`description` is not text"),
    ('author = "writer"', 'author = "poet"', "stages[1].author", "unknown role `poet`"),
    ('reviewer = "critic"', 'reviewer = "poet"', "stages[1].reviewer", "unknown role `poet`"),
    ('reviewer = "critic"', 'reviewr = "critic"', "stages[1].reviewr", "unknown key `reviewr`"),
    ('tester = "user"', 'tester = "writer"', "stages[2]", "role `writer` has a turn already"),
    ('name = "trying"', 'name = "writing"', "stages[2].name", "the name `writing` is taken"),
    ('name = "trying"', 'name = "done"', "stages[2].name", "the name `done` is taken"),
    ('name = "trying"', "", "stages[2].name", "`name` is ''; expected a name"),
    ('tester = "user"', "", "stages[2]", "has none of author, tester, gate"),
    ('tester = "user"', 'tester = "user"\ngate = true',
     "stages[2]", "`trying` has tester and gate"),
    ('tester = "user"', 'tester = "user"\nreviewer = "critic"',
     "stages[2].reviewer", "a tester with a reviewer"),
    ("gate = true", "gate = 1", "stages[3].gate", "`gate` is not true; expected gate = true"),
    ("[roles.user]", "[roles.customer]", "stages[2].tester", "unknown role `user`"),
    ("[roles.user]", "[roles.user]\n[roles.x]", "roles.x", "role `x` has no turn"),
    ('title = "THE CRITIC"', 'titel = "x"', "roles.critic.titel", "unknown key `titel`"),
    ('profile = "programmer"', 'profile = "../x"', "roles.critic.profile", "`profile` is '../x'"),
    ('"verdict.md"', '"../verdict.md"',
     "roles.user.response_file", "`response_file` is '../verdict.md'"),
    ('"verdict.md"', '"critic.md"',
     "roles.user.response_file", "`response_file` is 'critic.md', as that of `critic`"),
    ('"customer"', '"writer"',
     "roles.user.terminal", "`terminal` is 'writer', as that of `writer`"),
    ('show = "task"', 'show = "tasks"', "roles.writer.sees[1].show", "`show` is 'tasks'"),
    ('show = "task", ', "", "roles.writer.sees[1]", "a block without `show`; expected one of task"),
    ('title = "TASK", ', "", "roles.writer.sees[1].title", "`title` is ''"),
    ('repeat = "refer"', 'repeat = "never"', "roles.writer.sees[1].repeat", "`repeat` is 'never'"),
    ('repeat = "refer"', 'of = "critic"', "roles.writer.sees[1].of", "`of` for task"),
    ('repeat = "refer"', 'amount = "whole"', "roles.writer.sees[1].amount", "an amount of task"),
    ('show = "notes", of = "critic"', 'show = "notes", of = "user"',
     "roles.writer.sees[2].of", "`of` names 'user'"),
    ('show = "notes", of = "critic"', 'show = "notes"',
     "roles.writer.sees[2].of", "notes without `of`"),
    ('of = ["critic"]', 'of = ["critic", "x"]', "roles.writer.sees[3].of", "`of` names 'x'"),
    ('of = ["critic"]', "of = 5",
     "roles.writer.sees[3].of", "open_notes without `of`, or of too many"),
    ('of = ["critic"]', 'of = "critic", title = "X"',
     "roles.writer.sees[3].title", "open notes with a title"),
    ('of = ["critic"]', 'of = "critic", repeat = "refer"',
     "roles.writer.sees[3].repeat", "open notes cannot be referred to"),
    ('of = "writer", amount = "changes"', 'of = ["writer", "user"]',
     "roles.critic.sees[1].of", "of too many"),
    ('amount = "changes"', 'amount = "half"', "roles.critic.sees[1].amount", "`amount` is 'half'"),
    ("[roles.critic.evidence]", "[roles.user.evidence]",
     "roles.user.evidence", "a role that does not review"),
    ('["style", "next word"]', '["style", 5]',
     "roles.critic.evidence.style", "`style` is no list of words"),
    ('["style", "next word"]', "[]", "roles.critic.evidence.style", "`style` is no list of words"),
    ("[roles.user]", "[roles.user",
     "line 33, column 12", "Expected ']' at the end of a table declaration"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "place", "words"), FAULTS)
def test_a_fault_is_named_with_its_place(old: str, new: str, place: str, words: str) -> None:
    assert old in TEXT
    with pytest.raises(FlowError, match=re.escape(words)) as raised:
        read(TEXT.replace(old, new, 1))
    assert (raised.value.where, raised.value.place) == ("mine.toml", place), str(raised.value)
    assert str(raised.value).startswith(f"mine.toml, {place}: ")


ONE_STAGE = '[[stages]]\nname = "a"\ntester = "writer"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no `roles`; expected [roles.NAME]"),
        ("[roles.a]", "no `stages`; expected [[stages]]"),
        ("stages = 5\n[roles.a]", "stages: `stages` is something else"),
        ('stages = ["a"]\n[roles.a]', "stages[1]: this is no table; expected [[stages]]"),
        (f"{ONE_STAGE}[roles]\nwriter = 1", "roles.writer: this is no table"),
        (f"{ONE_STAGE}[roles.writer]\nsees = 5", "roles.writer.sees: `sees` is no list"),
        (f"{ONE_STAGE}[roles.writer]\nsees = [5]", "roles.writer.sees[1]: this is no table"),
        (
            ONE_STAGE.replace("writer", "A b") + '[roles."A b"]',
            "roles.A b: a role cannot be named 'A b'",
        ),
        (ONE_STAGE.replace("tester", "author") + "[roles.writer]", "nothing checks the work"),
    ],
)
def test_what_is_no_flow_at_all_is_refused(text: str, words: str) -> None:
    with pytest.raises(FlowError, match=re.escape(words)):
        read(text)


@pytest.mark.parametrize(
    ("prompt", "place", "words"),
    [
        (" \n", "roles.critic", "no prompt for role `critic`; expected a template mine/critic.md"),
        ("$context\n$rond\n$response_file", "line 2", "unknown placeholder `$rond`"),
        ("$context\n\nfor $5\n$response_file", "line 3", "a single `$`"),
        ("$round\n\n$response_file\n", "line 3", "no `$context` in it"),
        ("$round\n$context\n", "line 2", "no `$response_file` in it"),
        ("$context\nTo $response_file.", "line 2", "text beside `$response_file`"),
    ],
)
def test_a_fault_of_a_prompt_is_named_with_its_place(prompt: str, place: str, words: str) -> None:
    with pytest.raises(FlowError, match=re.escape(words)) as raised:
        read(TEXT, {**TEMPLATES, "critic": prompt})
    where = "mine.toml" if place.startswith("roles") else "mine.toml (mine/critic.md)"
    assert (raised.value.where, raised.value.place) == (where, place)


@pytest.mark.parametrize("name", PACKAGED)
def test_packaged_flows_are_good(name: str) -> None:
    flow = packaged_flow(name)
    assert flow.description
    assert flow.stages[-1].then == "done"
    again = read_flow(flow.source, flow.name, "again")
    assert again == flow


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


@pytest.mark.parametrize(
    "title", ["", " a", "a ", "x" * 101, "a=b", "a\\nb", "a\\u2028b", "\\u0085"]
)
def test_what_is_more_or_less_than_a_line_is_no_title(title: str) -> None:
    with pytest.raises(FlowError, match=r"title: `title` is"):
        read(TEXT.replace("THE CRITIC", title))


def test_who_names_another_packaged_flow_is_told_which_there_are() -> None:
    with pytest.raises(UnknownName, match="there are: loop, pair, solo"):
        packaged_flow("duet")
    with pytest.raises(UnknownName, match="there are: writer, critic, user"):
        read().role("poet")


EVERYWHERE = Gate("tests", "make test")
IN_THE_END = Gate("e2e", "make e2e", (When.AFTER_TESTER,))
AT_FIRST = Gate("lint", "make lint", (When.BASE, When.AFTER_PROGRAMMER))


@pytest.mark.parametrize(
    ("flow", "gates", "names"),
    [
        ("loop", [], "analyst programmer tester"),
        ("loop", [EVERYWHERE, IN_THE_END], "tests analyst programmer tests tester tests e2e proof"),
        ("loop", [AT_FIRST], "lint analyst programmer lint tester"),
        ("solo", [EVERYWHERE], "tests programmer tests proof"),
        ("solo", [], "programmer gate"),
    ],
)
def test_gates_and_proof_stand_where_they_are_run(flow: str, gates: list[Gate], names: str) -> None:
    course = course_of(packaged_flow(flow), gates, proves=True)
    assert " ".join(step.name for step in course) == names
    unproven = course_of(packaged_flow(flow), gates, proves=False)
    assert " ".join(step.name for step in unproven) == names.removesuffix(" proof")
