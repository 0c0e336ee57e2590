"""Coins that last several steps: test F1 at equal steps, and the time of a step in memory."""
