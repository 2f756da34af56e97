"""A machine for each test, and what many tests have on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.machine import CAO as CAO
from tests.e2e.machine import Machine as Machine
from tests.e2e.machine import Process as Process
from tests.e2e.machine import Server as Server
from tests.e2e.machine import ended_at_last as ended_at_last
from tests.e2e.machine import inherited as inherited
from tests.e2e.runs import WRITES, prepare, script
from tests.e2e.warm import WarmCao
from tests.work.projects import Project, make_project


@pytest.fixture(scope="session")
def warm() -> Iterator[WarmCao]:
    warm = WarmCao(inherited())
    yield warm
    warm.close()


@pytest.fixture
def machine(tmp_path: Path, warm: WarmCao) -> Iterator[Machine]:
    machine = Machine(tmp_path, warm)
    yield machine
    machine.shut_down()


@pytest.fixture
def ready(machine: Machine) -> Machine:
    """A machine whose agents take a run to a PASS."""
    prepare(machine, script())
    return machine


@pytest.fixture
def project(machine: Machine) -> Project:
    """A repository as the work folder, in which the programmer writes a file."""
    machine.work.rmdir()
    found = make_project(machine.work)
    prepare(machine, script(WRITES))
    return found
