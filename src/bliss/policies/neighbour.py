"""`neighbour`: the bandit samplers' policy, a distribution over each target's own in-edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bliss import checks
from bliss.graph import Graph
from bliss.kernels import bandits, fast
from bliss.policies.base import State
from bliss.policies.exp3 import Exp3, Exp3Config
from bliss.types import Feedback, FloatArray

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
        graph, config = self.graph, self.config
        is_listening = config.attention and feedback.attention.size > 0
        growth = bandits.neighbour_growth(
            feedback.dst,
            graph.indptr,
            feedback.indptr,
            self._messages(feedback, is_listening),
            feedback.edge_chance,
            config.step,
            is_listening,
            config.reward == "bounded",
            config.is_single_play,
        )
        bandits.grow(
            feedback.dst,
            graph.indptr,
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

    def _messages(self, feedback: Feedback, is_listening: bool) -> FloatArray:
        """alpha_ij |h_j| of the kept edges, alpha_ij the graph's or the softmax. float[E']."""
        size = feedback.norm[feedback.row]
        if is_listening:
            return np.asarray(feedback.attention * size)
        alpha = fast.horvitz_thompson(
            feedback.dst,
            feedback.src,
            np.ones(feedback.src.size, np.float32),
            feedback.indptr,
            feedback.row,
            feedback.edge,
            self.graph.target_scale,
            self.graph.source_scale,
            self.graph.weight,
        )
        return np.asarray(alpha * size)

    def state_dict(self) -> State:
        """Those of `Exp3`, and the steps since the start."""
        return super().state_dict() | {"neighbour.steps": self._steps}
