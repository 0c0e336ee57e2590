"""Checks of the inputs of layers and networks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from bliss.errors import InputError


def check_features(x: Any, rows: int, what: str, field: str = "x") -> None:
    """Raise an error unless x is a dense tensor of floats with `rows` rows, one for each `what`."""
    if not isinstance(x, Tensor):
        kind = type(x).__name__
        raise InputError(
            f"{field} is a {kind}, but must be a tensor: pass torch.as_tensor({field})."
        )
    if x.layout != torch.strided:
        raise InputError(f"{field} is {x.layout}, but must be dense: pass {field}.to_dense().")
    if not x.is_floating_point():
        raise InputError(f"{field} is {x.dtype}, but must hold floats: pass {field}.float().")
    if x.ndim != 2 or x.size(0) != rows:
        raise InputError(
            f"{field} has shape {tuple(x.shape)}, but there are {rows} {what}: pass one row for "
            "each."
        )


def check_fits(x: Tensor, linear: nn.Linear) -> None:
    """Raise an error unless x [N, F] has the width and the type of a layer's weights."""
    weight = linear.weight
    if x.size(-1) != weight.size(1):
        raise InputError(
            f"x has shape {tuple(x.shape)}, but the layer takes {weight.size(1)} features: pass "
            "the features that it was built for."
        )
    if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        raise InputError(
            f"x is {x.dtype}, but the layer's weights are {weight.dtype}: convert x, for instance "
            "with x.float(), or use torch.autocast."
        )
