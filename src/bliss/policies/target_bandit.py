"""`neighbour`: the bandit samplers' policy, a distribution over each target's own in-edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bliss import checks
from bliss.arrays import FloatArray
from bliss.errors import InputError
from bliss.graph import Graph
from bliss.kernels import edge_bandits, frontier
from bliss.policies.base import State
from bliss.policies.exp3 import Exp3, Exp3Config
from bliss.types import Feedback

Reward = Literal["published", "thanos"]
REWARDS = ("published", "thanos")


@dataclass(frozen=True, kw_only=True)
class TargetBanditConfig(Exp3Config):
    """How boldly the bandit explores, how fast it learns, and from what."""

    delta: float | None = 0.01
    """Step size."""
    reward: Reward = "published"
    """published: alpha_ij^2 |h_j|^2 / q_ij^2; thanos: closeness to the mean, in [0, 1]."""
    restart: int = 0
    """Steps after which all is forgotten (Delta_T); 0: never."""
    attention: bool = False
    """Whether alpha_ij is the feedback attention where the network gives one."""
    is_single_play: bool = False
    """Whether the k draws are k plays of one arm each (EXP3), not one play of k arms (EXP3.M)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.choice("reward", self.reward, REWARDS)
        checks.whole("restart", self.restart)

    def build(self, graph: Graph, layers: int) -> TargetBandit:
        """Make the policy for a graph."""
        return TargetBandit(graph, layers, self)


class TargetBandit(Exp3):
    """q_ij over N_i, learnt by EXP3 from the edges that target i itself has drawn.

        q_ij = (1 - eta) w_ij / sum over N_i of w + eta / |N_i|
        log w_ij += min(1, delta r_ij / (q_ij |N_i|))      for each draw of one arm (EXP3)
        log w_ij += min(1, k delta r_ij / (p_ij |N_i|))    for k arms at once (EXP3.M), p_ij < 1

    EXP3 and EXP3.M are the same step, as p_ij = k q_ij: an edge's chance is divided by the number
    of plays. An edge that is certain (p_ij = 1) is capped in EXP3.M and its weight stays.

    The reward r_ij is

    * published: alpha_ij^2 |h_j|^2 / q_ij^2, minus the derivative of the variance
      sum_j alpha_ij^2 |h_j|^2 / q_ij by q_ij. It has no bound as q_ij falls.
    * thanos (Zhang et al., 2021): 2 z_ij . m_i - |z_ij|^2 for messages z_ij = alpha_ij h_j and
      their mean m_i, which falls with the distance from the mean. Shifted and scaled by the
      target's largest |z_ij|^2 it is in [0, 1], as the regret bounds of EXP3 want it. Its
      aggregate is biased: the kept messages as if all had been drawn alike (estimator "plain").

    alpha_ij is the graph's coefficient or, with `attention`, (sum over kept of q_ik) times the
    softmax over the kept edges. With `restart` all weights are forgotten every so many steps,
    layer by layer, so that old embeddings do not weigh on new ones; a restart costs O(|E|).

    State and its form are those of `Exp3`: 8 bytes per edge and layer, 16 per node and layer; an
    update costs O(kept edges), with "thanos" times the width of their messages.
    """

    name = "neighbour"
    config: TargetBanditConfig

    def __init__(self, graph: Graph, layers: int, config: TargetBanditConfig) -> None:
        super().__init__(graph, layers, config)
        self._steps = np.zeros(layers, np.int64)

    def update(self, layer: int, feedback: Feedback) -> None:
        """One step of EXP3 on the kept edges, each by the chance it was drawn with."""
        graph, config = self.graph, self.config
        if feedback.edge_chance.size != feedback.edge.size:
            raise InputError(
                "these blocks do not say with which chance each edge was drawn, so another kind of "
                "sampler drew them: update a sampler with the blocks it drew."
            )
        growth = edge_bandits.neighbour_growth(
            feedback.dst,
            graph.indptr,
            feedback.indptr,
            self._rewards(feedback),
            feedback.edge_chance,
            config.step,
            config.is_single_play,
        )
        edge_bandits.grow(
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

    def _rewards(self, feedback: Feedback) -> FloatArray:
        """r_ij of the kept edges. float64[E']."""
        is_listening = self.config.attention and feedback.attention.size > 0
        alpha = feedback.attention if is_listening else self._coefficients(feedback)
        drawn, chance = feedback.indptr, feedback.edge_chance
        if self.config.reward == "published":
            message = alpha * feedback.norm[feedback.row]
            return np.asarray(edge_bandits.variance_rewards(drawn, message, chance, is_listening))
        if feedback.input.ndim != 2 or len(feedback.input) != feedback.src.size:
            raise InputError(
                'reward="thanos" compares messages, but these blocks did not keep the input of '
                "each source: update a sampler with the blocks it drew."
            )
        return np.asarray(
            edge_bandits.distance_rewards(drawn, feedback.row, alpha, chance, feedback.input)
        )

    def _coefficients(self, feedback: Feedback) -> FloatArray:
        """alpha_ij of the kept edges, the graph's. float32[E']."""
        graph = self.graph
        certain = np.ones(feedback.src.size, np.float32)
        alpha: FloatArray = frontier.horvitz_thompson(
            feedback.dst,
            feedback.src,
            certain,
            feedback.indptr,
            feedback.row,
            feedback.edge,
            graph.target_scale,
            graph.source_scale,
            graph.weight,
        )
        return alpha

    def state_dict(self) -> State:
        """Those of `Exp3`, and the steps since the start."""
        return super().state_dict() | {"neighbour.steps": self._steps}
