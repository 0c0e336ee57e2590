"""Graphs of several experiments: one whose labels need three layers, and large training splits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from bliss import Graph
from bliss.data import Dataset

CLASSES = 6
FEATURES = 32
DEGREE = 12  # mean; degrees are heavy-tailed
SPREAD = 1.0  # standard deviation of the log norm of a feature vector


def three_hops(nodes: int = 200_000, seed: int = 0) -> Dataset:
    """Labels are the largest of CLASSES linear functions of the features, averaged three times.

    With P the mean over in-neighbours (the node itself included) and x_v = s_v e_v, where
    s_v ~ LogNormal(0, SPREAD) and e_v ~ Normal(0, I),

        y_v = argmax over classes of (P^3 x W)_v, standardised over nodes for each class

    Degrees follow a power law, and neither they nor s_v depend on the class. Half of the nodes are
    for training, a quarter each for validation and testing.
    """
    random = np.random.default_rng([seed, 0x3409])
    popularity = 1 + random.pareto(1.8, nodes)
    ladder = np.cumsum(popularity)
    pairs = nodes * DEGREE // 2
    ends = np.searchsorted(ladder, random.random((2, pairs)) * ladder[-1]).clip(max=nodes - 1)
    graph = Graph.from_edge_index(np.concatenate([ends, ends[::-1]], axis=1), nodes)
    x = random.lognormal(0, SPREAD, (nodes, 1)) * random.standard_normal((nodes, FEATURES))
    score = x @ random.standard_normal((FEATURES, CLASSES))
    for _ in range(3):
        owner = np.repeat(np.arange(nodes), graph.degree)
        sums = np.stack(
            [np.bincount(owner, score[graph.indices, c], nodes) for c in range(CLASSES)], axis=1
        )
        score = sums / np.maximum(graph.degree, 1)[:, None]
    y = ((score - score.mean(0)) / score.std(0)).argmax(1)
    order = torch.from_numpy(random.permutation(nodes))
    half, quarter = nodes // 2, nodes // 4
    splits = {
        "train": order[:half],
        "val": order[half : half + quarter],
        "test": order[half + quarter :],
    }
    x = torch.from_numpy(x.astype(np.float32))
    return Dataset("three-hops", graph, x, torch.from_numpy(y), splits, CLASSES)


def with_large_split(dataset: Dataset) -> Dataset:
    """60% of the nodes for training and 20% each for validation and testing, at random."""
    nodes = dataset.graph.num_nodes
    order = torch.from_numpy(np.random.default_rng(0).permutation(nodes))
    first, second = int(0.6 * nodes), int(0.8 * nodes)
    splits = {"train": order[:first], "val": order[first:second], "test": order[second:]}
    return replace(dataset, splits=splits)
