"""AS-GCN: masses from a learnt linear function of the features."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from bliss.errors import InputError
from bliss.policies.base import Policy
from bliss.samplers.config_base import SamplerConfig
from bliss.samplers.configs import ASGCNConfig
from bliss.samplers.draws import Draw, Poisson
from bliss.samplers.layerwise import LayerSampler


class ASGCN(LayerSampler):
    """Adaptive layer-wise sampling (Huang, Zhang, Rong and Huang, 2018).

    s_j = |g(x_j)| sum_i alpha_ij, where g is a linear function of the node's input features, one
    per layer, trained to reduce the variance; `bliss.policies.linear` has its gradient in closed
    form. Sources are kept by Poisson sampling, p_j = min(1, c s_j), and g has its own optimizer,
    which uses the observed |h_j|. Weights alpha_ij / p_j: unbiased for any learnt g.

    The paper draws n sources with replacement and adds the variance to the network's loss. Its
    coefficients are learnt: alpha_ij times an attention of x_i and x_j, whose parameters also
    determine the masses. Here the coefficients are the graph's or the network's attention, and the
    sampler learns g alone. ``combine="root"`` and ``shared_parameters=True`` are choices of the
    authors' code. docs/deviations.md lists what differs.

    Cost: two passes over the frontier's edges, and a product with the features of every candidate,
    O(candidates F), which dominates if features are wide. State: O(F) per layer.

    `ASGCNConfig` has the options: combine, shared_parameters, eta, rate, thinning, estimator.
    x: the features [V, F], or of each type, of one width.
    """

    Config: ClassVar[type[SamplerConfig]] = ASGCNConfig
    config: ASGCNConfig

    def _make_policy(self) -> Policy:
        x = self.features
        if isinstance(x, list):  # by type
            widths = [own.shape[1] for own in x]
            if len(set(widths)) > 1:
                raise InputError(
                    "AS-GCN's masses are a function of features of one width, but those of the "
                    f"types have the widths {widths}: pass x [V, F], in the order of types, or "
                    "choose another sampler."
                )
            x = np.concatenate(x)
        return self.config.policy_config.build(self.graph, self.layers, x=x)

    def _make_draw(self) -> Draw:
        return Poisson(self.config.thinning)
