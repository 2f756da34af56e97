"""Turns of every kind with real agents: what is told about them is what the model did."""

import asyncio
import re
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.models import NewTerminal, TerminalStatus
from cli_agent_orchestrator.errors import InputRefused, NotFound, StartError
from cli_agent_orchestrator.terminals.launch import find_profile
from tests.agents.driving import (
    ASK_NOTHING,
    AT_WORK,
    FURTHER_KINDS,
    KINDS,
    NEWEST,
    Ground,
    step,
)
from tests.stubs.script import numbered_lines

pytestmark = [pytest.mark.agents, pytest.mark.tmux]

IDLE = TerminalStatus.IDLE
COMPLETED = TerminalStatus.COMPLETED
PROCESSING = TerminalStatus.PROCESSING
WAITING = TerminalStatus.WAITING_USER_ANSWER
ERROR = TerminalStatus.ERROR

EVERY = [*KINDS, *FURTHER_KINDS]
of_every_agent = pytest.mark.parametrize("kind", EVERY, ids=str)
of_further_agents = pytest.mark.parametrize("kind", FURTHER_KINDS, ids=str)
"""What test_modes.py asks of the others."""
ASKED = {PROCESSING, WAITING}
LEADING = [
    # Right after the start, when it may not listen for pastes yet.
    "Look! touch ran.txt",
    "!touch ran.txt",
    " !touch ran.txt",
    *("/help me", "/compact", "/clear", "#heading", "# A heading", "@ home", "@nobody knows it"),
    *("? what", "$ x", "!", "#"),
]
MARGIN = " \u2800"
"""What stands before a message that could be taken for a command."""


@step("start", EVERY)
async def test_a_profile_reaches_the_model_also_from_a_dumb_terminal(ground: Ground) -> None:
    ground.term = "dumb"
    async with ground.agent(profile="tester") as driven:
        await driven.take(1, "hello")
        told = driven.stub.turns[0].system
    carried = find_profile("tester", [], Path.cwd()) in told
    assert carried is ground.kind.manners.has_profile


@step("trust", KINDS)
async def test_the_question_about_trusting_the_folder_is_passed(ground: Ground) -> None:
    ground.trusted = False
    async with ground.agent() as driven:
        assert driven.told_since(0) == [IDLE]
        await driven.take(1, "[[answer:trusted]]")


@step("sign-in missing", NEWEST)
async def test_an_agent_that_is_not_signed_in_takes_no_turn(ground: Ground) -> None:
    if not ground.kind.manners.signs_in:
        pytest.skip("its models need no account")
    ground.signed_in = False
    try:
        async with ground.agent() as driven:
            begun = await driven.says("hello")
            reason = (await driven.reached(ERROR, after=begun)).reason
    except StartError as error:
        reason = str(error)
    assert re.search("sign in|login", reason), reason


async def test_messages_of_all_sizes_arrive_once_and_exactly(ground: Ground) -> None:
    messages = [ground.kind.hard_text(size) for size in (200_000, 1, 300, 999, 5_000)]
    async with ground.agent() as driven:
        for turn, message in enumerate(messages, start=1):
            await driven.take(turn, message)
            assert driven.stub.prompts[turn - 1 :] == [driven.as_taken(message)]


@step("message", EVERY)
async def test_turns_are_told_and_answers_read_back(ground: Ground) -> None:
    prompts = ["one", "two\n\nlines of it", "a long\n" * 200]
    # The answers of others may be drawn later than the end of so short a turn is told.
    prompts += list("45678") if ground.kind in KINDS else []
    async with ground.agent() as driven:
        for turn, prompt in enumerate(prompts, start=1):
            message = f"{prompt} [[slow:{1 if turn < 4 else 0}]][[answer:number {turn}]]"
            await driven.take(turn, message)
            # Goose does not mark where a message of several lines ends.
            assert (await driven.last_answer()).endswith(f"number {turn}")
            # One of them leaves a space behind a paste.
            assert [said.rstrip() for said in driven.stub.prompts[turn - 1 :]] == [message]
        explanation = driven.service.explain(driven.terminal.id)
        assert explanation.status is COMPLETED
        assert explanation.evidence, explanation.reason


@of_every_agent
async def test_a_message_is_a_text_whatever_it_begins_with(ground: Ground) -> None:
    async with ground.agent() as driven:
        for turn, message in enumerate(LEADING, start=1):
            await driven.take(turn, message)
        taken = [prompt.strip(MARGIN) for prompt in driven.stub.prompts]
        assert taken == [message.strip() for message in LEADING]
        assert not (driven.work / "ran.txt").exists()


@of_further_agents
async def test_a_shell_that_a_person_has_opened_is_not_typed_into(ground: Ground) -> None:
    if not ground.kind.manners.has_shell:
        pytest.skip("it has none")
    async with ground.agent() as driven:
        await driven.settles()
        await driven.keys("!")
        await driven.settles()
        with pytest.raises(InputRefused):
            await driven.send("touch ran.txt")
        await driven.keys(ground.kind.manners.leaves_shell)
        await driven.settles()
        await driven.take(1, "[[answer:fine]]")
        assert not (driven.work / "ran.txt").exists()


