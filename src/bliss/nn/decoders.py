"""Decoders: the score of a link from the embeddings of its ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from bliss import checks
from bliss.graph import EdgeType
from bliss.nn.aggregate import aggregate
from bliss.nn.block import Block
from bliss.nn.model import GNN
from bliss.nn.model_config import ModelConfig
from bliss.nn.relational_model import RelationalGNN

DECODERS = ("dot", "mlp", "distmult")
_NUMBERS = 2**24  # products of embeddings that are held at once


class Decoder(nn.Module):
    """Score of pairs from embeddings z of sources u and targets v.

    * dot: z_u . z_v
    * distmult: sum_k r_k z_uk z_vk, with a learnt r [H], of one relation
    * mlp: w . relu(W (z_u * z_v) + b) + c, of the elementwise product

    All are symmetric in u and v.
    """

    def __init__(self, kind: str, width: int) -> None:
        super().__init__()
        self.kind, self.width = checks.choice("decoder", kind, DECODERS), width
        if kind == "distmult":
            self.relation = nn.Parameter(torch.ones(width))
        elif kind == "mlp":
            self.hidden, self.last = nn.Linear(width, width), nn.Linear(width, 1)

    @property
    def device(self) -> torch.device:
        """Where the parameters are; the CPU if there are none."""
        return next((one.device for one in self.parameters()), torch.device("cpu"))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Scores of pairs. [..., H], [..., H] -> [...]."""
        product = source * target
        if self.kind == "dot":
            return product.sum(-1)
        if self.kind == "distmult":
            return product @ self.relation
        score: Tensor = self.last(self.hidden(product).relu())
        return score.squeeze(-1)

    def matrix(self, source: Tensor, target: Tensor) -> Tensor:
        """Scores of all sources against all targets. [C, H], [K, H] -> [C, K]."""
        if self.kind == "dot":
            return source @ target.T
        if self.kind == "distmult":
            return (source * self.relation) @ target.T
        parts = torch.split(target, max(_NUMBERS // target.size(1), 1))
        rows = [torch.cat([self(one, part) for part in parts]) for one in source]
        return torch.stack(rows) if rows else source.new_empty(0, len(target))


class LinkGNN(GNN):
    """A `GNN` whose outputs are embeddings, with the decoder of links.

    `forward(x, blocks)` returns the embeddings of the targets of blocks[-1], [B, H], where H is
    `config.hidden`; `decoder` takes those of the ends of links.
    """

    def __init__(self, inputs: int, config: ModelConfig, decoder: str) -> None:
        super().__init__(inputs, inputs if config.is_light else config.hidden, config)
        self.decoder = Decoder(decoder, self.widths[-1])


class RelationalLinkGNN(RelationalGNN):
    """A `RelationalGNN` whose outputs are embeddings, with the decoder of links, as `LinkGNN`."""

    def __init__(
        self,
        inputs: Mapping[str, int],
        edge_types: Sequence[EdgeType],
        config: ModelConfig,
        decoder: str,
    ) -> None:
        super().__init__(inputs, edge_types, config.hidden, config)
        self.decoder = Decoder(decoder, self.widths[-1])


class LightGCN(LinkGNN):
    """LightGCN: sums over neighbours without weights, and the mean over layers as embeddings.

        h_i^(l + 1) = sum_j alpha_ij h_j^(l),    z_i = (h_i^(0) + ... + h_i^(L)) / (L + 1)

    alpha_ij are the coefficients of the graph, as published 1 / sqrt(|N_i| |N_j|) without
    self-loops. Layers pass on [h, h^(0) + ... + h], of twice the width of the inputs.
    """

    def _build(self, config: ModelConfig, widths: Sequence[int]) -> None:
        """Make no layers."""
        self.widths = (widths[0],) * (config.layers + 1)

    def messages(self, x: Tensor) -> Tensor:
        """h of [h, h^(0) + ... + h]. [S, H] or [S, 2 H] -> [S, H]."""
        return x[:, : self.widths[0]]

    def layer(self, number: int, x: Tensor, block: Block) -> Tensor:
        """Output of one layer. [S, H] or [S, 2 H] -> [D, 2 H]; of the last, [D, H]."""
        h, last = self.messages(x), self.config.layers - 1
        total = x[: block.num_dst, -h.size(1) :]
        if self.training or block.is_surveyed:
            block.observe(h)
        h = aggregate(self._drop_baseline(block), self._drop(h))
        total = total + h
        return total / (last + 2) if number == last else torch.cat([h, total], 1)
