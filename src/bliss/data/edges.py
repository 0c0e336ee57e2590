"""Edges of a user's own graph, from .npy, .npz, text or parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bliss.arrays import Array
from bliss.data.npy import map_npy, npz_names, read_npy, read_npz, read_sparse
from bliss.data.tables import TEXT, read_csv, read_parquet, suffix
from bliss.errors import InputError
from bliss.files import check_regular
from bliss.graph import Graph

_SOURCES = ("src", "source", "from", "row")
_TARGETS = ("dst", "target", "to", "col")


class Edges(NamedTuple):
    """Edges as pairs, with optional weights."""

    source: Array  # [E]
    target: Array  # [E]
    weight: Array | None  # [E]


def read_edges(file: Path, weight: Path | None = None) -> Edges:
    """Read edges. Weights come from the same file or from the .npy file `weight`."""
    check_regular(file, f"edges={str(file)!r}")
    form = suffix(file)
    if form == ".npy":
        edges = _pairs(map_npy(file))
    elif form == ".npz":
        edges = _archive(file)
    elif form == ".parquet":
        edges = _named(file, read_parquet("edges", file))
    elif form in TEXT:
        edges = _text(file)
    else:
        raise InputError(
            f"edges={str(file)!r} must be a .npy, .npz, .csv or .parquet file: convert it."
        )
    if weight is None:
        return edges
    if edges.weight is not None:
        raise InputError(
            f"weight={str(weight)!r} was given, but edges={str(file)!r} holds weights too: keep "
            "one of them."
        )
    check_regular(weight, f"weight={str(weight)!r}")
    if weight.suffix != ".npy":
        raise InputError(f"weight={str(weight)!r} must be a .npy file: save one number per edge.")
    return edges._replace(weight=read_npy(weight))


def make_graph(edges: Edges, num_nodes: int, directed: bool) -> Graph:
    """Build a graph with merged parallel edges and one self-loop per node.

    Merging adds weights. With directed=False every edge is used in both directions. If the file
    already has both, their weights are added, as PyG's `to_undirected` does.
    """
    for name, ids in (("source", edges.source), ("target", edges.target)):
        if ids.dtype.kind not in "iu":
            raise InputError(
                f"edges has a {name} of type {ids.dtype}, but node ids are integers: convert "
                "it to int64."
            )
        if ids.size == 0:
            raise InputError("edges is empty, but a graph needs edges: check the file.")
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= num_nodes:
            raise InputError(
                f"edges holds node {low if low < 0 else high}, but features has {num_nodes} rows "
                f"(ids 0 to {num_nodes - 1}): number nodes from 0, or add the missing rows."
            )
    weight = edges.weight
    if weight is not None and weight.shape != edges.source.shape:
        raise InputError(
            f"weight has shape {weight.shape}, but there are {edges.source.size} edges: give one "
            "number per edge."
        )
    pairs = np.stack([edges.source, edges.target]).astype(np.int64, copy=False)
    if not directed:
        pairs = np.concatenate([pairs, pairs[::-1]], axis=1)
        weight = None if weight is None else np.concatenate([weight, weight])
    return Graph.from_edge_index(
        pairs,
        num_nodes,
        weight=weight,
        norm="mean" if weight is None else "weights",
        duplicates="coalesce",
    )


def undirected(pairs: Array, num_nodes: int) -> Graph:
    """Build a graph with each edge once in both directions, and self-loops. pairs [2, E]."""
    both = np.concatenate([pairs, pairs[::-1]], axis=1)
    return Graph.from_edge_index(both, num_nodes, duplicates="coalesce")


def _pairs(array: Array) -> Edges:
    if array.ndim != 2 or 2 not in array.shape:
        raise InputError(
            f"edges has shape {array.shape}, but must be [2, E] or [E, 2], sources and targets: "
            "reshape it."
        )
    if array.shape == (2, 2):
        raise InputError(
            "edges has shape (2, 2), which is ambiguous between [2, E] and [E, 2]: save it as .npz "
            "with the arrays src and dst."
        )
    rows = array if array.shape[0] == 2 else array.T
    return Edges(np.array(rows[0]), np.array(rows[1]), None)


def _archive(file: Path) -> Edges:
    """Read a SciPy matrix, in which entry [j, i] is the edge j -> i, or src, dst and weight."""
    if "format" not in npz_names(file):
        return _named(file, read_npz(file, (), (*_SOURCES, *_TARGETS, "weight")))
    matrix = read_sparse(file).tocoo()
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(
            f"edges={str(file)!r} is a matrix of shape {matrix.shape}, but an adjacency matrix is "
            "square: give it one row and one column per node."
        )
    is_plain = matrix.data.dtype.kind == "b" or bool((matrix.data == 1).all())
    return Edges(matrix.row, matrix.col, None if is_plain else matrix.data)


def _named(file: Path, columns: dict[str, Array]) -> Edges:
    sources = [name for name in _SOURCES if name in columns]
    targets = [name for name in _TARGETS if name in columns]
    if len(sources) != 1 or len(targets) != 1:
        raise InputError(
            f"edges={str(file)!r} must hold src and dst once each, and has "
            f"{', '.join(columns) or 'neither'}: rename or remove its columns."
        )
    source, target = sources[0], targets[0]
    if columns[source].shape != columns[target].shape or columns[source].ndim != 1:
        raise InputError(
            f"edges={str(file)!r} has src of shape {columns[source].shape} and dst of shape "
            f"{columns[target].shape}: give both one entry per edge."
        )
    return Edges(columns[source], columns[target], columns.get("weight"))


def _text(file: Path) -> Edges:
    names, columns = read_csv("edges", file, weighted=True)
    if len(columns) not in (2, 3):
        raise InputError(
            f"edges={str(file)!r} has {len(columns)} columns, but must have source, target and "
            "optionally weight: remove the others."
        )
    source, target = _order(file, names)
    return Edges(columns[source], columns[target], columns[2] if len(columns) == 3 else None)


def _order(file: Path, names: Sequence[str]) -> tuple[int, int]:
    """Positions of source and target: by name, or the first two if no name is known."""
    if not {*_SOURCES, *_TARGETS} & set(names) and "weight" not in names[:2]:
        return 0, 1
    source = [place for place, name in enumerate(names[:2]) if name in _SOURCES]
    target = [place for place, name in enumerate(names[:2]) if name in _TARGETS]
    if len(source) != 1 or len(target) != 1 or names[2:] not in ((), ("weight",)):
        raise InputError(
            f"edges={str(file)!r} has the columns {', '.join(names)}, but must have src, dst and "
            "optionally weight, in this order: rename or remove the others."
        )
    return source[0], target[0]
