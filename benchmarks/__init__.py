"""Timings, always as ratios of medians within one run: `python -m benchmarks NAME --json FILE`."""
