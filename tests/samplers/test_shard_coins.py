"""Errors of different shards are independent, and their mean is unbiased."""

from __future__ import annotations

import numpy as np
import pytest

from bliss.samplers import PLADIES, Sampler
from tests.build import make_sampler
from tests.statistics import features, full_aggregate, heavy_tailed_graph, normal_limit

pytestmark = pytest.mark.slow

FALSE_ALARM = 1e-6  # chance that a correct sampler fails, in each of the tests
TIMES = 3000
SHARDS = 3
TARGETS = np.array([0, 2, 5, 9, 14, 20, 30, 40])


class WithoutShard(PLADIES):
    """Mutant: the shard is left out of the key."""

    def _key(self, step, layer, shard=0):
        return super()._key(step, layer)


def errors(kind: type[Sampler]) -> np.ndarray:
    """Errors of the aggregate of features by step, shard, target and feature. [N, S, D, F]."""
    graph, x = heavy_tailed_graph(), features()
    sampler = kind(graph, [36], estimator="ht")
    exact = full_aggregate(graph, TARGETS, x)
    found = np.empty((TIMES, SHARDS, *exact.shape))
    for step in range(TIMES):
        for shard in range(SHARDS):
            (block,) = sampler.sample(TARGETS, step, shard)
            message = block.edge_weight.numpy()[:, None] * x[block.src.numpy()[block.row.numpy()]]
            sums = np.concatenate([np.zeros((1, x.shape[1])), np.cumsum(message, 0)])
            pointer = block.indptr.numpy()
            found[step, shard] = sums[pointer[1:]] - sums[pointer[:-1]] - exact
    return found


@pytest.fixture(scope="module", params=[PLADIES, WithoutShard], ids=["right", "mutant"])
def case(request) -> tuple[np.ndarray, bool]:
    return errors(request.param), request.param is PLADIES


def test_errors_of_different_shards_are_independent(case):
    error, is_right = case
    first, second = error[:, 0], error[:, 1]
    product = (first * second).reshape(TIMES, -1)  # mean 0 if they are independent
    varies = product.std(0) > 1e-9
    z = np.sqrt(TIMES) * product.mean(0)[varies] / product.std(0, ddof=1)[varies]
    assert (np.abs(z).max() < normal_limit(FALSE_ALARM, z.size)) == is_right


def test_the_mean_over_shards_is_unbiased_and_has_less_variance(case):
    error, is_right = case
    mean = error.mean(1).reshape(TIMES, -1)
    varies = mean.std(0) > 1e-9
    z = np.sqrt(TIMES) * mean.mean(0)[varies] / mean.std(0, ddof=1)[varies]
    assert np.abs(z).max() < normal_limit(FALSE_ALARM, z.size)  # the mutant is unbiased, too
    ratio = mean.var(0)[varies].sum() / error[:, 0].reshape(TIMES, -1).var(0)[varies].sum()
    assert (ratio < 1.15 / SHARDS) == is_right
    assert ratio > 0.85 / SHARDS


@pytest.mark.parametrize("name", ["bliss", "ladies", "labor-1", "neighbor", "fastgcn", "saint-rw"])
def test_shards_draw_differently_and_the_first_as_without_shards(name, toy_graph):
    sampler = make_sampler(name, toy_graph)
    seeds = sampler.batches(0)[0] if sampler.makes_batches else np.arange(10)
    plain, first, second, again = (
        sampler.sample(seeds, 3, *within)[0].src.tolist() for within in ((), (0,), (1,), (1,))
    )
    assert plain == first
    assert second == again
    assert first != second
