"""Evaluation: scores of a network on the splits of its data set."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from bliss.nn.inference import infer
from bliss.rng import Stream
from bliss.samplers.base import Sampler
from bliss.train.metrics import mean_squared_error, micro_f1, r2
from bliss.train.task import Task

Progress = Callable[[float], None]
"""Called with the share done, about every second; may raise to stop."""


def full_logits(task: Task, progress: Progress | None = None) -> Tensor:
    """Outputs of the network for all nodes from full neighbourhoods. float32[V, C].

    For regression these are standardised targets; `task.predictions` restores their units.
    """
    return infer(task.model, task.graph, task.x, device=task.device, progress=progress)


def evaluate(
    task: Task,
    splits: Sequence[str],
    progress: Progress | None = None,
    *,
    student: Sampler | None = None,
) -> dict[str, float]:
    """Score by split from full neighbourhoods; a student learns from the same pass.

    The score is micro-F1, or for regression R2, with the mean squared error beside it: "val" and
    "val_mse".
    """
    if student is None:
        logits = full_logits(task, progress)
    else:
        logits = student.survey(task.model, task.x, device=task.device, progress=progress)
    found: dict[str, float] = {}
    for name in splits:
        found |= _scores(task, name, logits[task.dataset.splits[name]])
    return found


def _scores(task: Task, split: str, outputs: Tensor) -> dict[str, float]:
    """Scores of the outputs of a split's nodes. [N, C]."""
    wanted = task.dataset.y[task.dataset.splits[split]]
    if task.scale is None:
        return {split: micro_f1(outputs, wanted)}
    predicted = task.predictions(outputs)
    return {
        split: r2(predicted, wanted),
        f"{split}_mse": mean_squared_error(predicted, wanted),
    }


@torch.no_grad()
def evaluate_sampled(
    task: Task, sampler: Sampler, splits: Sequence[str], progress: Progress | None = None
) -> dict[str, float]:
    """Scores as in `evaluate`, from sampled neighbourhoods."""
    was_training = task.model.training
    task.model.eval()
    found: dict[str, float] = {}
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
            found |= _scores(task, name, torch.cat(logits))
    finally:
        task.model.train(was_training)
    return found
