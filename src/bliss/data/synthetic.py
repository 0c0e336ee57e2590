"""The embedded graph: communities, heavy-tailed degrees, heavy-tailed messages, from a seed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from bliss.data.dataset import Dataset
from bliss.data.planetoid import undirected
from bliss.data.splits import by_fraction

NUM_NODES = 20_000
NUM_PAIRS = 206_000  # drawn; about 200,000 are left when equal ones and self-loops are merged
NUM_CLASSES = 10
NUM_FEATURES = 64
AT_HOME = 0.5  # share of edges that stay within a community
TAIL = 1.6  # popularity is Pareto distributed with this exponent
SIGNAL = 0.2  # length of a class's direction against noise of length 1
SPREAD = 1.0  # deviation of the log of a feature vector's size


def make_synthetic(name: str, seed: int) -> Dataset:
    """A stochastic block model whose nodes differ in popularity and in size of message.

    Node v of class c, with popularity t_v ~ Pareto(TAIL) and size s_v ~ LogNormal(0, SPREAD), has

        x_v = s_v (SIGNAL m_c + e_v),    e_v ~ Normal(0, I / F),    |m_c| = 1

    An edge starts at u with chance proportional to t_u and ends at a v chosen likewise: within
    u's class with chance AT_HOME, otherwise anywhere. Sizes and popularities know nothing of
    classes, so one node's features say little of its class, and its neighbourhood's much. Half of
    the nodes are for training, a quarter each for validation and test.
    """
    random = np.random.default_rng([seed, 0xB1155])
    y = random.integers(0, NUM_CLASSES, NUM_NODES)
    popularity = 1 + random.pareto(TAIL, NUM_NODES)
    source = _draw(random, popularity, NUM_PAIRS)
    target = _draw(random, popularity, NUM_PAIRS)
    at_home = random.random(NUM_PAIRS) < AT_HOME
    for label in range(NUM_CLASSES):
        members = np.flatnonzero(y == label)
        here = np.flatnonzero(at_home & (y[source] == label))
        target[here] = members[_draw(random, popularity[members], here.size)]

    directions = random.standard_normal((NUM_CLASSES, NUM_FEATURES))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    noise = random.standard_normal((NUM_NODES, NUM_FEATURES)) / np.sqrt(NUM_FEATURES)
    size = random.lognormal(0, SPREAD, (NUM_NODES, 1))
    x = (size * (SIGNAL * directions[y] + noise)).astype(np.float32)

    splits = by_fraction((0.5, 0.25, 0.25), np.arange(NUM_NODES), seed)
    return Dataset(
        name,
        undirected(np.stack([source, target]), NUM_NODES),
        torch.from_numpy(x),
        torch.from_numpy(y),
        {key: torch.from_numpy(ids) for key, ids in splits.items()},
        NUM_CLASSES,
    )


def _draw(
    random: np.random.Generator, chance: npt.NDArray[np.float64], count: int
) -> npt.NDArray[np.int64]:
    """Positions drawn with chances proportional to `chance`. int64[count]."""
    ends = np.cumsum(chance)
    place = np.searchsorted(ends, random.random(count) * ends[-1], side="right")
    inside: npt.NDArray[np.int64] = np.minimum(place, chance.size - 1)  # rounding may reach the end
    return inside
