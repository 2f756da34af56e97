"""A state folder with a run in it, and a server that shows it in the browser."""

from pathlib import Path

import pytest

from tests.page.rig import PageRig


@pytest.fixture
def rig(tmp_path: Path) -> PageRig:
    return PageRig(tmp_path)
