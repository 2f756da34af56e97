"""What a measure found, and whether that is good enough."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, slots=True)
class AtMost:
    """The value may be this large."""

    limit: float

    def is_reached(self, figure: "Figure") -> bool:
        return figure.value <= self.limit

    def __str__(self) -> str:
        return f"≤ {shown(self.limit)}"


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The value must be this large."""

    limit: float

    def is_reached(self, figure: "Figure") -> bool:
        return figure.value >= self.limit

    def __str__(self) -> str:
        return f"≥ {shown(self.limit)}"


@dataclass(frozen=True, slots=True)
class RatioAtMost:
    """The value may be this part of its baseline."""

    limit: float

    def is_reached(self, figure: "Figure") -> bool:
        return figure.ratio is not None and figure.ratio <= self.limit

    def __str__(self) -> str:
        return f"ratio ≤ {shown(self.limit)}"


Target = AtMost | AtLeast | RatioAtMost


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the report."""

    name: str
    value: float
    unit: str
    target: Target | None = None
    baseline: float | None = None
    """What the same costs without us, measured in the same run."""
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.value / self.baseline if self.baseline else None

    @property
    def reached(self) -> bool | None:
        """Is the target reached? None if there is none."""
        return None if self.target is None else self.target.is_reached(self)


def shown(number: float) -> str:
    """Return a number with three digits that count: `0.0667`, `2.5`, `1,830`."""
    if abs(number) >= 1000:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def percentile(values: Iterable[float], percent: float) -> float:
    """Return the smallest value that so many percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, ceil(percent / 100 * len(ordered)) - 1)]


def latency_figures(
    name: str,
    seconds: Sequence[float],
    targets: tuple[float | None, float | None] = (None, None),
    baseline: Sequence[float] = (),
) -> list[Figure]:
    """Return p50 and p99 of latencies in milliseconds, each with its limit if it has one."""
    figures = []
    for percent, limit in zip((50, 99), targets, strict=True):
        figures.append(
            Figure(
                f"{name}, p{percent}",
                1000 * percentile(seconds, percent),
                "ms",
                None if limit is None else AtMost(limit),
                1000 * percentile(baseline, percent) if baseline else None,
                f"{len(seconds)} samples, longest {1000 * max(seconds):.0f} ms",
            )
        )
    return figures
