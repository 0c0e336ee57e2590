"""Convolutions of PyG that are linear in their messages: sums of inputs in place of messages.

Many convolutions have the form

    out_i = g(sum_j c_ij L x_j, x_i)

with a linear map L and fixed coefficients c_ij = s_i alpha_ij, alpha_ij those of the graph. Their
sum can be taken before L, so a control variate of inputs serves them (`bliss.nn.aggregate`):

    z_i = s_i (baseline_i + sum_j weight_ij (x_j - h~_j)),    out_i = g(L z_i, x_i)

The convolution itself computes g(L z_i, x_i): it is run on one edge per target, from z_i to x_i.
Without a control variate z_i is s_i sum_j weight_ij x_j, which takes less time than a message per
edge.

Whether a convolution has this form is not listed but tried: on a small block with random weights,
with random inputs and parameters, the equation must hold.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from bliss.errors import InputError
from bliss.graph import Graph
from bliss.nn.aggregate import (
    aggregate,
    aggregate_group_noise,
    aggregate_groups,
    aggregate_noise,
)
from bliss.nn.control import Control

Edges: TypeAlias = Any
"""A `Block`. Its module imports this one."""
Run: TypeAlias = Callable[[Edges, Any, Tensor, Tensor, dict[str, Any]], Any]
"""Output of a convolution at the targets: block, conv, x [S, F], those of targets [D, F'], options
-> [D, out]."""

TRIALS = 5  # a nonlinear map passes one by chance if, say, all of its ReLUs are on one side
TOLERANCE = 1e-3  # relative, of float32
_ERRORS = (RuntimeError, ValueError, TypeError, IndexError, AttributeError, AssertionError)

_KNOWN: WeakKeyDictionary[nn.Module, dict[Any, bool]] = WeakKeyDictionary()


def summed_inputs(
    block: Edges, x: Tensor, mean: Tensor, scale: Tensor | None, by_group: bool = False
) -> Tensor:
    """z_i of a block, with its control variate if it has one. x, mean [S, F], scale [D] -> [D, F].

    With `by_group`, it is that of each group, a target and a relation: scale [G] -> [G, F].
    `mean` is x before dropout, or x itself. With a history, only the change of `mean` is divided by
    p_ij, and the noise of dropout has the variance that it has with full neighbourhoods
    (`aggregate_noise`).
    """
    has_history = block.control is not None and block.control.has_history
    is_noisy = has_history and mean is not x
    sums, noise = aggregate, aggregate_noise
    if by_group:
        sums, noise = aggregate_groups, aggregate_group_noise
    z = sums(block, mean if is_noisy else x)
    if is_noisy:
        z = z + noise(block, x - mean)
    return (z if scale is None else z * scale[:, None]).to(x.dtype)


def target_scale(block: Edges, name: str, is_mean: bool, uses_coefficients: bool) -> Tensor | None:
    """s_i in c_ij = s_i alpha_ij, for sums or means of messages. float32[D], or None for 1.

    With alpha_ij as edge weights, s_i is 1 for a sum and 1 / |N_i| for a mean. Without edge
    weights, c_ij is 1 or 1 / |N_i|, and alpha_ij must be 1 / |N_i|.
    """
    if uses_coefficients:
        return 1 / block.degree.clamp(min=1) if is_mean else None
    check_equal_weights(name, block.rows.graph.norm)
    return None if is_mean else block.degree.float()


def check_equal_weights(name: str, norm: str) -> None:
    """Raise an error unless alpha_ij is 1 / |N_i|, for a convolution without edge weights."""
    if norm != "mean":
        raise InputError(
            f"{name} weighs its messages equally, but the history or first hop of the block is a "
            f'sum with the coefficients of norm={norm!r}: build the sampler with norm="mean".'
        )


def is_linear(
    conv: nn.Module, norm: str, x: Tensor, target: Tensor, options: dict[str, Any], run: Run
) -> bool:
    """Whether the equation of this module holds for a convolution in its present mode; tried once.

    x [S, F] and target [D, F'] are the inputs of sources and targets, of which the shapes matter.

    Dropout of messages is not linear in training, and dropout after the sum does not matter.

    `run` computes the output on a block without a control variate from its edges, or from its sums
    if the block has one.
    """
    known = _KNOWN.setdefault(conv, {})
    key = conv.training, norm, x.shape[1:], target.shape[1:], tuple(sorted(options))
    if key not in known:
        with torch.random.fork_rng(devices=[]):
            known[key] = _try(conv, norm, x, target, options, run)
    return known[key]


@torch.no_grad()
def _try(
    conv: nn.Module, norm: str, x: Tensor, target: Tensor, options: dict[str, Any], run: Run
) -> bool:
    generator = torch.Generator().manual_seed(0)
    block, controlled = _blocks(norm, generator)
    given = {
        name: _random(value, block.num_src, generator) if isinstance(value, Tensor) else value
        for name, value in options.items()
    }

    def draw() -> tuple[Tensor, Tensor]:
        inputs = _random(x, block.num_src, generator)
        if x.shape[1:] == target.shape[1:]:
            return inputs, inputs[: block.num_dst]
        return inputs, _random(target, block.num_dst, generator)

    try:
        trial = copy.deepcopy(conv).to("cpu", torch.float32)
        run(block, trial, *draw(), given)
    except _ERRORS:
        return False
    for _ in range(TRIALS):
        for parameter in trial.parameters():  # biases are 0 at first
            parameter.normal_(generator=generator)
        inputs, own = draw()
        torch.manual_seed(0)  # equal masks of dropout after the sum
        expected = run(block, trial, inputs, own, given)
        torch.manual_seed(0)
        try:
            found = run(controlled(inputs), trial, inputs, own, given)
        except _ERRORS:
            return False  # it does not run on one edge per target
        if not isinstance(expected, Tensor) or found.shape != expected.shape:
            return False
        if not (found - expected).abs().max() <= TOLERANCE * expected.abs().max():
            return False
    return True


def _random(value: Tensor, rows: int, generator: torch.Generator) -> Tensor:
    return torch.randn(rows, *value.shape[1:], generator=generator)


def _blocks(norm: str, generator: torch.Generator) -> tuple[Edges, Callable[[Tensor], Edges]]:
    """A block of 3 targets and 5 sources with random weights, and its copy with a zero history."""
    from bliss.nn.block import Block  # imports this module

    pairs = np.array([[1, 2, 3, 4, 0, 3, 0, 4, 1, 2], [0, 0, 0, 0, 1, 1, 2, 2, 3, 4]])
    weight = np.linspace(0.5, 2, 10, dtype=np.float32) if norm not in ("mean", "gcn") else None
    graph = Graph.from_edge_index(pairs, 5, weight=weight, norm=norm)  # type: ignore[arg-type]
    rows, src = graph.rows(np.arange(3)), np.arange(5)
    indptr, edge = rows.edges()
    row = graph.indices[edge].astype(np.int64)
    correction = 0.5 + torch.rand(edge.size, generator=generator).numpy()
    alpha = rows.coefficients(src, indptr, row, edge) * correction
    draw = (np.arange(3), src, indptr, row, edge, 1 / correction, alpha)
    block = Block.from_arrays(*draw, rows=rows)

    def controlled(x: Tensor) -> Block:
        zeros = torch.zeros(5, *x.shape[1:])
        return replace(block, control=Control(zeros[:3], zeros))

    return block, controlled
