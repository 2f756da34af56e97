"""The messages that users read are listed once, and their list is current."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_list_of_messages_is_current() -> None:
    """If not: `make messages`, and read the difference."""
    collect = runpy.run_path(str(ROOT / "scripts" / "messages.py"))["collect"]
    listed = (ROOT / "tests" / "contract" / "messages.txt").read_text(encoding="utf-8")
    assert collect() == listed


def test_messages_and_documentation_are_in_plain_english() -> None:
    assert runpy.run_path(str(ROOT / "scripts" / "plain_english.py"))["main"]() == 0
