"""Convolutions over the relations of a block: a map per relation, with means or attention.

As in `bliss.nn.convs`, a layer reports its input to the block in training and in a survey.
`RGATConv` also reports its maps, because the size of a message is |W_r h_j|. `RSAGEConv` does not:
there this lowers the error of messages, but not that of the gradient (experiments/types).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from bliss.errors import InputError
from bliss.nn.aggregate import aggregate_group_noise, aggregate_groups
from bliss.nn.attention import attend, corrected, gatv2_scores, shown_attention
from bliss.nn.block import Block
from bliss.nn.relation_edges import RelationPart, relation_parts


class Maps(nn.Module):
    """Linear maps W_n of N relations or types, or of B bases: W_n = sum_b a_nb V_b.

    Entries of W_n have the variance of those of `nn.Linear` at the start, 1 / (3 inputs), with
    bases, too.
    """

    def __init__(self, number: int, inputs: int, outputs: int, bases: int = 0) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.empty(bases or number, outputs, inputs))
        self.share = nn.Parameter(torch.empty(number, bases)) if bases else None  # a_nb
        nn.init.uniform_(self.matrix, -(inputs**-0.5), inputs**-0.5)
        if self.share is not None:
            nn.init.normal_(self.share, std=bases**-0.5)

    def forward(self) -> Tensor:
        """All maps. [N, out, in]."""
        if self.share is None:
            return self.matrix
        return torch.einsum("nb,boi->noi", self.share, self.matrix)


class SelfMaps(nn.Module):
    """A linear map per type of nodes: W_t h_i + b_t for targets i of type t. [S, F] -> [D, out]."""

    def __init__(self, types: int, inputs: int, outputs: int, bias: bool) -> None:
        super().__init__()
        self.maps = Maps(types, inputs, outputs)
        self.bias = nn.Parameter(torch.zeros(types, outputs)) if bias else None

    def forward(self, x: Tensor, block: Block) -> Tensor:
        """Outputs of the targets."""
        view, weight = block.by_type, self.maps()
        places = [
            place[:number]
            for place, number in zip(view.src_place, view.num_dst_by_type, strict=True)
        ]
        parts = [
            functional.linear(x[place], weight[t], None if self.bias is None else self.bias[t])
            for t, place in enumerate(places)
        ]
        return torch.cat(parts).index_select(0, torch.argsort(torch.cat(places)))


class RSAGEConv(nn.Module):
    """GraphSAGE with a map per relation and a self map per type.

        h_i' = W_type(i) h_i + b_type(i) + sum_r W_r sum_{j in N_i^r} weight_ij h_j

    The inner sum estimates the mean over the neighbours N_i^r of i under relation r. With fixed
    inputs, the output is unbiased if the sampler's weights are (estimator "ht").

    x [S, F] -> [D, out]
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        types: int,
        relations: int,
        bases: int = 0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.own = SelfMaps(types, inputs, outputs, bias)
        self.others = Maps(relations, inputs, outputs, bases)

    def forward(self, x: Tensor, block: Block, observed: Tensor | None = None) -> Tensor:
        """Output of the targets; in training, the block observes the input."""
        if self.training or block.is_surveyed:
            block.observe(x if observed is None else observed)
        return self._combine(x, aggregate_groups(block, x), block)

    def streams(self, x: Tensor, mean: Tensor, block: Block) -> tuple[Tensor, Tensor]:
        """Outputs with dropout and without dropout in any layer, for a block with a history.

        As in `bliss.nn.convs.LinearConv.streams`, with sums for each relation.

        x, mean [S, F] -> [D, out] twice
        """
        block.observe(mean)
        known = aggregate_groups(block, mean)
        noisy = known + aggregate_group_noise(block, x - mean)
        return self._combine(x, noisy, block), self._combine(mean, known, block)

    def _combine(self, x: Tensor, mean: Tensor, block: Block) -> Tensor:
        """Output of the targets from sums of each group. x [S, F], mean [G, F] -> [D, out]."""
        view, weight = block.by_type, self.others()
        places = view.group_place
        parts = [mean[place] @ weight[r].T for r, place in enumerate(places) if place.numel()]
        out: Tensor = self.own(x, block)
        if not parts:
            return out
        owner = view.owner[torch.cat([place for place in places if place.numel()])]
        return out.index_add(0, owner, torch.cat(parts).to(out.dtype))


