"""The Reddit graph of GraphSAGE with 114 million edges, from the two files that DGL publishes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bliss.data.dataset import SPLITS, Dataset
from bliss.data.features import finite_rows
from bliss.data.npy import read_npz, read_sparse
from bliss.errors import InputError
from bliss.graph import Graph


def read_reddit(name: str, folder: Path, seed: int) -> Dataset:
    """Read raw/reddit_data.npz and raw/reddit_graph.npz. Features are not scaled."""
    file = folder / "raw" / "reddit_data.npz"
    parts = read_npz(file, ("feature", "label", "node_types"))
    adjacency = read_sparse(folder / "raw" / "reddit_graph.npz")
    x, y, role = parts["feature"], parts["label"], parts["node_types"]
    num_nodes = adjacency.shape[0]
    if (
        adjacency.shape[1] != num_nodes
        or x.ndim != 2
        or y.ndim != 1
        or role.shape != y.shape
        or not len(x) == len(y) == num_nodes
        or not {y.dtype.kind, role.dtype.kind} <= {"i", "u"}
    ):
        raise InputError(f"the files in {folder / 'raw'} do not fit together: download them again.")
    (features,) = finite_rows("feature", [x])
    splits = {key: np.flatnonzero(role == i) for i, key in enumerate(SPLITS, 1)}
    graph, y = Graph.from_scipy(adjacency, duplicates="coalesce"), y.astype(np.int64)
    return Dataset.of_arrays(name, graph, features, y, splits, int(y.max()) + 1)
