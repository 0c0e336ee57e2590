"""The policy of the node-wise bandit samplers: a distribution over each target's in-edges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bliss.arrays import FloatArray
from bliss.errors import InputError
from bliss.feedback import Feedback, News
from bliss.graph import Graph
from bliss.kernels import edge_bandits
from bliss.policies.configs import TargetBanditConfig
from bliss.policies.exp3 import Exp3
from bliss.policies.learner import RowSets, State
from bliss.storage.memory import zeros


class TargetBandit(Exp3):
    """q_ij over N_i, learnt by EXP3 from the edges that target i has drawn.

        q_ij = (1 - eta) w_ij / sum over N_i of w + eta / |N_i|
        log w_ij += min(1, delta r_ij / (q_ij |N_i|))      for each draw of one arm (EXP3)
        log w_ij += min(1, k delta r_ij / (p_ij |N_i|))    for k arms at once (EXP3.M), p_ij < 1

    EXP3 and EXP3.M make the same step, since p_ij = k q_ij: the probability of an edge is divided
    by the number of plays. In EXP3.M, an edge with p_ij = 1 is capped, so its weight does not
    change.

    The reward r_ij is

    * published: alpha_ij^2 |h_j|^2 / q_ij^2, the negative derivative of the variance
      sum_j alpha_ij^2 |h_j|^2 / q_ij with respect to q_ij. It is unbounded as q_ij falls.
    * thanos (Zhang et al., 2021): 2 z_ij . m_i - |z_ij|^2 for messages z_ij = alpha_ij h_j and
      their mean m_i, which decreases with the distance from the mean. Shifted and scaled by the
      target's largest |z_ij|^2, it is in [0, 1], as the regret bounds of EXP3 require. Its
      aggregate is biased: it gives the kept messages equal weights (estimator "plain").

    alpha_ij is the graph's coefficient or, with `uses_attention`, (sum over kept of q_ik) times the
    softmax over the kept edges. All weights of a layer are reset every `restart` steps, so that old
    embeddings are forgotten; a reset costs O(|E|).

    The state has the form of `Exp3`: 8 bytes per edge and layer, 16 per node and layer; an
    update costs O(kept edges), with "thanos" times the width of their messages. Surveys are
    ignored.
    """

    name = "target-bandit"
    shares_state = True
    pairs_with = ("neighbours",)
    needs_prob = False  # rewards are divided by the probabilities of edges
    config: TargetBanditConfig

    def __init__(
        self,
        graph: Graph,
        layers: int,
        config: TargetBanditConfig | None = None,
        uses_attention: bool = False,
    ) -> None:
        super().__init__(graph, layers, config or TargetBanditConfig())
        self._uses_attention = uses_attention
        self._steps = zeros(layers, np.int64)

    def digest(self, layer: int, feedback: Feedback) -> News:
        """Growth of log w_ij for each draw of an edge."""
        growth = edge_bandits.neighbour_growth(
            feedback.rows.degree,
            feedback.indptr,
            self._rewards(feedback),
            feedback.edge_prob,
            self.config.step,
            self.config.is_single_play,
        )
        return self._news(feedback, np.asarray(growth))

    def apply(self, layer: int, news: Sequence[News]) -> None:
        """Increase the weights of the kept edges; reset all weights every `restart` steps."""
        super().apply(layer, news)
        self._steps[layer] += 1
        if self.config.restart and self._steps[layer] % self.config.restart == 0:
            self._excess[layer][:] = 0.0
            self._scale[layer][:] = [1.0, 0.0]

    def changed_rows(self, layer: int, news: Sequence[News]) -> RowSets | None:
        """As for `Exp3`, but any row after a reset."""
        restart = self.config.restart
        is_reset = restart and self._steps[layer] % restart == 0
        return None if is_reset else super().changed_rows(layer, news)

    def _rewards(self, feedback: Feedback) -> FloatArray:
        """r_ij of the kept edges. float64[E']."""
        attention = feedback.attention if self._uses_attention else None
        alpha = feedback.coefficients() if attention is None else attention
        drawn, chance = feedback.indptr, feedback.edge_prob
        if self.config.reward == "published":
            message = alpha * feedback.norm[feedback.row]
            return np.asarray(
                edge_bandits.variance_rewards(drawn, message, chance, attention is not None)
            )
        if feedback.input is None:
            raise InputError(
                'reward="thanos" compares messages, but these blocks did not keep the input of '
                "each source: update each sampler with the blocks that it drew."
            )
        return np.asarray(
            edge_bandits.distance_rewards(drawn, feedback.row, alpha, chance, feedback.input)
        )

    def state_dict(self) -> State:
        """State of `Exp3` and the step count."""
        return super().state_dict() | {"neighbour.steps": self._steps}
