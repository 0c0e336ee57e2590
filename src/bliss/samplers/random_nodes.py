"""Random node subgraphs: the induced subgraph of uniformly drawn nodes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from bliss.arrays import IntArray
from bliss.rng import uniforms
from bliss.samplers.config_base import SamplerConfig
from bliss.samplers.configs import RandomNodesConfig
from bliss.samplers.subgraph import DrawnNodes, Subgraph, Weights, renormalised


class RandomNodes(DrawnNodes):
    """Subgraphs of n = batch_size nodes, drawn uniformly from all nodes without replacement.

    Every node is in a batch with probability p = min(1, n / V), and every edge between different
    nodes, given its target, with probability (n - 1) / (V - 1). The seed nodes among the drawn ones
    are the targets. Each one's loss weighs 1 / (m p) for m seed nodes, so that the expected loss is
    the mean over all seed nodes, for fixed outputs. Other nodes contribute their features only.

    Edges that leave the subgraph are dropped, and the coefficients of the others are renormalised
    within it, as in `ClusterGCN`, which has the formulas. Biased: a self-loop is in every subgraph
    that its node is in, so it weighs too much, and a target whose neighbours were not drawn
    aggregates only itself. A target of degree d keeps about d n / V neighbours, so the bias is
    large unless batches are a large part of the graph or degrees are large. GraphSAINT's node
    sampler (`SaintNode`) corrects for the draw. Not adaptive, no state.

    This is the cheapest baseline. Cost: about two coins per drawn node, and one pass over its
    in-edges. `RandomNodesConfig` has the options: renormalise.
    """

    Config: ClassVar[type[SamplerConfig]] = RandomNodesConfig
    config: RandomNodesConfig

    def _visited(self, key: np.uint64) -> IntArray:
        """The first n distinct nodes of uniform draws with replacement."""
        nodes, number = self.graph.num_nodes, self._batch_size
        if number >= nodes:
            return np.arange(nodes)
        draws = number
        while True:
            draws *= 2  # coins of the draws before stay the same
            drawn = (uniforms(key, np.arange(draws)) * nodes).astype(np.int64)
            distinct, first = np.unique(drawn, return_index=True)
            if distinct.size >= number:
                return distinct[np.argsort(first)[:number]]

    def _weigh(self, subgraph: Subgraph) -> Weights:
        weight = renormalised(self.graph, subgraph, self.config.renormalise)
        prob = min(1.0, self._batch_size / self.graph.num_nodes)
        loss = np.full(subgraph.num_dst, 1 / (self._seed_nodes.size * prob), np.float32)
        included = np.full(subgraph.node.size, prob, np.float32)
        return Weights(weight, np.ones(weight.size, np.float32), included, loss)
