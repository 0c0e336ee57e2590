"""The node-wise sampler: each target keeps some of its in-edges."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bliss import checks
from bliss.arrays import NOTHING, FloatArray, IntArray
from bliss.graph import Rows
from bliss.graph.rows import consecutive
from bliss.kernels import nodewise
from bliss.kernels.coins import CoinKey
from bliss.nn.block import Block
from bliss.policies.base import Policy
from bliss.samplers.base import Sampler
from bliss.samplers.config_base import EstimatorConfig, SamplerConfig
from bliss.samplers.configs import NodeSamplerConfig
from bliss.samplers.estimators import estimator_of
from bliss.samplers.kept import KeptEdges
from bliss.samplers.policy_sampler import PolicySampler
from bliss.samplers.workspace import Workspace


class EdgeInclusion(NamedTuple):
    """The in-edges of some targets and their inclusion probabilities."""

    edge: IntArray  # int64[F] graph edge ids, target by target
    prob: FloatArray  # float64[F] p_ij; with replacement, the expected number of draws


class EdgeSampler(Sampler):
    """Base class of the node-wise samplers, which keep edges instead of sources.

    A subclass computes the probability p_ij of each in-edge and draws some of them. A kept edge
    weighs alpha_ij / p_ij, so that for fixed inputs the expected aggregate is the full-neighbour
    one. The estimator "plain", if offered, ignores p_ij: alpha_ij |N_i| / (kept edges of i).
    Targets are always sources, as src[:D]. Self-loops are treated like other edges. Budgets are
    fanouts, of each group: of each target or, with types, of each target under one relation.
    """

    config: EstimatorConfig
    divides_budgets = True

    def __init__(self, data: Any, budgets: Sequence[Any], **options: Any) -> None:
        super().__init__(data, budgets, **options)
        self.estimator = estimator_of(self.config.estimator)

    @abstractmethod
    def _chances(self, rows: Rows, layer: int, fanout: int) -> FloatArray:
        """p_ij of every visible edge, possibly a view of the workspace. float64[F]."""

    @abstractmethod
    def _keep(
        self, rows: Rows, layer: int, fanout: int, key: CoinKey
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Draw the kept edges: kept_indptr int64[G + 1], edge int64[E'], prob float32[E']."""

    def inclusion(self, dst: Any, layer: int, influence: FloatArray = NOTHING) -> EdgeInclusion:
        """Probabilities that `sample` would use for the in-edges of these targets.

        `influence` is that of each target, g_i^2 [D]; empty: 1 everywhere, as for seeds.
        """
        rows = self.graph.rows(checks.seeds(dst, self.graph.num_nodes))
        rows = replace(rows, influence=influence)
        indptr, edge = rows.edges()
        prob = np.empty(edge.size)
        for groups, part, fanout in _by_fanout(rows, self.fanouts(rows, layer)):
            prob[_entries(indptr, groups)] = self._chances(part, layer, fanout)
        return EdgeInclusion(edge, prob)

    def fanouts(self, rows: Rows, layer: int) -> int | IntArray:
        """Fanout of every group, or of each [G]."""
        divided = self.divided[layer]
        return self.budgets[layer] if divided is None else divided[rows.relation]

    def _layer(self, rows: Rows, layer: int, key: CoinKey) -> Block:
        fanouts = self.fanouts(rows, layer)
        if isinstance(fanouts, int):
            drawn = self._keep(rows, layer, fanouts, key)
        else:
            parts = _by_fanout(rows, fanouts)
            drawn = _merged(
                rows.degree.size,
                [(own, *self._keep(part, layer, fanout, key)) for own, part, fanout in parts],
            )
        return KeptEdges.of_edges(rows, *drawn, self._workspace()).block(self.estimator)


def _by_fanout(rows: Rows, fanouts: int | IntArray) -> Iterator[tuple[IntArray, Rows, int]]:
    """Groups int64[N] of each fanout, with their rows."""
    if isinstance(fanouts, int):
        yield np.arange(rows.degree.size), rows, fanouts
        return
    for fanout in np.unique(fanouts).tolist():
        groups = np.flatnonzero(fanouts == fanout)
        yield groups, rows.of_groups(groups), fanout


def _entries(indptr: IntArray, groups: IntArray) -> IntArray:
    """Positions of the entries of some groups. int64[G + 1], int64[N] -> int64[sum]."""
    return consecutive(indptr[groups], np.diff(indptr)[groups])


