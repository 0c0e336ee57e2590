"""Sizes of messages, and a policy `node` that learns them in place of sizes of inputs.

With a map W_r per relation, the message of source j along edge e is alpha_e W_r(e) h_j. A mass with
one size for all edges of a source is the best possible for this error if the size is

    s_j = sqrt(sum_e alpha_e^2 |W_r(e) h_j|^2 / sum_e alpha_e^2)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bliss.arrays import FloatArray, IntArray
from bliss.feedback import ATTENTION_TABLE, Feedback, News, Survey
from bliss.graph import Graph, Rows
from bliss.kernels.coins import CoinKey
from bliss.nn import infer
from bliss.nn.block import Block
from bliss.nn.inference import LayerSurvey
from bliss.nn.relational import RGATConv
from bliss.policies.node import NodeBandit
from bliss.samplers import Bliss
from bliss.train import Task


@torch.no_grad()
def message_squares(
    graph: Graph, maps: Tensor, x: Tensor, src: IntArray, row: IntArray, relation: IntArray
) -> FloatArray:
    """|W_r h_j|^2 of edges under relations r from the sources at positions j.

    maps [R, out, F], x [S, F], src int64[S], row and relation int64[E'] -> float64[E']
    """
    assert graph.types is not None
    squares, size = np.zeros(row.size), np.zeros(src.size)
    places = graph.types.places(src)
    for r, source_type in enumerate(graph.types.ends[0]):
        edges, own = np.flatnonzero(relation == r), places[source_type]
        if edges.size:
            size[own] = (x[torch.from_numpy(own)] @ maps[r].T).square().sum(1).double().numpy()
            squares[edges] = size[row[edges]]
    return squares


def source_sizes(row: IntArray, alpha: FloatArray, squares: FloatArray, number: int) -> FloatArray:
    """s_j of each source; NaN without an edge. row int64[E'] -> float64[S]."""
    weight = alpha.astype(np.float64) ** 2
    below = np.bincount(row, weight, number)
    above = np.bincount(row, weight * squares, number)
    return np.sqrt(np.divide(above, below, np.full(number, np.nan), where=below > 0))


def maps_of(task: Task, layer: int) -> Tensor:
    """W_r of a layer of rsage or rgat. [R, out, F]."""
    conv = task.model.convs[layer]
    maps: Tensor = conv.source() if isinstance(conv, RGATConv) else conv.others()
    return maps.detach()


class MessageBandit(NodeBandit):
    """`node` whose observation of a kept source is s_j over its kept edges.

    With attention, alpha is the observed one. Sources without kept edges are not observed.
    """

    def __init__(self, task: Task) -> None:
        super().__init__(task.graph, task.config.network.layers)
        self.task = task

    def digest(self, layer: int, feedback: Feedback) -> News:
        """As for sizes of inputs; the errors that the guard compares are those of messages."""
        seen = feedback
        assert seen.input is not None
        relation = np.repeat(seen.rows.relation, seen.kept_degree)
        x, maps = torch.from_numpy(seen.input), maps_of(self.task, layer)
        squares = message_squares(self.graph, maps, x, seen.src, seen.row, relation)
        alpha = seen.coefficients() if seen.attention is None else seen.attention
        size = source_sizes(seen.row, alpha, squares, seen.src.size)
        is_seen = ~np.isnan(size)
        if not is_seen.any():
            return {}
        norm = np.where(is_seen, size, size[is_seen].mean()).astype(np.float32)
        if seen.watched is not None and seen.spread is not None:
            own = np.maximum(seen.norm[seen.row[seen.watched]], 1e-12) ** 2
            seen = seen._replace(spread=seen.spread * squares[seen.watched] / own)
        news = super().digest(layer, seen._replace(norm=norm, message=None))
        per_source = ("source", "log_size", "log_score")
        return {k: v[is_seen] if k in per_source else v for k, v in news.items()}


class InputBandit(NodeBandit):
    """`node` whose observation of a kept source is |h_j|."""

    def digest(self, layer: int, feedback: Feedback) -> News:
        """As without maps."""
        return super().digest(layer, feedback._replace(message=None))


class ObservingBliss(Bliss):
    """BLISS whose blocks keep the inputs that they observe."""

    def _layer(self, rows: Rows, layer: int, key: CoinKey) -> Block:
        return replace(super()._layer(rows, layer, key), keeps_input=True)


def bliss_of(task: Task, *, messages: bool, influence: str = "none") -> Bliss:
    """BLISS for a task, with sizes of messages or of inputs."""
    layers = task.config.network.layers
    policy = MessageBandit(task) if messages else InputBandit(task.graph, layers)
    kind = ObservingBliss if messages else Bliss
    return kind(
        task.graph,
        task.config.sampler.budgets,
        policy=policy,
        seed=task.config.seed,
        influence=influence,
        history="none",
        first_hop="sampled",
    )


@dataclass(frozen=True)
class Messages:
    """The exact messages of one layer, by edge of the graph."""

    x: Tensor  # [V, F] h_j
    alpha: FloatArray  # float32[E] coefficients; with attention, the mean over heads
    squares: FloatArray  # float64[E] |W_r h_j|^2
    norm: FloatArray  # float32[V] |h_j|
    attention: Any = None  # uint8[E] codes of alpha, if it is learnt

    def sizes(self, graph: Graph, kinds: IntArray | None = None) -> FloatArray:
        """s_j over edges to targets of some types, by default all; |h_j| without one. [V]."""
        assert graph.types is not None
        weight = self.alpha
        if kinds is not None:
            target = graph.types.ends[1][graph.relation_of(np.arange(graph.num_edges))]
            weight = np.where(np.isin(target, kinds), weight, 0)
        size = source_sizes(graph.indices, weight, self.squares, graph.num_nodes)
        return np.where(np.isnan(size), self.norm, size)


def exact_messages(task: Task) -> list[Messages]:
    """The messages of all layers from full neighbourhoods, input layer first."""
    found: list[Messages] = []
    graph = task.graph
    relation = graph.relation_of(np.arange(graph.num_edges))

    def observer(layer: int, survey: LayerSurvey) -> None:
        x, codes = survey.input, survey.attention
        alpha = graph.edge_weight.numpy() if codes is None else ATTENTION_TABLE[codes]
        nodes, row = np.arange(graph.num_nodes), graph.indices.astype(np.int64)
        squares = message_squares(graph, maps_of(task, layer), x, nodes, row, relation)
        norm = torch.linalg.vector_norm(x, dim=1).numpy()
        found.append(Messages(x, alpha, squares, norm, codes))

    infer(task.model, graph, task.everywhere(), observer=observer)
    return found


def survey(sampler: Bliss, layers: list[Messages]) -> None:
    """Let a sampler learn from the messages of all layers."""
    of_messages = isinstance(sampler.policy, MessageBandit)
    for layer, own in enumerate(layers):
        size = own.sizes(sampler.graph) if of_messages else own.norm
        shown = Survey(size.astype(np.float32), own.attention)
        sampler.policy.survey(layer, shown)
