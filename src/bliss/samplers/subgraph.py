"""The subgraph sampler: one set of nodes for all layers, and the edges among them."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from bliss import checks
from bliss.arrays import FloatArray, IntArray
from bliss.errors import InputError
from bliss.graph import WEIGHTED, Graph
from bliss.kernels import frontier
from bliss.nn.block import Block
from bliss.samplers.base import Sampler
from bliss.samplers.kept import KeptEdges


class Subgraph(NamedTuple):
    """n nodes, of which the first D are the batch's targets, and the E' edges among them."""

    node: IntArray  # int64[n] graph ids
    num_dst: int  # D
    indptr: IntArray  # int64[n + 1] edges by target
    row: IntArray  # int64[E'] position in node
    edge: IntArray  # int64[E'] graph edge id
    alpha: FloatArray  # float32[E'] coefficient in the full graph


class Weights(NamedTuple):
    """Weights and probabilities of a subgraph."""

    edge: FloatArray  # float32[E'] weight of each edge
    chance: FloatArray  # float32[E'] probability of each edge, given its target
    prob: FloatArray  # float32[n] inclusion probability of each node
    dst: FloatArray | None  # float32[D] weight of each target's loss; None: equal


class SubgraphSampler(Sampler):
    """Draws a set of nodes and keeps all edges among them; every layer uses this subgraph.

    The sources of every layer are the subgraph's nodes. So are the targets, except in the last
    layer, whose targets are the seed nodes in the subgraph; these come first. The blocks share
    their tensors, so a draw costs one pass over the in-edges of its nodes for any number of layers.
    Edges from outside the subgraph are dropped.

    The sampler makes its own batches. The loader sets the seed nodes and the batch size once, with
    `prepare`; `batches` then returns the seeds of an epoch. Subgraphs are drawn from the whole
    graph, so nodes of other splits contribute their features but not their labels.

    There are no budgets: pass `layers`, the number of blocks of a batch.
    """

    def __init__(self, data: Any, budgets: Any = (), **options: Any) -> None:
        super().__init__(data, budgets, **options)
        self._seed_nodes: IntArray = np.empty(0, np.int64)  # set by `prepare`
        self._batch_size = 0

    def prepare(self, nodes: Any, batch_size: int) -> None:
        """Set the seed nodes and the batch size."""
        seed_nodes = checks.seeds(nodes, self.graph.num_nodes, "nodes")
        batch_size = checks.whole("batch_size", batch_size, least=1)
        is_first = not self._seed_nodes.size
        if not is_first and not (
            batch_size == self._batch_size and np.array_equal(seed_nodes, self._seed_nodes)
        ):
            raise InputError(
                f"this {type(self).__name__} already makes batches of batch_size="
                f"{self._batch_size} from {self._seed_nodes.size} nodes, and cannot make others: "
                "give each loader its own sampler."
            )
        self._seed_nodes, self._batch_size = seed_nodes, batch_size

    def sample(
        self, seeds: Any, step: int, shard: int = 0, without: Any = None, time: Any = None
    ) -> list[Block]:
        """Draw the subgraph of a batch as blocks, input layer first; see `Sampler.sample`.

        `without` and `time` are refused, because the probabilities of a subgraph are those of the
        whole graph.
        """
        if time is not None:
            self.check_times()
        if without is not None:
            raise InputError(
                f"without=... is not possible with {type(self).__name__}, because the "
                "probabilities of its subgraphs are those of the whole graph: choose a layer-wise "
                "or node-wise sampler, such as bliss or neighbor."
            )
        self._check_prepared()
        if seeds is not self._seed_nodes:  # `prepare` checked these
            seeds = checks.seeds(seeds, self.graph.num_nodes)
        key = self._key(checks.whole("step", step), 0, checks.whole("shard", shard)).step
        subgraph = self._induce(*self._draw(seeds, key))
        return self._blocks(subgraph, self._weigh(subgraph))

    @abstractmethod
    def batches(self, epoch: int) -> list[IntArray]:
        """Seeds of each batch of an epoch: a pure function of the sampler's seed and the epoch."""

    @abstractmethod
    def _draw(self, seeds: IntArray, key: np.uint64) -> tuple[IntArray, int]:
        """Nodes of a subgraph int64[n], targets first, and the number of targets D.

        Coins come from key.
        """

    @abstractmethod
    def _weigh(self, subgraph: Subgraph) -> Weights:
        """Weights of the estimator."""

    def _check_prepared(self) -> None:
        if not self._seed_nodes.size:
            raise InputError(
                f"{type(self).__name__} has no seed nodes yet: pass it to a BlockLoader, or call "
                "prepare(nodes, batch_size) first."
            )

    def _induce(self, node: IntArray, num_dst: int) -> Subgraph:
        kept = KeptEdges.of_sources(self.graph.rows(node), node, self._workspace())
        return Subgraph(node, num_dst, kept.indptr, kept.row, kept.edge, kept.coefficients())

    def _blocks(self, subgraph: Subgraph, weights: Weights) -> list[Block]:
        node, num_dst, indptr, row, edge, _ = subgraph
        arrays = (node, node, indptr, row, edge, weights.chance, weights.edge)
        hidden = Block.from_arrays(*arrays, prob=weights.prob, graph=self.graph)
        kept = int(indptr[num_dst])
        last = replace(
            hidden,
            dst=hidden.dst[:num_dst],
            rows=self.graph.rows(node[:num_dst]),
            indptr=hidden.indptr[: num_dst + 1],
            row=hidden.row[:kept],
            edge=hidden.edge[:kept],
            edge_prob=hidden.edge_prob[:kept],
            edge_weight=hidden.edge_weight[:kept],
            dst_weight=None if weights.dst is None else torch.from_numpy(weights.dst),
        )
        return [replace(hidden) for _ in range(self.layers - 1)] + [last]


