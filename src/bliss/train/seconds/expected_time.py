"""Seconds that a set-up or a step is expected to take, from those that were timed."""

from __future__ import annotations

from bliss.train.seconds.gradient_noise import Size
from bliss.train.seconds.kinds import Kind

PASSES = 3
"""Evaluations that no step takes longer than: a forward pass counts one, a backward pass two."""


class ExpectedTime:
    """Fastest steps and set-ups so far, and what is expected of others.

    With n the nodes that a step reads, a step of a kind that was timed is expected to take

        seconds of a timed one * max(1, n / n of the timed one),

    with the size for which this is the least. A kind that was not timed is compared with the
    `teacher`, which trained the network, but with at most PASSES evaluations; and it is multiplied
    by the largest factor by which a step of another kind was slower than expected in this way.
    """

    def __init__(self, teacher: Kind) -> None:
        self.teacher = teacher
        self.evaluation = 0.0  # seconds
        self.excess = 0.0  # seconds by which a set-up took longer than roughly expected
        self.steps: dict[str, dict[Size, float]] = {}  # seconds of the fastest, by kind
        self.factor = 1.0

    def add_setup(self, kind: Kind, seconds: float) -> None:
        """Note a set-up; not the teacher's, in which kernels are loaded."""
        if kind.name != self.teacher.name:
            self.excess = max(self.excess, seconds - kind.setup)

    def add_step(self, kind: Kind, size: Size, seconds: float) -> None:
        """Note a step."""
        own = self.steps.setdefault(kind.name, {})
        own[size] = min(own.get(size, seconds), seconds)

    def learn_factor(self, kind: Kind, size: Size) -> None:
        """Compare the fastest step of a size with what was expected of an unseen kind."""
        self.factor = max(self.factor, self.steps[kind.name][size] / self._unseen(kind, size))

    def has_steps(self, kind: Kind) -> bool:
        """Whether a step of the kind was timed."""
        return kind.name in self.steps

    def setup(self, kind: Kind) -> float:
        """Seconds of a set-up: the rough estimate, and the largest excess of another kind."""
        return kind.setup + self.excess

    def step(self, kind: Kind, size: Size) -> float:
        """Seconds of a step."""
        if self.has_steps(kind):
            return self._scaled(kind, kind, size)
        return self.factor * self._unseen(kind, size)

    def _unseen(self, kind: Kind, size: Size) -> float:
        least = min(self.steps[self.teacher.name].values())
        most = max(least, PASSES * self.evaluation)
        return max(min(self._scaled(self.teacher, kind, size), most), 1e-9)

    def _scaled(self, timed: Kind, kind: Kind, size: Size) -> float:
        nodes = kind.nodes_read(size)
        return min(
            seconds * max(1.0, nodes / timed.nodes_read(other))
            for other, seconds in self.steps[timed.name].items()
        )
