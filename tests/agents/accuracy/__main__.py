"""`python -m tests.agents.accuracy [AGENT-VERSION …]`: measure, save, and write docs/accuracy.md.

Each agent and version is measured in a process of its own. What it found is saved after every kind
of turn, and the page is made of all that was ever saved: one version can be measured again alone.
"""

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.usage import machine_facts
from tests.agents.accuracy.kinds import share, turn_kinds
from tests.agents.accuracy.measure import Measurement
from tests.agents.accuracy.page import Saw, page, shortcomings
from tests.agents.driving import KINDS, Kind, ground_of

ROOT = Path(__file__).parents[3]
SAVED = ROOT / ".cache" / "accuracy"
PAGE = ROOT / "docs" / "accuracy.md"


def main() -> int:
    """Measure what was asked for, all if nothing was, and write the page."""
    options = read_options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if options.alone:
        asyncio.run(measure(kind_named(options.agents[0]), options.turns, options.prompts))
        return 0
    chosen = [kind_named(name) for name in options.agents] or KINDS
    with ThreadPoolExecutor(options.jobs) as pool:
        codes = list(pool.map(lambda kind: run_alone(kind, options), chosen))
    found = [read(kind) for kind in KINDS if saved(kind).exists()]
    PAGE.write_text(page(found), encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")
    lacking = list(shortcomings(found))
    print("\n".join(lacking) or "every figure is as it must be")
    return 1 if lacking or any(codes) else 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make accuracy", description=__doc__)
    parser.add_argument("agents", nargs="*", metavar="AGENT-VERSION", help="e.g. codex-0.166.0")
    parser.add_argument("--turns", type=int, default=100, help="of each state [100]")
    parser.add_argument("--prompts", type=int, default=500, help="of 1 byte to 200 KB [500]")
    parser.add_argument("--jobs", type=int, default=2, help="agents at the same time [2]")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def kind_named(name: str) -> Kind:
    """Return an agent in a version, or end and say which there are."""
    for kind in KINDS:
        if str(kind) == name:
            return kind
    sys.exit(f"there is no {name!r}; there are: {', '.join(map(str, KINDS))}")


def run_alone(kind: Kind, options: argparse.Namespace) -> int:
    """Measure one agent in a process of its own and return how that ended."""
    words = ["--alone", "--turns", str(options.turns), "--prompts", str(options.prompts), str(kind)]
    return subprocess.run([sys.executable, "-m", "tests.agents.accuracy", *words]).returncode


async def measure(kind: Kind, turns: int, prompts: int) -> None:
    """Measure one agent in one version, and save what is found as it comes."""
    began = time.monotonic()

    def report(line: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {kind}  {line}", flush=True)

    with (
        tempfile.TemporaryDirectory(prefix="accuracy-") as folder,
        ground_of(kind, Path(folder)) as ground,
    ):
        ground.trusted = False  # so that every start has a question to pass
        measurement = Measurement(ground, report)
        for turn_kind in turn_kinds(kind):
            count = share(turn_kind, turns)
            await measurement.measure_turns(turn_kind, count)
            report(f"{turn_kind.state}, {turn_kind.name}: {count} turns")
            save(kind, measurement)
        await measurement.measure_prompts(prompts)
        report(f"{prompts} prompts")
        save(kind, measurement)


def saved(kind: Kind) -> Path:
    return SAVED / f"{kind}.json"


def save(kind: Kind, measurement: Measurement) -> None:
    facts = machine_facts()
    found = {
        "machine": ", ".join(f"{name} {value}" for name, value in facts.items()),
        "screens": measurement.screens,
        "turns": [asdict(turn) for turn in measurement.turns],
        "prompts": [asdict(prompt) for prompt in measurement.prompts],
    }
    SAVED.mkdir(parents=True, exist_ok=True)
    saved(kind).write_text(json.dumps(found, default=sorted), encoding="utf-8")


def read(kind: Kind) -> Saw:
    found: dict[str, Any] = json.loads(saved(kind).read_text(encoding="utf-8"))
    return Saw(kind.agent, kind.version, **found)


if __name__ == "__main__":
    sys.exit(main())
