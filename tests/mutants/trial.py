"""Runs the tests of a module in a process of its own, in which the module is a changed one."""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import resource
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import CodeType, ModuleType

import pytest
from hypothesis import HealthCheck, Phase, settings

MEMORY_BYTES = 4 << 30
# pytest would have liked to see our imports itself
QUIET = ("-qx", "--tb=no", "-pno:cacheprovider", "-Wignore::pytest.PytestAssertRewriteWarning")
PLUGINS = ("-ppytest_asyncio.plugin", "-p_hypothesis_pytestplugin")

# Few examples, and none is made smaller: whether a test fails is all that is asked, and
# a change that only the hundredth example notices is to be noticed by a test with a name.
settings.register_profile(
    "mutants",
    max_examples=20,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)


class Outcome(Enum):
    """What the tests said."""

    GREEN = "green"
    RED = "red"
    ENDLESS = "endless"


@dataclass(frozen=True, slots=True)
class Trial:
    """A module, the code to run in its place, and the tests that judge it."""

    name: str
    path: Path
    code: CodeType | None
    """None leaves the module as it is."""
    tests: Sequence[str]
    cpu_seconds: int
    """How much of a processor the tests may use: other programs do not slow that down."""


class _Instead(importlib.abc.MetaPathFinder):
    """Finds the changed module before the one on the disk."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._trial.name or self._trial.code is None:
            return None
        loader = _Loader(fullname, str(self._trial.path))
        loader.code = self._trial.code
        return importlib.util.spec_from_file_location(fullname, self._trial.path, loader=loader)


class _Loader(importlib.machinery.SourceFileLoader):
    code: CodeType

    def get_code(self, fullname: str) -> CodeType:
        return self.code


def run(trial: Trial) -> tuple[Outcome, float]:
    """Return what the tests said and the processor time they took."""
    child = os.fork()
    if child == 0:
        try:
            code = _judge(trial)
        except BaseException:  # noqa: BLE001  # whatever it is, it is the change that did it
            code = 1
        os._exit(code)
    _, status, usage = os.wait4(child, 0)
    seconds = usage.ru_utime + usage.ru_stime
    if os.WIFSIGNALED(status):
        return Outcome.ENDLESS, seconds
    return (Outcome.GREEN if os.WEXITSTATUS(status) == 0 else Outcome.RED), seconds


def _judge(trial: Trial) -> int:
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CPU, (trial.cpu_seconds, trial.cpu_seconds + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    silence = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(silence, number)
    sys.meta_path.insert(0, _Instead(trial))
    # Whatever else is installed for pytest takes longer to load than most of these tests.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return int(pytest.main([*QUIET, *PLUGINS, "--hypothesis-profile=mutants", *trial.tests]))
