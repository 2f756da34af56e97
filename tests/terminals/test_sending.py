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
    PERSON_SECONDS,
    PROBE,
    PROBE_SECONDS,
    QUESTION_SECONDS,
    REDRAW_SECONDS,
    Action,
    AgentLook,
    BoxMemory,
    Do,
    LookAgain,
    Phase,
    Refuse,
    Sending,
    advance,
)
from cli_agent_orchestrator.terminals.tracker import REST_SECONDS

IDLE = TerminalStatus.IDLE
PROCESSING = TerminalStatus.PROCESSING
WAITING = TerminalStatus.WAITING_USER_ANSWER
UNKNOWN = TerminalStatus.UNKNOWN

PASTED = Sending(Phase.PASTED, since=0)
ENTERED = Sending(Phase.ENTERED, since=0, presses=1)
OURS = BoxMemory(leftover=True)


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
    sending = Sending(box=OURS)
    for _ in range(MAX_CLEARS):
        sending, action = advance(sending, AgentLook(0, IDLE, "left over"))
        assert action == Do.CLEAR
    # What stays there may be no text at all.
    stays = replace(sending, before=AgentLook(0, IDLE, "left over"))
    assert after(stays, AgentLook(0, IDLE, "left over")) is Do.PROBE
    for status in (IDLE, TerminalStatus.COMPLETED, TerminalStatus.ERROR):
        assert after(sending, AgentLook(0, status, "")) == Do.PASTE


def test_a_message_of_ours_that_the_agent_put_back_is_cleared_first() -> None:
    sending = Sending(message="the next one", box=BoxMemory(last_draft="[Pasted text #1 +9 lines]"))
    assert after(sending, AgentLook(0, IDLE, "[Pasted text #1 +9 lines]")) == Do.CLEAR
    assert after(sending, AgentLook(0, IDLE, "[Pasted text #2 +9 lines]")) is Do.PROBE
    assert after(Sending(), AgentLook(0, IDLE, PROBE)) is Do.CLEAR
    assert after(Sending(box=OURS), AgentLook(0, UNKNOWN, None, still=REST_SECONDS)) is Do.CLEAR


LONG = " ".join(map(str, range(99)))
TWICE = "abcdefghijklmnop" * 3
ABSENT, PERSON = "pasted", "person"
ENTER, CLEAR = [Do.PRESS_ENTER] * 3, [Do.CLEAR] * 3
STILL = [None, Do.PRESS_ENTER, ABSENT]
"""What is done at once, what if nothing moves any more, and what in the end; None is waiting."""


@pytest.mark.parametrize(
    ("message", "draft", "expected"),
    [
        *((message, message, ENTER) for message in ("x", "first", "first second", LONG)),
        ("first second", "first\n second", ENTER),
        ("z", "[Pasted text #2]", ENTER),
        ("Mend the basket and the till\nnow", "[Mend the basket and t... Pasted +1\nlines]", ENTER),
        ("\u2800/help", "/help", ENTER),
        *((LONG, LONG[20:90], ENTER), (TWICE, TWICE[8:32], ENTER)),
        # The message before it was put back.
        *(("second", draft, CLEAR) for draft in ("first second", "first[Pasted text #2]")),
        # A person may have typed it.
        *(("do it", draft, STILL) for draft in ("d", "first", "not the first")),
        ("first second", "first se", STILL),
        # A placeholder
        *(("do it", draft, [None, None, ABSENT]) for draft in ("", "ask")),
        *(("do it", draft, [None, None, PERSON]) for draft in ("do it please", "well do it")),
        (LONG, f"well {LONG[:40]}", [None, None, PERSON]),
        (LONG, f"{LONG[9:]} and", [None, None, PERSON]),
        # A row of the interface
        ("do it", "do it\n? for help", [Do.PRESS_ENTER, Do.PRESS_ENTER, PERSON]),
    ],
)
def test_what_is_in_the_box_after_a_paste(
    message: str, draft: str, expected: list[Do | str | None]
) -> None:
    box = BoxMemory(last_draft="first", known=frozenset({"", "ask"}))
    sending, look = Sending(Phase.PASTED, 0, message=message, box=box), AgentLook(0.5, IDLE, draft)
    # That the screen has changed may be reported later than it is seen.
    late = replace(look, now=CLEAR_SECONDS, still=CLEAR_SECONDS)
    looks = (replace(look, still=9), late, replace(look, now=BOX_SECONDS))
    actions = [after(sending, one) for one in looks]
    told = [one.detail.split()[1] if isinstance(one, Delivery) else one for one in actions]
    assert [None if isinstance(one, LookAgain) else one for one in told] == expected


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
    hidden = replace(PASTED, before=AgentLook(0, IDLE, ""))
    assert isinstance(after(hidden, AgentLook(1, IDLE, None, screen="m")), LookAgain)
    assert isinstance(after(ENTERED, AgentLook(CONFIRM_SECONDS - 0.01, IDLE, None)), LookAgain)


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
    [
        "Delete all files? [Y/n] ",
        "Run: rm -rf build\n1. Yes\n2. No\n> ",
        "Allow it?\n> ",
        "Enter your API key: ",
    ],
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
    assert isinstance(after(sending, look(BOX_SECONDS, "> do it")), LookAgain)
    assert isinstance(after(sending, look(0.2, "> do it\nsure")), LookAgain)


