"""bliss: train graph neural networks with layer-wise samplers that learn where to look."""

from bliss.errors import InputError
from bliss.graph import Graph
from bliss.loader import BlockLoader
from bliss.policies import Exp3Config, NodeConfig, Policy
from bliss.samplers import (
    ASGCN,
    GATBS,
    GCNBS,
    LABOR,
    LADIES,
    PLADIES,
    SKETCH,
    VRGCN,
    Bliss,
    ClusterGCN,
    FastGCN,
    Full,
    LayerSampler,
    Neighbor,
    NodeSampler,
    SaintEdge,
    SaintNode,
    SaintWalk,
    Sampler,
)
from bliss.types import Block, Feedback

__version__ = "0.1.0"

__all__ = [
    "ASGCN",
    "GATBS",
    "GCNBS",
    "LABOR",
    "LADIES",
    "PLADIES",
    "SKETCH",
    "VRGCN",
    "Bliss",
    "Block",
    "BlockLoader",
    "ClusterGCN",
    "Exp3Config",
    "FastGCN",
    "Feedback",
    "Full",
    "Graph",
    "InputError",
    "LayerSampler",
    "Neighbor",
    "NodeConfig",
    "NodeSampler",
    "Policy",
    "SaintEdge",
    "SaintNode",
    "SaintWalk",
    "Sampler",
    "__version__",
]
