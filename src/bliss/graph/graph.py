"""`Graph`: directed edges compressed by target, with aggregation coefficients. Immutable."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse

from bliss import checks
from bliss.arrays import NO_IDS, NOTHING, Array, FloatArray, IntArray
from bliss.errors import InputError
from bliss.graph.conversion import (
    Pairs,
    adjacency_of,
    check_source,
    check_unchanged,
    edge_attributes,
    edges_of,
    is_edge_index,
    library_of,
    pairs_of,
)
from bliss.graph.csc import (
    WEIGHTED,
    check_arrays,
    check_edge_ids,
    check_pointers,
    check_weight,
    compress,
    degree_factors,
)
from bliss.graph.cutoff import Cutoff, check_edge_times, check_times, seen_at, times_of
from bliss.graph.rows import Rows
from bliss.kernels import links

if TYPE_CHECKING:
    from torch import Tensor

Norm = Literal["mean", "gcn", "weights", "weighted-mean"]
SelfLoops = Literal["add", "keep", "remove"]
Duplicates = Literal["keep", "coalesce"]

NORMS = ("mean", "gcn", *WEIGHTED)
_CHUNK = 1 << 18  # nodes
_COUNTED = 10**8  # edges among which `repr` counts self-loops


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A directed graph in compressed sparse column form, with aggregation coefficients.

    The in-edges of node i are the positions indptr[i] to indptr[i + 1] of `indices`; a position is
    the edge's id. Rows are sorted by source, or by time if edges have times, unless CSC arrays were
    used without a copy. The coefficient alpha_ij of edge j -> i is

    * ``norm="mean"``: 1 / |N_i|
    * ``norm="gcn"``: 1 / sqrt(|N_i| |N_j|), with in-degrees
    * ``norm="weights"``: w_ij, the given weight
    * ``norm="weighted-mean"``: w_ij / sum_k w_ik, over the in-edges of i; 0 if the sum is 0

    Build one with `Graph.of`, or with the constructor for your format: `from_data`,
    `from_edge_index`, `from_scipy`, `from_csc`. `bliss.data.open_graph` opens a saved one.

    Examples
    --------
    >>> graph = Graph.from_edge_index([[0, 1, 2], [1, 2, 2]], num_nodes=4)
    >>> graph
    Graph(nodes=4, edges=2, self_loops=4, norm='mean')
    >>> graph.indices[graph.indptr[2] : graph.indptr[3]]  # node 1 and one self-loop
    array([1, 2], dtype=int32)
    """

    indptr: IntArray  # int64[V + 1]
    indices: IntArray  # int32[E] or int64[E], sources
    norm: Norm = "mean"
    weight: FloatArray = field(default_factory=lambda: NOTHING)  # float32[E], or empty: no weights
    edge_id: IntArray | None = None  # int32[E] or int64[E], column of the given edge_index
    time: IntArray = field(default_factory=lambda: NO_IDS)  # int64[E], or empty: no times

    def __post_init__(self) -> None:
        checks.choice("norm", self.norm, NORMS)
        indptr, indices = check_arrays(self.indptr, self.indices)
        is_empty = np.size(self.weight) == 0 and (indices.size > 0 or self.norm not in WEIGHTED)
        given = None if is_empty else self.weight
        weight = check_weight(self.norm, given, indices.size)
        self._freeze(indptr=indptr, indices=indices, weight=weight)
        if self.edge_id is not None:
            self._freeze(edge_id=check_edge_ids(self.edge_id, indices.size))
        self._freeze(time=check_edge_times(self.time, indptr))

    @classmethod
    def trusted(
        cls,
        indptr: IntArray,
        indices: IntArray,
        norm: Norm,
        weight: FloatArray,
        time: IntArray = NO_IDS,
    ) -> Graph:
        """A graph from arrays that were checked before; only the pointers are checked again.

        Kernels do not check indices: with wrong ones they would read and write outside the arrays.
        """
        has_weights = norm in WEIGHTED
        if (
            indices.dtype not in (np.int32, np.int64)
            or indices.ndim != 1
            or (has_weights and (weight.dtype != np.float32 or weight.shape != indices.shape))
        ):
            return cls(indptr, indices, norm, weight, time=time)
        graph = object.__new__(cls)
        object.__setattr__(graph, "norm", norm)
        object.__setattr__(graph, "edge_id", None)
        pointers = check_pointers(indptr, indices.size)
        times = check_times("time", time, indices.size if time.size else 0, "edge")
        graph._freeze(indptr=pointers, indices=indices, weight=weight, time=times)
        return graph

    def __deepcopy__(self, memo: Any) -> Graph:
        return self  # immutable, and as large as the data

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        arrays = {"indptr": self.indptr, "indices": self.indices, "weight": self.weight}
        arrays["time"] = self.time
        self._freeze(**arrays, **({} if self.edge_id is None else {"edge_id": self.edge_id}))

    def _freeze(self, **arrays: Array) -> None:
        for name, array in arrays.items():
            view = array.view()  # the caller's array stays writeable
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    def __repr__(self) -> str:
        if "num_self_loops" not in self.__dict__ and self.num_edges > _COUNTED:
            counts = f"edges={self.num_edges} with self-loops"
        else:
            loops = self.num_self_loops
            counts = f"edges={self.num_edges - loops}, self_loops={loops}"
        times = ", times=True" if self.has_times else ""
        return f"Graph(nodes={self.num_nodes}, {counts}, norm={self.norm!r}{times})"

    @property
    def num_nodes(self) -> int:
        """|V|."""
        return self.indptr.size - 1

    @property
    def num_edges(self) -> int:
        """|E|, including self-loops."""
        return self.indices.size

    @property
    def has_times(self) -> bool:
        """Whether edges have times."""
        return self.time.size > 0

    @cached_property
    def degree(self) -> IntArray:
        """|N_i|, the number of in-edges of each node. int64[V]."""
        return np.diff(self.indptr)

    def degree_of(self, nodes: IntArray) -> IntArray:
        """|N_i| of some nodes. Does not build `degree`, which takes 8 bytes per node. int64[N]."""
        degree: IntArray = self.indptr[nodes + 1] - self.indptr[nodes]
        return degree

    @property
    def edge_index(self) -> Tensor:
        """All edges in PyG's form, sources over targets, in the order of edge ids. int64[2, E].

        `Block.propagate(conv, x)` estimates `conv(x, graph.edge_index)`. The self-loops of the
        graph are included. The tensor is built on each call.
        """
        import torch

        target = np.repeat(np.arange(self.num_nodes), self.degree)
        return torch.from_numpy(np.stack([self.indices.astype(np.int64), target]))

    @property
    def edge_weight(self) -> Tensor:
        """alpha_ij of all edges, in the order of `edge_index`. float32[E], built on each call."""
        import torch

        nodes, edges = np.arange(self.num_nodes), np.arange(self.num_edges)
        alpha = self.rows(nodes).coefficients(nodes, self.indptr, self.indices, edges)
        return torch.from_numpy(alpha)

    @cached_property
    def has_self_loops(self) -> bool:
        """Whether every node has a self-loop. The first call may take a pass over the edges."""
        return all(np.unique(loop).size == number for number, loop in self._self_loops())

    @cached_property
    def num_self_loops(self) -> int:
        """Number of self-loops. The first call may take a pass over the edges."""
        return sum(loop.size for _, loop in self._self_loops())

    def _self_loops(self) -> Iterator[tuple[int, IntArray]]:
        """Self-loops in chunks of nodes: the number of nodes, and the node of each self-loop."""
        for start in range(0, self.num_nodes, _CHUNK):
            pointers = self.indptr[start : start + _CHUNK + 1]
            nodes = np.arange(start, start + pointers.size - 1)
            source = self.indices[pointers[0] : pointers[-1]]
            yield nodes.size, source[source == np.repeat(nodes, np.diff(pointers))]

    def note_self_loops(self) -> None:
        """Note that each node has one self-loop, which is then known without a pass."""
        self.__dict__.update(has_self_loops=True, num_self_loops=self.num_nodes)

    @cached_property
    def has_sorted_rows(self) -> bool:
        """Whether in-edges are sorted by source. The first call may take a pass over the edges."""
        return bool(links.first_unsorted(self.indptr, self.indices) < 0)

    def edges_between(self, source: IntArray, target: IntArray) -> tuple[IntArray, IntArray]:
        """Ids of the edges source_n -> target_n, parallel ones included, by binary search.

        source, target  int64[N]
        returns         position n of each edge int64[H], not decreasing, and its id int64[H]
        """
        pair, edge = links.edges_of_pairs(
            self.indptr, self.indices, self.has_sorted_rows, source, target
        )
        return pair, edge

    def source_factor(self, power: float) -> FloatArray:
        """Source factor of alpha_ij to a power, computed once. float32[V], or empty if it is 1."""
        if self.norm != "gcn" or power == 0.0:
            return NOTHING.astype(np.float32)
        factors: dict[float, FloatArray] = self.__dict__.setdefault("_source_factors", {})
        if power not in factors:
            factors[power] = degree_factors(self.indptr, power)
        return factors[power]

    def rows(
        self, dst: IntArray, without: Any = None, before: Any = None, after: Any = None
    ) -> Rows:
        """The edges that targets may see; degrees and coefficients are those of these edges.

        Parameters
        ----------
        dst
            Targets, int64[D]; distinct, unless they have times.
        without
            Edge ids [H] that no target may see, or `HiddenEdges`.
        before, after
            Times int64[D]: each target sees edges of times after <= time < before. `before` may be
            a `Cutoff`.
        """
        if before is None or isinstance(before, Cutoff):
            return Rows.of(self, dst, without, before)
        start = NO_IDS if after is None else check_times("after", after, dst.size, "target")
        cutoff = Cutoff(check_times("before", before, dst.size, "target"), start)
        return Rows.of(self, dst, without, cutoff)

    def at(self, time: int, strict: bool = False) -> Graph:
        """The graph as it was at a time: with edges of at most this time, or below it if strict.

        Makes new arrays, without times.
        """
        seen = seen_at(self.time, time, strict)
        count = np.concatenate([[0], np.cumsum(seen)])
        weight = self.weight[seen] if self.weight.size else self.weight
        edge_id = None if self.edge_id is None else self.edge_id[seen]
        return Graph(count[self.indptr], self.indices[seen], self.norm, weight, edge_id)

    def with_norm(self, norm: Norm) -> Graph:
        """The same edges, and the same weights if there are any, with other coefficients."""
        checks.choice("norm", norm, NORMS)
        if norm in WEIGHTED and self.norm not in WEIGHTED:
            raise InputError(
                f"norm={norm!r} needs weights, and this graph has none: build it with weight=...."
            )
        if norm == self.norm:
            return self
        graph = object.__new__(Graph)  # skips the checks, which these arrays passed
        object.__setattr__(graph, "norm", norm)
        object.__setattr__(graph, "edge_id", self.edge_id)
        weight = self.weight if norm in WEIGHTED else NOTHING
        graph._freeze(indptr=self.indptr, indices=self.indices, weight=weight, time=self.time)
        kept = {"degree", "has_self_loops", "num_self_loops", "has_sorted_rows"}
        for name in kept & self.__dict__.keys():  # do not depend on norm
            graph.__dict__[name] = self.__dict__[name]
        return graph

    @classmethod
    def of(
        cls,
        source: Any,
        norm: Norm | None = None,
        num_nodes: int | None = None,
        **options: Any,
    ) -> Graph:
        """Convert a graph, matrix or edge_index of another library, with its edges as they are.

        Self-loops are neither added nor removed, unless norm="gcn", whose coefficients are those of
        a graph with one self-loop per node, as in `GCNConv`.

        Parameters
        ----------
        source
            A `Graph`; a PyG `Data` or `EdgeIndex`; a networkx graph; a SciPy or torch sparse matrix
            (COO, CSR, CSC) or a `SparseTensor`, in which [j, i] is the edge j -> i; or a tensor or
            array edge_index [2, E].
        norm
            Aggregation coefficients. Default: those of a graph, otherwise "mean". With
            "weighted-mean" and "weights", weights are data.edge_weight, the values of a matrix or
            the edge attribute "weight" of networkx.
        num_nodes
            |V| of an edge_index; by default one more than the largest id.
        options
            Options of `from_edge_index`, such as self_loops and edge_ids. By default, self_loops is
            "keep", and "add" with norm="gcn".
        """
        if num_nodes is not None and not is_edge_index(source):
            raise InputError(
                f"num_nodes={num_nodes} was given with a {type(source).__name__}, which knows its "
                "number of nodes: leave it out."
            )
        if isinstance(source, Graph):
            check_unchanged(source.norm, norm, options)
            return source
        options.setdefault("self_loops", _loops_of(norm))
        kind = library_of(source)
        check_source(source, kind, options)
        if kind == "torch_geometric.HeteroData":
            raise InputError(
                "HeteroData has several types of nodes or edges and cannot be converted to a "
                "graph: pass data.to_homogeneous()."
            )
        if kind == "torch_geometric.Data":
            if norm is None and getattr(source, "edge_weight", None) is not None:
                warnings.warn(
                    "data.edge_weight is not used, because the coefficients are 1 / degree: pass "
                    'norm="weighted-mean" or norm="weights" to use it, or norm="mean" to silence '
                    "this warning.",
                    stacklevel=2,
                )
            return cls.from_data(source, norm=norm or "mean", **options)
        if kind == "torch_geometric.EdgeIndex":
            return cls.from_edge_index(source, num_nodes, norm=norm or "mean", **options)
        if scipy.sparse.issparse(source):
            return cls.from_scipy(source, norm=norm or "mean", **options)
        pairs = edges_of(source)
        if pairs is None:
            raise InputError(
                f"{type(source).__name__} cannot be converted to a graph: pass a Graph, a PyG Data "
                "or EdgeIndex, a networkx graph, a sparse matrix, or an edge_index [2, E]."
            )
        size = pairs.num_nodes or num_nodes
        return cls._from_pairs(pairs, norm or "mean", num_nodes=size, **options)

    @classmethod
    def _from_pairs(cls, pairs: Pairs, norm: Norm, **options: Any) -> Graph:
        weight = pairs.weight if norm in WEIGHTED else None
        return cls.from_edge_index(pairs.edge_index, weight=weight, norm=norm, **options)

    @classmethod
    def from_data(
        cls, data: Any, norm: Norm = "mean", time_attr: str | None = None, **options: Any
    ) -> Graph:
        """Build from a PyG `Data`: its edge_index, or adj_t, in which [i, j] is the edge j -> i.

        If the norm takes weights, they are edge_weight, or the values of adj_t. Options are those
        of `from_edge_index`. By default, self-loops are kept as they are, except with norm="gcn";
        edge ids are kept if the data has attributes of edges other than edge_weight. `time_attr`
        is the attribute with the times of edges, or of nodes: an edge is as old as its source.
        """
        options.setdefault("self_loops", _loops_of(norm))
        time = None if time_attr is None else times_of(data, time_attr)
        if data.edge_index is None:
            pairs = adjacency_of(data)
            if pairs is None:
                raise InputError(
                    "data.edge_index is None, but it or data.adj_t must hold the edges: set it "
                    "first."
                )
            return cls._from_pairs(pairs, norm, num_nodes=pairs.num_nodes, **options)
        attributes = edge_attributes(data) - {"edge_weight"}
        options.setdefault("edge_ids", bool(attributes))
        weight = getattr(data, "edge_weight", None) if norm in WEIGHTED else None
        return cls.from_edge_index(
            data.edge_index, data.num_nodes, weight=weight, norm=norm, time=time, **options
        )

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Any,
        num_nodes: int | None = None,
        weight: Any = None,
        norm: Norm = "mean",
        self_loops: SelfLoops = "add",
        duplicates: Duplicates = "keep",
        edge_ids: bool = False,
        time: Any = None,
    ) -> Graph:
        """Build from pairs (source, target), in PyG's format.

        Parameters
        ----------
        edge_index
            Integers [2, E]: sources in edge_index[0], targets in edge_index[1].
        num_nodes
            |V|; by default one more than the largest id.
        weight
            One number per edge, for norm="weighted-mean" and norm="weights".
        norm
            Aggregation coefficients: "mean", "gcn", "weighted-mean" or "weights".
        self_loops
            "add": replace existing self-loops by one per node, of weight 1, or with
            norm="weighted-mean" of the mean weight of the node's other in-edges; "keep": leave them
            unchanged; "remove": remove them.
        duplicates
            "keep": keep parallel edges, each as a separate edge; "coalesce": merge them and add
            their weights.
        edge_ids
            Whether to keep, for each edge, its column in edge_index, which `Block.e_id` returns: -1
            for an added self-loop, and the first column for merged edges and replaced self-loops. 4
            bytes per edge, 8 for more than 2^31 edges.
        time
            Whole numbers [E], the time of each edge, by which rows are then sorted. An added
            self-loop is seen at any time.
        """
        checks.choice("norm", norm, NORMS)
        checks.choice("self_loops", self_loops, ("add", "keep", "remove"))
        checks.choice("duplicates", duplicates, ("keep", "coalesce"))
        pairs, num_nodes = pairs_of(edge_index, num_nodes)
        times = NO_IDS if time is None else check_times("time", time, pairs.shape[1], "edge")
        columns = np.arange(pairs.shape[1]) if edge_ids else NO_IDS
        value = check_weight(norm, weight, pairs.shape[1])
        edges = compress(pairs, num_nodes, value, columns, times, norm, self_loops, duplicates)
        ids = edges.column if edge_ids else None
        graph = cls(edges.indptr, edges.indices, norm, edges.weight, ids, edges.time)
        if not graph.has_times:
            graph.__dict__["has_sorted_rows"] = True  # known without a pass over the edges
        if self_loops == "add":
            graph.note_self_loops()
        return graph

    @classmethod
    def from_scipy(cls, matrix: Any, norm: Norm = "mean", **options: Any) -> Graph:
        """Build from a square SciPy sparse matrix: entry [j, i] is the weight of edge j -> i.

        Options are those of `from_edge_index`.
        """
        if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
            raise InputError(
                f"matrix has shape {matrix.shape}, but an adjacency matrix is square: pass one "
                "row and one column per node."
            )
        entries = matrix.tocoo()
        weight = entries.data if norm in WEIGHTED else None
        pairs = np.stack([entries.row, entries.col])
        return cls.from_edge_index(
            pairs, num_nodes=matrix.shape[0], weight=weight, norm=norm, **options
        )

    @classmethod
    def from_csc(
        cls,
        indptr: Any,
        indices: Any,
        weight: Any = None,
        norm: Norm = "mean",
        self_loops: SelfLoops = "add",
        duplicates: Duplicates = "keep",
    ) -> Graph:
        """Build from arrays compressed by target; options as in `from_edge_index`.

        With self_loops="keep" and duplicates="keep" the arrays are checked and used without a copy,
        so they may be memory-mapped.
        """
        checks.choice("norm", norm, NORMS)
        if self_loops == "keep" and duplicates == "keep":
            return cls(indptr, indices, norm, NOTHING if weight is None else weight)
        pointers, sources = check_arrays(indptr, indices)
        num_nodes = pointers.size - 1
        targets = np.repeat(np.arange(num_nodes), np.diff(pointers))
        return cls.from_edge_index(
            np.stack([sources.astype(np.int64), targets]),
            num_nodes=num_nodes,
            weight=weight,
            norm=norm,
            self_loops=self_loops,
            duplicates=duplicates,
        )


def _loops_of(norm: Norm | None) -> SelfLoops:
    """Self-loops of a converted graph: as they are; one per node for the coefficients of GCN."""
    return "add" if norm == "gcn" else "keep"
