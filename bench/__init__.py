"""Measures the product against its targets, with the baseline in the same run.

No measure asserts anything: it reports. `docs/bench.md` says how to read it.
"""