class RGATConv(nn.Module):
    """GATv2 under each relation, and a self map per type.

        h_i' = W_type(i) h_i + b_type(i) + sum_r sum_{j in N_i^r} alpha_ij W_r h_j
        alpha_ij = softmax over N_i^r of a_r . LeakyReLU(U_r h_i + W_r h_j)

    The softmax is over the kept edges of i under r, with -log p_ij added to the scores
    (correction="hajek"), as in `bliss.nn.GATv2Conv`. Heads are concatenated (`concat`) or averaged.

    x [S, F] -> [D, outputs]
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        types: int,
        relations: int,
        bases: int = 0,
        heads: int = 1,
        concat: bool = True,
        dropout: float = 0.0,
        correction: str = "hajek",
        feedback: str = "softmax",
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.heads, self.concat, self.dropout = heads, concat, dropout
        self.correction, self.feedback = correction, feedback
        self.width = outputs // heads if concat else outputs
        self.own = SelfMaps(types, inputs, heads * self.width if concat else self.width, bias)
        self.source = Maps(relations, inputs, heads * self.width, bases)  # W
        self.target = Maps(relations, inputs, heads * self.width, bases)  # U
        self.vector = nn.Parameter(torch.empty(relations, heads, self.width))
        for vector in self.vector:
            nn.init.xavier_uniform_(vector)

    def _attended(
        self, x: Tensor, block: Block, dropout: float
    ) -> tuple[list[RelationPart], list[Tensor], list[Tensor], list[Tensor]]:
        """Relations with kept edges; scores [E_r, H], attention and outputs [G_r, H, C] of each."""
        view, source, target = block.by_type, self.source(), self.target()
        inputs = [x.index_select(0, place) for place in view.src_place]
        parts, scores, attention, outputs = [], [], [], []
        for r, part in enumerate(relation_parts(block)):
            if not part.edge_place.numel():
                continue
            values = self._split(inputs[int(view.types.ends[0, r])] @ source[r].T)
            own = self._split(x.index_select(0, part.owner) @ target[r].T)
            scores.append(gatv2_scores(part.edges, own, values, self.vector[r], 0.2))
            adjusted = corrected(scores[-1], part.edges, self.correction)
            out, weights = attend(part.edges, adjusted, values, dropout)
            parts.append(part)
            attention.append(weights)
            outputs.append(out)
        return parts, scores, attention, outputs

    def _split(self, x: Tensor) -> Tensor:
        return x.float().reshape(-1, self.heads, self.width)

    def attention(self, x: Tensor, block: Block) -> Tensor:
        """Attention weights of the edges, mean over heads. x [S, F] -> [E']."""
        parts, _, attention, _ = self._attended(x, block, 0.0)
        return _spread(block, parts, attention).mean(1)

    def forward(self, x: Tensor, block: Block, observed: Tensor | None = None) -> Tensor:
        """Output of the targets; in training, the block observes input and attention."""
        if block.control is not None:
            raise InputError(
                "the block has a history or an exact first hop, which need fixed coefficients, but "
                "this layer learns its attention: build the sampler without them."
            )
        block.check_device("x", x)
        drop = self.dropout if self.training else 0.0
        parts, scores, attention, outputs = self._attended(x, block, drop)
        if self.training or block.is_surveyed:
            shown = attention
            if not block.is_surveyed:
                shown = [
                    shown_attention(part.edges, one.detach(), own, self.correction, self.feedback)
                    for part, one, own in zip(parts, scores, attention, strict=True)
                ]
            inputs = x if observed is None else observed
            block.observe(inputs, _spread(block, parts, shown), self.source())
        out: Tensor = self.own(x, block)
        if not parts:
            return out
        heads = torch.cat(outputs)  # [G, H, C]
        sums = heads.flatten(1) if self.concat else heads.mean(1)
        return out.index_add(0, torch.cat([part.owner for part in parts]), sums.to(out.dtype))


def _spread(block: Block, parts: Sequence[RelationPart], values: Sequence[Tensor]) -> Tensor:
    """Values of the edges of each relation [E_r, H], in the order of the block. [E', H]."""
    if not parts:
        return torch.zeros(block.num_edges, 1, device=block.row.device)
    out = values[0].new_zeros(block.num_edges, values[0].size(1))
    return out.index_copy(0, torch.cat([part.edge_place for part in parts]), torch.cat([*values]))
