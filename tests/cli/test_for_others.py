"""What others are shown of the paths of a machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from cli_agent_orchestrator.pipeline.state import FinalStatus
from cli_agent_orchestrator.show.report_words import (
    for_others,
    in_each_text,
    shown_folder,
    without_places,
)
from tests.cli.reports import REPORT, STATE, WD

HOME = Path("/home/ada")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/ada/shop/a.py", "a.py"),
        ("in /home/ada/shop, and", "in ., and"),
        ("/home/ada/shop.old", "~/shop.old"),
        ("/home/ada/shop2/a", "~/shop2/a"),
        ("/home/ada/other, /home/ada", "~/other, ~"),
        ("/mnt/home/ada/shop/a", "/mnt/home/ada/shop/a"),
        ("file:///home/ada/x, file:///home/ada/shop/a", "file://~/x, file://a"),
        ("-I/home/ada/shop/inc -L/home/ada/lib", "-Iinc -L~/lib"),
        ("//home/ada/shop/q ///home/ada", "q ~"),
        ("http://home/ada/shop", "http://home/ada/shop"),
        ("/home/adam", "…"),
        ("/home/adam/x/y. /Users/Bob.B/z, '/root/.ssh/id'", "…/x/y. …/z, '…/.ssh/id'"),
        ("/tmp/a/b in /tmp; /private/tmp/c", "…/a/b in /tmp; …/c"),
        ("/var/folders/zz/zyx_1+x/T/a, /private/var/folders/zz/a/T", "…/T/a, …/T"),
        ("-I/root/x file:///tmp/y //home/bob/z", "-I…/x file://…/y …/z"),
        ("/usr/bin/python a/tmp/x ./root/x https://x/home/y", None),
        ("/home/<you>/x", None),
    ],
)
def test_a_path_begins_in_the_project_or_at_home(text: str, shown: str | None) -> None:
    assert without_places(text, ["/home/ada/shop", ""], HOME) == (text if shown is None else shown)


def test_a_project_may_have_a_short_path_and_the_root_is_none() -> None:
    assert without_places("/w/a.py in /w", ["/w"], HOME) == "a.py in ."
    assert without_places("/w/a.py in /", ["/"], Path("/")) == "/w/a.py in /"


@pytest.mark.parametrize(
    ("wd", "shown"), [("/home/ada/shop", "~/shop"), ("/srv/shop", "shop"), ("/", "/")]
)
def test_a_project_is_named_by_its_place_at_home_or_its_name(wd: str, shown: str) -> None:
    assert shown_folder(wd, HOME) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/var/cao/runs/a, in /var/cao", "(state folder)/runs/a, in (state folder)"),
        ("x and /x", "x and /x"),
        ("/home/ada/a", "~/a"),
    ],
)
def test_the_state_folder_is_named_as_such(text: str, shown: str) -> None:
    assert without_places(text, [], HOME, Path("/var/cao")) == shown


def test_without_a_state_folder_none_is_named() -> None:
    assert without_places("/var/cao", [], HOME) == "/var/cao"


@pytest.mark.parametrize(
    ("project", "shown"),
    [
        # A state folder in the project is a part of it, and a work tree in the state folder is not.
        ("", "runs/a"),
        (f"{STATE}/tree", "runs/a"),
        (WD, "tree/runs/a in your state folder"),
    ],
)
def test_what_is_kept_is_found_from_the_project_or_the_state_folder(
    project: str, shown: str
) -> None:
    found = replace(REPORT, wd=f"{STATE}/tree", project=project, archive=f"{STATE}/tree/runs/a")
    assert for_others(found, HOME, Path(STATE)).archive == shown


@dataclass(frozen=True)
class Thing:
    name: str
    kind: FinalStatus
    inside: tuple["Thing", ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    number: int = 3


def test_every_text_is_changed_and_nothing_else() -> None:
    thing = Thing("a", FinalStatus.PASS, (Thing("b", FinalStatus.FAIL),), {"key": "c"})
    assert in_each_text([thing, None, "d"], str.upper) == [
        Thing("A", FinalStatus.PASS, (Thing("B", FinalStatus.FAIL),), {"key": "C"}),
        None,
        "D",
    ]
