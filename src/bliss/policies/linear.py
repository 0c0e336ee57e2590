"""`linear`: AS-GCN's policy, a learnt linear function of a node's features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bliss import checks
from bliss.arrays import NOTHING, FloatArray, IntArray
from bliss.feedback import EdgeMass, Feedback, News
from bliss.graph import Graph
from bliss.kernels import edge_bandits
from bliss.policies.base import Policy, State
from bliss.policies.configs import LinearConfig


class Linear(Policy):
    """s_j = g(x_j) sum_i alpha_ij,  g(x) = (1 - eta) |w . x + b| + eta, with w and b learnt.

    `edge_mass` gives the sum, `sizes` gives g. Each layer has its own w and b, initially w = 0 and
    b = 1.

    They minimise the variance V = sum_j c_j / p_j, c_j = |h_j|^2 sum_i alpha_ij^2, over the
    sources with p_j < 1, at a fixed expected number of sources. For these p_j is proportional to
    s_j, so

        d log p_j = d log s_j - (mean of d log s over the sources, weighted by p)

    With every sum over sources estimated from the kept ones with weights 1 / p_j,

        d log V = - sum over kept (u_j / sum u - 1 / n) d log s_j,    u_j = c_j / p_j^2
        d log s_j = (1 - eta) sign(w . x_j + b) (x_j, 1) / g(x_j)

    for the n kept sources with p_j < 1. The gradient vanishes if all u_j are equal, that is if p_j
    is proportional to sqrt(c_j), the optimum. The logarithm makes the step independent of the
    embeddings' scale. The optimizer is Adam (0.9, 0.999). With attention, alpha_ij in c_j is the
    full attention estimated from the sample, a_ij / sum_k (a_ik / p_k).

    State: 3 (F + 1) numbers per layer. Cost: O(candidates F) per draw, O(sources F + edges) per
    update. Surveys are ignored.
    """

    name = "linear"
    learns = True
    power = 1.0
    pairs_with = ("sources",)
    needs_prob = True  # the gradient is divided by p_j

    def __init__(self, graph: Graph, layers: int, config: LinearConfig) -> None:
        super().__init__(graph, layers)
        self.config = config
        self.x = checks.features(config.x, graph.num_nodes)
        self._source_factor = graph.source_scale.astype(np.float32)
        self._root = np.sqrt(graph.weight)  # [E] with given weights, otherwise empty
        size = self.x.shape[1] + 1  # the last entry is b
        self._weight = np.zeros((layers, size))
        self._weight[:, -1] = 1.0
        self._moments = np.zeros((layers, 2, size))
        self._steps = np.zeros(layers, np.int64)

    def edge_mass(self, layer: int, dst: IntArray) -> EdgeMass:
        """sqrt(alpha_ij), up to b_j; its square sums to sum_i alpha_ij."""
        zeros = np.zeros(dst.size)
        if self.graph.norm != "weights":
            return EdgeMass(np.sqrt(self.graph.target_scale[dst]), zeros, NOTHING)
        return EdgeMass(zeros, np.ones(dst.size), self._root)

    def source_factor(self, layer: int) -> FloatArray:
        """b_j."""
        return self._source_factor

    def sizes(self, layer: int, node: IntArray) -> FloatArray:
        """g(x_j) of the given nodes. [C] -> float32[C]."""
        weight = self._weight[layer]
        found: FloatArray = edge_bandits.linear_sizes(
            self.x, node, weight[:-1].astype(np.float32), float(weight[-1]), self.config.eta
        )
        return found

    def digest(self, layer: int, feedback: Feedback) -> News:
        """Estimated gradient of log V; empty if fewer than two kept sources have p_j < 1."""
        prob = self._inclusion(feedback)
        kept = np.flatnonzero(prob < 1)
        cost = self._costs(feedback)[kept]
        if kept.size < 2 or not cost.any():
            return {}
        return {"gradient": self.gradient(layer, feedback.src[kept], cost, prob[kept])}

    def apply(self, layer: int, news: Sequence[News]) -> None:
        """Make one Adam step with the mean gradient of the shards."""
        told = [one["gradient"] for one in news if one]
        if not told:
            return
        gradient = told[0] if len(told) == 1 else np.mean(told, axis=0)
        self._steps[layer] += 1
        steps = int(self._steps[layer])
        mean, square = self._moments[layer]
        mean += 0.1 * (gradient - mean)
        square += 0.001 * (gradient**2 - square)
        scale = np.sqrt(square / (1 - 0.999**steps)) + 1e-8
        self._weight[layer] -= self.config.rate * mean / (1 - 0.9**steps) / scale

    def gradient(
        self, layer: int, node: IntArray, cost: FloatArray, prob: FloatArray
    ) -> FloatArray:
        """Estimate of d log V / d (w, b). node [n], c_j [n], p_j [n] -> float64[F + 1]."""
        share = cost / np.square(prob, dtype=np.float64)
        share = share / share.sum() - 1 / node.size
        x = self.x[node]
        inner = x @ self._weight[layer, :-1] + self._weight[layer, -1]
        size = (1 - self.config.eta) * np.abs(inner) + self.config.eta
        slope = -share * (1 - self.config.eta) * np.sign(inner) / size  # [n]
        return np.append(slope @ x, slope.sum())

    def _costs(self, feedback: Feedback) -> FloatArray:
        """c_j = |h_j|^2 sum_i alpha_ij^2 of the kept sources. float64[S]."""
        graph, row = self.graph, feedback.row
        kept_degree = np.diff(feedback.indptr)
        strength = np.square(feedback.norm, dtype=np.float64)
        alpha: FloatArray
        if feedback.attention is not None:
            alpha = feedback.attention.astype(np.float64)
            owner = np.repeat(np.arange(feedback.dst.size), kept_degree)
            full = np.bincount(owner, alpha / feedback.edge_prob, minlength=feedback.dst.size)
            alpha = alpha / np.maximum(full, 1e-30)[owner]
        elif graph.norm == "weights":
            alpha = graph.weight[feedback.edge].astype(np.float64)
        else:
            alpha = np.repeat(graph.target_scale[feedback.dst], kept_degree)
            if graph.source_scale.size:
                strength *= graph.source_scale[feedback.src] ** 2
        return strength * np.bincount(row, alpha**2, minlength=feedback.src.size)

    def state_dict(self) -> State:
        """Weights, Adam's moments and step counts, by layer."""
        return {
            "linear.weight": self._weight,
            "linear.moments": self._moments,
            "linear.steps": self._steps,
        }
