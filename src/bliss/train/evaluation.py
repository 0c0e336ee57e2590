"""Evaluation: micro-F1 of a network on the splits of its data set."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from bliss.nn.inference import infer
from bliss.rng import Stream
from bliss.samplers.base import Sampler
from bliss.train.metrics import micro_f1
from bliss.train.task import Task

Progress = Callable[[float], None]
"""Called with the share done, about every second; may raise to stop."""


def full_logits(task: Task, progress: Progress | None = None) -> Tensor:
    """Logits of all nodes from full neighbourhoods. float32[V, C]."""
    return infer(task.model, task.graph, task.x, device=task.device, progress=progress)


def evaluate(
    task: Task,
    splits: Sequence[str],
    progress: Progress | None = None,
    *,
    student: Sampler | None = None,
) -> dict[str, float]:
    """Micro-F1 by split from full neighbourhoods; a student learns from the same pass."""
    if student is None:
        logits = full_logits(task, progress)
    else:
        logits = student.survey(task.model, task.x, device=task.device, progress=progress)
    nodes = {name: task.dataset.splits[name] for name in splits}
    return {name: micro_f1(logits[ids], task.dataset.y[ids]) for name, ids in nodes.items()}


@torch.no_grad()
def evaluate_sampled(
    task: Task, sampler: Sampler, splits: Sequence[str], progress: Progress | None = None
) -> dict[str, float]:
    """Micro-F1 by split from sampled neighbourhoods."""
    was_training = task.model.training
    task.model.eval()
    found = {}
    try:
        for name in splits:
            nodes, logits = task.dataset.splits[name], []
            for number, seeds in enumerate(torch.split(nodes, task.config.batch_size)):
                blocks = sampler.sample(seeds, Stream.EVALUATION + number)
                x = task.x.index_select(0, blocks[0].src).to(task.device)
                moved = [block.to(task.device) for block in blocks]
                logits.append(task.model(x, moved).float().cpu())
                if progress:
                    progress((number + 1) * task.config.batch_size / len(nodes))
            found[name] = micro_f1(torch.cat(logits), task.dataset.y[nodes])
    finally:
        task.model.train(was_training)
    return found
