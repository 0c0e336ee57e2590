"""Gradients of batches, and the error that sampling adds to them.

With g the gradient of a batch's loss with full neighbourhoods and g^ that of a draw,

    r = E|g^ - g|^2 / E|g|^2

the noise that sampling adds to that of the choice of batches. Gradients are taken in
evaluation mode: without dropout, and with the running statistics of batch normalisation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from bliss.arrays import FloatArray, IntArray
from bliss.rng import Stream, derive_key, hashes
from bliss.samplers import Full, Sampler
from bliss.train import Task


def training_batch(task: Task, step: int, number: int) -> IntArray:
    """A batch of training nodes for measurements: the first in the order of their hashes."""
    nodes: IntArray = task.dataset.splits["train"].numpy()
    key = derive_key(task.config.seed, Stream.FRONTIERS, step, number)
    return nodes[np.argsort(hashes(key, nodes))[: task.config.training.batch_size]]


def gradient(task: Task, sampler: Sampler, seeds: IntArray, step: int) -> Tensor:
    """Gradient of the loss of one draw of a batch by all parameters. float32[P]."""
    task.model.eval()
    blocks = sampler.sample(seeds, Stream.MEASUREMENT + step)
    x = task.at(blocks[0])
    logits = task.model(x, [block.to(task.device) for block in blocks])
    labels = task.labels.y[torch.from_numpy(seeds)].to(task.device)
    gradients = torch.autograd.grad(
        task.labels.mean_loss(logits, labels), list(task.model.parameters())
    )
    return torch.cat([one.detach().flatten().cpu() for one in gradients])


def full_gradients(task: Task, batches: Sequence[IntArray]) -> Tensor:
    """Gradients of batches with full neighbourhoods. float32[batches, P]."""
    full = Full(task.graph, layers=task.config.network.layers)
    return torch.stack([gradient(task, full, seeds, 0) for seeds in batches])


def squared_errors(
    task: Task, sampler: Sampler, batches: Sequence[IntArray], exact: Tensor, draws: int
) -> FloatArray:
    """|g^ - g|^2 of each draw of each batch. float64[batches, draws]."""
    return np.array(
        [
            [
                float((gradient(task, sampler, seeds, place * draws + draw) - full).square().sum())
                for draw in range(draws)
            ]
            for place, (seeds, full) in enumerate(zip(batches, exact, strict=True))
        ]
    )
