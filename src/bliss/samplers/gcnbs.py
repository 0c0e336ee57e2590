"""The bandit samplers: each target learns which of its neighbours to ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from bliss import checks
from bliss.arrays import IntArray
from bliss.policies.target_bandit import Reward, TargetBanditConfig
from bliss.samplers.nodewise import NodeSampler
from bliss.types import Block


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

    Parameters
    ----------
    policy
        "exp3m" or "exp3".
    reward
        "published" or "thanos".
    restart
        Steps between restarts (Delta_T), 0 for none; by default 100 with "thanos", and none with
        "published".
    eta, delta
        Exploration and step size.
    options
        Those of `NodeSampler`; budgets are fanouts.
    """

    choices: ClassVar[Mapping[str, Sequence[str]]] = {
        "policy": ("exp3m", "exp3"),
        "estimator": ("ht", "hajek", "plain"),
    }
    uses_attention: ClassVar[bool] = False

    def __init__(
        self,
        data: Any,
        budgets: Sequence[int],
        *,
        policy: str = "exp3m",
        reward: Reward = "published",
        restart: int | None = None,
        eta: float = 0.4,
        delta: float = 0.01,
        estimator: str = "ht",
        **options: Any,
    ) -> None:
        is_single_play = checks.choice("policy", policy, self.choices["policy"]) == "exp3"
        config = TargetBanditConfig(
            eta=eta,
            delta=delta,
            reward=reward,
            restart=(100 if reward == "thanos" else 0) if restart is None else restart,
            attention=self.uses_attention,
            is_single_play=is_single_play,
        )
        super().__init__(
            data, budgets, policy=config, replace=is_single_play, estimator=estimator, **options
        )
        self._compares_messages = config.reward == "thanos"

    def _layer(self, dst: IntArray, layer: int, key: np.uint64) -> Block:
        block = super()._layer(dst, layer, key)
        if self._compares_messages:
            block.input = torch.empty(0)  # to be remembered
        return block


class GATBS(GCNBS):
    """Bandit samplers for attention (Liu et al., 2020).

    As `GCNBS`, with the feedback attention in the reward: alpha_ij is the softmax over the kept
    edges times the sum of their q_ij, which stands for the share of the full attention that the
    kept edges have. A network without attention gives none, and the graph's coefficients are used.
    Attention weighs by its own softmax, whatever the estimator: to leave chances out of it is the
    network's choice, ``attention="plain"``.
    """

    uses_attention: ClassVar[bool] = True
