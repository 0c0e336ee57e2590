"""PLADIES: a coin per source instead of a fixed number of draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from bliss.samplers.base import PolicySampler
from bliss.samplers.draws import THINNINGS, Poisson, Thinning
from bliss.samplers.layerwise import LayerSampler


class PLADIES(LayerSampler):
    """Poisson LADIES (Balin and Catalyurek, 2023), with skip connections.

    s_j = sqrt(sum_i alpha_ij^2); source j kept with p_j = min(1, c s_j), independently, c set by
    the budget; targets always kept. Weights alpha_ij / p_j: unbiased. Not adaptive, no state.

    Cost: two passes over the frontier's edges.
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
        thinning: Thinning = "exact",
        policy: Any = "static",
        estimator: str = "ht",
        **options: Any,
    ) -> None:
        super().__init__(
            data, budgets, policy=policy, draw=Poisson(thinning), estimator=estimator, **options
        )
