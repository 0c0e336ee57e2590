"""Edges of a sampled block in a convolution's forward: what would be wrong with them is refused."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from bliss.errors import InputError

_LOOKS = {
    *(Tensor.size, Tensor.dim, Tensor.numel, Tensor.is_floating_point, Tensor.get_device),
    *(Tensor.__len__, Tensor.is_contiguous, torch.is_floating_point, torch.numel),
    *(
        getattr(Tensor, name).__get__
        for name in ("shape", "device", "dtype", "layout", "ndim", "is_sparse", "is_sparse_csr")
    ),
    *(getattr(Tensor, name).__get__ for name in ("is_cuda", "requires_grad", "is_meta")),
}
"""Functions that look at the form of edges."""
_PARTS = {Tensor.__getitem__, Tensor.unbind, torch.unbind, Tensor.select, torch.select}
"""Functions that return sources or targets."""
_READS = {Tensor.__getitem__, Tensor.index_select, torch.index_select, functional.embedding}
"""Functions that read values of nodes at the ends of edges."""


class WatchedEdges(Tensor):
    """The edge_index of a sampled block, outside of `propagate`.

    Values of the ends of an edge may be read, x[edge_index[0]]. Anything else would see the kept
    edges in place of all edges, such as a degree, and is refused.
    """

    owner: ClassVar[str] = "the convolution"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        of_edges = bool(args) and isinstance(args[0], WatchedEdges)
        if func in _PARTS and of_edges and not any(isinstance(a, Tensor) for a in args[1:]):
            return super().__torch_function__(func, types, args, kwargs)  # type: ignore[no-untyped-call]
        if func in _LOOKS or (func in _READS and not of_edges):
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", str(func))
        raise InputError(
            f"{cls.owner} uses edge_index in its forward ({name}), where only the kept edges are: "
            "a degree or another sum over them would be wrong. Compute it in message, from values "
            "of the two nodes, or pass it as a feature of nodes or edges."
        )


def watched(edge_index: Tensor, owner: str) -> Tensor:
    """The edges for the forward of a convolution with this name. int64[2, E']."""
    return edge_index.as_subclass(_kind(owner))


@lru_cache(maxsize=256)
def _kind(owner: str) -> type[WatchedEdges]:
    return type("WatchedEdges", (WatchedEdges,), {"owner": owner})
