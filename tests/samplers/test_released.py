"""The released code's estimator: the policy's shares over p, normalised at each target."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bliss import Bliss
from tests.statistics import train

TARGETS = np.array([0, 2, 5, 9, 14])


@pytest.mark.parametrize("policy", ["exp3-released", "static"])
def test_weights_are_shares_over_chances_normalised(toy_graph, policy):
    sampler = Bliss(toy_graph, [12], policy=policy, estimator="released")
    size = np.random.default_rng(0).lognormal(0, 1, (60, 1)) * 7
    train(sampler, TARGETS, size, steps=50)
    (block,) = sampler.sample(TARGETS, 3)
    offset, slope, value, _ = sampler.policy.edge_mass(0, sampler.graph.rows(TARGETS))
    for target in range(block.num_dst):
        kept = slice(*block.indptr[target : target + 2].tolist())
        share = np.full(block.edge[kept].numel(), offset[target])
        if value.size:
            share += slope[target] * value[block.edge[kept].numpy()]
        expected = share / block.prob[block.row[kept]].numpy()
        np.testing.assert_allclose(
            block.edge_weight[kept].numpy(), expected / expected.sum(), rtol=1e-5
        )
    rows = torch.zeros(block.num_dst).index_add(0, block.col, block.edge_weight)
    torch.testing.assert_close(rows, torch.ones(block.num_dst))
