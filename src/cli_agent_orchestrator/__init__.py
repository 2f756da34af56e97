"""Runs CLI coding agents in tmux terminals and takes a task through them until it passes.

`import cli_agent_orchestrator as cao` offers the names in `__all__`; docs/python.md explains them.
All else is private and may change without notice. Each public name is imported when it is
first used, so that the command line stays quick.
"""

from importlib import import_module

# Not from `typing`: with `python -m` the current folder, a project's, is still searched for it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import errors, events
    from .core.models import AgentView, Delivery, TerminalEvent, TerminalStatus
    from .public import Client, Flow, RunResult, run
    from .version import __version__

__all__ = [
    "AgentView",
    "Client",
    "Delivery",
    "Flow",
    "RunResult",
    "TerminalEvent",
    "TerminalStatus",
    "__version__",
    "errors",
    "events",
    "run",
]

_MODULES = ("errors", "events")
_HOMES = {
    "__version__": "version",
    **dict.fromkeys(("AgentView", "Delivery", "TerminalEvent", "TerminalStatus"), "core.models"),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'public')}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
