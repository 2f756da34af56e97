"""Screens over time: kept as a recording of a run."""
