"""Edges of a user's own graph, from .npy, .npz, text or parquet files, read in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bliss.arrays import Array, IntArray
from bliss.data.chunked_tables import parquet_rows, table_blocks
from bliss.data.formats import reader
from bliss.data.nodes import Nodes, id_column
from bliss.data.npy import NpyRows, npz_names, read_npz, read_sparse
from bliss.data.tables import Table, column_values
from bliss.errors import InputError
from bliss.graph import Graph
from bliss.storage.files import check_regular
from bliss.text import printable

SOURCES = ("src", "source", "from", "row", "source_id", "src_id")
TARGETS = ("dst", "target", "to", "col", "target_id", "dst_id")
WEIGHT = "weight"
_FIRST_ROWS = 1 << 16  # of a table, to find its columns


class Edges(NamedTuple):
    """Edges as pairs, with optional weights."""

    source: Any  # [E]: a NumPy array of numbers, or a pyarrow array of ids
    target: Any  # [E]
    weight: Array | None  # [E]
    notes: tuple[str, ...] = ()  # what was left out of a file
    is_numbered: bool = False  # whether ends are the numbers of nodes, and not their ids


@dataclass(frozen=True)
class EdgeSource:
    """An open file of edges."""

    chunks: Callable[[int], Iterator[Edges]]  # parts of about so many edges
    is_weighted: bool
    number: int | None = None  # of edges; None: not known before they are read
    notes: tuple[str, ...] = ()


def held(edges: Edges) -> EdgeSource:
    """Edges that are in memory."""

    def chunks(rows: int) -> Iterator[Edges]:
        for start in range(0, len(edges.source), rows):
            part = slice(start, start + rows)
            weight = None if edges.weight is None else edges.weight[part]
            yield edges._replace(
                source=edges.source[part], target=edges.target[part], weight=weight
            )

    return EdgeSource(chunks, edges.weight is not None, len(edges.source), edges.notes)


def open_edges(file: Path, weight: Path | None = None) -> EdgeSource:
    """Open a file of edges. Weights come from the same file or from the .npy file `weight`."""
    check_regular(file, f"edges={str(file)!r}")
    source: EdgeSource = reader("edges", file, "edges")(file)
    if weight is None:
        return source
    if source.is_weighted:
        raise InputError(
            f"weight={str(weight)!r} was given, but edges={str(file)!r} holds weights too: keep "
            "one of them."
        )
    check_regular(weight, f"weight={str(weight)!r}")
    if weight.suffix != ".npy":
        raise InputError(f"weight={str(weight)!r} must be a .npy file: save one number per edge.")
    return _with_weights(source, NpyRows(weight))


def _with_weights(source: EdgeSource, weight: NpyRows) -> EdgeSource:
    """Edges with the weights of another file."""

    def check(number: int) -> None:
        if weight.shape != (number,):
            raise InputError(
                f"weight has shape {weight.shape}, but there are {number} edges: give one number "
                "per edge."
            )

    def chunks(rows: int) -> Iterator[Edges]:
        start, is_enough = 0, len(weight.shape) == 1
        for edges in source.chunks(rows):
            stop = start + len(edges.source)
            is_enough = is_enough and stop <= len(weight)
            if is_enough:
                yield edges._replace(weight=weight.read(start, stop))
            start = stop  # without enough weights, the rest is only counted
        check(start)

    if source.number is not None:
        check(source.number)
    return replace(source, chunks=chunks, is_weighted=True)


def check_some(number: int) -> None:
    """Raise if there are no edges."""
    if number == 0:
        raise InputError("edges is empty, but a graph needs edges: check the file.")


def find_nodes(edges: Edges, nodes: Nodes) -> Edges:
    """Edges with the numbers of nodes in the place of the user's ids. int64[E] each."""
    check_some(len(edges.source))
    own = Nodes(nodes.number) if edges.is_numbered else nodes
    source, target = (
        _numbers(name, ids, own)
        for name, ids in (("source", edges.source), ("target", edges.target))
    )
    if edges.weight is not None and edges.weight.shape != source.shape:
        raise InputError(
            f"weight has shape {edges.weight.shape}, but there are {source.size} edges: give one "
            "number per edge."
        )
    return edges._replace(source=source, target=target)


