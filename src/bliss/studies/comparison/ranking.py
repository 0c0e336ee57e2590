"""Confidence intervals of means, paired tests, and ranks with ties."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import mean, stdev

LEVEL = 0.05
"""Differences with smaller corrected p-values are called significant."""
ENOUGH_SEEDS = 5
"""Seeds that a ranking should have."""

Scores = Mapping[int, float]  # by seed


def interval(scores: Sequence[float]) -> float | None:
    """Half the width of the 95% t-interval of the mean; None for one score."""
    from scipy.stats import t  # loaded late, because reports do without scipy

    if len(scores) < 2:
        return None
    return float(t.ppf(0.975, len(scores) - 1)) * stdev(scores) / math.sqrt(len(scores))


def paired(ours: Scores, theirs: Scores) -> tuple[float | None, float | None]:
    """Mean difference over equal seeds, and the p-value of a two-sided paired t-test.

    There is no p-value for fewer than two seeds, or if all differences are equal.
    """
    from scipy.stats import ttest_rel

    pairs = [(score, theirs[seed]) for seed, score in ours.items() if seed in theirs]
    if not pairs:
        return None, None
    differences = [a - b for a, b in pairs]
    if len(set(differences)) == 1:
        return mean(differences), None
    return mean(differences), float(ttest_rel(*zip(*pairs, strict=True)).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: the i-th smallest of m p-values becomes (m - i + 1) p, made monotone."""
    order = sorted(range(len(p_values)), key=lambda n: p_values[n])
    corrected, highest = [0.0] * len(p_values), 0.0
    for rank, n in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p_values[n]))
        corrected[n] = highest
    return corrected


def ranks(scores: Sequence[Scores]) -> list[tuple[int, bool] | tuple[None, bool]]:
    """Rank of each sampler, and whether it shares the rank. None with fewer than two seeds.

    The best mean leads rank 1, which it shares with all samplers that are not significantly worse:
    paired t-tests against the leader, Holm's correction over the samplers left, 5% level. The best
    of the others leads the next rank, counted from the number of samplers already ranked.
    """
    if any(len(by_seed) < 2 for by_seed in scores):
        return [(None, False) for _ in scores]
    ranked: dict[int, tuple[int, bool]] = {}
    left = sorted(range(len(scores)), key=lambda n: -mean(scores[n].values()))
    while left:
        leader, others = left[0], left[1:]
        tests = [paired(scores[n], scores[leader])[1] for n in others]
        known = [n for n, p in zip(others, tests, strict=True) if p is not None]
        after = dict(zip(known, holm([p for p in tests if p is not None]), strict=True))
        group = [leader, *(n for n in others if after.get(n, 1.0) >= LEVEL)]
        ranked |= {n: (len(ranked) + 1, len(group) > 1) for n in group}
        left = [n for n in left if n not in ranked]
    return [ranked[n] for n in range(len(scores))]
