"""Splits of links: which edges are learnt from, and which of them are messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bliss import checks
from bliss.arrays import Array, IntArray
from bliss.errors import InputError
from bliss.graph import WEIGHTED, Graph
from bliss.graph.csc import mean_self_loops
from bliss.links.fractions import FRACTIONS, SPLITS, check_fractions
from bliss.rng import Stream, derive_key, hashes

LOOP = -1
_PAIRS = 2  # counter that tells coins of pairs from those of nodes in a random split


@dataclass(frozen=True, eq=False)
class LinkSplits:
    """Links of a graph in three splits. Build them with `LinkSplits.random`.

    A link is a pair (source, target) with an edge; self-loops are no links. If each edge has a
    reverse edge, links have no direction: each is listed once, in the direction of a coin.
    """

    graph: Graph
    train: IntArray  # int64[2, P] sources over targets
    val: IntArray  # int64[2, P']
    test: IntArray  # int64[2, P'']
    split: Array  # int8[E] split of each edge, as a position in SPLITS; LOOP for self-loops
    is_symmetric: bool  # whether each edge has a reverse edge

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}={self.links(name).shape[1]}" for name in SPLITS)
        return f"LinkSplits({sizes}, is_symmetric={self.is_symmetric})"

    @classmethod
    def random(
        cls, graph: Graph, fractions: Sequence[float] = FRACTIONS, seed: int = 0
    ) -> LinkSplits:
        """Split links at random by fractions of train, val and test, which add up to 1.

        The pairs {u, v} with an edge are ordered by the hash of the pair and the seed; the first
        are for testing, the next for validation. Both directions of a pair are in one split, in
        directed graphs, too: v -> u tells much about u -> v. Parallel edges are one link.
        """
        shares, nodes = check_fractions(fractions), graph.num_nodes
        target = np.repeat(np.arange(nodes), np.diff(graph.indptr))
        source = graph.indices.astype(np.int64)
        is_link = source != target
        source, target = source[is_link], target[is_link]
        pair = np.minimum(source, target) * nodes + np.maximum(source, target)
        pairs = np.unique(pair)
        hashed = hashes(derive_key(seed, Stream.SPLITS, _PAIRS), pairs)
        of_pair = _by_order(np.argsort(hashed, kind="stable"), shares)
        split = np.full(is_link.size, LOOP, np.int8)
        split[is_link] = of_pair[np.searchsorted(pairs, pair)]
        forward, backward = np.unique(source * nodes + target), np.unique(target * nodes + source)
        is_symmetric = np.array_equal(forward, backward)
        if is_symmetric:
            ends, of_link = np.stack(np.divmod(pairs, nodes)), of_pair
            is_turned = (hashed & np.uint64(1)).astype(bool)
            ends[:, is_turned] = ends[::-1, is_turned]
        else:
            ends = np.stack(np.divmod(forward, nodes))
            own = ends.min(axis=0) * nodes + ends.max(axis=0)
            of_link = of_pair[np.searchsorted(pairs, own)]
        train, val, test = (np.ascontiguousarray(ends[:, of_link == n]) for n in range(3))
        return cls(graph, train, val, test, split, is_symmetric)

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
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
        graph = self.graph
        indptr, indices = before[graph.indptr], graph.indices[kept]
        weight = graph.weight[kept] if graph.norm in WEIGHTED else None
        if graph.norm == "weighted-mean":
            means, _ = mean_self_loops(graph.indptr, graph.indices, graph.weight)
            if np.allclose(means, graph.weight, rtol=1e-5, atol=0.0):
                weight, _ = mean_self_loops(indptr, indices, graph.weight[kept])
        return Graph.from_csc(indptr, indices, weight, norm=graph.norm, self_loops="keep")


def _by_order(order: IntArray, shares: Sequence[float]) -> Array:
    """Split of each pair: the first in the order are for testing, the next for val. int8[N]."""
    ends = np.round(np.cumsum(shares[::-1])[:2] * order.size).astype(np.int64)
    split = np.zeros(order.size, np.int8)
    split[order[: ends[1]]] = SPLITS.index("val")
    split[order[: ends[0]]] = SPLITS.index("test")
    for number, (name, share) in enumerate(zip(SPLITS, shares, strict=True)):
        if not (split == number).any():
            raise InputError(
                f"the {name} split has no links, with a share of {share:g} of {order.size:,}: "
                "raise its share in edge_split, or use a graph with more edges."
            )
    return split
