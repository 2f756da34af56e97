"""What is done about files that were changed by somebody whose task it is not, with real git."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.events import (
    FilesChanged,
    HandoffEvent,
    ReviewSkipped,
    RunEvent,
    TurnBegan,
    TurnEnded,
    Warned,
)
from cli_agent_orchestrator.pipeline.requests import SentRequest, Set, Skip
from cli_agent_orchestrator.pipeline.state import FinalStatus
from cli_agent_orchestrator.runs.screens import read_screen
from cli_agent_orchestrator.settings.layout import run_folder
from cli_agent_orchestrator.work.folder import PERSON_LABEL, WorkFolder, open_work_folder
from cli_agent_orchestrator.work.snapshots import LARGEST_FILE
from tests.runs.fakes import Asked, FakeServer, Rig, agree
from tests.work.projects import git, make_repository


def work_of(project: Path) -> WorkFolder:
    state = run_folder(project.parent / "state", "20261115-084037-k3f9")
    return open_work_folder(project, state, os.environ)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """Return a run whose programmer writes a.py, and whose tester edits it."""
    project = make_repository(
        tmp_path / "project", {"a.py": "one\n", ".gitignore": ".tmp\nstate\n"}
    )

    def answer(asked: Asked) -> str | None:
        if asked.role == "programmer":
            (project / "a.py").write_text("two\n", encoding="utf-8")
        if asked.role == "tester":
            (project / "a.py").write_text("cheated\n", encoding="utf-8")
            (project / "new.py").write_text("cheated\n", encoding="utf-8")
        return agree(asked)

    rig = Rig(project, FakeServer(answer))
    rig.work = work_of(project)
    return rig


def told(rig: Rig) -> list[FilesChanged]:
    return [event for event in rig.events if isinstance(event, FilesChanged)]


def content(rig: Rig) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in rig.folder.glob("*.py")}


CHEATED = {"a.py": "cheated\n", "new.py": "cheated\n"}


@pytest.mark.parametrize(
    ("mode", "allowed", "restored", "left"),
    [
        ("off", True, False, CHEATED),
        ("warn", False, False, CHEATED),
        ("restore", False, True, {"a.py": "two\n"}),
    ],
)
def test_what_a_tester_changes_is_told_and_put_back_as_wanted(
    rig: Rig, mode: str, allowed: bool, restored: bool, left: dict[str, str]
) -> None:
    with rig.runner(state := rig.begin()) as runner:
        # By a person, while it runs; the tests below set it from the beginning.
        runner.hear(SentRequest("ask-1", rig.clock.now(), Set("readonly_roles", mode)), 10)
        assert runner.run(state).final_status is FinalStatus.PASS
    by_programmer, *_, by_tester = told(rig)
    assert (by_programmer.role, by_programmer.allowed) == ("programmer", True)
    assert (by_tester.role, by_tester.allowed) == ("tester", allowed)
    assert by_tester.restored == restored
    assert by_tester.files == ("a.py", "new.py")
    assert content(rig) == left
    assert rig.work.snapshots is not None
    (kept,) = [one for one in rig.work.snapshots.all() if one.label == "tester"]
    assert kept.sequence == by_tester.sequence
    assert rig.work.snapshots.read(kept.tree, "new.py", 99) == b"cheated\n"


def test_what_a_person_changes_between_turns_is_no_turns_doing(rig: Rig) -> None:
    def on_event(event: RunEvent) -> None:
        if isinstance(event, TurnEnded) and event.role == "programmer":
            (rig.folder / "mine.txt").write_text("mine\n", encoding="utf-8")
        rig.events.append(event)

    rig.server.answer = agree
    rig.rules = replace(rig.rules, readonly_roles="restore")
    assert rig.run(rig.begin(), on_event).final_status is FinalStatus.PASS
    assert told(rig) == []
    assert (rig.folder / "mine.txt").exists()
    assert rig.work.snapshots is not None
    (kept,) = [one for one in rig.work.snapshots.all() if one.label == PERSON_LABEL]
    assert rig.work.snapshots.read(kept.tree, "mine.txt", 99) == b"mine\n"


def test_every_event_of_a_turn_says_whose_and_which_it_is(rig: Rig) -> None:
    state = rig.begin()
    agent = rig.server.answer

    def answer(one: Asked) -> str | None:
        if one.role == "analyst_review":
            runner.hear(SentRequest("ask-1", rig.clock.now(), Skip()), 10)
            return None
        return agent(one)

    rig.server.answer = answer
    with rig.runner(state) as runner:
        assert runner.run(state).final_status is FinalStatus.PASS
    of_turns = (TurnBegan, HandoffEvent, TurnEnded, FilesChanged, ReviewSkipped)
    events = [event for event in rig.events if isinstance(event, of_turns)]
    assert {type(event) for event in events} == set(of_turns)
    turn = (0, 0)
    for event in events:
        assert event.terminal_id == state.terminal_of(event.role), event
        if isinstance(event, TurnBegan):
            turn = (event.round, event.cycle)
        assert (event.round, event.cycle) == turn, event


def test_that_there_are_no_snapshots_is_told_as_what_it_is(rig: Rig) -> None:
    (rig.folder.parent / "state").write_text("in the way", encoding="utf-8")
    rig.run(rig.begin())
    (told,) = [event for event in rig.events if isinstance(event, Warned) and event.about]
    why = rig.work.why_no_snapshots
    assert why
    assert told.about == "snapshots"
    assert told.text == f"what is done to the work folder can not be undone: {why}"


NOT_KEPT = (
    "in no snapshot since tester was at work: big.bin (larger than 50 MB), lone (a repository "
    "without a commit that can be read), nested (a repository of its own: only its commit id is "
    "kept); cao can not put back what was done there"
)


def make_what_cannot_be_kept(project: Path) -> None:
    """Make what no snapshot has, of each kind."""
    with (project / "big.bin").open("wb") as big:
        big.truncate(LARGEST_FILE + 1)
    git(project, "init", "-q", "lone")
    make_repository(project / "nested", {"a": "a\n"})


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        (False, "changed 3 files, which is not its task: nested, big.bin, lone"),
        (
            True,
            "changed 4 files, which is not its task: a.py, nested, big.bin, lone; put back, "
            "but kept in snapshot 9, except 3 that no snapshot has",
        ),
    ],
)
def test_what_a_tester_makes_that_cannot_be_kept_is_told_and_counts(
    rig: Rig, edits: bool, words: str
) -> None:
    def answer(asked: Asked) -> str | None:
        if asked.role == "tester":
            make_what_cannot_be_kept(rig.folder)
            if edits:
                (rig.folder / "a.py").write_text("cheated\n", encoding="utf-8")
        return agree(asked)

    rig.server.answer = answer
    rig.rules = replace(rig.rules, readonly_roles="restore")
    assert rig.run(rig.begin()).final_status is FinalStatus.PASS
    (by_tester,) = told(rig)
    assert (by_tester.role, by_tester.words) == ("tester", words)
    warned = [event.text for event in rig.events if isinstance(event, Warned)]
    assert [text for text in warned if "snapshot" in text] == [NOT_KEPT]
    assert content(rig) == {"a.py": "one\n"}


class Killed(Exception):
    """Stands for the end of the process."""


def test_a_kill_after_files_were_put_back_hides_nothing(rig: Rig) -> None:
    def on_event(event: RunEvent) -> None:
        if isinstance(event, FilesChanged) and event.role == "tester":
            raise Killed
        rig.events.append(event)

    rig.rules = replace(rig.rules, readonly_roles="restore")
    with pytest.raises(Killed):
        rig.run(rig.begin(), on_event)
    saved = rig.saved()
    assert content(rig) == {"a.py": "two\n"}
    asked = len(rig.server.asked)
    rig.work = work_of(rig.folder)
    with rig.runner(saved) as runner:
        state = runner.run(runner.record_archived_reply(saved))
    assert state.final_status is FinalStatus.PASS
    # The turn is not repeated, and what the tester did is told and kept all the same.
    assert len(rig.server.asked) == asked
    assert (told(rig)[-1].role, told(rig)[-1].restored) == ("tester", True)
    assert read_screen(rig.run_folder, told(rig)[-1].sequence, "tester") is None, "of another day"
    assert content(rig) == {"a.py": "two\n"}
    assert rig.work.snapshots is not None
    (kept,) = [one for one in rig.work.snapshots.all() if one.label == "tester"]
    assert rig.work.snapshots.read(kept.tree, "new.py", 99) == b"cheated\n"
