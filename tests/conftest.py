"""How tests are run.

With the same examples each time, or with new ones (`make search`). And no test sees a server that
it did not start, or a folder of the user's: each has a state folder and a configuration folder that
are not there yet, and the port 0, which means a free one. Whoever uses the default port all the
same fails at once, in this process and in the programs of ours that it starts.
"""

import gc
import itertools
import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from cli_agent_orchestrator.settings.config import DEFAULT_PORT
from cli_agent_orchestrator.settings.table import BY_NAME

# A shell that starts a program in the background lets it ignore Ctrl-C, `nohup` lets it ignore the
# end of its terminal, and so would all that is started here.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# All that is asked here is on this machine, and no proxy stands in between.
for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[name]

FOUND = Path(__file__).parents[1] / ".cache" / "hypothesis"

# A busy machine is slow: that is no finding. No profile is built on another, since Hypothesis has
# one of its own for CI.
settings.register_profile(
    "same",
    max_examples=30,
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "search",
    max_examples=3000,
    derandomize=False,
    database=DirectoryBasedExampleDatabase(FOUND),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("same")

MEMORY = Path("/dev/shm")
ROOM_NEEDED = 2 << 30


def is_fit_for_files(folder: Path) -> bool:
    """Is there room in a folder, and can programs in it be run?"""
    if not os.access(folder, os.W_OK):
        return False
    about = os.statvfs(folder)
    room = about.f_bavail * about.f_frsize
    return room >= ROOM_NEEDED and not about.f_flag & getattr(os, "ST_NOEXEC", 0)


NAME = f"cao-tests-{secrets.token_hex(8)}"
NUMBERS = itertools.count()
NAMES_A_SERVER = ("CAO_API", "API", "CAO_PORT")


# What is collected stays to the end: it need not be looked through for garbage again and again.
gc.disable()


CONTRACT = ("contract", "e2e", "pipeline/test_golden_prompts.py", "test_scenarios.py")
"""Tests of what users and their programs rely on."""


def pytest_configure(config: pytest.Config) -> None:
    # Half of the time of many tests went by until a disk had what they save. But the sandboxes of
    # agents let them write into no such place.
    is_for_agents = config.option.markexpr == "agents"
    if "TMPDIR" not in os.environ and not is_for_agents and is_fit_for_files(MEMORY):
        tempfile.tempdir = str(MEMORY)


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    for item in items:
        where = item.path.relative_to(Path(__file__).parent).as_posix()
        if where.startswith(CONTRACT):
            item.add_marker("contract")


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    shutil.rmtree(Path(tempfile.gettempdir()) / NAME, ignore_errors=True)


def pytest_runtest_setup() -> None:
    # Only a name: most tests make nothing there.
    own = Path(tempfile.gettempdir()) / NAME / str(next(NUMBERS))
    os.environ["CAO_STATE_DIR"] = str(own / "state")
    os.environ["CAO_CONFIG_DIR"] = str(own / "config")


def forget_the_users_settings() -> None:
    for name in list(os.environ):
        if name in BY_NAME or name.startswith(("CAO_", "GIT_AUTHOR_", "GIT_COMMITTER_")):
            del os.environ[name]
    os.environ["CAO_PORT"] = "0"


# Any: as in sys.addaudithook
def refuse_the_default_port(event: str, args: tuple[Any, ...]) -> None:
    """Raise when somebody is about to use the port of the user's own server."""
    match event, args:
        case "socket.connect" | "socket.bind", (_, (_, int(port), *_)) if port == DEFAULT_PORT:
            raise AssertionError(f"a test must not use port {port}: a server may be there")
        case "subprocess.Popen", (_, words, _, env) if is_ours(words):
            environ = os.environ if env is None else env
            named = [environ[name] for name in NAMES_A_SERVER if environ.get(name)]
            if not named or any(str(DEFAULT_PORT) in name for name in named):
                raise AssertionError(f"a test must name a port of its own to {words}: {named}")


def is_ours(words: str | Sequence[str]) -> bool:
    """Is a program that is about to be started `cao`?"""
    return not isinstance(words, str) and (
        "cli_agent_orchestrator" in words or Path(str(words[0])).name == "cao"
    )


forget_the_users_settings()
sys.addaudithook(refuse_the_default_port)
