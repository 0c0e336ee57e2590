"""Small data sets, samplers with settings that fit them, and what a model would show them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from bliss import Block, Graph
from bliss.data import Dataset
from bliss.samplers import Sampler, sampler_config


def make_dataset(multilabel: bool = False, nodes: int = 240) -> Dataset:
    """A data set small enough to train on in a second."""
    random = np.random.default_rng(0)
    group = random.integers(0, 3, nodes)
    pairs = random.integers(0, nodes, (2, 12 * nodes))
    same = group[pairs[0]] == group[pairs[1]]
    pairs = pairs[:, same | (random.random(pairs.shape[1]) < 0.1)]
    x = torch.from_numpy(np.eye(3)[group] + random.normal(0, 1.2, (nodes, 3))).float()
    y = torch.from_numpy(group)
    if multilabel:
        y = torch.stack([y == 0, y != 1, y == 2], dim=1).float()
    order = torch.from_numpy(random.permutation(nodes))
    splits = {"train": order[:120], "val": order[120:180], "test": order[180:]}
    return Dataset(
        name="toy",
        graph=Graph.from_edge_index(pairs, nodes),
        x=x,
        y=y,
        splits=splits,
        num_classes=3,
    )


def small_features(graph: Graph) -> np.ndarray:
    """Features that differ between nodes. float32[V, 5]."""
    return np.random.default_rng(2).normal(size=(graph.num_nodes, 5)).astype(np.float32)


def make_sampler(
    name: str,
    graph: Graph,
    layers: int = 2,
    seed: int = 0,
    budgets: Any = None,
    width: int = 5,
    **options: Any,
) -> Sampler:
    """About 20 sources in the output layer, 4 neighbours per target, or a batch of 20."""
    config = sampler_config(name, **options)
    sampled = config.sampled_layers(layers)
    counts = {"sources": [20 * (sampled - layer) for layer in range(sampled)]}
    counts["neighbours"] = [4] * sampled
    sampler = config.build(
        graph,
        counts.get(config.unit, ()) if budgets is None else budgets,
        layers=layers,
        seed=seed,
        x=small_features(graph) if config.needs_features else None,
        widths=[width] * layers,
    )
    if config.makes_batches:
        sampler.prepare(np.arange(graph.num_nodes), min(20, graph.num_nodes))
    return sampler


def softmax(block: Block, score: np.ndarray) -> Tensor:
    """Attention proportional to a positive score of each source, score [V] -> [E']."""
    raised = torch.from_numpy(score)[block.src[block.row]]
    total = torch.zeros(block.num_dst, dtype=raised.dtype).index_add_(0, block.col, raised)
    return (raised / total[block.col]).float()