def _numbers(name: str, ids: Any, nodes: Nodes) -> IntArray:
    if nodes.names is not None or (not isinstance(ids, np.ndarray) and str(ids.type) != "int64"):
        return nodes.find("edges", ids)
    numbers = np.asarray(ids)
    if numbers.dtype.kind not in "iu":
        raise InputError(
            f"edges has a {name} of type {numbers.dtype}, but node ids are integers: convert it to "
            "int64."
        )
    low, high = int(numbers.min()), int(numbers.max())
    if low < 0 or high >= nodes.number:
        raise InputError(
            f"edges holds node {low if low < 0 else high}, but features has {nodes.number} rows "
            f"(ids 0 to {nodes.number - 1}): number nodes from 0, add the missing rows, or give "
            "features as a table with a first column called id."
        )
    return numbers.astype(np.int64, copy=False)


def make_graph(edges: Edges, num_nodes: int, directed: bool) -> Graph:
    """Build a graph with merged parallel edges and one self-loop per node.

    Merging adds weights. With directed=False every edge is used in both directions. If the file
    already has both, their weights are added, as PyG's `to_undirected` does.
    """
    weight = edges.weight
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


def npy_edges(file: Path) -> EdgeSource:
    """Edges of a .npy file, [2, E] or [E, 2]."""
    return _pairs(NpyRows(file))


def npz_edges(file: Path) -> EdgeSource:
    """Edges of an .npz file: a SciPy matrix, or arrays src, dst and optionally weight."""
    return held(_archive(file))


def _pairs(array: NpyRows) -> EdgeSource:
    if len(array.shape) != 2 or 2 not in array.shape:
        raise InputError(
            f"edges has shape {array.shape}, but must be [2, E] or [E, 2], sources and targets: "
            "reshape it."
        )
    if array.shape == (2, 2):
        raise InputError(
            "edges has shape (2, 2), which is ambiguous between [2, E] and [E, 2]: save it as .npz "
            "with the arrays src and dst."
        )
    axis = 1 if array.shape[0] == 2 else 0  # along the edges
    number = array.shape[axis]

    def chunks(rows: int) -> Iterator[Edges]:
        for start in range(0, number, rows):
            part = array.read(start, start + rows, axis)
            source, target = part if axis else part.T
            yield Edges(source, target, None)

    return EdgeSource(chunks, is_weighted=False, number=number)


def _archive(file: Path) -> Edges:
    """Read a SciPy matrix, in which entry [j, i] is the edge j -> i, or src, dst and weight."""
    if "format" not in npz_names(file):
        return _named(file, read_npz(file, (), (*SOURCES, *TARGETS, WEIGHT)))
    matrix = read_sparse(file).tocoo()
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(
            f"edges={str(file)!r} is a matrix of shape {matrix.shape}, but an adjacency matrix is "
            "square: give it one row and one column per node."
        )
    is_plain = matrix.data.dtype.kind == "b" or bool((matrix.data == 1).all())
    return Edges(matrix.row, matrix.col, None if is_plain else matrix.data)


def _named(file: Path, columns: dict[str, Array]) -> Edges:
    source, target = _ends(file, list(columns))
    if columns[source].shape != columns[target].shape or columns[source].ndim != 1:
        raise InputError(
            f"edges={str(file)!r} has src of shape {columns[source].shape} and dst of shape "
            f"{columns[target].shape}: give both one entry per edge."
        )
    return Edges(columns[source], columns[target], columns.get(WEIGHT))


