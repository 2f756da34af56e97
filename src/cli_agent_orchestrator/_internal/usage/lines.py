"""Lines of the records that agents keep: JSON in which there may be anything."""

import json
from datetime import datetime
from typing import Any


def fields_of(line: bytes) -> dict[str, Any]:  # Any: whatever JSON holds
    """Return the JSON object on a line; an empty one if there is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def unix_time(stamp: object) -> float | None:
    """Return when a line was written; None if it does not say that for all places on earth."""
    # 2026-11-15T06:34:26.123Z
    if not isinstance(stamp, str):
        return None
    try:
        at = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return None if at.tzinfo is None else at.timestamp()
