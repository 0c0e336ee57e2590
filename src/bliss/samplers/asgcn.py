"""AS-GCN: masses from a learnt linear function of the features."""

from __future__ import annotations

from typing import ClassVar, cast

from bliss.arrays import FloatArray, IntArray
from bliss.policies.base import Policy
from bliss.policies.configs import LinearConfig
from bliss.policies.linear import Linear
from bliss.samplers.config_base import SamplerConfig
from bliss.samplers.configs import ASGCNConfig
from bliss.samplers.layerwise import LayerSampler
from bliss.samplers.workspace import Workspace


class ASGCN(LayerSampler):
    """Adaptive layer-wise sampling (Huang, Zhang, Rong and Huang, 2018).

    s_j = |g(x_j)| sum_i alpha_ij, where g is a linear function of the node's input features, one
    per layer, trained to reduce the variance; `bliss.policies.linear` has its gradient in closed
    form. The paper draws n sources with replacement and adds the variance to the network's loss.
    Here sources are kept by Poisson sampling, p_j = min(1, c s_j), and g has its own optimizer,
    which uses the observed |h_j|. Weights alpha_ij / p_j: unbiased for any learnt g.

    Cost: two passes over the frontier's edges, and a product with the features of every candidate,
    O(candidates F), which dominates if features are wide. State: O(F) per layer.

    `ASGCNConfig` has the options: eta, rate, thinning, estimator. x: the features [V, F].
    """

    Config: ClassVar[type[SamplerConfig]] = ASGCNConfig
    config: ASGCNConfig

    def _make_policy(self) -> Policy:
        own = LinearConfig(x=self.features, eta=self.config.eta, rate=self.config.rate)
        return own.build(self.graph, self.layers)

    def _masses(
        self, workspace: Workspace, dst: IntArray, layer: int
    ) -> tuple[IntArray, FloatArray]:
        candidate, mass = super()._masses(workspace, dst, layer)
        mass *= cast("Linear", self.policy).sizes(layer, candidate)
        return candidate, mass
