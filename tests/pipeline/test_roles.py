"""Who takes part in a run, and where each of them sits."""

import pytest

from cli_agent_orchestrator.pipeline.roles import STAGES, Phase, Role
from cli_agent_orchestrator.settings import ROLE_PROVIDERS


@pytest.mark.parametrize(
    ("role", "terminal", "profile", "file"),
    [
        (Role.ANALYST, "analyst", "system_analyst", "analyst_summary.md"),
        (Role.ANALYST_REVIEW, "peer_analyst", "peer_system_analyst", "analyst_review.md"),
        (Role.PROGRAMMER, "programmer", "programmer", "programmer_summary.md"),
        (Role.PROGRAMMER_REVIEW, "peer_programmer", "peer_programmer", "programmer_review.md"),
        (Role.TESTER, "tester", "tester", "test_result.md"),
    ],
)
def test_each_role_has_its_terminal_profile_and_file(
    role: Role, terminal: str, profile: str, file: str
) -> None:
    """Scenario: Each role resolves to the correct file"""
    assert (role.terminal, role.profile, role.response_file) == (terminal, profile, file)


def test_every_role_has_a_setting_for_its_agent() -> None:
    assert list(ROLE_PROVIDERS) == list(Role)


def test_every_role_works_in_exactly_one_phase() -> None:
    assert [role for stage in STAGES.values() for role in stage.roles] == list(Role)


def test_the_phases_follow_each_other_to_the_end() -> None:
    phase, seen = Phase.ANALYST, []
    while phase in STAGES:
        seen.append(phase)
        phase = STAGES[phase].then
    assert seen == [Phase.ANALYST, Phase.PROGRAMMER, Phase.TESTER]
    assert phase is Phase.DONE


def test_the_words_of_the_state_file_stay_what_they_are() -> None:
    assert [str(phase) for phase in Phase] == ["analyst", "programmer", "tester", "done"]
    assert [str(role) for role in Role] == [
        "analyst",
        "analyst_review",
        "programmer",
        "programmer_review",
        "tester",
    ]
