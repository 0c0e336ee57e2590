"""LADIES: a fixed number of sources per layer, drawn by squared coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bliss import checks
from bliss.samplers.draws import WithoutReplacement, WithReplacement
from bliss.samplers.layerwise import LayerSampler


class LADIES(LayerSampler):
    """Layer-dependent importance sampling (Zou et al., 2019).

    s_j = sum_i alpha_ij^2 [eq:prob-ladies]; `budgets` draws, with replacement as published, or
    without; each row of weights normalised [eq:norm-prob-ladies], which is the Hajek estimator:
    biased by O(1/k). Choose estimator="ht" for the unbiased one. The inclusion probabilities are
    exact for both draws.

    Cost: two passes over the frontier's edges; without replacement, a sort of its candidates.
    """

    def __init__(
        self,
        data: Any,
        budgets: Sequence[int],
        *,
        replace: bool = True,
        policy: Any = "ladies",
        estimator: str = "hajek",
        **options: Any,
    ) -> None:
        draw = WithReplacement() if checks.flag("replace", replace) else WithoutReplacement()
        super().__init__(data, budgets, policy=policy, draw=draw, estimator=estimator, **options)
