"""`exp3-scale-free`: EXP3 with scale-free rewards and a step that needs no tuning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bliss.arrays import FloatArray
from bliss.feedback import EdgeMass, Feedback, News, joined, log_size
from bliss.graph import WEIGHTED, Graph, Rows
from bliss.kernels import edge_bandits
from bliss.policies.base import Policy
from bliss.policies.configs import ScaleFreeConfig
from bliss.policies.exp3 import visible_sums
from bliss.policies.learner import State
from bliss.storage.memory import full, zeros

MEMORY = 0.1
"""Smallest weight of the newest step in the running level."""
SMALLEST_COEFFICIENT = 1e-6
"""Lower bound of alpha_ij |N_i|, so that its logarithm is finite."""


class ScaleFreeExp3(Policy):
    """s_j = sqrt(sum_i q_ij^2) as in `exp3`, with q learnt from logarithms of rewards.

        q_ij      = (1 - eta) w_ij / sum over N_i of w + eta / |N_i|
        log w_ij += step (log sqrt(r_ij) - level),    r_ij = (alpha_ij |N_i| |h_j| / w_ij)^2

    for kept edges. The level is a running mean over the layer of log(alpha_ij |N_i| |h_j|), so a
    common factor of all embeddings cancels. The fixed point has w_ij proportional to
    alpha_ij |h_j|, the optimum [eq:optsample]. With attention, alpha_ij |N_i| is estimated from
    the kept softmax (`kernels.edge_bandits.relative_attention`).

    State: 4 bytes per edge and layer, 8 per node and layer. Surveys are ignored.
    """

    name = "exp3-scale-free"
    shares_state = True
    learns = True
    power = 0.5
    pairs_with = ("sources",)
    needs_prob = True  # attention is estimated with p_j

    def __init__(self, graph: Graph, layers: int, config: ScaleFreeConfig | None = None) -> None:
        super().__init__(graph, layers)
        self.config = config or ScaleFreeConfig()
        self._weight = [full(graph.num_edges, 1.0, np.float32) for _ in range(layers)]
        groups = graph.group_ptr.size - 1
        self._total = [full(groups, np.diff(graph.group_ptr)) for _ in range(layers)]
        self._level = zeros(layers)
        self._steps = zeros(layers, np.int64)

    def edge_mass(self, layer: int, rows: Rows) -> EdgeMass:
        """q_ij, normalised on reading."""
        eta = self.config.eta
        degree = np.maximum(rows.degree, 1)
        total = visible_sums(rows, self._total[layer][rows.group_id], self._weight[layer])
        total = np.maximum(total, 1e-30)
        return EdgeMass(eta / degree, (1 - eta) / total, self._weight[layer])

    def digest(self, layer: int, feedback: Feedback) -> News:
        """log(alpha_ij |N_i| |h_j|) of each kept edge; empty for an all-zero layer."""
        if not feedback.norm.any():
            return {}
        relative = np.maximum(self._relative_coefficient(feedback), SMALLEST_COEFFICIENT)
        return {
            "dst": feedback.rows.group_id,
            "indptr": feedback.indptr,
            "edge": feedback.edge,
            "signal": np.log(relative) + log_size(feedback.norm)[feedback.row],
        }

    def apply(self, layer: int, news: Sequence[News]) -> None:
        """Move the level, then the weights of the kept edges."""
        shards = [shard for shard in news if shard]
        if not shards:
            return
        rate = max(1 / (int(self._steps[layer]) + 1), MEMORY)
        level = float(joined(shards, "signal").mean())
        self._level[layer] += rate * (level - self._level[layer])
        self._steps[layer] += 1
        for shard in shards:
            edge_bandits.scale_free_update(
                shard["dst"],
                shard["indptr"],
                shard["edge"],
                shard["signal"] - self._level[layer],
                self.config.step,
                self._weight[layer],
                self._total[layer],
            )

    def _relative_coefficient(self, feedback: Feedback) -> FloatArray:
        """alpha_ij |N_i| of the kept edges. [E']."""
        graph, rows = self.graph, feedback.rows
        if feedback.attention is not None:
            relative: FloatArray = edge_bandits.relative_attention(
                feedback.indptr, feedback.edge_prob, feedback.attention
            )
            return relative
        degree = np.repeat(rows.degree, feedback.kept_degree)
        if graph.norm in WEIGHTED:
            return feedback.coefficients() * degree
        relative = np.repeat(rows.target_scale, feedback.kept_degree) * degree
        if graph.norm == "gcn":
            relative = relative * rows.source_scale(feedback.src)[feedback.row]
        return relative

    def state_dict(self) -> State:
        """Weights and row sums by layer; level and step count of all layers."""
        state: State = {"exp3.level": self._level, "exp3.steps": self._steps}
        for layer in range(self.layers):
            state[f"exp3.{layer}.weight"] = self._weight[layer]
            state[f"exp3.{layer}.total"] = self._total[layer]
        return state
