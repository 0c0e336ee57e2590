"""`Dataset`: a graph with features, labels and splits, checked on construction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bliss import checks
from bliss.arrays import Array, IntArray
from bliss.digests import new_digest
from bliss.errors import InputError
from bliss.graph import Graph

SPLITS = ("train", "val", "test")
_CHUNK = 1 << 24  # bytes


@dataclass(frozen=True, eq=False)
class Dataset:
    """A graph to learn on: V nodes, F features, C classes.

    `x` may be memory-mapped: read only the rows that are needed. In a multi-label dataset a node
    can have several classes, or none. A graph without labels has `num_classes` 0.
    """

    name: str
    graph: Graph  # norm "mean", or "weights" if the user's edges have weights
    x: Tensor  # float32[V, F]
    y: Tensor  # int64[V] class ids, -1 where unlabelled; or float32[V, C] of 0 and 1
    splits: Mapping[str, Tensor]  # "train", "val", "test": int64 ids, disjoint
    num_classes: int  # C
    digest: str = ""  # of the files of a store, checked when it was opened; empty for others

    def __post_init__(self) -> None:
        nodes = self.graph.num_nodes
        if self.x.ndim != 2 or self.x.dtype != torch.float32 or len(self.x) != nodes:
            raise InputError(
                f"x is {self.x.dtype} of shape {tuple(self.x.shape)}, but must be float32 with "
                f"one row for each of the {nodes} nodes: pass [V, F]."
            )
        kind = torch.float32 if self.is_multilabel else torch.int64
        if self.y.ndim not in (1, 2) or self.y.dtype != kind or len(self.y) != nodes:
            raise InputError(
                f"y is {self.y.dtype} of shape {tuple(self.y.shape)}, but must be int64[V] class "
                f"ids or float32[V, C] of 0 and 1 for the {nodes} nodes: convert it."
            )
        self._check_classes()
        if set(self.splits) != set(SPLITS):
            raise InputError(
                f"splits has {sorted(self.splits)}, but must have train, val and test: rename them."
            )
        for name, ids in self.splits.items():
            if ids.dtype != torch.int64 or ids.ndim != 1:
                raise InputError(
                    f"splits[{name!r}] is {ids.dtype} of shape {tuple(ids.shape)}, but must be "
                    "int64 ids: convert it."
                )
        labels = self.y.numpy() if self.num_classes else np.zeros(nodes, np.int64)
        check_splits({name: ids.numpy() for name, ids in self.splits.items()}, labels, nodes)

    @property
    def is_multilabel(self) -> bool:
        """Whether a node can have several classes."""
        return self.y.ndim == 2

    @property
    def num_features(self) -> int:
        """F."""
        return self.x.size(1)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of all edges, weights, features, labels and splits; of a store, of its files."""
        if self.digest:
            return self.digest
        graph, digest = self.graph, new_digest()
        arrays = [graph.indptr, graph.indices, graph.weight, self.x.numpy(), self.y.numpy()]
        for array in (*arrays, *(self.splits[name].numpy() for name in SPLITS)):
            digest.update(f"{array.dtype} {array.shape}".encode())
            step = max(1, _CHUNK // max(1, array[:1].nbytes))
            for start in range(0, len(array), step):  # a copy of a chunk is small
                digest.update(np.ascontiguousarray(array[start : start + step]).tobytes())
        return str(digest.hexdigest())

    def _check_classes(self) -> None:
        if self.is_multilabel:
            if self.y.size(1) != self.num_classes:
                raise InputError(
                    f"y has {self.y.size(1)} columns, but num_classes={self.num_classes}: give "
                    "one column per class."
                )
            return
        if self.y.numel() == 0:
            return
        low, high = int(self.y.min()), int(self.y.max())
        if low < -1 or high >= self.num_classes:
            raise InputError(
                f"y runs from {low} to {high}, but class ids run from 0 to "
                f"{self.num_classes - 1}, with -1 for no label: correct y or num_classes."
            )


def check_splits(splits: Mapping[str, IntArray], y: Array, num_nodes: int) -> None:
    """Check that splits hold distinct ids of labelled nodes and do not overlap.

    y is int64[V] or [V, C]. Only train must not be empty.
    """
    owner = np.full(num_nodes, -1, np.int8)
    for position, name in enumerate(SPLITS):
        field = f"splits[{name!r}]"
        ids = checks.node_ids(field, splits[name], num_nodes)
        taken = ids[owner[ids] >= 0]
        if taken.size:
            raise InputError(
                f"node {taken[0]} is in the splits {SPLITS[owner[taken[0]]]!r} and {name!r}, which "
                "must not overlap: keep it in one of them."
            )
        owner[ids] = position
        if np.count_nonzero(owner == position) != ids.size:
            raise InputError(f"{field} holds a node more than once: pass distinct ids.")
        unlabelled = ids[y[ids] < 0] if y.ndim == 1 else ids[:0]
        if unlabelled.size:
            raise InputError(
                f"node {unlabelled[0]} of {field} has no label (-1): label it or remove it."
            )
    if splits["train"].size == 0:
        raise InputError("splits['train'] is empty, but training needs nodes: add some.")


def describe(dataset: Dataset) -> dict[str, Any]:
    """Sizes and in-degrees of a dataset, as plain numbers that JSON can hold.

    Edges are directed. Edges and degrees are counted without self-loops.
    """
    graph = dataset.graph
    degree = graph.degree - _self_loops(graph)
    quantiles = np.quantile(degree, (0, 0.25, 0.5, 0.75, 0.99, 1)) if degree.size else np.zeros(6)
    names = ("min", "25%", "median", "75%", "99%", "max")
    return {
        "name": dataset.name,
        "nodes": graph.num_nodes,
        "edges": int(degree.sum()),
        "features": dataset.num_features,
        "classes": dataset.num_classes,
        "multilabel": dataset.is_multilabel,
        "splits": {name: dataset.splits[name].numel() for name in SPLITS},
        "degree": {
            "mean": float(degree.mean()) if degree.size else 0.0,
            **{name: float(value) for name, value in zip(names, quantiles, strict=True)},
        },
    }


def _self_loops(graph: Graph) -> IntArray:
    """Number of self-loops of each node, counted in chunks of nodes. int64[V]."""
    loops = np.zeros(graph.num_nodes, np.int64)
    chunk = 1 << 16
    for start in range(0, graph.num_nodes, chunk):
        stop = min(start + chunk, graph.num_nodes)
        target = np.repeat(np.arange(start, stop), graph.degree[start:stop])
        source = graph.indices[graph.indptr[start] : graph.indptr[stop]]
        loops += np.bincount(target[source == target], minlength=graph.num_nodes)
    return loops
