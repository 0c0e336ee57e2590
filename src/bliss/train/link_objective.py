"""Links as the objective of a run: splits of edges, losses with negatives, ranking metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bliss.arrays import FloatArray, IntArray
from bliss.data import Dataset
from bliss.graph import Graph
from bliss.links import (
    LinkSplits,
    Negatives,
    NegativeSampling,
    Ranks,
    auc,
    average_precision,
    hits,
    mrr,
    rank_sampled,
)
from bliss.nn.decoders import Decoder
from bliss.rng import Stream
from bliss.samplers.base import Sampler
from bliss.train.batch import LinkBatchLoader, NodeData
from bliss.train.config_parts import ObjectiveConfig
from bliss.train.link_losses import constant_loss, link_loss, negative_sampling
from bliss.train.metrics import metrics_of
from bliss.train.results import Constant, SplitAssessment

FEW = 1024
"""Training links that are scored in any case."""
_NUMBERS = 2**24  # entries of embeddings that are gathered at a time
_RANKED = 3  # added to a split's number: its negatives for ranks are others than those for AUC
_ORDER = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class LinkObjective:
    """Train and score on links; see `Objective`.

    Validation and test links are no messages in training, and training negatives may be among
    them: nothing that is learnt depends on these links. They are scored with embeddings from full
    neighbourhoods, against negatives that are the same in every evaluation and no edge of the
    graph, whatever its split:

    * auc and average_precision: as many pairs as links, both ends uniform
    * mrr and hits: `ranked_negatives` targets for the source of each link, uniform
    """

    dataset: Dataset
    config: ObjectiveConfig
    splits: LinkSplits
    decoder: Decoder  # the one of the network
    metric: str
    seed: int
    unit = "links"
    kind = "link"
    class_names = ()
    unlearnable = (
        "The links do not depend on the features and neighbours: check that rows of features and "
        "edges belong to the same nodes."
    )

    @property
    def num_outputs(self) -> int:
        """Width of the embeddings."""
        return self.decoder.width

    @property
    def num_seeds(self) -> int:
        """Number of training links."""
        return int(self.splits.train.shape[1])

    @property
    def train_nodes(self) -> Tensor:
        """All nodes: links are split, nodes are not. int64[V]."""
        return torch.arange(self.dataset.graph.num_nodes)

    @property
    def constant_loss(self) -> float:
        """Least loss of a score that is the same for all pairs."""
        return constant_loss(self.config.link_loss, self.config.negatives)

    def loader(self, x: Tensor, sampler: Sampler, **options: Any) -> LinkBatchLoader:
        """Loader of training links, whose edges their batch does not see."""
        sampling = negative_sampling(self.config.link_loss, self.config.negatives)
        return LinkBatchLoader(
            NodeData(x=x, num_nodes=len(x)),
            sampler,
            self.splits.train,
            neg_sampling=sampling,
            exclude=self.config.exclude,
            **options,
        )

    def loss(self, outputs: Tensor, batch: NodeData) -> Tensor:
        """Training loss of a batch of links, from the embeddings of their ends. [D, H] -> []."""
        return link_loss(self.config.link_loss, self.decoder, outputs.float(), batch)

    def nodes(self, split: str) -> None:
        """All nodes, because negatives may be any."""

    def messages(self, split: str) -> Graph:
        """Training edges; for test, by choice, validation edges, too; for "all", all edges."""
        if split == "all":
            return self.dataset.graph
        if split == "test" and self.config.test_messages == "train+val":
            return self._train_and_val
        return self._train

    @cached_property
    def _train(self) -> Graph:
        return self.splits.messages("train")

    @cached_property
    def _train_and_val(self) -> Graph:
        return self.splits.messages("train", "val")

    def scores(self, split: str, nodes: Tensor | None, outputs: Tensor) -> dict[str, float]:
        """Score of a split's links by the selecting metric. outputs [V, H]: embeddings."""
        return {split: self._values(split, outputs, [self.metric])[self.metric]}

    def assess(self, split: str, nodes: Tensor | None, outputs: Tensor) -> SplitAssessment:
        """All scores of a split's links, and of links in random order. outputs [V, H]."""
        values = self._values(split, outputs, metrics_of(self.kind, self.num_outputs))
        number = self._scored(split).size
        deviation = sqrt((2 * number + 1) / (12 * number**2))  # of AUC, N links and N negatives
        return SplitAssessment(
            nodes=number,
            scores=values,
            classes=[],
            confusion=[],
            constant=Constant(
                score=self._chance(),
                loss=None,
                network_loss=None,
                z_score=(values["auc"] - 0.5) / deviation,
                z_loss=None,
            ),
        )

    def _chance(self) -> float:
        """Expected score of the selecting metric if links and negatives are in random order."""
        candidates = self.config.ranked_negatives + 1
        of_ranks = {"hits": self.config.hits / candidates}
        of_ranks["mrr"] = float((1 / np.arange(1, candidates + 1)).mean())
        return of_ranks.get(self.metric, 0.5)

    def _scored(self, split: str) -> IntArray:
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
    def _values(self, split: str, z: Tensor, metrics: list[str]) -> dict[str, float]:
        """Metrics of a split by name, from embeddings z [V, H]."""
        index = self._scored(split)
        source, target = self.splits.links(split)[:, index]
        positive = self._pair_scores(z, source, target)
        values: dict[str, float] = {}
        if {"auc", "average_precision"} & set(metrics):
            drawn = self._pairs.draw(index, source, self._stream(split))
            negative = self._pair_scores(z, *drawn)
            both = {"auc": auc, "average_precision": average_precision}
            values |= {name: one(positive, negative) for name, one in both.items()}
        if {"mrr", "hits"} & set(metrics):
            ranks = self._ranks(split, z, index, source, positive)
            values |= {"mrr": mrr(ranks), "hits": hits(ranks, self.config.hits)}
        return {name: values[name] for name in metrics}

    def _ranks(
        self, split: str, z: Tensor, index: IntArray, source: IntArray, positive: FloatArray
    ) -> Ranks:
        """Ranks of links among their negatives, which are drawn for some links at a time."""
        number = self.config.ranked_negatives
        size = max(_NUMBERS // (number * z.size(1)), 1)
        greater, equal = np.empty((2, index.size), np.int64)
        for start in range(0, index.size, size):
            own = slice(start, start + size)
            drawn = self._targets.draw(index[own], source[own], self._stream(split) + _RANKED)
            negative = self._pair_scores(z, *drawn).reshape(number, -1).T  # k by k
            part = rank_sampled(positive[own], negative)
            greater[own], equal[own] = part.greater, part.equal
        return Ranks(greater, equal, positive, np.arange(index.size), number + 1)

    def _pair_scores(self, z: Tensor, source: IntArray, target: IntArray) -> FloatArray:
        """Scores of pairs, some at a time. float32[N]."""
        return pair_scores(self.decoder, z, source, target)

    @cached_property
    def _pairs(self) -> Negatives:
        return Negatives(self.dataset.graph, NegativeSampling("binary"), self.seed)

    @cached_property
    def _targets(self) -> Negatives:
        sampling = NegativeSampling("triplet", self.config.ranked_negatives)
        return Negatives(self.dataset.graph, sampling, self.seed)

    def _stream(self, split: str) -> int:
        """Number of the negatives of a split, in the place of an epoch."""
        return Stream.EVALUATION + _ORDER.index(split)

    def state(self) -> dict[str, Tensor]:
        """Nothing beside the network."""
        return {}

    def with_state(self, state: Mapping[str, Tensor]) -> LinkObjective:
        """The same objective."""
        return self


def pair_scores(decoder: Decoder, z: Tensor, source: IntArray, target: IntArray) -> FloatArray:
    """Scores of pairs from embeddings of all nodes, [V, H], some at a time. float32[N]."""
    size, device = max(_NUMBERS // max(z.size(1), 1), 1), decoder.device
    scores = np.empty(source.size, np.float32)
    for start in range(0, source.size, size):
        own = slice(start, start + size)
        ends = (z[torch.from_numpy(one[own])].float().to(device) for one in (source, target))
        scores[own] = decoder(*ends).cpu().numpy()
    return scores
