"""A message is pasted, submitted and confirmed by the rules at the top of sending.py."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.models import Delivery, TerminalStatus
from cli_agent_orchestrator.terminals.sending import (
    BOX_SECONDS,
    CONFIRM_SECONDS,
    ENTER_SECONDS,
    FIRST_LOOK_SECONDS,
    LOOK_SECONDS,
    MAX_CLEARS,
    QUESTION_SECONDS,
    REDRAW_SECONDS,
    Action,
    AgentLook,
    Do,
    LookAgain,
    Phase,
    Refuse,
    Sending,
    advance,
)

IDLE = TerminalStatus.IDLE
COMPLETED = TerminalStatus.COMPLETED
PROCESSING = TerminalStatus.PROCESSING
WAITING = TerminalStatus.WAITING_USER_ANSWER
ERROR = TerminalStatus.ERROR
UNKNOWN = TerminalStatus.UNKNOWN

PASTED = Sending(Phase.PASTED, since=0)
ENTERED = Sending(Phase.ENTERED, since=0, presses=1)


def taken(sign: str) -> Delivery:
    return Delivery(True, sign, 1)


def given_up(reason: str, presses: int = 0) -> Delivery:
    return Delivery(False, reason, presses)


def is_taken(action: Action) -> bool:
    return isinstance(action, Delivery) and action.confirmed


def is_given_up(action: Action) -> bool:
    return isinstance(action, Delivery) and not action.confirmed


def after(sending: Sending, look: AgentLook) -> Action:
    return advance(sending, look)[1]


@pytest.mark.parametrize("status", [IDLE, COMPLETED, ERROR])
def test_an_agent_at_rest_with_an_empty_box_gets_the_message(status: TerminalStatus) -> None:
    assert after(Sending(), AgentLook(0, status, "")) == Do.PASTE


def test_a_text_that_was_sent_before_may_still_be_seen_for_a_moment() -> None:
    sending, action = advance(Sending(since=10), AgentLook(10.1, IDLE, "sent before"))
    assert isinstance(action, LookAgain)
    assert isinstance(after(sending, AgentLook(10.15, IDLE, None)), LookAgain)
    assert after(sending, AgentLook(10.2, IDLE, "")) == Do.PASTE
    assert isinstance(after(sending, AgentLook(10 + REDRAW_SECONDS, IDLE, "typed")), Refuse)


@pytest.mark.parametrize("draft", ["sent before", None])
def test_how_long_it_may_still_be_seen_is_a_sharp_limit(draft: str | None) -> None:
    sending = Sending(since=10)
    before = after(sending, AgentLook(10 + REDRAW_SECONDS - LOOK_SECONDS / 2, IDLE, draft))
    assert isinstance(before, LookAgain)
    assert before.within == pytest.approx(LOOK_SECONDS / 2)
    assert after(sending, AgentLook(10 + REDRAW_SECONDS - 1, IDLE, draft)) == LookAgain(
        LOOK_SECONDS
    )
    assert isinstance(after(sending, AgentLook(10 + REDRAW_SECONDS, IDLE, draft)), Refuse)


def test_what_a_message_of_ours_left_in_the_box_is_cleared_first() -> None:
    sending = Sending(own_leftover=True)
    for _ in range(MAX_CLEARS):
        sending, action = advance(sending, AgentLook(0, IDLE, "left over"))
        assert action == Do.CLEAR
    assert isinstance(after(sending, AgentLook(0, IDLE, "left over")), Refuse)
    assert after(sending, AgentLook(0, IDLE, "")) == Do.PASTE


def test_a_message_of_ours_that_the_agent_put_back_is_cleared_first() -> None:
    sending = Sending(message="the next one", last_draft="[Pasted text #1 +9 lines]")
    assert after(sending, AgentLook(0, IDLE, "[Pasted text #1 +9 lines]")) == Do.CLEAR
    assert isinstance(after(sending, AgentLook(0, IDLE, "[Pasted text #2 +9 lines]")), Refuse)


@pytest.mark.parametrize("draft", ["first second", "first\n  second", "first[Pasted text #2]"])
def test_a_message_that_came_behind_the_one_before_is_taken_back(draft: str) -> None:
    sending = Sending(message="second", last_draft="first", phase=Phase.PASTED)
    sending, action = advance(sending, AgentLook(0, IDLE, draft))
    assert action == Do.CLEAR
    assert after(sending, AgentLook(0.1, IDLE, "")) == Do.PASTE
    stubborn = replace(sending, phase=Phase.PASTED, clears=MAX_CLEARS)
    assert is_given_up(after(stubborn, AgentLook(1, IDLE, draft)))


@pytest.mark.parametrize(
    ("message", "draft"),
    [
        ("first second", "first\n second"),
        ("first", "first"),
        ("x", "x"),
        ("y", "[Pasted text #2]"),
        ("z", "first"),
        ("z", "not the first"),
    ],
)
def test_a_message_that_is_alone_in_the_box_is_submitted(message: str, draft: str) -> None:
    sending = Sending(message=message, last_draft="first", phase=Phase.PASTED)
    assert after(sending, AgentLook(0, IDLE, draft)) == Do.PRESS_ENTER
    assert after(replace(sending, last_draft=""), AgentLook(0, IDLE, draft)) == Do.PRESS_ENTER


@pytest.mark.parametrize("phase", [Phase.CHECKING, Phase.PASTED, Phase.ENTERED])
def test_a_question_counts_only_when_it_stays(phase: Phase) -> None:
    sending, action = advance(Sending(phase, since=0, message="m"), AgentLook(0, WAITING, None))
    assert isinstance(action, LookAgain)
    passing, action = advance(sending, AgentLook(0.2, IDLE, "m" if phase is Phase.PASTED else ""))
    assert isinstance(action, Do | Delivery)
    assert passing.asked_at is None
    action = after(sending, AgentLook(QUESTION_SECONDS, WAITING, None))
    assert isinstance(action, Refuse | Delivery)


def test_enter_waits_until_the_text_is_in_the_box() -> None:
    assert isinstance(after(PASTED, AgentLook(1, IDLE, "")), LookAgain)
    assert isinstance(after(PASTED, AgentLook(1, IDLE, None)), LookAgain)
    assert after(PASTED, AgentLook(1, IDLE, "[pasted 9000 chars]")) == Do.PRESS_ENTER


@pytest.mark.parametrize("sending", [PASTED, ENTERED])
def test_looks_are_close_together_at_first(sending: Sending) -> None:
    assert after(sending, AgentLook(0, IDLE, None)) == LookAgain(FIRST_LOOK_SECONDS)
    assert after(sending, AgentLook(0.02, IDLE, None)) == LookAgain(0.02)
    assert after(sending, AgentLook(3, IDLE, None)) == LookAgain(LOOK_SECONDS)


def test_enter_is_not_pressed_on_a_question_that_came_up_after_the_paste() -> None:
    sending, action = advance(PASTED, AgentLook(0.1, WAITING, "text"))
    assert isinstance(action, LookAgain)
    assert is_given_up(after(sending, AgentLook(0.2 + QUESTION_SECONDS, WAITING, "text")))


def test_a_lost_enter_is_pressed_again_a_few_times() -> None:
    sending, now, presses = ENTERED, 0.0, 1
    while True:
        now += ENTER_SECONDS[sending.presses - 1] + 0.01
        sending, action = advance(sending, AgentLook(now, COMPLETED, "text"))
        if action is not Do.PRESS_ENTER:
            break
        presses += 1
    assert is_given_up(action)
    assert presses == sending.presses == len(ENTER_SECONDS)


def test_no_sign_and_no_box_is_unconfirmed_in_the_end() -> None:
    assert isinstance(after(ENTERED, AgentLook(0.1, IDLE, None)), LookAgain)
    assert is_given_up(after(ENTERED, AgentLook(CONFIRM_SECONDS, IDLE, None)))


def test_a_text_that_is_still_in_the_box_is_looked_at_again_before_enter_is() -> None:
    assert isinstance(after(ENTERED, AgentLook(ENTER_SECONDS[0] / 2, IDLE, "x")), LookAgain)
    assert after(ENTERED, AgentLook(ENTER_SECONDS[0], IDLE, "x")) == Do.PRESS_ENTER


def test_an_agent_that_takes_no_enter_at_its_start_is_given_longer_and_longer() -> None:
    for presses, wait in enumerate(ENTER_SECONDS, start=1):
        sending = replace(ENTERED, presses=presses)
        assert isinstance(after(sending, AgentLook(wait - 0.01, IDLE, "x")), LookAgain)
    assert list(ENTER_SECONDS) == sorted(ENTER_SECONDS)
    assert sum(ENTER_SECONDS) > 10


LOOKS = st.builds(
    lambda status, draft, taken, alive: (status, draft, taken, alive),
    st.sampled_from(list(TerminalStatus)),
    st.sampled_from([None, "", "text"]),
    st.sampled_from([None, "UserPromptSubmit"]),
    st.booleans(),
)


@given(st.lists(LOOKS, min_size=60, max_size=60), st.booleans())
def test_a_message_is_pasted_once_at_most_and_always_comes_to_an_end(
    looks: list[tuple[TerminalStatus, str | None, str | None, bool]], leftover: bool
) -> None:
    sending = Sending(own_leftover=leftover)
    pastes, presses = 0, 0
    for step, (status, draft, taken, alive) in enumerate(looks):
        sending, action = advance(sending, AgentLook(step * 0.4, status, draft, taken, alive))
        pastes += action is Do.PASTE
        presses += action is Do.PRESS_ENTER
        if isinstance(action, Delivery | Refuse):
            break
    else:
        pytest.fail("no end after 24 seconds")
    assert pastes <= 1
    assert presses == sending.presses <= len(ENTER_SECONDS)
    assert pastes or not presses
    if isinstance(action, Refuse):
        assert not pastes
    if is_taken(action):
        assert presses


ASKED = Sending(Phase.PASTED, since=0, asked_at=0)
CLEARED = Sending(own_leftover=True, clears=MAX_CLEARS)
MERGED = Sending(Phase.PASTED, since=0, clears=MAX_CLEARS, message="b", last_draft="a")
PRESSED = replace(ENTERED, presses=len(ENTER_SECONDS))


@pytest.mark.parametrize(
    ("sending", "look", "action"),
    [
        (
            Sending(),
            AgentLook(0, PROCESSING, ""),
            Refuse("the agent is working; send again when it is at rest"),
        ),
        (
            Sending(asked_at=-9),
            AgentLook(0, WAITING, ""),
            Refuse("the agent asks a question that a person has to answer"),
        ),
        (
            Sending(),
            AgentLook(0, UNKNOWN, ""),
            Refuse("its screen is not recognized, so it is not safe to type"),
        ),
        (Sending(), AgentLook(0, IDLE, "", alive=False), Refuse("its program has ended")),
        (Sending(), AgentLook(0, IDLE, None), Refuse("its input box is not in sight")),
        (
            Sending(),
            AgentLook(0, IDLE, "x"),
            Refuse("there is unsent text in its input box; send or clear it first"),
        ),
        (
            CLEARED,
            AgentLook(0, IDLE, "x"),
            Refuse("unsent text in its input box could not be cleared"),
        ),
        (
            PASTED,
            AgentLook(0, IDLE, "x", alive=False),
            given_up("its program ended while the message was being typed"),
        ),
        (
            ASKED,
            AgentLook(9, WAITING, "x"),
            given_up("a question came up before the message was submitted"),
        ),
        (
            PASTED,
            AgentLook(BOX_SECONDS, IDLE, ""),
            given_up("the pasted text did not appear in the input box"),
        ),
        (
            MERGED,
            AgentLook(1, IDLE, "a b"),
            given_up("older text in its input box could not be cleared"),
        ),
        (
            ENTERED,
            AgentLook(1, IDLE, "x", alive=False),
            given_up("its program ended right after the message was submitted", 1),
        ),
        (
            ENTERED,
            AgentLook(CONFIRM_SECONDS, IDLE, None),
            given_up("no sign that the agent took the message", 1),
        ),
        (
            PRESSED,
            AgentLook(ENTER_SECONDS[-1], IDLE, "x"),
            given_up("Enter was pressed 5 times and the text is still in the input box", 5),
        ),
        (ENTERED, AgentLook(0, IDLE, "x", taken="its hook"), taken("its hook")),
        (ENTERED, AgentLook(0, PROCESSING, "x"), taken("the agent is working")),
        (
            replace(ENTERED, asked_at=0),
            AgentLook(9, WAITING, "x"),
            taken("the agent asks a question"),
        ),
        (ENTERED, AgentLook(0, IDLE, ""), taken("the input box is empty again")),
    ],
    ids=lambda value: value.phase.name if isinstance(value, Sending) else "",
)
def test_every_end_says_why(sending: Sending, look: AgentLook, action: Action) -> None:
    assert after(sending, look) == action
