"""BLISS: PLADIES with masses learnt by a bandit."""

from __future__ import annotations

from typing import ClassVar

from bliss.samplers.configs import BlissConfig, SamplerConfig
from bliss.samplers.layerwise import LayerSampler


class Bliss(LayerSampler):
    """Bandit layer importance sampling (Alsaqa, Hoang and Balin, 2025).

    Draws as PLADIES does; the masses come from a bandit that learns from `block.observe` and
    `sampler.update` how large each source's message is:

    * ``policy="node"`` (default): ours, one arm per node; 18 bytes per node and layer.
    * ``policy="exp3"``: the paper's, one arm per edge, with the paper's eta and delta.
    * ``policy="exp3-released"``: the same with the constants of the authors' released code.

    Settings of the policy, such as eta, are options, too. Weights alpha_ij / p_j: unbiased whatever
    was learnt, because the coins of a step do not depend on its feedback.

    Cost: PLADIES, plus at most one read per edge (exp3) or per candidate (node; with attention,
    also one per edge). `BlissConfig` has the options.
    """

    Config: ClassVar[type[SamplerConfig]] = BlissConfig
