"""The status is folded from signals and screens by the rules at the top of tracker.py.

A scenario is a list of reports and verdicts, in the order of their coming:

    10 hook submitted               a signal: its time, source and kind, and more (`agent=a7`)
    10 submission                   our message was confirmed
    11 screen idle title=idle       a screen, with a title; `still`: no character has changed;
                                    `sure`: it shows that no turn is under way or over
    25 = processing until 35        the verdict at that time; `until` and `because` may be left out

A time may be `10+SCREEN_LAG`, one of the seconds in tracker.py.
"""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cli_agent_orchestrator.core.models import Evidence, TerminalStatus
from cli_agent_orchestrator.providers.base import AgentSignal, SignalKind
from cli_agent_orchestrator.terminals import tracker
from cli_agent_orchestrator.terminals.tracker import (
    CONTRADICTIONS,
    HOLD_SECONDS,
    RECORD_LAG,
    STATUS_OF_SIGNAL,
    SignalSource,
    Track,
    Verdict,
    Winner,
    judge,
)

STATUSES = {
    "waiting": TerminalStatus.WAITING_USER_ANSWER,
    **{status.value: status for status in TerminalStatus},
}
SOURCES = {
    "hook": SignalSource.HOOK,
    "record": SignalSource.RECORD,
    "stream": SignalSource.STREAM,
    "submission": SignalSource.SUBMISSION,
}
KINDS = list(STATUS_OF_SIGNAL)
RECORDED = [SignalKind.ANSWERED, SignalKind.ERRED]
TELLING = [kind for kind in KINDS if kind not in RECORDED]
OTHERS = [name for name in SOURCES if name != "hook"]


def time_of(text: str) -> float:
    begin, _, name = text.partition("+")
    lags = {f"{source.name}_HOLD": seconds for source, seconds in HOLD_SECONDS.items()}
    return float(begin) + (lags.get(name) or getattr(tracker, name) if name else 0)


def report(track: Track, words: list[str]) -> Track:
    """Fold in one report."""
    at, what = time_of(words[0]), words[1]
    more = dict(word.split("=") for word in words[2:] if "=" in word)
    if what == "screen":
        said = STATUSES.get(more.get("title", ""))
        title = Evidence(SignalSource.TITLE, said, "x", at) if said else None
        seen = Evidence(SignalSource.SCREEN, STATUSES[words[2]], "x", at)
        return tracker.observe_screen(track, seen, title, "still" not in words, "sure" in words)
    if words[1:] == ["submission"]:
        return tracker.observe_submission(track, "the input box is empty again", at)
    kind = SignalKind(words[2])
    signal = AgentSignal(
        kind,
        kind.value,
        agent=more.get("agent"),
        background={"yes": True, "no": False}.get(more.get("background", "")),
        consulted=int(more.get("consulted", 0)),
        revocable="revocable" in words,
        ends_aloud="aloud" in words,
    )
    return tracker.observe_signal(track, SOURCES[what], signal, at)


def play(scenario: str, track: Track | None = None) -> Track:
    """Fold a scenario, and check its verdicts."""
    track = track or Track()
    for line in scenario.replace(",", "\n").split("\n"):
        words = line.split()
        if not words:
            continue
        if words[1] != "=":
            track = report(track, words)
            continue
        verdict = judge(track, time_of(words[0]))
        assert verdict.status is STATUSES[words[2]], (line, verdict)
        if "until" in words:
            assert verdict.until == time_of(words[words.index("until") + 1]), line
        if "because" in words:
            assert " ".join(words[words.index("because") + 1 :]) in verdict.reason, verdict
    return track


