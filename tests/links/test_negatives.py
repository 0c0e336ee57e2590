"""Negatives have the stated distribution, are no known links, and never depend on the batch."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.stats
import torch
from torch_geometric.sampler import NegativeSampling as PyGNegativeSampling

from bliss import Graph, InputError
from bliss.links import Negatives, NegativeSampling, negatives
from tests.conftest import heavy_tailed_pairs

FALSE_ALARM = 1e-6  # chance that a correct draw fails one of these tests
NODES, TIMES = 12, 20_000


@pytest.fixture(scope="module")
def graph() -> Graph:
    return Graph.from_edge_index(heavy_tailed_pairs(NODES, 30), NODES)


def is_known(graph: Graph, further: np.ndarray) -> np.ndarray:
    """Whether a pair is known. bool[V, V], sources by targets."""
    known = np.eye(NODES, dtype=bool)
    known[graph.indices, np.repeat(np.arange(NODES), graph.degree)] = True
    known[tuple(further)] = True
    return known


WEIGHTS = {
    "uniform": None,
    "degree": 0.75,
    "given": np.arange(NODES) % 4 * 1.0,  # some are 0
}


def shares(graph: Graph, weight) -> np.ndarray:
    if weight is None:
        return np.ones(NODES)
    return graph.degree**weight if isinstance(weight, float) else weight


def p_value(count: np.ndarray, expected: np.ndarray) -> float:
    """p-value of a chi-squared test; 0 if something happened that cannot."""
    if count[expected == 0].any():
        return 0.0
    possible = expected > 0
    return scipy.stats.chisquare(count[possible], expected[possible] * count.sum()).pvalue


@pytest.mark.parametrize("mode", ["binary", "triplet"])
@pytest.mark.parametrize("name", WEIGHTS)
def test_frequencies_are_the_stated_ones(graph, mode, name, monkeypatch):
    further = np.array([[0, 3, 5], [NODES - 1, 7, 2]])
    share = shares(graph, WEIGHTS[name])
    options = {"src_weight": WEIGHTS[name]} if mode == "binary" else {}
    drawn = Negatives(
        graph, NegativeSampling(mode, dst_weight=WEIGHTS[name], **options), 7, further
    )
    source = np.full(TIMES, 3)
    known = is_known(graph, further)
    expected = np.where(known, 0.0, share[:, None] * share)
    if mode == "triplet":
        expected = np.where(np.arange(NODES)[:, None] == 3, np.where(known, 0.0, share), 0.0)
    expected /= expected.sum()
    assert (expected > 0).sum() > 3

    def frequencies() -> np.ndarray:
        src, dst = drawn.draw(np.arange(TIMES), source, epoch=0)
        return np.bincount(src * NODES + dst, minlength=NODES**2).reshape(NODES, NODES)

    assert p_value(frequencies(), expected) > FALSE_ALARM
    assert drawn.num_known == 0
    other = np.where(expected > 0, expected * (1 + 0.5 * (np.arange(NODES) % 2)), 0)
    assert p_value(frequencies(), other / other.sum()) < FALSE_ALARM  # the test would notice
    monkeypatch.setattr(negatives, "TRIES", 1)  # a mutant that keeps known links
    with pytest.warns(UserWarning, match="negatives of a batch are known links"):
        assert p_value(frequencies(), expected) < FALSE_ALARM


def test_a_negative_depends_on_seed_epoch_and_link_alone(graph):
    sampling = NegativeSampling("triplet", 2)
    source = np.arange(40) % NODES

    def draw(index: np.ndarray, epoch: int = 0, seed: int = 1) -> np.ndarray:
        drawn = Negatives(graph, sampling, seed).draw(index, source[index], epoch)[1]
        return drawn.reshape(2, -1).T  # [B, amount]

    whole = draw(np.arange(40))
    for part in (np.arange(7), np.array([30, 3, 12])):
        np.testing.assert_array_equal(draw(part), whole[part])
    assert not np.array_equal(whole[:, 0], whole[:, 1])
    assert not np.array_equal(draw(np.arange(40), epoch=1), whole)
    assert not np.array_equal(draw(np.arange(40), seed=2), whole)


def test_a_node_that_is_linked_to_all_others_is_told_once_and_counted():
    star = Graph.from_edge_index([[0] * 5, [1, 2, 3, 4, 5]], 6)
    drawn = Negatives(star, NegativeSampling("triplet", 3))
    source = np.array([0, 1])
    with pytest.warns(UserWarning, match="3 negatives of a batch .* nodes such as 0 are") as told:
        drawn.draw(np.arange(2), source, 0)
        drawn.draw(np.arange(2), source, 1)
    assert len(told) == 1
    assert drawn.num_known == 6


def test_settings_of_pyg_are_understood(graph):
    weight = torch.arange(NODES).float()
    settings = {"mode": "binary", "amount": 2.5, "dst_weight": weight}
    for given in (PyGNegativeSampling(**settings), settings):
        made = NegativeSampling.of(given)
        assert (made.mode, made.amount, made.src_weight) == ("binary", 2.5, None)
        assert made.dst_weight is weight
        assert NegativeSampling.of(made) is made
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            src, dst = Negatives(graph, made).draw(np.arange(3), np.arange(3), 0)
        assert src.size == dst.size == 8  # ceil(2.5 * 3)
    assert NegativeSampling.of("triplet").amount == 1
    assert NegativeSampling.of(None) is None


BAD = {
    "neg_sampling='ternary' is not known: choose one of binary, triplet": "ternary",
    "neg_sampling=3 is not known: pass": 3,
    r"neg_sampling=\{'amount': 2\} is not known": {"amount": 2},
    r"neg_sampling=\{'mode': 'binary', 'count': 2\} is not": {"mode": "binary", "count": 2},
    "amount=0 must be a finite number above 0": {"mode": "binary", "amount": 0},
    "amount=1.5 must be a whole number": {"mode": "triplet", "amount": 1.5},
    'src_weight has no effect with "triplet"': {"mode": "triplet", "src_weight": 1.0},
    r"dst_weight is float64 of shape \(3,\), but .* 12 nodes": {
        "mode": "binary",
        "dst_weight": [0.5, 1, 2],
    },
    "src_weight must be finite, not negative and above 0": {
        "mode": "binary",
        "src_weight": np.zeros(NODES),
    },
    "dst_weight must be finite": {"mode": "triplet", "dst_weight": np.full(NODES, np.nan)},
    "dst_weight=-1.0 must be a finite number, 0 or": {"mode": "triplet", "dst_weight": -1},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_settings_get_one_sentence(graph, message):
    with pytest.raises(InputError, match=message) as caught:
        Negatives(graph, NegativeSampling.of(BAD[message]))
    assert "\n" not in str(caught.value)
