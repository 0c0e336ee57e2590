"""`Rows`: the edges that the targets of a layer may see, and their aggregation coefficients."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bliss import checks
from bliss.arrays import NO_IDS, NOTHING, BoolArray, FloatArray, IntArray
from bliss.errors import InputError
from bliss.graph.csc import WEIGHTED, inverse_power
from bliss.graph.cutoff import Cutoff
from bliss.kernels import frontier, nodewise, times
from bliss.kernels.histories import add_rows, full_sums
from bliss.kernels.links import (
    edges_of_codes,
    split_ranges,
    split_rows,
    typed_ranges,
)

if TYPE_CHECKING:
    from bliss.graph.graph import Graph


@dataclass(frozen=True, eq=False, repr=False)
class HiddenEdges:
    """Edges of a graph that no target may see. Build it once per batch, with `HiddenEdges.of`."""

    edge: IntArray  # int64[H] distinct edge ids, increasing
    node: IntArray  # int64[N] targets of these edges, distinct, increasing
    count: IntArray  # int64[N] number of edges that each of these targets loses

    @classmethod
    def of(cls, graph: Graph, edges: Any) -> HiddenEdges:
        """Hidden edges from ids [H], in any order and possibly repeated."""
        if isinstance(edges, HiddenEdges):
            return edges
        ids = checks.as_array("without", edges)
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise InputError(
                f"without is {ids.dtype} of shape {ids.shape}, but must be edge ids [H]: pass "
                "positions in graph.indices."
            )
        distinct = np.unique(ids.astype(np.int64))
        if distinct.size and not 0 <= distinct[0] <= distinct[-1] < graph.num_edges:
            outside = distinct[0] if distinct[0] < 0 else distinct[-1]
            raise InputError(
                f"without holds {outside}, but the graph has {graph.num_edges} edges: pass "
                "positions in graph.indices."
            )
        target = np.searchsorted(graph.indptr, distinct, side="right") - 1
        node, count = np.unique(target, return_counts=True)
        return cls(distinct, node.astype(np.int64), count.astype(np.int64))

    def __repr__(self) -> str:
        return f"HiddenEdges(edges={self.edge.size}, targets={self.node.size})"

    @classmethod
    def between(cls, graph: Graph, source: IntArray, target: IntArray) -> HiddenEdges:
        """All edges source_n -> target_n, parallel ones included. source, target int64[N]."""
        if not graph.has_sorted_rows:
            return cls.of(graph, graph.edges_between(source, target)[1])
        codes = np.sort(target * graph.num_nodes + source)
        return cls(*edges_of_codes(graph.indptr, graph.indices, codes))

    def lost(self, nodes: IntArray) -> IntArray:
        """Number of in-edges that each of these nodes loses. int64[N]."""
        if not self.node.size:
            return np.zeros(nodes.size, np.int64)
        place = np.searchsorted(self.node, nodes).clip(max=self.node.size - 1)
        return np.where(self.node[place] == nodes, self.count[place], 0)

    def within(self, start: IntArray, stop: IntArray) -> tuple[IntArray, IntArray]:
        """Hidden edges in ranges of edge ids: their ranges int64[H'] and their ids int64[H'].

        start, stop  int64[R]
        """
        first = np.searchsorted(self.edge, start)
        count = np.searchsorted(self.edge, stop) - first
        return np.repeat(np.arange(count.size), count), self.edge[consecutive(first, count)]


_RANGES = ("pointer", "start", "stop", "degree")


def consecutive(first: IntArray, count: IntArray) -> IntArray:
    """The numbers first_n to first_n + count_n - 1 of every n, concatenated. int64[sum]."""
    before = np.cumsum(count) - count
    numbers: IntArray = np.arange(count.sum()) + np.repeat(first - before, count)
    return numbers


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """The edges that the targets of a layer may see: ranges of edge ids, in groups.

    A group is one neighbourhood N_g: that of a target, or that of a target under one relation.
    Groups are sorted by target. Coefficients, Hajek's rescaling and the fanouts of node-wise
    samplers are per group; the masses of a source add up over groups. Build it with `Graph.rows`.

    For edge j -> i of group g, the aggregation coefficient is

        mean     alpha_ij = 1 / |N_g|
        gcn      alpha_ij = 1 / sqrt(|N_g| |N_j|)
        weights  alpha_ij = w_ij, the given weight
        weighted-mean  alpha_ij = w_ij / W_g,    W_g = sum of w_ik over the edges k -> i of g

    where |N_g|, |N_j| and W_g count only visible edges. With timestamps, |N_j| counts the in-edges
    of j that the target of the edge may see, so alpha_ij is that of the graph at the target's time.
    An added self-loop keeps its weight w_ii, the mean of the other in-edges, if some of them are
    hidden, because a copy of the weights per batch would take O(E). `influence` is the weight of
    each target's squared error in the sum that a draw minimises (`bliss.samplers.influence`).
    Methods take O(groups), O(sources) or O(visible edges), never O(V) or O(E); only
    `Graph.source_factor` has V numbers, made once.
    """

    graph: Graph
    dst: IntArray  # int64[D] targets
    target_ptr: IntArray  # int64[D + 1] groups of target t: target_ptr[t] to target_ptr[t + 1]
    pointer: IntArray  # int64[G + 1] ranges of group g: pointer[g] to pointer[g + 1]
    start: IntArray  # int64[R] first edge of a range
    stop: IntArray  # int64[R] end of a range
    degree: IntArray  # int64[G] |N_g|, the number of visible edges
    chosen: IntArray | None = None  # int64[G] `group_id`, if a target with types lacks some groups
    hidden: HiddenEdges | None = None  # edges that are left out
    influence: FloatArray = field(default_factory=lambda: NOTHING)  # float64[D] g_i^2; empty: 1
    cutoff: Cutoff | None = None  # [D] times that each target may see; None: all

    @classmethod
    def of(
        cls, graph: Graph, dst: IntArray, without: Any = None, cutoff: Cutoff | None = None
    ) -> Rows:
        """Rows of the targets dst [D], whole or without some edges; see `Graph.rows`."""
        if graph.types is None:
            target_ptr = np.arange(dst.size + 1)
            if without is not None and cutoff is None:
                hidden = HiddenEdges.of(graph, without)
                ranges = split_rows(graph.indptr, dst, hidden.node, hidden.edge)
                return cls(graph, dst, target_ptr, *ranges, hidden=hidden)
            start, stop = graph.indptr[dst], graph.indptr[dst + 1]
            rows = cls(graph, dst, target_ptr, target_ptr, start, stop, stop - start)
        else:
            pointers = graph.types.group_ptr, graph.types.group_start
            target_ptr, start, stop, degree = typed_ranges(dst, *pointers)
            pointer = np.arange(degree.size + 1)
            rows = cls(graph, dst, target_ptr, pointer, start, stop, degree)
        if cutoff is not None:
            return rows._until(without, cutoff)
        if without is None:
            return rows
        hidden = HiddenEdges.of(graph, without)
        ranges = split_ranges(start, stop, rows.node, hidden.node, hidden.edge)
        return replace(rows, **dict(zip(_RANGES, ranges, strict=True)), hidden=hidden)

    def _until(self, without: Any, cutoff: Cutoff) -> Rows:
        """These whole groups, each until the time of its target, by binary search."""
        graph, dst = self.graph, self.dst
        if not graph.has_times and graph.num_edges:
            raise InputError(
                "the graph has no times, so a cut-off would hide nothing: build it with "
                'Graph.of(data, time_attr="time").'
            )
        if cutoff.before.size != dst.size or cutoff.after.size not in (0, dst.size):
            raise InputError(
                f"there are {cutoff.before.size} times for {dst.size} targets: pass one per target."
            )
        own = cutoff if graph.types is None else cutoff[self.owner]
        ranges = times.cut_ranges(self.start, self.stop, graph.time, own.before, own.after)
        hidden = None
        if without is not None:
            hidden = HiddenEdges.of(graph, without)
            ranges = times.hide_edges(*ranges[:3], hidden.edge)
        named = dict(zip(_RANGES, ranges, strict=True))
        return replace(self, **named, hidden=hidden, cutoff=cutoff)

    def last(self, count: int | IntArray) -> Rows:
        """The last `count` edges of each group, the newest if edges have times. count: also [G]."""
        length = self.stop - self.start
        group = np.repeat(np.arange(self.degree.size), np.diff(self.pointer))
        before = np.cumsum(length) - length - (np.cumsum(self.degree) - self.degree)[group]
        dropped = np.clip((self.degree - count)[group] - before, 0, length)
        degree = np.minimum(self.degree, count)
        return replace(self, start=self.start + dropped, degree=degree)

    def __repr__(self) -> str:
        size = f"targets={self.dst.size}, groups={self.degree.size}, edges={self.num_edges}"
        return f"Rows({size}, norm={self.graph.norm!r})"

    @property
    def ranges(self) -> tuple[IntArray, IntArray, IntArray]:
        """pointer, start and stop, the arguments of kernels."""
        return self.pointer, self.start, self.stop

    @cached_property
    def num_edges(self) -> int:
        """F, the number of visible edges."""
        return int(self.degree.sum())

    @cached_property
    def node(self) -> IntArray:
        """Target of each group. int64[G]."""
        node: IntArray = self.by_group(self.dst)
        return node

    @cached_property
    def owner(self) -> IntArray:
        """Position in dst of each group's target, not decreasing. int64[G]."""
        owner: IntArray = self.by_group(np.arange(self.dst.size))
        return owner

    @cached_property
    def group_id(self) -> IntArray:
        """Position of each group in `Graph.group_ptr`; without types, its target. int64[G]."""
        types = self.graph.types
        if types is None:
            return self.dst
        if self.chosen is not None:
            return self.chosen
        return consecutive(types.group_ptr[self.dst], np.diff(self.target_ptr))

    @cached_property
    def relation(self) -> IntArray:
        """Relation of each group; empty without types. int64[G]."""
        types = self.graph.types
        return NO_IDS if types is None else types.group_relation[self.group_id].astype(np.int64)

    def by_group(self, value: Any) -> Any:
        """Values of the targets, for each of their groups. [D] -> [G]."""
        return value if self.graph.types is None else np.repeat(value, np.diff(self.target_ptr))

    @property
    def is_whole(self) -> bool:
        """Whether each group is known to have all edges that it has in the graph."""
        return self.hidden is None and self.cutoff is None

    @property
    def is_partial(self) -> BoolArray:
        """Whether a group has fewer edges than it has in the graph. bool[G]."""
        whole, group = self.graph.group_ptr, self.group_id
        return self.degree < whole[group + 1] - whole[group]

    def ranges_of(self, groups: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """pointer, start and stop of some groups. groups int64[N]."""
        count = np.diff(self.pointer)[groups]
        pointer = np.concatenate([[0], np.cumsum(count)])
        place = consecutive(self.pointer[groups], count)
        return pointer, self.start[place], self.stop[place]

    def of_relation(self, relation: int, place: IntArray) -> Rows:
        """Rows of some targets under one relation. place int64[N] positions in dst, increasing."""
        groups = np.flatnonzero(self.relation == relation)
        some = self.of_groups(groups[np.isin(self.owner[groups], place)])
        return replace(
            some,
            dst=self.dst[place],
            target_ptr=np.append(some.target_ptr[place], some.degree.size),
            influence=NOTHING,
            cutoff=None if self.cutoff is None else self.cutoff[place],
        )

    def of_groups(self, groups: IntArray) -> Rows:
        """Some groups: of the same targets with types, otherwise of their own. groups int64[N]."""
        pointer, start, stop = self.ranges_of(groups)
        some = replace(self, pointer=pointer, start=start, stop=stop, degree=self.degree[groups])
        if self.graph.types is None:  # a group is a target
            cutoff = None if self.cutoff is None else self.cutoff[groups]
            own = np.arange(groups.size + 1)
            return replace(
                some, dst=self.dst[groups], target_ptr=own, influence=NOTHING, cutoff=cutoff
            )
        target_ptr = np.searchsorted(groups, self.target_ptr)
        return replace(some, target_ptr=target_ptr, chosen=self.group_id[groups])

    def edges(self) -> tuple[IntArray, IntArray]:
        """The visible edges: pointers int64[G + 1], edge ids int64[F]."""
        indptr, edge = nodewise.all_edges(*self.ranges)
        return indptr, edge

    def by_target(self, kept_indptr: IntArray) -> IntArray:
        """Convert pointers by group to pointers by target. int64[G + 1] -> int64[D + 1]."""
        if self.graph.types is None:
            return kept_indptr
        indptr: IntArray = kept_indptr[self.target_ptr]
        return indptr

    @cached_property
    def target_scale(self) -> FloatArray:
        """Target factor of alpha_ij; empty with norm="weights". float64[G]."""
        if self.graph.norm == "weights":
            return NOTHING
        if self.graph.norm == "weighted-mean":
            total = self._weight_sum
            return np.divide(1.0, total, out=np.zeros(total.size), where=total > 0)
        return inverse_power(self.degree, 1.0 if self.graph.norm == "mean" else 0.5)

    @cached_property
    def _weight_sum(self) -> FloatArray:
        """W_g, the sum of the weights of the visible edges of each group. float64[G]."""
        return np.asarray(frontier.range_sums(*self.ranges, self.graph.weight))

    def source_scale(self, nodes: IntArray) -> FloatArray:
        """Source factor of alpha_ij; empty if it is 1 everywhere. [N] -> float64[N].

        With times, it is that at the latest cut-off, for masses, which have one factor per node.
        """
        if self.graph.norm != "gcn":
            return NOTHING
        if self.cutoff is not None:
            latest = self.cutoff.latest[np.zeros(nodes.size, np.int64)]
            return inverse_power(Rows.of(self.graph, nodes, self.hidden, latest).degree, 0.5)
        degree = self.graph.degree_of(nodes)
        if self.hidden is not None:
            degree = degree - self.hidden.lost(nodes)
        return inverse_power(degree, 0.5)

    def source_factor(self, power: float) -> tuple[FloatArray, IntArray, FloatArray]:
        """Source factors to a power, for kernels: those of the graph, and those that differ.

        Returns `Graph.source_factor` float32[V], the nodes int64[N] whose factor differs because
        they lose edges, and the factors float32[N] of these nodes. With times these are all nodes
        that the targets may see.
        """
        factor = self.graph.source_factor(power)
        if not factor.size or (self.hidden is None and self.cutoff is None):
            return factor, NO_IDS, NOTHING.astype(np.float32)
        if self.cutoff is not None:
            sources = self.graph.indices[self.edges()[1]]
            changed: IntArray = np.union1d(sources, self.dst).astype(np.int64)
        else:
            assert self.hidden is not None
            changed = self.hidden.node
        return factor, changed, (self.source_scale(changed) ** power).astype(np.float32)

    def edge_source_scale(self, kept_indptr: IntArray, edge: IntArray) -> FloatArray:
        """Source factor of alpha_ij of some edges by group, with times and norm="gcn". float64[E'].

        It is 1 / sqrt(|N_j|), with |N_j| the in-edges of j that the target of the edge may see.
        """
        assert self.cutoff is not None
        cutoff = self.cutoff[np.repeat(self.owner, np.diff(kept_indptr))]
        source = self.graph.indices[edge].astype(np.int64)
        return inverse_power(Rows.of(self.graph, source, self.hidden, cutoff).degree, 0.5)

    def coefficients(
        self,
        source: IntArray,
        kept_indptr: IntArray,
        row: IntArray,
        edge: IntArray,
        correction: FloatArray = NOTHING,
    ) -> FloatArray:
        """alpha_ij of kept edges, times the correction of their source. float32[E'].

        source       int64[S]
        kept_indptr  int64[G + 1]  kept edges by group
        row          int64[E']     position in source
        edge         int64[E']     graph edge id
        correction   float64[S]; empty means 1 everywhere
        """
        is_weighted = self.graph.norm in WEIGHTED
        is_timed = self.graph.norm == "gcn" and self.cutoff is not None
        own = NOTHING if is_weighted else self.target_scale
        scales = own, NOTHING if is_timed else self.source_scale(source), self.graph.weight
        alpha: FloatArray = frontier.edge_weights(
            kept_indptr, row, edge, source.size, correction, *scales
        )
        if is_timed:
            alpha *= self.edge_source_scale(kept_indptr, edge).astype(np.float32)
        if self.graph.norm == "weighted-mean":
            alpha *= np.repeat(self.target_scale, np.diff(kept_indptr))
        return alpha

    def coefficient_sum(self) -> FloatArray:
        """Sum of alpha_ij over the visible edges of each group. float64[G]."""
        if self.graph.norm == "mean":
            return (self.degree > 0).astype(np.float64)
        if self.graph.norm in WEIGHTED:
            is_sum = self.graph.norm == "weights"
            return self._weight_sum if is_sum else (self._weight_sum > 0).astype(np.float64)
        if self.cutoff is not None:
            indptr, edge = self.edges()
            scale = np.concatenate([[0.0], np.cumsum(self.edge_source_scale(indptr, edge))])
            return np.diff(scale[indptr]) * self.target_scale
        changed = NO_IDS if self.hidden is None else self.hidden.node
        scales = self.graph.indptr, changed, self.source_scale(changed)
        total: FloatArray = frontier.source_sums(*self.ranges, self.graph.indices, *scales)
        return total * self.target_scale

    def full_sums(self, value: Any, first: int = 0) -> FloatArray:
        """Sum over the visible edges of each group of alpha_ij value_j. float32[G, F].

        value  float32[N, F] or float16[N, F]
        first  node of the first row of value: node j has the row j - first
        """
        if self.cutoff is not None:
            raise InputError(
                "sums over all neighbours do not support times: use a sampler without a history "
                "and without an exact first hop."
            )
        if self.graph.norm == "weighted-mean":
            return self._weighted_means(np.arange(self.degree.size), value, first)
        graph, is_gcn = self.graph, self.graph.norm == "gcn"
        degrees = graph.indptr if is_gcn else NO_IDS
        scales = self.target_scale, degrees, graph.weight
        sums: FloatArray = full_sums(*self.ranges, graph.indices, *scales, _bits(value), first)
        if is_gcn:
            self._correct_source_factors(sums, value)
        return sums

    def _weighted_means(self, groups: IntArray, value: Any, first: int) -> FloatArray:
        """`full_sums` of some groups, with norm="weighted-mean". int64[N] -> float32[N, F]."""
        graph = self.graph
        scales = NOTHING, NO_IDS, graph.weight
        sums = full_sums(*self.ranges_of(groups), graph.indices, *scales, _bits(value), first)
        means: FloatArray = (sums * self.target_scale[groups, None]).astype(np.float32)
        return means

    def visible_sums(self, whole: FloatArray, value: Any, first: int = 0) -> FloatArray:
        """`full_sums`, computed from sums over whole groups by subtracting hidden edges, in place.

            z'_g = (a'_g / a_g) (z_g - sum over hidden edges of alpha_ij value_j)

        with a_g the target factor of the whole group and a'_g that of the visible edges. O(hidden
        edges F); norm="gcn" also takes one pass over the visible edges, since the factors of
        sources that lose edges change. With norm="weighted-mean", the sums of targets that lose
        edges are computed again: a_i may grow so much that the difference would be inexact.

        whole  float32[G, F]  sums over all edges of the groups in the graph
        value  [N, F], and first, as in `full_sums`
        """
        if self.cutoff is not None:
            return self.full_sums(value, first)
        if self.hidden is None:
            return whole
        graph, before = self.graph, self._whole()
        group, edge = self.hidden.within(before.start, before.stop)
        if graph.norm == "weighted-mean":
            partial = np.unique(group)
            whole[partial] = self._weighted_means(partial, value, first)
            return whole
        source = graph.indices[edge]
        alpha: FloatArray
        if graph.norm == "weights":
            alpha = graph.weight[edge]
        else:
            alpha = before.target_scale[group]
            if graph.norm == "gcn":
                alpha = alpha * before.source_scale(source)
        add_rows(whole, group, -alpha.astype(np.float32), source - first, _bits(value))
        partial = np.unique(group)
        if graph.norm != "weights":
            ratio = self.target_scale[partial] / before.target_scale[partial]
            whole[partial] *= ratio[:, None].astype(np.float32)
        whole[partial[self.degree[partial] == 0]] = 0.0  # without a rounding error
        if graph.norm == "gcn":
            self._correct_source_factors(whole, value)
        return whole

    def _whole(self) -> Rows:
        """These groups with all edges that they have in the graph."""
        whole, group = self.graph.group_ptr, self.group_id
        start, stop = whole[group], whole[group + 1]
        whole_rows = replace(self, pointer=np.arange(group.size + 1), start=start, stop=stop)
        return replace(whole_rows, degree=stop - start, hidden=None, cutoff=None)

    def _correct_source_factors(self, sums: FloatArray, value: Any) -> None:
        """Use, in sums of norm="gcn", the visible |N_j| of sources that lose edges; in place."""
        if self.hidden is None:
            return
        indptr, edge = self.edges()
        source = self.graph.indices[edge]
        changed = np.flatnonzero(np.isin(source, self.hidden.node))
        if not changed.size:
            return
        group = np.searchsorted(indptr, changed, side="right") - 1
        nodes = source[changed]
        before = inverse_power(self.graph.degree_of(nodes), 0.5)
        change = self.target_scale[group] * (self.source_scale(nodes) - before)
        add_rows(sums, group, change.astype(np.float32), nodes, _bits(value))


def _bits(value: Any) -> Any:
    """Half-precision numbers as uint16, which kernels read; others as they are."""
    return value.view(np.uint16) if value.dtype == np.float16 else value
