"""Which versions of the day are tried."""

import pytest

from tests.agents.newest import to_try


@pytest.mark.parametrize(
    ("latest", "versions", "expected"),
    [
        ("0.9.0", "0.8.0 0.10.0-alpha.9 0.10.0-alpha.10 0.9.0", "0.9.0 0.8.0 0.10.0-alpha.10"),
        ("1.0.9", "1.0.2 1.0.10-1 1.0.8-3 1.0.10-1-linux-x64 1.0.9", "1.0.9 1.0.2 1.0.10-1"),
        ("0.9", "0.10rc1 0.9rc2 0.9", "0.9 0.10rc1"),
        ("2.1.3", "2.1.3 2.1.4", "2.1.3"),
    ],
)
def test_the_latest_the_one_before_and_what_comes_next(
    latest: str, versions: str, expected: str
) -> None:
    assert to_try(latest, versions.split(), before=True) == expected.split()
