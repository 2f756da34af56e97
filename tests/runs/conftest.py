"""What tests of runs begin with."""

from pathlib import Path

import pytest

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.settings.layout import run_folder
from tests.runs.fakes import Rig
from tests.runs.views import RUN
from tests.work.projects import Project, make_project


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """The folder of a run that has nothing in it yet."""
    folder = run_folder(tmp_path, RUN)
    folder.make()
    return folder


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project")
