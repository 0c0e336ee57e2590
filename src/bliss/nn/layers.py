"""The layers of a model: functions of an input and a block."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias, runtime_checkable

from torch import Tensor, nn

from bliss.errors import InputError
from bliss.nn.block import Block
from bliss.nn.blockwise import Blockwise

Layer: TypeAlias = Callable[[Tensor, Block], Tensor]
"""A layer of a network: layer(x [S, F], block) -> [D, F']."""
OnProgress: TypeAlias = Callable[[float], None] | None
"""Called with the share of the work that is done, about every second; may raise to stop."""


@runtime_checkable
class ProjectingLayer(Protocol):
    """A layer that needs only a projection of each node's input.

        layer(x, block) = layer.combine(layer.project(x), block)

    for blocks without a control variate, which is of inputs and not of projections. If projections
    are narrower than inputs, inference projects every node once, in the order of nodes, and gathers
    projections.
    """

    @property
    def projected_width(self) -> int | None:
        """K, or None where the equation does not hold, for instance with dropout in training."""

    def project(self, x: Tensor) -> Tensor:
        """Projections of nodes. [N, F] -> [N, K]."""

    def combine(self, projected: Tensor, block: Block, observed: Tensor | None = None) -> Tensor:
        """Output of the targets. [S, K] -> [D, F'].

        If the block is surveyed, `observed` [S, 1] holds the norms of the inputs, for
        `block.observe`.
        """


def runs_only(module: nn.Module, forward: Callable[..., Any]) -> bool:
    """Whether a call of a module runs this method alone: it is not overridden and has no hooks."""
    hooks = (module._forward_hooks, module._forward_pre_hooks)
    return type(module).forward is forward and not any(hooks)


def number_of_layers(model: Iterable[Layer] | Layer) -> int:
    """Number of layers of a model, each of which takes a block."""
    return len(model.layers) if isinstance(model, Blockwise) else len(layers_of(model)[1])


def layers_of(model: Iterable[Layer] | Layer) -> tuple[list[nn.Module], list[Layer]]:
    """Modules of a model, and its layers, input layer first.

    A model that can be iterated is a sequence of layers; another one is a single layer.
    """
    parts: list[Any] = list(model) if isinstance(model, Iterable) else [model]
    if not parts:
        raise InputError("model has no layers: pass a GNN or a list of layers, not an iterator.")
    modules = [part for part in (model, *parts) if isinstance(part, nn.Module)]
    return modules, [_as_layer(part) for part in parts]


def _as_layer(part: Any) -> Layer:
    if not isinstance(part, nn.Module):
        if not callable(part):
            raise InputError(
                f"model has a {type(part).__name__} as a layer: pass a GNN, or functions of "
                "(x, block)."
            )
        layer: Layer = part
        return layer
    if any(kind.__name__ == "MessagePassing" for kind in type(part).__mro__):
        return lambda x, block: block.propagate(part, x)
    names = list(inspect.signature(part.forward).parameters)
    if "blocks" in names:
        raise InputError(
            f"{type(part).__name__}.forward takes all blocks at once, but inference goes layer by "
            "layer: give it an __iter__ that returns its layers, functions of (x, block), or pass "
            "bliss.nn.Blockwise(model) of a model that takes (x, edge_index)."
        )
    if "edge_index" in names:
        raise InputError(
            f"{type(part).__name__}.forward takes edge_index, but a layer takes a block: pass "
            "bliss.nn.Blockwise(model)."
        )
    if len(names) < 2:
        raise InputError(
            f"{type(part).__name__} takes no block, so it is not a layer: pass functions of "
            "(x, block), each with what follows its convolution."
        )
    return part
