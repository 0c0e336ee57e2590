"""`neighbour`: the bandit samplers' policy, a distribution over each target's own in-edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bliss import checks
from bliss.graph import Graph
from bliss.kernels import bandits
from bliss.policies.base import State
from bliss.policies.exp3 import Exp3, Exp3Config
from bliss.types import Feedback, FloatArray, IntArray

Reward = Literal["published", "bounded"]


@dataclass(frozen=True, kw_only=True)
class NeighbourConfig(Exp3Config):
    """How boldly the bandit explores, how fast it learns, and from what."""

    delta: float | None = 0.01
    """Step size."""
    reward: Reward = "published"
    """published: alpha_ij^2 |h_j|^2 / q_ij^2; bounded: in [0, 1], with restarts."""
    restart: int = 0
    """Steps after which all is forgotten (Delta_T); 0: never."""
    attention: bool = False
    """Whether alpha_ij is the feedback attention where the network gives one."""
    is_single_play: bool = False
    """Whether the k draws are k plays of one arm each (EXP3), not one play of k arms (EXP3.M)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.choice("reward", self.reward, ("published", "bounded"))
        checks.whole("restart", self.restart)

    def build(self, graph: Graph, layers: int) -> NeighbourBandit:
        """Make the policy for a graph."""
        return NeighbourBandit(graph, layers, self)


class NeighbourBandit(Exp3):
    """q_ij over N_i, learnt by EXP3 from the edges that target i itself has drawn.

        q_ij = (1 - eta) w_ij / sum over N_i of w + eta / |N_i|
        log w_ij += min(1, delta r_ij / (q_ij |N_i|))      for each draw of one arm (EXP3)
        log w_ij += min(1, k delta r_ij / (p_ij |N_i|))    for k arms at once (EXP3.M), p_ij < 1

    EXP3 and EXP3.M are the same step, as p_ij = k q_ij: an edge's chance is divided by the number
    of plays. An edge that is certain (p_ij = 1) is capped in EXP3.M and its weight stays.

    The reward r_ij is

    * published: alpha_ij^2 |h_j|^2 / q_ij^2, minus the derivative of the variance
      sum_j alpha_ij^2 |h_j|^2 / q_ij by q_ij. It has no bound as q_ij falls.
    * bounded: alpha_ij^2 |h_j|^2 over its largest among the kept edges of i, in [0, 1], as the
      regret bounds of EXP3 want it.

    alpha_ij is the graph's coefficient or, with `attention`, (sum over kept of q_ik) times the
    softmax over the kept edges. With `restart` all weights are forgotten every so many steps,
    layer by layer, so that old embeddings do not weigh on new ones; a restart costs O(|E|).

    State and its form are those of `Exp3`: 8 bytes per edge and layer, 16 per node and layer; an
    update costs O(kept edges).
    """

    name = "neighbour"
    config: NeighbourConfig

    def __init__(self, graph: Graph, layers: int, config: NeighbourConfig) -> None:
        super().__init__(graph, layers, config)
        self._steps = np.zeros(layers, np.int64)

    def update(self, layer: int, feedback: Feedback) -> None:
        """One step of EXP3 on the kept edges, each by the chance it was drawn with."""
        config, kept_degree = self.config, np.diff(feedback.indptr)
        owner = np.repeat(np.arange(feedback.dst.size), kept_degree)
        chance = feedback.edge_chance.astype(np.float64)
        share = chance / kept_degree[owner]  # q_ij, where there was a choice
        message = self._coefficients(feedback, owner, share) * feedback.norm[feedback.row]
        square = np.square(message)
        if config.reward == "published":
            reward = square / np.square(share)
        else:
            largest = np.zeros(feedback.dst.size)
            np.maximum.at(largest, owner, square)
            reward = square / np.where(largest > 0, largest, 1)[owner]
        # degree in the graph; share is p_ij / k, so 1 / share is 1 / q_ij and k / p_ij alike
        degree = self.graph.degree[feedback.dst][owner]
        growth = np.minimum(config.step * reward / (share * degree), 1.0)
        had_choice = (kept_degree < self.graph.degree[feedback.dst])[owner]
        growth[~had_choice if config.is_single_play else chance >= 1] = 0.0
        bandits.grow(
            feedback.dst,
            self.graph.indptr,
            feedback.indptr,
            feedback.edge,
            growth,
            self._excess[layer],
            self._scale[layer],
        )
        self._steps[layer] += 1
        if config.restart and self._steps[layer] % config.restart == 0:
            self._excess[layer][:] = 0.0
            self._scale[layer][:] = [1.0, 0.0]

    def _coefficients(self, feedback: Feedback, owner: IntArray, share: FloatArray) -> FloatArray:
        """alpha_ij of the kept edges. float64[E']."""
        graph = self.graph
        if self.config.attention and feedback.attention.size:
            total = np.bincount(owner, share, minlength=feedback.dst.size)
            return np.asarray(np.minimum(total, 1.0)[owner] * feedback.attention)
        if graph.norm == "weights":
            return graph.weight[feedback.edge].astype(np.float64)
        alpha: FloatArray = graph.target_scale[feedback.dst][owner]
        if graph.source_scale.size:
            alpha = alpha * graph.source_scale[feedback.src][feedback.row]
        return alpha

    def state_dict(self) -> State:
        """Those of `Exp3`, and the steps since the start."""
        return super().state_dict() | {"neighbour.steps": self._steps}
