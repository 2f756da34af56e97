"""The id of a run."""

import pytest

from cli_agent_orchestrator.runs.record import is_run_id, new_run_id, short_name
from tests.handoff.fakes import FakeClock


def test_an_id_is_the_time_and_four_random_letters() -> None:
    ids = {new_run_id(FakeClock()) for _ in range(50)}
    assert len(ids) > 45
    assert len({one[:15] for one in ids}) == 1
    assert all(is_run_id(one) and len(one) == 20 for one in ids)


@pytest.mark.parametrize("text", ["20250131-120000", "20250131-120000-2", "20261115-084037-k3f9"])
def test_archives_of_earlier_versions_can_be_ids(text: str) -> None:
    assert is_run_id(text)


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "..", "k3f9", "../20261115-084037-k3f9", "20261115-084037-k3f9/..",
        "20261115-084037-K3F9", "20261115-084037-k3f9\n", "20261115-084037-", "/etc",
        "２０２６1115-084037-k3f9", "20261115-084037-k3f9\0", ".new-20261115-084037-k3f9",
    ],
)  # fmt: skip
def test_nothing_else_is_an_id(text: str) -> None:
    assert not is_run_id(text)


@pytest.mark.parametrize(
    ("run", "name"),
    [
        ("20261115-084037-k3f9", "k3f9"),
        ("20261115-084037-2026", "20261115-084037-2026"),
        ("20261115-084037-beef", "20261115-084037-beef"),
        ("20250131-120000-2", "20250131-120000-2"),
        ("20250131-120000", "20250131-120000"),
        ("", ""),
    ],
)
def test_people_call_a_run_by_its_last_letters_if_these_are_clear(run: str, name: str) -> None:
    assert short_name(run) == name
