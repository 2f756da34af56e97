"""`python -m tests.agents.accuracy [AGENT-VERSION …]`: measure, save, and write docs/accuracy.md.

Each agent and version is measured in a process of its own, once turn by turn (plain) and once as
people use it (wild). What is found is saved after every mode. The page is made of all that was
saved here; what was not stands as the page has it, so that a part can be measured again alone.
"""

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.usage import machine_facts
from tests.agents.accuracy.kinds import turn_kinds
from tests.agents.accuracy.measure import Measurement
from tests.agents.accuracy.page import Saw, merged, page, parted, shortcomings
from tests.agents.accuracy.taking import Mode, plain, prepare_nothing, share
from tests.agents.accuracy.wild import NEWEST, wild_modes
from tests.agents.driving import KINDS, Ground, Kind, ground_of

ROOT = Path(__file__).parents[3]
SAVED = ROOT / ".cache" / "accuracy"
PAGE = ROOT / "docs" / "accuracy.md"
DETAILS = Path(__file__).with_name("details.md")
PLAIN, WILD = "plain", "wild"


@dataclass(frozen=True, slots=True)
class Part:
    """What is measured in one process."""

    kind: Kind
    modes: str
    """`plain` or `wild`."""

    @property
    def saved(self) -> Path:
        return SAVED / f"{self.kind}-{self.modes}.json"

    def __str__(self) -> str:
        return f"{self.kind} {self.modes}"


def main() -> int:
    """Measure what was asked for, all if nothing was, and write the page."""
    options = read_options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen = [kind_named(name) for name in options.agents] or KINDS
    # What takes long begins first.
    chosen = sorted(chosen, key=lambda kind: kind not in NEWEST)
    if options.alone:
        asyncio.run(measure(Part(chosen[0], options.modes), options))
        return 0
    wanted = (PLAIN, WILD) if options.modes == "all" else (options.modes,)
    parts = [Part(kind, modes) for modes in wanted for kind in chosen]
    with ThreadPoolExecutor(options.jobs) as pool:
        codes = list(pool.map(lambda part: run_alone(part, options), parts))
    if options.only:
        return int(any(codes))
    return write_page() or int(any(codes))


def write_page() -> int:
    """Write the page, print what is not as it must be and return whether there is such."""
    every = [Part(kind, modes) for kind in KINDS for modes in (PLAIN, WILD)]
    found = [read(part) for part in every if part.saved.exists()]
    names = [f"{kind.agent} {kind.version}" for kind in KINDS]
    old = PAGE.read_text(encoding="utf-8") + "\n" + DETAILS.read_text(encoding="utf-8")
    summary, details = parted(merged(old, page(found), names))
    PAGE.write_text(summary, encoding="utf-8")
    DETAILS.write_text(details, encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")
    lacking = list(shortcomings(found))
    print("\n".join(lacking) or "every figure is as it must be")
    return 1 if lacking else 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make accuracy", description=__doc__)
    parser.add_argument("agents", nargs="*", metavar="AGENT-VERSION", help="e.g. codex-0.166.0")
    parser.add_argument(
        "--modes",
        choices=("all", PLAIN, WILD),
        default="all",
        help="plain: turn by turn; wild: sub-agents, hooks, a person's commands, … [all]",
    )
    parser.add_argument("--turns", type=int, default=100, help="of each plain state [100]")
    parser.add_argument("--prompts", type=int, default=500, help="of 1 byte to 200 KB [500]")
    parser.add_argument("--wild", type=int, default=30, help="turns of each wild mode [30]")
    parser.add_argument(
        "--older", type=int, default=10, help="the same for versions that are not the newest [10]"
    )
    parser.add_argument("--jobs", type=int, default=2, help="agents at the same time [2]")
    parser.add_argument(
        "--lanes", type=int, default=2, help="wild modes of each agent at the same time [2]"
    )
    parser.add_argument(
        "--only", default="", metavar="WORDS", help="try modes with these words; saves nothing"
    )
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def kind_named(name: str) -> Kind:
    """Return an agent in a version, or end and say which there are."""
    for kind in KINDS:
        if str(kind) == name:
            return kind
    sys.exit(f"there is no {name!r}; there are: {', '.join(map(str, KINDS))}")


def run_alone(part: Part, options: argparse.Namespace) -> int:
    """Measure one part in a process of its own and return how that ended."""
    words = ["--alone", "--modes", part.modes, "--only", options.only]
    for name in ("turns", "prompts", "wild", "older", "lanes"):
        words += [f"--{name}", str(getattr(options, name))]
    command = [sys.executable, "-m", "tests.agents.accuracy", *words, str(part.kind)]
    return subprocess.run(command).returncode


async def measure(part: Part, options: argparse.Namespace) -> None:
    """Measure one part, and save what is found as it comes."""
    began = time.monotonic()

    def report(line: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {part}  {line}", flush=True)

    measurement = Measurement(report)
    modes = modes_of(part)
    lanes = asyncio.Semaphore(options.lanes if part.modes == WILD else 1)

    async def measure_mode(mode: Mode) -> None:
        count = share(mode, modes, turns_of(part, options))
        async with lanes:
            with new_ground(part.kind, mode.prepare) as ground:
                await measurement.measure_turns(ground, mode, count, kills=part.modes == PLAIN)
        report(f"{mode.state}, {mode.name}: {count} turns")
        save(part, measurement, options)

    wanted = [mode for mode in modes if options.only in f"{mode.state}, {mode.name}"]
    await asyncio.gather(*map(measure_mode, wanted))
    if part.modes == PLAIN and not options.only:
        with new_ground(part.kind, prepare_nothing) as ground:
            await measurement.measure_prompts(ground, options.prompts)
        report(f"{options.prompts} prompts")
        save(part, measurement, options)


def modes_of(part: Part) -> list[Mode]:
    if part.modes == WILD:
        return wild_modes(part.kind)
    return [plain(kind) for kind in turn_kinds(part.kind)]


def turns_of(part: Part, options: argparse.Namespace) -> int:
    if part.modes == PLAIN:
        return int(options.turns)
    return int(options.wild if part.kind in NEWEST else options.older)


@contextmanager
def new_ground(kind: Kind, prepare: Callable[[Ground], None]) -> Iterator[Ground]:
    """Make a place for agents where nothing was done before."""
    with (
        tempfile.TemporaryDirectory(prefix="accuracy-") as folder,
        ground_of(kind, Path(folder)) as ground,
    ):
        ground.trusted = False  # so that every start has a question to pass
        prepare(ground)
        yield ground


def save(part: Part, measurement: Measurement, options: argparse.Namespace) -> None:
    if options.only:
        return
    facts = machine_facts()
    found = {
        "machine": ", ".join(f"{name} {value}" for name, value in facts.items()),
        "screens": measurement.screens,
        "turns": [asdict(turn) for turn in measurement.turns],
        "prompts": [asdict(prompt) for prompt in measurement.prompts],
        "wild": part.modes == WILD,
    }
    SAVED.mkdir(parents=True, exist_ok=True)
    part.saved.write_text(json.dumps(found, default=sorted), encoding="utf-8")


def read(part: Part) -> Saw:
    found: dict[str, Any] = json.loads(part.saved.read_text(encoding="utf-8"))
    return Saw(part.kind.agent, part.kind.version, **found)


if __name__ == "__main__":
    sys.exit(main())
