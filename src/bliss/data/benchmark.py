"""Computers, Photo, CS and Physics: one .npz file each, in the format of gnn-benchmark."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bliss.data.dataset import Dataset
from bliss.data.edges import undirected
from bliss.data.npy import read_npz, read_sparse
from bliss.data.sources import BENCHMARK_FILES
from bliss.data.splits import per_class
from bliss.errors import InputError


def read_benchmark(name: str, folder: Path, seed: int) -> Dataset:
    """Read adj_*, attr_* and labels of a file, and make the graph undirected.

    Features become dense float32 with positive counts set to 1, as in PyG. There are no published
    splits: the seed draws 20 nodes of each class for training and 30 for validation. The rest is
    for testing.
    """
    file = folder / "raw" / BENCHMARK_FILES[name]
    adjacency = read_sparse(file, "adj_").tocoo()
    features = read_sparse(file, "attr_")
    labels = read_npz(file, ("labels",))["labels"]
    num_nodes = adjacency.shape[0]
    if (
        adjacency.shape != (num_nodes, num_nodes)
        or features.shape[0] != num_nodes
        or labels.shape != (num_nodes,)
        or labels.dtype.kind not in "iu"
    ):
        raise InputError(
            f"{file} has an adjacency of shape {adjacency.shape}, features of shape "
            f"{features.shape} and labels of shape {labels.shape}, which do not fit together: "
            "download it again."
        )
    features.sum_duplicates()
    features.data = np.where(features.data > 0, 1, features.data).astype(np.float32)
    if not np.isfinite(features.data).all():
        raise InputError(f"{file} has features that are not finite: download it again.")
    y = labels.astype(np.int64)
    splits = per_class(y, 20, 30, seed)
    graph = undirected(np.stack([adjacency.row, adjacency.col]), num_nodes)
    return Dataset.of_arrays(name, graph, features.toarray(), y, splits, int(y.max()) + 1)
