"""Full neighbourhoods are full, exact, and found once while the seeds stay the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bliss import PLADIES, InputError
from bliss.kernels import nodewise
from bliss.samplers import Full
from tests.statistics import coefficients, heavy_tailed_graph


@pytest.mark.parametrize("norm", ["mean", "gcn", "weights"])
def test_every_in_edge_is_there_with_its_coefficient(norm):
    graph = heavy_tailed_graph(norm)
    seeds = np.array([5, 0, 30])
    blocks = Full(graph, layers=2).sample(seeds, 0)
    for block in blocks:
        expected = [np.arange(*graph.indptr[i : i + 2]) for i in block.dst.tolist()]
        np.testing.assert_array_equal(block.edge.numpy(), np.concatenate(expected))
        alpha = coefficients(graph)[block.edge.numpy()]
        np.testing.assert_allclose(block.edge_weight.numpy(), alpha, rtol=1e-6)
        assert (block.prob == 1).all()
        assert (block.edge_prob == 1).all()


def test_it_is_the_layer_wise_block_of_a_budget_for_all():
    graph = heavy_tailed_graph()
    ours = Full(graph, layers=2).sample(np.arange(7), 0)
    theirs = PLADIES(graph, [60, 60]).sample(np.arange(7), 0)
    for one, other in zip(ours, theirs, strict=True):
        for name in ("src", "indptr", "row", "edge", "edge_weight"):
            assert torch.equal(getattr(one, name), getattr(other, name)), name


def test_the_same_seeds_are_looked_up_once_and_observed_apart(toy_graph, monkeypatch):
    calls = []
    original = nodewise.all_edges
    monkeypatch.setattr(nodewise, "all_edges", lambda *a: calls.append(1) or original(*a))
    sampler = Full(toy_graph, layers=2)
    first = sampler.sample([1, 2], 0)
    first[0].observe(torch.ones(first[0].num_src, 1))
    again = sampler.sample([1, 2], 1)
    assert len(calls) == 2
    assert again[0].observation is None
    assert again[0].row.data_ptr() == first[0].row.data_ptr()
    assert sampler.sample([2, 1], 2)[1].dst.tolist() == [2, 1]
    assert len(calls) == 4


def test_a_number_of_layers_is_needed(toy_graph):
    with pytest.raises(InputError, match="layers=None"):
        Full(toy_graph)
