"""Real browsers and real runs; run by `make test-web`."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.e2e.conftest import Machine

# Named twice because they are fixtures: what uses them is not seen here.
from tests.e2e.conftest import machine as machine
from tests.e2e.conftest import warm as warm
from tests.page.rig import PageRig
from tests.web.browser import DESK, Look, Page, Windows, missing, started_browser
from tests.web.demo_runs import prepare_demo
from tests.web.visits import Visit, signed_in, visiting


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


class Demo(Protocol):
    """Begins a visit to a server whose agents follow the demo's script; see `prepare_demo`."""

    def __call__(
        self, *first: str, asking: Sequence[str] = (), seconds: float = 0.2, look: Look = DESK
    ) -> Visit: ...


@pytest.fixture
def demo(machine: Machine, windows: Windows, tmp_path: Path) -> Iterator[Demo]:
    with ExitStack() as stack:

        def begin(
            *first: str, asking: Sequence[str] = (), seconds: float = 0.2, look: Look = DESK
        ) -> Visit:
            prepare_demo(machine, *first, asking=asking, seconds=(seconds,))
            return stack.enter_context(visiting(machine, windows, tmp_path, look=look))

        yield begin


@pytest.fixture
def url(rig: PageRig, windows: Windows) -> Iterator[str]:
    """Where the page of a module's `rig` is served."""
    with rig.served() as url:
        yield url
        windows.close()  # before the server ends, of which they would complain


@pytest.fixture
def tab(url: str, windows: Windows) -> Page:
    """Who is signed in there."""
    return signed_in(windows, url)
