"""Graphs, networks, samplers, and the sizes that are tried for each sampler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bliss.data import Dataset, load_dataset
from bliss.train import TrainConfig, resolve
from experiments.graphs import three_hops, with_large_split

Sizes = dict[str, tuple[tuple[int, int], ...]]
"""Batch sizes and budgets (0: none) that are tried, by sampler."""

LINEAR = (
    "bliss+history",
    "pladies+history",
    "vrgcn",
    "bliss+exact",
    "pladies+exact",
    "neighbor+exact",
    "bliss",
    "pladies",
    "saint-rw",
    "cluster",
    "random-nodes",
    "labor",
    "neighbor",
    "full",
)
"""Samplers of networks with fixed coefficients; `+exact`: with an exact first hop."""
ATTENTION = tuple(name for name in LINEAR if "+" not in name and name != "vrgcn")
SAMPLERS = {"sage": LINEAR, "gatv2": ATTENTION}
TITLES = {"sage": "GraphSAGE", "gatv2": "GATv2"}


@dataclass(frozen=True)
class Graphs:
    """A data set, the settings of its networks, and the sizes that are tried."""

    title: str
    load: Callable[[Path | None], Dataset]
    settings: dict[str, Any]
    estimator: str  # of layer-wise samplers without a history
    sizes: Sizes


def _sizes(
    neighbours: tuple[tuple[int, int], ...],
    sources: tuple[tuple[int, int], ...],
    changes: tuple[tuple[int, int], ...],
    neighbour_changes: tuple[tuple[int, int], ...],
    walks: tuple[int, ...],
    clustered: tuple[int, ...],
    nodes: tuple[int, ...],
    seeds: tuple[int, ...],
) -> Sizes:
    return {
        "neighbor": neighbours,
        "neighbor+exact": neighbours,
        "labor": neighbours,
        "pladies": sources,
        "bliss": sources,
        "pladies+exact": sources,
        "bliss+exact": sources,
        "pladies+history": changes,
        "bliss+history": changes,
        "vrgcn": neighbour_changes,
        "saint-rw": tuple((number, 0) for number in walks),
        "cluster": tuple((number, 0) for number in clustered),
        "random-nodes": tuple((number, 0) for number in nodes),
        "full": tuple((number, 0) for number in seeds),
    }


_SMALL = _sizes(
    neighbours=((256, 5), (1024, 10)),
    sources=((256, 512), (1024, 2048)),
    changes=((256, 256), (1024, 1024)),
    neighbour_changes=((256, 1), (1024, 2)),
    walks=(512, 2048),
    clustered=(512, 2048),
    nodes=(2048, 8192),
    seeds=(256, 1024),
)
_NARROW = {"layers": 3, "hidden": 128, "lr": 0.005, "normalisation": "batch", "dropout": 0.0}
GRAPHS = {
    "ppi": Graphs(
        title="PPI",
        load=lambda root: load_dataset("ppi", root),
        settings={
            "layers": 3,
            "hidden": 256,
            "lr": 0.01,
            "normalisation": "batch",
            "dropout": 0.0,
            "features": "raw",
        },
        estimator="hajek",
        sizes=_sizes(
            neighbours=((512, 10), (2048, 10), (512, 5)),
            sources=((512, 1024), (2048, 8192), (512, 4096)),
            changes=((512, 512), (256, 512), (1024, 1024)),
            neighbour_changes=((512, 1), (256, 1), (1024, 2)),
            walks=(4096, 1024, 2048),
            clustered=(1024, 2048, 512),
            nodes=(4096, 8192, 2048),
            seeds=(512, 256, 2048),
        ),
    ),
    "three-hops": Graphs(
        title="synthetic, 200,000 nodes",
        load=lambda root: three_hops(),
        settings=_NARROW,
        estimator="ht",
        sizes=_sizes(
            neighbours=((512, 5), (512, 10)),
            sources=((512, 2048), (512, 8192)),
            changes=((512, 1024), (512, 4096)),
            neighbour_changes=((512, 1), (512, 4)),
            walks=(2048, 8192),
            clustered=(2048, 8192),
            nodes=(8192, 32768),
            seeds=(128, 512),
        ),
    ),
    "pubmed": Graphs(
        title="PubMed",
        load=lambda root: with_large_split(load_dataset("pubmed", root)),
        settings={**_NARROW, "features": "row"},
        estimator="hajek",
        sizes=_SMALL,
    ),
    "physics": Graphs(
        title="Physics",
        load=lambda root: with_large_split(load_dataset("physics", root)),
        settings=_NARROW,
        estimator="hajek",
        sizes=_SMALL,
    ),
}
NETWORKS: dict[str, dict[str, Any]] = {
    "sage": {"model": "sage"},
    "gatv2": {"model": "gatv2", "residual": True, "input_residual": True, "attention_dropout": 0.0},
}


def config(
    graph: str, network: str, sampler: str, batch_size: int, budget: int, **more: Any
) -> TrainConfig:
    """Settings of a run; the budget is that of every sampled layer."""
    name, _, extra = sampler.partition("+")
    given: dict[str, Any] = {"dataset": graph, **GRAPHS[graph].settings, **NETWORKS[network]}
    given |= {"sampler": name, "batch_size": batch_size, "schedule": "linear", "patience": 0}
    has_history = extra == "history" or name == "vrgcn"
    is_exact = has_history or extra == "exact"
    if budget:
        given["budgets"] = (budget,) * (given["layers"] - is_exact)
        given["history"] = "nodes" if has_history else "none"
        given["first_hop"] = "exact" if is_exact else "sampled"
    if name in ("bliss", "pladies") and not has_history:
        given["estimator"] = GRAPHS[graph].estimator
    return resolve(**(given | more))
