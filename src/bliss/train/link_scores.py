"""Scores of links from embeddings of all nodes: against fixed negatives, or all candidates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from bliss.arrays import FloatArray, IntArray
from bliss.data.dataset import SPLITS
from bliss.graph import Graph
from bliss.links import (
    LinkSplits,
    Negatives,
    Ranks,
    auc,
    average_precision,
    hits,
    mrr,
    ndcg,
    rank_links,
    rank_sampled,
    recall,
)
from bliss.nn.decoders import Decoder
from bliss.nn.layers import OnProgress
from bliss.rng import Stream
from bliss.train.config_parts import ObjectiveConfig
from bliss.train.link_sides import Sides

FEW = 1024
"""Training links that are scored in any case."""
OF_RANKS = ("mrr", "hits", "recall", "ndcg")
"""Metrics of ranks among candidates."""
PairScorer = Callable[[IntArray, IntArray, IntArray], FloatArray]
"""Scores of pairs [N] from sources, targets and, for each pair, a link of the split [N]."""
_NUMBERS = 2**24  # entries of embeddings that are gathered at a time
_RANKED = 3  # added to a split's number: its negatives for ranks are others than those for AUC


@dataclass(frozen=True, eq=False)
class LinkScores:
    """Metrics of the links of each split, with negatives that are the same in every evaluation.

    Negatives and candidates are neither edges of the graph nor links of any split:

    * auc and average_precision: as many pairs as links, both ends uniform
    * mrr, hits, recall and ndcg: `ranked_negatives` targets for the source of each link, uniform,
      or all targets
    """

    graph: Graph  # whose edges are known links
    config: ObjectiveConfig
    splits: LinkSplits
    sides: Sides
    decoder: Decoder
    seed: int

    @property
    def num_candidates(self) -> int:
        """Candidates of a link, the link itself and known ones included."""
        if self.config.candidates == "sampled":
            return self.config.ranked_negatives + 1
        targets = self.sides.targets
        return self.graph.num_nodes if targets is None else targets.size

    def scored(self, split: str) -> IntArray:
        """Positions of the links of a split that are scored. int64[N].

        These are all of them, except of training links: there, as many as there are validation
        links, but at least 1024, spread evenly.
        """
        number = self.splits.links(split).shape[1]
        most = max(self.splits.val.shape[1], FEW)
        if split != "train" or number <= most:
            return np.arange(number)
        spread: IntArray = np.arange(most) * number // most
        return spread

    @torch.no_grad()
    def values(
        self, split: str, z: Tensor | PairScorer, metrics: list[str], progress: OnProgress = None
    ) -> dict[str, float]:
        """Metrics of a split by name, from embeddings z [V, H], or a function of pairs."""
        index, score = self.scored(split), self._scorer(z)
        links = self.splits.links(split)[:, index]
        values: dict[str, float] = {}
        if not set(metrics) <= set(OF_RANKS):
            positive = score(links[0], links[1], index)
            drawn = self._pairs.draw(index, links[0], self._stream(split))
            negative = score(*drawn, index)
            both = {"auc": auc, "average_precision": average_precision}
            values |= {name: one(positive, negative) for name, one in both.items()}
        if set(metrics) & set(OF_RANKS):
            if self.config.candidates == "all" and isinstance(z, Tensor):
                ranks = self._rank_all(z, links, progress)
            else:
                ranks = self._rank_sampled(split, score, index, links, progress)
            values |= self._of_ranks(ranks)
        return {name: values[name] for name in metrics}

    def _scorer(self, z: Tensor | PairScorer) -> PairScorer:
        if not isinstance(z, Tensor):
            return z
        return lambda source, target, link: pair_scores(self.decoder, z, source, target)

    def chance(self, metric: str, split: str) -> float:
        """Expected value of a metric if links and candidates are in random order."""
        if metric not in OF_RANKS:
            return 0.5
        source = self.splits.links(split)[0]
        none = np.zeros(source.size, np.int64)
        equal = none + self.num_candidates - 1  # all candidates have the same score
        ranks = Ranks(none, equal, np.zeros(source.size), np.arange(source.size), equal[0] + 1)
        if metric in ("recall", "ndcg"):
            ranks = Ranks(none, equal, ranks.value, source, ranks.candidates)
        return self._of_ranks(ranks, [metric])[metric]

    def _of_ranks(
        self, ranks: Ranks, metrics: tuple[str, ...] | list[str] = OF_RANKS
    ) -> dict[str, float]:
        config = self.config
        found: dict[str, Callable[[], float]] = {
            "mrr": lambda: mrr(ranks),
            "hits": lambda: hits(ranks, config.hits),
            "recall": lambda: recall(ranks, config.cutoff),
            "ndcg": lambda: ndcg(ranks, config.cutoff),
        }
        return {name: found[name]() for name in metrics}

    def _rank_all(self, z: Tensor, links: IntArray, progress: OnProgress) -> Ranks:
        """Ranks among all targets that are not known."""
        device = self.decoder.device
        everyone = z.float().to(device)

        def score(source: Tensor, candidate: Tensor | slice) -> Tensor:
            return self.decoder.matrix(everyone[source.to(device)], everyone[candidate])

        number, candidates = self.graph.num_nodes, self.sides.targets
        return rank_links(
            score, links, number, candidates=candidates, known=self._known, progress=progress
        )

    def _rank_sampled(
        self, split: str, score: PairScorer, index: IntArray, links: IntArray, progress: OnProgress
    ) -> Ranks:
        """Ranks of links among their negatives, which are drawn for some links at a time."""
        number = self.config.ranked_negatives
        size = max(_NUMBERS // (number * self.decoder.width), 1)
        positive = score(links[0], links[1], index)
        greater, equal = np.empty((2, index.size), np.int64)
        for start in range(0, index.size, size):
            own = slice(start, start + size)
            drawn = self._targets.draw(index[own], links[0, own], self._stream(split) + _RANKED)
            negative = score(*drawn, np.tile(index[own], number)).reshape(number, -1).T  # k by k
            part = rank_sampled(positive[own], negative)
            greater[own], equal[own] = part.greater, part.equal
            if progress:
                progress(min(start + size, index.size) / index.size)
        return Ranks(greater, equal, positive, links[0], number + 1).together()

    @cached_property
    def _known(self) -> IntArray:
        """Edges of the graph, links of all splits, and nodes with themselves. int64[2, K]."""
        return np.concatenate([self.graph.pairs, self._links, self.sides.loops], axis=1)

    @cached_property
    def _links(self) -> IntArray:
        return np.concatenate([self.splits.links(name) for name in SPLITS], axis=1)

    @cached_property
    def _pairs(self) -> Negatives:
        sampling = self.sides.sampling("binary", 1, self.graph.num_nodes)
        return Negatives(self.graph, sampling, self.seed, self._links)

    @cached_property
    def _targets(self) -> Negatives:
        number = self.config.ranked_negatives
        sampling = self.sides.sampling("triplet", number, self.graph.num_nodes)
        return Negatives(self.graph, sampling, self.seed, self._links)

    def _stream(self, split: str) -> int:
        """Number of the negatives of a split, in the place of an epoch."""
        return Stream.EVALUATION + SPLITS.index(split)


def pair_scores(decoder: Decoder, z: Tensor, source: IntArray, target: IntArray) -> FloatArray:
    """Scores of pairs from embeddings of all nodes, [V, H], some at a time. float32[N]."""
    size, device = max(_NUMBERS // max(z.size(1), 1), 1), decoder.device
    scores = np.empty(source.size, np.float32)
    for start in range(0, source.size, size):
        own = slice(start, start + size)
        ends = (z[torch.from_numpy(one[own])].float().to(device) for one in (source, target))
        scores[own] = decoder(*ends).cpu().numpy()
    return scores
