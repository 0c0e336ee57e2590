"""Running estimates of a noisy per-node signal, with shrinkage."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bliss.arrays import FloatArray, IntArray
from bliss.kernels import node_bandit as kernels
from bliss.policies.learner import State
from bliss.storage.memory import zeros

FIRST_PRIOR = 0.5
"""s before any node is observed twice, when W and B are unknown."""
LEAST_SPREAD = 0.02
"""Lower bound of B as a share of W, because noise can make the estimate of B too small."""
MEMORY = 0.05
"""Smallest weight of the newest step in the running W and W + B."""


class RunningEstimates:
    """A running mean per node and layer, shrunk towards the layer's level.

        x_j  = signal_j - level,    level <- running mean of the signal over the layer's sources
        m_j <- m_j + max(1 / (n_j + 1), beta) (x_j - m_j),    n_j <- n_j + 1
        estimate_j = m_j n / (n + s),    n = min(n_j, 2 / beta - 1),    s = W / B

    This is the best linear estimate if nodes vary around the level with variance B and observations
    of a node vary around its own value with variance W; n is the effective number of observations
    of the running mean. W and B are measured at nodes seen before, whose squared deviation is on
    average W (1 + 1 / n) from their mean and W + B from the level. A repeatable signal is
    therefore shrunk little, a noisy one strongly, and no constant depends on the data set.

    After `restart` the signal is the deviation from known values, such as those of a survey. B is
    then the variance of real changes, and W that of noise.

    `memory` is the smallest weight of the newest observation (beta). Old observations are
    forgotten, because embeddings change during training.
    """

    def __init__(self, nodes: int, layers: int, memory: float) -> None:
        self.memory = memory
        self.steps = zeros(layers, np.int64)
        self.arm = [zeros((nodes, 2), np.float32) for _ in range(layers)]  # m_j, n_j
        self.level = zeros(layers)
        self.scatter = zeros((layers, 2))  # W, W + B
        self.measured = zeros(layers, np.int64)  # steps with a node seen before

    def prior(self, layer: int) -> float:
        """s = W / B: the number of observations at which the estimate is half of the mean."""
        within, total = self.scatter[layer]
        if self.measured[layer] == 0:
            return FIRST_PRIOR
        between = max(total - within, LEAST_SPREAD * within)
        return float(within / between) if between > 0 else 0.0

    def follow(
        self, layer: int, source: Sequence[IntArray], signal: Sequence[FloatArray]
    ) -> list[FloatArray]:
        """Update with one step's observations, by shard; returns the nodes' new estimates.

        A node seen by two shards is updated by both, in order.

        source  shards of int64[S], signal  shards of float[S] -> shards of float64[S]
        """
        level = np.concatenate(signal).mean() if len(signal) > 1 else signal[0].mean()
        rate = max(1 / (int(self.steps[layer]) + 1), self.memory)
        self.level[layer] += rate * (float(level) - self.level[layer])
        self.steps[layer] += 1
        estimates, sums, repeats = [], np.zeros(2), 0.0
        prior = self.prior(layer)
        for nodes, values in zip(source, signal, strict=True):
            estimate, misses, squares, seen_before = kernels.follow(
                nodes, values, float(self.level[layer]), self.memory, prior, self.arm[layer]
            )
            estimates.append(np.asarray(estimate))
            sums += [misses, squares]
            repeats += seen_before
        if repeats > 0:
            rate = max(1 / (int(self.measured[layer]) + 1), MEMORY)
            self.scatter[layer] += rate * (sums / repeats - self.scatter[layer])
            self.measured[layer] += 1
        return estimates

    def restart(self, layer: int) -> None:
        """Forget the nodes' means, because the signal becomes the deviation from known values.

        W is kept, as the noise stays what it was, and B starts at 0. An unknown W does not matter,
        because the next observations outweigh it.
        """
        self.arm[layer][:] = 0
        self.steps[layer] = self.level[layer] = 0
        self.scatter[layer] = self.scatter[layer, 0] if self.measured[layer] else 1.0
        self.measured[layer] = 1

    def state_dict(self, name: str) -> State:
        """All arrays, under names that start with `name`."""
        state: State = {
            f"{name}.steps": self.steps,
            f"{name}.level": self.level,
            f"{name}.scatter": self.scatter,
            f"{name}.measured": self.measured,
        }
        return state | {f"{name}.{layer}.arm": arm for layer, arm in enumerate(self.arm)}