ASKED = "8 hook submitted, 9 screen processing, 10 hook waiting"
ALONE = "5 record consulted consulted=1"
IN_BACKGROUND = f"{ALONE}, 8 hook working background=yes"
STREAM_ASKED = "10 record working, 10.5 screen processing, 11 stream waiting"
ASKED_AT_AN_END = f"{STREAM_ASKED}, 11.02 record finished"
SHORTENING = (
    f"{ALONE}, 9 screen completed, 9.5 hook finished background=no revocable, "
    "10 hook shortening aloud"
)
UNDRAWN = (
    "7 screen processing, 8 screen {rest}, 9 hook submitted, 9.1 screen {rest}, "
    "9.2 hook finished revocable, 9.2 = processing until 9.2+DRAW_SECONDS because no work was drawn"
)
OBJECTED = "9 screen processing, 10 hook finished revocable, 10 = processing, 100 = processing"
IN_TIME = "10.1 screen completed, 10.1 = completed"

SCENARIOS = {
    "what nobody has seen": "0 = unknown",
    **{
        f"a screen without signals ({status})": f"1 screen {status}, 1 = {status}"
        for status in TerminalStatus
    },
    "a screen that matches nothing": "1 screen unknown, 100 = unknown because matches nothing",
    "half a frame": """
        1 screen idle, 5 screen unknown, 5 = idle until 5+FRAME_SECONDS
        5.4 screen unknown, 5+FRAME_SECONDS = unknown""",
    "an old failure under a new message": """
        1 screen idle, 5 submission, 6 screen error, 7 submission, 7.1 screen error
        7.1 = processing, 7+SCREEN_LAG = error""",
    "half a frame that looks like a failure": """
        1 hook working, 9 screen processing, 10 screen error, 10 = processing until 10+FRAME_SECONDS
        10.1 screen processing, 10+FRAME_SECONDS = processing""",
    "half a frame, then a whole one": """
        1 screen idle, 5 screen unknown, 5.4 screen completed, 5.4 = completed""",
    "an interrupt without a signal": """
        10 hook submitted, 20 screen idle, 25 screen idle still
        25 = processing until 20+HOOK_HOLD, 20+HOOK_HOLD = idle""",
    "an interrupt that the screen shows for sure": """
        10 submission, 18 hook submitted, 20 screen idle sure, 20 = processing, 20.5 = idle""",
    "an interrupt that stands above a message of ours": """
        9 screen idle sure, 10 submission, 10+SCREEN_LAG = idle, 10.1 = processing
        10.2 screen idle still, 10+SCREEN_LAG = processing""",
    "a new conversation that the screen shows for sure": """
        10 record finished, 10.1 screen idle sure, 10.2 = completed, 10+SCREEN_LAG = idle""",
    "a submission that the screen has shown": """
        10 submission, 10.2 screen processing, 11 screen completed, 11 = completed""",
    "a submission that the screen has shown to fail": """
        10 submission, 10.2 screen error, 10.4 screen idle, 10.4 = idle""",
    "a submission before the screen shows it": """
        5 screen completed, 10 submission, 10.4 screen completed still, 10.5 = processing
        10+SUBMISSION_HOLD = completed""",
    "the hook of the start after the first prompt": """
        10 submission, 10.1 screen processing, 10.2 hook ready, 10.3 = processing
        11 hook finished, 11.1 hook ready, 11.2 = completed""",
    "a message taken before the start is told": "10.2 hook ready, 10 submission, 10.3 = processing",
    "a message that is taken before the stream reports the start": """
        10.2 stream ready, 10 submission, 10.3 = processing""",
    "a message whose turn has ended already": "10.2 hook finished, 10 submission, 10.3 = completed",
    "a message whose turn a person stopped": "10.2 record interrupted, 10 submission, 10.3 = idle",
    "two signals at the same time": "10 hook submitted, 10 hook finished, 10 = completed",
    "an error that comes up, where screens are drawn in time": """
        9 screen idle, 10 record working, 10.1 screen error, 10.1 = error""",
    "an error that comes up, where screens are drawn late": """
        9 screen idle, 10 hook working, 10.1 screen error, 10.1 = processing""",
    # How a turn ended.
    "a turn that stopped": "10 hook stopped, 10.1 = processing, 10+RECORD_LAG = completed",
    "a turn stopped with an answer": "10 hook stopped, 10.2 record answered, 10.2 = completed",
    "a turn that stopped with an error": "10 hook stopped, 10.2 record erred, 10.2 = error",
    "a turn that stopped after its answer": "9 record answered, 10 hook stopped, 10 = completed",
    "a turn that stopped after its error": "9 record erred, 10 hook stopped, 10 = error",
    "a turn that a person stopped": "9.9 screen idle sure, 10 hook stopped, 10 = idle, 20 = idle",
    "a turn that stopped after one that a person stopped": """
        8 screen idle sure, 9 hook submitted, 10 hook stopped, 10 = processing""",
    "a turn that stopped below an error on the screen": """
        9 screen error, 10 hook stopped, 10 = error, 10.1 record answered, 10.1 = completed""",
    "an answer before more work": """
        8 record answered, 9 hook working, 10 hook stopped, 10.1 = processing""",
    "an answer before another prompt": """
        8 record answered, 9 hook submitted, 10 hook stopped, 10.1 = processing""",
    "a turn that ends without a word": """
        9 screen completed, 10 hook submitted aloud, 10+HOOK_HOLD = idle because no end was told""",
    "a turn that fails without a word": """
        10 hook submitted aloud, 11 screen error, 10+SCREEN_LAG = error""",
    "an end that another program may object to": f"{OBJECTED}, {IN_TIME}",
    "an end that two programs were asked about": f"""
        5 record consulted consulted=2, {OBJECTED}, {IN_TIME}""",
    "an end that nobody else was asked about": f"""
        {ALONE}, 9 screen processing, 10 hook finished revocable, 10 = completed""",
    "an undrawn end that nobody else was asked about": f"""
        {ALONE}, 8 hook submitted, 9 screen idle, 10 hook finished revocable, 10 = completed""",
    "an end of a turn whose begin was not reported": """
        9 screen idle, 10 hook finished revocable, 10 = completed""",
    "an undrawn failure": "9 hook submitted, 9.1 screen idle, 9.2 hook failed, 9.2 = error",
    "a limit after which the agent goes on": """
        9 screen completed, 10 hook failed revocable, 10.5 = processing until 10+SCREEN_LAG
        11 screen processing, 1000 = processing""",
    "a limit after which it does not": """
        9 screen processing, 10 hook failed revocable, 11 screen completed, 11 = processing
        10+SCREEN_LAG = error""",
    "an undrawn end that cannot be taken back": """
        9 hook submitted, 9.1 screen idle, 9.2 hook finished, 9.2 = completed""",
    **{
        f"an undrawn end at rest ({rest})": f"""
        {UNDRAWN.format(rest=rest)}, 9.2+DRAW_SECONDS = completed"""
        for rest in ("idle", "completed")
    },
    "an undrawn end that two programs were asked about": f"""
        5 record consulted consulted=2, {UNDRAWN.format(rest="idle")}
        9.2+DRAW_SECONDS = completed""",
    "work that is drawn after its end": f"""
        {UNDRAWN.format(rest="idle")}, 9.3 screen processing, 9.2+DRAW_SECONDS = processing
        9.8 screen completed, 9.8 = completed""",
    # What works in the background.
    "an end with something at work": f"""
        {IN_BACKGROUND}, 9 screen processing, 10 hook finished revocable, 10 = processing""",
    "an interrupt with something at work": f"""
        {IN_BACKGROUND}, 9 screen completed, 10 hook interrupted, 10 = idle""",
    "an end with nothing left at work": f"""
        {IN_BACKGROUND}, 9 screen processing, 10 hook finished background=no revocable
        10.1 screen completed, 10+REPORT_SECONDS = completed""",
    **{
        f"an end before a report from the background ({left})": f"""
        {IN_BACKGROUND}, 9 screen completed, 10 hook finished {left} revocable
        10 = processing until 10+REPORT_SECONDS because may still be reported
        10+REPORT_SECONDS = completed
        10.1 screen processing, 10+REPORT_SECONDS = processing"""
        for left in ("", "background=no")
    },
    "a report from the background": f"""
        {IN_BACKGROUND}, 9 screen completed, 10 hook finished revocable
        10.5 hook submitted, 11 hook finished background=no revocable, 11 = completed""",
    "more work before a report from the background": f"""
        {IN_BACKGROUND}, 9 screen completed, 10 hook finished revocable
        10.5 hook working, 11 hook finished background=no revocable, 11 = processing""",
    "work in the background below what a person has opened": f"""
        {IN_BACKGROUND}, 9 screen processing, 10 hook finished revocable
        20 screen unknown, 100 = processing, 101 screen completed, 101 = completed""",
    "no work any more below what a person has opened": f"""
        {IN_BACKGROUND}, 9 screen processing, 10 hook finished revocable
        15 screen completed, 20 screen unknown, 100 = completed""",
    "nothing left at work below what a person has opened": f"""
        {IN_BACKGROUND}, 9 screen processing, 10 hook finished revocable
        11 hook finished background=no revocable, 20 screen unknown, 100 = completed""",
    "what works in the background is hidden for a frame": """
        8 screen processing title=processing, 9 hook background background=yes revocable
        9.1 screen processing, 20 screen unknown, 21 screen completed
        21 = processing until 21+FRAME_SECONDS, 21.03 screen processing, 22 = processing
        30 screen completed, 30+FRAME_SECONDS = completed""",
    "what works in the background": """
        9 screen completed, 10 hook background revocable, 10 = processing
        10+HOOK_HOLD = completed, 11 screen processing, 1000 = processing""",
    # Conversations.
    **{
        f"a conversation that is shortened after {before}": f"""
        9 hook {before}, 10 hook shortened, 10 = {after}"""
        for before, after in {
            "submitted": "processing",
            "waiting": "processing",
            "finished": "idle",
            "ready": "idle",
        }.items()
    },
    "a conversation that a person has shortened": f"""
        {SHORTENING}, 10 = processing, 10.1 screen processing, 20 = processing
        21 hook shortened, 21 = idle, 21.1 screen completed, 1000 = idle""",
    "a shortening that a person stops": f"{SHORTENING}, 11 screen completed, 11+HOOK_HOLD = idle",
    "a shortening that a person stops, with a title": f"""
        {SHORTENING}, 11 screen processing title=processing, 11 screen completed
        11+TITLE_LAG = idle""",
    **{
        f"a new conversation after {before}": f"9 hook {before}, 10 hook cleared, 10 = idle"
        for before in ("finished", "failed", "submitted")
    },
    # Questions.
    **{
        f"a question that comes up after a signal ({source})": f"""
        9 screen idle, 10 {source} working, 10.1 screen waiting, 10.1 = waiting"""
        for source in SOURCES
    },
    **{
        f"a question that may have been answered ({source})": f"""
        9 screen waiting, 10 {source} working, 10.1 = processing, 10+SCREEN_LAG = waiting"""
        for source in OTHERS
    },
    **{
        f"a question on the screen at the end of another turn ({end})": f"""
        9 screen waiting, 10 record {end}, 10 = waiting, 11 screen completed, 11 = {status}"""
        for end, status in {
            "finished": "completed",
            "interrupted": "idle",
            "failed": "error",
        }.items()
    },
    **{
        f"a question on the screen while another agent works ({kind})": f"""
        10 screen waiting, 10 hook {kind}, 10 = waiting, 15 hook {kind}, 15 = waiting
        20 screen processing, 20 = processing"""
        for kind in ("working", "background")
    },
    **{
        f"a question that is not drawn yet, beside another agent ({kind})": f"""
        {ASKED} agent=a7, 10.1 hook {kind} agent=, 10.2 = waiting
        10.3 hook working agent=a7, 10.3 = processing"""
        for kind in ("working", "background", "finished", "stopped")
    },
    **{
        f"a question that is over ({asker or 'nobody'}, {worker or 'nobody'})": f"""
        {ASKED} {asker}, 10.1 hook working {worker}, 10.1 = processing"""
        for asker, worker in (("", "agent=a7"), ("agent=a7", ""), ("agent=a7", "agent=a7"))
    },
    "a question after which nothing is told": """
        10 hook waiting aloud, 20 screen completed, 20 = idle because no end was told""",
    "a second question where all agents have one name": f"""
        {ASKED} agent=, 10.1 screen waiting, 10.5 hook waiting agent=, 12 hook working agent=
        12 = waiting, 13 hook working agent=, 13 = waiting, 14 screen processing, 14 = processing
        15 screen waiting, 15 hook waiting agent=, 16 hook working agent=, 16 = processing""",
    "a question that a prompt may have answered": """
        9 screen waiting, 10 hook submitted, 10.1 = processing, 10+SCREEN_LAG = waiting""",
    "a failure that is drawn long after an answered question": f"""
        {ASKED} agent=a7, 11 hook working agent=a7, 20 hook submitted, 20.1 screen error
        20.2 = processing, 20+SCREEN_LAG = error""",
    "an answered question that is still drawn": f"""
        {ASKED} agent=a7, 10.1 screen waiting, 11 hook working agent=a7
        11 = processing, 11+SCREEN_LAG = waiting""",
    "a question that is still drawn where nobody says whose it was": f"""
        {ASKED}, 10.1 screen waiting, 11 hook working, 11 = waiting""",
    "a question behind a hidden screen, beside what works in the background": f"""
        {IN_BACKGROUND}, 9 screen completed, 10 hook waiting, 11 screen unknown
        11+SCREEN_LAG = waiting""",
    "an answered question that is still drawn while another agent works": f"""
        {ASKED} agent=a7, 10.1 screen waiting, 11 hook submitted, 11.1 hook background agent=
        11.1 = processing until 11+SCREEN_LAG, 11+SCREEN_LAG = waiting
        11.2 screen processing, 11.3 screen waiting, 11.3 = waiting""",
    "a question that is over as the turn is interrupted": f"""
        {ASKED} agent=a7, 11 hook interrupted agent=, 11.1 screen idle, 11.1 = idle""",
    "a question that is seen in the moment of an answer": f"""
        {ASKED} agent=a7, 11 hook submitted, 11 screen waiting
        11.1 hook working, 11.1 = processing""",
    **{
        f"a question that is told of twice ({asker or 'nobody'})": f"""
        {ASKED} {asker}, 10.1 screen waiting, 16 hook waiting, 17 hook working agent=a8
        17 = waiting"""
        for asker in ("agent=a7", "")
    },
    "what an agent is about to do leaves its question alone": f"""
        {ASKED} agent=, 10.1 hook acting, 10.1 = waiting""",
    # Session records and stream states.
    **{
        f"a turn that a record reports is ended by it alone ({rest})": f"""
        10 record working, 11 screen {rest}, 100000 = processing
        100001 record finished, 100001 = completed"""
        for rest in ("idle", "completed")
    },
    "a record ends a turn in which a stream told of a question": """
        10 record working, 11 stream waiting, 12 stream working, 13 screen completed
        100000 = processing""",
    "a record that is found in mid-turn, after the stream": """
        10.1 stream working, 10 record working, 13 screen completed, 100000 = processing""",
    "a stream that is idle right after a message": """
        10 submission, 10.2 stream interrupted, 10.2 = processing
        10.3 record interrupted, 10.3 = idle""",
    "a stream that works and is idle right after a message": """
        10 submission, 10.1 stream working, 10.2 stream interrupted, 10.2 = processing""",
    "a stream that is idle some time after a message": """
        10 submission, 10+START_SECONDS stream interrupted, 10+START_SECONDS = idle""",
    "an interrupt that the stream reports as idle": """
        10 stream working, 11 stream ready, 11 = idle""",
    "a question that only the stream reports": f"""
        {STREAM_ASKED}, 11 = waiting, 12 stream working, 12 = processing
        13 record finished, 13 = completed""",
    "a question of the stream at the end of another turn": f"""
        {ASKED_AT_AN_END}, 11.02 = waiting until 11.02+QUESTION_LAG because stream state: waiting
        11.03 screen completed, 11.03 = waiting, 11.05 screen waiting, 11.05 = waiting
        1000 = waiting, 1001 screen completed, 1001 = completed""",
    "a question of the stream that is not drawn in time": f"""
        {ASKED_AT_AN_END}, 11.02+QUESTION_LAG = completed""",
    **{
        f"a question that the stream takes back ({kind})": f"""
        {ASKED_AT_AN_END}, 11.1 stream {kind}, 11.1 = completed"""
        for kind in ("working", "ready", "finished")
    },
    **{
        f"a question that the record takes back ({kind}, {len(before)})": f"""
        {before}, 11.1 record {kind}, 11.1 = {status}"""
        for kind, status in (
            ("interrupted", "idle"),
            ("failed", "error"),
            ("submitted", "processing"),
        )
        for before in (STREAM_ASKED, ASKED_AT_AN_END)
    },
    "a flicker right after the first state": "10 stream ready, 10.1 stream working, 11 = idle",
    "a flicker that comes and goes": """
        10 stream ready, 10.1 stream working, 10.15 stream working, 11 = idle""",
    "no flicker any more": "10 stream ready, 10.01+FLICKER_SECONDS stream working, 12 = processing",
    "no flicker any more, after a second state": """
        10 stream ready, 10.5 stream ready, 11.1 stream working, 12 = processing""",
    "no flicker where a hook came first": "10 hook ready, 10.1 stream working, 11 = processing",
    "a flicker at its limit": "0.2 stream ready, 1.2 stream working, 2 = processing",
    # Titles.
    **{
        f"a title that is silent after work ({title or 'no title'})": f"""
        10 hook submitted, 11 screen processing title=processing, 11 screen idle {title}
        11.9 = processing, 11+TITLE_LAG = idle"""
        for title in ("", "title=idle")
    },
    "a title that worked in the moment of a signal": """
        11 hook submitted, 11 screen processing title=processing, 11 screen idle
        11+TITLE_LAG = processing, 11+SCREEN_LAG = idle""",
    "a title that is behind a message of ours": """
        11 screen processing title=processing, 11 hook finished, 11 screen completed
        20 submission, 20+SCREEN_LAG = processing, 20+SUBMISSION_HOLD = completed""",
    "a title that never told anything": """
        10 hook submitted, 11 screen idle, 11+SCREEN_LAG = processing""",
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario(name: str) -> None:
    play(SCENARIOS[name])


def test_of_an_agent_known_by_rest_change_is_work_and_rest_its_end() -> None:
    track = Track(by_rest=True)
    play("1 screen unknown, 2 = processing until 4, 4 = idle", track)
    turn = "1 screen unknown, 9 submission, 10 screen unknown still, 11 = processing until 12"
    track = play(f"{turn}, 12 = completed, 13 screen unknown, 15.9 = processing", track)
    # What is known of it counts more.
    play(
        "20 screen waiting, 20 = waiting, 30 hook working, 40 screen unknown, 90 = processing",
        track,
    )


def test_streaming_without_a_busy_mark_is_still_processing() -> None:
    track = play("10 hook submitted")
    for second in range(11, 300):
        track = play(f"{second} screen completed, {second + 0.9} = processing", track)


WAITS_FOR_ITS_RECORD = {
    "an end": """
        10 screen completed, 11 screen completed
        12.9 = processing until 10+SEARCH_SECONDS because its session record is looked for
        10+SEARCH_SECONDS = completed""",
    "an end of work": "9 screen processing, 10 screen completed, 12.9 = processing, 13 = completed",
    "an end after rest": "9 screen idle, 10 screen completed, 12.9 = processing, 13 = completed",
    "a record of work": "10 screen completed, 11 record working, 11 = processing",
    "a record of an end": "10 screen completed, 11 record finished, 11 = completed",
    "half a frame": """
        10 screen completed, 11 screen unknown, 11 = processing until 11+FRAME_SECONDS
        11.2 screen completed, 11.2 = processing until 10+SEARCH_SECONDS
        10+SEARCH_SECONDS = completed
        20 screen processing, 21 screen completed, 21 = processing until 21+SEARCH_SECONDS""",
    "a frame that matches nothing": """
        10 screen completed, 11 screen unknown, 13 screen unknown, 10+SEARCH_SECONDS = unknown""",
    "work that its record tells of": "10 record working, 20 screen idle sure, 90 = processing",
    "all else": """
        10 screen idle, 10 = idle, 11 screen processing, 11 = processing
        12 screen waiting, 12 = waiting, 13 screen error, 13 = error""",
}


@pytest.mark.parametrize("name", WAITS_FOR_ITS_RECORD)
def test_an_agent_that_keeps_a_record_is_not_over_before_that_is_looked_for(name: str) -> None:
    play(WAITS_FOR_ITS_RECORD[name], Track(keeps_record=True))


@pytest.mark.parametrize("kind", TELLING)
def test_a_signal_against_every_screen(kind: SignalKind) -> None:
    """Alone and fresh a signal is believed; later the screen that CONTRADICTIONS names wins."""
    signal = STATUS_OF_SIGNAL[kind]
    assert judge(play(f"1 hook {kind.value}"), 1 + RECORD_LAG).status is signal
    for screen, source in itertools.product(TerminalStatus, SOURCES):
        track = play(f"9 screen {screen}, 10 {source} {kind.value}")
        if track.signal is None:  # the hook of a start that is long over
            assert (kind, source) == (SignalKind.READY, "hook")
            continue
        winner = CONTRADICTIONS.get((signal, screen), Winner.SIGNAL)
        if winner is Winner.STILL_SCREEN and source == "record":
            winner = Winner.SIGNAL
        late = judge(track, 1000).status
        assert late is (signal if winner is Winner.SIGNAL else screen), (screen, source)
        if winner is not Winner.SCREEN_AT_ONCE and source == "record" and not track.open_end:
            assert judge(track, 10.01).status is signal, screen


@pytest.mark.parametrize("kind", [kind for kind in TELLING if kind is not SignalKind.STOPPED])
def test_what_the_record_has_changes_nothing_where_a_hook_tells_how_a_turn_ended(
    kind: SignalKind,
) -> None:
    for said in RECORDED:
        play(f"10 hook {kind.value}, 10.2 record {said.value}, 10.3 = {STATUS_OF_SIGNAL[kind]}")


@pytest.mark.parametrize("source", OTHERS)
def test_a_question_that_is_seen_in_the_moment_of_a_signal_may_be_an_older_one(source: str) -> None:
    told = Track(signal=Evidence(SOURCES[source], STATUSES["processing"], "x", 10))
    seen = Evidence(SignalSource.SCREEN, STATUSES["waiting"], "x", 10)
    assert judge(replace(told, screen=seen), 10).status is STATUSES["processing"]
    later = replace(told, screen=replace(seen, at=10.1))
    assert judge(later, 10.1).status is STATUSES["waiting"]


@pytest.mark.parametrize(
    ("before", "late"),
    [
        ("10 record failed", "10.1 record stopped"),
        ("10 hook finished", "9 hook submitted"),
        *(
            (f"10 record {end}", f"10.1 stream {kind}")
            for end in ("finished", "failed", "interrupted")
            for kind in ("ready", "working", "waiting", "finished", "failed")
        ),
        *(
            ("10 record working", f"10.1 stream {kind}")
            for kind in ("ready", "working", "finished", "failed")
        ),
    ],
)
def test_old_news_changes_nothing(before: str, late: str) -> None:
    track = play(before)
    assert play(late, track) == track


def test_a_program_that_ended_is_in_error_whatever_else_is_said() -> None:
    track = play("10 hook finished, 10 screen completed")
    track = tracker.observe_end(track, "the program ended with code 3", 11)
    verdict = judge(play("12 hook working", track), 12)
    assert verdict == Verdict(TerminalStatus.ERROR, "the program ended with code 3")


def test_the_explanation_has_every_piece_of_evidence_newest_first() -> None:
    explanation = tracker.explain(play("10 hook finished, 12 screen completed title=idle"), 13)
    assert explanation.status is TerminalStatus.COMPLETED
    assert [piece.source for piece in explanation.evidence] == ["title", "screen", "hook"]
    # What told how an open end was is a piece of it.
    assert tracker.explain(play("9 record answered"), 10).evidence == ()
    pieces = tracker.explain(play("9 record erred, 10 hook stopped"), 10).evidence
    assert [(piece.source, piece.status) for piece in pieces] == [
        (SignalSource.HOOK, TerminalStatus.COMPLETED),
        (SignalSource.RECORD, TerminalStatus.ERROR),
    ]


def test_what_a_screen_says_is_as_old_as_it_says_so() -> None:
    track = Track()
    idle = TerminalStatus.IDLE
    for status, at in ((TerminalStatus.PROCESSING, 5.0), (idle, 10.0), (idle, 20.0)):
        seen = Evidence(SignalSource.SCREEN, status, "", at, found=at == 10)
        title = Evidence(SignalSource.TITLE, status, f"agent {at}", at)
        track = tracker.observe_screen(track, seen, title, changed=True)
    told = {one.source: one for one in tracker.explain(track, 21).evidence}
    assert told["screen"] == Evidence(SignalSource.SCREEN, idle, "", 10.0, found=True)
    assert told["title"] == Evidence(SignalSource.TITLE, idle, "agent 20.0", 10.0)


@pytest.mark.parametrize("source", SOURCES)
def test_a_reason_names_who_said_what(source: str) -> None:
    words = f"{SOURCES[source]}: working"
    track = play(f"10 {source} working")
    assert judge(track, 10).reason == words
    track = play("10 screen idle", track)
    if source != "submission":
        assert judge(track, 10).reason == f"{words}; the screen does not show it"
    if source in ("hook", "stream"):
        assert judge(track, 99).reason == f"screen: x, against the older {words}"


REPORTS = st.lists(
    st.builds(
        " ".join,
        st.tuples(st.sampled_from([*SOURCES]), st.sampled_from([kind.value for kind in KINDS])),
    )
    | st.builds(
        "screen {} {}".format, st.sampled_from([*TerminalStatus]), st.sampled_from(["", "still"])
    ),
    max_size=12,
)


@given(REPORTS, st.floats(0, 200))
def test_judging_is_repeatable_and_a_verdict_holds_until_it_says(
    reports: list[str], wait: float
) -> None:
    track = play("\n".join(f"{at} {one}" for at, one in enumerate(reports, 1)))
    now = len(reports) + wait
    verdict = judge(track, now)
    assert judge(track, now) == verdict
    if verdict.until is not None:
        assert verdict.until > now
        assert judge(track, (now + verdict.until) / 2).status is verdict.status
    else:
        assert judge(track, now + 10_000).status is verdict.status
