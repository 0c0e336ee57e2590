"""`EdgeSeeds`: links as seeds, with negatives, and the edges that a batch must not see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bliss import checks
from bliss.arrays import IntArray
from bliss.errors import InputError
from bliss.graph import Cutoff, Graph, HiddenEdges
from bliss.links import Negatives, NegativeSampling
from bliss.loader.seed_times import SeedTimes
from bliss.loader.typed_links import TypedLinks, link_pairs

EXCLUDE = ("reverse", "self", "none")
"""Edges that a batch of links does not see: its links and their reverse, its links, or none."""


@dataclass(frozen=True, eq=False)
class EdgeSeeds:
    """Links with their labels and negatives. Build them with `EdgeSeeds.of`."""

    graph: Graph
    edge_label_index: IntArray  # int64[2, P] sources over targets
    edge_label: Tensor | None = None  # [P, ...]; already shifted if negatives are drawn
    negatives: Negatives | None = None
    exclude: str = "reverse"
    times: SeedTimes | None = None
    typed: TypedLinks | None = None  # the relation, in a heterogeneous graph
    kind = "links"

    @classmethod
    def of(
        cls,
        graph: Graph,
        edge_label_index: Any,
        edge_label: Any = None,
        neg_sampling: Any = None,
        exclude: str = "reverse",
        known: Any = None,
        seed: int = 0,
        times: SeedTimes | None = None,
        typed: TypedLinks | None = None,
    ) -> EdgeSeeds:
        """Seeds from the arguments of `LinkLoader`."""
        checks.choice("exclude", exclude, EXCLUDE)
        sampling = NegativeSampling.of(neg_sampling)
        pairs = link_pairs("edge_label_index", edge_label_index, graph, typed)
        if pairs.shape[1] == 0:
            raise InputError(
                "edge_label_index has no links, but a loader needs at least one: pass [2, P]."
            )
        label = None if edge_label is None else _labels(edge_label, pairs.shape[1], sampling)
        if sampling is None:
            if known is not None:
                raise InputError(
                    "known has no effect without negatives: leave it out, or pass neg_sampling."
                )
            return cls(graph, pairs, label, None, exclude, times, typed)
        listed = pairs if times is None else pairs[:, :0]
        if known is not None:
            listed = np.concatenate([listed, link_pairs("known", known, graph, typed)], axis=1)
        edges = graph
        if typed is not None:
            sampling, edges = typed.sampling(sampling), typed.own.graph
        negatives = Negatives(edges, sampling, seed, listed, has_times=times is not None)
        return cls(graph, pairs, label, negatives, exclude, times, typed)

    def __len__(self) -> int:
        return int(self.edge_label_index.shape[1])

    def batch(self, index: IntArray, epoch: int) -> EdgeBatch:
        """Links at some positions, with the negatives of this epoch."""
        source, target = self.edge_label_index[:, index]
        without = self._hidden(source, target)
        if self.negatives is not None and self.negatives.sampling.mode == "triplet":
            ends, named = self._triplets(index, source, target, epoch)
        else:
            ends, named = self._labelled(index, source, target, epoch)
        own = {"input_id": torch.from_numpy(index), **named}
        return EdgeBatch(ends.node, without, own, ends.cutoff, self.typed)

    def _labelled(
        self, index: IntArray, source: IntArray, target: IntArray, epoch: int
    ) -> tuple[Ends, dict[str, Tensor]]:
        """Distinct nodes; edge_label_index [2, B + N] and edge_label [B + N], links first."""
        label = None if self.edge_label is None else self.edge_label[torch.from_numpy(index)]
        link = index
        if self.negatives is not None:
            src, dst = self.negatives.draw(index, source, epoch, self._time(index))
            link = np.resize(index, source.size + dst.size)  # negative m is of link m mod B
            source, target = np.concatenate([source, src]), np.concatenate([target, dst])
            label = torch.ones(index.size) if label is None else label
            label = torch.cat([label, label.new_zeros((dst.size, *label.shape[1:]))])
        ends = Ends.of(self.times, (source, link), (target, link))
        named = {"edge_label_index": torch.from_numpy(np.stack(ends.place))}
        if (time := self._time(link)) is not None:
            named["edge_label_time"] = torch.from_numpy(time)
        return ends, named if label is None else {**named, "edge_label": label}

    def _triplets(
        self, index: IntArray, source: IntArray, target: IntArray, epoch: int
    ) -> tuple[Ends, dict[str, Tensor]]:
        """Distinct nodes; src_index [B], dst_pos_index [B], dst_neg_index [B] or [B, amount]."""
        assert self.negatives is not None
        time = self._time(index)
        _, drawn = self.negatives.draw(index, source, epoch, time)
        negatives = drawn, np.resize(index, drawn.size)
        ends = Ends.of(self.times, (source, index), (target, index), negatives)
        src, dst, negative = ends.place
        by_link = torch.from_numpy(negative).view(-1, index.size).T.contiguous()
        named = {
            "src_index": torch.from_numpy(src),
            "dst_pos_index": torch.from_numpy(dst),
            "dst_neg_index": by_link.squeeze(1),
        }
        return ends, named if time is None else {**named, "seed_time": torch.from_numpy(time)}

    def _time(self, link: IntArray) -> IntArray | None:
        """Times of the links at some positions; None without times."""
        return None if self.times is None else self.times.time[link]

    def _hidden(self, source: IntArray, target: IntArray) -> HiddenEdges | None:
        """Edges that the batch must not see; None if there are none."""
        if self.exclude == "none":
            return None
        if self.typed is not None:
            hidden = self.typed.hidden(source, target, self.exclude)
            return hidden if hidden.edge.size else None
        ends = source, target
        if self.exclude == "reverse":
            ends = np.concatenate([source, target]), np.concatenate([target, source])
        hidden = HiddenEdges.between(self.graph, *ends)
        return hidden if hidden.edge.size else None


@dataclass(frozen=True, eq=False)
class EdgeBatch:
    """Links of a batch."""

    node: IntArray  # int64[B] ends of the links and negatives; see `Ends`
    without: HiddenEdges | None  # edges that no layer may see
    own: dict[str, Tensor]
    cutoff: Cutoff | None = None  # [B] times that each end may see
    typed: TypedLinks | None = None

    def attributes(self, targets: Tensor) -> dict[str, Tensor]:
        """Links and negatives as rows of the network's output, and labels; see `LinkLoader`."""
        return self.own

    def attributes_by_type(self, targets: Tensor) -> dict[Any, dict[str, Any]]:
        """`attributes` of the relation and of the types of its ends."""
        assert self.typed is not None
        return self.typed.attributes(self.node, self.own)


