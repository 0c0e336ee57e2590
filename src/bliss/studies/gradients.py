"""Gradients of training batches, whatever the task, and the error that sampling adds to them.

With g the gradient of a batch's loss with full neighbourhoods and g^ that of a draw,

    r = E|g^ - g|^2 / E|g|^2

the noise that sampling adds to that of the choice of batches. Gradients are taken in
evaluation mode: without dropout, and with the running statistics of batch normalisation. They are
by all parameters and, with learnt embeddings of nodes, by all rows of these.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from bliss.arrays import FloatArray
from bliss.loader.seeds import SeedBatch
from bliss.rng import Stream, derive_key, hashes
from bliss.samplers import Full, LayerSampler, Sampler
from bliss.studies.layer_errors import shared_full
from bliss.train import Task


def training_batch(task: Task, step: int, number: int) -> SeedBatch:
    """A batch of training nodes or links for measurements: the first in the order of hashes.

    If batches are in the order of time, it is one of those instead.
    """
    key = derive_key(task.config.seed, Stream.FRONTIERS, step, number)
    seeds, size = task.seed_loader.seeds, task.config.training.batch_size
    if task.config.objective.order == "time" and seeds.times is not None:
        starts = np.arange(0, len(seeds), size)
        start = int(starts[np.argmin(hashes(key, starts))])
        return seeds.batch(seeds.times.order[start : start + size], epoch=0)
    order = np.argsort(hashes(key, np.arange(task.objective.num_seeds)))
    return seeds.batch(order[:size], epoch=0)


def shares_sources(task: Task, sampler: Sampler) -> bool:
    """Whether sources see less than in trees of their own: those of layer-wise draws in time."""
    return task.graph.has_times and isinstance(sampler, LayerSampler)


def gradient(task: Task, sampler: Sampler, seeds: SeedBatch, step: int) -> Tensor:
    """Gradient of the loss of one draw of a batch. float32[P], or [P + V D] with embeddings."""
    task.model.eval()
    batch = task.seed_loader.draw(seeds, Stream.MEASUREMENT + step, sampler).to(task.device)
    inputs, learnt = task.inputs(batch)
    loss = task.objective.loss(task.model(inputs, batch.blocks), batch)
    weights = list(task.model.parameters())
    found = torch.autograd.grad(loss, weights if learnt is None else [*weights, learnt.rows])
    parts = [one.detach().flatten().cpu() for one in found[: len(weights)]]
    if task.embedding is not None and learnt is not None:
        table = torch.zeros(task.embedding.value.shape)
        table[learnt.ids.cpu()] = found[-1].cpu()
        parts.append(table.flatten())
    return torch.cat(parts)


def full_gradients(task: Task, batches: Sequence[SeedBatch], is_shared: bool = False) -> Tensor:
    """Gradients of batches with full neighbourhoods. float32[batches, P].

    With `is_shared`, each source is shared in time as by layer-wise samplers, whose draws then
    differ from these gradients by their sampling alone.
    """
    layers = task.config.network.layers
    full = shared_full(task.graph, layers) if is_shared else Full(task.graph, layers=layers)
    return torch.stack([gradient(task, full, seeds, 0) for seeds in batches])


def squared_errors(
    task: Task, sampler: Sampler, batches: Sequence[SeedBatch], exact: Tensor, draws: int
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
