"""The synthetic graph: communities, heavy-tailed degrees and heavy-tailed feature norms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from bliss.arrays import FloatArray, IntArray
from bliss.data.dataset import Dataset
from bliss.data.edges import undirected
from bliss.data.splits import by_fraction

NUM_NODES = 20_000
NUM_PAIRS = 206_000  # drawn; about 200,000 remain without duplicates and self-loops
NUM_CLASSES = 10
NUM_FEATURES = 64
AT_HOME = 0.5  # fraction of edges within a community
TAIL = 1.6  # exponent of the Pareto distribution of popularity
SIGNAL = 0.2  # norm of a class direction; the noise has norm 1
SPREAD = 1.0  # standard deviation of the log norm of a feature vector


def make_synthetic(name: str, _folder: Path, seed: int) -> Dataset:
    """Draw the built-in graph."""
    return make_communities(name, seed)


def make_communities(
    name: str, seed: int, num_classes: int = NUM_CLASSES, at_home: float = AT_HOME
) -> Dataset:
    """Draw a stochastic block model whose nodes differ in popularity and feature norm.

    Node v of class c, with popularity t_v ~ Pareto(TAIL) and scale s_v ~ LogNormal(0, SPREAD), has

        x_v = s_v (SIGNAL m_c + e_v),    e_v ~ Normal(0, I / F),    |m_c| = 1

    The source u of an edge is drawn with probability proportional to t_u. Its target v is drawn in
    the same way, with probability `at_home` from the class of u and otherwise from all nodes. Scale
    and popularity are independent of the class: the features of one node say little about its
    class, those of its neighbourhood much. Half of the nodes are for training, a quarter each for
    validation and testing.
    """
    random = np.random.default_rng([seed, 0xB1155])
    y = random.integers(0, num_classes, NUM_NODES)
    popularity = 1 + random.pareto(TAIL, NUM_NODES)
    source = _draw(random, popularity, NUM_PAIRS)
    target = _draw(random, popularity, NUM_PAIRS)
    is_home = random.random(NUM_PAIRS) < at_home
    for label in range(num_classes):
        members = np.flatnonzero(y == label)
        here = np.flatnonzero(is_home & (y[source] == label))
        target[here] = members[_draw(random, popularity[members], here.size)]

    directions = random.standard_normal((num_classes, NUM_FEATURES))
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
        num_classes,
    )


def _draw(random: np.random.Generator, mass: FloatArray, count: int) -> IntArray:
    """Draw positions with probabilities proportional to `mass`. int64[count]."""
    ends = np.cumsum(mass)
    place = np.searchsorted(ends, random.random(count) * ends[-1], side="right")
    inside: IntArray = np.minimum(place, mass.size - 1)  # rounding can reach the end
    return inside
