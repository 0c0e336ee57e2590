"""`exp3-scale-free`: the paper's bandit with rewards and a step that need no tuning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bliss import checks
from bliss.arrays import FloatArray, IntArray
from bliss.graph import Graph
from bliss.kernels import edge_bandits
from bliss.policies.base import Policy, State
from bliss.policies.signals import log_size
from bliss.types import EdgeMass, Feedback


@dataclass(frozen=True, kw_only=True)
class ScaleFreeConfig:
    """How boldly it explores and how fast it learns; the defaults serve every data set."""

    eta: float = 0.1
    """Share of q_ij that is uniform over the neighbours, whatever was learnt."""
    step: float = 0.3
    """Share of the way to what was seen that a weight moves, in logarithms."""

    def __post_init__(self) -> None:
        checks.share("eta", self.eta, "at 0 an edge can become unreachable, start with 0.1.")
        checks.share("step", self.step, "it is a share of the way, start with 0.3.")

    def build(self, graph: Graph, layers: int) -> ScaleFreeExp3:
        """Make the policy for a graph."""
        return ScaleFreeExp3(graph, layers, self)


DEFAULT = ScaleFreeConfig()

MEMORY = 0.1
"""Least weight of the newest step in the running level."""
SMALLEST_COEFFICIENT = 1e-6
"""alpha_ij |N_i| below this counts as this: a logarithm needs a floor."""


class ScaleFreeExp3(Policy):
    """s_j = sqrt(sum_i q_ij^2) as in `exp3`, with q learnt from logarithms of rewards.

        q_ij      = (1 - eta) w_ij / sum over N_i of w + eta / |N_i|
        log w_ij += step (log sqrt(r_ij) - level),    r_ij = (alpha_ij |N_i| |h_j| / w_ij)^2

    for kept edges. The level is a running mean over the layer of log(alpha_ij |N_i| |h_j|), so a
    common factor of all embeddings changes nothing. Where w_ij is proportional to alpha_ij |h_j|,
    nothing moves any more: the optimum [eq:optsample]. With attention, alpha_ij |N_i| is estimated
    from the kept softmax (`kernels.bandits.relative_attention`).

    State: 4 bytes per edge and layer, 8 per node and layer.
    """

    name = "exp3-scale-free"
    learns = True
    power = 0.5

    def __init__(self, graph: Graph, layers: int, config: ScaleFreeConfig = DEFAULT) -> None:
        super().__init__(graph, layers)
        self.config = config
        self._weight = [np.ones(graph.num_edges, np.float32) for _ in range(layers)]
        self._total = [graph.degree.astype(np.float64) for _ in range(layers)]
        self._level = np.zeros(layers)
        self._steps = np.zeros(layers, np.int64)

    def edge_mass(self, layer: int, dst: IntArray) -> EdgeMass:
        """q_ij, normalised here and now."""
        eta = self.config.eta
        degree = np.maximum(self.graph.degree[dst], 1)
        total = np.maximum(self._total[layer][dst], 1e-30)
        return EdgeMass(eta / degree, (1 - eta) / total, self._weight[layer])

    def update(self, layer: int, feedback: Feedback) -> None:
        """Move the weights of the kept edges."""
        if not feedback.norm.any():
            return  # a dead layer says nothing of its edges
        relative = np.maximum(self._relative_coefficient(feedback), SMALLEST_COEFFICIENT)
        signal = np.log(relative) + log_size(feedback.norm)[feedback.row]
        rate = max(1 / (int(self._steps[layer]) + 1), MEMORY)
        self._level[layer] += rate * (float(signal.mean()) - self._level[layer])
        self._steps[layer] += 1
        edge_bandits.scale_free_update(
            feedback.dst,
            feedback.indptr,
            feedback.edge,
            signal - self._level[layer],
            self.config.step,
            self._weight[layer],
            self._total[layer],
        )

    def _relative_coefficient(self, feedback: Feedback) -> FloatArray:
        """alpha_ij |N_i| of the kept edges. [E']."""
        graph, row = self.graph, feedback.row
        if feedback.attention.size:
            relative: FloatArray = edge_bandits.relative_attention(
                feedback.indptr, row, feedback.prob, feedback.attention
            )
            return relative
        owner = np.repeat(feedback.dst, np.diff(feedback.indptr))
        if graph.norm == "weights":
            return graph.weight[feedback.edge] * graph.degree[owner]
        relative = graph.target_scale[owner] * graph.degree[owner]
        if graph.source_scale.size:
            relative = relative * graph.source_scale[feedback.src[row]]
        return relative

    def state_dict(self) -> State:
        """Weights and their sums by layer; level and steps for all."""
        state: State = {"exp3.level": self._level, "exp3.steps": self._steps}
        for layer in range(self.layers):
            state[f"exp3.{layer}.weight"] = self._weight[layer]
            state[f"exp3.{layer}.total"] = self._total[layer]
        return state
