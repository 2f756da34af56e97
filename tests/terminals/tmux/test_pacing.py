"""When which pane is looked at; the clock is moved by hand."""

import itertools

import pytest

from cli_agent_orchestrator.terminals.tmux.observer import LEADING_EDGE, PaneWatch


@pytest.fixture
def watch() -> PaneWatch:
    watch = PaneWatch()
    watch.add("%1")
    watch.add("%2")
    return watch


Panes = tuple[str, ...]


def look(watch: PaneWatch, now: float, *, changed: bool = True) -> tuple[Panes, Panes]:
    """Do the work that is due, as if it was answered at once; return what is looked at, resumed."""
    panes, resumed = watch.take(now)
    for pane in panes:
        watch.answered(pane, changed=changed)
    return panes, resumed


def make_busy(watch: PaneWatch, *panes: str) -> None:
    """Let panes write so much that they are paused, and look at them at 5.01."""
    for now in (5.0, 5.001, 5.002):
        for pane in panes:
            watch.output(pane, now)
    assert watch.take_pauses() == panes
    look(watch, 5.01)


def spin(watch: PaneWatch, pane: str, start: float, frames: int, step: float = 0.1) -> list[float]:
    """Let a pane write regularly and return the times at which it is looked at."""
    looks = []
    for frame in range(frames):
        now = start + frame * step
        while (due := watch.next_at()) is not None and due <= now:
            if pane in look(watch, due)[0]:
                looks.append(due)
        watch.output(pane, now)
        watch.take_pauses()
    return looks


def test_the_first_output_is_looked_at_a_moment_later(watch: PaneWatch) -> None:
    assert watch.output("%1", 5.0) == 5.0 + LEADING_EDGE
    assert watch.take(5.0)[0] == ()
    assert watch.take(5.0 + LEADING_EDGE)[0] == ("%1",)


def test_looks_follow_each_other_more_slowly_up_to_the_interval(watch: PaneWatch) -> None:
    now, pauses = 5.0, []
    for _ in range(6):
        watch.output("%1", now)
        due = watch.next_at()
        assert due is not None
        pauses.append(due - now)
        look(watch, due)
        now = due
    assert pauses == pytest.approx([LEADING_EDGE, 0.03, 0.06, 0.12, 0.24, 0.25])


def test_a_spinner_that_never_rests_is_looked_at_steadily(watch: PaneWatch) -> None:
    looks = spin(watch, "%1", start=5.0, frames=100)
    assert len(looks) >= 30
    assert max(b - a for a, b in itertools.pairwise(looks)) < 0.36


def test_two_outputs_in_an_interval_do_not_pause_a_pane(watch: PaneWatch) -> None:
    for start in (5.0, 5.05, 6.0, 9.0):
        watch.output("%1", start)
        watch.output("%1", start + 0.001)
        assert watch.take_pauses() == ()
        look(watch, start + 0.04)
    for now in (9.1, 9.101):
        watch.output("%1", now)
    assert watch.take_pauses() == ()
    watch.output("%1", 9.102)
    assert watch.take_pauses() == ("%1",)


def test_a_paused_pane_is_looked_at_every_interval_while_it_changes(watch: PaneWatch) -> None:
    make_busy(watch, "%1")
    for due in (5.26, 5.51, 5.76):
        assert watch.next_at() == pytest.approx(due)
        assert look(watch, due) == (("%1",), ())


def test_a_paused_pane_that_stands_still_is_resumed_with_one_more_look(watch: PaneWatch) -> None:
    make_busy(watch, "%1")
    assert look(watch, 5.26, changed=False) == (("%1",), ())
    assert watch.next_at() == 5.26
    assert look(watch, 5.27, changed=False) == (("%1",), ("%1",))
    assert watch.next_at() is None
    # It is busy no longer; a change that is no output is looked at, too.
    assert watch.output("%1", 6.0) == 6.0 + LEADING_EDGE
    assert watch.take_pauses() == ()
    assert watch.touch("%2", 6.0) == 6.0 + LEADING_EDGE


def test_a_busy_pane_that_cannot_be_paused_is_looked_at_when_it_writes() -> None:
    watch = PaneWatch()
    watch.add("%1", pausable=False)
    looks = spin(watch, "%1", start=5.0, frames=100)
    assert max(b - a for a, b in itertools.pairwise(looks)) < 0.36
    watch.take(20.0)
    watch.answered("%1", changed=True)
    assert watch.next_at() is None


def test_busy_panes_that_are_due_soon_keep_each_other_company(watch: PaneWatch) -> None:
    make_busy(watch, "%1")
    for now in (5.03, 5.031, 5.032):
        watch.output("%2", now)
    assert look(watch, 5.05)[0] == ("%2",)
    assert look(watch, 5.26)[0] == ("%1", "%2")


def test_a_pane_is_not_asked_again_before_it_has_answered(watch: PaneWatch) -> None:
    watch.output("%1", 5.0)
    watch.take(5.01)
    watch.output("%1", 5.02)
    assert watch.next_at() is None
    assert watch.take(6.0)[0] == ()
    watch.answered("%1", changed=True)
    assert watch.take(6.0)[0] == ("%1",)


@pytest.mark.parametrize(("panes", "interval"), [(10, 0.25), (50, 0.25), (100, 0.5), (400, 1.0)])
def test_the_interval_grows_with_the_busy_panes(panes: int, interval: float) -> None:
    watch = PaneWatch()
    for number in range(panes):
        watch.add(f"%{number}")
        for now in (5.0, 5.001, 5.002):
            watch.output(f"%{number}", now)
    look(watch, 5.02)
    assert watch.interval == interval


def test_a_pane_that_is_not_known_is_no_matter(watch: PaneWatch) -> None:
    watch.remove("%1")
    assert watch.output("%1", 5.0) is None
    assert watch.touch("%1", 5.0) is None
    watch.answered("%1", changed=True)
    watch.remove("%1")
    assert watch.next_at() is None
