"""`exp3`: the paper's bandit, one arm per edge and layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bliss import checks
from bliss.arrays import NOTHING, IntArray
from bliss.graph import Graph
from bliss.kernels import edge_bandits
from bliss.policies.base import Policy, State
from bliss.types import EdgeMass, Feedback


@dataclass(frozen=True, kw_only=True)
class Exp3Config:
    """How boldly EXP3 explores and how fast it learns."""

    eta: float = 0.4
    """Share of q_ij that is uniform over the neighbours, whatever was learnt."""
    delta: float | None = None
    """Step size; by default eta / 10^6, the paper's. The released code has eta 0.1, delta 0.01."""

    def __post_init__(self) -> None:
        checks.share(
            "eta",
            self.eta,
            "at 0 an edge can become unreachable and its 1/p undefined, start with 0.4.",
        )
        if self.delta is not None:
            checks.positive(
                "delta", self.delta, "at 0 nothing is learnt, start with eta / 10^6 or 0.01."
            )

    @property
    def step(self) -> float:
        """delta, with its default filled in."""
        return self.eta / 1e6 if self.delta is None else self.delta

    def build(self, graph: Graph, layers: int) -> Exp3:
        """Make the policy for a graph."""
        return Exp3(graph, layers, self)


PAPER = Exp3Config(eta=0.4)
RELEASED = Exp3Config(eta=0.1, delta=0.01)


class Exp3(Policy):
    """s_j = sqrt(sum_i q_ij^2) [eq:node_prob_bliss], with q learnt by EXP3.

        q_ij      = (1 - eta) w_ij / sum over N_i of w + eta / |N_i|
        log w_ij += min(1, delta r_ij / (p_j |N_i|)),    r_ij = alpha_ij^2 |h_j|^2 / (k_i q_ij^2)

    for kept edges, k_i of them at target i. With attention, alpha_ij is the feedback attention
    (sum over kept of q_ik) softmax_ij.

    Weights are kept as w_ij = base_i + excess_ij with a running sum per row, in float64. Zero
    excess is the initial state, so a row never updated is uniform without being read, and its
    memory is not even touched. Rows are normalised when they are read, so a step costs nothing
    beyond its kept edges. Before a weight could overflow, its row is scaled down.

    State: 8 bytes per edge and layer, 16 per node and layer.
    """

    name = "exp3"
    learns = True
    power = 0.5

    def __init__(self, graph: Graph, layers: int, config: Exp3Config = PAPER) -> None:
        super().__init__(graph, layers)
        self.config = config
        self._excess = [np.zeros(graph.num_edges) for _ in range(layers)]
        # base_i and the sum of excess_ij side by side: they are read together, in random order
        self._scale = [np.tile([1.0, 0.0], (graph.num_nodes, 1)) for _ in range(layers)]

    def edge_mass(self, layer: int, dst: IntArray) -> EdgeMass:
        """q_ij, normalised here and now."""
        offset, slope = edge_bandits.exp3_rows(
            dst, self.graph.indptr, self._scale[layer], self.config.eta
        )
        return EdgeMass(offset, slope, self._excess[layer])

    def edge_prob(self, layer: int, node: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """q_ij over the in-edges of one node. float64[|N_i|]; sums to 1."""
        offset, slope, excess = self.edge_mass(layer, np.array([node]))
        in_edges = slice(self.graph.indptr[node], self.graph.indptr[node + 1])
        return np.asarray(offset[0] + slope[0] * excess[in_edges], dtype=np.float64)

    def update(self, layer: int, feedback: Feedback) -> None:
        """One step of EXP3 on the kept edges."""
        graph, is_attention = self.graph, feedback.attention.size > 0
        strength = np.square(feedback.norm, dtype=np.float64) / feedback.prob
        target_scale, alpha = graph.target_scale, NOTHING
        if is_attention:
            target_scale, alpha = NOTHING, feedback.attention
        elif graph.norm == "weights":
            alpha = graph.weight[feedback.edge]
        elif graph.norm == "gcn":
            strength *= graph.source_scale[feedback.src] ** 2
        edge_bandits.exp3_update(
            feedback.dst,
            graph.indptr,
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
            self._scale[layer],
        )

    def state_dict(self) -> State:
        """The edges' excess and the rows' scale, by layer."""
        state: State = {}
        for layer in range(self.layers):
            state[f"exp3.{layer}.excess"] = self._excess[layer]
            state[f"exp3.{layer}.scale"] = self._scale[layer]
        return state
