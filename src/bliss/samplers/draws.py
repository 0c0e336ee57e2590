"""Draws: masses become kept sources and their inclusion probabilities.

Every draw keeps the targets (p_j = 1): skip connections, so that each target has itself to look
at. If there are no more candidates than the budget, all are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, get_args

import numpy as np

from bliss import checks
from bliss.arrays import FloatArray, IntArray
from bliss.kernels import frontier
from bliss.rng import Substream, derive_key, hashes, uniforms

Thinning = Literal["exact", "paper"]
THINNINGS = get_args(Thinning)

_LEAST_TOTAL = 1e-300  # where all masses are 0, shares are 0, not undefined


class Drawn(NamedTuple):
    """The sources of a layer, targets first."""

    source: IntArray  # int64[S]
    prob: FloatArray  # float32[S]


class Draw(Protocol):
    """How sources are chosen, given masses."""

    def probability(self, mass: FloatArray, num_dst: int, budget: int) -> FloatArray:
        """p_j of every candidate, targets first. [C] -> float64[C]."""

    def keep(
        self, candidate: IntArray, mass: FloatArray, num_dst: int, budget: int, key: np.uint64
    ) -> Drawn:
        """Choose. candidate [C], mass [C]."""


@dataclass(frozen=True)
class Poisson:
    """A coin per source: p_j = min(1, c s_j) with sum_j p_j = k, independent over j.

    thinning="exact" solves for c; "paper" iterates as the paper does, and can miss the budget.
    """

    thinning: Thinning = "exact"

    def __post_init__(self) -> None:
        checks.choice("thinning", self.thinning, THINNINGS)

    def scale(self, mass: FloatArray, budget: int) -> float:
        """C, the factor from masses to probabilities; infinite where everything is kept."""
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
        self, candidate: IntArray, mass: FloatArray, num_dst: int, budget: int, key: np.uint64
    ) -> Drawn:
        """Flip the coins."""
        scale = self.scale(mass, budget)
        if scale == np.inf:
            return Drawn(candidate.astype(np.int64), np.ones(mass.size, np.float32))
        return Drawn(*frontier.poisson_keep(candidate, mass, scale, num_dst, key))


@dataclass(frozen=True)
class WithReplacement:
    """k draws from s_j / sum s, as LADIES publishes it: p_j = 1 - (1 - s_j / sum s)^k."""

    def probability(self, mass: FloatArray, num_dst: int, budget: int) -> FloatArray:
        """p_j of every candidate."""
        if mass.size <= budget:
            return np.ones(mass.size)
        total = max(float(mass.sum(dtype=np.float64)), _LEAST_TOTAL)
        share = np.minimum(mass / total, 1.0)
        with np.errstate(divide="ignore"):  # log(0) where one candidate has all the mass
            prob = -np.expm1(budget * np.log1p(-share))
        prob[:num_dst] = 1.0
        return np.asarray(prob, dtype=np.float64)

    def keep(
        self, candidate: IntArray, mass: FloatArray, num_dst: int, budget: int, key: np.uint64
    ) -> Drawn:
        """Draw k times by inversion; what is drawn twice is kept once."""
        prob = self.probability(mass, num_dst, budget)
        kept = np.ones(mass.size, bool)
        if mass.size > budget:
            ladder = np.cumsum(mass, dtype=np.float64)
            coin = uniforms(key, np.arange(budget)) * ladder[-1]
            kept[num_dst:] = False
            kept[np.searchsorted(ladder, coin, side="right").clip(max=mass.size - 1)] = True
        return _select(candidate, prob, kept)


@dataclass(frozen=True)
class WithoutReplacement:
    """Exactly k distinct sources with p_j = min(1, c s_j): systematic, in random order.

    The probabilities of the certain ones aside, the others are laid end to end in an order shuffled
    by their coins, and every whole number plus one random offset picks the one it falls on. So the
    number is fixed and the inclusion probabilities are exact.
    """

    def probability(self, mass: FloatArray, num_dst: int, budget: int) -> FloatArray:
        """p_j of every candidate."""
        return Poisson().probability(mass, num_dst, budget)

    def keep(
        self, candidate: IntArray, mass: FloatArray, num_dst: int, budget: int, key: np.uint64
    ) -> Drawn:
        """Pick; the targets are added to the k that are drawn."""
        drawn = Poisson().probability(mass, 0, budget)
        kept = drawn >= 1.0
        open_ = np.flatnonzero(~kept)
        number = round(float(drawn[open_].sum()))  # how many of these to pick
        if number > 0:
            order = open_[np.argsort(hashes(key, candidate[open_]))]
            ladder = np.cumsum(drawn[order])
            ladder *= number / ladder[-1]  # ends on a whole number, exactly
            offset = uniforms(derive_key(int(key), Substream.SECOND), np.zeros(1, np.int64))[0]
            rungs = np.floor(np.concatenate([[0.0], ladder]) + offset)
            kept[order[np.diff(rungs) >= 1]] = True
        kept[:num_dst] = True
        drawn[:num_dst] = 1.0
        return _select(candidate, drawn, kept)


def _select(
    candidate: IntArray, prob: FloatArray, kept: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> Drawn:
    return Drawn(candidate[kept].astype(np.int64), prob[kept].astype(np.float32))
