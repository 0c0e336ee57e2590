"""`exp3`: the paper's bandit, one arm per edge and layer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bliss.arrays import NOTHING, FloatArray
from bliss.feedback import EdgeMass, Feedback, News, optional
from bliss.graph import WEIGHTED, Graph, Rows
from bliss.kernels import edge_bandits, frontier
from bliss.policies.base import Policy
from bliss.policies.configs import Exp3Config
from bliss.policies.learner import RowSets, State
from bliss.storage.memory import full, zeros


class Exp3(Policy):
    """s_j = sqrt(sum_i q_ij^2) [eq:node_prob_bliss], with q learnt by EXP3.

        q_ij      = (1 - eta) w_ij / sum over N_i of w + eta / |N_i|
        log w_ij += min(1, delta r_ij / (p_j |N_i|)),    r_ij = alpha_ij^2 |h_j|^2 / (k_i q_ij^2)

    for kept edges, k_i of them at target i. With attention, alpha_ij is the feedback attention
    (sum over kept of q_ik) softmax_ij.

    Weights are stored as w_ij = base_i + excess_ij with a running sum per row, in float64. The
    initial excess is 0, so a row that was never updated is uniform without being read. Rows are
    normalised on reading, so a step costs nothing beyond its kept edges. A row is scaled down
    before a weight can overflow.

    State: 8 bytes per edge and layer, 16 per node and layer. Surveys are ignored.
    """

    name = "exp3"
    shares_state = True
    learns = True
    power = 0.5
    pairs_with = ("sources",)
    needs_prob = True  # rewards are divided by p_j
    divides_rewards = True

    def __init__(self, graph: Graph, layers: int, config: Exp3Config | None = None) -> None:
        super().__init__(graph, layers)
        self.config = config or Exp3Config()
        self._excess = [zeros(graph.num_edges) for _ in range(layers)]
        # base_i and the sum of excess_ij, side by side because random reads need both
        self._scale = [full((graph.num_nodes, 2), [1.0, 0.0]) for _ in range(layers)]

    def edge_mass(self, layer: int, rows: Rows) -> EdgeMass:
        """q_ij, normalised on reading."""
        base, excess_sum = self._sums(layer, rows)
        offset, slope = edge_bandits.exp3_rows(rows.degree, base, excess_sum, self.config.eta)
        return EdgeMass(offset, slope, self._excess[layer])

    def _sums(self, layer: int, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """base_i and the sum of excess_ij over the visible edges. float64[G] each."""
        base, excess_sum = self._scale[layer][rows.node].T
        return base, visible_sums(rows, excess_sum, self._excess[layer])

    def edge_prob(self, layer: int, node: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """q_ij over the in-edges of one node. float64[|N_i|]; sums to 1."""
        offset, slope, excess, _ = self.edge_mass(layer, self.graph.rows(np.array([node])))
        in_edges = slice(self.graph.indptr[node], self.graph.indptr[node + 1])
        return np.asarray(offset[0] + slope[0] * excess[in_edges], dtype=np.float64)

    def digest(self, layer: int, feedback: Feedback) -> News:
        """Growth of log w_ij for each kept edge."""
        return self._news(feedback, self._growth(layer, feedback))

    def apply(self, layer: int, news: Sequence[News]) -> None:
        """Increase the weights of the kept edges."""
        for shard in news:
            edge_bandits.grow(
                shard["dst"],
                self.graph.indptr,
                shard["indptr"],
                shard["edge"],
                shard["growth"],
                self._excess[layer],
                self._scale[layer],
            )

    def changed_rows(self, layer: int, news: Sequence[News]) -> RowSets | None:
        """The kept edges, and all in-edges of targets that were ever scaled down (base_i < 1)."""
        dst = np.concatenate([shard["dst"] for shard in news])
        scaled = dst[self._scale[layer][dst, 0] < 1]
        _, whole = self.graph.rows(scaled).edges()
        edge = np.concatenate([*(shard["edge"] for shard in news), whole])
        return {(f"exp3.{layer}.excess",): edge, (f"exp3.{layer}.scale",): dst}

    @staticmethod
    def _news(feedback: Feedback, growth: FloatArray) -> News:
        return {
            "dst": feedback.dst,
            "indptr": feedback.indptr,
            "edge": feedback.edge,
            "growth": growth,
        }

    def _growth(self, layer: int, feedback: Feedback) -> FloatArray:
        """min(1, delta r_ij / (p_j |N_i|)) of the kept edges. float64[E']."""
        graph, rows, is_attention = self.graph, feedback.rows, feedback.attention is not None
        strength = np.square(feedback.norm, dtype=np.float64) / self._inclusion(feedback)
        target_scale, alpha = rows.target_scale, optional(feedback.attention)
        if is_attention:
            target_scale = NOTHING
        elif graph.norm in WEIGHTED:
            target_scale, alpha = NOTHING, feedback.coefficients()
        elif graph.norm == "gcn":
            strength *= rows.source_scale(feedback.src) ** 2
        return np.asarray(
            edge_bandits.exp3_growth(
                rows.degree,
                *self._sums(layer, rows),
                feedback.indptr,
                feedback.row,
                feedback.edge,
                target_scale,
                strength,
                alpha,
                is_attention,
                self.config.eta,
                self.config.step,
                self._excess[layer],
            )
        )

    def state_dict(self) -> State:
        """The edges' excess and the rows' scale, by layer."""
        state: State = {}
        for layer in range(self.layers):
            state[f"exp3.{layer}.excess"] = self._excess[layer]
            state[f"exp3.{layer}.scale"] = self._scale[layer]
        return state


def visible_sums(rows: Rows, total: FloatArray, value: FloatArray) -> FloatArray:
    """Sums of an edge's values over the visible edges of each group. float64[G].

    total  float64[G]  sums over whole rows, kept while learning
    value  float[E]
    """
    if rows.is_whole:
        return total
    partial = np.flatnonzero(rows.is_partial)
    if partial.size:
        total = total.copy()
        total[partial] = frontier.range_sums(*rows.ranges_of(partial), value)
    return total
