"""Predictions of links: scores of given pairs, or the best targets of each node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bliss import checks
from bliss.arrays import FloatArray, IntArray
from bliss.data.nodes import Nodes
from bliss.errors import InputError
from bliss.graph import Graph
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


def link_ends(task: Task) -> tuple[tuple[Nodes, int], tuple[Nodes, int]]:
    """Nodes that can be sources, and targets, with the user's ids, and the first id of each."""
    relation, dataset = link_objective_of(task).relation, task.dataset
    source, _, target = (None,) * 3 if relation is None else relation.edge_type
    return dataset.nodes_of(source), dataset.nodes_of(target)


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
    fewer rows. With types or the setting bipartite, nodes are by default all that can be sources,
    and targets all that can be targets. Scores of some nodes are computed at a time, at most
    `MEMORY` bytes of them.
    """
    objective = link_objective_of(task)
    graph, sides = objective.graph, objective.sides
    everyone = np.arange(graph.num_nodes)
    sources = nodes if nodes is not None else everyone if sides.sources is None else sides.sources
    candidates = everyone if sides.targets is None else sides.targets
    others = candidates.size - int(sides.sources is None or sides.loops.size > 0)
    if checks.whole("top", number, least=1) > others:
        raise InputError(
            f"top={number} exceeds the {others} other nodes that can be targets: lower it."
        )
    indptr, targets = _targets(graph)
    z, device = _embeddings(task), objective.decoder.device
    pool = (z if sides.targets is None else z[torch.from_numpy(candidates)]).to(device)
    size = max(MEMORY // (4 * candidates.size), 1)
    for start in range(0, sources.size, size):
        own = sources[start : start + size]
        with torch.no_grad():
            scores = objective.decoder.matrix(z[torch.from_numpy(own)].to(device), pool).cpu()
        for row, node in enumerate(own):
            known = np.append(targets[indptr[node] : indptr[node + 1]], node)
            place = np.searchsorted(candidates, known).clip(max=candidates.size - 1)
            scores[row, torch.from_numpy(place[candidates[place] == known])] = -torch.inf
        best = scores.topk(number, dim=1)
        is_new = best.values > -torch.inf  # [C, K]
        source = np.repeat(own, is_new.sum(1).numpy())
        target = candidates[best.indices[is_new].numpy()]
        yield _columns(task, source, target, best.values[is_new].numpy())


def _embeddings(task: Task) -> Tensor:
    return full_logits(task, graph=task.graph_of("all"))


def _targets(graph: Graph) -> tuple[IntArray, IntArray]:
    """Targets of the edges of each node, by node: the graph compressed by source."""
    source, target = graph.pairs
    count = np.bincount(source, minlength=graph.num_nodes)
    pointer = np.concatenate([np.zeros(1, np.int64), np.cumsum(count)])
    return pointer, target[np.argsort(source, kind="stable")]


def _columns(
    task: Task, source: IntArray, target: IntArray, scores: FloatArray
) -> dict[str, list[Any]]:
    (sources, first), (targets, second) = link_ends(task)
    columns = {
        "source": sources.ids(source - first),
        "target": targets.ids(target - second),
        "score": scores.tolist(),
    }
    if link_objective_of(task).config.link_loss == "bce":
        columns["probability"] = torch.sigmoid(torch.from_numpy(scores)).tolist()
    return columns
