"""Weighted sums over the edges of a block: the sparse product of message passing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from bliss.nn.control import Control, check_width, in_one_width
from bliss.nn.relation_edges import EdgeGroups, PartEdges

if TYPE_CHECKING:
    from bliss.nn.block import Block


def aggregate(block: Block, x: Tensor) -> Tensor:
    """Sum of weight_ij x_j over the kept edges of each target i. x [S, F] -> [D, F].

    If the block has a control variate with history h~, the result is

        baseline_i + sum_j weight_ij (x_j - h~_j),    baseline_i = sum over N_i of alpha_ij h~_j

    which has the same expectation. Without a history the result is the baseline. With types, the
    baselines of the relations of a target are added up.

    Edges are grouped by target, so torch's `embedding_bag` computes the sum without storing a
    message per edge. The backward pass is the same sum with edges grouped by source; it is
    differentiable again. Sums are in float32.
    """
    block.check_device("x", x)
    return _controlled(block, block, x.float())


def aggregate_groups(block: Block, x: Tensor) -> Tensor:
    """Sum of weight_ij x_j over the kept edges of each group: a target and a relation.

    x [S, F] -> [G, F], for a block whose graph has types; groups are in the order of `Block.rows`.
    A control variate changes the sums as in `aggregate`.
    """
    block.check_device("x", x)
    return _controlled(block, _groups(block), x.float())


def aggregate_noise(block: Block, noise: Tensor) -> Tensor:
    """Sum of weight_ij sqrt(p_ij) noise_j over the kept edges. noise [S, F] -> [D, F].

    For independent noise of mean 0 and variance v_j, the sum over draws and noise has the variance
    sum_j alpha_ij^2 v_j of the full sum, because p_ij (alpha_ij / p_ij)^2 p_ij = alpha_ij^2.
    """
    block.check_device("noise", noise)
    return _sum(block, noise.float(), block.edge_weight * block.edge_prob.sqrt())


def aggregate_group_noise(block: Block, noise: Tensor) -> Tensor:
    """`aggregate_noise` over the kept edges of each group. noise [S, F] -> [G, F]."""
    block.check_device("noise", noise)
    return _sum(_groups(block), noise.float(), block.edge_weight * block.edge_prob.sqrt())


def _groups(block: Block) -> PartEdges:
    """The kept edges by group."""
    indptr = block.by_type.group_indptr
    return PartEdges(indptr, block.row, block.edge_prob, block.num_src)


def _controlled(block: Block, edges: EdgeGroups, x: Tensor) -> Tensor:
    """Sums over the edges of each target or group, with the control variate of the block."""
    if block.control is None:
        return _sum(edges, x, block.edge_weight)
    control = block.control
    if not isinstance(control, Control):
        control = in_one_width(control, block.by_type)
    baseline = control.baseline
    if edges is block and block.types is not None:  # from groups to targets
        sums = baseline.new_zeros(block.num_dst, baseline.size(1))
        baseline = sums.index_add(0, block.by_type.owner, baseline)
    if control.history is None:
        return baseline
    check_width(x, control.history)
    return baseline + _sum(edges, x - control.history, block.edge_weight)


def _sum(block: EdgeGroups, x: Tensor, weight: Tensor) -> Tensor:
    out: Tensor = _Sum.apply(x, block, weight, False)  # type: ignore[no-untyped-call]
    return out


class _Sum(torch.autograd.Function):
    """The product with the block's matrix A [D, S], or with its transpose."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, block: EdgeGroups, weight: Tensor, transposed: bool) -> Tensor:
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
