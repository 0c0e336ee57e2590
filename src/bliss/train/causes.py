"""Likely causes of a network that does not learn, the likeliest first, each with its remedy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from bliss.train.constant import sample
from bliss.train.task import Task

LARGE = 10.0
"""Deviation of a feature, or sum of a node's weights, from which it is named as a cause."""


def likely_causes(task: Task, steps: int | None = None) -> list[str]:
    """Sentences, in order: scale of features, edge weights, learning rate, labels.

    Features and weights are named only if they are out of scale at a sample of training nodes. The
    network was trained for `steps`; by default, for all of the task's.
    """
    rate = task.config.training.lr
    steps = task.config.training.steps if steps is None else steps
    return [
        *_unscaled_features(task),
        *_unscaled_weights(task),
        f"The learning rate ({rate:g}) does not suit, or {steps:,} steps are too few: try --lr "
        f"{rate / 10:g} and --lr {rate * 10:g}, or more --steps.",
        task.objective.unlearnable,
    ]


def _unscaled_features(task: Task) -> list[str]:
    nodes = sample(task.objective.train_nodes)
    return [text for of, x in _features(task, nodes) for text in _unscaled(of, x.double())]


def _unscaled(of: str, x: torch.Tensor) -> list[str]:
    """What is wrong with the scale of features [N, F]; `of` names their type."""
    deviation = x.std(0, correction=0)
    far = torch.maximum(deviation, x.mean(0).abs())  # a large mean hides the rest, too
    if not far.numel() or not float(far.max()) > LARGE:
        return []
    widest, least = int(far.argmax()), _smallest(deviation)
    mean = float(x[:, widest].mean())
    return [
        f"Features{of} are not scaled: column {widest} has the mean {mean:.3g} and the deviation "
        f"{float(deviation[widest]):.3g}, the smallest deviation is {least:.3g}. "
        "Train with --features standard, or scale each column to mean 0 and deviation 1."
    ]


def _features(task: Task, nodes: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Encoded features of training nodes, by type. int64[N] -> [N, F]."""
    if task.typed is None:
        yield "", task.x.index_select(0, nodes)
        return
    for name, x in task.typed.x.items():
        own = task.typed.types.range_of(name)
        chosen = nodes[(nodes >= own.start) & (nodes < own.stop)] - own.start
        if len(chosen) and name not in task.typed.learnt:
            yield f" of type {name}", x.index_select(0, chosen)


def _smallest(deviation: torch.Tensor) -> float:
    """The smallest deviation that is not 0; 0 if there is none."""
    varying = deviation[deviation > 0]
    return float(varying.min()) if varying.numel() else 0.0


def _unscaled_weights(task: Task) -> list[str]:
    graph = task.graph
    if graph.norm != "weights":
        return []
    nodes = sample(task.objective.train_nodes).numpy()
    ends = zip(graph.indptr[nodes], graph.indptr[nodes + 1], strict=True)
    sums = np.array([graph.weight[start:end].sum(dtype=np.float64) for start, end in ends])
    largest = float(np.abs(sums).max())
    if not largest > LARGE:
        return []
    return [
        f"Edge weights are summed, and the sums of a node reach {largest:.3g}: import the graph "
        "with --norm weighted-mean, or leave the weights out."
    ]
