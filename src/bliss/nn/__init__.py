"""Networks over blocks, and full-neighbour inference."""

from bliss.nn.inference import full_sampler, infer, infer_layer
from bliss.nn.model import GNN, MODELS, ModelConfig

__all__ = ["GNN", "MODELS", "ModelConfig", "full_sampler", "infer", "infer_layer"]
