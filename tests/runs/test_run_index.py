"""The number of a run: the smallest that no other run has."""

from pathlib import Path

from cli_agent_orchestrator.runs.record import run_index


def test_each_run_has_the_smallest_free_number(tmp_path: Path) -> None:
    with run_index(tmp_path) as first:
        with run_index(tmp_path) as second, run_index(tmp_path) as third:
            assert (first, second, third) == (0, 1, 2)
        with run_index(tmp_path) as again:
            assert again == 1


def test_without_a_folder_for_it_there_is_a_number_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "indexes").write_text("")
    with run_index(tmp_path) as number:
        assert number == 0
