"""SKETCH: LADIES with the square root of its masses and debiased weights."""

from __future__ import annotations

from typing import ClassVar

from bliss.samplers.config_base import SamplerConfig
from bliss.samplers.configs import SKETCHConfig
from bliss.samplers.draws import Draw, Successive
from bliss.samplers.estimators import estimator_of
from bliss.samplers.layerwise import LayerSampler


class SKETCH(LayerSampler):
    """LADIES with the corrections of Chen et al. (2022).

    s_j = sqrt(sum_i alpha_ij^2) [eq:prob-sketch]; k = `budgets[layer]` successive draws without
    replacement.

    * ``estimator="debiased"`` (default): the authors' debiased weights, exactly unbiased;
      `bliss.samplers.draws.Successive` has the formula.
    * ``estimator="sketch"``: alpha_ij / (k q_j), q_j = s_j / sum s [eq:norm-prob-sketch], the
      authors' plain normalisation; biased, because draws are without replacement.
    * ``estimator="hajek"``: the debiased weights, rows rescaled.

    Inclusion probabilities have no closed form, so `block.prob` is None and policies that divide by
    them (exp3) are rejected. With its default policy, not adaptive and no state.

    Cost: two passes over the frontier's edges and a partial sort of its candidates. `SKETCHConfig`
    has the options.
    """

    Config: ClassVar[type[SamplerConfig]] = SKETCHConfig

    def _make_draw(self) -> Draw:
        return Successive(debiased=estimator_of(self.config.estimator).name != "sketch")