class DrawnNodes(SubgraphSampler):
    """Base class of samplers whose subgraphs have drawn nodes, whatever the seeds of a batch.

    The targets of a batch are the seed nodes among the drawn ones. An epoch has
    ceil(m / batch_size) batches for m seed nodes. A batch without any seed node is possible; its
    loss is 0.
    """

    @abstractmethod
    def _visited(self, key: np.uint64) -> IntArray:
        """Nodes visited by the draws of a batch, repetitions included. int64[any shape]."""

    def batches(self, epoch: int) -> list[IntArray]:
        """All seed nodes, once per batch; the targets are those that the batch's draws visit."""
        self._check_prepared()
        return [self._seed_nodes] * math.ceil(self._seed_nodes.size / self._batch_size)

    @cached_property
    def _is_seed(self) -> Any:
        return self._mask(self._seed_nodes)

    def _draw(self, seeds: IntArray, key: np.uint64) -> tuple[IntArray, int]:
        node = np.unique(self._visited(key))
        is_seed = self._is_seed if seeds is self._seed_nodes else self._mask(seeds)
        is_target = is_seed[node]
        return np.concatenate([node[is_target], node[~is_target]]), int(is_target.sum())

    def _mask(self, nodes: IntArray) -> Any:
        mask = np.zeros(self.graph.num_nodes, bool)
        mask[nodes] = True
        return mask


def renormalised(graph: Graph, subgraph: Subgraph, renormalise: str) -> FloatArray:
    """Coefficients normalised within a subgraph. float32[E'].

    With a_ij the given weight of an edge, otherwise 1, and d_i the sum of a_ik over the kept edges:

        rows       alpha_ij (sum over N_i of alpha_ik) / (sum over kept of alpha_ik)
        mean       a_ij / d_i
        symmetric  a_ij / sqrt(d_i d_j)
    """
    if renormalise == "rows":
        weight = subgraph.alpha.copy()
        frontier.rescale_rows(weight, subgraph.indptr, graph.rows(subgraph.node).coefficient_sum())
        return weight
    target = np.repeat(np.arange(subgraph.node.size), np.diff(subgraph.indptr))
    entry = graph.weight[subgraph.edge] if graph.norm in WEIGHTED else np.ones(target.size)
    degree = np.bincount(target, entry, subgraph.node.size).astype(np.float64)
    degree[degree == 0] = 1.0  # edges of weight 0, or no edges
    own = degree[target]
    scale = np.sqrt(own * degree[subgraph.row]) if renormalise == "symmetric" else own
    return np.asarray(entry / scale, dtype=np.float32)
