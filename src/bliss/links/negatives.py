"""Negatives: pairs that are not known links, drawn with counter-based coins."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

import numpy as np

from bliss import checks
from bliss.arrays import NO_IDS, NOTHING, FloatArray, IntArray
from bliss.errors import InputError
from bliss.graph import Graph
from bliss.kernels import links
from bliss.rng import Stream, derive_key

TRIES = 64
"""Number of times that a negative is drawn before a known link is kept."""
MODES = ("binary", "triplet")
_CHUNK = 1 << 20  # pairs


@dataclass(frozen=True, eq=False)
class NegativeSampling:
    """How negatives are drawn; fields as in `torch_geometric.sampler.NegativeSampling`.

    A weight is None for a uniform draw; one number per node [V]; or a number p for the in-degree to
    the power p, self-loops of the graph included.
    """

    mode: str
    """"binary": pairs whose source and target are both drawn. "triplet": targets for the sources of
    the positives."""
    amount: float = 1
    """Negatives per positive; a whole number for "triplet"."""
    src_weight: Any = None
    """Weight of each node as a source."""
    dst_weight: Any = None
    """Weight of each node as a target."""

    def __post_init__(self) -> None:
        checks.choice("neg_sampling", self.mode, MODES)
        checks.positive("amount", self.amount, "it is the number of negatives per positive.")
        if self.mode == "triplet" and self.amount != math.ceil(self.amount):
            raise InputError(
                f"amount={self.amount!r} must be a whole number of negatives per positive for "
                f'"triplet": pass for instance {math.ceil(self.amount)}.'
            )
        if self.mode == "triplet" and self.src_weight is not None:
            raise InputError(
                'src_weight has no effect with "triplet", which keeps the sources of the '
                "positives: leave it out."
            )

    @classmethod
    def of(cls, value: Any) -> NegativeSampling | None:
        """Settings from a mode, a dict, or PyG's NegativeSampling; None stays None."""
        if value is None or isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls(value)
        names = [field.name for field in fields(cls)]
        if hasattr(value, "mode"):  # PyG's
            return cls(value.mode.value, *(getattr(value, name) for name in names[1:]))
        if not isinstance(value, Mapping) or "mode" not in value or not set(value) <= set(names):
            raise InputError(
                f'neg_sampling={value!r} is not known: pass "binary", "triplet", or for instance '
                '{"mode": "binary", "amount": 2}, with src_weight and dst_weight if you need them.'
            )
        return cls(**value)


class Negatives:
    """Draws negatives of links.

    The coins of a negative depend on the seed, the epoch, the position of its seed link and its
    number k among the negatives of that link. Threads, processes, shards, batch size and resumption
    do not change it. The pair (j, i) is drawn with probability

        P(j, i) = w_j w_i / sum over unknown pairs (j', i') of w_j' w_i'       binary
        P(i | j) = w_i / sum over the i' that are unknown to j of w_i'         triplet

    A pair is known if it is an edge of the graph, if it was given as known, or if j = i. Known
    pairs are drawn again, `TRIES` times at most; those that remain are counted in `num_known`, with
    a warning at the first. If links have timestamps, only edges up to the link's timestamp are
    known.

    Parameters
    ----------
    graph
        The graph whose edges are known.
    sampling
        How to draw.
    seed
        Seed of the coins.
    known
        Pairs int64[2, K] that are known, too.
    has_times
        Whether links have times.
    """

    def __init__(
        self,
        graph: Graph,
        sampling: NegativeSampling,
        seed: int = 0,
        known: IntArray | None = None,
        has_times: bool = False,
    ) -> None:
        for field in ("src_weight", "dst_weight") if has_times else ():
            if isinstance(power := getattr(sampling, field), Real):
                raise InputError(
                    f"{field}={power!r} would draw negatives by in-degrees that count future edges:"
                    " pass one weight per node, or leave it out."
                )
        self.graph, self.sampling, self.seed = graph, sampling, seed
        self.num_known = 0  # negatives that are known links, so far
        self._source_ladder = cumulative_weights("src_weight", sampling.src_weight, graph)
        self._target_ladder = cumulative_weights("dst_weight", sampling.dst_weight, graph)
        self._codes = NO_IDS if known is None else self._codes_of(known)

    def _codes_of(self, known: IntArray) -> IntArray:
        """Codes of the pairs that are not edges of the graph, increasing. int64[K']."""
        if self.graph.has_times:  # an edge may be later, so that it does not make a pair known
            return np.unique(known[0] * self.graph.num_nodes + known[1])
        codes = [NO_IDS]
        for start in range(0, known.shape[1], _CHUNK):
            source, target = known[:, start : start + _CHUNK]
            is_edge = np.zeros(source.size, bool)
            is_edge[self.graph.edges_between(source, target)[0]] = True
            codes.append((source * self.graph.num_nodes + target)[~is_edge])
        return np.unique(np.concatenate(codes))

    def draw(
        self, index: IntArray, source: IntArray, epoch: int, time: IntArray | None = None
    ) -> tuple[IntArray, IntArray]:
        """Negatives of the links at these positions, ceil(amount B) of them, k by k.

        Negative m belongs to link m mod B, and its number k is m div B.

        index    int64[B]  positions of the links, which decide the coins
        source   int64[B]  sources of the links
        time     int64[B]  times of the links, if they have some
        returns  sources and targets, int64[ceil(amount B)] each
        """
        count = math.ceil(index.size * self.sampling.amount)
        link = np.arange(count) % index.size
        src, dst, is_known = links.draw_negatives(
            derive_key(self.seed, Stream.NEGATIVES, epoch),
            index[link],
            np.arange(count) // index.size,
            source[link] if self.sampling.mode == "triplet" else NO_IDS,
            self._source_ladder,
            self._target_ladder,
            self.graph.indptr,
            self.graph.indices,
            self.graph.has_sorted_rows,
            self._codes,
            TRIES,
            NO_IDS if time is None else self.graph.time,
            NO_IDS if time is None else time[link],
        )
        if is_known.any():
            self._count_known(src[is_known])
        return src, dst

    def _count_known(self, source: IntArray) -> None:
        if not self.num_known:
            warnings.warn(
                f"{source.size} negatives of a batch are known links after {TRIES} draws each, "
                f"because nodes such as {source[0]} are linked to almost all nodes that can be "
                "drawn: draw fewer negatives, give weight to more nodes, or leave these links out.",
                stacklevel=2,
            )
        self.num_known += source.size


def cumulative_weights(field: str, weight: Any, graph: Graph) -> FloatArray:
    """Cumulative weights of the nodes, for draws by binary search; empty if uniform. float64[V]."""
    if weight is None:
        return NOTHING
    if isinstance(weight, Real) and not isinstance(weight, bool):
        power = checks.not_negative(field, float(weight), "it is the power of the in-degree.")
        array = graph.degree_of(np.arange(graph.num_nodes)) ** power
    else:
        array = checks.as_array(field, weight)
    if array.shape != (graph.num_nodes,) or array.dtype.kind not in "fiub":
        raise InputError(
            f"{field} is {array.dtype} of shape {array.shape}, but the graph has "
            f"{graph.num_nodes} nodes: pass one number per node, or a power of the in-degree."
        )
    if not np.isfinite(array).all() or array.min(initial=0) < 0 or not array.any():
        raise InputError(
            f"{field} must be finite, not negative and above 0 for some node: correct its weights."
        )
    ladder: FloatArray = np.cumsum(array, dtype=np.float64)
    return ladder
