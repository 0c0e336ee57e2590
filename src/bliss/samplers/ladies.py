"""LADIES: a fixed number of sources per layer, drawn by squared coefficients."""

from __future__ import annotations

from typing import ClassVar

from bliss.samplers.config_base import SamplerConfig
from bliss.samplers.configs import LADIESConfig
from bliss.samplers.draws import Draw, WithoutReplacement, WithReplacement
from bliss.samplers.layerwise import LayerSampler


class LADIES(LayerSampler):
    """Layer-dependent importance sampling (Zou et al., 2019).

    s_j = sum_i alpha_ij^2 [eq:prob-ladies]. Each layer draws k = `budgets[layer]` sources:

    * without replacement (default), as in the authors' code: k distinct sources,
      p_j = min(1, c s_j) with sum k;
    * ``replace=True``, as the BLISS paper describes it: p_j = 1 - (1 - s_j / sum s)^k. Repeated
      draws leave fewer than k sources.

    Each row of weights is normalised [eq:norm-prob-ladies]: this is the Hajek estimator, biased by
    O(1/k). estimator="ht" is unbiased. The inclusion probabilities are exact for both kinds of
    draw. The authors' code draws successively and divides by s_j / sum s, the probability of a
    single draw; ours is a systematic draw, because successive draws have no closed form for p_j.

    Cost: two passes over the frontier's edges and, without replacement, a sort of its candidates.
    `LADIESConfig` has the options.
    """

    Config: ClassVar[type[SamplerConfig]] = LADIESConfig
    config: LADIESConfig

    def _make_draw(self) -> Draw:
        return WithReplacement() if self.config.replace else WithoutReplacement()