@of_every_agent
async def test_an_answer_is_read_back_whole_and_its_words_change_nothing(ground: Ground) -> None:
    count = ground.kind.manners.lines
    async with ground.agent() as driven:
        await driven.take(1, f"[[lines:{count}]]")
        lines = [line.strip() for line in (await driven.last_answer()).splitlines()]
        await driven.take(2, "[[words]]")
        await driven.settles()
        assert driven.told_since(0)[-1] is COMPLETED
    assert lines == numbered_lines(count).replace("-", ground.kind.manners.bullet).splitlines()


@of_every_agent
async def test_a_response_file_is_written_by_a_real_command(ground: Ground) -> None:
    async with ground.agent() as driven:
        target = driven.work / "the answer.md"
        await driven.take(
            1,
            "Do it. [[respond:It's `done`, $HOME stays.]]\n\nRESPONSE FILE INSTRUCTION\n"
            f"Run this:\ncat > '{target}' <<'CAO_RESPONSE_END'\n"
            "<your complete final response>\nCAO_RESPONSE_END",
        )
    assert target.read_text(encoding="utf-8") == "It's `done`, $HOME stays.\n"


@step("{what}", EVERY)
@pytest.mark.parametrize("what", ["permission", "question"])
async def test_what_an_agent_asks_is_waited_for(ground: Ground, what: str) -> None:
    manners, allow = ground.kind.manners, what == "permission"
    if not allow and (ground.kind in ASK_NOTHING or not manners.has_questions):
        pytest.skip("it asks no questions, or only while it plans")
    async with ground.agent(permissions="ask" if allow else "full") as driven:
        await driven.says(f"[[{manners.asks if allow else 'ask'}]][[answer:asked]]")
        await driven.reached(WAITING)
        await driven.answer(manners.allow if allow else "Enter")
        await driven.completes(1, told=ASKED)
        # Of an agent without tools the command is part of the answer.
        assert (await driven.last_answer()).endswith("asked")
    made = [folder / "asked.txt" for folder in (ground.folder, ground.work)]
    assert any(path.exists() for path in made) is allow


@step("limit", EVERY)
async def test_a_failed_turn_is_an_error_and_the_next_one_works(ground: Ground) -> None:
    async with ground.agent() as driven:
        troubles = ground.kind.manners.troubles
        for number, trouble in enumerate(troubles):
            begun = await driven.says(f"please [[{trouble}]]")
            await driven.reached(ERROR, after=begun)
            await driven.save_screen(f"-{trouble.replace(':', '_')}")
            assert COMPLETED not in driven.told_since(begun), trouble
            message = f"again [[answer:better {number}]]"
            await driven.take(2 * number + 2, message)
            assert driven.stub.prompts[-1].rstrip() == message
            assert await driven.last_answer() == f"better {number}"
        if "limit" not in troubles:
            # It tries again for minutes.
            begun = await driven.says("please [[limit]]")
            await driven.until(
                lambda: [t for t in driven.stub.turns[2 * len(troubles) :] if t.refusals > 1]
            )
            await driven.save_screen("-limit")
            pressed = await driven.stop()
            assert driven.told_between(begun, pressed) <= AT_WORK
            await driven.reached(IDLE, COMPLETED, after=pressed)


@step("interrupt", FURTHER_KINDS)
async def test_a_turn_that_a_person_stops_is_at_rest(ground: Ground) -> None:
    async with ground.agent() as driven:
        await driven.says("[[hold:never]]")
        await driven.started(1)
        await driven.reached(PROCESSING)
        pressed = await driven.stop()
        await driven.reached(IDLE, COMPLETED, after=pressed)
        driven.stub.release("never")


@pytest.mark.parametrize("kind", NEWEST, ids=str)
async def test_two_agents_do_not_mix_their_messages(ground: Ground) -> None:
    async with ground.agent() as driven:
        first = driven.terminal
        new = NewTerminal(driven.kind.agent, "programmer", str(driven.work))
        second = await driven.service.create_terminal(first.session_name, new)
        sent = {
            first.id: "one " + ground.kind.hard_text(3_000),
            second.id: "two " + ground.kind.hard_text(4_000),
        }
        deliveries = await asyncio.gather(
            *(driven.service.send(terminal, message) for terminal, message in sent.items())
        )
        assert all(delivery.confirmed for delivery in deliveries)
        await driven.finished(2)
        expected = [driven.as_taken(message) for message in sent.values()]
        assert sorted(driven.stub.prompts) == sorted(expected)


@step("exit", EVERY)
async def test_an_agent_quits_when_it_is_asked_to(ground: Ground) -> None:
    async with ground.agent() as driven:
        await driven.take(1, "hello")
        await driven.service.exit(driven.terminal.id)
        with pytest.raises(NotFound):
            driven.service.terminal(driven.terminal.id)
        assert driven.seen[-1].kind == "removed"
