"""Attention over a block: compiled kernels for float32 on the CPU, plain torch otherwise.

The kernels compute values and first derivatives. For second derivatives (`create_graph=True`) the
first ones are computed in plain torch, which is differentiable again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from bliss.kernels import messages
from bliss.nn.relation_edges import EdgeGroups


def gatv2_scores(
    block: EdgeGroups, target: Tensor, source: Tensor, vector: Tensor, slope: float
) -> Tensor:
    """Scores e_ij = a . LeakyReLU(target_i + source_j) of each head.

    target [D, H, C], source [S, H, C], vector [H, C] -> [E', H]
    """
    if not _is_compiled(source):
        return _plain_scores(block, target, source, vector, slope)
    scores: Tensor = _Scores.apply(target, source, vector, slope, block)  # type: ignore[no-untyped-call]
    return scores


def attend(
    block: EdgeGroups, scores: Tensor, values: Tensor, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Sum of the sources' values, weighted by the softmax of scores over each target's edges.

    Dropout applies to the softmax.

    scores [E', H], values [S, H, C] -> out [D, H, C], attention [E', H] (before dropout)
    """
    mask = scores.new_empty(0, 1)
    if dropout > 0:
        mask = functional.dropout(torch.ones_like(scores), dropout)
    if not _is_compiled(values):
        attention = _softmax(block, scores)
        return _weighted_sum(block, mask, attention, values), attention.detach()
    out, attention = _Attend.apply(scores, values, mask, block)  # type: ignore[no-untyped-call]
    return out, attention


def corrected(scores: Tensor, block: EdgeGroups, correction: str) -> Tensor:
    """Scores with -log p_ij, if correction="hajek"; otherwise the plain ones. [E', H]."""
    return scores - block.edge_prob.log()[:, None] if correction == "hajek" else scores


def shown_attention(
    block: EdgeGroups, scores: Tensor, attention: Tensor, correction: str, feedback: str
) -> Tensor:
    """Attention that the policy observes. scores, attention [E', H] -> [E', H] or [E', 1]."""
    if feedback == "scores":
        shown = scores.mean(1, keepdim=True)
    elif correction == "hajek":
        shown = attention * block.edge_prob[:, None]  # proportional to the plain softmax
    else:
        return attention
    total = shown.new_zeros(block.num_dst, shown.size(1)).index_add(0, block.col, shown)
    return (shown / torch.where(total == 0, 1.0, total)[block.col]).abs()


def _is_compiled(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.dtype == torch.float32


def _plain_scores(
    block: EdgeGroups, target: Tensor, source: Tensor, vector: Tensor, slope: float
) -> Tensor:
    inner = functional.leaky_relu(target[block.col] + source[block.row], slope)  # [E', H, C]
    return (inner * vector).sum(-1)


def _weighted_sum(block: EdgeGroups, mask: Tensor, attention: Tensor, values: Tensor) -> Tensor:
    weight = attention * mask if mask.numel() else attention
    weighted = weight[..., None] * values[block.row]  # [E', H, C]
    out = values.new_zeros(block.num_dst, *values.shape[1:])
    return out.index_add(0, block.col, weighted)


def _softmax(block: EdgeGroups, scores: Tensor) -> Tensor:
    """Softmax over the edges of each target. [E', H] -> [E', H]."""
    index = block.col[:, None].expand_as(scores)
    lowest = scores.new_full((block.num_dst, scores.size(1)), -torch.inf)
    largest = lowest.scatter_reduce(0, index, scores.detach(), "amax")
    exponent = (scores - largest[block.col]).exp()
    return exponent / torch.zeros_like(lowest).scatter_add(0, index, exponent)[block.col]


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, target: Tensor, source: Tensor, vector: Tensor, slope: float, block: EdgeGroups
    ) -> Tensor:
        ctx.save_for_backward(target, source, vector)
        ctx.slope, ctx.block = slope, block
        indptr, row, *arrays = _arrays(block.indptr, block.row, target, source, vector)
        return torch.from_numpy(messages.gatv2_scores(slope, indptr, row, *arrays))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        block: EdgeGroups = ctx.block
        if torch.is_grad_enabled():
            scores = partial(_plain_scores, block, slope=ctx.slope)
            return *_differentiable_gradients(scores, ctx.saved_tensors, grads[0]), None, None
        arrays = _arrays(block.indptr, block.row, *ctx.saved_tensors, grads[0])
        gradients = messages.gatv2_scores_backward(ctx.slope, *arrays)
        return *map(torch.from_numpy, gradients), None, None


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, values: Tensor, mask: Tensor, block: EdgeGroups
    ) -> tuple[Tensor, Tensor]:
        arrays = _arrays(block.indptr, block.row, scores, mask, values)
        out, attention = map(torch.from_numpy, messages.attend(*arrays))
        ctx.save_for_backward(scores, values, mask, attention)
        ctx.block = block
        ctx.mark_non_differentiable(attention)
        return out, attention

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        block: EdgeGroups = ctx.block
        scores, values, mask, attention = ctx.saved_tensors
        if torch.is_grad_enabled():

            def out(scores: Tensor, values: Tensor) -> Tensor:
                return _weighted_sum(block, mask, _softmax(block, scores), values)

            return *_differentiable_gradients(out, (scores, values), grads[0]), None, None
        arrays = _arrays(block.indptr, block.row, attention, mask, values, grads[0])
        return *map(torch.from_numpy, messages.attend_backward(*arrays)), None, None


def _differentiable_gradients(
    function: Callable[..., Tensor], inputs: Sequence[Tensor], grad: Tensor
) -> Sequence[Tensor | None]:
    """Gradients of a function, computed in plain torch so that they are differentiable again."""
    # One input may be a slice of another: views keep the gradient of each apart.
    inputs = [tensor.view_as(tensor) for tensor in inputs]
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    gradients = iter(torch.autograd.grad(function(*inputs), wanted, grad, create_graph=True))
    return [next(gradients) if tensor.requires_grad else None for tensor in inputs]


def _arrays(*tensors: Tensor) -> list[np.ndarray[Any, Any]]:
    return [tensor.detach().contiguous().numpy() for tensor in tensors]
