"""Number of steps and of evaluations that fit into a time."""

from __future__ import annotations

from typing import NamedTuple

SHARE, MOST = 0.15, 20
"""Share of the time for evaluations during training, and their largest number."""


class Durations(NamedTuple):
    """Seconds of the parts of a run."""

    step: float
    evaluation: float  # with its checkpoint; that of the best weights at the end takes as long
    setup: float  # before the first step


class Schedule(NamedTuple):
    """Steps of a run."""

    steps: int
    evaluate_every: int

    @property
    def evaluations(self) -> int:
        """Evaluations during training, of which the last is after the last step."""
        return -(-self.steps // self.evaluate_every)


def plan(left: float, durations: Durations, evaluate_every: int | None = None) -> Schedule:
    """The steps and evaluations that fill the seconds that are left.

    With s, e and c the seconds of a step, an evaluation and the setup, a run of n steps and m
    evaluations takes c + n s + (m + 1) e. Evaluations take at most SHARE of the time, but there is
    at least one, and at most MOST. A given `evaluate_every` stays, so that m = n / evaluate_every.
    The number of steps can be 0 or negative.
    """
    step, evaluation, setup = durations
    room = left - setup - evaluation
    if evaluate_every is not None:
        return Schedule(int(room / (step + evaluation / evaluate_every)), evaluate_every)
    number = int(min(max(SHARE * room / max(evaluation, 1e-9), 1), MOST))
    steps = int((room - number * evaluation) / step)
    return Schedule(steps, max(-(-steps // number), 1))


def least_seconds(steps: int, durations: Durations, before: float, pilot_share: float) -> float:
    """Least time T of a run of so many steps s and one evaluation e, after a pilot.

    With b seconds before the pilot, T = b + pilot_share T + c + steps s + 2 e.
    """
    needed = durations.setup + 2 * durations.evaluation + steps * durations.step
    return (before + needed) / (1 - pilot_share)
