"""Combining tensors of different layers: rows of the last layer's targets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
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
    """Takes the first rows of the longer tensor where node tensors of two layers are combined.

    Targets are the first sources of a block, so the rows of the later layer come first in the
    tensors of all earlier ones. Only calls that torch would refuse are changed: elementwise
    functions, and joins along another dimension, of tensors with different numbers of rows.
    Parameters, which may have one row, are left as they are.
    """

    def __init__(self, counts: set[int]) -> None:
        super().__init__()
        self._counts = counts
        self._dropped: dict[int, tuple[Tensor, Tensor]] = {}  # outputs and inputs of dropouts
        self._is_paused = False

    def before_dropout(self, x: Tensor) -> Tensor | None:
        """The input of the dropout that made x; None if another function did."""
        return self._dropped[id(x)][1] if id(x) in self._dropped else None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Change nothing inside a layer, whose tensors are those of one block."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._is_paused:
            return func(*args, **kwargs)
        if func in _JOINED and kwargs.get("dim", args[1] if len(args) > 1 else 0) != 0:
            args = (self._first_rows(args[0]), *args[1:]) if args else args
        elif func in _ELEMENTWISE:
            args = self._first_rows(args)
        out = func(*args, **kwargs)
        if func is functional.dropout and out is not args[0]:
            self._dropped[id(out)] = out, args[0]
        return out

    def _first_rows(self, tensors: Any) -> Any:
        shapes = [one.shape for one in tensors if _is_of_nodes(one)]
        counts = {shape[0] for shape in shapes}
        if len(counts) < 2 or not counts <= self._counts or len({len(s) for s in shapes}) > 1:
            return tensors
        least = min(counts)
        return type(tensors)(one[:least] if _is_of_nodes(one) else one for one in tensors)


def _is_of_nodes(value: Any) -> bool:
    return isinstance(value, Tensor) and not isinstance(value, nn.Parameter) and value.ndim > 1
