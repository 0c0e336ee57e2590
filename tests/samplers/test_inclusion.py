"""Sources are kept as often as stated, with the stated dependence, and in the stated number."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from bliss.rng import coin_key
from bliss.samplers import LADIES, PLADIES
from bliss.samplers.draws import Draw, Poisson, WithoutReplacement, WithReplacement
from tests.statistics import heavy_tailed_graph, normal_limit, repeat, square_sums

pytestmark = pytest.mark.slow

FALSE_ALARM = 1e-6  # chance that a correct draw fails, in each test that rolls dice
TIMES = 40_000  # of independent coins, whose pairs and sums are tested, too
FEWER = 10_000  # of other draws
WHOLE = 4000  # of samplers, which take longer
BUDGET = 15
# Ids in a row and ids from anywhere: coins that depend on each other could do so by either.
CANDIDATE = np.r_[100:120, 200 + np.random.default_rng(1).permutation(800)[:20]]
MASS = np.random.default_rng(2).lognormal(0, 1, 40).astype(np.float32)
TWINS = (3, 4)  # of equal mass, so that one's coin could serve the other
MASS[list(TWINS)] = 1.0

DRAWS = {
    "poisson": Poisson(),
    "with-replacement": WithReplacement(),
    "without-replacement": WithoutReplacement(),
}


@lru_cache
def indicators(draw: Draw, times: int = TIMES) -> np.ndarray:
    """Which candidates were kept in each of many draws without targets. bool[N, C]."""
    place = np.full(1000, -1)
    place[CANDIDATE] = np.arange(CANDIDATE.size)
    kept = np.zeros((times, CANDIDATE.size), bool)
    for step in range(times):
        source = draw.keep(CANDIDATE, MASS, 0, BUDGET, coin_key(5, step)).source
        kept[step, place[source]] = True
    return kept


def sharing_a_coin(kept: np.ndarray) -> np.ndarray:
    """The same draws, had one of the twins gone by the other's coin."""
    kept = kept.copy()
    kept[:, TWINS[1]] = kept[:, TWINS[0]]
    return kept


def larger(prob: np.ndarray, by: float = 0.03) -> np.ndarray:
    """Probabilities that are overstated where there is room."""
    return np.where(prob * (1 + by) < 1, prob * (1 + by), prob)


def chi_square_tail(kept: np.ndarray, prob: np.ndarray) -> float:
    """The chance of counts at least as far from N p, if every candidate has a coin of its own."""
    certain, count, times = prob >= 1, kept.sum(0), len(kept)
    assert (count[certain] == times).all()
    deviation = (count - times * prob)[~certain] ** 2
    statistic = (deviation / (times * prob * (1 - prob))[~certain]).sum()
    return float(scipy.stats.chi2.sf(statistic, (~certain).sum()))


def binomial_tail(kept: np.ndarray, prob: np.ndarray) -> float:
    """The same for the most surprising count: exact, however candidates depend on each other."""
    count, times = kept.sum(0), len(kept)
    law = scipy.stats.binom(times, prob)
    return float(2 * prob.size * np.minimum(law.cdf(count), law.sf(count - 1)).min())


@pytest.mark.parametrize("overstated", [False, True])
def test_poisson_keeps_each_source_as_often_as_stated(overstated):
    prob = Poisson().probability(MASS, 0, BUDGET)
    tail = chi_square_tail(indicators(Poisson()), larger(prob) if overstated else prob)
    assert (tail < FALSE_ALARM) == overstated


@pytest.mark.parametrize("overstated", [False, True])
@pytest.mark.parametrize("name", ["with-replacement", "without-replacement"])
def test_fixed_number_draw_keeps_each_source_as_often_as_stated(name, overstated):
    prob = DRAWS[name].probability(MASS, 0, BUDGET)
    kept = indicators(DRAWS[name], FEWER)
    assert (binomial_tail(kept, larger(prob) if overstated else prob) < FALSE_ALARM) == overstated


