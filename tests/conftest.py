"""How tests are run: with the same examples each time, or with new ones (`make search`)."""

import os
import signal
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

# A shell that starts a program in the background lets it ignore Ctrl-C, and so would all that is
# started here.
signal.signal(signal.SIGINT, signal.default_int_handler)

# All that is asked here is on this machine, and no proxy stands in between.
for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[name]

FOUND = Path(__file__).parents[1] / ".cache" / "hypothesis"

# A busy machine is slow: that is no finding. No profile is built on another, since Hypothesis has
# one of its own for CI.
settings.register_profile(
    "same",
    max_examples=100,
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
