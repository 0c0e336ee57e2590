"""A survey sets the masses of `node` to the best ones; news goes on moving them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bliss import Bliss, Graph, InputError
from bliss.feedback import ATTENTION_TABLE, Survey, encode_attention
from bliss.policies import node
from tests.conftest import heavy_tailed_pairs

NODES = 100
TARGETS = np.arange(0, NODES, 5)
FORMS = ("edge", "node")
ROUNDING = {"edge": 3 / 32, "node": 8 / 32}
"""Bounds of log masses: half a step of 1/16 for each byte on the way, twice for the fitted scores,
which are relative to each other."""


@pytest.fixture(autouse=True)
def _fit_to_the_end(monkeypatch):
    monkeypatch.setattr(node, "FIT_ROUNDS", 300)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return Graph.from_edge_index(np.unique(heavy_tailed_pairs(NODES, 800), axis=1), NODES)


def sizes(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(0, 1, NODES).astype(np.float32)


def attention(graph: Graph, seed: int = 2, noise: float = 1.0) -> np.ndarray:
    """Softmax of a score per source and noise per edge. float32[E]."""
    random = np.random.default_rng(seed)
    score = random.normal(0, 1.5, NODES)[graph.indices] + noise * random.normal(
        size=graph.num_edges
    )
    raised, col = np.exp(score), np.repeat(np.arange(NODES), np.diff(graph.indptr))
    return (raised / np.bincount(col, raised)[col]).astype(np.float32)


def best_logs(graph: Graph, size: np.ndarray, alpha: np.ndarray, dst: np.ndarray) -> np.ndarray:
    """log of |h_j| sqrt(sum over the targets of alpha_ij^2), -inf for other nodes. [V]."""
    is_target = np.isin(np.repeat(np.arange(NODES), np.diff(graph.indptr)), dst)
    square = np.bincount(graph.indices, is_target * alpha.astype(np.float64) ** 2, NODES)
    with np.errstate(divide="ignore"):
        return np.log(size * np.sqrt(square))


def worst(sampler: Bliss, best: np.ndarray, dst: np.ndarray, layer: int = 0) -> float:
    """Largest difference of log masses from the best ones, up to a common factor."""
    candidate, mass = sampler._masses(sampler.graph.rows(dst), layer, dst)
    gap = np.log(mass.astype(np.float64)) - best[candidate]
    gap = gap[np.isfinite(best[candidate])]
    return float(np.abs(gap - np.median(gap)).max())


def surveyed(graph: Graph, form: str, layers: int = 1, **options) -> Bliss:
    return Bliss(graph, [30] * layers, survey_attention=form, **({"eta": 1e-6} | options))


def test_masses_after_a_survey_are_the_best_ones_for_any_attention(graph):
    sampler, size, alpha = surveyed(graph, "edge"), sizes(), attention(graph)
    best = best_logs(graph, size, alpha, TARGETS)
    assert worst(sampler, best, TARGETS) > 1  # the mutant ignores surveys
    sampler.policy.survey(0, Survey(size, encode_attention(alpha)))
    assert worst(sampler, best, TARGETS) < ROUNDING["edge"]


def test_a_score_per_node_gives_the_best_masses_if_it_explains_attention(graph):
    size, alpha = sizes(), attention(graph, noise=0.0)
    sampler, best = surveyed(graph, "node"), best_logs(graph, size, alpha, TARGETS)
    sampler.policy.survey(0, Survey(size, encode_attention(alpha)))
    assert worst(sampler, best, TARGETS) < ROUNDING["node"]
    other = best_logs(graph, size, attention(graph, noise=1.0), TARGETS)
    assert worst(sampler, other, TARGETS) > 1  # the test would notice other attention


@pytest.mark.parametrize("form", FORMS)
def test_without_attention_masses_use_the_given_coefficients(graph, form):
    sampler, size = surveyed(graph, form), sizes()
    alpha = np.repeat(1 / np.diff(graph.indptr), np.diff(graph.indptr))
    sampler.policy.survey(0, Survey(size))
    assert worst(sampler, best_logs(graph, size, alpha, TARGETS), TARGETS) < ROUNDING["edge"]


@pytest.mark.parametrize("form", FORMS)
def test_a_survey_belongs_to_its_layer(graph, form):
    sampler, alpha = surveyed(graph, form, layers=2), attention(graph, noise=0.0)
    logs = [best_logs(graph, sizes(n), alpha, TARGETS) for n in (1, 5)]
    for layer, seed in enumerate((1, 5)):
        sampler.policy.survey(layer, Survey(sizes(seed), encode_attention(alpha)))
    for layer in (0, 1):
        assert worst(sampler, logs[layer], TARGETS, layer) < ROUNDING[form]
        assert worst(sampler, logs[layer], TARGETS, 1 - layer) > 1


def train(
    sampler: Bliss, size: np.ndarray, alpha: np.ndarray, steps: int, noise: float = 0.0
) -> None:
    """Show the sampler sizes and attention, renormalised over the kept edges, with noise."""
    random = np.random.default_rng(0)
    for step in range(steps):
        blocks = sampler.sample(random.permutation(NODES)[:20], step)
        for block in blocks:
            shown = size * np.exp(noise * random.normal(size=NODES)).astype(np.float32)
            weight = torch.from_numpy(alpha)[block.edge]
            total = torch.zeros(block.num_dst).index_add_(0, block.col, weight)
            block.observe(torch.from_numpy(shown)[block.src][:, None], weight / total[block.col])
        sampler.update(blocks)


@pytest.mark.parametrize("form", FORMS)
def test_news_moves_what_was_surveyed(graph, form):
    # Sizes and scores change after the survey; the change of attention is one of a score per node.
    before, after = attention(graph, noise=0.0), attention(graph, seed=8, noise=0.0)
    best = best_logs(graph, sizes(9), after, TARGETS)
    sampler = surveyed(graph, form)
    sampler.policy.survey(0, Survey(sizes(), encode_attention(before)))
    stale = worst(sampler, best, TARGETS)
    train(sampler, sizes(9), after, steps=150)
    assert worst(sampler, best, TARGETS) < 0.35 < 1.5 < stale


@pytest.mark.parametrize("form", FORMS)
def test_noise_hardly_moves_what_was_surveyed(graph, form):
    size, alpha = sizes(), attention(graph, noise=0.0)
    sampler, forgetful = surveyed(graph, form), surveyed(graph, form)
    best = best_logs(graph, size, alpha, TARGETS)
    for one in (sampler, forgetful):
        train(one, size, alpha, steps=20, noise=1.0)  # W is known
        one.policy.survey(0, Survey(size, encode_attention(alpha)))
    exact = worst(sampler, best, TARGETS)
    forgetful.policy._size.prior = lambda layer: 0.0  # the mutant believes every deviation
    for one in (sampler, forgetful):
        train(one, size, alpha, steps=20, noise=1.0)
    assert worst(sampler, best, TARGETS) < exact + 0.5
    assert worst(forgetful, best, TARGETS) > exact + 1


@pytest.mark.parametrize("form", FORMS)
def test_the_common_level_of_news_does_not_matter(graph, form):
    # In training all norms may be larger, through dropout: seen nodes must not gain on unseen ones.
    size, alpha = sizes(), attention(graph, noise=0.0)
    sampler, best = surveyed(graph, form), best_logs(graph, size, alpha, TARGETS)
    sampler.policy.survey(0, Survey(size, encode_attention(alpha)))
    exact = worst(sampler, best, TARGETS)
    train(sampler, 20 * size, alpha, steps=10)
    assert worst(sampler, best, TARGETS) < exact + 0.1


def test_an_edge_without_surveyed_attention_stays_reachable(graph):
    alpha = np.full(graph.num_edges, 1e-30, np.float32)
    alpha[graph.indptr[:-1]] = 1.0  # each target attends to its first source alone
    sampler = surveyed(graph, "edge", eta=0.01)
    sampler.policy.survey(0, Survey(np.ones(NODES, np.float32), encode_attention(alpha)))
    offset, slope, value, table = sampler.policy.edge_mass(0, sampler.graph.rows(TARGETS))
    assert table is ATTENTION_TABLE
    degree = np.diff(graph.indptr)[TARGETS]
    np.testing.assert_allclose(offset, 0.01 / degree)
    row = offset + slope * table[value[graph.indptr[TARGETS]]]
    np.testing.assert_allclose(row, 0.99 + 0.01 / degree, rtol=1e-3)


def test_a_survey_of_an_all_zero_layer_is_ignored(graph):
    sampler = surveyed(graph, "edge")
    before = {name: array.clone() for name, array in sampler.state_dict().items()}
    sampler.policy.survey(
        0, Survey(np.zeros(NODES, np.float32), encode_attention(attention(graph)))
    )
    after = sampler.state_dict()
    assert set(before) == set(after)
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("form", FORMS)
def test_a_saved_survey_is_loaded_by_a_new_sampler(graph, form):
    one, other, size, alpha = (
        surveyed(graph, form),
        surveyed(graph, form),
        sizes(),
        attention(graph),
    )
    one.policy.survey(0, Survey(size, encode_attention(alpha)))
    train(one, size, alpha, steps=5)
    saved = {name: array.clone() for name, array in one.state_dict().items()}
    other.load_state_dict(saved)
    for sampler in (one, other):
        train(sampler, sizes(3), alpha, steps=5)
    ours, theirs = one.state_dict(), other.state_dict()
    assert set(ours) == set(theirs)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert not all(torch.equal(ours[name], saved[name]) for name in ours)
    plain = surveyed(graph, form)
    other.load_state_dict(plain.state_dict())  # from before the survey
    assert set(other.state_dict()) == set(plain.state_dict())


def test_a_survey_of_another_form_or_graph_is_refused_and_nothing_changes(graph):
    one = surveyed(graph, "edge")
    one.policy.survey(0, Survey(sizes(), encode_attention(attention(graph))))
    other = surveyed(graph, "node")
    other.policy.survey(0, Survey(sizes(), encode_attention(attention(graph))))
    before = {name: array.clone() for name, array in other.state_dict().items()}
    with pytest.raises(InputError, match="the saved state has"):
        other.load_state_dict(one.state_dict())
    name = "node.0.base_attention"
    with pytest.raises(InputError, match=rf"the saved {name} is uint8\[3\]"):
        one.load_state_dict(one.state_dict() | {name: torch.zeros(3, dtype=torch.uint8)})
    after = other.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    with pytest.raises(InputError, match="survey_attention='both'"):
        Bliss(graph, [5], survey_attention="both")


@pytest.mark.parametrize(("form", "per_edge"), [("edge", 1), ("node", 0)])
def test_a_survey_costs_a_byte_per_node_and_one_per_edge_or_node(graph, form, per_edge):
    sampler = surveyed(graph, form, layers=3)
    before = sum(array.nbytes for array in sampler.state_dict().values())
    for layer in range(3):
        sampler.policy.survey(
            layer, Survey(sizes(), None if layer else encode_attention(attention(graph)))
        )
    cost = sum(array.nbytes for array in sampler.state_dict().values()) - before
    assert cost == 3 * NODES + (graph.num_edges if per_edge else NODES)
