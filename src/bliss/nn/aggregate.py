"""Weighted sums over a block's edges: the sparse product of message passing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from bliss.kernels import fast
from bliss.types import Block


def aggregate(block: Block, x: Tensor) -> Tensor:
    """sum over kept edges of weight_ij x_j. x [S, F] -> [D, F].

    Edges are grouped by target, so this is a bag of embeddings, which torch sums without writing a
    message; the way back sums the same edges grouped by source. Sums are always in float32.
    """
    out: Tensor = _Aggregate.apply(x.float(), block)  # type: ignore[no-untyped-call]
    return out


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, block: Block) -> Tensor:
        ctx.block = block
        return _bag(block.row, x.contiguous(), block.indptr, block.edge_weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        block: Block = ctx.block
        indptr, order = by_source(block)
        grad = grads[0].contiguous()
        return _bag(block.col[order], grad, indptr, block.edge_weight[order]), None


def by_source(block: Block) -> tuple[Tensor, Tensor]:
    """A block's edges grouped by source: pointers int64[S + 1] and the order int64[E']."""
    indptr, order = fast.group_by_target(
        block.col.cpu().numpy(), block.row.cpu().numpy(), block.num_src
    )
    device = block.row.device
    return torch.from_numpy(indptr).to(device), torch.from_numpy(order).to(device)


def _bag(index: Tensor, x: Tensor, indptr: Tensor, weight: Tensor) -> Tensor:
    if index.numel() == 0:
        return x.new_zeros(indptr.numel() - 1, x.size(1))
    return functional.embedding_bag(
        index, x, indptr, mode="sum", per_sample_weights=weight, include_last_offset=True
    )
