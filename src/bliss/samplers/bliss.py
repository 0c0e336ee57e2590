"""BLISS: PLADIES with masses learnt by a bandit."""

from __future__ import annotations

from typing import ClassVar

from bliss.samplers.config_base import SamplerConfig
from bliss.samplers.configs import BlissConfig
from bliss.samplers.draws import Draw, Poisson
from bliss.samplers.layerwise import LayerSampler


class Bliss(LayerSampler):
    """Bandit layer importance sampling (Alsaqa, Hoang and Balin, 2025).

    Draws like PLADIES, with masses from a bandit. The bandit learns the size of each source's
    message from `block.observe` and `sampler.update`:

    * ``policy="node"`` (default): one arm per node, not in the paper; 18 bytes per node and layer.
      It also learns from full passes (`sampler.survey`), which cost a byte more per node and, with
      attention, one per edge.
    * ``policy="exp3"``: the paper's bandit, one arm per edge, with the paper's eta and delta.
    * ``policy="exp3-released"``: the same with the constants of the authors' released code.

    Settings of the policy, such as eta, can also be passed as options. Weights alpha_ij / p_j:
    unbiased for any learnt state, because the coins of a step do not depend on its feedback.

    Cost: PLADIES, plus at most one read per edge (exp3) or per candidate (node; with attention,
    also one per edge). `BlissConfig` has the options.
    """

    Config: ClassVar[type[SamplerConfig]] = BlissConfig
    config: BlissConfig

    def _make_draw(self) -> Draw:
        return Poisson(self.config.thinning)
