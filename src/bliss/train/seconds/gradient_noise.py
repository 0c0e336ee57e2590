"""Time to a given reduction of the loss, from the error of the gradient and the time of a step.

Let G be the gradient over all training seeds with full neighbourhoods, g^ that of a batch and a
draw, and <a, b> = sum_i a_i b_i / sqrt(v_i), with v_i the second moments by which Adam divides. The
squared error of the gradient's direction is

    r = |G|^2 E|g^|^2 / <G, E g^>^2 - 1

Without bias it is the relative variance of g^; for batches without sampling, the gradient noise
scale of McCandlish et al. (2018) over B. How many steps it costs depends on the learning rate eta:

* Far from the optimum, Adam with a given eta lowers the loss by eta <G, E g^> / sqrt(E|g^|^2) per
  step, so that a given reduction takes (1 + r)^(1/2) times as many steps as without noise.
* Near it, curvature counts: the loss changes by -eta <G, E g^> + eta^2 E|g^|^2 curvature / 2. With
  the best eta, the decrease is in proportion to <G, E g^>^2 / E|g^|^2: (1 + r) times as many steps.

A run goes from the first to the second. The time to a given reduction is taken to be in proportion
to the geometric mean of both:

    cost = ms (1 + r)^(3/4)

The variance of a batch falls with its size B, that of sampling with budgets k (sources per layer)
or f (neighbours per target), and a bias enters r by its square:

    layer-wise             r = b / B + u / k + w / k^2          ms = c_0 + c_1 B + c_2 k
    node-wise              r = b / B + u / (B f) + w / f^2      ms = c_0 + c_1 B + c_2 B f
    full neighbourhoods    r = b / B                            ms = c_0 + c_1 B
    subgraphs of B draws   r = u / B + w / B^2                  ms = c_0 + c_1 B

All coefficients are not negative and fitted by least squares of relative residuals. b belongs to
the data and is the same for all samplers; the others are those of one kind of sampler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy.optimize

from bliss.arrays import FloatArray

Form = Literal["layer-wise", "node-wise", "full", "subgraph"]
POWER = 0.75
"""Exponent of 1 + r in the cost."""
LARGEST = 1e4
"""Largest r; a gradient that points elsewhere has it."""
PRIOR_DRAWS = 4
"""Draws that the fitted r of a measured setting counts as."""


class Size(NamedTuple):
    """Seeds of a batch, and the budget of every sampled layer; 0 without budgets."""

    batch_size: int  # B
    budget: int = 0  # k or f


class Point(NamedTuple):
    """What was measured of a size of one kind of sampler."""

    kind: str
    size: Size
    ms: float  # median milliseconds of a step
    error: float  # r
    draws: int  # gradients that r is estimated from


class Expected(NamedTuple):
    """What is expected of a size of one kind of sampler."""

    ms: float
    error: float  # r

    @property
    def cost(self) -> float:
        """ms (1 + r)^POWER, in proportion to the time of training."""
        return float(self.ms * (1 + self.error) ** POWER)


def relative_error(square: float, moment: float, projection: float) -> float:
    """Estimate r from |G|^2, E|g^|^2 and <G, E g^>."""
    if not (projection > 0 and square > 0 and np.isfinite(moment)):
        return LARGEST
    return float(np.clip(square * moment / projection**2 - 1, 0.0, LARGEST))


def error_terms(form: Form, size: Size) -> tuple[float, float, float]:
    """1 / B of the loader's batches, and the two terms of a kind."""
    batch, budget = size
    if form == "layer-wise":
        return 1 / batch, 1 / budget, 1 / budget**2
    if form == "node-wise":
        return 1 / batch, 1 / (batch * budget), 1 / budget**2
    return (1 / batch, 0.0, 0.0) if form == "full" else (0.0, 1 / batch, 1 / batch**2)


def time_terms(form: Form, size: Size) -> tuple[float, float, float]:
    """1, B, and k or B f."""
    batch, budget = size
    return 1.0, batch, batch * budget if form == "node-wise" else budget


class NoiseModel:
    """Models of r and ms, fitted to measured points.

    `forms` has the form of every kind of sampler.
    """

    def __init__(self, points: Sequence[Point], forms: Mapping[str, Form]) -> None:
        self.forms = forms
        self.points = {(point.kind, point.size): point for point in points}
        kinds = list(dict.fromkeys(point.kind for point in points))
        rows, errors = np.zeros((len(points), 1 + 2 * len(kinds))), np.zeros(len(points))
        for row, point in zip(rows, points, strict=True):
            place = 1 + 2 * kinds.index(point.kind)
            row[0], row[place], row[place + 1] = error_terms(forms[point.kind], point.size)
        errors[:] = [point.error for point in points]
        weight = np.sqrt([point.draws for point in points]) / (1 + errors)
        found = _fit(rows, errors, weight)
        self.batch = float(found[0])  # b
        self.sampling = {
            kind: found[1 + 2 * place : 3 + 2 * place] for place, kind in enumerate(kinds)
        }  # u and w
        self.time = {kind: self._fit_time(kind) for kind in kinds}  # c

    def _fit_time(self, kind: str) -> FloatArray:
        own = [point for point in self.points.values() if point.kind == kind]
        rows = np.array([time_terms(self.forms[kind], point.size) for point in own])
        ms = np.array([point.ms for point in own])
        return _fit(rows, ms, 1 / ms)

    def is_known(self, kind: str, size: Size) -> bool:
        """Whether this size was measured, or lies among those from which the models were fitted.

        There must be one measurement more than dimensions that were varied. Batch sizes and budgets
        may be a factor of 2 smaller or larger than those measured.
        """
        if (kind, size) in self.points:
            return True
        own = np.array([point.size for point in self.points.values() if point.kind == kind])
        rank = np.linalg.matrix_rank(own - own[0]) if len(own) else 0
        varied = (own.min(0) < own.max(0)) | (own.min(0) != size) if len(own) else np.zeros(2)
        is_near = (own.min(0) <= 2 * np.array(size)) & (np.array(size) <= 2 * own.max(0))
        return bool(len(own) and rank >= np.count_nonzero(varied) and is_near.all())

    def expect(self, kind: str, size: Size) -> Expected:
        """What is expected of a size: of a measured one, mostly what was measured.

        log(1 + r) is the mean of measured and fitted value, weighted by the number of draws and by
        PRIOR_DRAWS; the time is the measured one.
        """
        form, point = self.forms[kind], self.points.get((kind, size))
        shared, *own = error_terms(form, size)
        error = float(self.batch * shared + np.dot(self.sampling[kind], own))
        if point is None:
            return Expected(float(np.dot(self.time[kind], time_terms(form, size))), error)
        weight = point.draws / (point.draws + PRIOR_DRAWS)
        log = weight * np.log1p(point.error) + (1 - weight) * np.log1p(error)
        return Expected(point.ms, float(np.expm1(log)))


def _fit(rows: FloatArray, values: FloatArray, weight: FloatArray) -> FloatArray:
    """Coefficients >= 0 of the least weighted squares. rows [N, C], values [N] -> [C]."""
    matrix = rows * weight[:, None]
    scale = np.maximum(np.abs(matrix).max(0, initial=0.0), 1e-300)
    found, _ = scipy.optimize.nnls(matrix / scale, values * weight)
    coefficients: FloatArray = np.where(matrix.any(0), found / scale, 0.0)
    return coefficients
