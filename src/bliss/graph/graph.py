"""`Graph`: directed edges compressed by target, with aggregation coefficients. Immutable."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bliss import checks
from bliss.arrays import NO_IDS, NOTHING, Array, BoolArray, FloatArray, IntArray
from bliss.errors import InputError
from bliss.graph.constructors import NORMS, GraphConstructors, Norm
from bliss.graph.csc import (
    WEIGHTED,
    check_arrays,
    check_edge_ids,
    check_pointers,
    check_weight,
    degree_factors,
    self_loops_of,
)
from bliss.graph.cutoff import Cutoff, check_edge_times, check_times, seen_at
from bliss.graph.graph_types import GraphTypes, refuse_gcn, types_of
from bliss.graph.rows import Rows
from bliss.kernels import links

if TYPE_CHECKING:
    from torch import Tensor

_COUNTED = 10**8  # edges among which `repr` counts self-loops


@dataclass(frozen=True, eq=False, repr=False)
class Graph(GraphConstructors):
    """A directed graph in compressed sparse column form, with aggregation coefficients.

    The in-edges of node i are the positions indptr[i] to indptr[i + 1] of `indices`; a position is
    the edge's id. Rows are sorted by source, or by timestamp if edges have them, unless CSC arrays
    were used without a copy. The coefficient alpha_ij of edge j -> i is

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
    types: GraphTypes | None = None  # of a heterogeneous graph

    def __post_init__(self) -> None:
        checks.choice("norm", self.norm, NORMS)
        indptr, indices = check_arrays(self.indptr, self.indices)
        is_empty = np.size(self.weight) == 0 and (indices.size > 0 or self.norm not in WEIGHTED)
        given = None if is_empty else self.weight
        weight = check_weight(self.norm, given, indices.size)
        self._freeze(indptr=indptr, indices=indices, weight=weight)
        if self.edge_id is not None:
            self._freeze(edge_id=check_edge_ids(self.edge_id, indices.size))
        if self.types is not None:
            self.types.check(self.num_nodes, self.num_edges)
        self._freeze(time=check_edge_times(self.time, self.group_ptr))

    @classmethod
    def trusted(
        cls,
        indptr: IntArray,
        indices: IntArray,
        norm: Norm,
        weight: FloatArray,
        time: IntArray = NO_IDS,
        types: GraphTypes | None = None,
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
            return cls(indptr, indices, norm, weight, time=time, types=types)
        pointers = check_pointers(indptr, indices.size)
        times = check_times("time", time, indices.size if time.size else 0, "edge")
        if types is not None:
            types.check(pointers.size - 1, indices.size)
        return cls._unchecked(norm, None, types, pointers, indices, weight, times)

    @classmethod
    def _unchecked(
        cls, norm: Norm, edge_id: IntArray | None, types: GraphTypes | None, *arrays: Array
    ) -> Graph:
        graph = object.__new__(cls)
        graph.__dict__.update({"norm": norm, "edge_id": edge_id, "types": types})
        graph._freeze(**dict(zip(("indptr", "indices", "weight", "time"), arrays, strict=True)))
        return graph

    def __deepcopy__(self, memo: Any) -> Graph:
        return self  # immutable, and as large as the data

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({"types": None} | state)
        arrays = {"indptr": self.indptr, "indices": self.indices, "weight": self.weight}
        arrays["time"] = self.time
        self._freeze(**arrays, **({} if self.edge_id is None else {"edge_id": self.edge_id}))

    def _freeze(self, **arrays: Array) -> None:
        for name, array in arrays.items():
            view = array.view()  # the caller's array stays writeable
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    def __repr__(self) -> str:
        counts = f"edges={self.num_edges} with self-loops"
        if "num_self_loops" in self.__dict__ or self.num_edges <= _COUNTED:
            loops = self.num_self_loops
            counts = f"edges={self.num_edges - loops}, self_loops={loops}"
        more = "" if self.types is None else f", relations={len(self.types.edge_types)}"
        more += ", times=True" if self.has_times else ""
        return f"Graph(nodes={self.num_nodes}, {counts}, norm={self.norm!r}{more})"

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
    def group_ptr(self) -> IntArray:
        """Edges of each group: a node's in-edges, or those under one relation. int64[Q + 1]."""
        return self.indptr if self.types is None else self.types.group_start

    def relation_of(self, edges: IntArray) -> IntArray:
        """Relation of each edge: its position in types.edge_types; 0 without types. int64[N]."""
        if self.types is None:
            return np.zeros(np.shape(edges), np.int64)
        group = np.searchsorted(self.types.group_start, edges, side="right") - 1
        return self.types.group_relation[group].astype(np.int64)

    @property
    def edge_index(self) -> Tensor:
        """All edges in PyG's form, sources over targets, in the order of edge ids. int64[2, E].

        `Block.propagate(conv, x)` estimates `conv(x, graph.edge_index)`. The self-loops of the
        graph are included. The tensor is built on each call.
        """
        import torch

        return torch.from_numpy(self.pairs)

    @property
    def pairs(self) -> IntArray:
        """`edge_index` as a NumPy array. int64[2, E]."""
        target = np.repeat(np.arange(self.num_nodes), np.diff(self.indptr))
        return np.stack([self.indices.astype(np.int64), target])

    @property
    def edge_weight(self) -> Tensor:
        """alpha_ij of all edges, in the order of `edge_index`. float32[E], built on each call."""
        import torch

        nodes, edges = np.arange(self.num_nodes), np.arange(self.num_edges)
        alpha = self.rows(nodes).coefficients(nodes, self.group_ptr, self.indices, edges)
        return torch.from_numpy(alpha)

    @cached_property
    def has_self_loops(self) -> bool:
        """Whether every node has a self-loop. The first call may take a pass over the edges."""
        chunks = self_loops_of(self.indptr, self.indices)
        return all(np.unique(loop).size == number for number, loop in chunks)

    @cached_property
    def num_self_loops(self) -> int:
        """Number of self-loops. The first call may take a pass over the edges."""
        return sum(loop.size for _, loop in self_loops_of(self.indptr, self.indices))

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
        edges = self.indptr, self.indices, self.has_sorted_rows
        pair, edge = links.edges_of_pairs(*edges, source, target)
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

    def at(self, time: int, strict: bool = False, window: int | None = None) -> Graph:
        """The graph as it was at a time: with edges of at most this time, or below it if strict.

        `window` limits the edges to the latest `window` units of time, up to `time`, or below it if
        strict. Makes new arrays, without timestamps.
        """
        graph = self.edge_subgraph(seen_at(self.time, time, strict, window))
        arrays = graph.indptr, graph.indices, graph.weight, NO_IDS
        return self._unchecked(graph.norm, graph.edge_id, graph.types, *arrays)

    def edge_subgraph(self, kept: BoolArray) -> Graph:
        """A graph of all nodes and some of the edges. Makes new arrays. kept: bool[E]."""
        count = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
        indptr, types = count[self.indptr], None
        if self.types is not None:
            relation = self.relation_of(np.flatnonzero(kept))
            types = types_of(self.types.num_nodes, self.types.edge_types, indptr, relation)
        weight = self.weight[kept] if self.weight.size else self.weight
        time = self.time[kept] if self.has_times else self.time
        edge_id = None if self.edge_id is None else self.edge_id[kept]
        return Graph(indptr, self.indices[kept], self.norm, weight, edge_id, time, types)

    def without_times(self) -> Graph:
        """The same edges, all of which are seen at any time; rows are sorted by source."""
        if not self.has_times:
            return self
        group = np.repeat(np.arange(self.group_ptr.size - 1), np.diff(self.group_ptr))
        order = np.lexsort((self.indices, group))
        weight = self.weight[order] if self.weight.size else self.weight
        edge_id = None if self.edge_id is None else self.edge_id[order]
        arrays = self.indptr, self.indices[order], weight, NO_IDS
        return self._unchecked(self.norm, edge_id, self.types, *arrays)

    def with_norm(self, norm: Norm) -> Graph:
        """The same edges, and the same weights if there are any, with other coefficients."""
        checks.choice("norm", norm, NORMS)
        if norm in WEIGHTED and self.norm not in WEIGHTED:
            raise InputError(
                f"norm={norm!r} needs weights, and this graph has none: build it with weight=...."
            )
        if norm == self.norm:
            return self
        if self.types is not None:
            refuse_gcn(norm)
        weight = self.weight if norm in WEIGHTED else NOTHING
        arrays = self.indptr, self.indices, weight, self.time
        graph = self._unchecked(norm, self.edge_id, self.types, *arrays)
        kept = {"degree", "has_self_loops", "num_self_loops", "has_sorted_rows"}
        for name in kept & self.__dict__.keys():  # do not depend on norm
            graph.__dict__[name] = self.__dict__[name]
        return graph
