"""PLADIES: one coin per source instead of a fixed number of draws."""

from __future__ import annotations

from typing import ClassVar

from bliss.samplers.config_base import SamplerConfig
from bliss.samplers.configs import PLADIESConfig
from bliss.samplers.draws import Draw, Poisson
from bliss.samplers.layerwise import LayerSampler


class PLADIES(LayerSampler):
    """Poisson LADIES (Balin and Catalyurek, 2023), with skip connections.

    s_j = sqrt(sum_i alpha_ij^2); source j is kept with p_j = min(1, c s_j), independently, with c
    set by the budget; targets are always kept. Weights alpha_ij / p_j: unbiased. Not adaptive, no
    state.

    Cost: two passes over the frontier's edges. `PLADIESConfig` has the options.
    """

    Config: ClassVar[type[SamplerConfig]] = PLADIESConfig
    config: PLADIESConfig

    def _make_draw(self) -> Draw:
        return Poisson(self.config.thinning)
