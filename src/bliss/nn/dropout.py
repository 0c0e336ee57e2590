"""Dropout whose coins are hashed, four to a hash; `benchmarks/dropout.py` compares it with torch's.

The coins depend on a key and a position only, so the backward pass draws them again and no mask is
stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from bliss.kernels import messages


def dropout(x: Tensor, rate: float, training: bool) -> Tensor:
    """Set each entry to 0 with probability `rate` in training and scale up the others.

    `rate` is rounded to a multiple of 2^-16. The key of the coins comes from torch's global
    generator, so `torch.manual_seed` makes it reproducible. Tensors that are not float32 on the
    CPU use torch's own dropout.
    """
    if not training or rate == 0:
        return x
    if x.device.type != "cpu" or x.dtype != torch.float32:
        return functional.dropout(x, rate)
    key = int(torch.randint(2**62, ()).item())
    out: Tensor = _Dropout.apply(x, key, rate)  # type: ignore[no-untyped-call]
    return out


class _Dropout(torch.autograd.Function):
    """The product with a fixed diagonal matrix, which is its own gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, key: int, rate: float) -> Tensor:
        ctx.key, ctx.rate = key, rate
        x = x.detach().contiguous()
        out = torch.empty_like(x)
        messages.dropout(x.view(-1).numpy(), np.uint64(key), rate, out.view(-1).numpy())
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """The same product, computed through `apply` so that it is differentiable again."""
        return _Dropout.apply(grads[0], ctx.key, ctx.rate), None, None  # type: ignore[no-untyped-call]