@pytest.mark.parametrize(
    ("message", "before", "now", "expected"),
    [
        ("do it", "do it", "do\nit", "again"),
        ("do it", "do it\n? for help", "do it", "again"),
        ("do it", "Pasted", "Pasted too", "wait"),
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
    then, action = advance(sending, look)
    assert (action is Do.PRESS_ENTER) == (expected == "again") != isinstance(action, LookAgain)
    assert then.before == sending.before
    late = after(sending, replace(look, now=BOX_SECONDS, still=1))
    assert (isinstance(late, Delivery) and late.confirmed) == (expected == "taken")


@given(
    st.lists(
        st.tuples(st.sampled_from(["", "", "", "zq", "d"]), st.booleans()), min_size=50, max_size=50
    ),
    st.booleans(),
)
def test_enter_is_never_pressed_on_what_a_person_types(
    steps: list[tuple[str, bool]], before: bool
) -> None:
    box, pasted, sending = "", "", Sending(since=0, message="do it")
    for number, (typed, hears) in enumerate(steps):
        box = typed + box if before else box + typed
        sending, action = advance(sending, AgentLook(number * 0.6, IDLE, box, still=0.6))
        # It is drawn a little later.
        box, pasted = box + pasted, ""
        match action:
            case Do.PASTE:
                pasted = "do it"
            case Do.PROBE:
                box += PROBE
            case Do.ERASE:
                box = box[:-1]
            case Do.PRESS_ENTER:
                assert box == "do it"
                box = "" if hears else box
            case Delivery() | Refuse():
                break


def test_nothing_is_pasted_or_submitted_while_a_person_types() -> None:
    typed = AgentLook(100.2, IDLE, "", touched_at=100)
    pasted = replace(PASTED, message="ours", since=100)
    for sending, draft, action in (
        (Sending(since=100), "", Do.PASTE),
        (pasted, "ours", Do.PRESS_ENTER),
    ):
        look = replace(typed, draft=draft)
        held, waits = advance(sending, look)
        assert held == sending
        assert isinstance(waits, LookAgain)
        assert waits.within == pytest.approx(PERSON_SECONDS - 0.2)
        assert after(sending, replace(look, now=100 + PERSON_SECONDS)) is action
        assert after(replace(sending, since=100.2 - BOX_SECONDS), look) is action, (
            "but not for ever"
        )


def test_what_a_person_has_typed_since_is_neither_submitted_nor_proof() -> None:
    theirs = AgentLook(100 + CLEAR_SECONDS, IDLE, "c yyxz c", still=CLEAR_SECONDS)
    pasted = replace(PASTED, message="ours", since=100)
    entered = replace(ENTERED, message="ours", since=100, before=AgentLook(99, IDLE, "ours"))
    for touched_at, submits, told in ((98, True, True), (99, True, True), (100, False, False)):
        look = replace(theirs, touched_at=touched_at, now=100 + 2 * CLEAR_SECONDS)
        assert (after(pasted, look) is Do.PRESS_ENTER) == submits
        assert isinstance(after(entered, look), Delivery) == told
    folded = replace(pasted, message=LONG)
    for draft, submits in (("[Pasted text #1]", True), ("[Pasted text #1] please", False)):
        look = replace(theirs, draft=draft, touched_at=100, now=100 + PERSON_SECONDS)
        assert (after(folded, look) is Do.PRESS_ENTER) == submits


LOOKS = st.tuples(
    st.sampled_from(list(TerminalStatus)),
    st.sampled_from([None, "", "text"]),
    st.sampled_from([None, "UserPromptSubmit"]),
    st.booleans(),
)


@given(st.lists(LOOKS, min_size=30, max_size=30), st.booleans())
def test_a_message_is_pasted_once_at_most_and_always_comes_to_an_end(
    looks: list[tuple[TerminalStatus, str | None, str | None, bool]], leftover: bool
) -> None:
    sending = Sending(box=BoxMemory(leftover=leftover))
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
MERGED = replace(PASTED, clears=MAX_CLEARS, message="b", box=BoxMemory(last_draft="a"))
PRESSED = replace(ENTERED, presses=len(ENTER_SECONDS))


BLIND = replace(ENTERED, blind=True, before=AgentLook(0, UNKNOWN, None, screen="a"))


@pytest.mark.parametrize(
    ("sending", "look", "expected"),
    [
        (Sending(), AgentLook(0, IDLE, ""), OURS),
        (PASTED, AgentLook(0, IDLE, "m"), BoxMemory(last_draft="m")),
        (ENTERED, AgentLook(0, IDLE, ""), BoxMemory()),
        (BLIND, AgentLook(1, UNKNOWN, None, screen="b"), BoxMemory(by_rest=True)),
        (BLIND, AgentLook(1, IDLE, None, screen="b"), BoxMemory()),
        (PASTED, AgentLook(BOX_SECONDS, IDLE, "m and"), BoxMemory()),
        (replace(PROBED, blind=True), AgentLook(PROBE_SECONDS, UNKNOWN, None), OURS),
        (PROBED, AgentLook(0, IDLE, f"{PROBE}\nrow"), BoxMemory(known=frozenset({"", "x", "row"}))),
    ],
)
def test_what_is_known_of_a_box_after_a_step(
    sending: Sending, look: AgentLook, expected: BoxMemory
) -> None:
    box = BoxMemory(leftover=sending.presses > 0 or look.now == BOX_SECONDS)
    assert advance(replace(sending, message="m", box=box), look)[0].box == expected


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
    # Enter is not pressed again where the box cannot be read.
    "no sign that": (BLIND, AgentLook(BOX_SECONDS, UNKNOWN, None, screen="a")),
    "Enter was pressed 5 times": (PRESSED, AgentLook(ENTER_SECONDS[-1], IDLE, "x")),
}
TAKEN = {
    "its hook": (ENTERED, AgentLook(0, IDLE, "x", taken="its hook")),
    "the agent is working": (ENTERED, AgentLook(0, PROCESSING, "x")),
    "the agent asks a question": (replace(ENTERED, asked_at=0), AgentLook(9, WAITING, "x")),
    "the input box is empty again": (ENTERED, AgentLook(0, IDLE, "")),
    "its screen changed": (BLIND, AgentLook(QUESTION_SECONDS, UNKNOWN, None, screen="b")),
}


@pytest.mark.parametrize(
    ("ends", "reason"), [(ends, one) for ends in (REFUSED, GIVEN_UP, TAKEN) for one in ends]
)
def test_every_end_says_why(ends: dict[str, tuple[Sending, AgentLook]], reason: str) -> None:
    sending, look = ends[reason]
    action = after(sending, look)
    assert isinstance(action, Refuse if ends is REFUSED else Delivery)
    assert reason in (action.reason if isinstance(action, Refuse) else action.detail)
    if isinstance(action, Delivery):
        assert (action.confirmed, action.enter_presses) == (ends is TAKEN, sending.presses)
