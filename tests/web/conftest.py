"""Real browsers and real runs; run by `make test-web`."""

from collections.abc import Iterator
from typing import Any

import pytest

# Named twice because they are fixtures: what uses them is not seen here.
from tests.e2e.conftest import machine as machine
from tests.e2e.conftest import warm as warm
from tests.web.browser import Windows, started_browser


# One for all tests of the folder; while it runs, no test in its process can be asynchronous.
@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    with started_browser() as browser:
        yield browser


@pytest.fixture
def windows(browser: Any) -> Iterator[Windows]:
    windows = Windows(browser)
    yield windows
    windows.close()
