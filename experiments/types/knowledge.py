"""Link prediction in knowledge graphs: DistMult over R-GCN, on blocks without the batch's links.

    z = R-GCN(embedding),    score(h, r, t) = sum_k z_hk w_rk z_tk

The layers are PyG's FastRGCNConv with block-diagonal matrices, as published for FB15k-237. A batch
of triples asks for the tail of (h, r) and for the head of (r, t), among the entities of the batch
and some drawn uniformly; the loss is the cross-entropy of a softmax over them. No layer sees the
edges of the batch's triples, nor their reverse edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import HeteroData
from torch_geometric.nn import FastRGCNConv

from bliss import Graph
from bliss.arrays import IntArray
from bliss.links import hits, mrr, rank_links
from bliss.nn import Blockwise, infer

SPLITS = ("train", "valid", "test")
CUTOFFS = (1, 3, 10)


@dataclass(frozen=True)
class Knowledge:
    """Triples (head, relation, tail) of the official splits, int64[N, 3] each."""

    splits: dict[str, IntArray]

    @classmethod
    def read(cls, root: Path, name: str) -> Knowledge:
        """A folder of the shared data."""
        arrays = np.load(root / name / "data.npz")
        return cls({split: arrays[split].astype(np.int64) for split in SPLITS})

    @cached_property
    def triples(self) -> IntArray:
        """Those of all splits."""
        return np.concatenate(list(self.splits.values()))

    @property
    def num_entities(self) -> int:
        """V."""
        return int(self.triples[:, [0, 2]].max()) + 1

    @property
    def num_relations(self) -> int:
        """R, reverse relations apart."""
        return int(self.triples[:, 1].max()) + 1

    @cached_property
    def graph(self) -> Graph:
        """Training triples as edges h -> t of relation r, and t -> h of relation R + r."""
        data = HeteroData()
        data["entity"].num_nodes = self.num_entities
        head, relation, tail = self.splits["train"].T
        for name, (source, target) in {"": (head, tail), "rev_": (tail, head)}.items():
            for r in range(self.num_relations):
                own = relation == r
                pairs = torch.from_numpy(np.stack([source[own], target[own]]))
                data["entity", f"{name}{r}", "entity"].edge_index = pairs
        return Graph.of(data)

    @property
    def edge_type(self) -> IntArray:
        """Relation of each edge of the graph. int64[E]."""
        types = self.graph.types
        assert types is not None
        return np.repeat(types.group_relation, np.diff(types.group_start)).astype(np.int64)

    @cached_property
    def edges(self) -> IntArray:
        """Edge of each training triple, and its reverse edge. int64[2, N]."""
        graph, relation = self.graph, self.edge_type
        target = np.repeat(np.arange(graph.num_nodes), graph.degree)
        order = np.lexsort((target, graph.indices, relation))
        code = self._codes(graph.indices[order], relation[order], target[order])
        head, own, tail = self.splits["train"].T
        asked = self._codes(head, own, tail), self._codes(tail, self.num_relations + own, head)
        found = np.stack([order[np.searchsorted(code, one)] for one in asked])
        assert np.array_equal(relation[found], [own, self.num_relations + own])
        return found

    def _codes(self, source: IntArray, relation: IntArray, target: IntArray) -> IntArray:
        number = self.num_entities
        return (relation * number + source.astype(np.int64)) * number + target


class RGCN(nn.Module):
    """Layers of FastRGCNConv with block-diagonal matrices, with ReLU between them."""

    def __init__(self, width: int, relations: int, layers: int, block: int, dropout: float) -> None:
        super().__init__()
        sizes = width, width, relations
        self.convs = nn.ModuleList(
            [FastRGCNConv(*sizes, num_blocks=width // block) for _ in range(layers)]
        )
        self.dropout = dropout

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        """Embeddings of all nodes. [V, H] -> [V, H]."""
        for number, conv in enumerate(self.convs):
            x = functional.dropout(x, self.dropout, self.training)
            x = conv(x, edge_index, edge_type)
            x = x if number == len(self.convs) - 1 else x.relu()
        return x


class DistMult(nn.Module):
    """The embedding of entities, the encoder, and a vector for each relation."""

    def __init__(self, knowledge: Knowledge, width: int, **options: Any) -> None:
        super().__init__()
        number = knowledge.num_relations
        self.embedding = nn.Parameter(torch.randn(knowledge.num_entities, width) * width**-0.5)
        self.relation = nn.Parameter(torch.randn(number, width) * width**-0.5)
        self.encoder = Blockwise(RGCN(width, 2 * number, **options))

    def loss(self, blocks: Any, batch: Batch) -> Tensor:
        """Mean cross-entropy of tails and heads among the seeds."""
        z = self.encoder(self.embedding[blocks[0].src], blocks)
        relation = self.relation[batch.relation]
        tails = (z[batch.head] * relation) @ z.T
        heads = (z[batch.tail] * relation) @ z.T
        loss = functional.cross_entropy(tails, batch.tail)
        return (loss + functional.cross_entropy(heads, batch.head)) / 2


@dataclass(frozen=True)
class Batch:
    """Triples whose ends are positions among the seeds, and edges that no layer may see."""

    seeds: IntArray  # int64[C] distinct entities
    head: Tensor  # int64[B]
    relation: Tensor  # int64[B]
    tail: Tensor  # int64[B]
    without: IntArray  # int64[2 B]

    @classmethod
    def draw(cls, knowledge: Knowledge, size: int, others: int, seed: int, step: int) -> Batch:
        """A batch of the epoch that the step is in, and so many other entities."""
        train = knowledge.splits["train"]
        epoch, number = divmod(step, len(train) // size)
        order = np.random.default_rng([seed, 0, epoch]).permutation(len(train))
        chosen = order[number * size : (number + 1) * size]
        head, relation, tail = train[chosen].T
        drawn = np.random.default_rng([seed, 1, step]).integers(0, knowledge.num_entities, others)
        seeds, place = np.unique(np.concatenate([head, tail, drawn]), return_inverse=True)
        ends = torch.from_numpy(place[: 2 * size]).view(2, size)
        without = knowledge.edges[:, chosen].ravel()
        return cls(seeds, ends[0], torch.from_numpy(relation), ends[1], without)


def scores(model: DistMult, knowledge: Knowledge, split: str, most: int = 0) -> dict[str, float]:
    """Filtered MRR and Hits@K of heads and tails, ranked among all entities.

    most: number of triples, spread evenly; 0: all. Embeddings are those of full neighbourhoods.
    """
    z = infer(model.encoder, knowledge.graph, model.embedding.detach(), chunk_edges=20_000)
    asked = knowledge.splits[split]
    if most:
        asked = asked[np.arange(most) * len(asked) // most]
    totals = dict.fromkeys(("mrr", *(f"hits@{k}" for k in CUTOFFS)), 0.0)
    for r in np.unique(asked[:, 1]):
        known = knowledge.triples[knowledge.triples[:, 1] == r][:, [0, 2]].T
        links = np.unique(asked[asked[:, 1] == r][:, [0, 2]], axis=0).T
        query = z * model.relation[r].detach()
        for side in (1, -1):  # tails, then heads
            ranks = rank_links(
                lambda source, candidate, query=query: query[source] @ z[candidate].T,
                links[::side],
                knowledge.num_entities,
                known=known[::side],
            )
            number = links.shape[1]
            totals["mrr"] += number * mrr(ranks)
            for k in CUTOFFS:
                totals[f"hits@{k}"] += number * hits(ranks, k)
    return {name: value / (2 * len(asked)) for name, value in totals.items()}
