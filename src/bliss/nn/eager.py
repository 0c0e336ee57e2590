"""Functions that torch.compile leaves out of its graphs. Import it only while torch compiles.

Importing it loads torch's compiler. Dynamo runs an import as it traces, so these functions are
marked before it reaches them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

from bliss.nn.blockwise import Blockwise
from bliss.nn.model import GNN
from bliss.nn.propagation import propagate

P = ParamSpec("P")
T = TypeVar("T")

REASON = (
    "weights, degrees and sums of a block are computed by compiled kernels on NumPy arrays, which "
    "torch.compile cannot trace. Leave fullgraph=True out: layers over blocks run eagerly, and "
    "what lies between them is compiled."
)


def _eager(function: Callable[P, T]) -> Callable[P, T]:
    known = inspect.signature(torch.compiler.disable).parameters
    options = {"reason": REASON} if "reason" in known else {}  # since torch 2.7
    disabled: Callable[P, T] = torch.compiler.disable(function, **options)  # type: ignore[no-untyped-call]
    return disabled


eager_propagate = _eager(propagate)
eager_network = _eager(GNN.forward)
eager_blockwise = _eager(Blockwise.forward)
