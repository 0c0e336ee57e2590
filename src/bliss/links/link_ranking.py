"""Metrics of links: AUC, average precision, and ranks among candidates in bounded memory.

A link has `greater` candidates with a higher score and `equal` other ones with the same score. If
ties are broken at random, its rank r is uniform on greater + 1, ..., greater + equal + 1. Metrics
of ranks are expected values over r, so that a constant score is worth as much as chance:

    mrr       mean over links of E[1 / r]
    hits@K    mean over links of P(r <= K)
    recall@K  mean over sources of (sum over its links of P(r <= K)) / number of its links
    ndcg@K    mean over sources of (sum over its links of E[gain(r)]) / best possible sum,
              gain(r) = [r <= K] / log2(1 + r)

mrr and hits@K ask for one link at a time: the other links of a source are not candidates. recall@K
and ndcg@K ask for all links of a source, which compete.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special
import torch
from torch import Tensor

from bliss import checks
from bliss.arrays import NO_IDS, FloatArray, IntArray
from bliss.errors import InputError
from bliss.kernels import links as kernels

Score = Callable[[Tensor, Any], Tensor]
MEMORY = 128 << 20
"""Bytes of scores that are held at once."""


@dataclass(frozen=True, eq=False)
class Ranks:
    """Ranks of links among candidates; see `rank_links` and `rank_sampled`."""

    greater: IntArray  # int64[P] candidates with a higher score
    equal: IntArray  # int64[P] other candidates with the same score
    value: FloatArray  # [P] score of each link
    source: IntArray  # int64[P] links with one source are candidates of each other
    candidates: int  # number of candidates of a link, known ones included

    def alone(self) -> Ranks:
        """The ranks that links have if other links of their source are not candidates."""
        above, same = self._rivals()
        parts = self.greater - above, self.equal - same
        return Ranks(*parts, self.value, self.source, self.candidates)

    def together(self) -> Ranks:
        """The ranks that links have if other links of their source are candidates, too."""
        above, same = self._rivals()
        parts = self.greater + above, self.equal + same
        return Ranks(*parts, self.value, self.source, self.candidates)

    def _rivals(self) -> tuple[IntArray, IntArray]:
        """Other links of the same source with a higher score, and with the same. int64[P] twice."""
        order = np.lexsort((self.value, self.source))
        source, value = self.source[order], self.value[order]
        is_new = np.ones(source.size, bool)
        is_new[1:] = (source[1:] != source[:-1]) | (value[1:] != value[:-1])
        group = np.cumsum(is_new) - 1  # links of one source with one score
        size = np.bincount(group)
        end = np.searchsorted(source, source, side="right")
        above, same = np.empty((2, source.size), np.int64)
        above[order] = end - np.cumsum(size)[group]
        same[order] = size[group] - 1
        return above, same


def rank_links(
    score: Score,
    links: Any,
    num_nodes: int,
    *,
    candidates: Any = None,
    known: Any = None,
    memory: int = MEMORY,
    progress: Callable[[float], None] | None = None,
) -> Ranks:
    """Rank the targets of links among all nodes, or among given candidates.

    Scores are computed for some sources at a time, and for a range of candidates if one source has
    too many, so that `memory` is not exceeded. |links| x |candidates| numbers are never held.

    Parameters
    ----------
    score
        Function of sources int64[C] and candidates (int64[K], or a slice of all nodes) that returns
        scores [C, K], such as ``lambda source, candidate: z[source] @ z[candidate].T``.
    links
        Distinct links [2, P], sources over targets.
    num_nodes
        |V|.
    candidates
        Distinct candidates [K], among them all targets; None: all nodes.
    known
        Links [2, M] that are not candidates, such as those of the training split; links that are
        ranked stay candidates.
    memory
        Bytes of scores that are held at once.
    progress
        Called with the share that is done; may raise to stop.
    """
    source, target = _distinct_pairs("links", links, num_nodes)
    pool = None if candidates is None else checks.seeds(candidates, num_nodes, "candidates")
    pool = None if pool is None else np.sort(pool)
    size = num_nodes if pool is None else pool.size
    place = target if pool is None else _places(pool, target)
    order = np.argsort(source, kind="stable")
    heads, row, known_indptr, known_place = _by_source(source, known, pool, num_nodes, links)
    limit = checks.whole("memory", memory, least=4) // 4  # numbers
    width = min(size, limit)
    height = max(1, limit // width)
    ranges = [(first, min(first + width, size)) for first in range(0, size, width)]
    greater, equal = np.zeros((2, source.size), np.int64)
    value = np.empty(source.size)
    by_row = row[order]
    for head in range(0, heads.size, height):
        own = order[slice(*np.searchsorted(by_row, [head, head + height]))]
        rows = torch.from_numpy(heads[head : head + height])
        scores = _ScoreParts(score, rows, pool)
        for first, stop in ranges:  # the score of a link is the one that it has as a candidate
            inside = own[(place[own] >= first) & (place[own] < stop)]
            if inside.size:
                value[inside] = scores(first, stop)[row[inside] - head, place[inside] - first]
        pointers = known_indptr[head : head + rows.numel() + 1]
        counts = np.zeros((2, own.size), np.int64)
        for first, stop in ranges:
            part = scores(first, stop)
            asked = row[own] - head, place[own], value[own].astype(part.dtype)
            kernels.count_above(part, first, *asked, pointers, known_place, *counts)
        greater[own], equal[own] = counts
        if progress:
            progress(min((head + height) / heads.size, 1.0))
    return Ranks(greater, equal, value, source, size)


class _ScoreParts:
    """Scores of some sources against a range of candidates; the last range is kept."""

    def __init__(self, score: Score, source: Tensor, pool: IntArray | None) -> None:
        self._score, self._source, self._pool = score, source, pool
        self._range, self._last = (0, 0), np.empty((0, 0), np.float32)

    def __call__(self, first: int, stop: int) -> FloatArray:
        if (first, stop) == self._range:
            return self._last
        self._last = np.empty((0, 0), np.float32)  # frees the memory before the next is made
        chosen = slice(first, stop)
        candidate = chosen if self._pool is None else torch.from_numpy(self._pool[chosen])
        with torch.no_grad():
            scores = self._score(self._source, candidate)
        if scores.shape != (self._source.numel(), stop - first):
            raise InputError(
                f"score returned shape {tuple(scores.shape)} for {self._source.numel()} sources "
                f"and {stop - first} candidates: return one row per source, [C, K]."
            )
        array = scores.detach().cpu()
        array = array if array.dtype == torch.float64 else array.float()
        self._range, self._last = (first, stop), np.ascontiguousarray(array.numpy())
        return self._last


def rank_sampled(positive: Any, negative: Any) -> Ranks:
    """Rank links among sampled negatives, each by itself.

    positive  scores of the links [P]
    negative  scores of the negatives of each link [P, K], or of negatives that all share [K]
    """
    value, others = checks.as_array("positive", positive), checks.as_array("negative", negative)
    if value.ndim != 1 or others.shape[:-1] not in ((), value.shape) or not others.ndim:
        raise InputError(
            f"positive has shape {value.shape} and negative {others.shape}, but must be [P] and "
            "[P, K] or [K]: pass the negatives of a link in its row."
        )
    if others.ndim == 1:
        others = np.sort(others)
        last = np.searchsorted(others, value, side="right")
        greater, equal = others.size - last, last - np.searchsorted(others, value)
    else:
        greater = (~(others <= value[:, None])).sum(1)
        equal = (others == value[:, None]).sum(1)
    return Ranks(greater, equal, value, np.arange(value.size), others.shape[-1] + 1)


def mrr(ranks: Ranks) -> float:
    """Mean reciprocal rank."""
    alone = ranks.alone()
    first, last = alone.greater, alone.greater + alone.equal + 1
    harmonic = scipy.special.digamma(last + 1) - scipy.special.digamma(first + 1)
    return float(np.mean(harmonic / (alone.equal + 1)))


def hits(ranks: Ranks, k: int) -> float:
    """hits@K, the share of links among the first K candidates."""
    return float(np.mean(_within(ranks.alone(), _cutoff(ranks, k))))


def recall(ranks: Ranks, k: int) -> float:
    """recall@K, the share of a source's links among its first K candidates, mean over sources."""
    head, row = np.unique(ranks.source, return_inverse=True)
    total = np.bincount(row, _within(ranks, _cutoff(ranks, k)), head.size)
    return float(np.mean(total / np.bincount(row)))


