"""VR-GCN: neighbour sampling with a history of every node's input."""

from __future__ import annotations

from typing import ClassVar

from bliss.samplers.config_base import SamplerConfig
from bliss.samplers.configs import VRGCNConfig
from bliss.samplers.control import ControlVariate
from bliss.samplers.neighbor import Neighbor


class VRGCN(ControlVariate, Neighbor):
    """Neighbour sampling with control variates (Chen, Zhu and Song, 2018).

    Each target keeps `budgets[layer]` of its in-edges (by default 2), drawn by `Neighbor` with
    weights alpha_ij / p_ij; `ControlVariate` has the estimator, its state and its cost. Unbiased
    for fixed inputs. Updates change the history, not the probabilities. The paper's treatment of
    dropout is included. Its preprocessing of the first layer is not needed, because the features
    serve as the first layer's history. `VRGCNConfig` has the options.
    """

    Config: ClassVar[type[SamplerConfig]] = VRGCNConfig
