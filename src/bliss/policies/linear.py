"""`linear`: AS-GCN's policy, a learnt linear function of a node's features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bliss import checks
from bliss.arrays import NOTHING, FloatArray, IntArray
from bliss.feedback import EdgeMass, Feedback, News
from bliss.graph import WEIGHTED, Graph, Rows
from bliss.kernels import edge_bandits
from bliss.policies.base import Policy
from bliss.policies.configs import LinearConfig
from bliss.policies.learner import State
from bliss.storage.memory import zeros


class Linear(Policy):
    """s_j = g(x_j) sum_i alpha_ij,  g(x) = (1 - eta) |w . x + b| + eta, with w and b learnt.

    `edge_mass` gives the sum, `node_factor` gives g. With ``combine="root"`` the sum is
    sqrt(sum_i alpha_ij^2). Each layer has its own w and b, or with `shared_parameters` the same;
    initially w = 0 and b = 1.

    They minimise the variance V = sum_j c_j / p_j, c_j = |h_j|^2 sum_i alpha_ij^2, over the open
    sources, those with p_j < 1, at a fixed budget k. The budget sets t in sum_j min(1, t s_j) = k,
    where the sum is over all candidates. Targets are then kept with p_j = 1: they have no part in
    V, but their masses use a part of the budget. For open sources p_j = t s_j, so

        d log V   = - sum over open j of (v_j / sum v) (d log s_j + d log t),    v_j = c_j / p_j
        d log t   = - sum over j with t s_j < 1, targets included, of (t s_j / sum t s) d log s_j
        d log s_j = (1 - eta) sign(w . x_j + b) (x_j, 1) / g(x_j)

    Every sum over sources is estimated from the kept ones, divided by p_j: v_j becomes c_j / p_j^2,
    and t s_j becomes 1 for open sources and stays t s_j for targets. t is p_j / s_j of any open
    source. Without targets, the gradient vanishes if all c_j / p_j^2 are equal, that is if p_j is
    proportional to sqrt(c_j), the optimum. The logarithm makes the step independent of the
    embeddings' scale. The optimizer is Adam (0.9, 0.999). With attention, alpha_ij in c_j is the
    full attention estimated from the sample, a_ij / sum_k (a_ik / p_k).

    State: 3 (F + 1) numbers per layer. Cost: O(candidates F) per draw, O(sources F + edges) per
    update. Surveys are ignored.
    """

    name = "linear"
    shares_state = True
    learns = True
    pairs_with = ("sources",)
    has_node_factor = True
    needs_prob = True  # the gradient is divided by p_j
    divides_rewards = True

    def __init__(self, graph: Graph, layers: int, config: LinearConfig, x: Any) -> None:
        self.power = 1.0 if config.combine == "sum" else 0.5
        super().__init__(graph, layers)
        self.config = config
        self.x = checks.features(x, graph.num_nodes)
        self._value = np.sqrt(graph.weight) if config.combine == "sum" else graph.weight
        size, sets = self.x.shape[1] + 1, 1 if config.shared_parameters else layers
        self._set = [0] * layers if config.shared_parameters else list(range(layers))
        self._weight = zeros((sets, size))
        self._weight[:, -1] = 1.0  # the last entry is b
        self._moments = zeros((sets, 2, size))
        self._steps = zeros(sets, np.int64)

    def edge_mass(self, layer: int, rows: Rows) -> EdgeMass:
        """c_ij, up to b_j: sqrt(alpha_ij), or alpha_ij with "root"."""
        zeros = np.zeros(rows.degree.size)
        if self.graph.norm == "weights":
            return EdgeMass(zeros, np.ones(zeros.size), self._value)
        is_sum = self.config.combine == "sum"
        own = np.sqrt(rows.target_scale) if is_sum else rows.target_scale
        if self.graph.norm == "weighted-mean":
            return EdgeMass(zeros, own, self._value)
        return EdgeMass(own, zeros, NOTHING)

    def source_power(self, layer: int) -> float:
        """1: the mass is linear in b_j."""
        return 1.0

    def node_factor(self, layer: int, node: IntArray) -> FloatArray:
        """g(x_j) of the given nodes. [C] -> float32[C]."""
        weight = self._weight[self._set[layer]]
        factor: FloatArray = edge_bandits.linear_sizes(
            self.x, node, weight[:-1].astype(np.float32), float(weight[-1]), self.config.eta
        )
        return factor

    def digest(self, layer: int, feedback: Feedback) -> News:
        """Estimated gradient of log V; empty if fewer than two kept sources have p_j < 1."""
        prob = self._inclusion(feedback).astype(np.float64)
        open_ = prob < 1
        cost = np.where(open_, self._costs(feedback), 0.0)
        if open_.sum() < 2 or not cost.any():
            return {}
        mass = self.node_factor(layer, feedback.src) * self._sums(layer, feedback)
        before = mass * (prob[open_].sum() / mass[open_].sum())  # t s_j
        used = open_ | (before < 1) & (np.arange(prob.size) < feedback.dst.size)
        count = np.where(open_, 1.0, before)[used]
        node, share = feedback.src[used], (cost / prob**2)[used]
        return {"gradient": self.gradient(layer, node, share, count)}

    def apply(self, layer: int, news: Sequence[News]) -> None:
        """Make one Adam step with the mean gradient of the shards."""
        gradients = [shard["gradient"] for shard in news if shard]
        if not gradients:
            return
        gradient = gradients[0] if len(gradients) == 1 else np.mean(gradients, axis=0)
        number = self._set[layer]
        self._steps[number] += 1
        steps = int(self._steps[number])
        mean, square = self._moments[number]
        mean += 0.1 * (gradient - mean)
        square += 0.001 * (gradient**2 - square)
        scale = np.sqrt(square / (1 - 0.999**steps)) + 1e-8
        self._weight[number] -= self.config.rate * mean / (1 - 0.9**steps) / scale

    def gradient(
        self, layer: int, node: IntArray, share: FloatArray, count: FloatArray
    ) -> FloatArray:
        """Estimate of d log V / d (w, b).

        node     int64[n]    kept sources that are not clipped, targets included
        share    float64[n]  c_j / p_j^2; 0 for targets
        count    float64[n]  t s_j / p_j: 1, for targets t s_j
        returns  float64[F + 1]
        """
        weight, eta = self._weight[self._set[layer]], self.config.eta
        x = self.x[node]
        inner = x @ weight[:-1] + weight[-1]
        size = (1 - eta) * np.abs(inner) + eta
        slope = (count / count.sum() - share / share.sum()) * (1 - eta) * np.sign(inner) / size
        return np.append(slope @ x, slope.sum())

    def _sums(self, layer: int, feedback: Feedback) -> FloatArray:
        """b_j (sum_i c_ij^2)^power of the kept sources, which keep all their edges. float64[S]."""
        offset, slope, value, _ = self.edge_mass(layer, feedback.rows)
        kept_degree = feedback.kept_degree
        own = np.repeat(offset, kept_degree)
        if value.size:
            own += np.repeat(slope, kept_degree) * value[feedback.edge]
        total = np.bincount(feedback.row, own**2, minlength=feedback.src.size) ** self.power
        factor = feedback.rows.source_scale(feedback.src).astype(np.float32)
        return np.asarray(total * factor if factor.size else total)

    def _costs(self, feedback: Feedback) -> FloatArray:
        """c_j = |h_j|^2 sum_i alpha_ij^2 of the kept sources. float64[S]."""
        rows, row = feedback.rows, feedback.row
        strength = np.square(feedback.norm, dtype=np.float64)
        alpha: FloatArray
        if feedback.attention is not None:
            alpha = feedback.attention.astype(np.float64)
            owner = np.repeat(rows.owner, feedback.kept_degree)
            full = np.bincount(owner, alpha / feedback.edge_prob, minlength=feedback.dst.size)
            alpha = alpha / np.maximum(full, 1e-30)[owner]
        elif self.graph.norm in WEIGHTED:
            alpha = feedback.coefficients().astype(np.float64)
        else:
            alpha = np.repeat(rows.target_scale, feedback.kept_degree)
            if self.graph.norm == "gcn":
                strength *= rows.source_scale(feedback.src) ** 2
        return strength * np.bincount(row, alpha**2, minlength=feedback.src.size)

    def state_dict(self) -> State:
        """Weights, Adam's moments and step counts, by layer."""
        return {
            "linear.weight": self._weight,
            "linear.moments": self._moments,
            "linear.steps": self._steps,
        }
