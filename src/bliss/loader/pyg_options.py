"""Options of PyG's loaders that have no meaning here, each with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bliss import checks
from bliss.errors import InputError

_LINKS = "links have a loader of their own: use bliss.LinkLoader"
_WORKERS = "batches are drawn in this process, where the policy learns: use prefetch=1 instead"
REFUSED = {
    "num_neighbors": "numbers belong to the sampler: pass bliss.Neighbor(data, budgets=[...])",
    "disjoint": "seeds share their sources, which is what layer-wise sampling saves; with times, "
    "bliss.Neighbor sees exactly what each seed may see: leave it out, or use batch_size=1 for one "
    "graph per seed",
    "replace": "draws belong to the sampler: pass bliss.Neighbor(data, budgets, replace=True)",
    "weight_attr": 'weights belong to the graph: pass norm="weights" to the sampler',
    "temporal_strategy": "draws belong to the sampler: pass bliss.Neighbor(data, budgets, "
    'time_attr="time", temporal_strategy="last")',
    "is_sorted": "the graph is sorted when it is built: leave it out",
    "edge_label_time": _LINKS,
    "edge_label_index": _LINKS,
    "edge_label": _LINKS,
    "neg_sampling": _LINKS,
    "neg_sampling_ratio": _LINKS,
    "persistent_workers": _WORKERS,
    "prefetch_factor": _WORKERS,
    "worker_init_fn": _WORKERS,
    "multiprocessing_context": _WORKERS,
    "filter_per_worker": _WORKERS,
    "generator": "the order of batches comes from the sampler's seed: pass seed=... to the sampler",
    "directed": "blocks hold the edges that lead to their targets: leave it out",
}
"""Options of PyG's NeighborLoader that have no meaning here, and why."""
_SUBGRAPHS = {
    "bidirectional": "a block holds the edges that lead to its targets alone: add the reverse "
    "edges to the data",
    "induced": "a block holds the edges that lead to its targets alone: use a subgraph sampler "
    "such as bliss.SaintWalk",
}


def refuse_options(loader: str, options: Mapping[str, Any], subgraph_type: str) -> None:
    """Refuse options of PyG's loaders that would have no effect."""
    checks.choice("subgraph_type", subgraph_type, ("directional", *_SUBGRAPHS))
    if subgraph_type != "directional":
        raise InputError(f"subgraph_type={subgraph_type!r}: {_SUBGRAPHS[subgraph_type]}.")
    for name, value in options.items():
        if name not in REFUSED:
            raise TypeError(f"{loader} got an unexpected keyword argument {name!r}")
        if value is not None and value is not False:
            shown = f"{name}={value!r}" if isinstance(value, (str, int, float)) else name
            raise InputError(f"{shown} is not an option of {loader}: {REFUSED[name]}.")