def test_number_of_times_drawn_is_no_chance_of_being_kept():
    # k s_j / sum s counts a source drawn twice twice, and a sample keeps it once.
    expected_times = np.minimum(BUDGET * MASS / MASS.sum(), 1.0)
    kept = indicators(DRAWS["with-replacement"], FEWER)
    assert binomial_tail(kept, expected_times) < FALSE_ALARM


@pytest.mark.parametrize("shared", [False, True])
def test_poisson_keeps_pairs_of_sources_independently(shared):
    prob = Poisson().probability(MASS, 0, BUDGET)
    kept = indicators(Poisson())
    if shared:
        kept = sharing_a_coin(kept)
        assert chi_square_tail(kept, prob) > FALSE_ALARM  # counts alone do not show it
    kept, prob = kept[:, prob < 1], prob[prob < 1]
    standard = (kept - prob) / np.sqrt(prob * (1 - prob))  # mean 0 and variance 1
    z = (standard.T @ standard)[np.triu_indices(prob.size, 1)] / np.sqrt(len(kept))
    assert (np.abs(z).max() > normal_limit(FALSE_ALARM, z.size)) == shared


@pytest.mark.parametrize("mutant", ["none", "overstated", "shared"])
def test_poisson_sample_size_has_the_stated_mean_and_variance(mutant):
    prob = Poisson().probability(MASS, 0, BUDGET)
    kept = indicators(Poisson())
    if mutant == "overstated":
        prob = larger(prob)
    elif mutant == "shared":
        kept = sharing_a_coin(kept)
    size, times = kept.sum(1), len(kept)
    each = prob * (1 - prob)
    variance = each.sum()
    fourth = 3 * variance**2 + (each * (1 - 6 * each)).sum()  # central moment of independent coins
    z_mean = (size.mean() - prob.sum()) / np.sqrt(variance / times)
    z_variance = (size.var(ddof=1) - variance) / np.sqrt((fourth - variance**2) / times)
    limit = normal_limit(FALSE_ALARM, 2)
    assert (abs(z_mean) > limit) == (mutant == "overstated")
    assert (abs(z_variance) > limit) == (mutant == "shared")


def test_draw_without_replacement_keeps_exactly_the_budget():
    kept = indicators(DRAWS["without-replacement"], FEWER)
    assert (kept.sum(1) == BUDGET).all()


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_source_of_next_to_no_chance_is_not_kept(draw):
    # Four sources take up the budget whole: the others' p is 1e-20, and 1 / p must not be met.
    mass = np.array([1, 1, 1, 1, 1e-20, 1e-20, 1e-20], np.float32)
    assert draw.probability(mass, 0, 4)[4:].max() < 1e-18
    for step in range(100):
        assert draw.keep(np.arange(7), mass, 0, 4, coin_key(5, step)).source.max() < 4


def heavy_tailed(masses: list[float]) -> np.ndarray:
    return (10.0 ** np.array(masses)).astype(np.float32)


@st.composite
def layers(draw):
    """Masses that differ by up to 24 orders of magnitude, and a budget that leaves a choice."""
    mass = heavy_tailed(draw(st.lists(st.floats(-12, 12), min_size=2, max_size=60)))
    return mass, draw(st.integers(1, mass.size - 1))


@settings(deadline=None, derandomize=True, max_examples=300)
@given(layers())
def test_solved_probabilities_meet_the_budget(layer):
    mass, budget = layer
    prob = Poisson().probability(mass, 0, budget)
    assert abs(prob.sum() - budget) <= 1e-6
    assert (prob > 0).all()
    assert (prob <= 1).all()
    scaled = mass.astype(np.float64) * Poisson().scale(mass, budget)
    np.testing.assert_allclose(prob, np.minimum(scaled, 1))


@settings(deadline=None, derandomize=True, max_examples=300)
@given(layers(), st.integers(0, 2**62))
def test_draw_without_replacement_keeps_exactly_the_budget_of_any_masses(layer, seed):
    mass, budget = layer
    candidate = np.arange(mass.size, dtype=np.int32)
    source = WithoutReplacement().keep(candidate, mass, 0, budget, coin_key(seed, 0)).source
    assert np.unique(source).size == source.size == budget


