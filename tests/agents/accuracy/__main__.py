"""`python -m tests.agents.accuracy [AGENT-VERSION …]`: measure, save, and write docs/accuracy.md.

Each agent and version is measured in a process of its own, once turn by turn (plain) and once as
people use it (wild). What is found is saved in `figures/` after every mode. The page is made of
all that is there, so that a part can be measured again alone.
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
from pathlib import Path
from typing import Any

from tests.agents.accuracy.kinds import turn_kinds
from tests.agents.accuracy.measure import Measurement
from tests.agents.accuracy.page import Figures, drift_figures, figures, page
from tests.agents.accuracy.taking import Mode, plain, prepare_nothing, share
from tests.agents.accuracy.wild import wild_modes
from tests.agents.driving import MEASURED, NEWEST, Ground, Kind, ground_of
from tests.agents.installs import ALL_AGENTS, order

ROOT = Path(__file__).parents[3]
FIGURES = Path(__file__).with_name("figures")
PAGE = ROOT / "docs" / "accuracy.md"
PLAIN, WILD, DRIFT = "plain", "wild", "drift"
TURNS, PROMPTS = 100, 500
"""Turns of each plain state, prompts of 1 byte to 200 KB."""
WILD_TURNS, OLDER_TURNS = 30, 10
"""Turns of each wild mode, also in versions that are not the newest."""
AGENTS_AT_A_TIME, WILD_MODES_AT_A_TIME = 2, 2


def main() -> int:
    """Measure what was asked for, all if nothing was, and write the page."""
    options = read_options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen = [kind_named(name) for name in options.agents] or MEASURED
    if options.alone:
        asyncio.run(measure(chosen[0], options))
        return 0
    # What takes long begins first.
    chosen = sorted(chosen, key=lambda kind: kind not in NEWEST)
    wanted = (PLAIN, WILD) if options.modes == "all" else (options.modes,)
    parts = [
        (kind, modes) for modes in wanted for kind in chosen if modes == PLAIN or wild_modes(kind)
    ]
    with ThreadPoolExecutor(AGENTS_AT_A_TIME) as pool:
        codes = list(pool.map(lambda part: run_alone(part[0], part[1], options), parts))
    if options.only:
        return int(any(codes))
    write(FIGURES / f"all-0-{DRIFT}.json", drift_figures())
    PAGE.write_text(page(saved(PLAIN), saved(WILD), saved(DRIFT)), encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")
    lacking = [one for modes in wanted for found in saved(modes) for one in found["lacking"]]
    print("\n".join(lacking) or "every figure is as it must be")
    return int(any(codes) or bool(lacking))


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make accuracy", description=__doc__)
    parser.add_argument("agents", nargs="*", metavar="AGENT-VERSION", help="e.g. codex-0.166.0")
    parser.add_argument(
        "--modes",
        choices=("all", PLAIN, WILD),
        default="all",
        help="plain: turn by turn; wild: sub-agents, hooks, a person's commands, … [all]",
    )
    parser.add_argument("--percent", type=int, default=100, help="of the usual turns [100]")
    parser.add_argument(
        "--only", default="", metavar="WORDS", help="try modes with these words; saves nothing"
    )
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def kind_named(name: str) -> Kind:
    """Return an agent in a version, also one that is not pinned; end if it is no agent."""
    agent, _, version = name.partition("-")
    if agent not in ALL_AGENTS or not version:
        sys.exit(f"there is no {name!r}; there are: {', '.join(map(str, MEASURED))}")
    return Kind(agent, version)


def run_alone(kind: Kind, modes: str, options: argparse.Namespace) -> int:
    """Measure one part in a process of its own and return how that ended."""
    words = ["--modes", modes, "--percent", str(options.percent), "--only", options.only]
    command = [sys.executable, "-m", "tests.agents.accuracy", "--alone", *words, str(kind)]
    return subprocess.run(command).returncode


async def measure(kind: Kind, options: argparse.Namespace) -> None:
    """Measure one part, and save what is found as it comes."""
    began = time.monotonic()
    is_wild = options.modes == WILD
    modes = wild_modes(kind) if is_wild else [plain(turn) for turn in turn_kinds(kind)]
    turns = (WILD_TURNS if kind in NEWEST else OLDER_TURNS) if is_wild else TURNS
    lanes = asyncio.Semaphore(WILD_MODES_AT_A_TIME if is_wild else 1)

    def report(line: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {kind} {options.modes}  {line}", flush=True)

    measurement = Measurement(report)

    def save(line: str) -> None:
        report(line)
        if not options.only:
            name = f"{kind.agent} {kind.version}"
            write(figures_of(kind, options.modes), figures(name, measurement))

    async def measure_mode(mode: Mode) -> None:
        count = share(mode, modes, part(turns, options))
        async with lanes:
            with new_ground(kind, mode.prepare) as ground:
                await measurement.measure_turns(ground, mode, count, kills=not is_wild)
        save(f"{mode.state}, {mode.name}: {count} turns")

    wanted = [mode for mode in modes if options.only in f"{mode.state}, {mode.name}"]
    await asyncio.gather(*map(measure_mode, wanted))
    if not is_wild and not options.only:
        count = part(PROMPTS, options)
        with new_ground(kind, prepare_nothing) as ground:
            await measurement.measure_prompts(ground, count)
        save(f"{count} prompts")


def part(count: int, options: argparse.Namespace) -> int:
    return max(1, count * int(options.percent) // 100)


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


def figures_of(kind: Kind, modes: str) -> Path:
    return FIGURES / f"{kind}-{modes}.json"


def age_of(file: Path) -> Any:
    agent, version, _ = file.name.split("-")
    return agent, order(version)


def write(file: Path, found: Figures) -> None:
    file.write_text(f"{json.dumps(found, indent=1, ensure_ascii=False)}\n", encoding="utf-8")


def saved(modes: str) -> Iterator[Figures]:
    """Yield the figures that there are, the newest versions of an agent first."""
    for file in sorted(FIGURES.glob(f"*-{modes}.json"), key=age_of, reverse=True):
        found: Figures = json.loads(file.read_text(encoding="utf-8"))
        yield found


if __name__ == "__main__":
    sys.exit(main())
