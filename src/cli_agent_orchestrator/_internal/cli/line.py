"""A line for people, and how it is meant."""

from dataclasses import dataclass
from enum import Enum


class Tone(Enum):
    """How a line is meant."""

    PLAIN = "plain"
    QUIET = "quiet"
    GOOD = "good"
    BAD = "bad"
    ALERT = "alert"


@dataclass(frozen=True, slots=True)
class Line:
    """One line for people, or the few with which a run ends."""

    text: str
    tone: Tone = Tone.PLAIN
