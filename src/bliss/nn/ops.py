"""The library's operations as custom operators of torch, for networks under `torch.compile`.

Without `torch.compile` networks use the autograd functions of `aggregate`, `attention` and
`dropout`, which cost less per call and can be differentiated twice. Under it they use these, which
the compiler takes as they are: each has a kernel, a fake kernel that gives shapes alone, and a
first derivative. Both give the same numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.library import custom_op
from torch.nn import functional

from bliss.kernels import messages
from bliss.kernels.frontier import group_by_target


@custom_op("bliss::sum_edges", mutates_args=())
def sum_edges(x: Tensor, row: Tensor, indptr: Tensor, col: Tensor, weight: Tensor) -> Tensor:
    """Sum of weight_ij x_j over the edges of each target. x [S, F] -> [D, F]."""
    return functional.embedding_bag(
        row, x.contiguous(), indptr, mode="sum", per_sample_weights=weight, include_last_offset=True
    )


@custom_op("bliss::sum_edges_backward", mutates_args=())
def sum_edges_backward(
    grad: Tensor, row: Tensor, col: Tensor, weight: Tensor, num_src: int
) -> Tensor:
    """Sum of weight_ij grad_i over the edges of each source. grad [D, F] -> [S, F]."""
    if row.device.type == "cpu":
        pointers, by_source = group_by_target(col.numpy(), row.numpy(), num_src)
        indptr, order = torch.from_numpy(pointers), torch.from_numpy(by_source)
    else:
        ordered, order = torch.sort(row, stable=True)
        indptr = torch.searchsorted(ordered, torch.arange(num_src + 1, device=row.device))
    return functional.embedding_bag(
        col[order],
        grad.contiguous(),
        indptr,
        mode="sum",
        per_sample_weights=weight[order],
        include_last_offset=True,
    )


@sum_edges.register_fake
def _(x: Tensor, row: Tensor, indptr: Tensor, col: Tensor, weight: Tensor) -> Tensor:
    return x.new_empty(indptr.size(0) - 1, x.size(1))


@sum_edges_backward.register_fake
def _(grad: Tensor, row: Tensor, col: Tensor, weight: Tensor, num_src: int) -> Tensor:
    return grad.new_empty(num_src, grad.size(1))


def _keep_sum(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    x, row, _, col, weight = inputs
    ctx.num_src = x.size(0)
    ctx.save_for_backward(row, col, weight)


def _sum_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return sum_edges_backward(grad, *ctx.saved_tensors, ctx.num_src), None, None, None, None


sum_edges.register_autograd(_sum_gradient, setup_context=_keep_sum)


@custom_op("bliss::gatv2_scores", mutates_args=(), device_types="cpu")
def gatv2_scores(
    target: Tensor, source: Tensor, vector: Tensor, indptr: Tensor, row: Tensor, slope: float
) -> Tensor:
    """Scores of `bliss.kernels.messages.gatv2_scores`. -> [E', H]."""
    return torch.from_numpy(
        messages.gatv2_scores(slope, *_arrays(indptr, row, target, source, vector))
    )


@custom_op("bliss::gatv2_scores_backward", mutates_args=(), device_types="cpu")
def gatv2_scores_backward(
    target: Tensor,
    source: Tensor,
    vector: Tensor,
    indptr: Tensor,
    row: Tensor,
    slope: float,
    grad: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients with respect to target, source and vector."""
    found = messages.gatv2_scores_backward(
        slope, *_arrays(indptr, row, target, source, vector, grad)
    )
    one, two, three = map(torch.from_numpy, found)
    return one, two, three


@gatv2_scores.register_fake
def _(
    target: Tensor, source: Tensor, vector: Tensor, indptr: Tensor, row: Tensor, slope: float
) -> Tensor:
    return source.new_empty(row.size(0), vector.size(0))


@gatv2_scores_backward.register_fake
def _(
    target: Tensor,
    source: Tensor,
    vector: Tensor,
    indptr: Tensor,
    row: Tensor,
    slope: float,
    grad: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    return (
        target.new_empty(target.shape),
        source.new_empty(source.shape),
        vector.new_empty(vector.shape),
    )


def _keep_scores(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.slope = inputs
    ctx.save_for_backward(*tensors)


def _scores_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    found = gatv2_scores_backward(*ctx.saved_tensors, ctx.slope, grad)
    return *found, None, None, None


gatv2_scores.register_autograd(_scores_gradient, setup_context=_keep_scores)


@custom_op("bliss::attend", mutates_args=(), device_types="cpu")
def attend(
    scores: Tensor, values: Tensor, mask: Tensor, indptr: Tensor, row: Tensor
) -> tuple[Tensor, Tensor]:
    """Weighted sum and softmax of `bliss.kernels.messages.attend`. -> [D, H, C], [E', H]."""
    found = messages.attend(*_arrays(indptr, row, scores, mask, values))
    out, attention = map(torch.from_numpy, found)
    return out, attention


@custom_op("bliss::attend_backward", mutates_args=(), device_types="cpu")
def attend_backward(
    attention: Tensor, values: Tensor, mask: Tensor, indptr: Tensor, row: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients with respect to scores and values."""
    found = messages.attend_backward(*_arrays(indptr, row, attention, mask, values, grad))
    to_scores, to_values = map(torch.from_numpy, found)
    return to_scores, to_values


@attend.register_fake
def _(
    scores: Tensor, values: Tensor, mask: Tensor, indptr: Tensor, row: Tensor
) -> tuple[Tensor, Tensor]:
    out = values.new_empty(indptr.size(0) - 1, *values.shape[1:])
    return out, scores.new_empty(scores.shape)


@attend_backward.register_fake
def _(
    attention: Tensor, values: Tensor, mask: Tensor, indptr: Tensor, row: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor]:
    return attention.new_empty(attention.shape), values.new_empty(values.shape)


def _keep_attention(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
    _, values, mask, indptr, row = inputs
    ctx.save_for_backward(output[1], values, mask, indptr, row)


def _attend_gradient(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    return *attend_backward(*ctx.saved_tensors, grad), None, None, None


attend.register_autograd(_attend_gradient, setup_context=_keep_attention)


@custom_op("bliss::dropout", mutates_args=(), device_types="cpu")
def dropout(x: Tensor, key: Tensor, rate: float) -> Tensor:
    """Dropout of `bliss.kernels.messages.dropout`, with the coins of key int64[]."""
    x = x.contiguous()
    out = torch.empty_like(x)
    number = np.uint64(int(key.item()))
    messages.dropout(x.view(-1).numpy(), number, rate, out.view(-1).numpy())
    return out


@dropout.register_fake
def _(x: Tensor, key: Tensor, rate: float) -> Tensor:
    return x.new_empty(x.shape)


def _keep_key(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, key, ctx.rate = inputs
    ctx.save_for_backward(key)


def _dropout_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return dropout(grad, *ctx.saved_tensors, ctx.rate), None, None


dropout.register_autograd(_dropout_gradient, setup_context=_keep_key)


def _arrays(*tensors: Tensor) -> list[np.ndarray[Any, Any]]:
    return [tensor.detach().contiguous().numpy() for tensor in tensors]
