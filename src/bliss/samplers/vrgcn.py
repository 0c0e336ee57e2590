"""VR-GCN: neighbour sampling with a history of every node's input."""

from __future__ import annotations

from typing import ClassVar

from bliss.samplers.config_base import SamplerConfig
from bliss.samplers.configs import VRGCNConfig
from bliss.samplers.neighbor import Neighbor


class VRGCN(Neighbor):
    """Neighbour sampling with control variates (Chen, Zhu and Song, 2018).

    `Neighbor` with a history (`bliss.samplers.history`), by default of 2 in-edges per target, and
    an exact first hop, as in the paper. Unbiased for fixed inputs. Updates change the history, not
    the probabilities. `VRGCNConfig` has the options.
    """

    Config: ClassVar[type[SamplerConfig]] = VRGCNConfig