def ndcg(ranks: Ranks, k: int) -> float:
    """ndcg@K, the normalised discounted cumulative gain, mean over sources."""
    k = _cutoff(ranks, k)
    sums = np.concatenate([[0], np.cumsum(1 / np.log2(np.arange(2, k + 2)))])  # of gains
    first, last = ranks.greater, ranks.greater + ranks.equal + 1
    gain = (sums[last.clip(max=k)] - sums[first.clip(max=k)]) / (ranks.equal + 1)
    head, row = np.unique(ranks.source, return_inverse=True)
    best = sums[np.bincount(row).clip(max=k)]
    return float(np.mean(np.bincount(row, gain, head.size) / best))


def auc(positive: Any, negative: Any) -> float:
    """Area under the ROC curve: P(s+ > s-) + P(s+ = s-) / 2. Scores [P] and [N]."""
    above, below = _scores("positive", positive), np.sort(_scores("negative", negative))
    less = np.searchsorted(below, above, side="left")
    not_greater = np.searchsorted(below, above, side="right")
    return float((less + not_greater).mean() / (2 * below.size))


def average_precision(positive: Any, negative: Any) -> float:
    """Average precision: the sum over distinct scores of precision times the increase in recall.

    Scores [P] and [N].
    """
    above, below = np.sort(_scores("positive", positive)), np.sort(_scores("negative", negative))
    threshold, count = np.unique(above, return_counts=True)
    hit = above.size - np.searchsorted(above, threshold)
    miss = below.size - np.searchsorted(below, threshold)
    return float((count * hit / (hit + miss)).sum() / above.size)


