"""Attention over a block: compiled on the CPU, plain torch elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from bliss.block import Block
from bliss.kernels import messages


def gatv2_scores(
    block: Block, target: Tensor, source: Tensor, vector: Tensor, slope: float
) -> Tensor:
    """e_ij = a . LeakyReLU(target_i + source_j) per head.

    target [D, H, C], source [S, H, C], vector [H, C] -> [E', H]
    """
    if not _is_compiled(source):
        inner = functional.leaky_relu(target[block.col] + source[block.row], slope)
        return (inner * vector).sum(-1)
    scores: Tensor = _Scores.apply(target, source, vector, slope, block)  # type: ignore[no-untyped-call]
    return scores


def attend(
    block: Block, scores: Tensor, values: Tensor, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Weigh values by the softmax of scores over each target's edges.

    scores [E', H], values [S, H, C] -> out [D, H, C], attention [E', H] (before dropout)
    """
    mask = scores.new_empty(0)
    if dropout > 0:
        mask = functional.dropout(torch.ones_like(scores), dropout)
    if not _is_compiled(values):
        attention = _softmax(block, scores)
        weight = attention * mask if mask.numel() else attention
        messages_ = weight[..., None] * values[block.row]
        out = values.new_zeros(block.num_dst, *values.shape[1:])
        return out.index_add(0, block.col, messages_), attention.detach()
    out, attention = _Attend.apply(scores, values, mask, block)  # type: ignore[no-untyped-call]
    return out, attention


def _is_compiled(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.dtype == torch.float32


def _softmax(block: Block, scores: Tensor) -> Tensor:
    """Softmax over the edges of each target, in plain torch. [E', H] -> [E', H]."""
    index = block.col[:, None].expand_as(scores)
    shape = block.num_dst, scores.size(1)
    largest = scores.new_full(shape, -torch.inf).scatter_reduce(0, index, scores, "amax")
    exponent = (scores - largest.detach()[block.col]).exp()
    return exponent / scores.new_zeros(shape).scatter_add(0, index, exponent)[block.col]


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, target: Tensor, source: Tensor, vector: Tensor, slope: float, block: Block
    ) -> Tensor:
        ctx.save_for_backward(target, source, vector)
        ctx.slope, ctx.block = slope, block
        indptr, row, *arrays = _arrays(block.indptr, block.row, target, source, vector)
        return torch.from_numpy(messages.gatv2_scores(slope, indptr, row, *arrays))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        tensors = (ctx.block.indptr, ctx.block.row, *ctx.saved_tensors)
        out = messages.gatv2_scores_backward(ctx.slope, *_arrays(*tensors, grads[0]))
        target, source, vector = map(torch.from_numpy, out)
        return target, source, vector, None, None


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, values: Tensor, mask: Tensor, block: Block
    ) -> tuple[Tensor, Tensor]:
        shaped = mask if mask.numel() else mask.reshape(0, 1)
        arrays = _arrays(block.indptr, block.row, scores, shaped, values)
        out, attention = map(torch.from_numpy, messages.attend(*arrays))
        ctx.save_for_backward(attention, shaped, values)
        ctx.block = block
        ctx.mark_non_differentiable(attention)
        return out, attention

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        tensors = (ctx.block.indptr, ctx.block.row, *ctx.saved_tensors, grads[0])
        scores, values = map(torch.from_numpy, messages.attend_backward(*_arrays(*tensors)))
        return scores, values, None, None


def _arrays(*tensors: Tensor) -> list[np.ndarray[Any, Any]]:
    return [tensor.detach().contiguous().numpy() for tensor in tensors]
