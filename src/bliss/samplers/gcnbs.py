"""GCN-BS and GAT-BS: each target learns a distribution over its neighbours."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from bliss.graph import Rows
from bliss.kernels.coins import CoinKey
from bliss.nn.block import Block
from bliss.policies.base import Policy
from bliss.samplers.config_base import SamplerConfig
from bliss.samplers.configs import GATBSConfig, GCNBSConfig
from bliss.samplers.nodewise import NodeSampler


class GCNBS(NodeSampler):
    """Bandit samplers for graph convolutions (Liu et al., 2020).

    Each target learns a distribution q_ij over its in-edges from the messages it receives;
    `bliss.policies.target_bandit` has the update rules.

    * ``policy="exp3m"`` (default): EXP3.M, k = `budgets[layer]` arms at once, drawn without
      replacement by DepRound: p_ij = k q_ij, or min(1, c_i q_ij) if some k q_ij exceeds 1.
    * ``policy="exp3-single"``: EXP3, k plays of one arm each, with replacement.

    The published reward is alpha_ij^2 |h_j|^2 / q_ij^2. It is unbounded as q_ij falls, so a step of
    log w is limited to 1. ``reward="thanos"`` (Zhang et al., 2021) is bounded, and larger the
    closer a message is to the mean message of its target; weights are reset every `restart` steps.
    Its defaults are the constants of the authors' example: eta = 0.2 (their gamma), delta = 0.1
    (their eta), restart = 2000. The rule differs: theirs is log w_ij += max(0, delta r_ij) / d^2,
    d = |N_i|, with r_ij neither shifted nor scaled, nor divided by the probability of the draw.
    experiments/estimates shows how far q_ij moves. Use it with ``estimator="plain"``, the aggregate
    of that paper: sum over kept edges of alpha_ij h_j |N_i| / k. It trades bias for variance: its
    expectation is sum_j (p_ij |N_i| / k) alpha_ij h_j, which is the full aggregate only if all p_ij
    of a target are equal.

    The other estimators use weights alpha_ij / p_ij; "ht" is unbiased for any learnt distribution.
    Adaptive; 8 bytes per edge and layer and 16 per node and layer. The published EXP3.M caps
    weights, whereas here q_ij is capped; only the distribution of a capped edge's excess differs.

    Cost: a few passes over the frontier's edges per draw; O(kept edges) per update; O(|E|) per
    restart.

    `GCNBSConfig` has the options: policy, reward, restart, eta, delta, estimator.
    """

    Config: ClassVar[type[SamplerConfig]] = GCNBSConfig
    config: GCNBSConfig

    @property
    def replace(self) -> bool:
        """Whether edges are drawn with replacement: k plays of one arm."""
        return self.config.bandit.is_single_play

    def _make_policy(self) -> Policy:
        uses_attention = self.config.uses_attention
        return self.config.bandit.build(self.graph, self.layers, uses_attention=uses_attention)

    def _layer(self, rows: Rows, layer: int, key: CoinKey) -> Block:
        block = super()._layer(rows, layer, key)
        needs_messages = self.config.bandit.reward == "thanos"
        return replace(block, keeps_input=needs_messages)


class GATBS(GCNBS):
    """Bandit samplers for attention (Liu et al., 2020).

    `GCNBS` with the network's attention in the reward: alpha_ij is the softmax over the kept edges
    times the sum of their q_ij, which estimates the kept edges' share of the full attention.
    Without attention in the network, the graph's coefficients are used. An attention layer
    aggregates with its own softmax for any estimator; the network's setting ``attention="plain"``
    excludes the probabilities from it. A softmax is a ratio, so with attention the aggregate is
    biased for every estimator; "ht" is unbiased without attention only. The authors' code adds
    attention times the sum of the kept q_ij to w_ij, without an exponential and without dividing by
    the probability.
    """

    Config: ClassVar[type[SamplerConfig]] = GATBSConfig
