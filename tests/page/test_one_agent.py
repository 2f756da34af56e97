"""The page of one agent."""

from hypothesis import given
from msgspec.structs import replace

from cli_agent_orchestrator.core.models import (
    Choice,
    Evidence,
    Explanation,
    Question,
    TerminalStatus,
)
from cli_agent_orchestrator.page.one_agent import (
    SCROLLBACK_LINES,
    AgentSeen,
    one_agent,
    replay_html,
    scrollback_html,
)
from cli_agent_orchestrator.runs.record import RunStatus
from cli_agent_orchestrator.show.markup import screen_lines
from tests.page.view_data import HOSTILE, a_terminal, check_page, part_of, written
from tests.runs.views import NOON, RUN, a_run
from tests.show.reading import Elements

ASKED = Question("Go on?", (Choice("y", "yes"),), "f00d")
WHY = Explanation(
    TerminalStatus.PROCESSING,
    "the title shows a spinner",
    (
        Evidence("title", TerminalStatus.PROCESSING, "⠋ shop", NOON - 90),
        Evidence("screen", TerminalStatus.IDLE, "", NOON - 60, found=True),
        Evidence("x", None, "", 0),
    ),
)


def test_a_live_agent_shows_its_screen_line_by_line() -> None:
    seen = AgentSeen(a_run(), "programmer", a_terminal(), "one\n\x1b[31mtwo\x1b[0m\n  \n", WHY)
    page = one_agent(seen, NOON)
    check_page(page)
    assert page.title == "programmer: working"
    lines = [part.id for part in page.parts if part.into == "screen"]
    assert lines == ["line-0", "line-1"]
    assert part_of(page, "line-1").of("span", "f1")
    assert part_of(page, "gone").found[0][1].get("hidden", "no") is None
    assert "The title shows a spinner" in part_of(page, "why").written
    assert "title working, 1 min ago" in part_of(page, "why").written
    assert "screen at rest, since before this server began" in part_of(page, "why").written
    assert "says nothing" in part_of(page, "why").written


def test_a_message_goes_straight_to_the_agent_unless_it_asks_or_is_dead() -> None:
    seen = AgentSeen(a_run(), "programmer", a_terminal())
    message = part_of(one_agent(seen, NOON), "message")
    assert message.of("form")[0]["data-post"] == "/terminals/p1/input"
    assert message.of("textarea")[0]["name"] == "message"
    assert "disabled" not in message.of("textarea")[0]
    page = one_agent(replace(seen, asked=ASKED), NOON)
    check_page(page)
    message, need = part_of(page, "message"), part_of(page, "need")
    assert "disabled" in message.of("textarea")[0]
    assert "disabled" in message.of("button")[0]
    assert need.of("button")[0]["data-body"] == '{"key": "y", "question": "f00d"}'
    assert "Other keys" in need.written
    page = one_agent(replace(seen, terminal=a_terminal(alive=False)), NOON)
    assert page.title == "programmer: its program has ended"
    assert "message" not in [part.id for part in page.parts]


def test_an_agent_that_has_ended_still_shows_what_it_showed_last() -> None:
    run = a_run(status=RunStatus.PASS, ended=NOON, terminals={})
    seen = AgentSeen(run, "programmer", screen="bye", is_recorded=True, last_turn=7)
    page = one_agent(seen, NOON)
    check_page(page)
    assert "This agent has ended. Below is what it showed" in part_of(page, "gone").written
    assert part_of(page, "line-0").written == "bye"
    assert "Its last screen" in written(page)
    for part, rest in (("replay", "replay/programmer"), ("last-turn", "turns/7?own")):
        fetched = part_of(page, part).of("details")[0]["data-fragment"]
        assert fetched == f"/dashboard/runs/{RUN}/{rest}"

    elsewhere = one_agent(AgentSeen(a_run(api="http://10.0.0.1:9889"), "programmer"), NOON)
    check_page(elsewhere)
    assert "on the one at http://10.0.0.1:9889" in part_of(elsewhere, "gone").written
    assert not {"message", "screen-frame", "scrollback"} & {part.id for part in elsewhere.parts}


def test_what_it_has_shown_before_is_cut() -> None:
    long = scrollback_html("\n".join(map(str, range(SCROLLBACK_LINES + 50))))
    assert len(Elements(long).of("div", "line")) == SCROLLBACK_LINES
    assert Elements(long).written.startswith("50")
    assert "It has shown nothing yet." in scrollback_html("\n\n")


def test_a_step_of_a_recording_leads_to_those_around_it() -> None:
    read = Elements(replay_html(screen_lines("a\nb"), (0, 41), "/dashboard/runs/x/replay/y", 3.25))
    ways = [one["data-fragment"] for one in read.of("button") if "disabled" not in one]
    assert "Step 1 of 41, 3.2 s after its start" in read.written
    assert ways == [f"/dashboard/runs/x/replay/y/{n}" for n in (1, 2, 40)]


@given(HOSTILE, HOSTILE, HOSTILE)
def test_nothing_in_an_agent_breaks_its_page(one: str, two: str, three: str) -> None:
    run = a_run(task=one, role=two, providers={two: three}, terminals={two: "p1"})
    why = Explanation(TerminalStatus.ERROR, one, (Evidence(two, None, three, NOON),))
    terminal = a_terminal(action=one, permissions=two)
    asked = Question(one, (Choice(two[:10], three),), two)
    check_page(one_agent(AgentSeen(run, two, terminal, one, why, asked), NOON))
    check_page(one_agent(AgentSeen(run, two, None, three, last_turn=1), NOON))
