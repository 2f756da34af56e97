"""Who takes part in a run: roles, the phases they work in, and where each of them sits.

    phase        author       reviewer            then
    analyst      analyst      analyst_review      programmer
    programmer   programmer   programmer_review   tester
    tester       tester       -                   done

Author and reviewer take turns until the reviewer's approval counts or the cycles are used up.
What comes after the tester depends on its verdict, and stands in `machine.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a turn is for."""

    ANALYST = "analyst"
    ANALYST_REVIEW = "analyst_review"
    PROGRAMMER = "programmer"
    PROGRAMMER_REVIEW = "programmer_review"
    TESTER = "tester"

    @property
    def terminal(self) -> str:
        """Name the terminal of this role, as the state file does."""
        return SEATS[self].terminal

    @property
    def profile(self) -> str:
        """Name the profile the agent of this role is started with."""
        return SEATS[self].profile

    @property
    def response_file(self) -> str:
        """Name the file the agent of this role writes its reply to."""
        return SEATS[self].response_file


def name_of(terminal: str) -> str:
    """Return the name of the role that sits in a terminal, which is what people know it by."""
    return next((role for role in Role if role.terminal == terminal), terminal)


class Phase(StrEnum):
    """Where a round is."""

    ANALYST = "analyst"
    PROGRAMMER = "programmer"
    TESTER = "tester"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Stage:
    """Who works in a phase, and which phase comes next."""

    author: Role
    reviewer: Role | None
    then: Phase

    @property
    def roles(self) -> tuple[Role, ...]:
        """List the roles of the phase in the order of their turns."""
        return (self.author,) if self.reviewer is None else (self.author, self.reviewer)


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a role sits: its terminal, its profile, its response file."""

    terminal: str
    profile: str
    response_file: str


STAGES: Mapping[Phase, Stage] = {
    Phase.ANALYST: Stage(Role.ANALYST, Role.ANALYST_REVIEW, Phase.PROGRAMMER),
    Phase.PROGRAMMER: Stage(Role.PROGRAMMER, Role.PROGRAMMER_REVIEW, Phase.TESTER),
    Phase.TESTER: Stage(Role.TESTER, None, Phase.DONE),
}

SEATS: Mapping[Role, Seat] = {
    Role.ANALYST: Seat("analyst", "system_analyst", "analyst_summary.md"),
    Role.ANALYST_REVIEW: Seat("peer_analyst", "peer_system_analyst", "analyst_review.md"),
    Role.PROGRAMMER: Seat("programmer", "programmer", "programmer_summary.md"),
    Role.PROGRAMMER_REVIEW: Seat("peer_programmer", "peer_programmer", "programmer_review.md"),
    Role.TESTER: Seat("tester", "tester", "test_result.md"),
}
