"""Datasets from PyG's `HeteroData`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from bliss import checks
from bliss.arrays import Array, IntArray
from bliss.data.dataset import Dataset
from bliss.data.from_data import data_features, data_labels, data_splits
from bliss.data.nodes import Nodes
from bliss.data.splits import SplitSource, read_splits
from bliss.data.typed_nodes import (
    TypedNodes,
    chosen_type,
    labels_of_type,
    reverse_of,
    splits_of_type,
)
from bliss.errors import InputError
from bliss.graph import EdgeType, Graph, Norm
from bliss.graph.conversion import hetero_arguments
from bliss.graph.cutoff import check_times, relation_times


def from_hetero(
    data: Any,
    name: str,
    node_type: str | None,
    norm: Norm,
    undirected: bool,
    time_attr: str | None,
    splits: SplitSource | None,
    split: int,
    task: str,
    seed: int,
) -> Dataset:
    """Make a dataset of a `HeteroData`; see `bliss.data.from_data`."""
    graph = hetero_graph(data, norm, undirected, time_attr)
    types = graph.types
    assert types is not None
    own = chosen_type(types.node_types, node_type, labelled_types(data))
    number = types.num_nodes[own]
    labels = data_labels(data[own], number, task)
    source = data_splits(data[own], split) if splits is None else splits
    parts = read_splits(source, Nodes(number), labels, seed)
    return Dataset.of_arrays(
        name,
        graph,
        np.empty((graph.num_nodes, 0), np.float32),
        labels_of_type(labels, types, own).y,
        splits_of_type(parts, types, own),
        labels.num_classes,
        task=labels.task,
        class_names=labels.names,
        node_time=node_times(data, own, types.num_nodes, time_attr),
        typed=TypedNodes(
            {one: torch.from_numpy(type_features(data, one)) for one in types.node_types}, own
        ),
    )


def labelled_types(data: Any) -> list[str]:
    """Types of a `HeteroData` whose nodes have labels y."""
    return [name for name in data.node_types if getattr(data[name], "y", None) is not None]


def type_features(data: Any, node_type: str) -> Array:
    """Features of the nodes of a type; of width 0 if they have none. float32[n, F]."""
    x, number = getattr(data[node_type], "x", None), int(data[node_type].num_nodes)
    if x is None:
        return np.empty((number, 0), np.float32)
    return data_features(f"data[{node_type!r}].x", x, number)


def node_times(
    data: Any, node_type: str, sizes: Mapping[str, int], time_attr: str | None
) -> IntArray | None:
    """Times of the nodes of one type, 0 of others; None if they have none. int64[V]."""
    given = getattr(data[node_type], time_attr, None) if time_attr else None
    if given is None:
        return None
    own = check_times(f"data[{node_type!r}].{time_attr}", given, sizes[node_type], "node")
    parts = [own if name == node_type else np.zeros(size) for name, size in sizes.items()]
    return np.concatenate(parts, dtype=np.int64, casting="unsafe")


def hetero_graph(data: Any, norm: Norm, undirected: bool, time_attr: str | None = None) -> Graph:
    """The graph of a `HeteroData`, with parallel edges merged and, by choice, reverse relations.

    With times, parallel edges are kept. A reverse edge has the time of its edge or, if edges are as
    old as their sources, of its own source.
    """
    given = hetero_arguments(data, norm, {"edge_ids": False, "time_attr": time_attr})
    time: dict[EdgeType, IntArray] | None = given["time"]
    edges: dict[EdgeType, Array] = {}
    weight: dict[EdgeType, Array] = {}
    for edge_type, pairs in given["edge_index"].items():
        value = None if given["weight"] is None else given["weight"][edge_type]
        if given["weight"] is not None and value is None:
            raise InputError(
                f"data[{edge_type}] has no edge_weight, but edge_weight=True needs one for every "
                "relation: set it, or leave edge_weight out."
            )
        ends = checks.as_array("edge_index", pairs)
        if time is not None:
            ones = np.ones(ends.shape[-1]) if value is None else value
            edges[edge_type], weight[edge_type] = ends, checks.as_array("edge_weight", ones)
            continue
        edges[edge_type], weight[edge_type] = merged(ends, value)
    for edge_type in list(edges) if undirected else ():
        back = reverse_of(edge_type, edges.keys())
        if back is not None:
            edges[back], weight[back] = edges[edge_type][::-1], weight[edge_type]
            if time is not None and time_attr is not None:
                source = edge_type[2], edges[back][0]
                time[back] = relation_times(data, edge_type, time_attr, *source)
    weights = None if given["weight"] is None else weight
    return Graph.from_relations(edges, given["num_nodes"], weights, norm, time=time)


def merged(pairs: Array, weight: Any) -> tuple[Array, Array]:
    """Distinct edges, with the sums of their weights, or 1. [2, E], [E] -> [2, E'], [E']."""
    value = None if weight is None else checks.weights("edge_weight", weight, pairs.shape[-1])
    if pairs.ndim != 2 or len(pairs) != 2 or pairs.dtype.kind not in "iu" or not pairs.size:
        return pairs, np.ones(pairs.shape[-1])  # what is wrong, `Graph.from_relations` says
    side = int(pairs[1].max()) + 1
    key, place = np.unique(pairs[0].astype(np.int64) * side + pairs[1], return_inverse=True)
    distinct = np.stack(np.divmod(key, side))
    return distinct, np.bincount(place, value, minlength=key.size)