def _ends(file: Path, names: Sequence[str]) -> tuple[str, str]:
    """Names of the columns of sources and targets."""
    sources = [name for name in names if name in SOURCES]
    targets = [name for name in names if name in TARGETS]
    if len(sources) != 1 or len(targets) != 1:
        shown = ", ".join(map(printable, names[:20])) or "neither"
        raise InputError(
            f"edges={str(file)!r} must hold src and dst once each, and has {shown}: rename or "
            "remove its columns."
        )
    return sources[0], targets[0]


class _Layout(NamedTuple):
    """Positions of the columns of a table of edges."""

    source: int
    target: int
    weight: int | None
    has_index: bool  # whether the first column counts the rows
    notes: tuple[str, ...]


def table_edges(file: Path) -> EdgeSource:
    """Open a table: columns by name, or the first two and a weight if no name is known."""
    header, is_parquet = (*SOURCES, *TARGETS), file.suffix == ".parquet"
    first = next(table_blocks("edges", file, _FIRST_ROWS, header))
    layout, only = _layout(file, first), None
    if is_parquet:
        layout, only = _only(layout, first.names)

    def chunks(rows: int) -> Iterator[Edges]:
        start = 0
        for table in table_blocks("edges", file, rows, header, only):
            if layout.has_index and not table.has_counting_index(start):
                raise InputError(
                    f"edges={str(file)!r} has a first column without a name that counts rows up to "
                    f"row {start} and not after it: name the columns src, dst and weight."
                )
            yield _columns(table, layout)
            start += len(table)

    number = parquet_rows("edges", file) if is_parquet else None
    return EdgeSource(chunks, layout.weight is not None, number, layout.notes)


def _only(layout: _Layout, names: Sequence[str]) -> tuple[_Layout, list[str]]:
    """The layout of a table of the used columns alone, and their names."""
    used = sorted({layout.source, layout.target})
    if layout.weight is not None:
        used = sorted({*used, layout.weight})
    weight = None if layout.weight is None else used.index(layout.weight)
    moved = layout._replace(
        source=used.index(layout.source), target=used.index(layout.target), weight=weight
    )
    return moved, [names[old] for old in used]


def _columns(table: Table, layout: _Layout) -> Edges:
    """Edges of a part of a table."""
    place = layout.weight
    weight = None if place is None else column_values("edges", WEIGHT, table.columns[place])
    ends = [id_column("edges", table, end) for end in (layout.source, layout.target)]
    return Edges(ends[0], ends[1], weight)


def _layout(file: Path, table: Table) -> _Layout:
    names, width, notes = [n.strip().lower() for n in table.names], len(table.columns), []
    is_counted = False
    if {*SOURCES, *TARGETS} & set(names) or WEIGHT in names[:2] or file.suffix == ".parquet":
        source, target = (names.index(name) for name in _ends(file, names))
        weights = [place for place, name in enumerate(names) if name == WEIGHT]
        if len(weights) > 1:
            raise InputError(f"edges={str(file)!r} has two columns called weight: remove one.")
        used = (source, target, *weights)
        ignored = [printable(n) or "the index" for p, n in enumerate(table.names) if p not in used]
        if ignored:
            notes.append(f"Columns of the edges that are not used: {', '.join(ignored[:20])}.")
    else:
        is_counted = table.has_counting_index()
        start = int(is_counted)
        source, target, weights = start, start + 1, list(range(start + 2, width))
        named = names[start + 2 :]
        if not 2 <= width - start <= 3 or named not in ([], [WEIGHT]):
            raise InputError(
                f"edges={str(file)!r} has {width} columns"
                + (f" ({', '.join(map(printable, table.names[:20]))})" if names else "")
                + ", but must have source, target and optionally weight: name the columns src, dst "
                "and weight; others are then ignored."
            )
        if is_counted:
            notes.append("The first column of the edges counts the rows and is not used.")
    return _Layout(source, target, weights[0] if weights else None, is_counted, tuple(notes))
