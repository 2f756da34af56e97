"""A message is pasted, submitted and confirmed by the rules at the top of sending.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cli_agent_orchestrator.core.models import Delivery, TerminalStatus
from cli_agent_orchestrator.terminals.sending import (
    BOX_SECONDS,
    CLEAR_SECONDS,
    CONFIRM_SECONDS,
    ENTER_SECONDS,
    FIRST_LOOK_SECONDS,
    LOOK_SECONDS,
    MAX_CLEARS,
    PROBE,
    PROBE_SECONDS,
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
from cli_agent_orchestrator.terminals.tracker import REST_SECONDS

IDLE = TerminalStatus.IDLE
COMPLETED = TerminalStatus.COMPLETED
PROCESSING = TerminalStatus.PROCESSING
WAITING = TerminalStatus.WAITING_USER_ANSWER
ERROR = TerminalStatus.ERROR
UNKNOWN = TerminalStatus.UNKNOWN

PASTED = Sending(Phase.PASTED, since=0)
ENTERED = Sending(Phase.ENTERED, since=0, presses=1)


def after(sending: Sending, look: AgentLook) -> Action:
    return advance(sending, look)[1]


def test_how_long_the_message_before_may_still_be_seen_is_a_sharp_limit() -> None:
    sending = Sending(since=10)
    look = AgentLook(10 + REDRAW_SECONDS - LOOK_SECONDS / 2, IDLE, "sent before")
    before = after(sending, look)
    assert isinstance(before, LookAgain)
    assert before.within == pytest.approx(LOOK_SECONDS / 2)
    look = replace(look, now=10 + REDRAW_SECONDS - 1)
    assert after(sending, look) == LookAgain(LOOK_SECONDS)
    assert after(sending, replace(look, now=10 + REDRAW_SECONDS)) is Do.PROBE


def test_what_a_message_of_ours_left_in_the_box_is_cleared_first() -> None:
    sending = Sending(own_leftover=True)
    for _ in range(MAX_CLEARS):
        sending, action = advance(sending, AgentLook(0, IDLE, "left over"))
        assert action == Do.CLEAR
    # What stays there may be no text at all.
    stays = replace(sending, before=AgentLook(0, IDLE, "left over"))
    assert after(stays, AgentLook(0, IDLE, "left over")) is Do.PROBE
    for status in (IDLE, COMPLETED, ERROR):
        assert after(sending, AgentLook(0, status, "")) == Do.PASTE


def test_a_message_of_ours_that_the_agent_put_back_is_cleared_first() -> None:
    sending = Sending(message="the next one", last_draft="[Pasted text #1 +9 lines]")
    assert after(sending, AgentLook(0, IDLE, "[Pasted text #1 +9 lines]")) == Do.CLEAR
    assert after(sending, AgentLook(0, IDLE, "[Pasted text #2 +9 lines]")) is Do.PROBE


@pytest.mark.parametrize("draft", ["first second", "first\n  second", "first[Pasted text #2]"])
def test_a_message_that_came_behind_the_one_before_is_taken_back(draft: str) -> None:
    sending = Sending(message="second", last_draft="first", phase=Phase.PASTED)
    sending, action = advance(sending, AgentLook(0, IDLE, draft))
    assert action == Do.CLEAR
    assert after(sending, AgentLook(0.1, IDLE, "")) == Do.PASTE
    stubborn = replace(sending, phase=Phase.PASTED, clears=MAX_CLEARS)
    given_up = after(stubborn, AgentLook(1, IDLE, draft))
    assert isinstance(given_up, Delivery)
    assert not given_up.confirmed


@pytest.mark.parametrize(
    ("message", "draft"),
    [
        ("first second", "first\n second"),
        ("first", "first"),
        ("x", "x"),
        ("y", "[Pasted text #2]"),
        ("Mend the basket and the till\nnow", "[Mend the basket and t... Pasted +1\nlines]"),
    ],
)
def test_a_message_that_is_alone_in_the_box_is_submitted(message: str, draft: str) -> None:
    sending = Sending(message=message, last_draft="first", phase=Phase.PASTED)
    assert after(sending, AgentLook(0, IDLE, draft)) == Do.PRESS_ENTER
    assert after(replace(sending, last_draft=""), AgentLook(0, IDLE, draft)) == Do.PRESS_ENTER


@pytest.mark.parametrize("draft", ["first", "not the first"])
def test_a_text_without_any_of_the_message_must_stand_still_to_be_the_message(draft: str) -> None:
    sending = Sending(message="z", last_draft="first", phase=Phase.PASTED)
    assert isinstance(after(sending, AgentLook(0, IDLE, draft)), LookAgain)
    assert after(sending, AgentLook(0, IDLE, draft, still=QUESTION_SECONDS)) is Do.PRESS_ENTER


@pytest.mark.parametrize(
    ("phase", "draft"), [(Phase.CHECKING, None), (Phase.PASTED, "m"), (Phase.ENTERED, None)]
)
def test_a_question_counts_only_when_it_stays(phase: Phase, draft: str | None) -> None:
    sending, action = advance(Sending(phase, since=0, message="m"), AgentLook(0, WAITING, draft))
    assert isinstance(action, LookAgain)
    passing, action = advance(sending, AgentLook(0.2, IDLE, draft or ""))
    assert isinstance(action, Do | Delivery)
    assert passing.asked_at is None
    action = after(sending, AgentLook(QUESTION_SECONDS, WAITING, None))
    assert isinstance(action, Refuse | Delivery)


def test_enter_waits_until_the_text_is_in_the_box() -> None:
    assert isinstance(after(PASTED, AgentLook(1, IDLE, "")), LookAgain)
    assert isinstance(after(PASTED, AgentLook(1, IDLE, None)), LookAgain)
    assert isinstance(after(ENTERED, AgentLook(CONFIRM_SECONDS - 0.01, IDLE, None)), LookAgain)
    assert after(PASTED, AgentLook(1, IDLE, "[pasted 9000 chars]")) == Do.PRESS_ENTER


@pytest.mark.parametrize("sending", [PASTED, ENTERED])
def test_looks_are_close_together_at_first(sending: Sending) -> None:
    assert after(sending, AgentLook(0, IDLE, None)) == LookAgain(FIRST_LOOK_SECONDS)
    assert after(sending, AgentLook(0.02, IDLE, None)) == LookAgain(0.02)
    assert after(sending, AgentLook(3, IDLE, None)) == LookAgain(LOOK_SECONDS)


def test_an_agent_that_takes_no_enter_at_its_start_is_given_longer_and_longer() -> None:
    for presses, wait in enumerate(ENTER_SECONDS, start=1):
        sending = replace(ENTERED, presses=presses)
        assert isinstance(after(sending, AgentLook(wait - 0.01, IDLE, "x")), LookAgain)
        if presses < len(ENTER_SECONDS):
            assert after(sending, AgentLook(wait, IDLE, "x")) is Do.PRESS_ENTER
    assert list(ENTER_SECONDS) == sorted(ENTER_SECONDS)
    assert sum(ENTER_SECONDS) > 10


def tried(before: AgentLook, probed: AgentLook, *, fresh: bool = False) -> Action:
    """Return what follows when a sign was typed, seen and taken back."""
    began = Sending(Phase.PROBED, since=0, before=before, fresh=fresh, trials=1)
    sending, action = advance(began, probed)
    assert action is Do.ERASE
    return after(sending, before)


@pytest.mark.parametrize(
    ("before", "probed", "is_box"),
    [
        ("Ask anything", PROBE, True),
        ("Ask anything\nfooter", f"{PROBE}\n  footer", True),
        # Two rows of a footer that nobody knew.
        ("\nmodel high\n? help", f"{PROBE}\nmodel high\n? help", True),
        ("a draft", f"a draft{PROBE}", False),
        ("a draft", f"{PROBE}a draft", False),
        ("of two\nrows", f"of two\nrows{PROBE}", False),
        ("!", f"!{PROBE}", False),
        # The placeholder of a shell
        ("!Run a command", f"!{PROBE}", False),
    ],
)
def test_a_text_that_gives_way_is_no_draft(before: str, probed: str, is_box: bool) -> None:
    action = tried(AgentLook(0, IDLE, before), AgentLook(0.1, IDLE, probed))
    assert action is Do.PASTE if is_box else isinstance(action, Refuse)
    assert tried(AgentLook(0, IDLE, "❯"), AgentLook(0, IDLE, f"❯{PROBE}"), fresh=True) is Do.PASTE


BOX = "said\n╔══╗\n║ {} ║\n╚══╝\n hints · more"


@pytest.mark.parametrize(
    ("before", "probed", "fresh", "is_box"),
    [
        (BOX.format(""), BOX.format(PROBE), False, True),
        (BOX.format("Ask"), BOX.format(PROBE), False, True),
        (BOX.format("Ask"), BOX.format(PROBE).replace("hints", ""), False, True),
        ("said\nagent> ", f"said\nagent> {PROBE}", True, True),
        # It may be the prompt, or a draft.
        ("said\nagent> ", f"said\nagent> {PROBE}", False, False),
        # A search, whose hits change with every letter
        ("> \none\ntwo\nthree", f"> {PROBE}\nno\nhits\n", False, False),
    ],
)
def test_a_box_that_cannot_be_read_is_known_by_what_changes(
    before: str, probed: str, fresh: bool, is_box: bool
) -> None:
    first = AgentLook(0, UNKNOWN, None, screen=before, still=REST_SECONDS)
    assert after(Sending(), replace(first, still=1)) == LookAgain(REST_SECONDS - 1)
    assert after(Sending(), first) is Do.PROBE
    action = tried(first, replace(first, screen=probed), fresh=fresh)
    assert action is Do.PASTE if is_box else isinstance(action, Refuse)


@pytest.mark.parametrize(
    "question",
    ["Delete all files? [Y/n] ", "Run: rm -rf build\n1. Yes\n2. No\n> ", "Allow it?\n> "],
)
def test_what_looks_like_a_question_is_never_tried(question: str) -> None:
    look = AgentLook(0, UNKNOWN, None, screen=f"said\n{question}", still=REST_SECONDS)
    assert isinstance(after(Sending(), look), Refuse)
    assert isinstance(after(Sending(fresh=True), replace(look, status=IDLE)), Refuse)


def test_a_message_in_a_box_that_cannot_be_read_is_followed_on_the_screen() -> None:
    def look(now: float, screen: str, still: float = 0) -> AgentLook:
        return AgentLook(now, UNKNOWN, None, screen=screen, still=still)

    empty, sending = look(0, "> "), Sending(Phase.PASTED, since=0, message="do it", blind=True)
    sending = replace(sending, before=empty)
    assert isinstance(after(sending, replace(empty, still=9)), LookAgain)
    assert isinstance(after(sending, look(0.1, "> [pas")), LookAgain)
    assert after(sending, look(1, "> [pasted]", CLEAR_SECONDS)) is Do.PRESS_ENTER
    sending, action = advance(sending, look(0.1, "> do it"))
    assert action is Do.PRESS_ENTER
    assert after(sending, look(ENTER_SECONDS[0] + 0.1, "> do it")) is Do.PRESS_ENTER
    taken = after(sending, look(1, "> do it\nsure"))
    assert isinstance(taken, Delivery)
    assert taken.confirmed


LONG = " ".join(map(str, range(99)))


@pytest.mark.parametrize(
    ("message", "before", "now", "expected"),
    [
        ("do it", "do it", "do\nit", "again"),
        ("do it", "do it", "do it please", "wait"),
        ("do it", "do it", "do", "wait"),
        ("do it", "do it", "my own", "taken"),
        (LONG, "[Pasted 1]", "[Pasted 1] and", "wait"),
        (LONG, LONG[:40], LONG[-90:], "again"),
        (LONG, LONG[:40], LONG[-90:] + " and", "wait"),
    ],
)
def test_enter_is_pressed_again_only_on_our_text_alone(
    message: str, before: str, now: str, expected: str
) -> None:
    sending = replace(ENTERED, message=message, before=AgentLook(0, IDLE, before))
    look = AgentLook(ENTER_SECONDS[0], IDLE, now)
    assert (after(sending, look) is Do.PRESS_ENTER) == (expected == "again")
    late = after(sending, replace(look, now=BOX_SECONDS, still=1))
    assert (isinstance(late, Delivery) and late.confirmed) == (expected == "taken")


@given(
    st.lists(
        st.tuples(st.sampled_from(["", "", "", "zq"]), st.booleans()), min_size=50, max_size=50
    ),
    st.booleans(),
)
def test_enter_is_never_pressed_on_what_a_person_types(
    steps: list[tuple[str, bool]], before: bool
) -> None:
    box, sending = "", Sending(since=0, message="do it")
    for number, (typed, hears) in enumerate(steps):
        box = typed + box if before else box + typed
        sending, action = advance(sending, AgentLook(number * 0.6, IDLE, box, still=0.6))
        match action:
            case Do.PASTE:
                box += "do it"
            case Do.PROBE:
                box += PROBE
            case Do.ERASE:
                box = box[:-1]
            case Do.PRESS_ENTER:
                assert box == "do it"
                box = "" if hears else box
            case Delivery() | Refuse():
                break


LOOKS = st.builds(
    lambda status, draft, taken, alive: (status, draft, taken, alive),
    st.sampled_from(list(TerminalStatus)),
    st.sampled_from([None, "", "text"]),
    st.sampled_from([None, "UserPromptSubmit"]),
    st.booleans(),
)


@given(st.lists(LOOKS, min_size=30, max_size=30), st.booleans())
def test_a_message_is_pasted_once_at_most_and_always_comes_to_an_end(
    looks: list[tuple[TerminalStatus, str | None, str | None, bool]], leftover: bool
) -> None:
    sending = Sending(own_leftover=leftover)
    pastes, presses = 0, 0
    for step, (status, draft, taken, alive) in enumerate(looks):
        sending, action = advance(sending, AgentLook(step * 1.6, status, draft, taken, alive))
        pastes += action is Do.PASTE
        presses += action is Do.PRESS_ENTER
        if isinstance(action, Delivery | Refuse):
            break
    else:
        pytest.fail("no end after 48 seconds")
    assert pastes <= 1
    assert presses == sending.presses <= len(ENTER_SECONDS)
    assert pastes or not presses
    if isinstance(action, Refuse):
        assert not pastes
    if isinstance(action, Delivery) and action.confirmed:
        assert presses


ASKED = Sending(Phase.PASTED, since=0, asked_at=0)
PROBED = Sending(Phase.PROBED, since=0, before=AgentLook(0, IDLE, "x"))
ERASED = replace(PROBED, phase=Phase.ERASED)
MERGED = Sending(Phase.PASTED, since=0, clears=MAX_CLEARS, message="b", last_draft="a")
PRESSED = replace(ENTERED, presses=len(ENTER_SECONDS))


REFUSED = {
    "the agent is working": (Sending(), AgentLook(0, PROCESSING, "")),
    "the agent asks a question": (Sending(asked_at=-9), AgentLook(0, WAITING, "")),
    "its screen is not recognized": (Sending(since=0), AgentLook(BOX_SECONDS, UNKNOWN, "")),
    "its program has ended": (Sending(), AgentLook(0, IDLE, "", alive=False)),
    "it takes no input": (PROBED, AgentLook(PROBE_SECONDS, IDLE, "x")),
    "there is unsent text": (Sending(before=AgentLook(0, IDLE, "x")), AgentLook(0, IDLE, "xy")),
    "could not be taken back": (ERASED, AgentLook(PROBE_SECONDS, IDLE, f"{PROBE}x")),
}
GIVEN_UP = {
    "ended while the message was being typed": (PASTED, AgentLook(0, IDLE, "x", alive=False)),
    "a question came up": (ASKED, AgentLook(9, WAITING, "x")),
    "the pasted text did not appear": (PASTED, AgentLook(BOX_SECONDS, IDLE, "")),
    "older text": (MERGED, AgentLook(1, IDLE, "a b")),
    "right after the message was submitted": (ENTERED, AgentLook(1, IDLE, "x", alive=False)),
    "no sign": (ENTERED, AgentLook(CONFIRM_SECONDS, IDLE, None)),
    "Enter was pressed 5 times": (PRESSED, AgentLook(ENTER_SECONDS[-1], IDLE, "x")),
}
TAKEN = {
    "its hook": (ENTERED, AgentLook(0, IDLE, "x", taken="its hook")),
    "the agent is working": (ENTERED, AgentLook(0, PROCESSING, "x")),
    "the agent asks a question": (replace(ENTERED, asked_at=0), AgentLook(9, WAITING, "x")),
    "the input box is empty again": (ENTERED, AgentLook(0, IDLE, "")),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_refusal_says_why(reason: str) -> None:
    action = after(*REFUSED[reason])
    assert isinstance(action, Refuse)
    assert reason in action.reason


@pytest.mark.parametrize(
    ("is_confirmed", "reason"),
    [*((False, reason) for reason in GIVEN_UP), *((True, reason) for reason in TAKEN)],
)
def test_every_end_says_why_and_after_how_many_presses(is_confirmed: bool, reason: str) -> None:
    sending, look = (TAKEN if is_confirmed else GIVEN_UP)[reason]
    action = after(sending, look)
    assert isinstance(action, Delivery)
    assert (action.confirmed, action.enter_presses) == (is_confirmed, sending.presses)
    assert reason in action.detail
