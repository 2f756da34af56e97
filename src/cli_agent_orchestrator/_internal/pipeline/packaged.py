"""What comes with the package: the flows, and the words that end every prompt."""

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from cli_agent_orchestrator._internal.pipeline.flow import Flow, FlowSource
from cli_agent_orchestrator._internal.pipeline.flow_file import read_flow
from cli_agent_orchestrator.errors import UnknownName

LOOP = "loop"
PACKAGED = (LOOP, "pair", "solo")
"""The flows that come with the package; the first is the specification's, and the default."""


@cache
def packaged_flow(name: str) -> Flow:
    """Return a flow that comes with the package."""
    if name not in PACKAGED:
        raise UnknownName("flow", name, PACKAGED)
    folder = _package() / "flows"
    prompts = [file for file in (folder / name).iterdir() if file.name.endswith(".md")]
    templates = {file.name.removesuffix(".md"): _text(file) for file in prompts}
    return read_flow(FlowSource(_text(folder / f"{name}.toml"), templates), name, f"{name}.toml")


@cache
def response_file_template() -> str:
    """Return the words that tell an agent to write its reply to a file."""
    return _text(_package() / "pipeline" / "templates" / "response_file.md")


def _package() -> Traversable:
    return files("cli_agent_orchestrator._internal")


def _text(file: Traversable) -> str:
    return file.read_text(encoding="utf-8")