def _merged(
    groups: int, parts: list[tuple[IntArray, IntArray, IntArray, FloatArray]]
) -> tuple[IntArray, IntArray, FloatArray]:
    """Kept edges of all groups from those of some: groups [N], indptr [N + 1], edge, prob."""
    count = np.zeros(groups, np.int64)
    for own, kept, _, _ in parts:
        count[own] = np.diff(kept)
    indptr = np.concatenate([[0], np.cumsum(count)])
    edge, prob = np.empty(indptr[-1], np.int64), np.empty(indptr[-1], np.float32)
    for own, _, some, chance in parts:
        place = _entries(indptr, own)
        edge[place], prob[place] = some, chance
    return indptr, edge, prob


class NodeSampler(EdgeSampler, PolicySampler):
    """Each target keeps `budgets[layer]` in-edges, chosen by a policy's masses.

    Edge masses are m_ij = b_j (g_j c_ij^2)^power, the mass s_j that source j would have if i were
    the only target. With k the layer's fanout and |N_i| > k,

    * without replacement: p_ij = min(1, c_i m_ij) with sum k, and exactly k edges are kept;
    * with replacement: k draws with q_ij = m_ij / sum m; an edge drawn twice appears twice, each
      time with weight alpha_ij / (k q_ij).

    A target with at most k in-edges keeps them all. If the masses of each row are equal, a draw
    costs O(k) per target; otherwise it costs a few passes over the frontier's edges. If targets
    are weighed by their influence g_i (`bliss.samplers.influence`), their fanouts are
    k_i = min(|N_i|, max(1, c k sqrt(g_i))), with c such that a layer keeps as many edges in all.
    `NodeSamplerConfig` has the options: policy, replace, estimator.
    """

    Config: ClassVar[type[SamplerConfig]] = NodeSamplerConfig

    @property
    def replace(self) -> bool:
        """Whether edges are drawn with replacement."""
        assert isinstance(self.config, NodeSamplerConfig)
        return self.config.replace

    def fanouts(self, rows: Rows, layer: int) -> int | IntArray:
        """Fanout of every group, or of each [G]."""
        fanout = super().fanouts(rows, layer)
        if not rows.influence.size:
            return fanout
        weight = fanout * rows.by_group(rows.influence**0.25)
        total = int(np.minimum(fanout, rows.degree).sum())
        found: IntArray = nodewise.fit_fanouts(weight, rows.degree, total)
        return found

    def _chances(self, rows: Rows, layer: int, fanout: int) -> FloatArray:
        chance = masses(self.policy, layer, rows, self._workspace())
        nodewise.row_chances(rows.degree, chance, fanout, self.replace)
        return chance

    def _keep(
        self, rows: Rows, layer: int, fanout: int, key: CoinKey
    ) -> tuple[IntArray, IntArray, FloatArray]:
        groups = (*rows.ranges, rows.degree, rows.node, rows.relation)
        if self._is_flat(rows, layer):
            return nodewise.pick_uniform(*groups, fanout, self.replace, key)
        chance = self._chances(rows, layer, fanout)
        if self.replace:
            return nodewise.pick_replacing(*groups, chance, fanout, key)
        return nodewise.pick_pivotal(*groups, chance, key)

    def _is_flat(self, rows: Rows, layer: int) -> bool:
        """Whether all edges of each group have the same mass."""
        policy = self.policy
        if policy.power == 0 and not policy.has_node_factor:
            return True
        by_source = self.graph.norm == "gcn" and policy.source_power(layer) != 0
        if policy.node_codes(layer).code.size or by_source or policy.has_node_factor:
            return False
        return not policy.edge_mass(layer, rows).slope.any()


def masses(policy: Policy, layer: int, rows: Rows, workspace: Workspace) -> FloatArray:
    """m_ij of every visible edge, as a view of the workspace. float64[F]."""
    mass = workspace.chances(rows.num_edges)
    power = policy.source_power(layer)
    by_edge = rows.cutoff is not None and rows.graph.norm == "gcn"
    factor, changed, changed_factor = rows.source_factor(0.0 if by_edge else power)
    nodewise.edge_masses(
        *rows.ranges,
        rows.graph.indices,
        *policy.edge_mass(layer, rows),
        *policy.node_codes(layer),
        factor,
        changed,
        changed_factor,
        policy.power,
        mass,
    )
    if by_edge and power:
        scale = rows.edge_source_scale(*rows.edges()) ** power
        mass *= scale.astype(np.float32)  # as `Graph.source_factor`, for equal draws
    if policy.has_node_factor:
        mass *= policy.node_factor(layer, rows.graph.indices[rows.edges()[1]])
    return mass
