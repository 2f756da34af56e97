"""Servers to talk to, and clients that do."""

from collections.abc import Iterator

import pytest

from cli_agent_orchestrator.client.client import ApiClient
from tests.server.running import TOKEN, RunningApi, running_api
from tests.third_party import ThirdParty, third_party


@pytest.fixture
def server() -> Iterator[RunningApi]:
    with running_api() as server:
        yield server


@pytest.fixture
def client(server: RunningApi) -> Iterator[ApiClient]:
    with ApiClient(server.url, token=TOKEN, working_directory="/home/ada/shop") as client:
        yield client


@pytest.fixture
def theirs() -> Iterator[ThirdParty]:
    with third_party() as theirs:
        yield theirs


@pytest.fixture
def guest(theirs: ThirdParty) -> Iterator[ApiClient]:
    with ApiClient(theirs.url, working_directory="/home/ada/shop") as guest:
        yield guest
