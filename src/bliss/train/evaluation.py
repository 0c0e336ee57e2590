"""Evaluation: scores of a network on the splits of its data set."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bliss.arrays import Bytes
from bliss.data import cache_folder
from bliss.distributed.groups import as_bytes
from bliss.distributed.packing import pack_news, unpack_news
from bliss.feedback import News
from bliss.graph import Cutoff, Graph
from bliss.loader.gather import Gather
from bliss.nn.block import Block
from bliss.nn.inference import evaluating, infer
from bliss.nn.layers import OnProgress
from bliss.rng import Stream
from bliss.samplers import Full
from bliss.samplers.base import Sampler
from bliss.train.batch import NodeData
from bliss.train.task import Task

FEW = 1024
"""Training nodes that are scored in any case."""


class SurveyedScores(NamedTuple):
    """Scores of an evaluation, and what a sampler may learn from the same pass."""

    scores: dict[str, float]  # by split, see `evaluate`
    news: list[News]  # of a survey, by layer, for `Sampler.apply`; empty without a survey

    def pack(self) -> Bytes:
        """Scores and updates as bytes, for other processes."""
        text = as_bytes(json.dumps(self.scores))
        length = as_bytes(text.size.to_bytes(8, "little"))
        return np.concatenate([length, text, pack_news([self.news])])

    @classmethod
    def unpack(cls, content: Bytes) -> SurveyedScores:
        """The inverse of `pack`."""
        end = 8 + int.from_bytes(content[:8].tobytes(), "little")
        (news,) = unpack_news(content[end:])
        return cls(json.loads(content[8:end].tobytes()), news)


def full_logits(
    task: Task, progress: OnProgress = None, nodes: Tensor | None = None, graph: Graph | None = None
) -> Tensor:
    """Outputs of the network from full neighbourhoods, at all nodes or some. float32[V, C].

    For regression these are standardised targets; `task.labels.predictions` restores their units.
    Of links, they are embeddings. The graph is that of training by default. Outputs of layers that
    take more than 1 GiB are kept on disk, in the user's cache.
    """
    outputs: Tensor = infer(
        task.model,
        graph or task.graph,
        task.everywhere(),
        device=task.device,
        progress=progress,
        nodes=nodes,
        scratch=cache_folder(),
    )
    return outputs


def evaluate(task: Task, splits: Sequence[str], progress: OnProgress = None) -> dict[str, float]:
    """Score by split from full neighbourhoods.

    The score is that of `task.metric`; for regression, the mean squared error is beside it: "val"
    and "val_mse". With the setting evaluate="full", all nodes are inferred; otherwise the nodes of
    `scored_nodes` and their neighbourhoods.
    """
    scores: dict[str, float] = {}
    for split, nodes, outputs in split_outputs(task, splits, progress):
        scores |= task.objective.scores(split, nodes, outputs, progress)
    return scores


def split_outputs(
    task: Task, splits: Sequence[str], progress: OnProgress = None
) -> Iterator[tuple[str, Tensor | None, Tensor]]:
    """Each split, its nodes that are scored (None: all), and their outputs. int64[N], [N, C]."""
    if task.objective.node_time is not None:
        for split in splits:
            own_nodes = scored_nodes(task, split)
            yield split, own_nodes, own_time_outputs(task, own_nodes, progress=progress)
        return
    if infers_all(task):
        graph, logits = None, torch.empty(0)
        for split in splits:
            own = task.graph_of(split)
            if own is not graph:
                graph, logits = own, full_logits(task, progress, graph=own)
            nodes = task.objective.nodes(split)
            yield split, nodes, logits if nodes is None else logits[nodes]
        return
    parts = [scored_nodes(task, split) for split in splits]
    logits = full_logits(task, progress, torch.cat(parts))
    outputs = torch.split(logits, [len(part) for part in parts])
    yield from zip(splits, parts, outputs, strict=True)


@torch.no_grad()
def own_time_outputs(
    task: Task,
    nodes: Tensor,
    sampler: Sampler | None = None,
    step: int = Stream.EVALUATION,
    progress: OnProgress = None,
) -> Tensor:
    """Outputs at nodes [N], each from edges up to its timestamp. float32[N, C].

    By default from full neighbourhoods. Batches are in the order of time.
    """
    assert task.objective.node_time is not None
    sampler = sampler or Full(task.graph, layers=task.config.network.layers)
    time, size = task.objective.node_time[nodes], task.config.training.batch_size
    run, window = on_blocks(task, sampler), task.config.objective.seen_window
    order = np.argsort(time, kind="stable")
    outputs = torch.empty(order.size, task.objective.num_outputs)
    with evaluating(task.model):
        for number, start in enumerate(range(0, order.size, size)):
            own = order[start : start + size]
            seen = Cutoff.of(time[own], window=window)
            blocks = sampler.sample(nodes[own], step + number, time=seen)
            outputs[torch.from_numpy(own)] = run(blocks).cpu()
            if progress:
                progress(min(start + size, order.size) / order.size)
    return outputs


def evaluate_and_survey(
    task: Task, sampler: Sampler, splits: Sequence[str], progress: OnProgress = None
) -> SurveyedScores:
    """Scores as in `evaluate`, of all nodes, in a pass that is a survey for the sampler.

    The sampler has not learnt from it yet: pass [news] to `Sampler.apply`, if it is not empty.
    """
    options = {"device": task.device, "progress": progress, "scratch": cache_folder()}
    logits, news = sampler.surveyed(task.model, task.everywhere(), **options)
    scores: dict[str, float] = {}
    for split in splits:
        nodes = task.objective.nodes(split)
        outputs = logits if nodes is None else logits[nodes]
        scores |= task.objective.scores(split, nodes, outputs, progress)
    return SurveyedScores(scores, news)


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


def on_blocks(task: Task, sampler: Sampler) -> Callable[[Sequence[Block]], Tensor]:
    """A function that runs the network on the blocks of a batch. -> float32[B, C], on its device.

    Mapped features are read as loaders read them.
    """
    by_type = None if task.typed is None else task.typed.gathers(sampler)
    gathers = [Gather(NodeData(x=task.x), sampler)] if by_type is None else by_type.values()

    def run(blocks: Sequence[Block]) -> Tensor:
        for gather in gathers:
            gather.check()
        moved = [block.to(task.device) for block in blocks]
        if task.typed is None:
            (gather,) = gathers
            x: Any = gather("x", task.x, blocks[0].src).float().to(task.device)
        else:
            x = task.typed.at(moved[0], by_type)
        outputs: Tensor = task.model(x, moved)
        return outputs.float()

    return run


@torch.no_grad()
def evaluate_sampled(
    task: Task, sampler: Sampler, splits: Sequence[str], progress: OnProgress = None
) -> dict[str, float]:
    """Scores as in `evaluate`, from sampled neighbourhoods: means over independent draws.

    With several draws there is also the standard error of each score, "val_error": the deviation
    over draws divided by the root of their number. It measures how far the score is from its mean
    over all draws, which is not the exact score: a network is not linear in its inputs.
    """
    scores: dict[str, float] = {}
    draws, run = task.config.training.evaluate_draws, on_blocks(task, sampler)
    with evaluating(task.model):
        for split in splits:
            nodes = scored_nodes(task, split)
            batches = torch.split(nodes, task.config.training.batch_size)
            drawn = []  # scores of each draw
            for draw in range(draws):
                if task.objective.node_time is not None:
                    step = Stream.EVALUATION + draw * len(batches)
                    outputs = own_time_outputs(task, nodes, sampler, step, progress)
                    drawn.append(task.objective.scores(split, nodes, outputs))
                    continue
                logits = []
                for number, seeds in enumerate(batches, start=draw * len(batches)):
                    logits.append(run(sampler.sample(seeds, Stream.EVALUATION + number)).cpu())
                    if progress:
                        progress((number + 1) / (draws * len(batches)))
                drawn.append(task.objective.scores(split, nodes, torch.cat(logits)))
            scores |= {name: mean([each[name] for each in drawn]) for name in drawn[0]}
            if draws > 1:
                scores[f"{split}_error"] = stdev([each[split] for each in drawn]) / draws**0.5
    return scores
