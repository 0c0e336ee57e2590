"""Damaged and hostile files in large numbers, by seed: `make fuzz`, or `python -m tests.fuzz`."""
