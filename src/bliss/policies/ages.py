"""Growth of the change of a node's input with the age of its history."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bliss.arrays import NOTHING, FloatArray, IntArray
from bliss.kernels import histories
from bliss.policies.learner import State
from bliss.storage.memory import zeros


class AgeCurve:
    """Running mean of log|h_j - h~_j| by the age of the history h~_j, per layer.

        curve_b <- curve_b + max(1 / n_b, beta) (mean of the signal over sources in bin b - curve_b)

    with n_b the number of steps that observed bin b. The bin is 0 for a node without a history,
    whose signal is log|h_j|, and 1 + floor(log2(age)) otherwise. A node bandit follows the signal
    minus the curve, and multiplies the mass of a source by the exp of the curve at its present age.
    The mass of a node therefore grows until the node is seen again.

    `memory` is the smallest weight of the newest step (beta).
    """

    def __init__(self, layers: int, memory: float) -> None:
        self.memory = memory
        self.curve = zeros((layers, histories.AGE_BINS))
        self.count = zeros((layers, histories.AGE_BINS), np.int64)

    def follow(
        self, layer: int, age: Sequence[IntArray], signal: Sequence[FloatArray]
    ) -> list[FloatArray]:
        """Update with one step's observations, by shard; returns the signals minus the curve.

        age  shards of int64[S], signal  shards of float[S] -> shards of float64[S]
        """
        bins = [_bins(shard) for shard in age]
        all_bins, values = np.concatenate(bins), np.concatenate(signal)
        number = np.bincount(all_bins, minlength=histories.AGE_BINS)
        total = np.bincount(all_bins, values, histories.AGE_BINS)
        seen = number > 0
        self.count[layer][seen] += 1
        rate = np.maximum(1 / self.count[layer][seen], self.memory)
        self.curve[layer][seen] += rate * (total[seen] / number[seen] - self.curve[layer][seen])
        return [shard - self.curve[layer][b] for shard, b in zip(signal, bins, strict=True)]

    def factor(self, layer: int) -> FloatArray:
        """exp of the curve, relative to its mean. float32[AGE_BINS]; empty before the first step.

        A bin without observations has the value of the nearest observed bin below it, or above it
        if there is none below.
        """
        observed = np.flatnonzero(self.count[layer])
        if observed.size == 0:
            return NOTHING
        place = np.searchsorted(observed, np.arange(histories.AGE_BINS), side="right") - 1
        curve = self.curve[layer][observed[np.maximum(place, 0)]]
        relative: FloatArray = np.exp(curve - self.curve[layer][observed].mean())
        return relative.astype(np.float32)

    def state_dict(self, name: str) -> State:
        """All arrays, under names that start with `name`."""
        return {f"{name}.curve": self.curve, f"{name}.count": self.count}


def _bins(age: IntArray) -> IntArray:
    """`kernels.histories.age_bin` of each age: the exponent of age = m 2^b with m in [1/2, 1)."""
    return np.frexp(age.astype(np.float64))[1].astype(np.int64)
