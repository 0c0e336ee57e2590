"""SKETCH: successive draws without replacement, and weights that are exactly unbiased."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from bliss import InputError
from bliss.rng import coin_key
from bliss.samplers import SKETCH, LayerSampler, draws
from bliss.samplers.draws import Successive
from tests.statistics import (
    Draws,
    coefficients,
    features,
    heavy_tailed_graph,
    normal_limit,
    repeat,
    square_sums,
    worst_z,
)

pytestmark = pytest.mark.slow

FALSE_ALARM = 1e-6  # chance that a correct sampler fails, in each test that rolls dice
TIMES = {18: 5000, 36: 2000, 50: 1000}  # by budget: what a bias of 2% takes to be seen
TARGETS = np.array([0, 2, 5, 9, 14, 20, 30, 40])  # 55 candidates
CASES = [("mean", 18), ("weights", 36), ("mean", 50)]
LIMIT = normal_limit(FALSE_ALARM / len(CASES), features()[TARGETS].size)


def by_steps(share: np.ndarray, candidates: int) -> list[float]:
    """Corrections of sources in the order they were drawn, one draw after the other."""
    corrections: list[float] = []
    drawn = 0.0  # P_t
    for t, q in enumerate(share.tolist()):
        a = candidates / ((t + 1) * (candidates - t))
        corrections = [(1 - a) * w + a for w in corrections]
        corrections.append(a * (1 - drawn) / q)
        drawn += q
    return corrections


@st.composite
def shares(draw):
    """q_j of some candidates, and how many of them are drawn."""
    mass = np.exp(draw(st.lists(st.floats(-3, 3), min_size=1, max_size=40)))
    return mass / mass.sum(), draw(st.integers(1, mass.size))


@given(shares())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_corrections_are_those_of_the_recursion(given_):
    share, number = given_
    found = draws._debiased(share[:number], share[number:])
    np.testing.assert_allclose(found, by_steps(share[:number], share.size), rtol=1e-9)
    if number == share.size:
        np.testing.assert_allclose(found, 1, rtol=1e-9)


def test_a_source_of_tiny_mass_has_the_right_correction():
    # 1 - P_3 is 1e-18, and 1e-16 if it is computed as a difference.
    share = np.array([0.7, 0.2, 0.1, 1e-18])
    np.testing.assert_allclose(draws._debiased(share, share[:0]), 1)


@lru_cache(maxsize=1)  # the mutants look at the same draws
def drawn(norm: str, budget: int) -> Draws:
    found = repeat(SKETCH(heavy_tailed_graph(norm), [budget]), TARGETS, TIMES[budget])
    # Rarer sources would leave means too far from normal for a limit this far out.
    candidate = np.flatnonzero(square_sums(found.graph, TARGETS))
    assert found.kept[:, candidate].sum(0).min() > 400
    return found


@pytest.mark.parametrize("mutant", ["none", "plain normalisation", "2%-too-large"])
@pytest.mark.parametrize(("norm", "budget"), CASES)
def test_only_the_debiased_aggregate_is_unbiased(norm, budget, mutant):
    found = drawn(norm, budget)
    source, weight = found.graph.indices[found.edge], found.weight
    others = ~np.isin(source, TARGETS)
    if mutant == "plain normalisation":  # 1 / (k q_j), as estimator "sketch"
        mass = np.sqrt(square_sums(found.graph, TARGETS))
        plain = coefficients(found.graph)[found.edge] * mass.sum() / (budget * mass[source])
        weight = np.where(others, plain, weight)
    elif mutant == "2%-too-large":
        weight = np.where(others, 1.02 * weight, weight)
    assert (worst_z(found, weight) < LIMIT) == (mutant == "none")


def test_check_of_bias_rejects_draws_whose_corrections_do_not_fade(monkeypatch):
    def last_step_only(share: np.ndarray, others: np.ndarray) -> np.ndarray:
        draw, candidates = np.arange(share.size), share.size + others.size
        step = candidates / ((draw + 1) * (candidates - draw))
        return step * (1 - np.concatenate([[0.0], np.cumsum(share)[:-1]])) / share

    monkeypatch.setattr(draws, "_debiased", last_step_only)
    found = repeat(SKETCH(heavy_tailed_graph(), [36]), TARGETS, 1000)
    assert worst_z(found, found.weight) > LIMIT


@pytest.mark.parametrize("norm", ["mean", "weights"])
def test_estimators_are_their_formulas(norm):
    graph, budget = heavy_tailed_graph(norm), 18
    mass = np.sqrt(square_sums(graph, TARGETS))
    blocks = {
        name: SKETCH(graph, [budget], estimator=name).sample(TARGETS, 3)[0]
        for name in ("debiased", "sketch", "hajek")
    }
    plain = blocks["sketch"]
    alpha = coefficients(graph)[plain.edge.numpy()]
    source = plain.src[plain.row].numpy()
    expected = np.where(source_is_target(source), alpha, alpha * mass.sum() / budget / mass[source])
    np.testing.assert_allclose(plain.edge_weight, expected, rtol=1e-5)
    sums = np.bincount(plain.col, blocks["debiased"].edge_weight, TARGETS.size)
    scale = graph.rows(TARGETS).coefficient_sum() / sums
    hajek = blocks["debiased"].edge_weight.numpy() * scale[plain.col.numpy()]
    np.testing.assert_allclose(blocks["hajek"].edge_weight, hajek, rtol=1e-5)
    for block in blocks.values():
        assert block.prob is None
        assert block.num_src <= budget + TARGETS.size
    expected = alpha / blocks["debiased"].edge_prob.numpy()
    np.testing.assert_allclose(blocks["debiased"].edge_weight, expected, rtol=1e-5)


def source_is_target(source: np.ndarray) -> np.ndarray:
    return np.isin(source, TARGETS)


@pytest.mark.parametrize("norm", ["mean", "gcn", "weights"])
def test_budgets_for_all_candidates_give_the_full_sum_exactly(norm):
    graph = heavy_tailed_graph(norm)
    for budget in (55, 56, 500):
        (block,) = SKETCH(graph, [budget]).sample(TARGETS, 0)
        assert block.num_edges == graph.degree[TARGETS].sum()
        alpha = coefficients(graph)[block.edge.numpy()].astype(np.float32)
        np.testing.assert_array_equal(block.edge_weight.numpy(), alpha)


MASS = np.random.default_rng(2).lognormal(0, 1, 40).astype(np.float32)
MASS[7] = 0.0  # never drawn


@lru_cache
def first_draws(times: int) -> np.ndarray:
    """How often each candidate was the first to be drawn. [40]."""
    keys = [coin_key(5, step) for step in range(times)]
    candidate = np.arange(200, 240)
    source = [Successive().keep(candidate, MASS, 0, 1, key).source[0] for key in keys]
    return np.bincount(np.array(source) - 200, minlength=40)


@pytest.mark.parametrize("mutant", [False, True])
def test_the_first_draw_follows_the_masses(mutant):
    times = 12_000
    count = first_draws(times)
    share = MASS.astype(np.float64) ** (0.9 if mutant else 1.0)
    share /= share.sum()
    assert count[7] == 0
    tail = scipy.stats.chisquare(np.delete(count, 7), times * np.delete(share, 7)).pvalue
    assert (tail < FALSE_ALARM) == mutant


def test_the_second_draw_follows_the_masses_that_are_left():
    share, times = np.array([0.4, 0.3, 0.15, 0.1, 0.05]), 12_000
    pairs = list(combinations(range(5), 2))
    count = dict.fromkeys(pairs, 0)
    for step in range(times):
        source = Successive().keep(np.arange(5), share, 0, 2, coin_key(6, step)).source
        count[tuple(source.tolist())] += 1

    def tail(chance: np.ndarray) -> float:
        return float(scipy.stats.chisquare(list(count.values()), times * chance).pvalue)

    both = np.array([share[i] * share[j] for i, j in pairs])
    left = np.array([1 / (1 - share[i]) + 1 / (1 - share[j]) for i, j in pairs])
    assert tail(both * left) > FALSE_ALARM
    assert tail(both / both.sum()) < FALSE_ALARM  # mutant: two independent draws that differ


REFUSED = {
    "inclusion": (lambda g: SKETCH(g, [5]).inclusion([0], 0), "no closed form"),
    "policy exp3": (lambda g: SKETCH(g, [5], policy="exp3"), "policy='exp3' is not known"),
    "policy exp3 by hand": (
        lambda g: LayerSampler(g, [5], policy="exp3", draw=Successive()),
        "policy 'exp3' divides by inclusion probabilities, but draw Successive of LayerSampler",
    ),
    "estimator released": (
        lambda g: LayerSampler(g, [5], estimator="released", draw=Successive()),
        "estimator='released' divides by inclusion probabilities, but draw Successive",
    ),
    "estimator ht": (lambda g: SKETCH(g, [5], estimator="ht"), "estimator='ht'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_options_get_one_sentence(case, toy_graph):
    attempt, message = REFUSED[case]
    with pytest.raises(InputError, match=message) as caught:
        attempt(toy_graph)
    assert "\n" not in str(caught.value)
