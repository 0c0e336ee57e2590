"""Folders in GraphSAINT's form: Flickr, Reddit2, Yelp, PPI, or a user's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bliss import checks
from bliss.arrays import Array, IntArray
from bliss.data.dataset import Dataset
from bliss.data.features import finite_rows, row_chunks, rows_per_chunk
from bliss.data.manifest import read_json
from bliss.data.npy import map_npy, read_sparse
from bliss.data.sources import SAINT_FILES
from bliss.errors import InputError
from bliss.graph import Graph
from bliss.text import shorten

ROLES = {"train": "tr", "val": "va", "test": "te"}


def find_saint(folder: Path) -> Path | None:
    """The folder that holds GraphSAINT's files: `folder`, its raw/, or None."""
    for place in (folder, folder / "raw"):
        if (place / SAINT_FILES[0]).exists() or (place / "role.json").exists():
            return place
    return None


def read_saint(name: str, folder: Path, seed: int = 0) -> Dataset:
    """Read adj_full.npz, feats.npy, class_map.json and role.json of a folder or of its raw/.

    Features are standardised with the mean and standard deviation of the training nodes, as in
    GraphSAINT; PyG's classes do not do this. Labels that are lists of 0 and 1 make the dataset
    multi-label. The graph has the edges of adj_full, in the directions of the file.
    """
    place = find_saint(folder) or folder
    missing = [file for file in SAINT_FILES if not (place / file).exists()]
    if missing:
        raise InputError(f"{', '.join(missing)} must be in {place}: put it there.")
    adjacency = read_sparse(place / SAINT_FILES[0])
    features = map_npy(place / "feats.npy")
    num_nodes = adjacency.shape[0]
    for field, shape in (("adj_full.npz", adjacency.shape[::-1]), ("feats.npy", features.shape)):
        if len(shape) != 2 or shape[0] != num_nodes:
            raise InputError(
                f"{place / field} has shape {shape}, but there are {num_nodes} nodes: give it one "
                "row per node."
            )
    splits = _splits(place / "role.json", num_nodes)
    y, num_classes = _labels(place / "class_map.json", num_nodes)
    x = _standardised(features, splits["train"], place / "feats.npy")
    graph = Graph.from_scipy(adjacency, duplicates="coalesce")
    return Dataset.of_arrays(name, graph, x, y, splits, num_classes)


def _splits(file: Path, num_nodes: int) -> dict[str, IntArray]:
    roles = read_json(file)
    if not isinstance(roles, dict) or not all(roles.get(key) for key in ROLES.values()):
        raise InputError(f"{file} must list nodes under tr, va and te: write all three.")
    splits: dict[str, IntArray] = {}
    for name, key in ROLES.items():
        ids = checks.node_ids(f"{file.name}[{key!r}]", roles[key], num_nodes)
        splits[name] = np.sort(ids.astype(np.int64))
    return splits


def _labels(file: Path, num_nodes: int) -> tuple[Array, int]:
    """Labels as int64[V] class ids, or float32[V, C] if they are lists, and C."""
    labels = read_json(file)
    if not isinstance(labels, dict) or not labels:
        raise InputError(f"{file} must hold a label for each node id: write it again.")
    first = next(iter(labels.values()))
    is_multilabel = isinstance(first, list)
    y: Array = (
        np.zeros((num_nodes, len(first)), np.float32)
        if is_multilabel
        else np.full(num_nodes, -1, np.int64)
    )
    for key, label in labels.items():
        try:
            node = int(key)
            if not 0 <= node < num_nodes:
                raise ValueError(f"there are {num_nodes} nodes")
            if str(node) != key:
                raise ValueError(f"node {node} is written as {str(node)!r}")
            if not is_multilabel and (type(label) is not int or label >= num_nodes):
                raise ValueError("class ids are integers below the number of nodes")
            if is_multilabel and (not isinstance(label, list) or len(label) != len(first)):
                raise ValueError(f"the first label is a list of {len(first)}")
            y[node] = label
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"{file} has an entry for {shorten(repr(key), 40)} that cannot be used "
                f"({shorten(str(error), 80)}): give each node a class id, or each a list of "
                "equally many 0 and 1."
            ) from error
    if is_multilabel:
        if not np.isin(y, (0, 1)).all():
            raise InputError(f"{file} must hold 0 and 1 in its lists: write it again.")
        return y, len(first)
    if y.min() < -1:
        raise InputError(f"{file} holds class {y.min()}, but class ids start at 0: shift them.")
    return y, int(y.max()) + 1


def _standardised(features: Array, train: IntArray, file: Path) -> Array:
    """(x - mean) / std over the training nodes. Constant columns are only centred."""
    for _ in finite_rows(str(file), row_chunks(features)):
        pass  # reports the position of a value that is not finite
    count, width = train.size, features.shape[1]
    mean = sum((part.sum(0) for part in _parts(features, train)), np.zeros(width)) / count
    square = sum((((p - mean) ** 2).sum(0) for p in _parts(features, train)), np.zeros(width))
    deviation = np.sqrt(square / count)
    deviation[deviation < 1e-12 * np.maximum(np.abs(mean), 1)] = 1
    x = np.empty(features.shape, np.float32)
    for rows, source in zip(row_chunks(x), row_chunks(features), strict=True):
        rows[:] = (source - mean) / deviation
    return x


def _parts(features: Array, ids: IntArray) -> Iterator[Array]:
    step = rows_per_chunk(features.shape[1])
    for start in range(0, ids.size, step):
        yield np.asarray(features[ids[start : start + step]], np.float64)
