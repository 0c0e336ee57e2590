"""Edges of a user's own graph, from files of any format, read in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bliss.arrays import Array, IntArray
from bliss.data.formats import is_table, reader
from bliss.data.nodes import Nodes
from bliss.data.npy import NpyRows, npz_names, read_npz, read_sparse
from bliss.data.timestamps import Times, array_times, common_unit
from bliss.errors import InputError
from bliss.graph import EdgeType, Graph, Norm
from bliss.storage.files import check_regular
from bliss.text import printable

SOURCES = ("src", "source", "from", "row", "source_id", "src_id")
TARGETS = ("dst", "target", "to", "col", "target_id", "dst_id")
WEIGHT = "weight"


class Edges(NamedTuple):
    """Edges as pairs, with optional weights."""

    source: Any  # [E]: a NumPy array of numbers, or a pyarrow array of ids
    target: Any  # [E]
    weight: Array | None  # [E]
    notes: tuple[str, ...] = ()  # what was left out of a file
    is_numbered: bool = False  # whether ends are the numbers of nodes, and not their ids
    time: Times | None = None  # [E]


@dataclass(frozen=True)
class EdgeSource:
    """An open file of edges."""

    chunks: Callable[[int], Iterator[Edges]]  # parts of about so many edges
    is_weighted: bool
    number: int | None = None  # of edges; None: not known before they are read
    notes: tuple[str, ...] = ()
    time_unit: str = ""  # of edges with times; see `timestamps`


def held(edges: Edges) -> EdgeSource:
    """Edges that are in memory."""

    def chunks(rows: int) -> Iterator[Edges]:
        for start in range(0, len(edges.source), rows):
            part = slice(start, start + rows)
            weight = None if edges.weight is None else edges.weight[part]
            time = None if edges.time is None else Times(edges.time.value[part], edges.time.unit)
            ends = {"source": edges.source[part], "target": edges.target[part]}
            yield edges._replace(**ends, weight=weight, time=time)

    unit = "" if edges.time is None else edges.time.unit
    return EdgeSource(chunks, edges.weight is not None, len(edges.source), edges.notes, unit)


@dataclass(frozen=True)
class EdgeColumns:
    """Names of the columns of edges; empty: known names, see SOURCES, TARGETS and WEIGHT."""

    source: str = ""
    target: str = ""
    weight: str = ""
    time: str = ""  # empty: edges have no times
    edge_type: EdgeType | None = None  # relation, whose types may be names of columns, too

    @property
    def given(self) -> dict[str, str]:
        """Names that were given, by option."""
        parts = ("source", "target", "weight", "time")
        named = {f"{part}_column": getattr(self, part) for part in parts}
        return {option: name for option, name in named.items() if name}


def end_names(
    columns: Sequence[str], edge_type: EdgeType | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Known names, in lower case, of columns of sources and of targets.

    These are SOURCES and TARGETS; or, if none of them is there, the two types of a relation, or
    user_id of user.
    """
    lower = {name.strip().lower() for name in columns}
    source, target = _type_names(edge_type)
    if {*SOURCES, *TARGETS} & lower or not ({*source} & lower and {*target} & lower):
        return SOURCES, TARGETS
    return (source, target) if source != target else (SOURCES, TARGETS)


def header_names(edge_type: EdgeType | None) -> tuple[str, ...]:
    """All names that `end_names` knows, by which a header is recognised."""
    source, target = _type_names(edge_type)
    return *SOURCES, *TARGETS, *source, *target


