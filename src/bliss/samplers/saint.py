"""GraphSAINT: subgraphs of drawn nodes, edges or walks, with weights that correct for the draw."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from bliss.arrays import NOTHING, FloatArray, IntArray
from bliss.graph import Graph
from bliss.kernels import subgraphs
from bliss.rng import Stream, Substream, derive_key, uniforms
from bliss.samplers.config_base import SamplerConfig
from bliss.samplers.configs import SaintEdgeConfig, SaintNodeConfig, SaintWalkConfig
from bliss.samplers.draws import at_least_once
from bliss.samplers.node_masses import node_masses
from bliss.samplers.subgraph import DrawnNodes, Subgraph, Weights

_CHUNK = 1 << 16  # walks counted at a time
_ROUNDING = 1e-12


class Visits(NamedTuple):
    """Visit probabilities of one draw: a node, an edge or a walk."""

    node: FloatArray  # float64[V] q_v, the probability that a draw visits v
    edge: FloatArray  # float64[E] q_uv, that it visits both ends; empty if draws are single nodes

    def included(self, draws: int) -> FloatArray:
        """p_v = 1 - (1 - q_v)^n, the probability that any of n draws visits v. float64[V]."""
        return at_least_once(self.node, draws)


class Saint(DrawnNodes):
    """Base class of GraphSAINT's samplers (Zeng et al., 2020).

    A subgraph consists of the nodes that n = batch_size independent draws visit and all edges
    among them. One draw visits v with probability q_v, and both u and v with probability q_uv.
    Then

        p_v  = 1 - (1 - q_v)^n
        p_uv = p_u + p_v - (1 - (1 - q_u - q_v + q_uv)^n)

    are the inclusion probabilities of node v and edge uv. An edge weighs alpha_vu p_v / p_uv, the
    paper's 1 / alpha_{u,v}: given that v is in the subgraph, the expected aggregate is the full
    one. A target's loss weighs 1 / (m p_v) for m seed nodes, the paper's 1 / lambda_v: the expected
    loss is the mean over all seed nodes. Both are unbiased for fixed inputs, as far as the q are
    exact. Attention uses p_uv / p_v as the probability of an edge, which gives the Hajek estimate
    of full attention.

    The paper counts p_v and p_uv in N subgraphs drawn beforehand. Here both are computed from the
    visit probabilities of one draw, because draws are independent. Those have a closed form for
    nodes and edges. For walks they are counted walk by walk: this needs no subgraphs, and lower
    bounds give a value to every edge of positive probability.

    An epoch has about as many draws as there are seed nodes.
    """

    @abstractmethod
    def _find_visits(self) -> Visits:
        """Visit probabilities of one draw."""

    @cached_property
    def visits(self) -> Visits:
        """Visit probabilities of one draw, computed before the first batch."""
        self._check_prepared()
        return self._find_visits()

    @cached_property
    def included(self) -> FloatArray:
        """p_v, the probability that a batch contains node v. float64[V]."""
        return self.visits.included(self._batch_size)

    def _weigh(self, subgraph: Subgraph) -> Weights:
        node, row, edge = subgraph.node, subgraph.row, subgraph.edge
        source = node[row]
        target = np.repeat(node, np.diff(subgraph.indptr))
        chance, included = self.visits.node, self.included
        both = self.visits.edge[edge] if self.visits.edge.size else 0.0
        any_ = at_least_once(chance[source] + chance[target] - both, self._batch_size)
        joint = included[source] + included[target] - any_  # p_uv
        # A batch of one draw can contain a pair that was never counted; p_uv = 0 would divide by 0.
        unknown = joint <= _ROUNDING * included[target]
        joint = np.where(unknown, chance[source] * chance[target], joint)
        given = np.where(source == target, 1.0, joint / included[target])
        loss = 1.0 / (self._seed_nodes.size * included[node[: subgraph.num_dst]])
        arrays = (subgraph.alpha / given, given, included[node], loss)
        return Weights(*(array.astype(np.float32) for array in arrays))


class SaintNode(Saint):
    """GraphSAINT's node sampler: batch_size nodes, with replacement.

    q_u is proportional to sum over v of alpha_vu^2, the squared norm of u's column, as published,
    or with ``mass="degree"`` to |N_u|, as in the authors' code; q_uv = 0. A node of mass 0 would
    never be drawn, so it gets the smallest positive q of the others. Unbiased, no state.

    Cost: batch_size binary searches in V numbers, and one pass over the in-edges of the nodes.
    `SaintNodeConfig` has the options: mass.
    """

    Config: ClassVar[type[SamplerConfig]] = SaintNodeConfig
    config: SaintNodeConfig

    def __init__(self, data: Any, budgets: Any = (), **options: Any) -> None:
        super().__init__(data, budgets, **options)
        mass = node_masses(self.graph, self.config.mass)
        least = mass.min(where=mass > 0, initial=mass.max(initial=0.0) or 1.0)
        self._ladder: FloatArray = np.cumsum(np.maximum(mass, least))

    def _visited(self, key: np.uint64) -> IntArray:
        height = uniforms(key, np.arange(self._batch_size)) * self._ladder[-1]
        node: IntArray = np.searchsorted(self._ladder, height, side="right")
        return node.clip(max=self.graph.num_nodes - 1)

    def _find_visits(self) -> Visits:
        return Visits(np.diff(self._ladder, prepend=0.0) / self._ladder[-1], NOTHING)


class SaintEdge(Saint):
    """GraphSAINT's edge sampler: batch_size edges, with replacement; their ends are the nodes.

    The paper draws the edge between u and v with probability proportional to 1 / deg(u) +
    1 / deg(v). Choosing a node uniformly, then one of its in-edges uniformly, gives the same
    distribution without a search over all edges. A self-loop counts as an edge, so nodes without
    neighbours are drawn too. Unbiased, no state except 8 bytes per edge for q_uv.

    Cost: two coins per edge, and one pass over the in-edges of the nodes; before the first batch,
    O(E log of the largest degree).
    """

    Config: ClassVar[type[SamplerConfig]] = SaintEdgeConfig

    def _visited(self, key: np.uint64) -> IntArray:
        root = _choose(self.graph.num_nodes, self._batch_size, key)
        hops = derive_key(int(key), Substream.SECOND)
        graph = self.graph
        return np.asarray(subgraphs.random_walks(graph.indptr, graph.indices, root, 1, hops))

    def _find_visits(self) -> Visits:
        graph = self.graph
        each = 1.0 / (graph.num_nodes * np.maximum(graph.degree, 1))  # [V] q of one in-edge
        target = np.repeat(np.arange(graph.num_nodes), graph.degree)
        hop = np.where(target == graph.indices, 0.0, each[target])  # as a neighbour, not as root
        chance = 1.0 / graph.num_nodes + np.bincount(graph.indices, hop, graph.num_nodes)
        # either end of the edge can be the root
        return Visits(chance, _pair_values(graph, each).sum(0))


class SaintWalk(Saint):
    """GraphSAINT's random-walk sampler: batch_size roots, with replacement, and a walk from each.

    Roots are drawn uniformly from the seed nodes. A walk makes `length` hops, each to a uniform
    in-neighbour; with a self-loop it may stay. q_v and q_uv are counted in walks drawn before the
    first batch, enough of them that a node is visited `coverage` times on average. A lower bound
    replaces smaller counts. The estimates are unbiased except for the error of these counts, about
    1 / sqrt(coverage) of a weight. No state except 8 bytes per edge for q_uv.

    Cost: one coin per hop, and one pass over the in-edges of the nodes; before the first batch,
    coverage V hops with `length` binary searches each.

    `SaintWalkConfig` has the options: length (h) and coverage.
    """

    Config: ClassVar[type[SamplerConfig]] = SaintWalkConfig
    config: SaintWalkConfig

    def _visited(self, key: np.uint64) -> IntArray:
        return self._walks(self._batch_size, key)

    def _walks(self, number: int, key: np.uint64) -> IntArray:
        graph = self.graph
        root = self._seed_nodes[_choose(self._seed_nodes.size, number, key)]
        hops = derive_key(int(key), Substream.SECOND)
        walk = subgraphs.random_walks(graph.indptr, graph.indices, root, self.config.length, hops)
        return np.asarray(walk)

    def _find_visits(self) -> Visits:
        graph = self.graph
        number = math.ceil(self.config.coverage * graph.num_nodes / (self.config.length + 1))
        node_count = np.zeros(graph.num_nodes, np.int64)

        def count(indptr: IntArray, indices: IntArray) -> IntArray:
            edge_count = np.zeros(graph.num_edges, np.int64)
            for chunk, start in enumerate(range(0, number, _CHUNK)):
                key = derive_key(self.seed, Stream.WALK_COUNTS, chunk)
                walk = self._walks(min(_CHUNK, number - start), key)
                subgraphs.count_visits(indptr, indices, walk, node_count, edge_count)
            return edge_count

        edge_count = _with_sorted_rows(graph, count)
        node_least, edge_least = self._least()
        edge = np.maximum(edge_count / number, edge_least)
        return Visits(np.maximum(node_count / number, node_least), edge)

    def _least(self) -> tuple[FloatArray, FloatArray]:
        """Exact lower bounds of q_v and q_uv, for nodes and pairs counted rarely or never. O(h E).

        Let pi_t(v) be the probability that a walk is at v after t hops. For every t,
        q_v >= pi_t(v). A walk can hop from v to its in-neighbour u, or from u to v, so also
        q_uv >= pi_t(v) / |N_v| and q_uv >= pi_t(u) / |N_u|. Returns float64[V], float64[E].
        """
        graph = self.graph
        at = np.zeros(graph.num_nodes)
        at[self._seed_nodes] = 1.0 / self._seed_nodes.size
        node, most = at, np.zeros(graph.num_nodes)
        for _ in range(self.config.length):
            hop = at / np.maximum(graph.degree, 1)
            stays = np.where(graph.degree == 0, at, 0.0)
            at = stays + np.bincount(graph.indices, np.repeat(hop, graph.degree), graph.num_nodes)
            node, most = np.maximum(node, at), np.maximum(most, hop)
        return node, _pair_values(graph, most).max(0)


def _choose(size: int, number: int, key: np.uint64) -> IntArray:
    """`number` uniform integers in [0, size). int64[number]."""
    return (uniforms(key, np.arange(number)) * size).astype(np.int64)


def _pair_values(graph: Graph, value: FloatArray) -> FloatArray:
    """`subgraphs.pair_values` for rows in any order. float64[2, E]."""

    def values(indptr: IntArray, indices: IntArray) -> FloatArray:
        return np.asarray(subgraphs.pair_values(indptr, indices, value))

    return _with_sorted_rows(graph, values)


def _with_sorted_rows(
    graph: Graph, kernel: Callable[[IntArray, IntArray], npt.NDArray[Any]]
) -> npt.NDArray[Any]:
    """Apply a kernel (indptr, indices) -> [..., E] to sorted rows; results in the graph's order."""
    if graph.has_sorted_rows:
        return kernel(graph.indptr, graph.indices)
    order = np.lexsort(graph.pairs)
    by_row = kernel(graph.indptr, graph.indices[order])
    result = np.empty_like(by_row)
    result[..., order] = by_row
    return result
