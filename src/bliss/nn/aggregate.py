"""Weighted sums over the edges of a block: the sparse product of message passing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from bliss.block import Block


def aggregate(block: Block, x: Tensor, mean: Tensor | None = None) -> Tensor:
    """Sum of weight_ij x_j over the kept edges of each target i. x [S, F] -> [D, F].

    If the block has a control variate with history h, the result is

        baseline_i + sum_j weight_ij (m_j - h_j) + sum_j weight_ij sqrt(p_ij) (x_j - m_j)
        baseline_i = sum over all in-edges of alpha_ij h_j

    where m_j (`mean`) is the layer's input before dropout and x_j the input after dropout. The
    control variate does not change the expectation over draws and dropout. The variance is that of
    m - h, plus that of dropout in a full sum, because of the square root.

    Edges are grouped by target, so torch's `embedding_bag` computes the sum without storing a
    message per edge. The backward pass is the same sum with edges grouped by source; it is
    differentiable again. Sums are in float32.
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
    out: Tensor = _Sum.apply(x, block, weight, False)  # type: ignore[no-untyped-call]
    return out


class _Sum(torch.autograd.Function):
    """The product with the block's matrix A [D, S], or with its transpose."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, block: Block, weight: Tensor, transposed: bool) -> Tensor:
        ctx.block, ctx.weight, ctx.transposed = block, weight, transposed
        index, indptr = block.row, block.indptr
        if transposed:
            indptr, order = block.by_source
            index, weight = block.col[order], weight[order]
        return functional.embedding_bag(
            index,
            x.contiguous(),
            indptr,
            mode="sum",
            per_sample_weights=weight,
            include_last_offset=True,
        )

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        """Product with the other matrix, through `apply` so that it is differentiable again."""
        out = _Sum.apply(grads[0], ctx.block, ctx.weight, not ctx.transposed)  # type: ignore[no-untyped-call]
        return out, None, None, None
