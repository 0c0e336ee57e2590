"""What is seen of a node, over and over and never quite the same, and how much to believe."""

from __future__ import annotations

import numpy as np

from bliss.arrays import FloatArray, IntArray
from bliss.kernels import node_bandit as kernels
from bliss.policies.base import State

FIRST_PRIOR = 0.5
"""s until a node was seen a second time, and so nothing is known of how looks scatter."""
LEAST_SPREAD = 0.02
"""Nodes are taken to differ by at least this share of W: looks that scatter hide what differs."""
MEMORY = 0.05
"""Least weight of the newest step in what is measured of the looks."""


class Beliefs:
    """A running mean for each node and layer, shrunk as far as its looks disagree.

        x_j  = signal_j - level,    level <- running mean of the signal over the layer's sources
        m_j <- m_j + max(1 / (n_j + 1), beta) (x_j - m_j),    n_j <- n_j + 1
        believed_j = m_j n / (n + s),    n = min(n_j, 2 / beta - 1),    s = W / B

    This is the best guess, in squares, if nodes scatter around the level with variance B and looks
    at a node around its own value with variance W; n is the number of looks that the running mean
    is worth. Both are measured at nodes seen again: in squares, on average, they miss their mean by
    W (1 + 1 / n) and the level by W + B. So what repeats itself is believed at once, what does not
    is believed slowly, and there is no constant to choose for a data set.

    Parameters
    ----------
    nodes, layers
        How many there are.
    memory
        Least weight of the newest look (beta): embeddings move, so old news fades.
    """

    def __init__(self, nodes: int, layers: int, memory: float) -> None:
        self.memory = memory
        self.steps = np.zeros(layers, np.int64)
        self.arm = [np.zeros((nodes, 2), np.float32) for _ in range(layers)]  # m_j, n_j
        self.level = np.zeros(layers)
        self.scatter = np.zeros((layers, 2))  # W, W + B
        self.measured = np.zeros(layers, np.int64)  # steps that had a node seen before

    def prior(self, layer: int) -> float:
        """s = W / B: the looks it takes to believe half of what was seen."""
        within, total = self.scatter[layer]
        if self.measured[layer] == 0:
            return FIRST_PRIOR
        between = max(total - within, LEAST_SPREAD * within)
        return float(within / between) if between > 0 else 0.0

    def follow(self, layer: int, source: IntArray, signal: FloatArray) -> FloatArray:
        """Take in what was seen of some nodes, [S] each, and return what to believe. float64[S]."""
        rate = max(1 / (int(self.steps[layer]) + 1), self.memory)
        self.level[layer] += rate * (float(signal.mean()) - self.level[layer])
        self.steps[layer] += 1
        believed, misses, squares, repeats = kernels.follow(
            source,
            signal,
            float(self.level[layer]),
            self.memory,
            self.prior(layer),
            self.arm[layer],
        )
        if repeats > 0:
            rate = max(1 / (int(self.measured[layer]) + 1), MEMORY)
            seen = np.array([misses, squares]) / repeats
            self.scatter[layer] += rate * (seen - self.scatter[layer])
            self.measured[layer] += 1
        return np.asarray(believed)

    def state_dict(self, name: str) -> State:
        """Everything, under names that start with `name`."""
        state: State = {
            f"{name}.steps": self.steps,
            f"{name}.level": self.level,
            f"{name}.scatter": self.scatter,
            f"{name}.measured": self.measured,
        }
        return state | {f"{name}.{layer}.arm": arm for layer, arm in enumerate(self.arm)}
