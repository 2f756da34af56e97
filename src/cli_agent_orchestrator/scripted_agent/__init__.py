"""The packaged agent of the demo and the tests: a small terminal program that obeys a script."""

from pathlib import Path

FOLDER = Path(__file__).parent
DEFAULT_SCRIPT = FOLDER / "default.toml"
"""Plays all five roles so that a whole run passes."""
DEMO_SCRIPT = FOLDER / "demo.toml"
"""Plays the demo: FAIL in round 1, PASS in round 2."""
DEMO_PROJECT = FOLDER / "demo_project"
"""The broken project that the demo repairs; to be copied before use, without `__pycache__`."""
