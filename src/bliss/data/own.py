"""A person's own graph: files of many forms in, a store of memory-mapped files out.

The store is a graph folder (see `bliss.data.store`) with four kinds of files more:

    dataset.json                    format, name, sizes
    features.npy                    float32[V, F]
    labels.npy                      int64[V], or float32[V, C]
    train.npy, val.npy, test.npy    int64 ids
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bliss import checks
from bliss.data.arrays import map_npy_private, read_npy
from bliss.data.dataset import SPLITS, Array, Dataset, check_splits
from bliss.data.edges import make_graph, read_edges
from bliss.data.features import finite_rows, open_features
from bliss.data.labels import read_labels
from bliss.data.splits import SplitSource, read_splits
from bliss.data.store import (
    fresh_folder,
    open_graph,
    read_json,
    write_graph,
    write_json,
    write_npy,
    write_npy_rows,
)
from bliss.errors import InputError

FORMAT = "bliss-dataset-1"
HEADER = "dataset.json"

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
    """Check a graph and write it to the folder `out`, whole or not at all.

    Features are read and written in pieces, so they may be larger than memory; edges, labels and
    splits are held in memory.

    Parameters
    ----------
    out
        A folder that does not exist yet.
    edges
        .npy [2, E] or [E, 2]; .npz, a SciPy matrix (entry [j, i] is the edge j -> i, values
        other than 1 are weights) or arrays src, dst and maybe weight; .csv with the columns src,
        dst and maybe weight, or with two or three of no known names, in this order; .parquet with
        columns src, dst and maybe weight. Parallel edges are merged, and each node gets one
        self-loop.
    features
        .npy, .npz (SciPy sparse) or .parquet, one row per node: [V, F].
    labels
        .npy, .csv or .parquet: a class id per node, -1 for none, or a matrix of 0 and 1.
    splits
        Three shares of the labelled nodes, or ids or masks: see `bliss.data.splits.read_splits`.
    weight
        .npy, one number per edge, where the edges' own file has none.
    directed
        False: each edge also runs the other way.
    seed
        Which nodes a share picks.
    num_nodes
        V, as a check: it is the number of rows of the features.

    Returns
    -------
    Path
        The folder, which `open_store` and `load_dataset` open.
    """
    folder = Path(out)
    if folder.exists():
        raise InputError(
            f"out={str(folder)!r} exists already: choose another name or remove it first."
        )
    checks.whole("seed", seed)
    source = open_features(Path(features))
    nodes = source.shape[0]
    if num_nodes is not None and checks.whole("num_nodes", num_nodes) != nodes:
        raise InputError(
            f"features has {nodes} rows, but num_nodes={num_nodes}: give each node one row."
        )
    graph = make_graph(
        read_edges(Path(edges), None if weight is None else Path(weight)), nodes, directed
    )
    if labels is None:
        y, num_classes = np.full(nodes, -1, np.int64), 0
    else:
        y, num_classes = read_labels(Path(labels), nodes)
    is_labelled = y >= 0 if num_classes and y.ndim == 1 else np.ones(nodes, bool)
    parts = read_splits(splits, nodes, np.flatnonzero(is_labelled), seed)
    check_splits(parts, is_labelled.astype(np.int64) - 1, nodes)

    with fresh_folder(folder) as scratch:
        rows = finite_rows("features", source.chunks())
        write_npy_rows(scratch / "features.npy", rows, source.shape, np.float32)
        write_graph(graph, scratch)
        write_npy(scratch / "labels.npy", y)
        for name, ids in parts.items():
            write_npy(scratch / f"{name}.npy", ids)
        write_json(
            scratch / HEADER,
            {
                "format": FORMAT,
                "name": folder.name,
                "num_nodes": nodes,
                "num_edges": graph.num_edges,
                "num_features": source.shape[1],
                "num_classes": num_classes,
                "multilabel": y.ndim == 2,
                "splits": {name: ids.size for name, ids in parts.items()},
            },
        )
    return folder


def open_store(folder: StrPath) -> Dataset:
    """Map a folder that `import_graph` wrote; features and labels are not read whole."""
    path = Path(folder)
    if not (path / HEADER).exists():
        raise InputError(
            f"folder={str(path)!r} has no {HEADER}: make a store with import_graph, or with "
            "bliss data import."
        )
    header = read_json(path / HEADER, "import the graph again")
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(f"{path / HEADER} is not of format {FORMAT!r}: import the graph again.")
    x = _typed(path / "features.npy", map_npy_private(path / "features.npy"), np.float32)
    y = _typed(path / "labels.npy", map_npy_private(path / "labels.npy"), np.float32, np.int64)
    graph = open_graph(path)
    files = {name: path / f"{name}.npy" for name in SPLITS}
    splits = {name: _typed(file, read_npy(file), np.int64) for name, file in files.items()}
    found: dict[str, Any] = {
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
        "num_features": x.shape[-1],
        "multilabel": y.ndim == 2,
        "splits": {name: ids.size for name, ids in splits.items()},
    }
    for name, value in found.items():
        if header.get(name) != value:
            raise InputError(
                f"{path / HEADER} says {name}={header.get(name)}, but the arrays have {value}: "
                "the folder is damaged, import the graph again."
            )
    return Dataset(
        str(header.get("name", path.name)),
        graph,
        torch.from_numpy(x),
        torch.from_numpy(y),
        {name: torch.from_numpy(ids) for name, ids in splits.items()},
        checks.whole("num_classes", header.get("num_classes")),
    )


def _typed(file: Path, array: Array, *kinds: type) -> Array:
    if not any(array.dtype == kind for kind in kinds):
        raise InputError(
            f"{file} has type {array.dtype}, but must be {' or '.join(k.__name__ for k in kinds)}: "
            "import the graph again."
        )
    return array
