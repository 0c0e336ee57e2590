"""Networks over blocks, and full-neighbour inference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bliss.lazy import lazy_names
from bliss.nn.config import MODELS, ModelConfig

if TYPE_CHECKING:
    from bliss.nn.inference import full_sampler, infer, infer_layer
    from bliss.nn.model import GNN

__all__ = ["GNN", "MODELS", "ModelConfig", "full_sampler", "infer", "infer_layer"]

__getattr__ = lazy_names(
    __name__,
    {
        "GNN": "bliss.nn.model",
        "full_sampler": "bliss.nn.inference",
        "infer": "bliss.nn.inference",
        "infer_layer": "bliss.nn.inference",
    },
)
