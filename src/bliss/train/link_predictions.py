"""Predictions of links: scores of given pairs, or the best targets of each node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bliss import checks
from bliss.arrays import FloatArray, IntArray
from bliss.data import Dataset
from bliss.errors import InputError
from bliss.links.link_ranking import MEMORY
from bliss.train.evaluation import full_logits
from bliss.train.link_objective import LinkObjective
from bliss.train.link_scores import pair_scores
from bliss.train.task import Task

_PART = 2**16  # rows written at a time


def link_objective_of(task: Task) -> LinkObjective:
    """Objective of a run that was trained on links; raises an error for others."""
    if not isinstance(task.objective, LinkObjective):
        raise InputError(
            "the run was trained on labels of nodes, but pairs and top are predictions of links: "
            "leave them out, or train with task='link' (--task link)."
        )
    return task.objective


def pair_parts(task: Task, pairs: IntArray) -> Iterator[dict[str, list[Any]]]:
    """Scores of pairs [2, P] as columns source, target, score, some thousand at a time.

    With the loss bce there is also the probability 1 / (1 + exp(-score)), under as many negatives
    as in training. Messages are all edges of the graph.
    """
    objective = link_objective_of(task)
    z = _embeddings(task)
    for start in range(0, max(pairs.shape[1], 1), _PART):
        source, target = pairs[:, start : start + _PART]
        with torch.no_grad():
            scores = pair_scores(objective.decoder, z, source, target)
        yield _columns(task, source, target, scores)


def top_parts(
    task: Task, number: int, nodes: IntArray | None = None
) -> Iterator[dict[str, list[Any]]]:
    """The `number` targets of the highest scores of each node [N], best first, as columns.

    The node itself and targets of its edges are left out, so that a node with few other nodes has
    fewer rows. With the setting bipartite, nodes are by default all sources, and targets are all
    targets of links. Scores of some nodes are computed at a time, at most `MEMORY` bytes of them.
    """
    objective, graph = link_objective_of(task), task.dataset.graph
    if checks.whole("top", number, least=1) >= graph.num_nodes:
        raise InputError(
            f"top={number} exceeds the {graph.num_nodes - 1} other nodes of the graph: lower it."
        )
    sides = objective.sides
    sources = np.arange(graph.num_nodes) if sides.sources is None else sides.sources
    sources = sources if nodes is None else nodes
    is_target = torch.ones(graph.num_nodes, dtype=torch.bool)
    if sides.targets is not None:
        is_target = torch.from_numpy(np.isin(np.arange(graph.num_nodes), sides.targets))
    indptr, targets = _targets(task)
    z, device = _embeddings(task), objective.decoder.device
    everyone = z.to(device)
    size = max(MEMORY // (4 * graph.num_nodes), 1)
    for start in range(0, sources.size, size):
        own = sources[start : start + size]
        with torch.no_grad():
            scores = objective.decoder.matrix(everyone[torch.from_numpy(own)], everyone).cpu()
        for row, node in enumerate(own):
            scores[row, torch.from_numpy(targets[indptr[node] : indptr[node + 1]])] = -torch.inf
            scores[row, node] = -torch.inf
        scores[:, ~is_target] = -torch.inf
        best = scores.topk(number, dim=1)
        is_new = best.values > -torch.inf  # [C, K]
        source = np.repeat(own, is_new.sum(1).numpy())
        yield _columns(task, source, best.indices[is_new].numpy(), best.values[is_new].numpy())


def _embeddings(task: Task) -> Tensor:
    return full_logits(task, graph=task.graph_of("all"))


def _targets(task: Task) -> tuple[IntArray, IntArray]:
    """Targets of the edges of each node, by node: the graph compressed by source."""
    graph = task.dataset.graph
    target = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    order = np.argsort(graph.indices, kind="stable")
    count = np.bincount(graph.indices, minlength=graph.num_nodes)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(count)]), target[order]


def _columns(
    task: Task, source: IntArray, target: IntArray, scores: FloatArray
) -> dict[str, list[Any]]:
    columns = {
        "source": _names(task.dataset, source),
        "target": _names(task.dataset, target),
        "score": scores.tolist(),
    }
    if link_objective_of(task).config.link_loss == "bce":
        columns["probability"] = torch.sigmoid(torch.from_numpy(scores)).tolist()
    return columns


def _names(dataset: Dataset, nodes: IntArray) -> list[Any]:
    """The user's ids."""
    names = dataset.node_names
    return nodes.tolist() if names is None else [names[node] for node in nodes.tolist()]
