"""Splits of links: which edges are learnt from, and which of them are messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bliss import checks
from bliss.arrays import Array, IntArray
from bliss.errors import InputError
from bliss.graph import Graph
from bliss.graph.csc import mean_self_loops
from bliss.graph.cutoff import check_times
from bliss.kernels.times import ALWAYS
from bliss.links.fractions import FRACTIONS, SPLITS, WHOLE, Window, check_fractions
from bliss.links.time_splits import LATER, check_some, split_by_time
from bliss.rng import Stream, derive_key, hashes

LOOP = -1  # of edges that are messages of every split: self-loops, and edges without a time
_PAIRS = 2  # counter that separates coins of pairs from those of nodes in a random split


@dataclass(frozen=True, eq=False)
class LinkSplits:
    """Links of a graph in three splits: `random`, `by_time`, or `given`.

    A link is a pair (source, target) with an edge; self-loops are not links. If each edge has a
    reverse edge, links have no direction: each is listed once, in the direction of a coin. Links
    that are given as pairs keep their direction, and need not be edges.

    An edge u -> v is in the split of the link (u, v) or (v, u), and in train if there is none.
    """

    graph: Graph
    train: IntArray  # int64[2, P] sources over targets
    val: IntArray  # int64[2, P']
    test: IntArray  # int64[2, P'']
    split: Array  # int8[E] split of each edge, as a position in SPLITS; LOOP for self-loops
    is_symmetric: bool  # whether each edge has a reverse edge
    time: Mapping[str, IntArray] | None = None  # of each link by split, if the graph has times

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}={self.links(name).shape[1]}" for name in SPLITS)
        return f"LinkSplits({sizes}, is_symmetric={self.is_symmetric})"

    @classmethod
    def random(
        cls,
        graph: Graph,
        fractions: Sequence[float] = FRACTIONS,
        seed: int = 0,
        pairs: IntArray | None = None,
    ) -> LinkSplits:
        """Split links at random by fractions of train, val and test, which add up to 1.

        By default links are the edges of the graph; otherwise pairs int64[2, P].

        The pairs {u, v} with an edge are ordered by the hash of the pair and the seed; the first
        are for testing, the next for validation. Both directions of a pair are in one split, in
        directed graphs, too: v -> u is strong evidence of u -> v. Parallel edges are one link.
        """
        shares, nodes = check_fractions(fractions), graph.num_nodes
        edges = graph.pairs if pairs is None else pairs
        is_link = np.ones(edges.shape[1], bool) if pairs is not None else edges[0] != edges[1]
        source, target = edges[:, is_link]
        codes, place = np.unique(_undirected(edges[:, is_link], nodes), return_inverse=True)
        hashed = hashes(derive_key(seed, Stream.SPLITS, _PAIRS), codes)
        of_pair = _by_order(np.argsort(hashed, kind="stable"), shares)
        split = np.full(is_link.size, LOOP, np.int8)
        split[is_link] = of_pair[place]
        if pairs is not None:
            return cls.given(graph, pairs, split)
        forward, backward = np.unique(source * nodes + target), np.unique(target * nodes + source)
        is_symmetric = np.array_equal(forward, backward)
        if is_symmetric:
            ends, of_link = np.stack(np.divmod(codes, nodes)), of_pair
            is_turned = (hashed & np.uint64(1)).astype(bool)
            ends[:, is_turned] = ends[::-1, is_turned]
        else:
            ends = np.stack(np.divmod(forward, nodes))
            of_link = of_pair[np.searchsorted(codes, _undirected(ends, nodes))]
        train, val, test = (np.ascontiguousarray(ends[:, of_link == n]) for n in range(3))
        return cls(graph, train, val, test, split, is_symmetric)

    @classmethod
    def by_time(
        cls,
        graph: Graph,
        pairs: IntArray,
        time: Array,
        fractions: Sequence[float] = FRACTIONS,
        window: Window = WHOLE,
    ) -> LinkSplits:
        """Split pairs [2, P] by their times [P]: the latest are for testing, then for validation.

        Pairs of one time are in one split, the later of two. Of a pair that is there several times,
        in either direction, the first time counts. If the graph has times, an edge is in the split
        of its own time; `window` is that of `split_by_time`.
        """
        shares = check_fractions(fractions)
        order = np.argsort(time, kind="stable")
        _, first = np.unique(_undirected(pairs[:, order], graph.num_nodes), return_index=True)
        kept = order[np.sort(first)]
        pairs, time = pairs[:, kept], time[kept]  # in the order of time
        split = split_by_time(time, shares, window)
        remedy = "change the shares of edge_split, or choose split random"
        check_some(split, time, "links", window, remedy)
        if not graph.has_times:
            return cls.given(graph, pairs, split)
        pairs = checks.node_pairs("label_edges", pairs, graph.num_nodes)
        time = check_times("times of links", time, time.size, "link")
        first = np.searchsorted(split, [1, 2, LATER])
        starts = time[first[first < time.size]]
        of_edge = np.searchsorted(starts, graph.time, side="right").astype(np.int8)
        of_edge[graph.time == ALWAYS] = LOOP
        train, val, test = (np.ascontiguousarray(pairs[:, split == n]) for n in range(3))
        times = {name: time[split == number] for number, name in enumerate(SPLITS)}
        return cls(graph, train, val, test, of_edge, is_symmetric=False, time=times)

    @classmethod
    def given(cls, graph: Graph, pairs: IntArray, split: Array) -> LinkSplits:
        """Splits of pairs [2, P] by their numbers [P], positions in SPLITS."""
        pairs = checks.node_pairs("label_edges", pairs, graph.num_nodes)
        _check_some(split, None)
        code = _undirected(pairs, graph.num_nodes)
        order = np.lexsort((split, code))
        code, of_code = code[order], split[order]
        is_same = code[1:] == code[:-1]
        if (is_split := is_same & (of_code[1:] != of_code[:-1])).any():
            first = int(np.flatnonzero(is_split)[0])
            source, target = pairs[:, order[first]]
            one, other = (SPLITS[number] for number in of_code[first : first + 2])
            raise InputError(
                f"the link ({source}, {target}) is in the splits {one!r} and {other!r}, in one "
                "direction or the other, but each link must be in one split: remove it from one."
            )
        edges = graph.pairs
        of_edge = _found(_undirected(edges, graph.num_nodes), code, of_code)
        of_edge[edges[0] == edges[1]] = LOOP
        train, val, test = (np.unique(pairs[:, split == number], axis=1) for number in range(3))
        return cls(graph, train, val, test, of_edge, is_symmetric=False)

    @classmethod
    def edges_in_time(cls, graph: Graph, seed: int = 0) -> tuple[IntArray, IntArray]:
        """Edges of a graph with times as links: pairs [2, P] without self-loops, and times [P].

        Of an edge and its reverse of the same time, a coin of the pair decides which comes first.
        """
        pairs = graph.pairs
        kept = (pairs[0] != pairs[1]) & (graph.time != ALWAYS)
        pairs, time = pairs[:, kept], graph.time[kept]
        code = _undirected(pairs, graph.num_nodes)
        coin = (hashes(derive_key(seed, Stream.SPLITS, _PAIRS), code) & np.uint64(1)).astype(bool)
        order = np.lexsort(((pairs[0] < pairs[1]) == coin, code, time))
        return pairs[:, order], time[order]

    def within(self, graph: Graph, edges: IntArray) -> LinkSplits:
        """The same splits in a graph that has other edges, too, which are messages of all splits.

        edges  int64[M]  ids of the edges of `graph` that are links or their reverse
        """
        number = graph.num_nodes
        parts = [*(self.links(name) for name in SPLITS), self.graph.pairs]
        code = np.concatenate([_undirected(part, number) for part in parts])
        of_link = np.repeat(np.arange(3, dtype=np.int8), [part.shape[1] for part in parts[:3]])
        of_code = np.concatenate([of_link, self.split])  # edges may be later than all splits
        order = np.argsort(code, kind="stable")
        split = np.full(graph.num_edges, LOOP, np.int8)
        wanted = _undirected(graph.pairs[:, edges], number)
        split[edges] = _found(wanted, code[order], of_code[order])
        return replace(self, graph=graph, split=split)

    def num_absent(self, graph: Graph) -> int:
        """Training links that are not edges of a graph."""
        position, _ = graph.edges_between(*self.train)
        return int(self.train.shape[1] - np.unique(position).size)

    @classmethod
    def none(cls, graph: Graph) -> LinkSplits:
        """All edges are messages, and no links are listed: for predictions."""
        no_links = np.empty((2, 0), np.int64)
        split = np.zeros(graph.num_edges, np.int8)
        return cls(graph, no_links, no_links, no_links, split, is_symmetric=False)

    def links(self, split: str) -> IntArray:
        """Links of a split. int64[2, P]."""
        links: IntArray = getattr(self, checks.choice("split", split, SPLITS))
        return links

    def messages(self, *splits: str) -> Graph:
        """The graph with the edges of these splits and all self-loops; a copy if others exist.

        With norm="weighted-mean", self-loops that have the mean weight of all other in-edges get
        that of the edges kept here, so that no weight of a left-out link remains in them.
        """
        chosen = [SPLITS.index(checks.choice("split", name, SPLITS)) for name in splits]
        kept = np.isin(self.split, [LOOP, *chosen])
        if kept.all():
            return self.graph
        graph, part = self.graph, self.graph.edge_subgraph(kept)
        if graph.norm == "weighted-mean" and graph.types is None and not graph.has_times:
            means, _ = mean_self_loops(graph.indptr, graph.indices, graph.weight)
            if np.allclose(means, graph.weight, rtol=1e-5, atol=0.0):
                weight, _ = mean_self_loops(part.indptr, part.indices, part.weight)
                return Graph(part.indptr, part.indices, graph.norm, weight)
        return part


def _found(wanted: IntArray, code: IntArray, of_code: Array) -> Array:
    """Split of each pair by its code among those of links, increasing; 0 if it is none. int8[N]."""
    if not code.size:
        return np.zeros(wanted.size, np.int8)
    place = np.searchsorted(code, wanted).clip(max=code.size - 1)
    return np.where(code[place] == wanted, of_code[place], 0).astype(np.int8)


def _by_order(order: IntArray, shares: Sequence[float]) -> Array:
    """Split of each pair: the first in the order are for testing, the next for val. int8[N]."""
    ends = np.round(np.cumsum(shares[::-1])[:2] * order.size).astype(np.int64)
    split = np.zeros(order.size, np.int8)
    split[order[: ends[1]]] = SPLITS.index("val")
    split[order[: ends[0]]] = SPLITS.index("test")
    _check_some(split, shares)
    return split


def _check_some(split: Array, shares: Sequence[float] | None) -> None:
    """Raise an error if a split has no links; `shares` are those that were asked for, if any."""
    for number, name in enumerate(SPLITS):
        if (split == number).any():
            continue
        if shares is None:
            raise InputError(f"the {name} split has no links: add some to label_edges.")
        raise InputError(
            f"the {name} split has no links, with a share of {shares[number]:g} of "
            f"{split.size:,}: raise its share in edge_split, or use a graph with more edges."
        )


def _undirected(pairs: IntArray, num_nodes: int) -> IntArray:
    """One number for a pair and its reverse. int64[2, P] -> int64[P]."""
    low, high = np.minimum(*pairs).astype(np.int64), np.maximum(*pairs).astype(np.int64)
    code: IntArray = low * num_nodes + high
    return code
