"""The journal of a run, whatever has become of its file."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.runs.turns import Journal, TurnRecord

FIRST = TurnRecord(1, "analyst", 1, 1, "codex", 0.0, 9.0, 9.0, "done", "001-analyst.md", "file")
SECOND = replace(FIRST, sequence=2, role="analyst_review")


def test_a_line_that_is_no_text_is_left_out_and_the_others_are_read(tmp_path: Path) -> None:
    journal = Journal(Folder(tmp_path))
    journal.write(FIRST)
    with journal.path.open("ab") as file:
        file.write(b"\xff\xfe\n")
    journal.write(SECOND)
    assert journal.read() == [FIRST, SECOND]


def test_a_turn_with_a_byte_that_is_no_text_is_still_a_turn(tmp_path: Path) -> None:
    journal = Journal(Folder(tmp_path))
    journal.write(FIRST)
    journal.path.write_bytes(journal.path.read_bytes().replace(b"done", b"d\xffne"))
    assert journal.read() == [replace(FIRST, outcome="d\ufffdne")]


def test_a_turn_that_an_earlier_version_wrote_is_read(tmp_path: Path) -> None:
    journal = Journal(Folder(tmp_path))
    told = replace(FIRST, word="delivered", verdict="done", why="so")
    journal.write(told)
    assert journal.read() == [told]
    data = asdict(FIRST)
    del data["word"], data["verdict"], data["why"]
    journal.path.write_text(json.dumps(data) + "\n")
    assert journal.read() == [FIRST]


def test_half_a_line_that_a_full_disk_left_spoils_no_other(tmp_path: Path) -> None:
    journal = Journal(Folder(tmp_path))
    journal.write(FIRST)
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole + whole[:20])
    journal.write(SECOND)
    assert journal.read() == [FIRST, SECOND]


@pytest.mark.parametrize("name", ["sequence", "round", "cycle", "began", "ended", "worked"])
@pytest.mark.parametrize("number", [10**400, 1e300, float("inf"), float("nan")])
def test_a_number_out_of_range_spoils_no_other_line(
    tmp_path: Path, name: str, number: float
) -> None:
    journal = Journal(Folder(tmp_path))
    journal.write(FIRST)
    with journal.path.open("a") as file:
        file.write(json.dumps({**asdict(SECOND), name: number}) + "\n")
    assert journal.read() == [FIRST]