def _type_names(edge_type: EdgeType | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if edge_type is None:
        return (), ()
    source, target = edge_type[0].lower(), edge_type[2].lower()
    return (source, f"{source}_id"), (target, f"{target}_id")


def open_edges(
    file: Path, weight: Path | None = None, columns: EdgeColumns | None = None
) -> EdgeSource:
    """Open a file of edges. Weights come from the same file or from the .npy file `weight`."""
    columns = columns or EdgeColumns()
    check_regular(file, f"edges={str(file)!r}")
    read = reader("edges", file, "edges")
    is_named = is_table(file) or file.suffix == ".npz"
    for option, name in columns.given.items():
        if not is_named:
            raise InputError(
                f"{option}={name!r} names a column, but edges={str(file)!r} is not a table: leave "
                "it out, or convert the file to .csv or .parquet."
            )
    source: EdgeSource = read(file, columns) if is_named else read(file)
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


def chained(files: Sequence[Path], sources: Sequence[EdgeSource]) -> EdgeSource:
    """The edges of several files, one after the other; all of them have weights, or none."""
    if len(sources) == 1:
        return sources[0]
    by_file = dict(zip(map(str, files), sources, strict=True))
    unit = common_unit(**{name: one.time_unit for name, one in by_file.items()})
    numbers = [one.number for one in sources]
    return EdgeSource(
        lambda rows: (edges for one in sources for edges in one.chunks(rows)),
        all_weighted({f"edges={name!r}": one for name, one in by_file.items()}),
        None if None in numbers else sum(number or 0 for number in numbers),
        tuple(dict.fromkeys(note for one in sources for note in one.notes)),
        unit,
    )


def all_weighted(sources: Mapping[str, EdgeSource]) -> bool:
    """Whether edges have weights: those of all sources, by name, or of none."""
    weighted = [name for name, source in sources.items() if source.is_weighted]
    plain = [name for name, source in sources.items() if not source.is_weighted]
    if weighted and plain:
        raise InputError(
            f"{weighted[0]} has weights, but {plain[0]} has none: add a column of weights, or "
            "remove it."
        )
    return bool(weighted)


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


def concatenated(parts: Sequence[Edges]) -> Edges:
    """Edges of several parts, whose ends are numbers of nodes."""
    first = parts[0]
    time = first.time
    if time is not None:
        value = np.concatenate([one.time.value for one in parts if one.time is not None])
        time = Times(value, time.unit)
    weights = [one.weight for one in parts if one.weight is not None]
    return first._replace(
        source=np.concatenate([one.source for one in parts]),
        target=np.concatenate([one.target for one in parts]),
        weight=np.concatenate(weights) if weights else None,
        time=time,
    )


def check_some(number: int) -> None:
    """Raise if there are no edges."""
    if number == 0:
        raise InputError("edges is empty, but a graph needs edges: check the file.")


def find_nodes(edges: Edges, nodes: Nodes) -> Edges:
    """Edges with the numbers of nodes in the place of the user's ids. int64[E] each."""
    own = Nodes(nodes.number) if edges.is_numbered else nodes
    return find_ends(edges, own, own)


def find_ends(edges: Edges, sources: Nodes, targets: Nodes) -> Edges:
    """Edges with numbers among the nodes of two types in the place of ids. int64[E] each."""
    check_some(len(edges.source))
    source = _numbers("source", edges.source, sources)
    target = _numbers("target", edges.target, targets)
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


def make_graph(
    edges: Edges,
    num_nodes: int,
    directed: bool,
    norm: Norm = "weighted-mean",
    node_time: IntArray | None = None,
) -> Graph:
    """Build a graph with merged parallel edges and one self-loop per node.

    Edges with times are not merged: each is an event of its own. With `node_time` [V], each edge is
    as old as its source, reverse ones, too.

    `norm` is that of edges with weights.

    Merging adds weights. With directed=False every edge is used in both directions. If the file
    already has both, their weights are added, as PyG's `to_undirected` does.
    """
    weight, time = edges.weight, None if edges.time is None else edges.time.value
    pairs = np.stack([edges.source, edges.target]).astype(np.int64, copy=False)
    if not directed:
        pairs = np.concatenate([pairs, pairs[::-1]], axis=1)
        weight = None if weight is None else np.concatenate([weight, weight])
        time = None if time is None else np.concatenate([time, time])
    if node_time is not None:
        time = node_time[pairs[0]]
    if time is not None and weight is not None and norm == "weighted-mean":
        raise InputError(
            "norm='weighted-mean' gives self-loops the mean weight of edges of any time, future "
            "ones included: choose norm weights (--norm weights), or leave the weights out."
        )
    return Graph.from_edge_index(
        pairs,
        num_nodes,
        weight=weight,
        norm="mean" if weight is None else norm,
        duplicates="coalesce" if time is None else "keep",
        time=time,
    )


def undirected(pairs: Array, num_nodes: int) -> Graph:
    """Build a graph with each edge once in both directions, and self-loops. pairs [2, E]."""
    both = np.concatenate([pairs, pairs[::-1]], axis=1)
    return Graph.from_edge_index(both, num_nodes, duplicates="coalesce")


def npy_edges(file: Path) -> EdgeSource:
    """Edges of a .npy file, [2, E] or [E, 2]."""
    return _pairs(NpyRows(file))


def npz_edges(file: Path, named: EdgeColumns) -> EdgeSource:
    """Edges of an .npz file: a SciPy matrix, or arrays src, dst and optionally weight and time."""
    return held(_archive(file, named))


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


def _archive(file: Path, named: EdgeColumns) -> Edges:
    """Read a SciPy matrix, in which entry [j, i] is the edge j -> i, or src, dst and weight."""
    if "format" not in npz_names(file):
        given = tuple(named.given.values())
        return _named(file, read_npz(file, given, (*SOURCES, *TARGETS, WEIGHT)), named)
    if named.given:
        raise InputError(
            f"{next(iter(named.given))} names an array, but edges={str(file)!r} is a SciPy matrix: "
            "leave it out, or save arrays such as src, dst and time."
        )
    matrix = read_sparse(file).tocoo()
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(
            f"edges={str(file)!r} is a matrix of shape {matrix.shape}, but an adjacency matrix is "
            "square: give it one row and one column per node."
        )
    is_plain = matrix.data.dtype.kind == "b" or bool((matrix.data == 1).all())
    return Edges(matrix.row, matrix.col, None if is_plain else matrix.data)


def _named(file: Path, columns: dict[str, Array], named: EdgeColumns) -> Edges:
    weight, time = columns.get(named.weight or WEIGHT), None
    others = {named.weight, named.time} - {""}
    if named.source and named.target:
        source, target = named.source, named.target
    else:
        ends = _ends(file, [name for name in columns if name not in others])
        source, target = named.source or ends[0], named.target or ends[1]
    if named.time:
        shown = f"edges={str(file)!r} has the array {named.time!r} of times"
        time = array_times(shown, columns[named.time])
    if columns[source].shape != columns[target].shape or columns[source].ndim != 1:
        raise InputError(
            f"edges={str(file)!r} has src of shape {columns[source].shape} and dst of shape "
            f"{columns[target].shape}: give both one entry per edge."
        )
    if time is not None and time.value.shape != columns[source].shape:
        raise InputError(
            f"edges={str(file)!r} has {time.value.size} times for {columns[source].size} edges: "
            "give each edge one."
        )
    return Edges(columns[source], columns[target], weight, time=time)


def _ends(file: Path, names: Sequence[str]) -> tuple[str, str]:
    """Names of the arrays of sources and targets."""
    sources = [name for name in names if name in SOURCES]
    targets = [name for name in names if name in TARGETS]
    if len(sources) != 1 or len(targets) != 1:
        shown = ", ".join(map(printable, names[:20])) or "neither"
        raise InputError(
            f"edges={str(file)!r} must hold src and dst once each, and has {shown}: rename or "
            "remove its columns."
        )
    return sources[0], targets[0]
