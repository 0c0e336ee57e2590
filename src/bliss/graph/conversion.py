"""Edges of graphs and matrices of other libraries. Imports none of these libraries."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from bliss import checks
from bliss.arrays import Array
from bliss.errors import InputError
from bliss.graph.cutoff import hetero_times


class Pairs(NamedTuple):
    """Edges as pairs (source, target)."""

    edge_index: Array  # [2, E]
    num_nodes: int | None
    weight: Array | None = None  # [E]

    @property
    def reversed(self) -> Pairs:
        """Each edge in the other direction."""
        return self._replace(edge_index=self.edge_index[::-1])


def library_of(source: Any) -> str:
    """Name of the library and type of an object, such as "torch_geometric.Data"; or empty."""
    libraries = ("torch_geometric", "torch_sparse", "networkx", "torch")
    types = ("HeteroData", "Data", "EdgeIndex", "SparseTensor", "Graph", "Tensor")
    bases = {(base.__module__.partition(".")[0], base.__name__) for base in type(source).__mro__}
    order = [(library, name) for library in libraries for name in types]
    return next((".".join(pair) for pair in order if pair in bases), "")


def check_unchanged(own: str, norm: str | None, options: Mapping[str, Any]) -> None:
    """Raise an error if options would change a graph that is already built. own: its norm."""
    if options:
        raise InputError(
            f"{', '.join(options)} cannot be changed, because the graph is already built: "
            "pass it to Graph.of(data, ...) when you build the graph."
        )
    if norm is not None and norm != own:
        raise InputError(
            f"norm={norm!r} differs from the graph's norm={own!r}: leave norm out, or pass "
            f"graph.with_norm({norm!r})."
        )


def check_source(source: Any, kind: str, options: Mapping[str, Any]) -> None:
    """Raise an error for a path, and for times that an object cannot hold."""
    if isinstance(source, (str, PathLike)):
        raise InputError(
            f"the path {str(source)!r} cannot be converted to a graph: open a saved graph "
            "with bliss.data.open_graph."
        )
    has_attributes = kind in ("torch_geometric.Data", "torch_geometric.HeteroData")
    if options.get("time_attr") is not None and not has_attributes:
        raise InputError(
            f"time_attr={options['time_attr']!r} names an attribute of a PyG Data, but the edges "
            f"are a {type(source).__name__}: pass Graph.from_edge_index(edge_index, time=...)."
        )


def pairs_of(edge_index: Any, num_nodes: int | None) -> tuple[Array, int]:
    """Edges [2, E] and the number of nodes, by default that of an `EdgeIndex`, or max + 1."""
    if num_nodes is None and library_of(edge_index) == "torch_geometric.EdgeIndex":
        num_nodes = max((size or 0 for size in edge_index.sparse_size()), default=0) or None
    pairs = checks.as_array("edge_index", edge_index)
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        raise InputError(
            f"edge_index has shape {pairs.shape}, but must be [2, E], sources over targets: "
            "transpose it if it is [E, 2]."
        )
    if num_nodes is None:
        num_nodes = int(pairs.max()) + 1 if pairs.size and pairs.dtype.kind in "iu" else 0
    return pairs, checks.whole("num_nodes", num_nodes)


def edge_attributes(data: Any) -> set[str]:
    """Names of the attributes of a PyG `Data` that have a row per edge, without its edges."""
    return _edge_attributes(data, data.to_dict(), data)


def hetero_arguments(data: Any, norm: str, options: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `Graph.from_relations` for a PyG `HeteroData`."""
    for name in ("self_loops", "duplicates"):
        if options.pop(name, "keep") != "keep":
            raise InputError(
                f"{name} cannot be changed for HeteroData, whose edges are used as they are: "
                "change the edges of the data, for instance with data.coalesce()."
            )
    edges = {}
    for edge_type in data.edge_types:
        if getattr(data[edge_type], "edge_index", None) is None:
            raise InputError(
                f"data[{edge_type}] has no edge_index: set it, or remove the relation."
            )
        edges[edge_type] = data[edge_type].edge_index
    is_weighted = norm in ("weights", "weighted-mean")
    weight = {key: getattr(data[key], "edge_weight", None) for key in edges}
    attributes = set().union(*hetero_edge_attributes(data).values()) - {"edge_weight"}
    options.setdefault("edge_ids", bool(attributes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyG, where it does not know the number
        sizes = {name: data[name].num_nodes for name in data.node_types}
    name = options.pop("time_attr", None)
    time = None if name is None else hetero_times(data, name)
    given = {"edge_index": edges, "num_nodes": sizes, "weight": weight if is_weighted else None}
    return given | {"norm": norm, "time": time} | options


def hetero_edge_attributes(data: Any) -> dict[tuple[str, str, str], set[str]]:
    """Names of the attributes of a `HeteroData` with a row per edge, by relation."""
    stores = {edge_type: data[edge_type] for edge_type in data.edge_types}
    return {key: _edge_attributes(store, store, data, store) for key, store in stores.items()}


def _edge_attributes(store: Any, values: Any, data: Any, *of_store: Any) -> set[str]:
    return {
        name
        for name, value in values.items()
        if name not in ("edge_index", "adj_t")
        and store.is_edge_attr(name)
        and data.__cat_dim__(name, value, *of_store) == 0  # not edge_label_index [2, E]
    }


def edges_of(source: Any) -> Pairs | None:
    """Edges of a networkx graph, a tensor, an array or a `SparseTensor`; None for other types.

    A matrix has the edge j -> i at [j, i]. A dense tensor or array [2, E] is an edge_index.
    """
    kind = library_of(source)
    if kind == "networkx.Graph":
        return _of_networkx(source)
    if kind == "torch_sparse.SparseTensor":
        row, column, value = source.coo()
        return matrix_pairs(source.sparse_sizes(), row, column, value)
    if kind == "torch.Tensor" and str(source.layout) != "torch.strided":
        return _of_torch(source)
    if kind == "torch.Tensor" or isinstance(source, np.ndarray):
        if source.ndim != 2 or len(source) != 2:
            raise InputError(
                f"a dense array of shape {tuple(source.shape)} cannot be converted to a graph: "
                "pass an edge_index [2, E], or a sparse matrix."
            )
        return Pairs(checks.as_array("edge_index", source), None)
    return None


def adjacency_of(data: Any) -> Pairs | None:
    """Edges of data.adj_t, in which [i, j] is the edge j -> i; None if there is none."""
    matrix = getattr(data, "adj_t", None)
    pairs = None if matrix is None else edges_of(matrix)
    return None if pairs is None else pairs.reversed


def _of_networkx(graph: Any) -> Pairs:
    """Nodes 0 to V - 1 keep their numbers; others are numbered in the order of graph.nodes."""
    nodes = list(graph.nodes)
    is_numbered = all(type(node) is int for node in nodes) and set(nodes) == set(range(len(nodes)))
    place = {node: node if is_numbered else number for number, node in enumerate(nodes)}
    edges = list(graph.edges(data="weight", default=1))
    pairs = np.array([(place[u], place[v]) for u, v, _ in edges], np.int64).reshape(-1, 2).T
    weight = np.array([w for *_, w in edges])
    if not graph.is_directed():
        back = pairs[0] != pairs[1]  # a self-loop has one direction
        pairs = np.concatenate([pairs, pairs[::-1, back]], axis=1)
        weight = np.concatenate([weight, weight[back]])
    return Pairs(pairs, len(nodes), weight)


def _of_torch(matrix: Any) -> Pairs:
    layout = str(matrix.layout).removeprefix("torch.sparse_")
    if layout == "coo":
        merged = matrix.coalesce()
        row, column = merged.indices()
        return matrix_pairs(matrix.shape, row, column, merged.values())
    if layout not in ("csr", "csc"):
        raise InputError(
            f"a torch tensor of layout {matrix.layout} cannot be converted to a graph: convert it "
            "with .to_sparse_coo()."
        )
    pointers = matrix.crow_indices() if layout == "csr" else matrix.ccol_indices()
    inner = matrix.col_indices() if layout == "csr" else matrix.row_indices()
    lengths = np.diff(checks.as_array("indptr", pointers))
    outer = np.repeat(np.arange(lengths.size), lengths)
    row, column = (outer, inner) if layout == "csr" else (inner, outer)
    return matrix_pairs(matrix.shape, row, column, matrix.values())


def matrix_pairs(shape: Any, row: Any, column: Any, value: Any) -> Pairs:
    """Edges of a square matrix given by the rows, columns and values of its entries."""
    sides = tuple(int(side) for side in shape)
    if len(sides) != 2 or sides[0] != sides[1]:
        raise InputError(
            f"matrix has shape {sides}, but an adjacency matrix is square: pass one row and one "
            "column per node."
        )
    ends = [checks.as_array("edge_index", nodes) for nodes in (row, column)]
    weight = np.ones(ends[0].size) if value is None else checks.as_array("weight", value)
    return Pairs(np.stack(ends), sides[0], weight)


def is_edge_index(source: Any) -> bool:
    """Whether an object is a dense tensor or array, which lacks the number of nodes."""
    is_tensor = library_of(source) in ("torch.Tensor", "torch_geometric.EdgeIndex")
    return isinstance(source, np.ndarray) or (is_tensor and str(source.layout) == "torch.strided")
