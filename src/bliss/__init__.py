"""bliss: train graph neural networks with layer-wise samplers that learn where to look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bliss.lazy import lazy_names

if TYPE_CHECKING:
    from bliss.block import Block, Control, Observation
    from bliss.errors import InputError
    from bliss.feedback import Feedback
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

__version__ = "0.1.0"

_MODULES = {
    "bliss.block": ("Block", "Control", "Observation"),
    "bliss.errors": ("InputError",),
    "bliss.feedback": ("Feedback",),
    "bliss.graph": ("Graph",),
    "bliss.loader": ("BlockLoader",),
    "bliss.policies": ("Exp3Config", "NodeConfig", "Policy"),
    "bliss.samplers": (
        "ASGCN",
        "GATBS",
        "GCNBS",
        "LABOR",
        "LADIES",
        "PLADIES",
        "SKETCH",
        "VRGCN",
        "Bliss",
        "ClusterGCN",
        "FastGCN",
        "Full",
        "LayerSampler",
        "Neighbor",
        "NodeSampler",
        "SaintEdge",
        "SaintNode",
        "SaintWalk",
        "Sampler",
    ),
}

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
    "Control",
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
    "Observation",
    "Policy",
    "SaintEdge",
    "SaintNode",
    "SaintWalk",
    "Sampler",
    "__version__",
]

__getattr__ = lazy_names(
    __name__, {name: module for module, names in _MODULES.items() for name in names}
)
