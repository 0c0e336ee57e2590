"""Dropout from hashed coins: torch's draws one number at a time, and takes a third of a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from bliss.kernels import messages


def dropout(x: Tensor, rate: float, training: bool) -> Tensor:
    """Set a share `rate` (in steps of 2^-16) of x to 0 in training and scale up the rest.

    The coins' key is drawn from torch's generator, so that `torch.manual_seed` decides it.
    """
    if not training or rate == 0:
        return x
    if x.device.type != "cpu" or x.dtype != torch.float32:
        return functional.dropout(x, rate)
    key = int(torch.randint(2**62, ()).item())
    out: Tensor = _Dropout.apply(x, key, rate)  # type: ignore[no-untyped-call]
    return out


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, key: int, rate: float) -> Tensor:
        ctx.key, ctx.rate = key, rate
        return _drop(x, key, rate)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return _drop(grads[0], ctx.key, ctx.rate), None, None


def _drop(x: Tensor, key: int, rate: float) -> Tensor:
    x = x.detach().contiguous()
    out = torch.empty_like(x)
    messages.dropout(x.view(-1).numpy(), np.uint64(key), rate, out.view(-1).numpy())
    return out
