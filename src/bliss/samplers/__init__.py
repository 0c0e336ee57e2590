"""Samplers: seeds become blocks. One file per family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import partial
from inspect import Parameter, signature
from typing import cast

from bliss import checks
from bliss.policies import POLICIES
from bliss.samplers.asgcn import ASGCN
from bliss.samplers.base import Sampler
from bliss.samplers.bliss import Bliss
from bliss.samplers.cluster import ClusterGCN
from bliss.samplers.fastgcn import FastGCN
from bliss.samplers.full import Full
from bliss.samplers.gcnbs import GATBS, GCNBS
from bliss.samplers.labor import CONVERGED, LABOR
from bliss.samplers.ladies import LADIES
from bliss.samplers.layerwise import Inclusion, LayerSampler
from bliss.samplers.neighbor import Neighbor
from bliss.samplers.nodewise import EdgeInclusion, EdgeSampler, NodeSampler
from bliss.samplers.pladies import PLADIES
from bliss.samplers.saint import SaintEdge, SaintNode, SaintWalk
from bliss.samplers.sketch import SKETCH
from bliss.samplers.vrgcn import VRGCN

SAMPLERS: dict[str, Callable[..., Sampler]] = {
    "ladies": LADIES,
    "sketch": SKETCH,
    "pladies": PLADIES,
    "bliss": Bliss,
    "full": Full,
    "neighbor": Neighbor,
    "labor": LABOR,
    "labor-0": partial(LABOR, iterations=0),
    "labor-1": partial(LABOR, iterations=1),
    "labor-*": partial(LABOR, iterations=CONVERGED),
    "fastgcn": FastGCN,
    "asgcn": ASGCN,
    "gcn-bs": GCNBS,
    "gat-bs": GATBS,
    "cluster": ClusterGCN,
    "saint-node": SaintNode,
    "saint-edge": SaintEdge,
    "saint-rw": SaintWalk,
    "vrgcn": VRGCN,
}
"""Samplers by the names of the command line."""


def sampler_class(name: str) -> type[Sampler]:
    """The class behind a name of `SAMPLERS`, whatever options the name fixes."""
    made = SAMPLERS[checks.choice("sampler", name, list(SAMPLERS))]
    return cast("type[Sampler]", made.func if isinstance(made, partial) else made)


def sampler_options(name: str, policy: str = "") -> list[str]:
    """What a sampler, and its policy, can be told besides the settings that all samplers share."""
    kind = sampler_class(name)
    made = SAMPLERS[name]
    shared = {"seed", "norm", "layers", "x", "draw", "policy", "estimator", "thinning"}
    fixed = set(made.keywords) if isinstance(made, partial) else set()
    found = [
        parameter.name
        for parameter in signature(kind).parameters.values()
        if parameter.kind is Parameter.KEYWORD_ONLY
    ]
    config = POLICIES.get(policy)
    if "policy" in kind.choices and is_dataclass(config):
        found += [field.name for field in fields(config)]
    return [option for option in dict.fromkeys(found) if option not in shared | fixed]


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
    "sampler_class",
    "sampler_options",
]