def _scores(field: str, values: Any) -> FloatArray:
    array = checks.as_array(field, values)
    if array.ndim != 1 or array.size == 0 or np.isnan(array).any():
        raise InputError(
            f"{field} has shape {array.shape}, but must be at least one score [N] without NaN: "
            "pass the scores of the links as a flat array."
        )
    return array


def _cutoff(ranks: Ranks, k: Any) -> int:
    if checks.whole("k", k, least=1) > ranks.candidates:
        raise InputError(
            f"k={k} exceeds the {ranks.candidates} candidates of a link: lower it, or rank among "
            "more candidates."
        )
    return int(k)


def _within(ranks: Ranks, k: int) -> FloatArray:
    """P(r <= K) of each link. float64[P]."""
    share: FloatArray = ((k - ranks.greater) / (ranks.equal + 1)).clip(0, 1)
    return share


def _distinct_pairs(field: str, pairs: Any, num_nodes: int) -> IntArray:
    found = checks.node_pairs(field, pairs, num_nodes)
    count = found.shape[1]
    if count == 0 or np.unique(found[0] * num_nodes + found[1]).size < count:
        raise InputError(
            f"{field} must be at least one link, each once: pass for instance "
            f"numpy.unique({field}, axis=1)."
        )
    return found


def _places(pool: IntArray, target: IntArray) -> IntArray:
    place = np.searchsorted(pool, target).clip(max=pool.size - 1)
    if (missing := target[pool[place] != target]).size:
        raise InputError(
            f"links has the target {missing[0]}, which is not among the candidates: add it."
        )
    return place


def _by_source(
    source: IntArray, known: Any, pool: IntArray | None, num_nodes: int, links: Any
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Distinct sources [H], row of each link [P], and known candidates by row: [H + 1], [M']."""
    heads, row = np.unique(source, return_inverse=True)
    if known is None:
        return heads, row, np.zeros(heads.size + 1, np.int64), NO_IDS
    ranked = checks.node_pairs("links", links, num_nodes)
    pairs = checks.node_pairs("known", known, num_nodes)
    pairs = pairs[:, np.isin(pairs[0], heads)]
    codes = np.setdiff1d(pairs[0] * num_nodes + pairs[1], ranked[0] * num_nodes + ranked[1])
    head, target = np.divmod(codes, num_nodes)
    if pool is not None:
        is_candidate = np.isin(target, pool)
        head, target = head[is_candidate], np.searchsorted(pool, target[is_candidate])
    return heads, row, np.searchsorted(head, np.append(heads, num_nodes)), target
