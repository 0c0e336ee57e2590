"""Edges of a person's own graph, from whatever file holds them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bliss.data.arrays import map_npy, read_npy, read_npz, read_sparse
from bliss.data.tables import TEXT, read_csv, read_parquet
from bliss.errors import InputError
from bliss.graph import Graph

Array = npt.NDArray[Any]

_SOURCES = ("src", "source", "from", "row")
_TARGETS = ("dst", "target", "to", "col")


class Edges(NamedTuple):
    """Pairs, and a weight for each if the file has one."""

    source: Array  # [E]
    target: Array  # [E]
    weight: Array | None  # [E]


def read_edges(file: Path, weight: Path | None = None) -> Edges:
    """Read edges, and their weights from the same file or from one of their own."""
    if not file.exists():
        raise InputError(f"edges={str(file)!r} is not there: check the path.")
    if file.suffix == ".npy":
        edges = _pairs(map_npy(file))
    elif file.suffix == ".npz":
        edges = _archive(file)
    elif file.suffix == ".parquet":
        edges = _named(file, read_parquet("edges", file))
    elif file.suffix in TEXT:
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
    if weight.suffix != ".npy" or not weight.exists():
        raise InputError(
            f"weight={str(weight)!r} must be a .npy file that is there, one number per edge."
        )
    return edges._replace(weight=read_npy(weight))


def make_graph(edges: Edges, num_nodes: int, directed: bool) -> Graph:
    """Check the edges and put them into a graph: parallel ones merged, one self-loop a node.

    Merging adds weights up. Undirected edges count in both directions; where a file already has
    both, their weights are added up too, as PyG's `to_undirected` does.
    """
    for name, ids in (("source", edges.source), ("target", edges.target)):
        if ids.dtype.kind not in "iu":
            raise InputError(
                f"edges has a {name} of type {ids.dtype}, but node ids are whole numbers: convert "
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


def _pairs(array: Array) -> Edges:
    if array.ndim != 2 or 2 not in array.shape:
        raise InputError(
            f"edges has shape {array.shape}, but must be [2, E] or [E, 2], sources and targets: "
            "reshape it."
        )
    if array.shape == (2, 2):
        raise InputError(
            "edges has shape (2, 2), which can be read in two ways: save it as .npz with the "
            "arrays src and dst."
        )
    rows = array if array.shape[0] == 2 else array.T
    return Edges(np.array(rows[0]), np.array(rows[1]), None)


def _archive(file: Path) -> Edges:
    """A SciPy matrix, whose entry [j, i] is the edge j -> i, or arrays src, dst and weight."""
    names = (*_SOURCES, *_TARGETS, "weight")
    found = read_npz(file, (), ("format", *names))
    if "format" not in found:
        return _named(file, found)
    matrix = read_sparse(file).tocoo()
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(
            f"edges={str(file)!r} is a matrix of shape {matrix.shape}, but an adjacency matrix is "
            "square: give it one row and one column per node."
        )
    is_plain = matrix.data.dtype.kind == "b" or bool((matrix.data == 1).all())
    return Edges(matrix.row, matrix.col, None if is_plain else matrix.data)


def _named(file: Path, columns: dict[str, Array]) -> Edges:
    source = next((name for name in _SOURCES if name in columns), None)
    target = next((name for name in _TARGETS if name in columns), None)
    if source is None or target is None:
        raise InputError(
            f"edges={str(file)!r} must hold src and dst, and has {', '.join(columns) or 'neither'}"
            ": rename its columns."
        )
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
            f"edges={str(file)!r} has {len(columns)} columns, but must have source, target and, "
            "if you like, weight: remove the others."
        )
    source, target = _order(file, names)
    return Edges(columns[source], columns[target], columns[2] if len(columns) == 3 else None)


def _order(file: Path, names: Sequence[str]) -> tuple[int, int]:
    """Which column is the source and which the target: by name, or without known names in order."""
    if not {*_SOURCES, *_TARGETS} & set(names) and "weight" not in names[:2]:
        return 0, 1
    source = [place for place, name in enumerate(names[:2]) if name in _SOURCES]
    target = [place for place, name in enumerate(names[:2]) if name in _TARGETS]
    if len(source) != 1 or len(target) != 1 or names[2:] not in ((), ("weight",)):
        raise InputError(
            f"edges={str(file)!r} has the columns {', '.join(names)}, but must have src, dst and, "
            "if you like, weight, in this order: rename or remove the others."
        )
    return source[0], target[0]
