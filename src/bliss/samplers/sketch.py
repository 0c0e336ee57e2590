"""SKETCH: LADIES with the square root it should have had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bliss.samplers.draws import WithoutReplacement
from bliss.samplers.layerwise import LayerSampler


class SKETCH(LayerSampler):
    """The correction of LADIES by Chen et al. (2022).

    s_j = sqrt(sum_i alpha_ij^2) [eq:prob-sketch]; a fixed number without replacement; weights
    alpha_ij / (p_j ns_i) [eq:norm-prob-sketch] as the BLISS paper writes them. Those shrink the
    aggregate to about 1/ns_i of the full one; estimator="ht" is unbiased.

    Cost: two passes over the frontier's edges and a sort of its candidates.
    """

    def __init__(
        self,
        data: Any,
        budgets: Sequence[int],
        *,
        policy: Any = "static",
        estimator: str = "sketch",
        **options: Any,
    ) -> None:
        super().__init__(
            data, budgets, policy=policy, draw=WithoutReplacement(), estimator=estimator, **options
        )
