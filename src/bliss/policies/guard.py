"""A guard that returns to static masses where learnt ones have the larger error."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bliss.arrays import BoolArray, FloatArray, IntArray
from bliss.policies.learner import State
from bliss.storage.memory import zeros

LEAST_STEPS = 5
"""Measured steps before a layer may return to static masses."""
MEMORY = 0.1
"""Smallest weight of the newest step in the running ratio."""


class Guard:
    """Compares learnt masses with static ones by the error of the estimator, layer by layer.

    Masses s_j cause the error V(s) = (sum_j s_j) (sum_j e_j / s_j) at a given budget, up to sources
    that are kept for certain; e_j is the squared error of source j's messages, summed over targets.
    Learnt masses are s_j = f_j c_j and static ones c_j. Sources are drawn with p_j proportional to
    u_j c_j, where u_j is f_j or 1, so sums over kept sources, divided by p_j, estimate both:

        V(f) / V(1) = (sum_j f_j / u_j) (sum_j e_j u_j / (p_j^2 f_j))
                    / (sum_j  1  / u_j) (sum_j e_j u_j /  p_j^2)

    Blocks measure e_j / p_j^2 edge by edge as weight_ij^2 |h_j - mu_i|^2 with Hajek weights, which
    cancel what neighbours have in common, and as weight_ij^2 |h_j|^2 otherwise (`Block.observe`).
    So a norm that says nothing about the error of the estimator is found out. If the running mean
    of the logarithm is above 0, the layer's masses are static until it falls again.
    """

    def __init__(self, layers: int) -> None:
        self.ratio = zeros(layers)  # running mean of log V(f) / V(1)
        self.steps = zeros(layers, np.int64)

    def prefers_static(self, layer: int) -> bool:
        """Whether learnt masses have had the larger error."""
        return bool(self.steps[layer] >= LEAST_STEPS and self.ratio[layer] > 0)

    @staticmethod
    def sums(
        factor: FloatArray,
        drawn: FloatArray,
        is_open: BoolArray,
        row: IntArray,
        spread: FloatArray,
    ) -> FloatArray:
        """The four sums of one block, in the order of the formula. float64[4].

        factor   float[S]   f_j
        drawn    float[S]   u_j
        is_open  bool[S]    whether p_j < 1
        row      int[N]     position of each measured edge's source
        spread   float[N]   e_ij / p_j^2
        """
        spread = np.where(is_open[row], spread, 0.0).astype(np.float64)
        share = drawn[row]
        return np.array(
            [
                np.sum((factor / drawn)[is_open]),
                np.sum(spread * share / factor[row]),
                np.sum((1 / drawn)[is_open]),
                np.sum(spread * share),
            ],
            np.float64,
        )

    def follow(self, layer: int, sums: Sequence[FloatArray]) -> None:
        """Move the running ratio by one step's sums, one entry per shard."""
        learnt, errors, static, static_errors = np.sum(sums, axis=0)
        if min(errors, static_errors, learnt, static) <= 0:
            return  # nothing was sampled, or nothing has an error
        rate = max(1 / (int(self.steps[layer]) + 1), MEMORY)
        value = float(np.log(learnt * errors / (static * static_errors)))
        self.ratio[layer] += rate * (value - self.ratio[layer])
        self.steps[layer] += 1

    def state_dict(self, name: str) -> State:
        """Both arrays, under names that start with `name`."""
        return {f"{name}.ratio": self.ratio, f"{name}.steps": self.steps}
