"""AS-GCN: a small model of the features learns where the large messages come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from bliss.arrays import FloatArray, IntArray
from bliss.errors import InputError
from bliss.policies.linear import Linear, LinearConfig
from bliss.samplers.draws import Poisson, Thinning
from bliss.samplers.layerwise import LayerSampler
from bliss.samplers.workspace import Workspace


class ASGCN(LayerSampler):
    """Adaptive layer-wise sampling (Huang, Zhang, Rong and Huang, 2018).

    s_j = |g(x_j)| sum_i alpha_ij, with g a linear function of the node's input features, one per
    layer, that learns to make the variance small; `bliss.policies.linear` has its gradient in
    closed form. Where the paper draws n sources with replacement and puts the variance into the
    network's loss, here sources are kept by coins, p_j = min(1, c s_j), and g has a step of its
    own from the observed |h_j|. Weights alpha_ij / p_j: unbiased whatever was learnt.

    Cost: two passes over the frontier's edges, and a product with the features of every candidate,
    O(candidates F), which outweighs the rest where features are wide. State: O(F) per layer.

    Parameters
    ----------
    x
        Features [V, F]; by default those of `data`, if it is a PyG `Data`.
    eta, rate
        See `bliss.policies.linear.LinearConfig`.
    options
        Those of `LayerSampler`.
    """

    choices: ClassVar[Mapping[str, Sequence[str]]] = {"estimator": ("ht", "hajek", "sketch")}
    needs_features: ClassVar[bool] = True

    def __init__(
        self,
        data: Any,
        budgets: Sequence[int],
        *,
        x: Any = None,
        eta: float = 0.1,
        rate: float = 0.01,
        thinning: Thinning = "exact",
        estimator: str = "ht",
        **options: Any,
    ) -> None:
        x = getattr(data, "x", None) if x is None else x
        if x is None:
            raise InputError("x is missing, but AS-GCN learns from features: pass x=..., [V, F].")
        config = LinearConfig(x=x, eta=eta, rate=rate)
        super().__init__(
            data, budgets, policy=config, draw=Poisson(thinning), estimator=estimator, **options
        )

    def _masses(
        self, workspace: Workspace, dst: IntArray, layer: int
    ) -> tuple[IntArray, FloatArray]:
        candidate, mass = super()._masses(workspace, dst, layer)
        mass *= cast("Linear", self.policy).sizes(layer, candidate)
        return candidate, mass
