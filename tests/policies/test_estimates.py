"""Beliefs are shrunk as far as their looks disagree, and that is measured."""

from __future__ import annotations

import numpy as np
import pytest

from bliss.policies.estimates import Beliefs

NODES, STEPS = 2000, 60


def watch(within: float, between: float) -> tuple[Beliefs, np.ndarray, np.ndarray]:
    """Beliefs after STEPS looks at a random quarter of nodes, what is true, what was believed."""
    random = np.random.default_rng(0)
    truth = random.normal(5, np.sqrt(between), NODES)
    beliefs, believed = Beliefs(NODES, 1, memory=0.1), np.zeros(NODES)
    for _ in range(STEPS):
        seen = np.flatnonzero(random.random(NODES) < 0.25)
        look = truth[seen] + random.normal(0, np.sqrt(within), seen.size)
        believed[seen] = beliefs.follow(0, seen, look.astype(np.float32))
    return beliefs, truth - truth.mean(), believed


@pytest.mark.parametrize(("within", "between"), [(0.01, 1.0), (1.0, 1.0), (2.0, 0.5)])
def test_the_scatter_of_looks_and_of_nodes_is_measured(within, between):
    beliefs, _, _ = watch(within, between)
    assert beliefs.prior(0) == pytest.approx(within / between, rel=0.15)


def test_shrinking_is_the_best_guess():
    # Beliefs are the posterior mean: of all multiples of them, the truth is nearest to themselves.
    beliefs, truth, believed = watch(4.0, 0.5)
    best = believed @ truth / (believed @ believed)
    assert best == pytest.approx(1.0, abs=0.1)
    mean = beliefs.arm[0][:, 0]  # the mutant: what was seen, as it was seen
    assert mean @ truth / (mean @ mean) < 0.8


def test_what_repeats_itself_is_believed_at_once():
    beliefs, truth, believed = watch(0.0, 1.0)
    assert beliefs.prior(0) < 0.01  # the level settles in the first steps
    np.testing.assert_allclose(believed, truth, atol=0.1)


def test_a_running_mean_is_worth_so_many_looks():
    # With beta = 0.5 a mean is worth 3 looks, however many there were.
    beliefs, random = Beliefs(1000, 1, memory=0.5), np.random.default_rng(0)
    for _ in range(30):
        prior = beliefs.prior(0)
        believed = beliefs.follow(0, np.arange(1000), random.normal(size=1000))
    np.testing.assert_allclose(believed, beliefs.arm[0][:, 0] * 3 / (3 + prior), rtol=1e-5)


def test_looks_that_hide_all_differences_are_believed_a_little():
    beliefs = Beliefs(1000, 1, memory=0.1)
    random = np.random.default_rng(0)
    for _ in range(40):
        beliefs.follow(0, np.arange(1000), random.normal(size=1000))
    assert 10 < beliefs.prior(0) <= 1 / 0.02


def test_the_scatter_of_long_ago_is_forgotten():
    beliefs, node = Beliefs(1000, 1, memory=0.1), np.arange(1000)
    random = np.random.default_rng(0)
    own = random.normal(size=1000)
    for _ in range(100):
        beliefs.follow(0, node, own + 2 * random.normal(size=1000))
    noisy = beliefs.prior(0)
    for _ in range(200):
        beliefs.follow(0, node, own)
    assert beliefs.prior(0) < 0.01 * noisy


def test_a_node_never_seen_is_at_the_level():
    beliefs = Beliefs(3, 1, memory=0.1)
    believed = beliefs.follow(0, np.array([0, 1]), np.array([1.0, 3.0], np.float32))
    np.testing.assert_allclose(believed, [-1 / 1.5, 1 / 1.5])  # nothing known of scatter: s = 0.5
    assert beliefs.arm[0][2].tolist() == [0, 0]


def test_equal_looks_leave_no_division_by_zero():
    beliefs = Beliefs(3, 1, memory=0.1)
    for _ in range(3):
        believed = beliefs.follow(0, np.arange(3), np.ones(3, np.float32))
    np.testing.assert_array_equal(believed, 0)
