"""Divergence noticed while a network trains: losses far above that of a constant prediction."""

from __future__ import annotations

from bliss.train.causes import likely_causes
from bliss.train.task import Task

FACTOR = 5.0
"""Multiple of the constant's loss above which a step counts."""
LEAST = 0.1
"""Least loss of a constant that multiples are taken of: labels may all be equal."""
STEPS = 30
"""Steps in a row after which divergence is reported."""


class DivergenceMonitor:
    """Reports once if the loss stays above FACTOR times that of a constant for STEPS steps.

    Initial weights can start far above, which is why a few steps do not count.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.constant_loss = task.objective.constant_loss
        self._above = 0  # steps in a row

    def add(self, loss: float) -> str:
        """Count a step; returns a sentence with the remedy the first time, otherwise ""."""
        is_above = loss > FACTOR * max(self.constant_loss, LEAST)
        self._above = self._above + 1 if is_above or self._above >= STEPS else 0
        if self._above != STEPS:
            return ""
        self._above += 1  # said
        return (
            f"Warning: the loss ({loss:.3g}) has been above {FACTOR:g} times that of a constant "
            f"prediction ({self.constant_loss:.3g}) for {STEPS} steps. "
            f"{likely_causes(self.task)[0]}"
        )
