"""bliss: train graph neural networks with layer-wise samplers that learn where to look."""

from bliss.errors import InputError
from bliss.graph import Graph
from bliss.loader import BlockLoader
from bliss.policies import Exp3Config, NodeConfig, Policy
from bliss.samplers import LADIES, PLADIES, SKETCH, Bliss, LayerSampler, Sampler
from bliss.types import Block, Feedback

__version__ = "0.1.0"

__all__ = [
    "LADIES",
    "PLADIES",
    "SKETCH",
    "Bliss",
    "Block",
    "BlockLoader",
    "Exp3Config",
    "Feedback",
    "Graph",
    "InputError",
    "LayerSampler",
    "NodeConfig",
    "Policy",
    "Sampler",
    "__version__",
]
