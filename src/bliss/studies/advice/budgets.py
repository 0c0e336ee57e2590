"""Budgets that minimise the time of training: the gradient's error from the layers', and a search.

The gradient of a batch with full neighbourhoods is g, its estimate from a sample g^. Its relative
error

    r = E |g^ - g|^2 / E |g|^2

(over batches and draws, at fixed weights) grows with the relative errors e_l of the layers'
aggregates. To first order, errors of layers are independent and their effects on the gradient add;
an error also biases what passes a nonlinearity, by an amount of its own order. So

    r = (sum_l u_l e_l)^gamma,    1 <= gamma <= 2

where gamma is 1 for variance and 2 for bias. The sensitivities u_l and gamma are fitted to the
measured r of several budgets, those near the limit below counting most.

A step along an unbiased g^ with the best learning rate lowers a smooth loss by an amount in
proportion to |E g|^4 / E |g^|^2, so the time to a given loss is in proportion to

    cost = ms (1 + r)

This is minimised over budgets with r at most a limit. The limit is needed because bias, unlike
variance, does not average out over steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import scipy.optimize

from bliss.arrays import FloatArray

Budgets = tuple[int, ...]
POWERS = (1.0, 1.25, 1.5, 1.75, 2.0)
_LEAST = 1e-9  # errors below this are 0


class Sensitivity(NamedTuple):
    """Fitted u_l and gamma."""

    weight: FloatArray  # [L] u
    power: float  # gamma
    residual: float  # median of |fitted / measured - 1|

    def gradient_error(self, errors: Sequence[float]) -> float:
        """r for the relative errors of the layers."""
        return float((self.weight @ np.asarray(errors)) ** self.power)


def fit_sensitivity(
    errors: Sequence[Sequence[float]], measured: Sequence[float], limit: float
) -> Sensitivity:
    """Fit u and gamma to settings with layer errors [N][L] and gradient errors [N].

    For each gamma, u >= 0 minimises the relative residuals of r^(1 / gamma), weighted by
    1 / (1 + |log(r / limit)|). The gamma with the least squared log-ratio of fitted and measured r
    is chosen. A layer without error in all settings gets the largest u.
    """
    layer, gradient = np.asarray(errors, np.float64), np.asarray(measured, np.float64)
    is_sampled = (gradient > _LEAST) & (layer.sum(1) > _LEAST)
    layer, gradient = layer[is_sampled], gradient[is_sampled]
    if not gradient.size:
        return Sensitivity(np.ones(np.shape(errors)[1]), 1.0, 0.0)
    share = 1 / (1 + np.abs(np.log(gradient / limit)))
    tried = []
    for power in POWERS:
        matrix = layer / (gradient ** (1 / power))[:, None]
        weight, _ = scipy.optimize.nnls(matrix * share[:, None], share)
        ratio = np.maximum((matrix @ weight) ** power, _LEAST)
        weight[~layer.any(0)] = weight.max()
        misfit = float((share * np.square(np.log(ratio))).sum())
        residual = float(np.median(np.abs(ratio - 1)))
        tried.append((misfit, Sensitivity(weight, power, residual)))
    return min(tried, key=lambda misfit_and_fit: misfit_and_fit[0])[1]


class Expectation(NamedTuple):
    """What is expected of a choice of budgets."""

    ms: float
    gradient_error: float  # r
    errors: tuple[float, ...] = ()  # e_l of every layer, input layer first

    @property
    def cost(self) -> float:
        """ms (1 + r), in proportion to the time of training."""
        return self.ms * (1 + self.gradient_error)


def search(
    expect: Callable[[Budgets], Expectation], start: Budgets, largest: int, limit: float
) -> Budgets:
    """Budgets of least cost with r <= limit, among the powers of two up to `largest`.

    Steepest descent from `start`. A move halves or doubles one budget or all of them; if none
    helps, it raises one and lowers another, each by a factor of 2 or 4. While r exceeds the limit,
    moves that lower r come first.
    """
    top = (largest - 1).bit_length()  # 2^top covers every candidate
    known: dict[Budgets, tuple[float, float]] = {}

    def rank(place: Budgets) -> tuple[float, float]:
        if place not in known:
            expected = expect(tuple(2**power for power in place))
            known[place] = max(expected.gradient_error - limit, 0.0), expected.cost
        return known[place]

    here = tuple(min(round(float(np.log2(budget))), top) for budget in start)
    while True:
        for moves in _moves(len(here)):
            near = [tuple(np.clip(np.add(here, move), 0, top).tolist()) for move in moves]
            best = min(near, key=rank)
            if rank(best) < rank(here):
                here = best
                break
        else:
            return tuple(2**power for power in here)


def _moves(number: int) -> list[list[Budgets]]:
    """Changes of the logarithms: of one or of all by 1, then up to 2 from one to another."""
    steps = list(product(range(-2, 3), repeat=number))
    single = [move for move in steps if sum(map(abs, move)) == 1]
    trades = [move for move in steps if np.count_nonzero(move) == 2 and min(move) < 0 < max(move)]
    return [[*single, (-1,) * number, (1,) * number], trades or single]
