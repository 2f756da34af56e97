"""The status is folded from signals and screens by the rules at the top of tracker.py."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.models import Evidence, TerminalStatus
from cli_agent_orchestrator.providers.base import AgentSignal, SignalKind
from cli_agent_orchestrator.terminals import tracker
from cli_agent_orchestrator.terminals.tracker import (
    CONTRADICTIONS,
    DRAW_SECONDS,
    FLICKER_SECONDS,
    FRAME_SECONDS,
    HOLD_SECONDS,
    QUESTION_LAG,
    RECORD_LAG,
    REPORT_SECONDS,
    SCREEN_LAG,
    SEARCH_SECONDS,
    START_SECONDS,
    STATUS_OF_SIGNAL,
    TITLE_LAG,
    SignalSource,
    Track,
    Winner,
    judge,
)

IDLE = TerminalStatus.IDLE
COMPLETED = TerminalStatus.COMPLETED
PROCESSING = TerminalStatus.PROCESSING
WAITING = TerminalStatus.WAITING_USER_ANSWER
ERROR = TerminalStatus.ERROR
UNKNOWN = TerminalStatus.UNKNOWN

RECORDED = [SignalKind.ANSWERED, SignalKind.ERRED]
KINDS = list(STATUS_OF_SIGNAL)
TELLING = [kind for kind in KINDS if kind not in RECORDED]
SPEAKING = [SignalSource.HOOK, SignalSource.RECORD, SignalSource.STREAM, SignalSource.SUBMISSION]


def with_screen(track: Track, status: TerminalStatus, at: float, *, changed: bool = True) -> Track:
    return tracker.observe_screen(
        track, Evidence(SignalSource.SCREEN, status, "x", at), None, changed
    )


def with_signal(
    track: Track, kind: SignalKind, at: float, source: SignalSource = SignalSource.HOOK
) -> Track:
    return tracker.observe_signal(track, source, AgentSignal(kind, kind.value), at)


def test_what_nobody_has_seen_is_unknown() -> None:
    assert judge(Track(), 0).status is UNKNOWN


def test_a_screen_that_matches_nothing_is_unknown_and_never_idle() -> None:
    verdict = judge(with_screen(Track(), UNKNOWN, 1), 100)
    assert verdict.status is UNKNOWN
    assert "matches nothing" in verdict.reason


def test_a_screen_that_matches_nothing_for_a_moment_is_half_a_frame() -> None:
    track = with_screen(with_screen(Track(), IDLE, 1), UNKNOWN, 5)
    verdict = judge(track, 5)
    assert (verdict.status, verdict.until) == (IDLE, 5 + FRAME_SECONDS)
    assert judge(track, 5 + FRAME_SECONDS).status is UNKNOWN
    assert judge(with_screen(track, UNKNOWN, 5.4), 5 + FRAME_SECONDS).status is UNKNOWN
    assert judge(with_screen(track, COMPLETED, 5.4), 5.4).status is COMPLETED


@pytest.mark.parametrize("status", [s for s in TerminalStatus if s is not UNKNOWN])
def test_without_signals_the_screen_decides(status: TerminalStatus) -> None:
    assert judge(with_screen(Track(), status, 1), 1).status is status


@pytest.mark.parametrize("before", [None, IDLE, PROCESSING])
def test_an_end_that_only_the_screen_tells_waits_for_the_record_of_an_agent_that_keeps_one(
    before: TerminalStatus | None,
) -> None:
    track = Track(keeps_record=True)
    track = with_screen(track, before, 9) if before else track
    track = with_screen(with_screen(track, COMPLETED, 10), COMPLETED, 11)
    verdict = judge(track, 10 + SEARCH_SECONDS - 0.1)
    assert (verdict.status, verdict.until) == (PROCESSING, 10 + SEARCH_SECONDS)
    assert verdict.reason == "screen: x; its session record is looked for"
    assert judge(track, 10 + SEARCH_SECONDS).status is COMPLETED
    assert judge(replace(track, keeps_record=False), 11).status is COMPLETED
    for kind, status in ((SignalKind.WORKING, PROCESSING), (SignalKind.FINISHED, COMPLETED)):
        assert judge(with_signal(track, kind, 11, SignalSource.RECORD), 11).status is status


def test_half_a_frame_neither_ends_the_wait_for_a_record_nor_begins_it_anew() -> None:
    track = with_screen(with_screen(Track(keeps_record=True), COMPLETED, 10), UNKNOWN, 11)
    verdict = judge(track, 11)
    assert (verdict.status, verdict.until) == (PROCESSING, 11 + FRAME_SECONDS)
    late = with_screen(track, UNKNOWN, 10 + SEARCH_SECONDS)
    assert judge(late, 10 + SEARCH_SECONDS).status is UNKNOWN
    back = with_screen(track, COMPLETED, 11.2)
    assert judge(back, 11.2).until == 10 + SEARCH_SECONDS
    assert judge(back, 10 + SEARCH_SECONDS).status is COMPLETED
    again = with_screen(with_screen(back, PROCESSING, 20), COMPLETED, 21)
    assert judge(again, 21).until == 21 + SEARCH_SECONDS


@pytest.mark.parametrize("status", [IDLE, PROCESSING, WAITING, ERROR])
def test_only_an_end_waits_for_the_record(status: TerminalStatus) -> None:
    assert judge(with_screen(Track(keeps_record=True), status, 10), 10).status is status


@pytest.mark.parametrize("kind", TELLING)
def test_without_a_screen_the_signal_decides(kind: SignalKind) -> None:
    assert judge(with_signal(Track(), kind, 1), 1 + RECORD_LAG).status is STATUS_OF_SIGNAL[kind]


@pytest.mark.parametrize("kind", [kind for kind in TELLING if kind is not SignalKind.STOPPED])
def test_a_fresh_signal_is_believed_before_the_screen_follows(kind: SignalKind) -> None:
    signal = STATUS_OF_SIGNAL[kind]
    for screen in TerminalStatus:
        if CONTRADICTIONS.get((signal, screen)) is not Winner.SCREEN_AT_ONCE:
            track = with_signal(with_screen(Track(), screen, 9.9), kind, 10, SignalSource.RECORD)
            assert judge(track, 10.01).status is signal, screen


@pytest.mark.parametrize("kind", TELLING)
def test_an_old_contradiction_goes_to_whom_the_table_names(kind: SignalKind) -> None:
    signal = STATUS_OF_SIGNAL[kind]
    for screen, source in itertools.product(TerminalStatus, SPEAKING):
        # The screen is read first: one that shows work would make a submission old news.
        track = with_signal(with_screen(Track(), screen, 9), kind, 10, source)
        if track.signal is None:  # the hook of a start that is long over
            assert (kind, source) == (SignalKind.READY, SignalSource.HOOK)
            continue
        winner = CONTRADICTIONS.get((signal, screen), Winner.SIGNAL)
        if winner is Winner.STILL_SCREEN and source is SignalSource.RECORD:
            winner = Winner.SIGNAL
        expected = signal if winner is Winner.SIGNAL else screen
        assert judge(track, 1000).status is expected, (screen, source)


@pytest.mark.parametrize("screen", [IDLE, COMPLETED])
def test_a_turn_of_which_a_record_tells_is_ended_by_the_record_alone(
    screen: TerminalStatus,
) -> None:
    track = with_signal(Track(), SignalKind.WORKING, 10, SignalSource.RECORD)
    track = with_screen(track, screen, 11)
    verdict = judge(track, 100_000)
    assert (verdict.status, verdict.until) == (PROCESSING, None)
    track = with_signal(track, SignalKind.FINISHED, 100_001, SignalSource.RECORD)
    assert judge(track, 100_001).status is COMPLETED


def test_a_record_ends_the_turn_too_when_a_stream_told_of_a_question_in_it() -> None:
    track = with_signal(Track(), SignalKind.WORKING, 10, SignalSource.RECORD)
    track = with_signal(track, SignalKind.WAITING, 11, SignalSource.STREAM)
    track = with_signal(track, SignalKind.WORKING, 12, SignalSource.STREAM)
    assert judge(with_screen(track, COMPLETED, 13), 100_000).status is PROCESSING


def test_a_record_that_is_found_in_mid_turn_ends_it_also_if_a_stream_told_of_it_first() -> None:
    track = with_signal(Track(), SignalKind.WORKING, 10.1, SignalSource.STREAM)
    track = with_signal(track, SignalKind.WORKING, 10, SignalSource.RECORD)
    assert judge(with_screen(track, COMPLETED, 13), 100_000).status is PROCESSING


@pytest.mark.parametrize("kind", [SignalKind.FINISHED, SignalKind.INTERRUPTED, SignalKind.FAILED])
def test_a_question_on_the_screen_is_not_hidden_by_the_end_of_another_turn(
    kind: SignalKind,
) -> None:
    track = with_signal(with_screen(Track(), WAITING, 9), kind, 10, SignalSource.RECORD)
    assert judge(track, 10).status is WAITING
    track = with_screen(track, COMPLETED, 11)
    assert judge(track, 11).status is STATUS_OF_SIGNAL[kind]


@pytest.mark.parametrize("source", SPEAKING)
def test_a_question_that_comes_up_after_a_signal_is_believed_at_once(source: SignalSource) -> None:
    track = with_signal(with_screen(Track(), IDLE, 9), SignalKind.WORKING, 10, source)
    assert judge(with_screen(track, WAITING, 10.1), 10.1).status is WAITING


@pytest.mark.parametrize(
    "source", [source for source in SPEAKING if source is not SignalSource.HOOK]
)
def test_a_question_that_stood_there_before_a_signal_may_have_been_answered(
    source: SignalSource,
) -> None:
    track = with_signal(with_screen(Track(), WAITING, 9), SignalKind.WORKING, 10, source)
    assert judge(track, 10.1).status is PROCESSING
    assert judge(track, 10 + SCREEN_LAG).status is WAITING


@pytest.mark.parametrize(
    "source", [source for source in SPEAKING if source is not SignalSource.HOOK]
)
def test_a_question_that_is_seen_in_the_moment_of_a_signal_may_be_an_older_one(
    source: SignalSource,
) -> None:
    told = Track(signal=Evidence(source, PROCESSING, "x", 10))
    seen = Evidence(SignalSource.SCREEN, WAITING, "x", 10)
    assert judge(replace(told, screen=seen), 10).status is PROCESSING
    later = replace(told, screen=replace(seen, at=10.1))
    assert judge(later, 10.1).status is WAITING


@pytest.mark.parametrize("kind", [SignalKind.WORKING, SignalKind.BACKGROUND])
def test_a_question_on_the_screen_is_not_hidden_by_the_work_of_another_agent(
    kind: SignalKind,
) -> None:
    track = with_screen(Track(), WAITING, 10)
    for tenth in range(100, 200):
        track = with_signal(track, kind, tenth / 10)
        assert judge(track, tenth / 10).status is WAITING
    assert judge(with_screen(track, PROCESSING, 20), 20).status is PROCESSING


def asked_by(agent: str | None) -> Track:
    track = with_screen(with_signal(Track(), SignalKind.SUBMITTED, 8), PROCESSING, 9)
    asks = AgentSignal(SignalKind.WAITING, "asks", agent=agent)
    return tracker.observe_signal(track, SignalSource.HOOK, asks, 10)


@pytest.mark.parametrize(
    "kind",
    [SignalKind.WORKING, SignalKind.BACKGROUND, SignalKind.FINISHED, SignalKind.STOPPED],
)
def test_a_question_that_is_not_drawn_yet_is_not_hidden_by_another_agent(kind: SignalKind) -> None:
    other = AgentSignal(kind, "beside", agent="")
    track = tracker.observe_signal(asked_by("a7"), SignalSource.HOOK, other, 10.1)
    assert judge(track, 10.2).status is WAITING
    own = AgentSignal(SignalKind.WORKING, "PostToolUse", agent="a7")
    answered = tracker.observe_signal(track, SignalSource.HOOK, own, 10.3)
    assert judge(answered, 10.3).status is PROCESSING


@pytest.mark.parametrize(("asker", "worker"), [(None, "a7"), ("a7", None), ("a7", "a7")])
def test_a_question_is_over_when_its_agent_or_one_without_a_name_works(
    asker: str | None, worker: str | None
) -> None:
    works = AgentSignal(SignalKind.WORKING, "PostToolUse", agent=worker)
    track = tracker.observe_signal(asked_by(asker), SignalSource.HOOK, works, 10.1)
    assert judge(track, 10.1).status is PROCESSING


def test_an_answered_question_that_is_still_drawn_is_not_asked_again_by_the_work_of_another() -> (
    None
):
    track = with_screen(asked_by("a7"), WAITING, 10.1)
    prompt = AgentSignal(SignalKind.SUBMITTED, "UserPromptSubmit")
    track = tracker.observe_signal(track, SignalSource.HOOK, prompt, 11)
    left = AgentSignal(SignalKind.BACKGROUND, "Stop; in the background: subagent", agent="")
    track = tracker.observe_signal(track, SignalSource.HOOK, left, 11.1)
    verdict = judge(track, 11.1)
    assert (verdict.status, verdict.until) == (PROCESSING, 11 + SCREEN_LAG)
    assert judge(track, 11 + SCREEN_LAG).status is WAITING
    again = with_screen(with_screen(track, PROCESSING, 11.2), WAITING, 11.3)
    assert judge(again, 11.3).status is WAITING


def test_a_question_that_is_seen_in_the_moment_of_an_answer_is_the_answered_one() -> None:
    prompt = AgentSignal(SignalKind.SUBMITTED, "UserPromptSubmit")
    track = tracker.observe_signal(asked_by("a7"), SignalSource.HOOK, prompt, 11)
    track = with_screen(track, WAITING, 11)
    assert judge(with_signal(track, SignalKind.WORKING, 11.1), 11.1).status is PROCESSING


@pytest.mark.parametrize("asker", ["a7", None])
def test_a_question_that_is_told_of_twice_is_not_hidden_by_the_work_of_another(
    asker: str | None,
) -> None:
    track = with_screen(asked_by(asker), WAITING, 10.1)
    reminder = AgentSignal(SignalKind.WAITING, "Notification: permission_prompt")
    track = tracker.observe_signal(track, SignalSource.HOOK, reminder, 16)
    works = AgentSignal(SignalKind.WORKING, "PostToolUse", agent="a8")
    track = tracker.observe_signal(track, SignalSource.HOOK, works, 17)
    assert judge(track, 17).status is WAITING


def test_an_answered_question_is_over_although_it_is_still_drawn() -> None:
    track = with_screen(asked_by("a7"), WAITING, 10.1)
    own = AgentSignal(SignalKind.WORKING, "PostToolUse", agent="a7")
    track = tracker.observe_signal(track, SignalSource.HOOK, own, 11)
    assert judge(track, 11).status is PROCESSING
    assert judge(track, 11 + SCREEN_LAG).status is WAITING


def stopped(track: Track, at: float, background: bool | None = None) -> Track:
    stop = AgentSignal(SignalKind.FINISHED, "Stop", background=background, revocable=True)
    return tracker.observe_signal(track, SignalSource.HOOK, stop, at)


def consulted(count: int) -> Track:
    asked = AgentSignal(SignalKind.CONSULTED, "stop_hook_summary", consulted=count)
    return tracker.observe_signal(Track(), SignalSource.RECORD, asked, 5)


@pytest.mark.parametrize("before", [Track(), consulted(2)])
def test_an_end_that_another_program_may_object_to_waits_for_the_screen(before: Track) -> None:
    track = stopped(with_screen(before, PROCESSING, 9), 10)
    assert judge(track, 10).status is PROCESSING
    assert judge(track, 100).status is PROCESSING
    assert judge(with_screen(track, COMPLETED, 10.1), 10.1).status is COMPLETED


@pytest.mark.parametrize("before", [Track(), consulted(2)])
@pytest.mark.parametrize("rest", [IDLE, COMPLETED])
def test_an_end_that_may_be_taken_back_waits_for_the_first_sight_of_its_work(
    before: Track, rest: TerminalStatus
) -> None:
    track = with_screen(with_screen(before, PROCESSING, 7), rest, 8)
    track = stopped(with_screen(with_signal(track, SignalKind.SUBMITTED, 9), rest, 9.1), 9.2)
    verdict = judge(track, 9.2)
    assert (verdict.status, verdict.until) == (PROCESSING, 9.2 + DRAW_SECONDS)
    assert "no work was drawn yet" in verdict.reason
    assert judge(with_screen(track, PROCESSING, 9.3), 9.2 + DRAW_SECONDS).status is PROCESSING
    assert judge(track, 9.2 + DRAW_SECONDS).status is COMPLETED
    drawn = with_screen(with_screen(track, PROCESSING, 9.3), rest, 9.4)
    assert judge(drawn, 9.4).status is COMPLETED


def test_a_failure_that_no_hook_can_object_to_is_told_at_once() -> None:
    track = with_screen(with_signal(Track(), SignalKind.SUBMITTED, 9), IDLE, 9.1)
    assert judge(with_signal(track, SignalKind.FAILED, 9.2), 9.2).status is ERROR
    assert judge(with_signal(track, SignalKind.FINISHED, 9.2), 9.2).status is COMPLETED


def test_an_end_of_a_turn_whose_begin_was_not_told_is_told_at_once() -> None:
    assert judge(stopped(with_screen(Track(), IDLE, 9), 10), 10).status is COMPLETED


def test_an_end_that_nobody_else_was_asked_about_is_told_at_once() -> None:
    undrawn = with_screen(with_signal(consulted(1), SignalKind.SUBMITTED, 8), IDLE, 9)
    assert judge(stopped(undrawn, 10), 10).status is COMPLETED
    track = stopped(with_screen(consulted(1), PROCESSING, 9), 10)
    assert judge(track, 10).status is COMPLETED


def test_an_end_may_leave_something_at_work_that_no_signal_tells_of() -> None:
    in_background = AgentSignal(SignalKind.WORKING, "PostToolUse", background=True)
    track = tracker.observe_signal(consulted(1), SignalSource.HOOK, in_background, 8)
    track = with_screen(track, PROCESSING, 9)
    assert judge(stopped(track, 10), 10).status is PROCESSING
    over = with_screen(stopped(track, 10, background=False), COMPLETED, 10.1)
    assert judge(over, 10 + REPORT_SECONDS).status is COMPLETED


@pytest.mark.parametrize("told", [False, None])
def test_an_end_waits_for_the_report_of_what_was_put_in_the_background(told: bool | None) -> None:
    in_background = AgentSignal(SignalKind.WORKING, "PostToolUse", background=True)
    track = tracker.observe_signal(consulted(1), SignalSource.HOOK, in_background, 8)
    track = stopped(with_screen(track, COMPLETED, 9), 10, background=told)
    verdict = judge(track, 10)
    assert (verdict.status, verdict.until) == (PROCESSING, 10 + REPORT_SECONDS)
    assert "may still be reported" in verdict.reason
    assert judge(track, 10 + REPORT_SECONDS).status is COMPLETED
    assert judge(with_screen(track, PROCESSING, 10.1), 10 + REPORT_SECONDS).status is PROCESSING
    reported = with_signal(track, SignalKind.SUBMITTED, 10.5)
    assert judge(stopped(reported, 11, background=False), 11).status is COMPLETED
    again = stopped(with_signal(track, SignalKind.WORKING, 10.5), 11, background=False)
    assert judge(again, 11).status is PROCESSING


def test_a_screen_that_matches_nothing_takes_back_nothing_that_ran_in_the_background() -> None:
    in_background = AgentSignal(SignalKind.WORKING, "PostToolUse", background=True)
    used = tracker.observe_signal(consulted(1), SignalSource.HOOK, in_background, 8)
    track = stopped(with_screen(used, PROCESSING, 9), 10)
    hidden = with_screen(track, UNKNOWN, 20)
    assert judge(hidden, 100).status is PROCESSING
    assert judge(with_screen(hidden, COMPLETED, 101), 101).status is COMPLETED
    seen_over = with_screen(with_screen(track, COMPLETED, 15), UNKNOWN, 20)
    assert judge(seen_over, 100).status is COMPLETED
    nothing_left = with_screen(stopped(track, 11, background=False), UNKNOWN, 20)
    assert judge(nothing_left, 100).status is COMPLETED


def test_what_works_in_the_background_is_work() -> None:
    left = AgentSignal(SignalKind.BACKGROUND, "Stop; in the background: shell", revocable=True)
    track = with_screen(Track(), COMPLETED, 9)
    track = tracker.observe_signal(track, SignalSource.HOOK, left, 10)
    assert judge(track, 10).status is PROCESSING
    assert judge(track, 10 + HOLD_SECONDS[SignalSource.HOOK]).status is COMPLETED
    assert judge(with_screen(track, PROCESSING, 11), 1000).status is PROCESSING


def test_a_turn_that_ends_without_a_word_was_stopped_by_a_person() -> None:
    submitted = AgentSignal(SignalKind.SUBMITTED, "UserPromptSubmit", ends_aloud=True)
    track = tracker.observe_signal(
        with_screen(Track(), COMPLETED, 9), SignalSource.HOOK, submitted, 10
    )
    verdict = judge(track, 10 + HOLD_SECONDS[SignalSource.HOOK])
    assert verdict.status is IDLE
    assert "no end was told" in verdict.reason


def test_a_conversation_that_is_shortened_goes_on_with_what_it_did() -> None:
    for before, expected in (
        (SignalKind.SUBMITTED, PROCESSING),
        (SignalKind.WAITING, PROCESSING),
        (SignalKind.FINISHED, IDLE),
        (SignalKind.READY, IDLE),
    ):
        track = with_signal(with_signal(Track(), before, 9), SignalKind.SHORTENED, 10)
        assert judge(track, 10).status is expected


def shortening(at: float) -> Track:
    """Return what is known when a person has a conversation shortened soon after a turn."""
    track = stopped(with_screen(consulted(1), COMPLETED, at - 1), at - 0.5, background=False)
    begun = AgentSignal(SignalKind.SHORTENING, "PreCompact", ends_aloud=True)
    return tracker.observe_signal(track, SignalSource.HOOK, begun, at)


def test_a_conversation_that_a_person_has_shortened_is_work_at_once_and_idle_after_it() -> None:
    track = shortening(10)
    assert judge(track, 10).status is PROCESSING
    track = with_screen(track, PROCESSING, 10.1)
    assert judge(track, 20).status is PROCESSING
    track = with_signal(track, SignalKind.SHORTENED, 21)
    assert judge(track, 21).status is IDLE
    assert judge(with_screen(track, COMPLETED, 21.1), 1000).status is IDLE


def test_a_shortening_that_a_person_stops_leaves_an_idle_agent() -> None:
    untitled = with_screen(shortening(10), COMPLETED, 11)
    assert judge(untitled, 11 + HOLD_SECONDS[SignalSource.HOOK]).status is IDLE
    titled = with_title(with_title(shortening(10), PROCESSING, PROCESSING), COMPLETED, None)
    assert judge(titled, 11 + TITLE_LAG).status is IDLE


def test_a_new_conversation_is_idle_whatever_was_before() -> None:
    for before in (SignalKind.FINISHED, SignalKind.FAILED, SignalKind.SUBMITTED):
        track = with_signal(with_signal(Track(), before, 9), SignalKind.CLEARED, 10)
        assert judge(track, 10).status is IDLE


def test_an_error_that_comes_up_is_believed_at_once_where_screens_are_drawn_in_time() -> None:
    for source, expected in ((SignalSource.RECORD, ERROR), (SignalSource.HOOK, PROCESSING)):
        track = with_signal(with_screen(Track(), IDLE, 9), SignalKind.WORKING, 10, source)
        assert judge(with_screen(track, ERROR, 10.1), 10.1).status is expected


def test_streaming_without_a_busy_mark_is_still_processing() -> None:
    track = with_signal(Track(), SignalKind.SUBMITTED, 10)
    for second in range(11, 300):
        track = with_screen(track, COMPLETED, second)
        assert judge(track, second + 0.9).status is PROCESSING


def test_an_interrupt_without_a_signal_shows_after_the_screen_stood_still() -> None:
    track = with_screen(with_signal(Track(), SignalKind.SUBMITTED, 10), IDLE, 20)
    track = with_screen(track, IDLE, 25, changed=False)
    verdict = judge(track, 25)
    assert verdict.status is PROCESSING
    assert verdict.until == 20 + HOLD_SECONDS[SignalSource.HOOK]
    assert judge(track, verdict.until).status is IDLE


def test_a_submission_seen_on_the_screen_is_old_news() -> None:
    track = with_screen(tracker.observe_submission(Track(), "taken", 10), PROCESSING, 10.2)
    assert judge(with_screen(track, COMPLETED, 11), 11).status is COMPLETED


def test_a_submission_covers_the_moment_before_the_screen_shows_it() -> None:
    track = with_screen(Track(), COMPLETED, 5)
    track = tracker.observe_submission(track, "taken", 10)
    assert judge(track, 10.5).status is PROCESSING
    assert judge(track, 10 + HOLD_SECONDS[SignalSource.SUBMISSION]).status is COMPLETED


def test_the_hook_of_the_start_that_comes_after_the_first_prompt_says_nothing() -> None:
    working = with_screen(tracker.observe_submission(Track(), "taken", 10), PROCESSING, 10.1)
    assert judge(with_signal(working, SignalKind.READY, 10.2), 10.3).status is PROCESSING
    finished = with_signal(working, SignalKind.FINISHED, 11)
    assert judge(with_signal(finished, SignalKind.READY, 11.1), 11.2).status is COMPLETED


def test_a_turn_that_stopped_is_work_until_the_record_tells_how() -> None:
    stopped = with_signal(Track(), SignalKind.STOPPED, 10)
    assert judge(stopped, 10.1).status is PROCESSING
    assert judge(stopped, 10 + RECORD_LAG).status is COMPLETED
    answered = with_signal(stopped, SignalKind.ANSWERED, 10.2, SignalSource.RECORD)
    assert judge(answered, 10.2).status is COMPLETED
    failed = with_signal(stopped, SignalKind.ERRED, 10.2, SignalSource.RECORD)
    assert judge(failed, 10.2).status is ERROR


@pytest.mark.parametrize(
    ("said", "status"), [(SignalKind.ANSWERED, COMPLETED), (SignalKind.ERRED, ERROR)]
)
def test_a_turn_that_stopped_after_the_record_told_how_is_over_at_once(
    said: SignalKind, status: TerminalStatus
) -> None:
    track = with_signal(Track(), said, 9, SignalSource.RECORD)
    assert judge(with_signal(track, SignalKind.STOPPED, 10), 10).status is status


def test_a_turn_that_stopped_has_failed_if_the_screen_shows_an_error() -> None:
    stopped = with_signal(with_screen(Track(), ERROR, 9), SignalKind.STOPPED, 10)
    assert judge(stopped, 10).status is ERROR
    answered = with_signal(stopped, SignalKind.ANSWERED, 10.1, SignalSource.RECORD)
    assert judge(answered, 10.1).status is COMPLETED


def test_a_stop_after_a_failure_is_that_of_the_same_turn() -> None:
    failed = with_signal(Track(), SignalKind.FAILED, 10, SignalSource.RECORD)
    assert with_signal(failed, SignalKind.STOPPED, 10.1, SignalSource.RECORD) == failed


@pytest.mark.parametrize("kind", [kind for kind in TELLING if kind is not SignalKind.STOPPED])
def test_what_the_record_has_changes_nothing_where_a_hook_tells_how_a_turn_ended(
    kind: SignalKind,
) -> None:
    for said in RECORDED:
        track = with_signal(with_signal(Track(), kind, 10), said, 10.2, SignalSource.RECORD)
        assert judge(track, 10.3).status is STATUS_OF_SIGNAL[kind]


@pytest.mark.parametrize("work", [SignalKind.WORKING, SignalKind.SUBMITTED])
def test_what_was_said_before_more_work_is_not_the_answer(work: SignalKind) -> None:
    track = with_signal(Track(), SignalKind.ANSWERED, 8, SignalSource.RECORD)
    track = with_signal(with_signal(track, work, 9), SignalKind.STOPPED, 10)
    assert judge(track, 10.1).status is PROCESSING


@pytest.mark.parametrize("source", [SignalSource.HOOK, SignalSource.STREAM])
def test_a_message_is_taken_although_the_start_is_told_in_between(source: SignalSource) -> None:
    track = with_signal(Track(), SignalKind.READY, 10.2, source)
    track = tracker.observe_submission(track, "the input box is empty again", at=10.0)
    assert judge(track, 10.3).status is PROCESSING


@pytest.mark.parametrize("before", [[], [SignalKind.WORKING]])
def test_a_stream_that_is_idle_right_after_a_message_tells_of_the_start(
    before: list[SignalKind],
) -> None:
    track = tracker.observe_submission(Track(), "the input box is empty again", 10)
    for kind in before:
        track = with_signal(track, kind, 10.1, SignalSource.STREAM)
    told = with_signal(track, SignalKind.INTERRUPTED, 10.2, SignalSource.STREAM)
    assert judge(told, 10.2).status is PROCESSING
    recorded = with_signal(told, SignalKind.INTERRUPTED, 10.3, SignalSource.RECORD)
    assert judge(recorded, 10.3).status is IDLE
    later = with_signal(track, SignalKind.INTERRUPTED, 10 + START_SECONDS, SignalSource.STREAM)
    assert judge(later, 10 + START_SECONDS).status is IDLE


STREAM_KINDS = [
    SignalKind.READY,
    SignalKind.WORKING,
    SignalKind.WAITING,
    SignalKind.FINISHED,
    SignalKind.FAILED,
]


@pytest.mark.parametrize("end", [SignalKind.FINISHED, SignalKind.FAILED, SignalKind.INTERRUPTED])
def test_a_stream_that_is_behind_the_record_cannot_undo_the_end_of_a_turn(end: SignalKind) -> None:
    track = with_signal(Track(), end, 10, SignalSource.RECORD)
    for late in STREAM_KINDS:
        assert with_signal(track, late, 10.1, SignalSource.STREAM) == track


@pytest.mark.parametrize("late", [kind for kind in STREAM_KINDS if kind is not SignalKind.WAITING])
def test_a_stream_that_is_a_turn_behind_says_nothing_of_the_turn_that_has_begun(
    late: SignalKind,
) -> None:
    track = with_signal(Track(), SignalKind.WORKING, 10, SignalSource.RECORD)
    assert with_signal(track, late, 10.1, SignalSource.STREAM) == track


def test_the_stream_tells_of_a_question_where_the_record_does_not() -> None:
    working = with_signal(Track(), SignalKind.WORKING, 10, SignalSource.RECORD)
    asked = with_signal(working, SignalKind.WAITING, 11, SignalSource.STREAM)
    assert judge(asked, 11).status is WAITING
    answered = with_signal(asked, SignalKind.WORKING, 12, SignalSource.STREAM)
    assert judge(answered, 12).status is PROCESSING
    done = with_signal(answered, SignalKind.FINISHED, 13, SignalSource.RECORD)
    assert judge(done, 13).status is COMPLETED


def asked_at_the_end_of_a_turn() -> Track:
    """Return what is known when a stream told of a question, and then a record of an end."""
    track = with_signal(Track(), SignalKind.WORKING, 10, SignalSource.RECORD)
    track = with_signal(
        with_screen(track, PROCESSING, 10.5), SignalKind.WAITING, 11, SignalSource.STREAM
    )
    return with_signal(track, SignalKind.FINISHED, 11.02, SignalSource.RECORD)


def test_a_question_that_the_stream_told_of_is_not_hidden_by_the_end_of_another_turn() -> None:
    track = asked_at_the_end_of_a_turn()
    verdict = judge(track, 11.02)
    assert (verdict.status, verdict.until) == (WAITING, 11.02 + QUESTION_LAG)
    assert verdict.reason.startswith("stream state: waiting")
    half_drawn = with_screen(track, COMPLETED, 11.03)
    assert judge(half_drawn, 11.03).status is WAITING
    drawn = with_screen(half_drawn, WAITING, 11.05)
    assert judge(drawn, 11.05).status is WAITING
    assert judge(drawn, 1000).status is WAITING
    assert judge(with_screen(drawn, COMPLETED, 20), 20).status is COMPLETED


def test_a_question_that_is_not_drawn_in_time_was_one_of_the_turn_that_ended() -> None:
    track = asked_at_the_end_of_a_turn()
    assert judge(track, 11.02 + QUESTION_LAG).status is COMPLETED


@pytest.mark.parametrize("kind", [SignalKind.WORKING, SignalKind.READY, SignalKind.FINISHED])
def test_a_question_is_over_at_once_if_the_stream_says_so_after_the_end(kind: SignalKind) -> None:
    track = with_signal(asked_at_the_end_of_a_turn(), kind, 11.1, SignalSource.STREAM)
    assert judge(track, 11.1).status is COMPLETED


@pytest.mark.parametrize("kind", [SignalKind.INTERRUPTED, SignalKind.FAILED, SignalKind.SUBMITTED])
def test_a_question_is_over_at_once_if_the_record_tells_more_than_an_end(kind: SignalKind) -> None:
    track = with_signal(Track(), SignalKind.WORKING, 10, SignalSource.RECORD)
    track = with_signal(track, SignalKind.WAITING, 11, SignalSource.STREAM)
    for before in (track, asked_at_the_end_of_a_turn()):
        after = with_signal(before, kind, 11.1, SignalSource.RECORD)
        assert judge(after, 11.1).status is STATUS_OF_SIGNAL[kind]


def test_a_message_that_was_taken_does_not_undo_the_end_of_its_turn() -> None:
    track = with_signal(Track(), SignalKind.FINISHED, 10.2)
    track = tracker.observe_submission(track, "the input box is empty again", at=10.0)
    assert judge(track, 10.3).status is COMPLETED


def with_title(track: Track, status: TerminalStatus, title: TerminalStatus | None) -> Track:
    said = Evidence(SignalSource.TITLE, title, "x", 11) if title else None
    seen = Evidence(SignalSource.SCREEN, status, "x", 11)
    return tracker.observe_screen(track, seen, said, changed=True)


@pytest.mark.parametrize("title", [None, IDLE])
def test_a_title_that_told_of_work_before_tells_of_rest_by_its_silence(
    title: TerminalStatus | None,
) -> None:
    track = with_signal(Track(), SignalKind.SUBMITTED, 10)
    worked = with_title(track, PROCESSING, PROCESSING)
    stopped = with_title(worked, IDLE, title)
    assert judge(stopped, 11 + TITLE_LAG - 0.1).status is PROCESSING
    assert judge(stopped, 11 + TITLE_LAG).status is IDLE


def test_a_title_that_told_of_work_in_the_moment_of_a_signal_told_of_what_was_before() -> None:
    track = with_title(with_signal(Track(), SignalKind.SUBMITTED, 11), PROCESSING, PROCESSING)
    track = with_title(track, IDLE, None)
    assert judge(track, 11 + TITLE_LAG).status is PROCESSING
    assert judge(track, 11 + SCREEN_LAG).status is IDLE


def test_a_message_that_the_agent_has_not_confirmed_may_be_ahead_of_its_title() -> None:
    worked = with_title(Track(), PROCESSING, PROCESSING)
    rested = with_title(with_signal(worked, SignalKind.FINISHED, 11), COMPLETED, None)
    track = tracker.observe_submission(rested, "the input box is empty again", 20)
    assert judge(track, 20 + SCREEN_LAG).status is PROCESSING
    assert judge(track, 20 + HOLD_SECONDS[SignalSource.SUBMISSION]).status is COMPLETED


def test_the_explanation_names_what_told_how_an_open_end_was() -> None:
    track = with_signal(Track(), SignalKind.ERRED, 9, SignalSource.RECORD)
    pieces = tracker.explain(with_signal(track, SignalKind.STOPPED, 10), 10).evidence
    assert [(piece.source, piece.status) for piece in pieces] == [
        (SignalSource.HOOK, COMPLETED),
        (SignalSource.RECORD, ERROR),
    ]


def test_what_a_record_has_of_an_end_that_nobody_told_is_no_evidence() -> None:
    track = with_signal(Track(), SignalKind.ANSWERED, 9, SignalSource.RECORD)
    assert tracker.explain(track, 10).evidence == ()


def test_a_title_that_never_told_anything_says_nothing_by_its_silence() -> None:
    track = with_title(with_signal(Track(), SignalKind.SUBMITTED, 10), IDLE, None)
    assert judge(track, 11 + SCREEN_LAG).status is PROCESSING


def test_an_interrupt_that_the_stream_reports_as_idle_counts() -> None:
    working = with_signal(Track(), SignalKind.WORKING, 10, SignalSource.STREAM)
    assert judge(with_signal(working, SignalKind.READY, 11, SignalSource.STREAM), 11).status is IDLE


def test_of_signals_at_the_same_time_the_last_one_counts() -> None:
    track = with_signal(with_signal(Track(), SignalKind.SUBMITTED, 10), SignalKind.FINISHED, 10)
    assert judge(track, 10).status is COMPLETED


def test_an_older_signal_does_not_undo_a_newer_one() -> None:
    track = with_signal(Track(), SignalKind.FINISHED, 10)
    assert with_signal(track, SignalKind.SUBMITTED, 9) == track


def test_a_program_that_ended_is_in_error_whatever_else_is_said() -> None:
    track = with_screen(with_signal(Track(), SignalKind.FINISHED, 10), COMPLETED, 10)
    track = tracker.observe_end(track, "the program ended with code 3", 11)
    verdict = judge(with_signal(track, SignalKind.WORKING, 12), 12)
    assert verdict.status is ERROR
    assert verdict.reason == "the program ended with code 3"


def test_the_explanation_has_every_piece_of_evidence_newest_first() -> None:
    track = with_signal(Track(), SignalKind.FINISHED, 10)
    track = tracker.observe_screen(
        track,
        Evidence(SignalSource.SCREEN, COMPLETED, "looks completed", 12),
        Evidence(SignalSource.TITLE, IDLE, "agent", 11),
        changed=True,
    )
    explanation = tracker.explain(track, 13)
    assert explanation.status is COMPLETED
    assert [piece.source for piece in explanation.evidence] == ["screen", "title", "hook"]


def test_what_a_screen_says_is_as_old_as_it_says_so() -> None:
    track = Track()
    for status, at in ((PROCESSING, 5.0), (IDLE, 10.0), (IDLE, 20.0)):
        seen = Evidence(SignalSource.SCREEN, status, "", at, found=at == 10)
        title = Evidence(SignalSource.TITLE, status, f"agent {at}", at)
        track = tracker.observe_screen(track, seen, title, changed=True)
    told = {one.source: one for one in tracker.explain(track, 21).evidence}
    assert told["screen"] == Evidence(SignalSource.SCREEN, IDLE, "", 10.0, found=True)
    assert told["title"] == Evidence(SignalSource.TITLE, IDLE, "agent 20.0", 10.0)


REPORTS = st.lists(
    st.one_of(
        st.tuples(st.just("signal"), st.sampled_from(KINDS), st.sampled_from(SPEAKING)),
        st.tuples(st.just("screen"), st.sampled_from(list(TerminalStatus)), st.booleans()),
    ),
    max_size=12,
)


@given(REPORTS, st.floats(0, 200))
def test_judging_is_repeatable_and_a_verdict_holds_until_it_says(
    reports: list[tuple[str, object, object]], wait: float
) -> None:
    track = Track()
    clock = itertools.count(1)
    for (what, value, extra), at in zip(reports, clock, strict=False):
        if what == "signal":
            assert isinstance(value, SignalKind)
            assert isinstance(extra, SignalSource)
            track = with_signal(track, value, at, extra)
        else:
            assert isinstance(value, TerminalStatus)
            track = with_screen(track, value, at, changed=bool(extra))
    now = len(reports) + wait
    verdict = judge(track, now)
    assert judge(track, now) == verdict
    if verdict.until is not None:
        assert verdict.until > now
        assert judge(track, (now + verdict.until) / 2).status is verdict.status
    else:
        assert judge(track, now + 10_000).status is verdict.status


def test_every_source_that_can_say_processing_has_a_time_it_holds_but_the_record() -> None:
    assert set(HOLD_SECONDS) == set(SPEAKING) - {SignalSource.RECORD}
    assert all(seconds >= SCREEN_LAG for seconds in HOLD_SECONDS.values())


def test_a_stream_may_flicker_right_after_its_first_state_and_no_later() -> None:
    def status(
        *states: tuple[SignalKind, float], first: SignalSource = SignalSource.STREAM
    ) -> TerminalStatus:
        track = with_signal(Track(), SignalKind.READY, 10, first)
        for kind, at in states:
            track = with_signal(track, kind, at, SignalSource.STREAM)
        return judge(track, 11).status

    working, ready = SignalKind.WORKING, SignalKind.READY
    assert status((working, 10.1)) is IDLE
    assert status((working, 10.01 + FLICKER_SECONDS)) is PROCESSING
    assert status((ready, 10.15), (working, 10.25)) is PROCESSING
    assert status((working, 10.1), (working, 10.15)) is IDLE
    assert status((working, 10.1), first=SignalSource.HOOK) is PROCESSING
    started = with_signal(Track(), ready, FLICKER_SECONDS, SignalSource.STREAM)
    after = with_signal(started, working, 2 * FLICKER_SECONDS, SignalSource.STREAM)
    assert judge(after, 1).status is PROCESSING


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (SignalSource.HOOK, "hook"),
        (SignalSource.RECORD, "session record"),
        (SignalSource.STREAM, "stream state"),
        (SignalSource.SUBMISSION, "submission"),
    ],
)
def test_a_reason_names_who_said_what(source: SignalSource, words: str) -> None:
    track = with_signal(Track(), SignalKind.WORKING, 10, source)
    assert judge(track, 10).reason == f"{words}: working"
    track = with_screen(track, IDLE, 10)
    if source is not SignalSource.SUBMISSION:
        assert judge(track, 10).reason == f"{words}: working; the screen does not show it"
    if source in (SignalSource.HOOK, SignalSource.STREAM):
        assert judge(track, 99).reason == f"screen: x, against the older {words}: working"