def _labels(edge_label: Any, size: int, sampling: NegativeSampling | None) -> Tensor:
    """Labels [P, ...]; those that begin at 0 are raised by 1 if 0 is the label of negatives."""
    label = torch.as_tensor(edge_label)
    if label.ndim == 0 or label.size(0) != size:
        raise InputError(
            f"edge_label has shape {tuple(label.shape)} for {size} links: pass one row per link."
        )
    if sampling is None:
        return label
    if sampling.mode == "triplet":
        raise InputError(
            'edge_label has no effect with "triplet", whose batches have positives and negatives '
            "apart: leave it out."
        )
    return label + 1 if label.min() == 0 else label


class Ends(NamedTuple):
    """Ends of links and negatives: distinct nodes, or pairs of a node and a time."""

    node: IntArray  # int64[B] graph ids, by time if there are times, increasing
    cutoff: Cutoff | None  # [B]
    place: list[IntArray]  # position of each given end among these

    @classmethod
    def of(cls, times: SeedTimes | None, *ends: tuple[IntArray, IntArray]) -> Ends:
        """Ends from nodes and the positions of their links."""
        nodes, link = (np.concatenate(arrays) for arrays in zip(*ends, strict=True))
        splits = np.cumsum([node.size for node, _ in ends])[:-1]
        if times is None:
            node, place = np.unique(nodes, return_inverse=True)
            return cls(node, None, np.split(place, splits))
        rank = np.unique(times.time[link], return_inverse=True)[1]
        codes = rank * (int(nodes.max(initial=0)) + 1) + nodes
        _, first, place = np.unique(codes, return_index=True, return_inverse=True)
        return cls(nodes[first], times.cutoff(link[first]), np.split(place, splits))
