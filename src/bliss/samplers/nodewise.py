"""The node-wise sampler: each target keeps some of its in-edges."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bliss import checks
from bliss.arrays import FloatArray, IntArray
from bliss.kernels import nodewise
from bliss.nn.block import Block
from bliss.policies.base import Policy
from bliss.samplers.base import Sampler
from bliss.samplers.config_base import EstimatorConfig, SamplerConfig
from bliss.samplers.configs import NodeSamplerConfig
from bliss.samplers.estimators import coefficients, rescale_hajek
from bliss.samplers.learned import PolicySampler
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
    fanouts.
    """

    config: EstimatorConfig

    @abstractmethod
    def _chances(self, dst: IntArray, layer: int) -> FloatArray:
        """p_ij of every in-edge of the targets, possibly a view of the workspace. float64[F]."""

    @abstractmethod
    def _keep(
        self, dst: IntArray, layer: int, key: np.uint64
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Draw the kept edges: kept_indptr int64[D + 1], edge int64[E'], prob float32[E']."""

    def inclusion(self, dst: Any, layer: int) -> EdgeInclusion:
        """Probabilities that `sample` would use for the in-edges of these targets."""
        targets: IntArray = checks.seeds(dst, self.graph.num_nodes)
        _, edge = nodewise.all_edges(self.graph.indptr, targets)
        return EdgeInclusion(edge, self._chances(targets, layer).copy())

    def _layer(self, dst: IntArray, layer: int, key: np.uint64) -> Block:
        graph = self.graph
        kept_indptr, edge, chance = self._keep(dst, layer, key)
        source, row = nodewise.relabel(graph.indices, dst, edge, self._workspace().number)
        weight = coefficients(graph, dst, source, kept_indptr, row, edge)
        if self.config.estimator == "plain":  # as if a target's edges had equal probabilities
            kept = np.diff(kept_indptr)
            share = kept / np.maximum(graph.degree_of(dst), 1)
            weight /= np.repeat(share, kept).astype(np.float32)
        else:
            weight /= chance
        if self.config.estimator == "hajek":
            rescale_hajek(graph, dst, kept_indptr, weight)
        arrays = (source[: dst.size], source, kept_indptr, row, edge, chance, weight)
        return Block.from_arrays(*arrays, graph=graph)


class NodeSampler(EdgeSampler, PolicySampler):
    """Each target keeps `budgets[layer]` in-edges, chosen by a policy's masses.

    Edge masses are m_ij = b_j (g_j c_ij^2)^power, the mass s_j that source j would have if i were
    the only target. With k the layer's fanout and |N_i| > k,

    * without replacement: p_ij = min(1, c_i m_ij) with sum k, and exactly k edges are kept;
    * with replacement: k draws with q_ij = m_ij / sum m; an edge drawn twice appears twice, each
      time with weight alpha_ij / (k q_ij).

    A target with at most k in-edges keeps them all. If the masses of each row are equal, a draw
    costs O(k) per target; otherwise it costs a few passes over the frontier's edges.
    `NodeSamplerConfig` has the options: policy, replace, estimator.
    """

    Config: ClassVar[type[SamplerConfig]] = NodeSamplerConfig

    @property
    def replace(self) -> bool:
        """Whether edges are drawn with replacement."""
        return bool(getattr(self.config, "replace", False))

    def _chances(self, dst: IntArray, layer: int) -> FloatArray:
        chance = masses(self.policy, layer, dst, self._workspace())
        graph = self.graph
        nodewise.row_chances(graph.indptr, dst, chance, self.budgets[layer], self.replace)
        return chance

    def _keep(
        self, dst: IntArray, layer: int, key: np.uint64
    ) -> tuple[IntArray, IntArray, FloatArray]:
        indptr, fanout = self.graph.indptr, self.budgets[layer]
        if self._is_flat(dst, layer):
            return nodewise.pick_uniform(indptr, dst, fanout, self.replace, key)
        chance = self._chances(dst, layer)
        if self.replace:
            return nodewise.pick_replacing(indptr, dst, chance, fanout, key)
        return nodewise.pick_pivotal(indptr, dst, chance, key)

    def _is_flat(self, dst: IntArray, layer: int) -> bool:
        """Whether all in-edges of each target have the same mass."""
        policy = self.policy
        if policy.power == 0:
            return True
        learnt = policy.node_codes(layer).code.size or policy.source_factor(layer).size
        return not learnt and not policy.edge_mass(layer, dst).slope.any()


def masses(policy: Policy, layer: int, dst: IntArray, workspace: Workspace) -> FloatArray:
    """m_ij of every in-edge of the targets, as a view of the workspace. float64[F]."""
    graph = policy.graph
    mass = workspace.chances(int(graph.degree_of(dst).sum()))
    nodewise.edge_masses(
        graph.indptr,
        graph.indices,
        dst,
        *policy.edge_mass(layer, dst),
        *policy.node_codes(layer),
        policy.source_factor(layer),
        policy.power,
        mass,
    )
    return mass
