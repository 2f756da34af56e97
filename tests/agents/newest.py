"""`python -m tests.agents.newest [--brief] [WORDS FOR PYTEST …]`: tries the versions of the day.

Every agent is tried in what its registry calls the latest version, in the stable one before that
and in the newest pre-release beyond it, unless the tests are pinned to that version. Each step is
a test that the pinned versions pass, so what differs is new. With `--brief` the version before is
left out, and no test begins after a few minutes.

The report and the screens are in .cache/newest, the screens by the status that was told: one
becomes a fixture when it is copied to tests/providers/screens, by the status that is right.
"""

import math
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.agents.installs import (
    ALL_AGENTS,
    LANE_AGENTS,
    InstallError,
    install,
    order,
    published,
)

FOLDER = Path(__file__).parents[2] / ".cache" / "newest"
BRIEF_SECONDS = 330
"""What began by then is over in eight minutes."""
ROWS = 25
"""Of what is said about a step that differs."""
STEPS = (
    *("start", "trust", "sign-in missing", "message", "question", "permission"),
    *("background work", "interrupt", "limit", "exit", "whole run"),
)
# 0.170.0-alpha.3-linux-x64: a part of a version for one platform
PLATFORM_PATTERN = r"-(linux|darwin|win32|android)\b"


def main() -> int:
    """Try what is new, write the report and print it; 1 if anything differs."""
    brief, words = "--brief" in sys.argv, [word for word in sys.argv[1:] if word != "--brief"]
    until = time.time() + BRIEF_SECONDS if brief else math.inf
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    try:
        found = {agent.name: published(agent) for agent in ALL_AGENTS.values()}
    except InstallError as error:
        print(f"NOT RUN: a registry does not answer.\n{error}")
        return 0
    wanted = [
        (name, version)
        for name, (latest, versions) in found.items()
        for version in to_try(latest, versions, before=not brief)
        if name in LANE_AGENTS or version not in ALL_AGENTS[name].versions
    ]
    kinds, lines = [], []
    for name, version in wanted:
        try:
            install(name, version)
            kinds.append(f"{name}-{version}")
        except InstallError as error:
            lines.append(f"## {name}-{version}\n\nnot run, as it cannot be installed: {error}\n")
    results = Results()
    if kinds:
        os.environ |= {"NEWEST_VERSIONS": " ".join(kinds), "NEWEST_UNTIL": str(until)}
        quiet = ("-q", "--tb=short", "--no-summary", "-p", "no:cacheprovider")
        pytest.main(["-m", "agents", str(Path(__file__).parent), *quiet, *words], [results])
    for kind in kinds:
        lines += results.report(kind)
    text = "\n".join(lines or ["The tests are pinned to all that is newest."])
    (FOLDER / "report.md").write_text(f"{text}\n", encoding="utf-8")
    print(f"\n{text}\n\nwritten: {FOLDER / 'report.md'}")
    return int(results.differs)


def to_try(latest: str, versions: Sequence[str], *, before: bool) -> list[str]:
    """Return the latest version, the stable one before it, and the newest pre-release after it."""
    older = [one for one in versions if order(one)[1] and order(one) < order(latest)]
    newer = [one for one in versions if not order(one)[1] and order(one) > order(latest)]
    newer = [one for one in newer if not re.search(PLATFORM_PATTERN, one)]
    previous = [max(older, key=order)] if older and before else []
    return [latest, *previous, *([max(newer, key=order)] if newer else [])]


class Results:
    """How each step went, as pytest reports it."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], tuple[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        about = dict(report.user_properties)
        key = str(about.get("kind")), str(about.get("step"))
        if report.failed:
            self._told[key] = "DIFFERS", report.longreprtext
        elif report.skipped and isinstance(report.longrepr, tuple):
            self._told[key] = f"not run: {report.longrepr[2].removeprefix('Skipped: ')}", ""
        elif report.when == "call":
            self._told.setdefault(key, ("ok", ""))

    @property
    def differs(self) -> bool:
        return any(word == "DIFFERS" for word, _ in self._told.values())

    def report(self, kind: str) -> Iterator[str]:
        """Yield what is said about one version."""
        yield f"## {kind}\n"
        for step in STEPS:
            word, why = self._told.get((kind, step), ("not run", ""))
            yield f"- {step}: {word}"
            agent, _, version = kind.partition("-")
            if why:
                name = f"{version}-{step.replace(' ', '_')}*"
                yield from (
                    f"    - {file}" for file in sorted((FOLDER / "screens" / agent).rglob(name))
                )
                yield "\n".join(["", *(f"        {row}" for row in why.splitlines()[-ROWS:]), ""])
        yield ""


if __name__ == "__main__":
    sys.exit(main())
