"""Learning curves of several runs, averaged over seeds.

Deviations (`_std`) are sample standard deviations over seeds, None for one seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean, stdev

import msgspec

from bliss.storage.records import Record
from bliss.train.results import Evaluation, StepTime


def mean_and_deviation(values: Iterable[float]) -> tuple[float, float | None]:
    """Mean and sample standard deviation; one value has no deviation (None)."""
    numbers = list(values)
    return mean(numbers), stdev(numbers) if len(numbers) > 1 else None


class Curve(Record, frozen=True, kw_only=True):
    """Validation score and loss over training steps, averaged over seeds."""

    step: list[int]
    val_score: list[float]
    val_score_std: list[float | None]
    loss: list[float]
    loss_std: list[float | None]
    seconds: list[float] = msgspec.field(default_factory=list)
    """Time in training steps until each step, mean over seeds; empty if it is not known."""

    def __post_init__(self) -> None:
        for name in ("val_score", "val_score_std", "loss", "loss_std", "seconds"):
            length = len(getattr(self, name))
            if length != len(self.step) and (length or name != "seconds"):
                raise ValueError(f"{length} values of `{name}` for {len(self.step)} steps")


def average_curve(
    runs: Sequence[Sequence[Evaluation]], times: Sequence[Sequence[StepTime]] = ()
) -> Curve:
    """Mean and deviation at each step over the runs that were evaluated there."""
    at: dict[int, list[Evaluation]] = {}
    for run in runs:
        for line in run:
            at.setdefault(line.step, []).append(line)
    steps = sorted(at)
    taken: dict[int, list[float]] = {}
    for moment in (moment for run in times for moment in run):
        taken.setdefault(moment.step, []).append(moment.seconds)
    val_score = [mean_and_deviation(line.val_score for line in at[step]) for step in steps]
    loss = [mean_and_deviation(line.loss for line in at[step]) for step in steps]
    return Curve(
        step=steps,
        val_score=[average for average, _ in val_score],
        val_score_std=[deviation for _, deviation in val_score],
        loss=[average for average, _ in loss],
        loss_std=[deviation for _, deviation in loss],
        seconds=[mean(taken[step]) for step in steps] if set(steps) <= set(taken) else [],
    )
