"""Real browsers and real runs; run by `make test-web`."""

from collections.abc import Iterator
from typing import Any

import pytest

# Named twice because they are fixtures: what uses them is not seen here.
from tests.e2e.conftest import machine as machine
from tests.e2e.conftest import warm as warm
from tests.web.browser import Windows, missing, started_browser


# Whoever asks for these tests by their mark, as `make test-web` does, wants them to be run.
# One for all tests of the folder; while it runs, no test in its process can be asynchronous.
@pytest.fixture(scope="package")
def browser(request: pytest.FixtureRequest) -> Iterator[Any]:
    lacking = missing()
    if lacking and "web" in request.config.option.markexpr:
        pytest.fail(f"there is no {lacking}: make test-web")
    if lacking:
        pytest.skip(f"there is no {lacking}: make test-web")
    with started_browser() as browser:
        yield browser


@pytest.fixture
def windows(browser: Any) -> Iterator[Windows]:
    windows = Windows(browser)
    yield windows
    windows.close()
