"""bliss: train graph neural networks with layer-wise samplers that learn where to look.

Public names are imported on first use, so `import bliss` loads neither torch nor numba.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_MODULES = {
    "Block": "types",
    "BlockLoader": "loader",
    "Exp3Config": "policies",
    "Feedback": "types",
    "Graph": "graph",
    "InputError": "errors",
    "NodeConfig": "policies",
    "Policy": "policies",
}  # every other name: samplers

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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES.get(name, 'samplers')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
