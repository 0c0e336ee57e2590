"""GCN-BS and GAT-BS: each target learns a distribution over its neighbours."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from bliss.arrays import IntArray
from bliss.block import Block
from bliss.policies.base import Policy
from bliss.samplers.configs import GATBSConfig, GCNBSConfig, SamplerConfig
from bliss.samplers.nodewise import NodeSampler


class GCNBS(NodeSampler):
    """Bandit samplers for graph convolutions (Liu et al., 2020).

    Each target has a distribution q_ij over its in-edges, and learns it from the messages it
    receives; `bliss.policies.target_bandit` has the rules.

    * ``policy="exp3m"`` (default): EXP3.M, k = `budgets[layer]` arms at once, without replacement
      by DepRound: p_ij = k q_ij, and where that exceeds 1, p_ij = min(1, c_i q_ij).
    * ``policy="exp3"``: EXP3, k plays of one arm each, with replacement.

    The reward is alpha_ij^2 |h_j|^2 / q_ij^2 as published; it has no bound as q_ij falls, so a
    step of log w is at most 1. ``reward="thanos"`` is the answer of Zhang et al. (2021): a bounded
    reward, larger the closer a message is to the mean of its target's, and weights that are
    forgotten every `restart` steps. It belongs with ``estimator="plain"``, their aggregate
    sum over kept of alpha_ij h_j |N_i| / k, which trades bias for variance: its expectation is
    sum_j (p_ij |N_i| / k) alpha_ij h_j, the full one only while all chances are alike.

    Otherwise weights alpha_ij / p_ij: unbiased whatever was learnt. Adaptive; 8 bytes per edge and
    layer and 16 per node and layer. EXP3.M as published caps weights, here the cap is on q_ij: the
    two differ only in how the excess of a capped edge is shared out.

    Cost: a few passes over the frontier's edges a draw; O(kept edges) an update; O(|E|) a restart.

    `GCNBSConfig` has the options: policy, reward, restart, eta, delta, estimator.
    """

    Config: ClassVar[type[SamplerConfig]] = GCNBSConfig
    config: GCNBSConfig

    @property
    def replace(self) -> bool:
        """Whether edges are drawn with replacement: k plays of one arm."""
        return self.config.bandit.is_single_play

    def _make_policy(self) -> Policy:
        return self.config.bandit.build(self.graph, self.layers)

    def _layer(self, dst: IntArray, layer: int, key: np.uint64) -> Block:
        block = super()._layer(dst, layer, key)
        return replace(block, keeps_input=self.config.reward == "thanos")  # it compares messages


class GATBS(GCNBS):
    """Bandit samplers for attention (Liu et al., 2020).

    As `GCNBS`, with the feedback attention in the reward: alpha_ij is the softmax over the kept
    edges times the sum of their q_ij, which stands for the share of the full attention that the
    kept edges have. A network without attention gives none, and the graph's coefficients are used.
    Attention weighs by its own softmax, whatever the estimator; the network's setting
    ``attention="plain"`` leaves chances out of it.
    """

    Config: ClassVar[type[SamplerConfig]] = GATBSConfig
