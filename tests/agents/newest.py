"""`python -m tests.agents.newest [--latest] [WORDS FOR PYTEST …]`: tries the versions of the day.

Every agent is tried in what its registry calls the latest version, in the stable one before that
(not with `--latest`) and in the newest pre-release beyond it, unless the tests are pinned to that
version. Each step is a test that the pinned versions pass, too, so what differs is new. The report
and the screens are in .cache/newest; a screen becomes a fixture when it is copied to
tests/providers/screens, into the folder of the status that is right.
"""

import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.agents.installs import ALL_AGENTS, InstallError, install, is_stable, published

FOLDER = Path(__file__).parents[2] / ".cache" / "newest"
SECONDS = 330
"""After so long no test begins: the whole is over in eight minutes."""
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
    words = [word for word in sys.argv[1:] if word != "--latest"]
    until = time.time() + SECONDS
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    ready, lines = [], []
    try:
        for agent in ALL_AGENTS.values():
            wanted = to_try(*published(agent), before="--latest" not in sys.argv)
            for version in wanted:
                if version in agent.versions:
                    continue
                try:
                    install(agent.name, version)
                    ready.append(f"{agent.name}-{version}")
                except InstallError as error:
                    lines.append(f"{agent.name}-{version}: not run, it cannot be had: {error}\n")
            print(f"{agent.name}: {', '.join(wanted)}", flush=True)
    except InstallError as error:
        print(f"NOT RUN: no registry answers: {error}")
        return 0
    found = Results()
    if ready:
        os.environ |= {"NEWEST_VERSIONS": " ".join(ready), "NEWEST_UNTIL": str(until)}
        chosen = ["-m", "agents", str(Path(__file__).parent)]
        pytest.main(
            [*chosen, "-q", "--tb=short", "--no-summary", "-p", "no:cacheprovider", *words], [found]
        )
    for kind in ready:
        lines += found.report(kind)
    text = "\n".join(lines or ["Nothing is newer than what the tests are pinned to."])
    (FOLDER / "report.md").write_text(text + "\n", encoding="utf-8")
    print(f"\n{text}\n\nwritten: {FOLDER / 'report.md'}")
    return int(found.differs)


def to_try(latest: str, versions: Sequence[str], *, before: bool) -> list[str]:
    """Return the latest version, the stable one before it, and the newest pre-release after it."""
    older = [one for one in versions if is_stable(one) and order(one) < order(latest)]
    newer = [
        one
        for one in versions
        if not is_stable(one)
        and order(one) > order(latest)
        and not re.search(PLATFORM_PATTERN, one)
    ]
    previous = [max(older, key=order)] if older and before else []
    return [latest, *previous, *([max(newer, key=order)] if newer else [])]


def order(version: str) -> tuple[list[int], bool, list[int]]:
    """Return what versions are compared by: a pre-release comes before its release."""
    release = re.split("[^0-9.]", version)[0]
    return numbers(release), release == version, numbers(version.removeprefix(release))


def numbers(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", text)]


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
