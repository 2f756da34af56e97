"""Scripts: what markers spell, and how a turn is cut into responses."""

import subprocess
from pathlib import Path

import pytest

from .script import (
    DONE,
    Ask,
    Cut,
    Fail,
    Hold,
    Limit,
    Pause,
    Refuse,
    Request,
    Run,
    Script,
    Step,
    Text,
    Think,
    respond,
    response_command,
    script_from_markers,
)


def steps_of(prompt: str) -> tuple[Step, ...]:
    return script_from_markers(Request("c", "", (prompt,))).steps


def instruction(path: Path) -> str:
    return (
        "ROUND: 1\nCYCLE: 1\n\nDo it.\n\nRESPONSE FILE INSTRUCTION\nWrite your answer with this:\n"
        f"cat > '{path}' <<'CAO_RESPONSE_END'\n<your complete final response>\nCAO_RESPONSE_END\n"
    )


@pytest.mark.parametrize(
    ("prompt", "steps"),
    [
        ("[[answer:all is\nwell]]", (Text("all is\nwell"),)),
        ("[[slow:5]][[answer:slowly]]", (Text("slowly", 5),)),
        ("[[think:3]] then [[pause:2]]", (Think(3), Pause(2))),
        ("[[hold:here]]", (Hold("here"),)),
        ("[[run:ls -la]] [[answer:seen]]", (Run("ls -la"), Text("seen"))),
        ("[[escalate:touch /x]]", (Run("touch /x", escalated=True),)),
        ("[[ask]]", (Ask(),)),
        ("[[http:500]]", (Refuse(500),)),
        ("[[http:529x2]]", (Refuse(529, 2),)),
        ("[[limit]]", (Limit(),)),
        ("[[limit:60]]", (Limit(60),)),
        ("[[fail]]", (Fail(),)),
        ("[[cut]]", (Cut(),)),
        ("[[lines:2]]", (Text("- line 1 of 2\n- line 2 of 2"),)),
        ("[[typo]]", (Text("The stub knows no marker 'typo'."),)),
    ],
)
def test_markers_spell_the_steps(prompt: str, steps: tuple[Step, ...]) -> None:
    assert steps_of(prompt) == steps


def test_a_prompt_without_markers_gets_a_plain_answer() -> None:
    assert isinstance(steps_of("hello")[0], Text)


def test_each_tool_output_brings_the_next_part() -> None:
    script = Script((Text("first"), Run("a"), Run("b"), Text("last")))
    assert [script.part(outputs) for outputs in range(3)] == [
        (Text("first"), Run("a")),
        (Run("b"),),
        (Text("last"),),
    ]


def test_a_script_that_ends_with_a_tool_call_still_ends_the_turn() -> None:
    script = Script((Run("a"),))
    assert (script.part(1), script.part(2)) == ((DONE,), (DONE,))


def test_the_response_command_writes_the_file_the_prompt_names(tmp_path: Path) -> None:
    target = tmp_path / "with space.md"
    command = response_command(instruction(target), "It's `done`, $HOME stays.\nRESULT: PASS")
    assert command is not None
    subprocess.run(["bash", "-c", command], check=True)
    assert target.read_text() == "It's `done`, $HOME stays.\nRESULT: PASS\n"


def test_a_turn_writes_its_answer_and_then_says_so(tmp_path: Path) -> None:
    script = respond(instruction(tmp_path / "x.md"), "RESULT: PASS", Think())
    assert [type(step) for step in script.steps] == [Think, Run, Text]


def test_without_an_instruction_the_answer_is_just_said() -> None:
    assert respond("plain", "RESULT: PASS").steps == (Text("RESULT: PASS"),)


def test_an_instruction_without_a_heredoc_asks_for_no_file() -> None:
    assert response_command("RESPONSE FILE INSTRUCTION\nnothing more", "x") is None
