"""Estimates are shrunk by the measured noise of their observations."""

from __future__ import annotations

import numpy as np
import pytest

from bliss.policies.estimates import RunningEstimates

NODES, STEPS = 2000, 60


def watch(within: float, between: float) -> tuple[RunningEstimates, np.ndarray, np.ndarray]:
    """Estimates after STEPS observations of a random quarter of nodes, and the centred truth."""
    random = np.random.default_rng(0)
    truth = random.normal(5, np.sqrt(between), NODES)
    estimates, estimate = RunningEstimates(NODES, 1, memory=0.1), np.zeros(NODES)
    for _ in range(STEPS):
        seen = np.flatnonzero(random.random(NODES) < 0.25)
        observed = truth[seen] + random.normal(0, np.sqrt(within), seen.size)
        (estimate[seen],) = estimates.follow(0, [seen], [observed.astype(np.float32)])
    return estimates, truth - truth.mean(), estimate


@pytest.mark.parametrize(("within", "between"), [(0.01, 1.0), (1.0, 1.0), (2.0, 0.5)])
def test_noise_and_spread_are_measured(within, between):
    estimates, _, _ = watch(within, between)
    assert estimates.prior(0) == pytest.approx(within / between, rel=0.15)


def test_shrunk_estimates_are_the_closest_to_the_truth():
    # Estimates are posterior means: no multiple of them is closer to the truth.
    estimates, truth, estimate = watch(4.0, 0.5)
    best = estimate @ truth / (estimate @ estimate)
    assert best == pytest.approx(1.0, abs=0.1)
    mean = estimates.arm[0][:, 0]  # mutant: no shrinkage
    assert mean @ truth / (mean @ mean) < 0.8


def test_a_repeatable_signal_is_trusted_at_once():
    estimates, truth, estimate = watch(0.0, 1.0)
    assert estimates.prior(0) < 0.01  # the level settles in the first steps
    np.testing.assert_allclose(estimate, truth, atol=0.1)


def test_a_running_mean_has_a_bounded_effective_number_of_observations():
    # With beta = 0.5 the effective number is at most 3.
    estimates, random = RunningEstimates(1000, 1, memory=0.5), np.random.default_rng(0)
    for _ in range(30):
        prior = estimates.prior(0)
        (estimate,) = estimates.follow(0, [np.arange(1000)], [random.normal(size=1000)])
    np.testing.assert_allclose(estimate, estimates.arm[0][:, 0] * 3 / (3 + prior), rtol=1e-5)


def test_noise_that_hides_all_differences_leaves_a_finite_prior():
    estimates = RunningEstimates(1000, 1, memory=0.1)
    random = np.random.default_rng(0)
    for _ in range(40):
        estimates.follow(0, [np.arange(1000)], [random.normal(size=1000)])
    assert 10 < estimates.prior(0) <= 1 / 0.02


def test_old_noise_is_forgotten():
    estimates, node = RunningEstimates(1000, 1, memory=0.1), np.arange(1000)
    random = np.random.default_rng(0)
    own = random.normal(size=1000)
    for _ in range(100):
        estimates.follow(0, [node], [own + 2 * random.normal(size=1000)])
    noisy = estimates.prior(0)
    for _ in range(200):
        estimates.follow(0, [node], [own])
    assert estimates.prior(0) < 0.01 * noisy


def test_an_unseen_node_stays_at_the_level():
    estimates = RunningEstimates(3, 1, memory=0.1)
    (estimate,) = estimates.follow(0, [np.array([0, 1])], [np.array([1.0, 3.0], np.float32)])
    np.testing.assert_allclose(estimate, [-1 / 1.5, 1 / 1.5])  # the first prior: s = 0.5
    assert estimates.arm[0][2].tolist() == [0, 0]


def test_equal_observations_do_not_divide_by_zero():
    estimates = RunningEstimates(3, 1, memory=0.1)
    for _ in range(3):
        (estimate,) = estimates.follow(0, [np.arange(3)], [np.ones(3, np.float32)])
    np.testing.assert_array_equal(estimate, 0)
