"""LADIES: a fixed number of sources per layer, drawn by squared coefficients."""

from __future__ import annotations

from typing import ClassVar

from bliss.samplers.config_base import SamplerConfig
from bliss.samplers.configs import LADIESConfig
from bliss.samplers.draws import Draw, WithoutReplacement, WithReplacement
from bliss.samplers.layerwise import LayerSampler


class LADIES(LayerSampler):
    """Layer-dependent importance sampling (Zou et al., 2019).

    s_j = sum_i alpha_ij^2 [eq:prob-ladies]. Each layer makes k = `budgets[layer]` draws, with or
    without replacement. Each row of weights is normalised [eq:norm-prob-ladies]: this is the Hajek
    estimator, biased by O(1/k). estimator="ht" is unbiased. The inclusion probabilities are exact
    for both kinds of draw.

    Cost: two passes over the frontier's edges; without replacement, a sort of its candidates.
    `LADIESConfig` has the options.
    """

    Config: ClassVar[type[SamplerConfig]] = LADIESConfig
    config: LADIESConfig

    def _make_draw(self) -> Draw:
        return WithReplacement() if self.config.replace else WithoutReplacement()
