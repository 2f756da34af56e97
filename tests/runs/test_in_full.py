"""A run with every turn of it."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cli_agent_orchestrator.runs import story as in_full
from cli_agent_orchestrator.runs.restore import read_kept
from cli_agent_orchestrator.runs.story import TurnDetail, detail_of, run_in_full
from cli_agent_orchestrator.settings.layout import SNAPSHOTS_FOLDER, archive_folder
from cli_agent_orchestrator.work.changes import REST_LEFT_OUT
from tests.runs.kept_runs import RUN, make_run, snapshots_in
from tests.runs.test_story import FIRST, REVIEWER, SECOND, reply, turn


@pytest.fixture
def wd(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def without_files(detail: TurnDetail) -> TurnDetail:
    return replace(detail, files=None, patch=detail.patch or None)


def test_every_turn_is_as_it_is_alone(tmp_path: Path, wd: Path) -> None:
    events = (*turn(1, "programmer"), *turn(2, REVIEWER), *turn(3, "programmer"))
    events += turn(4, REVIEWER, cycle=2)
    folder = make_run(tmp_path / "state", wd, events=events)
    snapshots = snapshots_in(folder, wd)
    snapshots.take(0, "start")
    for number, text in ((1, "1\n"), (2, "1\n"), (3, "2\n"), (4, "2\n")):
        (wd / "a.txt").write_text(text)
        snapshots.take(number, "x")
    reply(wd, 2, REVIEWER, FIRST)
    reply(wd, 4, REVIEWER, SECOND)
    archive_folder(wd, RUN).create("001-programmer.prompt.md", b"do it")
    full = run_in_full(folder, os.environ)
    alone = [detail_of(folder, number, os.environ) for number in (1, 2, 3, 4)]
    assert list(full.details) == [without_files(one) for one in alone]
    assert [bool(one.patch) for one in full.details] == [True, False, True, False]
    assert "+2" in full.patch
    assert [one.sequence for one in full.story.turns] == [1, 2, 3, 4]


def test_without_snapshots_nothing_is_known_of_changes(tmp_path: Path, wd: Path) -> None:
    full = run_in_full(make_run(tmp_path / "state", wd, events=turn(1, "tester")), os.environ)
    assert (full.patch, [one.patch for one in full.details]) == ("", [None])


def test_of_snapshots_that_cannot_be_read_only_the_changes_are_not_known(
    tmp_path: Path, wd: Path
) -> None:
    folder = make_run(tmp_path / "state", wd, events=(*turn(1, "tester"), *turn(2, "tester")))
    snapshots = snapshots_in(folder, wd)
    for number, label in enumerate(("start", "tester", "tester")):
        (wd / "a.txt").write_text(f"{number}\n" * (number + 1))
        snapshots.take(number, label)
    objects = folder.path / SNAPSHOTS_FOLDER / "objects"
    between = read_kept(folder, os.environ).taken[1].tree
    (objects / between[:2] / between[2:]).unlink()
    full = run_in_full(folder, os.environ)
    assert "+2" in full.patch
    assert not any(one.patch for one in full.details)
    shutil.rmtree(objects)
    full = run_in_full(folder, os.environ)
    assert (full.patch, [one.patch for one in full.details]) == ("", [None, None])


def test_what_a_turn_changed_is_cut_if_it_is_long(tmp_path: Path, wd: Path) -> None:
    events = (*turn(1, "programmer"), *turn(2, "programmer"))
    folder = make_run(tmp_path / "state", wd, events=events)
    snapshots = snapshots_in(folder, wd)
    snapshots.take(0, "start")
    (wd / "a.txt").write_text("a line\n" * 1000)
    snapshots.take(1, "programmer")
    (wd / "a.txt").write_text("another line\n")
    snapshots.take(2, "programmer")
    long, _ = (one.patch or "" for one in run_in_full(folder, os.environ).details)
    assert long.endswith(f"+a line\n{REST_LEFT_OUT}\n")
    assert long.count("\n") == in_full.MOST_LINES + 1