def test_thinning_of_the_paper_misses_budgets_that_the_solver_meets():
    generator = np.random.default_rng(11)
    missed = {"exact": 0, "paper": 0}
    for _ in range(300):
        mass = heavy_tailed(generator.normal(0, 3, 200))
        for thinning in missed:
            total = Poisson(thinning).probability(mass, 0, 100).sum()
            missed[thinning] += abs(total / 100 - 1) > 1e-4  # the paper's own tolerance
    assert missed["exact"] == 0
    assert missed["paper"] > 0


@pytest.mark.parametrize("norm", ["mean", "gcn", "weights"])
@pytest.mark.parametrize("policy", ["uniform", "ladies", "static"])
def test_sampler_meets_its_budget_before_targets_are_added(policy, norm):
    graph, dst, budget = heavy_tailed_graph(norm), np.arange(0, 40, 5), 30
    sampler = PLADIES(graph, [budget], policy=policy)
    candidate, prob = sampler.inclusion(dst, 0)
    squares = square_sums(graph, dst)[candidate]
    power = {"uniform": 0.0, "ladies": 1.0, "static": 0.5}[policy]
    mass = (squares**power).astype(np.float32)
    before = np.minimum(mass.astype(np.float64) * sampler.draw.scale(mass, budget), 1)
    assert abs(before.sum() - budget) <= 1e-6
    assert (prob[: dst.size] == 1).all()
    assert before[: dst.size].min() < 1  # so that adding the targets is a change
    np.testing.assert_allclose(prob[dst.size :], before[dst.size :], rtol=1e-5)


@pytest.mark.parametrize("norm", ["mean", "gcn", "weights"])
def test_ladies_keeps_as_many_as_pladies_unless_draws_repeat(norm):
    graph, dst, budget = heavy_tailed_graph(norm), np.arange(0, 40, 5), 30
    candidate, prob = LADIES(graph, [budget]).inclusion(dst, 0)
    by_coins = PLADIES(graph, [budget], policy="ladies").inclusion(dst, 0)
    np.testing.assert_array_equal(candidate, by_coins.candidate)
    np.testing.assert_array_equal(prob, by_coins.prob)
    repeated = LADIES(graph, [budget], replace=True).inclusion(dst, 0).prob
    square = square_sums(graph, dst)[candidate]
    published = 1 - (1 - square / square.sum()) ** budget
    np.testing.assert_allclose(repeated[dst.size :], published[dst.size :], rtol=1e-5)
    assert repeated.sum() < prob.sum() - 3


SAMPLERS = {
    "LADIES": lambda graph: LADIES(graph, [36]),
    "LADIES-replacing": lambda graph: LADIES(graph, [36], replace=True),
    "PLADIES": lambda graph: PLADIES(graph, [36]),
}


@lru_cache(maxsize=1)
def sampler_draws(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Whether each node was kept, bool[N, V], and the stated chances, [V]."""
    sampler, dst = SAMPLERS[name](heavy_tailed_graph()), np.arange(0, 40, 5)
    candidate, prob = sampler.inclusion(dst, 0)
    by_node = np.zeros(sampler.graph.num_nodes)  # what is no candidate must never be kept
    by_node[candidate] = prob
    return repeat(sampler, dst, WHOLE).kept, by_node


@pytest.mark.parametrize("overstated", [False, True])
@pytest.mark.parametrize("name", SAMPLERS)
def test_sampler_keeps_each_source_as_often_as_stated(name, overstated):
    kept, prob = sampler_draws(name)
    prob = larger(prob, 0.05) if overstated else prob
    assert (binomial_tail(kept, prob) < FALSE_ALARM) == overstated


@pytest.mark.parametrize("name", SAMPLERS)
def test_block_states_the_chances_of_its_sources(name):
    sampler, dst = SAMPLERS[name](heavy_tailed_graph()), np.arange(0, 40, 5)
    stated = dict(zip(*(column.tolist() for column in sampler.inclusion(dst, 0)), strict=True))
    for step in range(20):
        (block,) = sampler.sample(dst, step)
        expected = [stated[node] for node in block.src.tolist()]
        np.testing.assert_allclose(block.prob.numpy(), expected, rtol=1e-6)
