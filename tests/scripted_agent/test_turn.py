"""What the agent reads from a message, which rule holds, and what it answers."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.scripted_agent.agent import find_rule, read_turn, render_answer
from cli_agent_orchestrator.scripted_agent.script import Rule, Script


def instruction(path: str) -> str:
    return f"\n\nRESPONSE FILE INSTRUCTION\nUse this:\ncat > {shlex.quote(path)} <<'X'\n<x>\nX\n"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_round_and_cycle_stand_on_lines_of_their_own(end: str) -> None:
    turn = read_turn("tester", 1, end.join(["ROUND: 3", "CYCLE: 2", "in ROUND: 9 of it"]))
    assert (turn.round, turn.cycle) == (3, 2)
    turn = read_turn("tester", 1, "in ROUND: 9 of it")
    assert (turn.round, turn.cycle, turn.response_path) == (None, None, None)


@given(st.text(alphabet=st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"])))
def test_any_path_comes_through_the_quoting(name: str) -> None:
    path = f"/it's a <<'X' > $dir/{name}"
    assert read_turn("tester", 1, instruction(path)).response_path == path


def test_an_instruction_that_the_task_quotes_does_not_count() -> None:
    message = instruction("/quoted.md") + instruction("/real.md")
    assert read_turn("tester", 1, message).response_path == "/real.md"


@pytest.mark.parametrize(
    "message",
    [
        "cat > /a <<'X'\nRESPONSE FILE INSTRUCTION\n",
        "see the RESPONSE FILE INSTRUCTION above\ncat > /a <<'X'",
        "RESPONSE FILE INSTRUCTION\ncat > 'a <<'X'",
        "RESPONSE FILE INSTRUCTION\necho cat > /a <<'X'",
        "RESPONSE FILE INSTRUCTION\ncat >  <<'X'",
        "RESPONSE FILE INSTRUCTION\ncat > /a",
    ],
)
def test_what_is_no_instruction_names_no_file(message: str) -> None:
    assert read_turn("tester", 1, message).response_path is None


RULES = (
    Rule(answer="by role", role=("analyst",)),
    Rule(answer="by profile", role=("peer_programmer",)),
    Rule(answer="by turn", role=("tester",), turn=(3, 4)),
    Rule(answer="by round", role=("tester",), round=(2,)),
    Rule(answer="by cycle", role=("tester",), cycle=(5,)),
    Rule(answer="by text", contains="basket"),
)


@pytest.mark.parametrize(
    ("profile", "number", "message", "answer"),
    [
        ("system_analyst", 1, "basket", "by role"),
        ("peer_programmer", 1, "x", "by profile"),
        ("tester", 4, "ROUND: 2\nbasket", "by turn"),
        ("tester", 1, "ROUND: 2\nCYCLE: 5", "by round"),
        ("tester", 1, "ROUND: 1\nCYCLE: 5", "by cycle"),
        ("tester", 1, "the basket", "by text"),
        ("tester", 1, "x", None),
    ],
)
def test_the_first_rule_that_holds_decides(
    profile: str, number: int, message: str, answer: str | None
) -> None:
    script = Script("x", rule=RULES)
    assert find_rule(script, read_turn(profile, number, message)).answer == answer


def test_placeholders_are_filled_in_once() -> None:
    rule = Rule(
        answer="\n{role} {profile} {round}.{cycle} {turn}: {exit_code} {result}\n{output}\n"
    )
    turn = read_turn("peer_programmer", 7, "ROUND: 2")
    text = render_answer(rule, turn, 3, "{role}\n\n")
    assert text == "programmer_review peer_programmer 2.? 7: 3 FAIL\n{role}"
