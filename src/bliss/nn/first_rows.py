"""Tensors of several layers, where they meet: the rows of the last layer's targets."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_JOINED = {torch.cat, torch.concat, torch.stack}
_ELEMENTWISE = {
    getattr(place, name)
    for place in (torch, Tensor)
    for kind in ("add", "sub", "mul", "div", "maximum", "minimum", "lerp")
    for name in (kind, f"{kind}_", f"__{kind}__", f"__r{kind}__", f"__i{kind}__")
    if hasattr(place, name)
} | {Tensor.__truediv__, Tensor.__itruediv__, Tensor.__rsub__}


class FirstRows(TorchFunctionMode):
    """Takes the first rows of the longer tensor where node tensors of two layers meet.

    Targets are the first sources of a block, so the rows of the later layer come first in the
    tensors of all earlier ones. Only calls that torch would refuse are changed: elementwise
    functions, and joins along another dimension, of tensors with different numbers of rows.
    """

    def __init__(self, counts: set[int]) -> None:
        super().__init__()
        self._counts = counts
        self._dropped: tuple[Tensor, Tensor] | None = None  # output and input of the last dropout

    def before_dropout(self, x: Tensor) -> Tensor | None:
        """The input of the dropout that made x; None if another function did."""
        return self._dropped[1] if self._dropped and self._dropped[0] is x else None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _JOINED and kwargs.get("dim", args[1] if len(args) > 1 else 0) != 0:
            args = (self._first_rows(args[0]), *args[1:]) if args else args
        elif func in _ELEMENTWISE:
            args = self._first_rows(args)
        out = func(*args, **kwargs)
        if func is functional.dropout and out is not args[0]:
            self._dropped = out, args[0]
        return out

    def _first_rows(self, tensors: Any) -> Any:
        shapes = [one.shape for one in tensors if isinstance(one, Tensor) and one.ndim > 1]
        counts = {shape[0] for shape in shapes}
        if len(counts) < 2 or not counts <= self._counts or len({len(s) for s in shapes}) > 1:
            return tensors
        least = min(counts)
        return type(tensors)(
            one[:least] if isinstance(one, Tensor) and one.ndim > 1 else one for one in tensors
        )
