"""FastGCN: sources drawn from all nodes, independently of the targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from bliss import checks
from bliss.arrays import FloatArray, IntArray
from bliss.graph import Rows
from bliss.kernels.coins import CoinKey
from bliss.nn.block import Block
from bliss.rng import uniforms
from bliss.samplers.base import Sampler
from bliss.samplers.config_base import SamplerConfig
from bliss.samplers.configs import FastGCNConfig
from bliss.samplers.draws import Poisson, WithoutReplacement, at_least_once
from bliss.samplers.estimators import estimator_of
from bliss.samplers.kept import KeptEdges
from bliss.samplers.layerwise import Inclusion
from bliss.samplers.node_masses import node_shares


class FastGCN(Sampler):
    """Layer-independent importance sampling (Chen, Ma and Xiao, 2018).

    In each layer, k = `budgets[layer]` nodes are drawn from all nodes, from a distribution that is
    the same in every layer and step:

        q_j = m_j / sum of m over all nodes,    m_j = sum_i alpha_ij^2

    * ``mass="norm"``: m_j is the square root of that sum, as in the authors' code.
    * ``replace=True`` (default, as published): k draws with replacement. A node drawn twice is kept
      once, so p_j = 1 - (1 - q_j)^k. The paper counts it twice, with weights alpha_ij / (k q_j),
      which has more variance.
    * ``replace=False``, as in the authors' code: k distinct nodes, p_j = min(1, c q_j) with sum k.
      The authors' weights are alpha_ij / (k q_j), which is biased for such draws.

    Targets are always kept (p_j = 1). Weights alpha_ij / p_j: unbiased. With "hajek", on the graph
    of the tests and 40 draws, the bias is 0.02 of an aggregate's size, while its error falls from
    0.31 to 0.17. Drawn nodes without an edge to a target are left out of the block. Not adaptive;
    24 bytes per node. experiments/estimates has the errors of all variants.

    Known weakness: draws are independent of the targets. On a sparse graph most drawn nodes are
    not neighbours of a target, and a target may keep only its self-loop. `stats()` returns how
    often this happened.

    Cost: k binary searches in a table computed once, and one pass over the frontier's edges, with
    one bitmap lookup each. The cost of a step does not depend on |V|. Draws without replacement
    sort all nodes instead, O(|V| log |V|) per layer.

    `FastGCNConfig` has the options: mass, replace, estimator. Budgets are the number of draws per
    layer.
    """

    Config: ClassVar[type[SamplerConfig]] = FastGCNConfig
    config: FastGCNConfig

    def __init__(self, data: Any, budgets: Sequence[int], **options: Any) -> None:
        super().__init__(data, budgets, **options)
        self._share = node_shares(self.graph, self.config.mass)
        self._ladder = np.cumsum(self._share)
        self._scale = [] if self.config.replace else list(map(self._fit_scale, self.budgets))
        self.estimator = estimator_of(self.config.estimator)
        self._targets = np.zeros(self.layers, np.int64)
        self._lonely = np.zeros(self.layers, np.int64)

    def stats(self) -> dict[str, list[float]]:
        """Statistics of all draws since construction, by layer, input layer first.

        "lonely": of the targets that have neighbours other than themselves, the share that kept
        none of them.
        """
        return {"lonely": (self._lonely / np.maximum(self._targets, 1)).tolist()}

    def inclusion(self, dst: Any, layer: int) -> Inclusion:
        """Inclusion probabilities of the targets and of all their sources."""
        targets: IntArray = checks.seeds(dst, self.graph.num_nodes)
        edge = self.graph.rows(targets).edges()[1]
        others = np.setdiff1d(self.graph.indices[edge], targets).astype(np.int64)
        candidate = np.concatenate([targets, others])
        prob = self._probability(candidate, layer)
        prob[: targets.size] = 1.0
        return Inclusion(candidate, prob)

    def _fit_scale(self, budget: int) -> float:
        """c with sum_j min(1, c q_j) = k."""
        return Poisson().scale(self._share, budget)

    def _probability(self, node: IntArray, layer: int) -> FloatArray:
        """p_j of the given nodes, before targets are added. float64[N]."""
        budget, share = self.budgets[layer], self._share[node]
        if budget >= self.graph.num_nodes:
            return np.ones(node.size)
        if self.config.replace:
            return at_least_once(share, budget)
        return np.asarray(np.minimum(self._scale[layer] * share, 1.0))

    def _draw(self, budget: int, key: CoinKey) -> IntArray:
        """Distinct nodes of k draws, in increasing order. int64[at most k]."""
        nodes = np.arange(self.graph.num_nodes)
        if budget >= nodes.size:
            return nodes
        if not self.config.replace:
            return WithoutReplacement().keep(nodes, self._share, 0, budget, key).source
        point = uniforms(key.step, np.arange(budget)) * self._ladder[-1]
        drawn = np.searchsorted(self._ladder, np.sort(point), side="right")
        return np.unique(drawn.clip(max=nodes.size - 1))

    def _layer(self, rows: Rows, layer: int, key: CoinKey) -> Block:
        dst, drawn = rows.dst, self._draw(self.budgets[layer], key)
        source = np.concatenate([dst, drawn[~np.isin(drawn, dst)]])
        kept = KeptEdges.of_sources(rows, source, self._workspace())
        source, row = _without_unused(source, kept.row, dst.size)
        prob = self._probability(source, layer).astype(np.float32)
        prob[: dst.size] = 1.0
        correction = 1 / prob.astype(np.float64)
        kept = kept._replace(source=source, row=row, edge_prob=prob[row], prob=prob)
        self._count_lonely(kept, layer)
        return kept._replace(correction=correction).block(self.estimator)

    def _count_lonely(self, kept: KeptEdges, layer: int) -> None:
        """Count targets with neighbours other than themselves, and those that kept none of them."""
        number = np.diff(kept.indptr)
        group = np.repeat(np.arange(number.size), number)
        is_loop = kept.row == kept.rows.owner[group]
        loops = np.bincount(group[is_loop], minlength=number.size)  # all are kept
        has_others = kept.rows.degree > loops
        self._targets[layer] += int(has_others.sum())
        self._lonely[layer] += int((has_others & (number == loops)).sum())


def _without_unused(source: IntArray, row: IntArray, num_dst: int) -> tuple[IntArray, IntArray]:
    """Drop sources without a kept edge, except targets. [S], [E'] -> [S'], [E']."""
    used = np.zeros(source.size, bool)
    used[:num_dst] = True
    used[row] = True
    return source[used], (np.cumsum(used) - 1)[row]
