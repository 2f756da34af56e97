"""What tmux says about panes, as values."""

import re
from collections.abc import Mapping

import pytest

from cli_agent_orchestrator.terminals.tmux.protocol import (
    HUB_SESSION,
    PANE_FORMAT,
    STATE_FORMAT,
    Answer,
    PaneInfo,
    PaneScreen,
    parse_looks,
    parse_pane,
    parse_panes,
)


def listed(
    session: str = "s", name: str = "n", tag: str = "t", ends: str = "0::", pid: str = "77"
) -> bytes:
    return f"%1:@2:{pid}:{ends}:::{tag}:{session}:{name}".encode()


def answer(*lines: bytes, ok: bool = True) -> Answer:
    return Answer(ok=ok, lines=lines, ours=True)


@pytest.mark.parametrize(
    ("pid", "ends", "dead", "code"),
    [
        ("77", "0::", False, None),
        ("77", "1:0:", True, 0),
        ("77", "1::9", True, 137),
        ("77", "1::TERM", True, 143),
        ("77", "1::", True, None),
        ("77", "0:5:", True, 5),
        # tmux 3.8 has forgotten the process ids of programs that have ended.
        ("", "1:3:", True, 3),
        ("", "1::", True, None),
        ("", "0:3:", True, 3),
    ],
)
def test_a_pane_has_any_name_and_the_exit_code_as_far_as_it_is_known(
    pid: str, ends: str, dead: bool, code: int | None
) -> None:
    for name in ("a:b", ":", "#{pid}", "two words", "漢"):
        [info] = parse_panes([listed(ends=ends, pid=pid, name=name)])
        assert (info.tag, info.name, info.pid) == ("t", name, int(pid) if pid else None)
        assert (info.dead, info.exit_code) == (dead, code)


@pytest.mark.parametrize("line", [b"", b"%1", b"%1:@1:x:0:::::t:s:n", b"\xff"])
def test_a_line_in_another_form_is_no_pane(line: bytes) -> None:
    assert parse_pane(line) is None


def test_a_pane_is_listed_once_with_its_real_session() -> None:
    hub, real = listed(session=HUB_SESSION), listed(session="work")
    for lines in ([hub, real], [real, hub]):
        [info] = parse_panes(lines)
        assert info.session == "work"


@pytest.mark.parametrize("tag", ["", "not a tag", "#{x}"])
def test_panes_without_our_tag_are_left_out(tag: str) -> None:
    assert parse_panes([listed(tag=tag), b"noise"]) == []


def test_the_states_of_one_list_find_their_screens() -> None:
    listed = answer(b"%1:0:::0:one", b"%2:0:::1:two", b"%3:1:4::0:three", b"noise")
    looks = parse_looks(["%3", "%1", "%9"], [listed, answer(b"c"), answer(b"a"), answer(b"x")])
    assert {pane: (look.title, look.text) for pane, look in looks.items()} == {
        "%3": ("three", "c"),
        "%1": ("one", "a"),
    }


@pytest.mark.parametrize("title", ["", "a:b", "%1:1:3::1:x", "⠋ busy"])
def test_a_title_is_data_whatever_it_says(title: str) -> None:
    head = f"%1:0:::0:{title}".encode()
    looks = parse_looks(["%1"], [answer(head), answer(b"one", b"", b"three")])
    assert looks["%1"] == PaneScreen("%1", "one\n\nthree", title, in_mode=False)


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (answer(b":::::"), answer(b"can't find pane: %1", ok=False)),
        (answer(b":::::"), answer()),
        (answer(), answer()),
        (answer(b"%12:0:::0:t"), answer()),
        (answer(b"no", ok=False), answer()),
    ],
)
def test_a_pane_that_is_not_there_has_no_look(head: Answer, body: Answer) -> None:
    assert parse_looks(["%1"], [head, body]) == {}


def filled_in(form: str, values: Mapping[str, str]) -> bytes:
    """Return what tmux makes of a format."""
    return re.sub(r"#\{(@?\w+)\}", lambda field: values[field[1]], form).encode()


VALUES = {
    "pane_id": "%1",
    "window_id": "@2",
    "pane_pid": "77",
    "pane_dead": "1",
    "pane_dead_status": "",
    "pane_dead_signal": "9",
    "pane_in_mode": "1",
    "pane_title": "a title",
    "session_name": "cao-shop",
    "window_name": "tester",
    "@cao_raw": "1",
    "window_activity": "9",
    "@cao_id": "9f3c2a7b",
}


@pytest.mark.parametrize(
    ("ended", "code"), [({}, 137), ({"pane_dead_signal": "", "pane_dead_status": "3"}, 3)]
)
def test_what_is_asked_for_is_what_is_read(ended: Mapping[str, str], code: int) -> None:
    values = {**VALUES, **ended}
    pane = parse_pane(filled_in(PANE_FORMAT, values))
    assert pane == PaneInfo("%1", "@2", "cao-shop", "tester", "9f3c2a7b", 77, True, code, True, 9.0)
    head = answer(filled_in(STATE_FORMAT, values))
    [look] = parse_looks(["%1"], [head, answer(b"text")]).values()
    assert (look.title, look.in_mode, look.dead, look.exit_code) == ("a title", True, True, code)
