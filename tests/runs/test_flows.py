"""Where flows come from."""

from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import FlowError, UnknownName, UsageError
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow
from cli_agent_orchestrator.runs.flows import Flows

TEXT = """\
description = "{description}"
[[stages]]
name = "work"
author = "worker"
[[stages]]
name = "gate"
gate = true
[roles.worker]
"""


@pytest.fixture
def flows(tmp_path: Path) -> Flows:
    project, config = tmp_path / "project", tmp_path / "config"
    project.mkdir()
    return Flows(project, config)


def write(folder: Path, name: str, description: str = "mine") -> Path:
    """Write a flow with its prompt and return the path of its file."""
    (folder / name).mkdir(parents=True)
    (folder / name / "worker.md").write_text("$context\n$response_file\n", encoding="utf-8")
    path = folder / f"{name}.toml"
    path.write_text(TEXT.format(description=description), encoding="utf-8")
    return path


def test_the_users_own_comes_before_the_projects(flows: Flows) -> None:
    write(flows.project / ".cao" / "flows", "own", "the project's")
    assert flows.find("own").description == "the project's"
    write(flows.config_folder / "flows", "own", "the user's")
    flow = flows.find("own")
    assert (flow.name, flow.description) == ("own", "the user's")
    assert flow.role("worker").template == "$context\n$response_file\n"


def test_nothing_takes_the_place_of_a_packaged_flow(flows: Flows) -> None:
    path = write(flows.project / ".cao" / "flows", "loop")
    assert flows.find("loop") is packaged_flow("loop")
    assert flows.find(str(path)).description == "mine"
    (found,) = [found for found in flows.all() if found.where == str(path)]
    assert found.flow is None
    assert "another flow has this name" in found.fault


@pytest.mark.parametrize("name", ["nope", "../x", "No", ""])
def test_a_flow_that_is_not_there_is_refused(flows: Flows, name: str) -> None:
    write(flows.project / ".cao" / "flows", "own")
    with pytest.raises(UsageError) as caught:
        flows.find(name)
    if name == "nope":
        assert isinstance(caught.value, UnknownName)
        assert "there are: loop, pair, solo, own" in str(caught.value)


def test_a_file_that_is_not_there_or_no_text_is_named(flows: Flows, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    with pytest.raises(UsageError, match=r"x\.toml cannot be read: No such file"):
        flows.find(str(path))
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="not text in UTF-8"):
        flows.find(str(path))
    with pytest.raises(FlowError, match="a flow cannot be named 'my flow'"):
        flows.find(str(tmp_path / "my flow.toml"))


def test_flows_of_a_project_are_read_without_following_links(flows: Flows, tmp_path: Path) -> None:
    path = write(tmp_path / "elsewhere", "own")
    folder = flows.project / ".cao" / "flows"
    folder.mkdir(parents=True)
    (folder / "own.toml").symlink_to(path)
    (folder / "own").symlink_to(path.parent / "own")
    with pytest.raises(UsageError, match="a symbolic link"):
        flows.find("own")


def test_all_are_listed_with_their_faults(flows: Flows) -> None:
    write(flows.config_folder / "flows", "mine")
    broken = write(flows.project / ".cao" / "flows", "broken")
    broken.write_text("x = 1", encoding="utf-8")
    assert [(found.name, bool(found.flow), bool(found.fault)) for found in flows.all()] == [
        ("loop", True, False),
        ("pair", True, False),
        ("solo", True, False),
        ("mine", True, False),
        ("broken", False, True),
    ]


@pytest.mark.parametrize("place", [".cao", ".cao/flows"])
@pytest.mark.parametrize("is_link", [True, False])
def test_what_is_no_folder_of_flows_is_named(
    flows: Flows, tmp_path: Path, place: str, is_link: bool
) -> None:
    """Such a link can come with a cloned project."""
    write(tmp_path / "elsewhere" / "flows", "own")
    path = flows.project / place
    path.parent.mkdir(exist_ok=True)
    target = tmp_path / "elsewhere" / ("flows" if place.endswith("flows") else "")
    if is_link:
        path.symlink_to(target)
    else:
        path.write_text("no folder")
    folder = flows.project / ".cao" / "flows"
    for name in ("own", "nope"):
        with pytest.raises(UsageError, match=rf"{folder} cannot be read: its folder {path} is a "):
            flows.find(name)
    assert flows.find("loop") is packaged_flow("loop")
