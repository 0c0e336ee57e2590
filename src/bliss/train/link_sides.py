"""Links of a dataset by the settings of a run: their splits, and the nodes that can be ends."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bliss.arrays import FloatArray, IntArray
from bliss.data import Dataset
from bliss.errors import InputError
from bliss.links import LinkSplits, NegativeSampling
from bliss.train.config import TrainConfig


class Sides(NamedTuple):
    """Nodes that can be sources and targets of links; None: all nodes."""

    sources: IntArray | None = None  # int64[N], increasing
    targets: IntArray | None = None  # int64[M], increasing

    def sampling(self, mode: str, number: int, num_nodes: int) -> NegativeSampling:
        """Negatives whose ends are on their sides, otherwise uniform."""
        src_weight, dst_weight = (_weight(one, num_nodes) for one in self)
        return NegativeSampling(mode, number, src_weight if mode == "binary" else None, dst_weight)


ALL_NODES = Sides()


def sides_of(dataset: Dataset, config: TrainConfig) -> Sides:
    """Both sides of a bipartite graph of links, or all nodes."""
    if not config.objective.bipartite:
        return ALL_NODES
    pairs = _pairs(dataset)
    sources, targets = (np.unique(one) for one in pairs)
    if (both := np.intersect1d(sources, targets)).size:
        raise InputError(
            f"bipartite=True, but node {_name(dataset, int(both[0]))} is the source of a link and "
            f"the target of another, as are {both.size - 1} more: import links that all lead from "
            "one side to the other with --label-edges, or leave bipartite out."
        )
    return Sides(sources, targets)


def split_links(dataset: Dataset, config: TrainConfig) -> LinkSplits:
    """Splits of the links of a dataset, as the setting `split` says."""
    objective, given = config.objective, dataset.label_edges
    has_splits = given is not None and given.split is not None
    how = objective.split
    if how == "auto":
        how = "given" if has_splits else "time" if dataset.graph.has_times else "random"
    if how == "given":
        if given is None or given.split is None:
            raise InputError(
                "split='given', but the data has no splits of links: import them with "
                "--label-edges and a column split, or choose split random."
            )
        return LinkSplits.given(dataset.graph, given.pairs, given.split)
    if how == "time":
        if given is not None and given.time is not None:
            pairs, time = given.pairs, given.time
        elif given is None and dataset.graph.has_times:
            pairs, time = LinkSplits.edges_in_time(dataset.graph, config.seed)
        else:
            raise InputError(
                "split='time', but the data has no times of links: import edges with "
                "--time-column, or links with --label-edges and a column time, or choose split "
                "random."
            )
        shares, window = objective.edge_split, objective.test_window
        return LinkSplits.by_time(dataset.graph, pairs, time, shares, window)
    chosen = None if given is None else given.pairs
    return LinkSplits.random(dataset.graph, objective.edge_split, config.seed, chosen)


def _pairs(dataset: Dataset) -> IntArray:
    """All links. int64[2, P]."""
    if dataset.label_edges is not None:
        return dataset.label_edges.pairs
    graph = dataset.graph
    target = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    pairs = np.stack([graph.indices.astype(np.int64), target])
    return pairs[:, pairs[0] != pairs[1]]


def _weight(nodes: IntArray | None, num_nodes: int) -> FloatArray | None:
    if nodes is None:
        return None
    weight = np.zeros(num_nodes)
    weight[nodes] = 1
    return weight


def _name(dataset: Dataset, node: int) -> str:
    return str(node if dataset.node_names is None else dataset.node_names[node])
