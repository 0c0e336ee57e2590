"""Links as the objective of a run: splits of edges, losses with negatives, ranking metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from bliss.data import Dataset
from bliss.graph import Graph
from bliss.links import LinkSplits, NegativeSampling
from bliss.loader.typed_links import TypedLinks
from bliss.nn.decoders import Decoder
from bliss.nn.layers import OnProgress
from bliss.samplers.base import Sampler
from bliss.train.batch import LinkBatchLoader, NodeData
from bliss.train.config_parts import ObjectiveConfig
from bliss.train.link_losses import constant_loss, link_loss, negative_mode
from bliss.train.link_scores import LinkScores, PairScorer
from bliss.train.link_sides import ALL_NODES, Sides
from bliss.train.metrics import metrics_of
from bliss.train.results import Constant, SplitAssessment
from bliss.train.typed_inputs import TypedInputs


@dataclass(frozen=True, eq=False)
class LinkObjective:
    """Train and score on links; see `Objective`.

    Validation and test links pass no messages in training, and training negatives may be among
    them: nothing that is learnt depends on these links. They are scored with embeddings from full
    neighbourhoods; see `LinkScores`.
    """

    dataset: Dataset
    config: ObjectiveConfig
    splits: LinkSplits
    decoder: Decoder  # the one of the network
    metric: str
    seed: int
    sides: Sides = ALL_NODES
    relation: TypedLinks | None = None  # that of the links, in a heterogeneous graph
    seen: Graph | None = None  # messages of predictions; None: all edges
    unit = "links"
    kind = "link"
    class_names = ()
    unlearnable = (
        "The links do not depend on the features and neighbours: check that rows of features and "
        "edges belong to the same nodes."
    )

    @property
    def graph(self) -> Graph:
        """Graph whose edges are known links: all edges, or those of the relation."""
        return self.dataset.graph if self.relation is None else self.relation.own.graph

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

    def loader(self, x: Tensor | TypedInputs, sampler: Sampler, **options: Any) -> LinkBatchLoader:
        """Loader of training links, whose edges their batch does not see."""
        mode, number = negative_mode(self.config.link_loss), self.config.negatives
        options["exclude"] = self.config.exclude
        if isinstance(x, TypedInputs):
            assert self.relation is not None
            options["neg_sampling"] = NegativeSampling(mode, number)
            options["rev_edge_types"] = self.relation.reverse_type
            first = [[side.start] for side in self.relation.sides]
            links = self.relation.edge_type, self.splits.train - first
            return LinkBatchLoader(x.data(), sampler, links, **options)
        options["neg_sampling"] = self.sides.sampling(mode, number, len(x))
        if self.splits.time is not None:  # what is not earlier is not seen, whatever it links
            options |= {"edge_label_time": self.splits.time["train"], "exclude": None}
            options["order"] = "time" if self.config.order == "time" else "given"
            options["time_window"] = self.config.seen_window
        data = NodeData(x=x, num_nodes=len(x))
        return LinkBatchLoader(data, sampler, self.splits.train, **options)

    def loss(self, outputs: Tensor, batch: NodeData) -> Tensor:
        """Training loss of a batch of links, from the embeddings of their ends. [D, H] -> []."""
        z = outputs.float()
        ends = z, z
        if self.relation is not None:
            by_type, (source, _, target) = batch.blocks[-1].split(z), self.relation.edge_type
            ends = by_type[source], by_type[target]
        return link_loss(self.config.link_loss, self.decoder, ends, batch)

    def nodes(self, split: str) -> None:
        """All nodes, because negatives may be any."""

    def messages(self, split: str) -> Graph:
        """Training edges; for test, by choice, validation edges, too; for "all", all edges.

        With times, these are the edges before the first link of the split, in the window if there
        is one; training links are then scored as validation links are.
        """
        if split == "all":
            return self.dataset.graph if self.seen is None else self.seen
        if not self.is_survey:
            return self._recent[split]
        sees_val = self.config.test_messages == "train+val" or self.splits.time is not None
        if split == "test" and sees_val:
            return self._train_and_val
        return self._train

    @property
    def train_messages(self) -> Graph:
        """Training edges."""
        return self._train

    @property
    def is_survey(self) -> bool:
        """Whether links are scored with all training edges: unless there is a window of time."""
        return self.splits.time is None or not self.config.time_window

    @cached_property
    def _recent(self) -> dict[str, Graph]:
        """Edges of the window of time before the first link of each split."""
        assert self.splits.time is not None
        graph, window = self.dataset.graph, self.config.seen_window
        val, test = (
            graph.at(int(self.splits.time[name].min()), strict=True, window=window)
            for name in ("val", "test")
        )
        return {"train": val, "val": val, "test": test}

    @cached_property
    def _train(self) -> Graph:
        return self.splits.messages("train")

    @cached_property
    def _train_and_val(self) -> Graph:
        return self.splits.messages("train", "val")

    @cached_property
    def link_scores(self) -> LinkScores:
        """Metrics of the links of each split."""
        sides, decoder = self.sides, self.decoder
        return LinkScores(self.graph, self.config, self.splits, sides, decoder, self.seed)

    @property
    def node_time(self) -> None:
        """Nothing: links have times, nodes have none."""

    def period(self, split: str) -> tuple[int, int] | None:
        """First and last time of the links of a split."""
        times = None if self.splits.time is None else self.splits.time[split]
        return None if times is None or not times.size else (int(times.min()), int(times.max()))

    @property
    def notes(self) -> list[str]:
        """What the user should know before training."""
        number, found = self.num_seeds, []
        if self.relation is not None:
            reverse = self.relation.reverse_type
            hidden = "no relation" if reverse is None else ",".join(reverse)
            found.append(f"Links of {','.join(self.relation.edge_type)}; their reverse: {hidden}.")
        if number and (absent := self.splits.num_absent(self.graph)):
            found.append(
                f"{absent:,} of {number:,} training links are not edges of the graph: they are "
                "trained on but pass no messages."
            )
        return found

    def scores(
        self, split: str, nodes: Tensor | None, outputs: Tensor, progress: OnProgress = None
    ) -> dict[str, float]:
        """Score of a split's links by the selecting metric. outputs [V, H]: embeddings."""
        return {
            split: self.link_scores.values(split, outputs, [self.metric], progress)[self.metric]
        }

    def assess(
        self,
        split: str,
        nodes: Tensor | None,
        outputs: Tensor | PairScorer,
        progress: OnProgress = None,
    ) -> SplitAssessment:
        """All scores of a split's links, and of links in random order.

        outputs  [V, H] embeddings, or a function of pairs, such as `TimedPairs`
        """
        metrics = metrics_of(self.kind, self.num_outputs)
        values = self.link_scores.values(split, outputs, metrics, progress)
        number = self.link_scores.scored(split).size
        deviation = sqrt((2 * number + 1) / (12 * number**2))  # of AUC, N links and N negatives
        return SplitAssessment(
            nodes=number,
            scores=values,
            classes=[],
            confusion=[],
            constant=Constant(
                score=self.link_scores.chance(self.metric, split),
                loss=None,
                network_loss=None,
                z_score=(values["auc"] - 0.5) / deviation,
                z_loss=None,
            ),
        )

    def state(self) -> dict[str, Tensor]:
        """No tensors besides the weights of the network."""
        return {}

    def with_state(self, state: Mapping[str, Tensor]) -> LinkObjective:
        """The same objective."""
        return self
