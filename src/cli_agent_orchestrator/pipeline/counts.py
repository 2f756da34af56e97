"""Stand-in."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TestCounts:
    runner: str
    passed: int
    failed: int
    skipped: int
    failures: tuple[str, ...] = ()
    first_errors: Mapping[str, str] = field(default_factory=dict)
    __test__ = False

    @property
    def run(self) -> int:
        return self.passed + self.failed


def read_counts(output: str) -> TestCounts | None:
    return None
