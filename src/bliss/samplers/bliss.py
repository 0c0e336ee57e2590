"""BLISS: PLADIES whose masses are learnt by a bandit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from bliss.samplers.base import PolicySampler
from bliss.samplers.draws import THINNINGS, Poisson, Thinning
from bliss.samplers.layerwise import LayerSampler


class Bliss(LayerSampler):
    """Bandit layer importance sampling (Alsaqa, Hoang and Balin, 2025).

    Draws as PLADIES does; the masses come from a bandit that learns from `block.observe` and
    `sampler.update` how large each source's message is:

    * ``policy="node"`` (default): ours, arms per node; 18 bytes per node and layer.
    * ``policy="exp3"``: the paper's, an arm per edge, with the paper's eta and delta.
    * ``policy="exp3-released"``: the same with the constants of the authors' released code.

    Options of the policy, such as eta, are passed on. Weights alpha_ij / p_j: unbiased whatever
    was learnt, because the coins of a step do not depend on its feedback.

    Cost: PLADIES, plus at most one read per edge (exp3) or per candidate (node; with attention,
    also one per edge).
    """

    choices: ClassVar[Mapping[str, Sequence[str]]] = {
        **PolicySampler.choices,
        "thinning": THINNINGS,
    }

    def __init__(
        self,
        data: Any,
        budgets: Sequence[int],
        *,
        policy: Any = "node",
        thinning: Thinning = "exact",
        estimator: str = "ht",
        **options: Any,
    ) -> None:
        super().__init__(
            data, budgets, policy=policy, draw=Poisson(thinning), estimator=estimator, **options
        )
