"""Samplers: seeds become blocks. One file per family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bliss.lazy import lazy_names
from bliss.samplers.configs import SAMPLERS, SamplerConfig, sampler_config

if TYPE_CHECKING:
    from bliss.samplers.asgcn import ASGCN
    from bliss.samplers.base import Sampler
    from bliss.samplers.bliss import Bliss
    from bliss.samplers.cluster import ClusterGCN
    from bliss.samplers.fastgcn import FastGCN
    from bliss.samplers.full import Full
    from bliss.samplers.gcnbs import GATBS, GCNBS
    from bliss.samplers.labor import LABOR
    from bliss.samplers.ladies import LADIES
    from bliss.samplers.layerwise import Inclusion, LayerSampler
    from bliss.samplers.neighbor import Neighbor
    from bliss.samplers.nodewise import EdgeInclusion, EdgeSampler, NodeSampler
    from bliss.samplers.pladies import PLADIES
    from bliss.samplers.saint import SaintEdge, SaintNode, SaintWalk
    from bliss.samplers.sketch import SKETCH
    from bliss.samplers.vrgcn import VRGCN

_MODULES = {
    "asgcn": ("ASGCN",),
    "base": ("Sampler",),
    "bliss": ("Bliss",),
    "cluster": ("ClusterGCN",),
    "fastgcn": ("FastGCN",),
    "full": ("Full",),
    "gcnbs": ("GATBS", "GCNBS"),
    "labor": ("LABOR",),
    "ladies": ("LADIES",),
    "layerwise": ("Inclusion", "LayerSampler"),
    "neighbor": ("Neighbor",),
    "nodewise": ("EdgeInclusion", "EdgeSampler", "NodeSampler"),
    "pladies": ("PLADIES",),
    "saint": ("SaintEdge", "SaintNode", "SaintWalk"),
    "sketch": ("SKETCH",),
    "vrgcn": ("VRGCN",),
}

__all__ = [
    "ASGCN",
    "GATBS",
    "GCNBS",
    "LABOR",
    "LADIES",
    "PLADIES",
    "SAMPLERS",
    "SKETCH",
    "VRGCN",
    "Bliss",
    "ClusterGCN",
    "EdgeInclusion",
    "EdgeSampler",
    "FastGCN",
    "Full",
    "Inclusion",
    "LayerSampler",
    "Neighbor",
    "NodeSampler",
    "SaintEdge",
    "SaintNode",
    "SaintWalk",
    "Sampler",
    "SamplerConfig",
    "sampler_config",
]

__getattr__ = lazy_names(
    __name__, {name: f"bliss.samplers.{file}" for file, names in _MODULES.items() for name in names}
)
