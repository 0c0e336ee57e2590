"""Samplers by name with settings that fit a small graph, and what a model would show them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from bliss import Block, Graph
from bliss.samplers import Sampler, sampler_config


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
