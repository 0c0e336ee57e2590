"""Draws: choose the kept sources, given masses, and the corrections of their weights.

Every draw keeps the targets with p_j = 1, because skip connections need them among the sources. If
there are at most as many candidates as the budget, all are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from bliss.arrays import BoolArray, FloatArray, IntArray
from bliss.errors import InputError
from bliss.kernels import frontier
from bliss.kernels.coins import CoinKey
from bliss.rng import Substream, derive_key, hashes, uniforms
from bliss.samplers.config_base import Thinning

_LEAST_TOTAL = 1e-300  # makes shares 0 instead of NaN if all masses are 0


class Drawn(NamedTuple):
    """The sources of a layer, targets first."""

    source: IntArray  # int64[S]
    prob: FloatArray | None  # float32[S] inclusion probability p_j, where it has a closed form
    correction: FloatArray  # float64[S] factor of the weights of j's edges, 1 / p_j


class Draw(Protocol):
    """Method that chooses sources, given their masses."""

    has_probability: ClassVar[bool]
    """Whether inclusion probabilities have a closed form."""
    has_node_coins: ClassVar[bool]
    """Whether each source is kept by a coin of its own, so that coins may last several steps."""

    def probability(self, mass: FloatArray, num_dst: int, budget: int) -> FloatArray:
        """p_j of every candidate, targets first. [C] -> float64[C]."""

    def keep(
        self, candidate: IntArray, mass: FloatArray, num_dst: int, budget: int, key: CoinKey
    ) -> Drawn:
        """Draw sources. candidate [C], mass [C]."""


@dataclass(frozen=True)
class Poisson:
    """One coin per source: p_j = min(1, c s_j) with sum_j p_j = k, independent over j.

    thinning="exact" solves for c; "paper" uses the paper's iteration, which can miss the budget.
    """

    has_probability: ClassVar[bool] = True
    has_node_coins: ClassVar[bool] = True
    thinning: Thinning = "exact"

    def scale(self, mass: FloatArray, budget: int) -> float:
        """Factor c from masses to probabilities; infinite if all candidates are kept."""
        if mass.size <= budget:
            return np.inf
        fit = frontier.fit_scale if self.thinning == "exact" else frontier.fit_scale_paper
        return fit(mass, float(budget))

    def probability(self, mass: FloatArray, num_dst: int, budget: int) -> FloatArray:
        """p_j of every candidate."""
        scale = self.scale(mass, budget)
        prob = (
            np.ones(mass.size)
            if scale == np.inf
            else np.minimum(mass.astype(np.float64) * scale, 1.0)
        )
        prob[:num_dst] = 1.0
        return prob

    def keep(
        self, candidate: IntArray, mass: FloatArray, num_dst: int, budget: int, key: CoinKey
    ) -> Drawn:
        """Flip the coins."""
        scale = self.scale(mass, budget)
        if scale == np.inf:
            return drawn(candidate, np.ones(mass.size, np.float32))
        return drawn(*frontier.poisson_keep(candidate, mass, scale, num_dst, key))


@dataclass(frozen=True)
class WithReplacement:
    """k draws from s_j / sum s, as published for LADIES: p_j = 1 - (1 - s_j / sum s)^k."""

    has_probability: ClassVar[bool] = True
    has_node_coins: ClassVar[bool] = False

    def probability(self, mass: FloatArray, num_dst: int, budget: int) -> FloatArray:
        """p_j of every candidate."""
        if mass.size <= budget:
            return np.ones(mass.size)
        total = max(float(mass.sum(dtype=np.float64)), _LEAST_TOTAL)
        share = np.minimum(mass / total, 1.0)
        prob = at_least_once(share, budget)
        prob[:num_dst] = 1.0
        return np.asarray(prob, dtype=np.float64)

    def keep(
        self, candidate: IntArray, mass: FloatArray, num_dst: int, budget: int, key: CoinKey
    ) -> Drawn:
        """Draw k times by inversion; a source drawn twice is kept once."""
        prob = self.probability(mass, num_dst, budget)
        kept = np.ones(mass.size, bool)
        if mass.size > budget:
            ladder = np.cumsum(mass, dtype=np.float64)
            coin = uniforms(key.step, np.arange(budget)) * ladder[-1]
            kept[num_dst:] = False
            kept[np.searchsorted(ladder, coin, side="right").clip(max=mass.size - 1)] = True
        return _select(candidate, prob, kept)


@dataclass(frozen=True)
class WithoutReplacement:
    """Exactly k distinct sources with p_j = min(1, c s_j): systematic sampling in random order.

    Sources with p_j = 1 are kept. The probabilities of the others are laid end to end in an order
    shuffled by their coins. Points at distance 1, shifted by one random offset, select the sources
    they fall on. So the number of sources is fixed and the inclusion probabilities are exact.
    """

    has_probability: ClassVar[bool] = True
    has_node_coins: ClassVar[bool] = False

    def probability(self, mass: FloatArray, num_dst: int, budget: int) -> FloatArray:
        """p_j of every candidate."""
        return Poisson().probability(mass, num_dst, budget)

    def keep(
        self, candidate: IntArray, mass: FloatArray, num_dst: int, budget: int, key: CoinKey
    ) -> Drawn:
        """Draw k sources; the targets are added to them."""
        prob = Poisson().probability(mass, 0, budget)
        kept = prob >= 1.0
        open_ = np.flatnonzero(~kept)
        number = round(float(prob[open_].sum()))  # sources to pick among these
        if number > 0:
            order = open_[np.argsort(hashes(key.step, candidate[open_]))]
            ladder = np.cumsum(prob[order])
            ladder *= number / ladder[-1]  # so that it ends exactly on an integer
            offset = uniforms(derive_key(int(key.step), Substream.SECOND), np.zeros(1, np.int64))[0]
            rungs = np.floor(np.concatenate([[0.0], ladder]) + offset)
            kept[order[np.diff(rungs) >= 1]] = True
        kept[:num_dst] = True
        prob[:num_dst] = 1.0
        return _select(candidate, prob, kept)


@dataclass(frozen=True)
class Successive:
    """k successive draws from s_j / sum s without replacement, as in SKETCH.

    With n candidates of positive mass, q_j = s_j / sum s, P_t the sum of q over the sources drawn
    before draw t = 0, 1, ..., k - 1, and a_t = n / ((t + 1) (n - t)), the source of draw t gets the
    correction a_t (1 - P_t) / q_j, and every source drawn before goes from w to (1 - a_t) w + a_t.
    The corrections are exactly unbiased (E w_j = 1, with w_j = 0 for sources not drawn), because
    each T_t = sum of x over those drawn before + (1 - P_t) / q_j x_j is unbiased. Since 1 is a
    fixed point of the step, the final correction is

        w_j = 1 + (a_t (1 - P_t) / q_j - 1) prod_{u > t} (1 - a_u)

    `debiased=False` gives 1 / (k q_j), SKETCH's plain normalisation. It is biased here and correct
    only for draws with replacement. Targets have correction 1 in both cases.

    The draws are made at once: the k smallest e_j / s_j, with e_j exponential coins, in increasing
    order, have the distribution of k successive draws. Inclusion probabilities have no closed form.
    """

    has_probability: ClassVar[bool] = False
    has_node_coins: ClassVar[bool] = True
    debiased: bool = True

    def probability(self, mass: FloatArray, num_dst: int, budget: int) -> FloatArray:
        """Raise an error: inclusion probabilities have no closed form."""
        raise InputError(
            "successive draws have no closed form for inclusion probabilities: choose a sampler "
            "with another draw, such as pladies."
        )

    def keep(
        self, candidate: IntArray, mass: FloatArray, num_dst: int, budget: int, key: CoinKey
    ) -> Drawn:
        """Draw k sources; the targets are added to them."""
        correction = np.ones(mass.size)
        kept = np.ones(mass.size, bool)
        positive = np.flatnonzero(mass > 0)
        if mass.size > budget and positive.size:
            kept[num_dst:] = False
            share = mass[positive].astype(np.float64)
            share /= share.sum()
            arrival = -np.log1p(-uniforms(key, candidate[positive])) / share
            number = min(budget, positive.size)
            order = np.argpartition(arrival, number - 1)[:number]
            order = order[np.argsort(arrival[order])]
            picked = positive[order]
            kept[picked] = True
            correction[picked] = (
                _debiased(share[order], np.delete(share, order))
                if self.debiased
                else 1 / (number * share[order])
            )
            correction[:num_dst] = 1.0
        return Drawn(candidate[kept].astype(np.int64), None, correction[kept])


def _debiased(share: FloatArray, others: FloatArray) -> FloatArray:
    """Corrections w_j of sources in the order they were drawn.

    share [k]  q_j of the drawn sources, others [n - k]  q_j of the other sources -> float64[k]
    """
    draw, candidates = np.arange(share.size), share.size + others.size
    step = candidates / ((draw + 1) * (candidates - draw))  # a_t
    rest = np.cumsum(share[::-1])[::-1] + others.sum()  # 1 - P_t, without cancellation if small
    later = np.cumprod((1 - step)[:0:-1])[::-1]  # prod over u > t, for all but the last draw
    fade = np.append(later, 1.0)
    return np.asarray(1 + (step * rest / share - 1) * fade)


def at_least_once(share: FloatArray, draws: int) -> FloatArray:
    """1 - (1 - q)^n, the probability that an event of probability q occurs in any of n draws."""
    with np.errstate(divide="ignore"):  # log(0) for q = 1
        return np.asarray(-np.expm1(draws * np.log1p(-np.minimum(share, 1.0))))


def drawn(candidate: IntArray, prob: FloatArray) -> Drawn:
    """Kept sources with correction 1 / p_j."""
    return Drawn(candidate.astype(np.int64, copy=False), prob, 1 / prob.astype(np.float64))


def _select(candidate: IntArray, prob: FloatArray, kept: BoolArray) -> Drawn:
    return drawn(candidate[kept], prob[kept].astype(np.float32))
