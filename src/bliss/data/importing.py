"""`import_graph`: check a user's own graph files and write them as a store."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np

from bliss import checks
from bliss.data.dataset import check_splits
from bliss.data.edges import make_graph, read_edges
from bliss.data.features import finite_rows, open_features
from bliss.data.labels import read_labels
from bliss.data.manifest import write_header
from bliss.data.npy import write_npy, write_npy_rows
from bliss.data.splits import SplitSource, read_splits
from bliss.data.store import DATASET_FILES, DATASET_FORMAT, DATASET_HEADER, write_graph
from bliss.errors import InputError
from bliss.files import check_space, new_folder

StrPath = str | PathLike[str]


def import_graph(
    out: StrPath,
    *,
    edges: StrPath,
    features: StrPath,
    labels: StrPath | None = None,
    splits: SplitSource = (0.6, 0.2, 0.2),
    weight: StrPath | None = None,
    directed: bool = True,
    seed: int = 0,
    num_nodes: int | None = None,
) -> Path:
    """Check a graph and write it to the new folder `out`. A failure leaves no folder.

    Features are copied in chunks, so they may be larger than memory. Edges, labels and splits must
    fit in memory.

    Parameters
    ----------
    out
        A folder that does not exist yet.
    edges
        .npy: [2, E] or [E, 2]. .npz: a SciPy matrix (entry [j, i] is the edge j -> i; values other
        than 1 are weights), or arrays src, dst and optionally weight. .csv: columns src, dst and
        optionally weight, or unnamed columns in this order. .parquet: columns src, dst and
        optionally weight. Parallel edges are merged, and each node gets one self-loop.
    features
        .npy, .npz (SciPy sparse) or .parquet, one row per node: [V, F].
    labels
        .npy, .csv or .parquet: a class id per node (-1: none), or a matrix of 0 and 1.
    splits
        Three fractions of the labelled nodes, or ids or masks; see `bliss.data.splits`.
    weight
        .npy: one number per edge, if the file of edges has no weights.
    directed
        With False, every edge is used in both directions.
    seed
        Seed of the draw of fractions.
    num_nodes
        Expected number of nodes. Default: the number of rows of the features.

    Returns
    -------
    Path
        The folder, for `open_store` or `load_dataset`.
    """
    folder = checks.path("out", out)
    if folder.exists():
        raise InputError(
            f"out={str(folder)!r} already exists: choose another name, or remove it first."
        )
    checks.whole("seed", seed)
    source = open_features(checks.path("features", features))
    nodes = source.shape[0]
    if num_nodes is not None and checks.whole("num_nodes", num_nodes) != nodes:
        raise InputError(
            f"features has {nodes} rows, but num_nodes={num_nodes}: give each node one row."
        )
    pairs = read_edges(
        checks.path("edges", edges), None if weight is None else checks.path("weight", weight)
    )
    graph = make_graph(pairs, nodes, directed)
    if labels is None:
        y, num_classes = np.full(nodes, -1, np.int64), 0
    else:
        y, num_classes = read_labels(checks.path("labels", labels), nodes)
    is_labelled = y >= 0 if num_classes and y.ndim == 1 else np.ones(nodes, bool)
    parts = read_splits(splits, nodes, np.flatnonzero(is_labelled), seed)
    check_splits(parts, is_labelled.astype(np.int64) - 1, nodes)

    check_space(folder, 4 * source.shape[0] * source.shape[1])
    with new_folder(folder) as scratch:
        rows = finite_rows("features", source.chunks())
        write_npy_rows(scratch / "features.npy", rows, source.shape, np.float32)
        write_graph(graph, scratch)
        write_npy(scratch / "labels.npy", y)
        for name, ids in parts.items():
            write_npy(scratch / f"{name}.npy", ids)
        write_header(
            scratch / DATASET_HEADER,
            {
                "format": DATASET_FORMAT,
                "name": folder.name,
                "num_nodes": nodes,
                "num_edges": graph.num_edges,
                "num_features": source.shape[1],
                "num_classes": num_classes,
                "multilabel": y.ndim == 2,
                "splits": {name: ids.size for name, ids in parts.items()},
            },
            DATASET_FILES,
        )
    return folder
