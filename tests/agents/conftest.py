"""Real agent programs in real terminals, with a stub for a model; run by `make test-agents`."""

import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.agents.driving import KINDS, TRIED, Driven, Ground, Kind, ground_of

# Named twice because they are fixtures: what uses them is not seen here.
from tests.e2e.conftest import machine as machine
from tests.e2e.conftest import warm as warm


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what installs programs unless it is asked for, and all but the steps of TRIED."""
    wanted = "agents" in config.option.markexpr
    left_out = []
    for item in items:
        step = item.get_closest_marker("newest")
        if item.get_closest_marker("agents") and not (wanted and (step or not TRIED)):
            left_out.append(item)
        elif TRIED and step and isinstance(item, pytest.Function):
            params = item.callspec.params
            item.user_properties += [
                ("step", step.args[0].format(**params)),
                ("kind", str(params["kind"])),
            ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_runtest_setup() -> None:
    if time.time() > float(os.environ.get("NEWEST_UNTIL", "inf")):
        pytest.skip("no time left")


@pytest.fixture(params=KINDS, ids=str)
def kind(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    return chosen


@pytest.fixture
def ground(kind: Kind, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Ground]:
    with ground_of(kind, tmp_path) as ground:
        ground.step = dict(request.node.user_properties).get("step", "").replace(" ", "_")
        yield ground


@pytest.fixture
async def driven(ground: Ground) -> AsyncIterator[Driven]:
    """An agent that has answered once."""
    async with ground.agent() as driven:
        await driven.take(1, "[[answer:before]]")
        yield driven
