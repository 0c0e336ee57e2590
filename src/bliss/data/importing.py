"""`import_graph`: check a user's own graph files and write them as a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bliss import checks
from bliss.data.dataset import check_splits, labelled
from bliss.data.edges import Edges, find_nodes, make_graph, read_edges
from bliss.data.features import FeatureSource, finite_rows, open_features
from bliss.data.labels import AUTO, Labels, no_labels, read_labels
from bliss.data.nodes import Nodes, nodes_of
from bliss.data.saving import Content, check_new, write_store
from bliss.data.splits import SplitSource, read_splits
from bliss.data.store import StrPath
from bliss.data.summary import import_summary
from bliss.errors import InputError

SHARES = (0.6, 0.2, 0.2)
"""Default shares of train, validation and test nodes."""


@dataclass(frozen=True)
class Parts:
    """What a reader of files found."""

    nodes: Nodes
    edges: Edges
    features: FeatureSource
    labels: Labels
    splits: SplitSource | None = None  # None: the files have no splits
    notes: tuple[str, ...] = ()
    is_undirected: bool = False  # whether the file says that its edges have no direction


def import_graph(
    out: StrPath,
    *,
    edges: StrPath | None = None,
    features: StrPath | None = None,
    labels: StrPath | None = None,
    graph: StrPath | None = None,
    splits: SplitSource | None = None,
    weight: StrPath | None = None,
    directed: bool = True,
    label: str = "",
    feature_columns: Sequence[str] = (),
    task: str = "auto",
    seed: int = 0,
    num_nodes: int | None = None,
) -> Path:
    """Check a graph and write it to the new folder `out`. A failure leaves no folder.

    Features in .npy or .parquet files are copied in chunks, so they may be larger than memory.
    Everything else must fit in memory. docs/graphs.md describes all formats.

    Parameters
    ----------
    out
        A folder that does not exist yet.
    edges
        .npy: [2, E] or [E, 2]. .npz: a SciPy matrix (entry [j, i] is the edge j -> i; values other
        than 1 are weights), or arrays src, dst and optionally weight. .csv and .parquet: columns
        src, dst and optionally weight; others are ignored. Parallel edges are merged, and each node
        gets one self-loop.
    features
        .npy, .npz (SciPy sparse), .csv or .parquet, one row per node: [V, F]. A table may have the
        ids of nodes in a first column called id. They can be any numbers or names; edges, labels
        and splits then use them.
    labels
        .npy, .csv or .parquet: a class per node (a number, -1 for none, or text), a matrix of 0
        and 1, or numbers to predict.
    graph
        A file or folder with all of these, in the place of edges, features and labels: .pt of a PyG
        `Data`, .graphml, .gexf, or a folder of an OGB node property data set.
    splits
        Three fractions of the labelled nodes, or ids or masks; see `bliss.data.splits`. Default:
        those of `graph`, otherwise (0.6, 0.2, 0.2).
    weight
        .npy: one number per edge, if the file of edges has no weights.
    directed
        With False, every edge is used in both directions.
    label
        Column of the labels, or node attribute of `graph`. Default: every column but the ids.
    feature_columns
        Columns of the features, or node attributes of `graph`. Default: every column but the ids
        and the label.
    task
        "classes", "labels" (several per node), "regression", or "auto": by the type of the labels.
    seed
        Seed of the draw of fractions.
    num_nodes
        Expected number of nodes. Default: the number of rows of the features.

    Returns
    -------
    Path
        The folder, for `open_store` or `load_dataset`.
    """
    folder = check_new(out)
    checks.whole("seed", seed)
    checks.choice("task", task, AUTO)
    given = {"edges": edges, "features": features, "labels": labels, "weight": weight}
    if graph is not None:
        beside = [name for name, value in given.items() if value is not None]
        if beside:
            raise InputError(
                f"{', '.join(beside)} was given beside graph={str(graph)!r}, which holds "
                "everything: leave it out."
            )
        from bliss.data.foreign import read_graph_file

        parts = read_graph_file(checks.path("graph", graph), label, tuple(feature_columns), task)
    elif edges is None or features is None:
        missing = "edges" if edges is None else "features"
        raise InputError(
            f"{missing}=None must be the path of a file: pass edges and features, or graph alone."
        )
    else:
        parts = _read_parts(edges, features, labels, weight, label, tuple(feature_columns), task)
    if num_nodes is not None and checks.whole("num_nodes", num_nodes) != parts.nodes.number:
        raise InputError(
            f"features has {parts.nodes.number} rows, but num_nodes={num_nodes}: give each node "
            "one row."
        )
    if splits is not None:
        parts = replace(parts, splits=splits)
    directed = directed and not parts.is_undirected
    return write_store(folder, _content(parts, directed, seed))


def _read_parts(
    edges: StrPath,
    features: StrPath,
    labels: StrPath | None,
    weight: StrPath | None,
    label: str,
    columns: tuple[str, ...],
    task: str,
) -> Parts:
    """Read the files of edges, features and labels."""
    place = checks.path("features", features)
    target = None if labels is None else checks.path("labels", labels)
    if label and target is None:
        raise InputError(f"label={label!r} was given without labels: pass the file of the labels.")
    is_shared = bool(label) and target is not None and target.resolve() == place.resolve()
    source = open_features(place, columns, (label,) if is_shared else ())
    nodes = nodes_of(source.ids, source.shape[0])
    pairs = read_edges(
        checks.path("edges", edges), None if weight is None else checks.path("weight", weight)
    )
    found = no_labels(nodes.number) if target is None else read_labels(target, nodes, label, task)
    return Parts(nodes, pairs, source, found)


def _content(parts: Parts, directed: bool, seed: int) -> Content:
    """Graph, labels and splits, checked."""
    nodes, labels = parts.nodes, parts.labels
    edges = find_nodes(parts.edges, nodes)
    graph = make_graph(edges, nodes.number, directed)
    is_labelled = labelled(labels.y, labels.task, labels.num_classes)
    source = SHARES if parts.splits is None else parts.splits
    splits = read_splits(source, nodes, np.flatnonzero(is_labelled), seed)
    missing = "target (NaN)" if labels.task == "regression" else "label (-1)"
    check_splits(splits, is_labelled, nodes.number, missing)
    notes = [*parts.notes, *edges.notes, *parts.features.notes, *labels.notes]
    return Content(
        graph=graph,
        rows=finite_rows("features", parts.features.chunks()),
        shape=parts.features.shape,
        labels=labels,
        splits=splits,
        names=nodes.names,
        summary=import_summary(edges, graph, directed, notes),
    )
