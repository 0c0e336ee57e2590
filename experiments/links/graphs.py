"""Gowalla and MovieTweetings as data sets of links, from the shared folder of real graphs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from bliss import Graph
from bliss.arrays import Array, IntArray
from bliss.data import Dataset, data_root
from bliss.data.label_edges import LabelEdges
from bliss.rng import hashes


def load(name: str, root: Path | None = None) -> Dataset:
    """A data set by name."""
    arrays = np.load(data_root(root) / name / "data.npz")
    return {"Gowalla": gowalla, "MovieTweetings": movies}[name](arrays)


def gowalla(arrays: Mapping[str, Array]) -> Dataset:
    """Users and places, in the published split; one in 40 training pairs is for validation."""
    users, places = map(int, arrays["num_nodes"])
    train, test = (_pairs(arrays[name][0], arrays[name][1], users) for name in ("train", "test"))
    is_val = hashes(np.uint64(0), train[0] * (users + places) + train[1]) % np.uint64(40) == 0
    split = np.concatenate([is_val.astype(np.int8), np.full(test.shape[1], 2, np.int8)])
    links = LabelEdges(np.concatenate([train, test], axis=1), split)
    return _dataset("Gowalla", train, users + places, links)


def movies(arrays: Mapping[str, Array]) -> Dataset:
    """Users and movies that they rated, with the time of each rating."""
    users = int(arrays["user"].max()) + 1
    pairs = _pairs(arrays["user"], arrays["item"], users)
    links = LabelEdges(pairs, None, arrays["timestamp"])
    return _dataset("MovieTweetings", pairs, users + int(arrays["item"].max()) + 1, links)


def _pairs(user: Array, item: Array, users: int) -> IntArray:
    return np.stack([user.astype(np.int64), item.astype(np.int64) + users])


def _dataset(name: str, edges: IntArray, nodes: int, links: LabelEdges) -> Dataset:
    """A graph without features, with both directions of each edge."""
    both = np.concatenate([edges, edges[::-1]], axis=1)
    empty = torch.empty(0, dtype=torch.int64)
    return Dataset(
        name,
        Graph.from_edge_index(both, nodes, self_loops="add"),
        torch.empty(nodes, 0),
        torch.full((nodes,), -1),
        {"train": torch.arange(1), "val": empty, "test": empty},
        0,
        label_edges=links,
    )
