"""Datasets from PyG's `Data`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from bliss import checks
from bliss.arrays import Array, IntArray
from bliss.data.dataset import SPLITS, Dataset
from bliss.data.edges import Edges, find_nodes, make_graph
from bliss.data.labels import Labels, make_labels, no_labels
from bliss.data.nodes import Nodes
from bliss.data.splits import SplitSource, read_splits
from bliss.data.summary import import_summary
from bliss.data.timestamps import NUMBER, Times
from bliss.errors import InputError
from bliss.graph import WEIGHTED, Norm
from bliss.graph.conversion import adjacency_of, library_of
from bliss.graph.cutoff import check_times, times_of


def from_data(
    data: Any,
    name: str = "data",
    *,
    splits: SplitSource | None = None,
    split: int = 0,
    edge_weight: bool = False,
    norm: Norm = "weighted-mean",
    undirected: bool = False,
    task: str = "auto",
    seed: int = 0,
    time_attr: str | None = None,
    node_type: str | None = None,
) -> Dataset:
    """Make a dataset of a PyG `Data` or `HeteroData`, for training, comparisons and studies.

    Parallel edges are merged, unless they have times. Each node of a `Data` gets one self-loop, as
    in a store. Of a `HeteroData`, the nodes of one type have labels y and masks, and a type may
    lack x.

    Parameters
    ----------
    data
        `Data` with x [V, F], y and edge_index or adj_t. y is int64[V] classes (-1: none), [V, C] of
        0 and 1, or float [V] or [V, T] targets of a regression.
    name
        Name of the dataset in results.
    splits
        Three fractions of the labelled nodes, or ids or masks by train, val and test. Default: the
        masks train_mask, val_mask and test_mask; without masks (0.6, 0.2, 0.2).
    split
        Column of masks [V, k], which hold k splits.
    edge_weight
        Whether to use data.edge_weight, or the values of adj_t.
    norm
        Aggregation coefficients with edge_weight: "weighted-mean", or "weights", their sum.
    undirected
        Whether to add the reverse of each edge; of a `HeteroData`, as relations called rev_...
    task
        "classes", "labels", "regression", or "auto": by the type of y.
    seed
        Seed of the draw of fractions.
    node_type
        Type of the nodes with labels, of a `HeteroData`; by default the only one that has y.
    time_attr
        Attribute with the times of edges, or of nodes: an edge is then as old as its source. Of a
        `HeteroData`, each relation or its type of sources has its own (`Graph.of`); the nodes with
        labels are split by their times, if they have some.
    """
    checks.choice("norm", norm, WEIGHTED)
    if library_of(data) == "torch_geometric.HeteroData":
        from bliss.data.from_hetero import from_hetero

        weights = norm if checks.flag("edge_weight", edge_weight) else "mean"
        how = node_type, weights, undirected, time_attr
        return from_hetero(data, name, *how, splits, split, task, seed)
    if node_type is not None:
        raise InputError(
            f"node_type={node_type!r} was given, but a Data has no types: leave it out."
        )
    time = time_attr or ""
    features, edges, labels = data_parts(data, edge_weight, task, time)
    nodes = Nodes(len(features))
    edges = find_nodes(edges, nodes)
    node_time = data_node_times(data, time)
    graph = make_graph(edges, nodes.number, not undirected, norm, node_time)
    source = data_splits(data, split) if splits is None else splits
    return Dataset.of_arrays(
        name,
        graph,
        features,
        labels.y,
        read_splits(source, nodes, labels, seed),
        labels.num_classes,
        task=labels.task,
        class_names=labels.names,
        imported=import_summary(edges, graph, not undirected, ()),
        node_time=node_time,
    )


def data_parts(
    data: Any, edge_weight: bool, task: str, time: str = ""
) -> tuple[Array, Edges, Labels]:
    """Features float32[V, F], edges and labels of a `Data`; `time` names the attribute of times."""
    kind = library_of(data)
    if kind != "torch_geometric.Data":
        raise InputError(
            f"{type(data).__name__} is not a PyG Data: pass Data(x=..., edge_index=..., y=...)."
        )
    x = getattr(data, "x", None)
    if x is None:
        raise InputError("data.x is missing, but features are needed: set it, [V, F].")
    features = data_features("data.x", x, len(x))
    labels = data_labels(data, len(x), task)
    edges = _edges(data, checks.flag("edge_weight", edge_weight))
    if time:
        edges = edges._replace(time=Times(times_of(data, time), NUMBER))
    return features, edges, labels


def data_node_times(data: Any, time: str) -> IntArray | None:
    """Times of the nodes of a `Data`; None if the attribute is of edges, or is not named."""
    if not time or not data.is_node_attr(time) or data.is_edge_attr(time):
        return None
    return check_times(f"data.{time}", getattr(data, time), int(data.num_nodes), "node")


def data_features(field: str, x: Any, number: int) -> Array:
    """Features of `number` nodes, dense. float32[n, F]."""
    if not isinstance(x, torch.Tensor):
        raise InputError(f"{field} is a {type(x).__name__}, but must be a tensor: convert it.")
    return checks.features(x.to_dense() if x.layout != torch.strided else x, number)


def data_splits(data: Any, split: int = 0) -> Mapping[str, Array] | None:
    """Masks of a `Data` by split; None without a mask."""
    splits = {}
    for name in SPLITS:
        mask = getattr(data, f"{name}_mask", None)
        if mask is None:
            continue
        array = checks.as_array(f"{name}_mask", mask)
        if array.ndim == 2:
            if checks.whole("split", split) >= array.shape[1]:
                raise InputError(
                    f"split={split} is not a column of {name}_mask, which has {array.shape[1]}: "
                    "choose a smaller one."
                )
            array = array[:, split]
        if array.dtype.kind != "b":
            raise InputError(
                f"data.{name}_mask has type {array.dtype}, but must be bool: convert it."
            )
        if array.any():
            splits[name] = array
    return splits or None


def data_labels(data: Any, number: int, task: str) -> Labels:
    """Labels of a `Data`, or of the nodes of one type; none without y."""
    y = getattr(data, "y", None)
    return no_labels(number) if y is None else _labels(checks.as_array("y", y), number, task)


def _labels(y: Array, number: int, task: str) -> Labels:
    """Labels whose classes keep their numbers, also if some have no nodes."""
    if y.ndim == 2 and y.shape[1] == 1 and task != "labels":
        y = y[:, 0]
    labels = make_labels(y, number, task)
    if labels.task != "classes" or not labels.names:
        return labels
    numbers = np.where(labels.y >= 0, y, -1).astype(np.int64)
    if numbers.max() >= number:
        return labels
    return Labels(numbers, "classes", int(numbers.max()) + 1)


def _edges(data: Any, edge_weight: bool) -> Edges:
    if data.edge_index is None:
        adjacency = adjacency_of(data)
        if adjacency is None:
            raise InputError("data has neither edge_index nor adj_t: set one of them.")
        source, target = adjacency.edge_index
        return Edges(source, target, adjacency.weight if edge_weight else None)
    pairs = checks.as_array("edge_index", data.edge_index)
    if pairs.ndim != 2 or len(pairs) != 2:
        raise InputError(
            f"data.edge_index has shape {pairs.shape}, but must be [2, E], sources over targets: "
            "transpose it if it is [E, 2]."
        )
    weight = getattr(data, "edge_weight", None)
    if edge_weight and weight is None:
        raise InputError(
            "edge_weight=True, but data.edge_weight is missing: set it, or pass False."
        )
    value = checks.as_array("edge_weight", weight).reshape(-1) if edge_weight else None
    return Edges(pairs[0], pairs[1], value)
