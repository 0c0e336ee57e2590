"""Weighted sums over a block's edges: the sparse product of message passing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from bliss.block import Block


def aggregate(block: Block, x: Tensor, mean: Tensor | None = None) -> Tensor:
    """sum over kept edges of weight_ij x_j. x [S, F] -> [D, F].

    With a control variate, the history h of the block's sources, it is

        baseline_i + sum_j weight_ij (m_j - h_j) + sum_j weight_ij sqrt(p_ij) (x_j - m_j)
        baseline_i = sum over all in-edges of alpha_ij h_j

    with m_j the layer's input before dropout, `mean`, and x_j the input after dropout. The
    expectation over draws and dropout is the same as without; the variance is that of the change
    since h was recorded plus, by the square root, that of dropout in a full sum.

    Edges are grouped by target, so this is a bag of embeddings, which torch sums without writing a
    message; the backward pass sums the same edges grouped by source. Sums are in float32.
    """
    block.check_device("x", x)
    x = x.float()
    control = block.control
    if control is None:
        return _sum(block, x, block.edge_weight)
    mean = x if mean is None else mean.float()
    out = control.baseline + _sum(block, mean - control.history, block.edge_weight)
    if mean is x:
        return out
    return out + _sum(block, x - mean, block.edge_weight * block.edge_prob.sqrt())


def _sum(block: Block, x: Tensor, weight: Tensor) -> Tensor:
    out: Tensor = _Sum.apply(x, block, weight)  # type: ignore[no-untyped-call]
    return out


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, block: Block, weight: Tensor) -> Tensor:
        ctx.block, ctx.weight = block, weight
        return _bag(block.row, x.contiguous(), block.indptr, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        block: Block = ctx.block
        indptr, order = block.by_source
        grad = grads[0].contiguous()
        return _bag(block.col[order], grad, indptr, ctx.weight[order]), None, None


def _bag(index: Tensor, x: Tensor, indptr: Tensor, weight: Tensor) -> Tensor:
    if index.numel() == 0:
        return x.new_zeros(indptr.numel() - 1, x.size(1))
    return functional.embedding_bag(
        index, x, indptr, mode="sum", per_sample_weights=weight, include_last_offset=True
    )
