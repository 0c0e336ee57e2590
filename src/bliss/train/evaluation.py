"""Evaluation: scores of a network on the splits of its data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import mean, stdev
from typing import Any, Protocol

import torch
from torch import Tensor

from bliss.data import cache_folder
from bliss.loader.gather import Gather
from bliss.nn.inference import infer
from bliss.nn.model import GNN
from bliss.rng import Stream
from bliss.samplers.base import Sampler
from bliss.train.batch import NodeData
from bliss.train.metrics import mean_squared_error, micro_f1, r2
from bliss.train.task import Task

FEW = 1024
"""Training nodes that are scored in any case."""
Progress = Callable[[float], None]
"""Called with the share done, about every second; may raise to stop."""


class Surveyor(Protocol):
    """A sampler, or what records a survey for one."""

    def survey(self, model: GNN, x: Tensor, **options: Any) -> Tensor:
        """Infer all nodes; returns the outputs."""


def full_logits(
    task: Task, progress: Progress | None = None, nodes: Tensor | None = None
) -> Tensor:
    """Outputs of the network from full neighbourhoods, at all nodes or some. float32[V, C].

    For regression these are standardised targets; `task.predictions` restores their units. Outputs
    of layers that take more than 1 GiB are kept on disk, in the user's cache.
    """
    return infer(
        task.model,
        task.graph,
        task.x,
        device=task.device,
        progress=progress,
        nodes=nodes,
        scratch=cache_folder(),
    )


def evaluate(
    task: Task,
    splits: Sequence[str],
    progress: Progress | None = None,
    *,
    surveyor: Surveyor | None = None,
) -> dict[str, float]:
    """Score by split from full neighbourhoods; the same pass is a survey for `surveyor`.

    The score is micro-F1, or for regression R2, with the mean squared error beside it: "val" and
    "val_mse". All nodes are inferred with a surveyor, and with the setting evaluate="full";
    otherwise the nodes of `scored_nodes` and what they see.
    """
    options = {"device": task.device, "progress": progress, "scratch": cache_folder()}
    if surveyor is not None:
        logits = surveyor.survey(task.model, task.x, **options)
    elif infers_all(task):
        logits = full_logits(task, progress)
    else:
        nodes = {name: scored_nodes(task, name) for name in splits}
        logits = full_logits(task, progress, torch.cat(list(nodes.values())))
        parts = torch.split(logits, [len(one) for one in nodes.values()])
        pairs = zip(nodes.items(), parts, strict=True)
        return _merged(_scores(task, name, own, part) for (name, own), part in pairs)
    own = task.dataset.splits
    return _merged(_scores(task, name, own[name], logits[own[name]]) for name in splits)


def infers_all(task: Task) -> bool:
    """Whether `evaluate` infers all nodes."""
    mode = task.config.training.evaluate
    is_small = not task.config.is_large(task.graph.num_nodes)
    return mode == "full" or (mode == "sampled" and is_small)


def scored_nodes(task: Task, split: str) -> Tensor:
    """Nodes of a split that are scored, unless all nodes are inferred. int64[N].

    These are all of them, except of training nodes: there, as many as there are validation nodes,
    but at least 1024, spread evenly over the split.
    """
    nodes = task.dataset.splits[split]
    most = max(len(task.dataset.splits["val"]), FEW)
    if split != "train" or len(nodes) <= most:
        return nodes
    return nodes[torch.arange(most) * len(nodes) // most]


def _merged(parts: Iterable[dict[str, float]]) -> dict[str, float]:
    return {name: value for part in parts for name, value in part.items()}


def _scores(task: Task, split: str, nodes: Tensor, outputs: Tensor) -> dict[str, float]:
    """Scores of the outputs of a split's nodes. [N], [N, C]."""
    wanted = task.dataset.y[nodes]
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
    """Scores as in `evaluate`, from sampled neighbourhoods: means over independent draws.

    With several draws there is also the standard error of each score, "val_error": the deviation
    over draws divided by the root of their number. It tells how far the score is from its mean over
    all draws, which is not the exact score: a network is not linear in its inputs.
    """
    was_training = task.model.training
    task.model.eval()
    found: dict[str, float] = {}
    draws, gather = task.config.training.evaluate_draws, Gather(NodeData(x=task.x), sampler)
    try:
        for name in splits:
            batches = torch.split(scored_nodes(task, name), task.config.training.batch_size)
            drawn = []
            for draw in range(draws):
                logits = []
                for number, seeds in enumerate(batches):
                    place = draw * len(batches) + number
                    gather.check()
                    blocks = sampler.sample(seeds, Stream.EVALUATION + place)
                    x = gather("x", task.x, blocks[0].src).float().to(task.device)
                    moved = [block.to(task.device) for block in blocks]
                    logits.append(task.model(x, moved).float().cpu())
                    if progress:
                        progress((place + 1) / (draws * len(batches)))
                drawn.append(_scores(task, name, torch.cat(batches), torch.cat(logits)))
            found |= {key: mean([one[key] for one in drawn]) for key in drawn[0]}
            if draws > 1:
                found[f"{name}_error"] = stdev([one[name] for one in drawn]) / draws**0.5
    finally:
        task.model.train(was_training)
    return found
