"""Spans of time in words."""


def duration(seconds: float) -> str:
    """Return a span of time in words: `0.4 s`, `2 min 05 s`, `1 h 10 min`."""
    if seconds < 60:
        return f"{max(seconds, 0):.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
