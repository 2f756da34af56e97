"""A running server and a client that may use it."""

from collections.abc import Iterator

import httpx
import pytest

from tests.server.running import RunningApi, running_api


@pytest.fixture
def api() -> Iterator[RunningApi]:
    with running_api() as api:
        yield api


@pytest.fixture
def http(api: RunningApi) -> Iterator[httpx.Client]:
    with api.client() as http:
        yield http
