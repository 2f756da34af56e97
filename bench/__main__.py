"""`python -m bench [MEASURE …]`: run measures, print a table, write JSON."""

import argparse
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.table import Table

from bench import (
    changes,
    crowd,
    detached,
    handoff,
    noise,
    page,
    reading,
    repainting,
    requests,
    runs,
    sending,
    snapshots,
    starting,
    steering,
)
from bench.figures import Figure, shown
from bench.usage import machine_facts

Measure = Callable[[], Iterable[Figure]]

MEASURES: dict[str, tuple[Measure, str]] = {
    "noise": (noise.measure, "how late this machine is when nothing is to be done"),
    "starting": (starting.measure, "command line, server, five agents at once"),
    "reading": (reading.measure, "CPU per screen read, 50 terminals"),
    "crowd": (crowd.measure, "50 agents at rest: CPU, memory, their signals"),
    "changes-50": (changes.measure_50, "a screen change among 50 terminals"),
    "changes-200": (changes.measure_200, "a screen change among 200 terminals"),
    "repainting": (repainting.measure, "CPU while 50 terminals repaint at 10 Hz"),
    "requests": (requests.measure, "GET /terminals/{id}"),
    "sending": (sending.measure, "POST input, confirmed and byte-exact"),
    "handoff": (handoff.measure, "how soon a reply is accepted"),
    "runs": (runs.measure, "what a whole run adds, and what waiting costs"),
    "steering": (steering.measure, "how soon a pause holds, and whether hints arrive"),
    "snapshots": (snapshots.measure, "the work folder kept, 300 and 50,000 files"),
    "detached": (detached.measure, "ten detached runs at once on one server"),
    "page": (page.measure, "the page in Chromium: first view, changes, weight, watchers"),
}
RESULTS = Path(__file__).parent / "results" / "latest.json"
FAILED, INTERRUPTED = 1, 130


def main() -> int:
    """Run the measures that were asked for, all if none was."""
    options = read_options()
    signal.signal(signal.SIGTERM, _interrupt)
    facts = machine_facts()
    print("  ".join(f"{name} {value}" for name, value in facts.items()))
    found: dict[str, list[Figure]] = {}
    code = 0
    try:
        for name in options.measures or MEASURES:
            began = time.monotonic()
            try:
                found[name] = list(MEASURES[name][0]())
            except Exception:  # noqa: BLE001 - one that cannot be taken must not keep the others
                traceback.print_exc()
                code = FAILED
            print(f"{name}: {time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}")
    except KeyboardInterrupt:
        print("interrupted; what was measured so far:")
        code = INTERRUPTED
    report(found)
    write_json(options.json, facts, found)
    return code


def read_options() -> argparse.Namespace:
    names = "\n".join(f"  {name:<12} {text}" for name, (_, text) in MEASURES.items())
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=f"Measure against the baseline in the same run.\n\nmeasures:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help="default: all")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FILE", help="where to")
    options = parser.parse_args()
    for name in options.measures:
        if name not in MEASURES:
            parser.error(f"there is no measure {name!r}; there are: {', '.join(MEASURES)}")
    return options


def report(found: dict[str, list[Figure]]) -> None:
    """Print one table of all figures."""
    table = Table("measure", "what")
    for heading in ("value", "baseline", "ratio", "target", "reached"):
        table.add_column(heading, justify="right")
    for measure, figures in found.items():
        for figure in figures:
            table.add_row(measure, figure.name, *cells(figure))
    width = None if sys.stdout.isatty() else 150
    Console(width=width).print(table)


def cells(figure: Figure) -> list[str]:
    """Return the numbers of a figure as a table shows them."""
    yes_or_no = {True: "yes", False: "no", None: ""}
    return [
        f"{shown(figure.value)} {figure.unit}",
        "" if figure.baseline is None else shown(figure.baseline),
        "" if figure.ratio is None else shown(figure.ratio),
        "" if figure.target is None else str(figure.target),
        yes_or_no[figure.reached],
    ]


def write_json(path: Path, facts: dict[str, str], found: dict[str, list[Figure]]) -> None:
    """Write everything that was found."""
    figures = [
        {
            "measure": measure,
            "name": figure.name,
            "value": figure.value,
            "unit": figure.unit,
            "baseline": figure.baseline,
            "ratio": figure.ratio,
            "target": None if figure.target is None else str(figure.target),
            "reached": figure.reached,
            "note": figure.note,
        }
        for measure, figures in found.items()
        for figure in figures
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": facts, "figures": figures}, indent=2) + "\n")


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
